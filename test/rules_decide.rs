// SPDX-License-Identifier: GPL-3.0-or-later
//! What consent rules make of calls: matching, precedence, the floor under dangerous calls, and
//! the properties that must hold whatever the rules are.

use std::path::{Path, PathBuf};

use agent_q_core::rules::{
    ArgumentPattern, Call, Effect, Floor, OtherArguments, Outcome, Pattern, Provenance, Rule,
    RuleBook, Scope,
};
use agent_q_core::tool::SafetyLevel;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const PROJECT: &str = "/home/me/project";

/// A call that owns what it is about.
#[derive(Debug, Clone)]
struct Given {
    tool: &'static str,
    level: SafetyLevel,
    arguments: Map<String, Value>,
    paths: Vec<PathBuf>,
    package: Option<&'static str>,
    connection: Option<&'static str>,
    provenance: Provenance,
}

fn given(tool: &'static str, level: SafetyLevel, arguments: Value, paths: &[&str]) -> Given {
    Given {
        tool,
        level,
        arguments: arguments.as_object().cloned().unwrap(),
        paths: paths
            .iter()
            .map(|path| Path::new(PROJECT).join(path))
            .collect(),
        package: None,
        connection: None,
        provenance: Provenance::Own,
    }
}

impl Given {
    fn call(&self) -> Call<'_> {
        Call {
            call: 3,
            turn: 2,
            chat: 1,
            tool: self.tool,
            level: self.level,
            arguments: &self.arguments,
            paths: &self.paths,
            package: self.package,
            connection: self.connection,
            project: Some(Path::new(PROJECT)),
            provenance: self.provenance,
        }
    }

    fn by(&self, rules: &[Rule]) -> Outcome {
        book(rules).decide(&self.call())
    }
}

/// A book whose rules are all in memory, as rules of chat 1 where they would last.
fn book(rules: &[Rule]) -> RuleBook {
    let mut book = RuleBook::open(Path::new("/nonexistent/rules.json"));
    for rule in rules {
        let mut rule = rule.clone();
        if rule.scope.lasts() {
            rule.scope = Scope::Chat(1);
        }
        book.add(rule).unwrap();
    }
    book
}

fn rule(effect: Effect, tool: &str) -> Rule {
    Rule::new(effect, tool, Scope::Always)
}

fn on_path(effect: Effect, tool: &str, path: &str) -> Rule {
    Rule {
        path: Some(path.into()),
        ..rule(effect, tool)
    }
}

fn with_argument(effect: Effect, tool: &str, name: &str, regex: &str) -> Rule {
    let pattern = Pattern::Matches(regex.into());
    let arguments = vec![ArgumentPattern {
        name: name.into(),
        pattern,
    }];
    Rule {
        arguments,
        ..rule(effect, tool)
    }
}

fn waived(rule: Rule) -> Rule {
    Rule {
        dangerous: Floor::Waived,
        ..rule
    }
}

fn edit(path: &str) -> Given {
    given(
        "edit_file",
        SafetyLevel::Dangerous,
        json!({"path": path}),
        &[path],
    )
}

fn eval(form: &str) -> Given {
    given(
        "eval_form",
        SafetyLevel::Cautious,
        json!({"form": form}),
        &[],
    )
}

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
    assert_eq!(
        explanation.reason,
        format!("Rule {id}: Deny * on files matching secret/**, for this chat.")
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
    let mut book = book(&[rule(Effect::Deny, "delete_file")]);
    // In a chat only, so far.
    assert!(!book.denies_all("delete_file"));
    let folder = tempfile::TempDir::new().unwrap();
    book = RuleBook::open(&folder.path().join("rules.json"));
    book.add(rule(Effect::Deny, "delete_file")).unwrap();
    book.add(on_path(Effect::Deny, "edit_file", "x/**"))
        .unwrap();
    assert!(book.denies_all("delete_file") && !book.denies_all("edit_file"));
}

fn an_effect() -> impl Strategy<Value = Effect> {
    prop::sample::select(vec![Effect::Allow, Effect::Ask, Effect::Deny])
}

fn a_rule() -> impl Strategy<Value = Rule> {
    let tool = prop::sample::select(vec!["*", "edit_*", "edit_file", "eval_form", "read_file"]);
    let path = prop::option::of(prop::sample::select(vec![
        "src/**", "**", "*.lisp", "secret/*", "/**",
    ]));
    let form = prop::option::of(prop::sample::select(vec!["a", ".*", "[ab]+", "b|c"]));
    let package = prop::option::of(prop::sample::select(vec!["A", "b*", "*"]));
    let scope = prop::sample::select(vec![
        Scope::Once(3),
        Scope::Turn(2),
        Scope::Chat(1),
        Scope::Chat(9),
    ]);
    (an_effect(), tool, path, form, package, scope, any::<bool>()).prop_map(
        |(effect, tool, path, form, package, scope, dangerous)| {
            let mut rule = match form {
                Some(regex) => with_argument(effect, tool, "form", regex),
                None => rule(effect, tool),
            };
            rule.path = path.map(str::to_owned);
            rule.package = package.map(str::to_owned);
            rule.scope = scope;
            if dangerous {
                rule.dangerous = Floor::Waived;
            }
            rule
        },
    )
}

fn a_call() -> impl Strategy<Value = Given> {
    let level = prop::sample::select(vec![
        SafetyLevel::Safe,
        SafetyLevel::Cautious,
        SafetyLevel::Dangerous,
    ]);
    let tool = prop::sample::select(vec!["edit_file", "eval_form", "read_file", "move_file"]);
    let paths = prop::collection::vec(
        prop::sample::select(vec!["src/a.lisp", "src/x/b.el", "secret/k", "/etc/passwd"]),
        0..3,
    );
    let form = prop::option::of("[abc]{0,3}");
    let package = prop::option::of(prop::sample::select(vec!["A", "BB", "C"]));
    let provenance = prop::sample::select(vec![Provenance::Own, Provenance::Foreign]);
    (level, tool, paths, form, package, provenance).prop_map(
        |(level, tool, paths, form, package, provenance)| {
            let arguments = form.map_or(json!({}), |form| json!({ "form": form }));
            Given {
                package,
                provenance,
                ..given(tool, level, arguments, &paths)
            }
        },
    )
}

fn usable(rules: Vec<Rule>) -> Vec<Rule> {
    rules
        .into_iter()
        .filter(|rule| rule.check().is_ok())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// A deny rule that matches alone denies among any others.
    #[test]
    fn deny_always_wins(rules in prop::collection::vec(a_rule(), 0..6), deny in a_rule(), call in a_call()) {
        let deny = Rule { effect: Effect::Deny, dangerous: Floor::Holds, ..deny };
        let mut rules = usable(rules);
        if call.by(std::slice::from_ref(&deny)) == Outcome::Deny {
            rules.insert(rules.len() / 2, deny);
            prop_assert_eq!(call.by(&rules), Outcome::Deny);
        }
    }

    /// One more allow never weakens a deny or an ask by rule; one more ask or deny never lets more run.
    #[test]
    fn rules_only_add_their_own_effect(
        rules in prop::collection::vec(a_rule(), 0..6), more in a_rule(), call in a_call(),
    ) {
        let rules = usable(rules);
        prop_assume!(more.check().is_ok());
        let before = book(&rules).explain(&call.call());
        let mut with = rules.clone();
        with.push(more.clone());
        let after = call.by(&with);
        let asked_by_rule = rules.iter().any(|rule| {
            rule.effect == Effect::Ask
                && !book(std::slice::from_ref(rule)).explain(&call.call()).matching.is_empty()
        });
        match more.effect {
            Effect::Allow if before.outcome == Outcome::Deny => prop_assert_eq!(after, Outcome::Deny),
            Effect::Allow if asked_by_rule => prop_assert!(after >= Outcome::Ask),
            Effect::Allow => prop_assert!(after <= before.outcome),
            Effect::Ask | Effect::Deny => prop_assert!(after >= before.outcome),
        }
    }

    /// A dangerous call runs only by a rule that names its tool and waives the floor, and never
    /// when the turn has read foreign text. The order of rules doesn't matter.
    #[test]
    fn the_floor_holds(rules in prop::collection::vec(a_rule(), 0..8), call in a_call()) {
        let mut rules = usable(rules);
        let outcome = call.by(&rules);
        if call.level == SafetyLevel::Dangerous && outcome == Outcome::Run {
            prop_assert_eq!(call.provenance, Provenance::Own);
            let waiving = rules.iter().any(|rule| {
                rule.tool == call.tool && rule.dangerous == Floor::Waived
                    && (rule.path.is_some() || !rule.arguments.is_empty())
            });
            prop_assert!(waiving);
        }
        rules.reverse();
        prop_assert_eq!(call.by(&rules), outcome);
    }

    /// What a prompt offers allows the call it was offered for, and reads back the same.
    #[test]
    fn the_offer_fits(call in a_call()) {
        let offer = Rule::allowing(&call.call(), Scope::Chat(1));
        prop_assert_eq!(offer.check(), Ok(()));
        let expected = match (call.level, call.provenance) {
            (SafetyLevel::Dangerous, Provenance::Foreign) => Outcome::Ask,
            _ => Outcome::Run,
        };
        prop_assert_eq!(call.by(std::slice::from_ref(&offer)), expected);
        let text = serde_json::to_string(&offer).unwrap();
        prop_assert_eq!(serde_json::from_str::<Rule>(&text).unwrap(), offer);
    }
}
