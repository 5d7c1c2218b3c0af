// SPDX-License-Identifier: GPL-3.0-or-later
//! What happens to a call, and by which rule.

use super::matching::Compiled;
use super::{Effect, Floor, Rule, RuledCall};
use crate::trust::{Provenance, SafetyLevel};

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Run,
    Ask,
    Deny,
}

/// What happens to a call and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub outcome: Outcome,
    /// One sentence: the rule or the lack of one.
    pub reason: String,
    /// The rule that decided.
    pub rule: Option<u64>,
    /// All rules that match, in the order of their numbers.
    pub matching: Vec<u64>,
}

/// Why a dangerous call asks when no rule says anything about it.
pub const DANGEROUS_ASKS: &str = "Dangerous calls ask.";

/// Decides about CALL by RULES.
pub(super) fn decide<'r>(
    rules: impl Iterator<Item = (&'r Rule, &'r Compiled)>,
    call: &RuledCall<'_>,
) -> Explanation {
    let mut found: Vec<(&Rule, Floor)> = rules
        .filter(|(_, compiled)| compiled.matches(call))
        .map(|(rule, compiled)| (rule, compiled.floor()))
        .collect();
    found.sort_by_key(|(rule, _)| rule.id);
    let first = |effect: Effect| {
        let mut rules = found.iter().map(|(rule, _)| *rule);
        rules.find(|rule| rule.effect == effect)
    };
    let (outcome, rule, reason) = if let Some(rule) = first(Effect::Deny) {
        (Outcome::Deny, Some(rule), by(rule))
    } else if let Some(rule) = first(Effect::Ask) {
        (Outcome::Ask, Some(rule), by(rule))
    } else if call.level < SafetyLevel::Dangerous {
        match first(Effect::Allow) {
            Some(rule) => (Outcome::Run, Some(rule), by(rule)),
            None => (
                Outcome::Run,
                None,
                format!(
                    "{} calls run unless a rule says otherwise.",
                    capital(call.level.name())
                ),
            ),
        }
    } else {
        dangerous(&found, call)
    };
    Explanation {
        outcome,
        reason,
        rule: rule.map(|rule| rule.id),
        matching: found.iter().map(|(rule, _)| rule.id).collect(),
    }
}

/// A dangerous call that no rule asks about or denies.
fn dangerous<'r>(
    found: &[(&'r Rule, Floor)],
    call: &RuledCall<'_>,
) -> (Outcome, Option<&'r Rule>, String) {
    let waiving = found.iter().find(|(_, floor)| *floor == Floor::Waived);
    match waiving.map(|(rule, _)| *rule) {
        Some(rule) if call.provenance == Provenance::Own => (Outcome::Run, Some(rule), by(rule)),
        Some(rule) => (
            Outcome::Ask,
            Some(rule),
            format!(
                "This turn has read text from outside the project, so no rule lets a dangerous call run; rule {} would.",
                rule.name()
            ),
        ),
        None => match found.first() {
            Some((rule, _)) => (
                Outcome::Ask,
                Some(rule),
                format!(
                    "The call is dangerous, and rule {} was not written for exactly that.",
                    rule.name()
                ),
            ),
            None => (Outcome::Ask, None, DANGEROUS_ASKS.into()),
        },
    }
}

fn by(rule: &Rule) -> String {
    format!("Rule {}: {}", rule.name(), rule.describe())
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
