// SPDX-License-Identifier: GPL-3.0-or-later
//! Rules about what code is asked about, by operator and by reason: they let nothing pass that is
//! asked about for anything else.

use agent_q_core::rules::{
    Alarm, Alarms, Effect, FETCHES, Floor, OtherAlarms, Outcome, PLAINLY, Rule, Scope, Width,
};
use agent_q_core::trust::SafetyLevel;
use proptest::prelude::*;
use serde_json::json;

use crate::calls::*;

const RUNS: &str = "runs programs";
const WRITES: &str = "deletes or writes files";
const EMACS: &str = "reaches into Emacs";

fn alarm(reason: &str, operator: Option<&str>) -> Alarm {
    Alarm {
        reason: reason.to_owned(),
        operator: operator.map(str::to_owned),
    }
}

/// A dangerous form that is asked about for FOUND, and OTHERS.
fn form(found: &[(&str, Option<&str>)], others: OtherAlarms) -> Given {
    let found = found.iter().map(|(reason, by)| alarm(reason, *by));
    Given {
        level: SafetyLevel::Dangerous,
        alarms: Alarms {
            found: found.collect(),
            others,
        },
        ..eval("(x)")
    }
}

fn asked(found: &[(&str, Option<&str>)]) -> Given {
    form(found, OtherAlarms::None)
}

#[test]
fn wider_rules_are_for_the_same_operators_or_the_same_reasons() {
    let call = asked(&[(RUNS, Some("UIOP:RUN-PROGRAM"))]);
    let offers = Rule::wider(&call.call(), &Scope::Chat(1));
    let said: Vec<(Width, String)> = offers
        .iter()
        .map(|(width, rule)| (*width, rule.describe()))
        .collect();
    assert_eq!(
        said,
        [
            (
                Width::Operator,
                "Allow eval_form when nothing else is asked about than: runs programs (UIOP:RUN-PROGRAM), for this chat, even when dangerous.".to_owned()
            ),
            (
                Width::Reason,
                "Allow eval_form when nothing else is asked about than: runs programs, for this chat, even when dangerous.".to_owned()
            ),
        ]
    );
    assert_eq!(
        offers[1].1.describe_beside_its_call(),
        "Always run eval_form calls whose only risk is: runs programs, in this chat."
    );
    let other = asked(&[(RUNS, Some("SB-EXT:RUN-PROGRAM"))]);
    let both = asked(&[
        (RUNS, Some("UIOP:RUN-PROGRAM")),
        (WRITES, Some("DELETE-FILE")),
    ]);
    for ((_, rule), for_other) in offers.iter().zip([Outcome::Ask, Outcome::Run]) {
        assert_eq!(rule.check(), Ok(()));
        let by = |call: &Given| call.by(std::slice::from_ref(rule));
        assert_eq!(by(&call), Outcome::Run);
        assert_eq!(by(&other), for_other);
        assert_eq!(by(&both), Outcome::Ask);
        // Nobody knows what else there is, or knows nothing at all.
        assert_eq!(
            by(&form(
                &[(RUNS, Some("UIOP:RUN-PROGRAM"))],
                OtherAlarms::Some
            )),
            Outcome::Ask
        );
        assert_eq!(by(&asked(&[])), Outcome::Ask);
        let compiled = Given {
            tool: "compile_form",
            ..asked(&[(RUNS, Some("UIOP:RUN-PROGRAM"))])
        };
        assert_eq!(by(&compiled), Outcome::Ask);
    }
}

#[test]
fn what_takes_the_hold_on_code_is_never_allowed_at_large() {
    for call in [
        asked(&[(EMACS, Some("SLYNK:EVAL-IN-EMACS"))]),
        asked(&[(RUNS, Some("UIOP:RUN-PROGRAM")), (EMACS, None)]),
        form(&[(RUNS, None)], OtherAlarms::Some),
        asked(&[]),
    ] {
        assert!(Rule::wider(&call.call(), &Scope::Chat(1)).is_empty());
    }
    // Nor by a rule that somebody writes, together with others or alone.
    for alarms in [
        vec![alarm(EMACS, None)],
        vec![alarm(RUNS, None), alarm(EMACS, Some("X"))],
    ] {
        let mut rule = Rule::new(Effect::Allow, "eval_form", Scope::Always);
        rule.dangerous = Floor::Waived;
        rule.alarms = alarms;
        assert!(rule.check().is_err() && !rule.waives_floor());
    }
    // An operator that is not known is no reason for less than all of the reason.
    let offers = Rule::wider(&asked(&[(RUNS, None)]).call(), &Scope::Chat(1));
    assert_eq!(offers.len(), 1);
    assert_eq!(offers[0].0, Width::Reason);
}

#[test]
fn what_restrains_does_so_in_doubt() {
    let mut rule = Rule::new(Effect::Deny, "eval_form", Scope::Always);
    rule.alarms = vec![alarm(EMACS, None)];
    assert_eq!(rule.check(), Ok(()));
    assert_eq!(
        rule.describe(),
        "Deny eval_form when it reaches into Emacs, always."
    );
    let by = |call: &Given| call.by(std::slice::from_ref(&rule));
    assert_eq!(
        by(&asked(&[(RUNS, None), (EMACS, Some("X"))])),
        Outcome::Deny
    );
    assert_eq!(by(&form(&[], OtherAlarms::Some)), Outcome::Deny);
    assert_eq!(by(&asked(&[(RUNS, None)])), Outcome::Ask);
    assert_eq!(by(&eval("1")), Outcome::Run);
}

#[test]
fn a_rule_about_reasons_reads_back_the_same() {
    let offers = Rule::wider(&asked(&[(RUNS, Some("A"))]).call(), &Scope::Chat(1));
    for (_, rule) in offers {
        let text = serde_json::to_string(&rule).unwrap();
        assert_eq!(serde_json::from_str::<Rule>(&text).unwrap(), rule);
    }
    let odd = json!({"effect": "allow", "tool": "x", "scope": {"for": "always"},
                     "alarms": [{"reason": "runs programs", "by": "X"}]});
    assert!(serde_json::from_value::<Rule>(odd).is_err());
}

fn some_alarms() -> impl Strategy<Value = Vec<(&'static str, Option<&'static str>)>> {
    let reason = prop::sample::select(vec![RUNS, WRITES, EMACS, "uses the network"]);
    let operator = prop::option::of(prop::sample::select(vec!["A", "B", "C"]));
    prop::collection::vec((reason, operator), 0..5)
}

proptest! {
    /// Whatever was offered for one call, another passes by it only if each of its reasons is one of
    /// those of the first, and with an operator of that where the rule names them.
    #[test]
    fn nothing_else_passes(one in some_alarms(), other in some_alarms()) {
        for (width, rule) in Rule::wider(&asked(&one).call(), &Scope::Chat(1)) {
            let fits = other.iter().all(|(reason, operator)| match width {
                Width::Operator => one.contains(&(*reason, *operator)),
                Width::Reason => one.iter().any(|(it, _)| it == reason),
                Width::Call | Width::Systems | Width::Edits | Width::Program | Width::Host => false,
            });
            let runs = asked(&other).by(std::slice::from_ref(&rule)) == Outcome::Run;
            prop_assert_eq!(runs, fits && !other.is_empty());
            prop_assert_eq!(asked(&one).by(std::slice::from_ref(&rule)), Outcome::Run);
        }
    }
}

proptest! {
    /// A rule for a host lets its pages pass, and nothing that is asked about for another host or anything else.
    #[test]
    fn a_rule_for_a_host_is_for_that_alone(
        other in prop::collection::vec(
            (
                prop::sample::select(vec![FETCHES, PLAINLY, RUNS]),
                prop::option::of(prop::sample::select(vec!["a.org", "www.a.org", "b.org"])),
            ),
            0..3,
        ),
        others in prop::sample::select(vec![OtherAlarms::None, OtherAlarms::Some]),
    ) {
        let one = (FETCHES, Some("a.org"));
        let offers = Rule::wider(&asked(&[one]).call(), &Scope::Chat(1));
        let [(Width::Host, rule)] = offers.as_slice() else {
            panic!("{offers:?}")
        };
        prop_assert_eq!(rule.check(), Ok(()));
        let fits = others == OtherAlarms::None && !other.is_empty() && other.iter().all(|it| *it == one);
        let runs = form(&other, others).by(std::slice::from_ref(rule)) == Outcome::Run;
        prop_assert_eq!(runs, fits);
    }
}

#[test]
fn no_rule_is_for_all_hosts() {
    let offers = Rule::wider(&asked(&[(FETCHES, None)]).call(), &Scope::Chat(1));
    assert_eq!(offers, []);
    let mut rule = Rule::new(Effect::Allow, "fetch_url", Scope::Always);
    rule.dangerous = Floor::Waived;
    rule.alarms = vec![alarm(FETCHES, None)];
    assert!(rule.check().is_err());
    assert!(!rule.waives_floor());
}

#[test]
fn a_rule_for_the_projects_systems_builds_those_alone() {
    let dangerous = SafetyLevel::Dangerous;
    let load = given(
        "load_system",
        dangerous,
        json!({"system": "bank"}),
        &["bank.asd"],
    );
    let offers = Rule::wider(&load.call(), &Scope::Chat(1));
    let [(Width::Systems, rule)] = &offers[..] else {
        panic!("{offers:?}")
    };
    assert_eq!(
        rule.describe_beside_its_call(),
        "Always run load_system, run_tests, verify_system and compile_file for this project's systems, in this chat."
    );
    assert_eq!(rule.check(), Ok(()));
    let rules = std::slice::from_ref(rule);
    for (tool, paths, outcome) in [
        ("load_system", &["bank.asd"][..], Outcome::Run),
        ("run_tests", &["lib/coins/coins.asd"], Outcome::Run),
        ("run_tests", &["/usr/share/other/other.asd"], Outcome::Ask),
        ("load_system", &[], Outcome::Ask),
        ("eval_form", &["bank.asd"], Outcome::Ask),
        ("write_file", &["bank.asd"], Outcome::Ask),
        ("compile_file", &["src/bank.lisp"], Outcome::Run),
        (
            "compile_file",
            &["/usr/share/other/other.lisp"],
            Outcome::Ask,
        ),
        ("compile_file", &[".env"], Outcome::Ask),
    ] {
        let call = given(
            tool,
            dangerous,
            json!({"system": "x", "force": true}),
            paths,
        );
        assert_eq!(call.by(rules), outcome, "{tool} {paths:?}");
    }
    // Values for a restart are code, and names of restarts none.
    for (restart, outcome) in [("continue", Outcome::Run), ("use-value (f)", Outcome::Ask)] {
        let arguments = json!({"system": "x", "restart": restart});
        let call = given("load_system", dangerous, arguments, &["bank.asd"]);
        assert_eq!(call.by(rules), outcome, "{restart}");
    }
    let compile = given(
        "compile_file",
        dangerous,
        json!({"path": "a.lisp"}),
        &["a.lisp"],
    );
    assert_eq!(Rule::wider(&compile.call(), &Scope::Chat(1)), offers);
    // What is not the project's is offered no such rule.
    let other = given(
        "load_system",
        dangerous,
        json!({"system": "x"}),
        &["/usr/x.asd"],
    );
    assert!(Rule::wider(&other.call(), &Scope::Chat(1)).is_empty());
}

#[test]
fn a_rule_for_edits_wants_them_to_be_asked_about_for_nothing_else() {
    let edit = |tool, alarms| Given {
        alarms,
        ..given(
            tool,
            SafetyLevel::Dangerous,
            json!({"path": "a.lisp"}),
            &["a.lisp"],
        )
    };
    let other = Alarms {
        found: Vec::new(),
        others: OtherAlarms::Some,
    };
    let call = edit("edit_file", Alarms::of_edit());
    let offers = Rule::wider(&call.call(), &Scope::Chat(1));
    let [(Width::Edits, rule)] = &offers[..] else {
        panic!("{offers:?}")
    };
    assert_eq!(rule.check(), Ok(()));
    let rules = std::slice::from_ref(rule);
    assert_eq!(
        edit("edit_definition", Alarms::of_edit()).by(rules),
        Outcome::Run
    );
    assert_eq!(edit("edit_file", other.clone()).by(rules), Outcome::Ask);
    // Only a new file is an edit; what else a file had would be lost.
    for (tool, alarms, outcome) in [
        ("write_file", Alarms::of_edit(), Outcome::Run),
        ("create_file", Alarms::of_edit(), Outcome::Run),
        ("write_file", other.clone(), Outcome::Ask),
        ("delete_file", Alarms::of_edit(), Outcome::Ask),
    ] {
        assert_eq!(edit(tool, alarms).by(rules), outcome, "{tool}");
    }
    assert!(Rule::wider(&edit("edit_file", other).call(), &Scope::Chat(1)).is_empty());
    assert!(Rule::wider(&call.call(), &Scope::Always).is_empty());
}
