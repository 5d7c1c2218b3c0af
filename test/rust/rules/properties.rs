// SPDX-License-Identifier: GPL-3.0-or-later
//! What must hold whatever the consent rules are: deny wins, allowing never weakens, the floor
//! under dangerous calls stays.

use agent_q_core::rules::{Effect, Floor, Outcome, Rule, Scope};
use agent_q_core::trust::{Provenance, SafetyLevel};
use proptest::prelude::*;
use serde_json::json;

use crate::calls::*;

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
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

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
