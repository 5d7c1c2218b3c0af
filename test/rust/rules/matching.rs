// SPDX-License-Identifier: GPL-3.0-or-later
//! What consent rules make of calls: matching, precedence, scopes, and the floor under dangerous
//! calls.

use std::path::Path;

use agent_q_core::rules::{Effect, OtherArguments, Outcome, Rule, RuleBook, Scope, TurnPlace};
use agent_q_core::trust::{Provenance, SafetyLevel};
use serde_json::json;

use crate::calls::*;

#[test]
fn without_rules_only_dangerous_calls_ask() {
    assert_eq!(
        given("read_file", SafetyLevel::Safe, json!({}), &["a"]).by(&[]),
        Outcome::Run
    );
    assert_eq!(eval("1").by(&[]), Outcome::Run);
    assert_eq!(edit("a").by(&[]), Outcome::Ask);
}

#[test]
fn deny_wins_over_ask_over_allow() {
    let (allow, ask, deny) = (
        rule(Effect::Allow, "*"),
        rule(Effect::Ask, "eval_*"),
        rule(Effect::Deny, "eval_form"),
    );
    assert_eq!(eval("1").by(std::slice::from_ref(&allow)), Outcome::Run);
    assert_eq!(eval("1").by(&[allow.clone(), ask.clone()]), Outcome::Ask);
    assert_eq!(eval("1").by(&[allow, ask, deny]), Outcome::Deny);
}

#[test]
fn only_a_rule_for_exactly_that_lets_dangerous_calls_run() {
    let call = edit("src/a.lisp");
    let narrow = on_path(Effect::Allow, "edit_file", "src/**");
    assert_eq!(call.by(std::slice::from_ref(&narrow)), Outcome::Ask);
    assert_eq!(call.by(&[waived(narrow.clone())]), Outcome::Run);
    assert_eq!(edit("lib/a.lisp").by(&[waived(narrow)]), Outcome::Ask);
    for broad in [
        rule(Effect::Allow, "edit_file"),
        on_path(Effect::Allow, "edit_*", "src/**"),
        on_path(Effect::Allow, "edit_file", "**"),
        on_path(Effect::Allow, "edit_file", "*"),
        on_path(Effect::Allow, "edit_file", "**/*"),
        on_path(Effect::Allow, "edit_file", "{**,a}"),
        on_path(Effect::Allow, "edit_file", "/**"),
        with_argument(Effect::Allow, "edit_file", "path", ".*"),
        with_argument(Effect::Allow, "edit_file", "path", "(?s).+|"),
    ] {
        let error = waived(broad).check().unwrap_err();
        assert!(
            error.to_string().contains("to allow dangerous calls"),
            "{error}"
        );
    }
}

#[test]
fn foreign_text_in_the_turn_ends_auto_approval() {
    let allow = waived(on_path(Effect::Allow, "edit_file", "src/**"));
    let mut call = edit("src/a.lisp");
    call.provenance = Provenance::Foreign;
    let explanation = book(&[allow]).explain(&call.call());
    assert_eq!(explanation.outcome, Outcome::Ask);
    assert!(
        explanation.reason.contains("outside the project"),
        "{}",
        explanation.reason
    );
    let mut cautious = eval("1");
    cautious.provenance = Provenance::Foreign;
    assert_eq!(
        cautious.by(&[rule(Effect::Allow, "eval_form")]),
        Outcome::Run
    );
}

#[test]
fn patterns_allow_whole_texts_and_restrain_parts() {
    let tests = with_argument(
        Effect::Allow,
        "eval_form",
        "form",
        r"\(run-tests\)|\(test-[a-z]+\)",
    );
    let allow = [waived(tests)];
    let dangerous = |form: &str| Given {
        level: SafetyLevel::Dangerous,
        ..eval(form)
    };
    assert_eq!(dangerous("(run-tests)").by(&allow), Outcome::Run);
    assert_eq!(dangerous("(test-all)").by(&allow), Outcome::Run);
    for form in [
        "(run-tests) (delete-file \"x\")",
        "x(run-tests)",
        "(test-all)\n",
        "\n(run-tests)",
    ] {
        assert_eq!(dangerous(form).by(&allow), Outcome::Ask, "{form}");
    }
    let deny = [with_argument(Effect::Deny, "*", "form", "(?i)delete-file")];
    assert_eq!(eval("(list (DELETE-FILE p))").by(&deny), Outcome::Deny);
    let number = given(
        "x",
        SafetyLevel::Safe,
        json!({"n": 5, "l": [1, "a"], "z": null}),
        &[],
    );
    assert_eq!(
        number.by(&[with_argument(Effect::Deny, "x", "n", "^5$")]),
        Outcome::Deny
    );
    assert_eq!(
        number.by(&[with_argument(Effect::Deny, "x", "l", r#"^\[1,"a"\]$"#)]),
        Outcome::Deny
    );
    assert_eq!(
        number.by(&[with_argument(Effect::Deny, "x", "z", "")]),
        Outcome::Run
    );
    for trick in ["a)|(b", "(?x) a #", "("] {
        assert!(
            with_argument(Effect::Allow, "x", "n", trick)
                .check()
                .is_err(),
            "{trick}"
        );
    }
}

#[test]
fn paths_match_from_the_root_by_name_and_absolutely() {
    let table: &[(&str, &str, bool, bool)] = &[
        // glob, file, allowed, denied
        ("src/**", "src/a/b.lisp", true, true),
        ("src/*.lisp", "src/a/b.lisp", false, false),
        ("*.lisp", "src/a/b.lisp", true, true),
        ("./*.lisp", "src/b.lisp", false, false),
        ("./*.lisp", "b.lisp", true, true),
        ("SRC/**", "src/b.lisp", false, true),
        ("src", "src/b.lisp", false, true),
        ("./src", "src/b.lisp", false, true),
        ("/home/me/project/src/*", "src/b.lisp", true, true),
        ("/home/me/*.pem", "../x.pem", false, false),
        ("*.pem", "/etc/x.pem", false, true),
        ("**", "/etc/passwd", false, true),
        ("/etc/**", "/etc/passwd", true, true),
    ];
    for (glob, file, allowed, denied) in table {
        let call = edit(file);
        let mut rule = on_path(Effect::Allow, "edit_file", glob);
        rule.note = "why".into();
        let matches = |rule: &Rule| {
            !book(std::slice::from_ref(rule))
                .explain(&call.call())
                .matching
                .is_empty()
        };
        assert_eq!(matches(&rule), *allowed, "allow {glob} {file}");
        rule.effect = Effect::Deny;
        assert_eq!(matches(&rule), *denied, "deny {glob} {file}");
    }
    for bad in ["", "../x", "src/../../x", "[a"] {
        assert!(on_path(Effect::Deny, "*", bad).check().is_err(), "{bad}");
    }
}

#[test]
fn allowing_wants_every_file_and_denying_any() {
    let paths = ["src/a.lisp", "secret/b"];
    let call = given("move_file", SafetyLevel::Dangerous, json!({}), &paths);
    assert_eq!(
        call.by(&[waived(on_path(Effect::Allow, "move_file", "src/**"))]),
        Outcome::Ask
    );
    assert_eq!(
        call.by(&[waived(on_path(
            Effect::Allow,
            "move_file",
            "{src,secret}/**"
        ))]),
        Outcome::Run
    );
    assert_eq!(
        call.by(&[on_path(Effect::Deny, "*", "secret/**")]),
        Outcome::Deny
    );
    let none = eval("1");
    assert_eq!(
        none.by(&[on_path(Effect::Deny, "*", "secret/**")]),
        Outcome::Run
    );
}

#[test]
fn an_unknown_package_or_connection_restrains_and_does_not_allow() {
    let in_package = |effect| Rule {
        package: Some("my-*".into()),
        ..rule(effect, "eval_form")
    };
    let mut call = eval("1");
    call.package = Some("MY-APP");
    assert_eq!(call.by(&[in_package(Effect::Ask)]), Outcome::Ask);
    assert_eq!(
        book(&[in_package(Effect::Allow)])
            .explain(&call.call())
            .matching
            .len(),
        1
    );
    call.package = Some("OTHER");
    assert_eq!(call.by(&[in_package(Effect::Ask)]), Outcome::Run);
    call.package = None;
    assert_eq!(call.by(&[in_package(Effect::Ask)]), Outcome::Ask);
    assert!(
        book(&[in_package(Effect::Allow)])
            .explain(&call.call())
            .matching
            .is_empty()
    );
    let production = Rule {
        connection: Some("production".into()),
        ..rule(Effect::Deny, "*")
    };
    call.connection = Some("sbcl");
    assert_eq!(call.by(std::slice::from_ref(&production)), Outcome::Run);
    call.connection = Some("Production");
    assert_eq!(call.by(&[production]), Outcome::Deny);
}

#[test]
fn scopes_end() {
    let call = eval("1");
    let mut book = RuleBook::open(Path::new("/nonexistent/rules.json"));
    for (scope, outcome) in [
        (Scope::Once(3), Outcome::Ask),
        (Scope::Once(4), Outcome::Run),
        (Scope::Turn(2), Outcome::Ask),
        (Scope::Turn(1), Outcome::Run),
        (Scope::Chat(1), Outcome::Ask),
        (Scope::Chat(2), Outcome::Run),
    ] {
        let id = book
            .add(Rule::new(Effect::Ask, "*", scope.clone()))
            .unwrap();
        assert_eq!(book.decide(&call.call()), outcome, "{scope:?}");
        assert_eq!(book.rules().filter(|rule| rule.id == id).count(), 1);
        book.forget(&scope);
        assert_eq!(book.decide(&call.call()), Outcome::Run);
    }
}

#[test]
fn explanations_name_the_rule() {
    let mut deny = on_path(Effect::Deny, "*", "secret/**");
    deny.scope = Scope::Chat(1);
    let book = book(&[rule(Effect::Ask, "edit_file"), deny]);
    let explanation = book.explain(&edit("secret/x").call());
    assert_eq!(explanation.outcome, Outcome::Deny);
    assert_eq!(explanation.matching.len(), 2);
    let id = explanation.rule.unwrap();
    // Both are for a chat, so in memory alone, and counted there.
    let denying = book.rules().find(|rule| rule.id == id).unwrap();
    assert_eq!(denying.name(), "c2");
    assert_eq!(
        explanation.reason,
        "Rule c2: Deny * on files matching secret/**, for this chat."
    );
    let explanation = book.explain(&eval("1").call());
    assert_eq!(
        explanation.reason,
        "Cautious calls run unless a rule says otherwise."
    );
}

#[test]
fn the_offered_rule_allows_the_same_call_and_no_other() {
    let file = edit("src/[a].lisp");
    let rule = Rule::allowing(&file.call(), Scope::Project(PROJECT.into()));
    assert_eq!(
        rule.describe(),
        "Allow edit_file on files matching ./src/[[]a[]].lisp, in the project /home/me/project, even when dangerous."
    );
    assert_eq!(file.by(std::slice::from_ref(&rule)), Outcome::Run);
    assert_eq!(edit("src/a.lisp").by(&[rule]), Outcome::Ask);

    let mut form = Given {
        level: SafetyLevel::Dangerous,
        ..eval("(run \"ls\")")
    };
    form.package = Some("CL-USER");
    let rule = Rule::allowing(&form.call(), Scope::Chat(1));
    assert_eq!(
        rule.describe(),
        "Allow eval_form, form = \"(run \\\"ls\\\")\", with no other arguments, in package CL-USER, for this chat, even when dangerous."
    );
    // Beside the form itself it is said in short.
    assert_eq!(
        rule.describe_beside_its_call(),
        "Always run exactly this form, in this chat."
    );
    assert_eq!(form.by(std::slice::from_ref(&rule)), Outcome::Run);
    form.arguments.insert("frame".into(), json!(3));
    assert_eq!(form.by(std::slice::from_ref(&rule)), Outcome::Ask);
    let bare = given("run_tests", SafetyLevel::Dangerous, json!({}), &[]);
    let rule = Rule::allowing(&bare.call(), Scope::Chat(1));
    assert_eq!(rule.other_arguments, OtherArguments::None);
    assert_eq!(bare.by(std::slice::from_ref(&rule)), Outcome::Run);
    let more = given(
        "run_tests",
        SafetyLevel::Dangerous,
        json!({"system": "x"}),
        &[],
    );
    assert_eq!(more.by(&[rule]), Outcome::Ask);
}

#[test]
fn tools_that_are_always_denied_need_not_be_offered() {
    let folder = tempfile::TempDir::new().unwrap();
    let (here, elsewhere) = (folder.path().canonicalize().unwrap(), Path::new("/"));
    let mut book = RuleBook::open(&here.join("rules.json"));
    for (tool, scope) in [
        ("delete_file", Scope::Always),
        ("trace_*", Scope::Chat(1)),
        ("move_file", Scope::Project(here.clone())),
        ("eval_form", Scope::Turn(1)),
    ] {
        book.add(Rule::new(Effect::Deny, tool, scope)).unwrap();
    }
    book.add(on_path(Effect::Deny, "edit_file", "x/**"))
        .unwrap();
    let mut without = Rule::new(Effect::Deny, "run_tests", Scope::Always);
    without.other_arguments = OtherArguments::None;
    book.add(without).unwrap();
    let denied = |chat, root| {
        let place = TurnPlace::new(1, chat, Some(root), None);
        let tools = [
            "delete_file",
            "trace_function",
            "move_file",
            "eval_form",
            "edit_file",
            "run_tests",
        ];
        let denied = tools.into_iter().filter(|it| book.denies_all(it, &place));
        denied.collect::<Vec<_>>()
    };
    assert_eq!(
        denied(1, &*here),
        ["delete_file", "trace_function", "move_file"]
    );
    assert_eq!(denied(2, elsewhere), ["delete_file"]);
}
