// SPDX-License-Identifier: GPL-3.0-or-later
//! What happens to a call, and by which rule.

use super::matching::Compiled;
use super::{Call, Effect, Provenance, Rule};
use crate::tool::SafetyLevel;

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

/// Decides about CALL by RULES.
pub(super) fn decide<'r>(
    rules: impl Iterator<Item = (&'r Rule, &'r Compiled)>,
    call: &Call<'_>,
) -> Explanation {
    let mut matching: Vec<&Rule> = rules
        .filter(|(_, compiled)| compiled.matches(call))
        .map(|(rule, _)| rule)
        .collect();
    matching.sort_by_key(|rule| rule.id);
    let first = |effect: Effect| matching.iter().find(|rule| rule.effect == effect).copied();
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
        dangerous(&matching, call)
    };
    Explanation {
        outcome,
        reason,
        rule: rule.map(|rule| rule.id),
        matching: matching.iter().map(|rule| rule.id).collect(),
    }
}

/// A dangerous call that no rule asks about or denies.
fn dangerous<'r>(matching: &[&'r Rule], call: &Call<'_>) -> (Outcome, Option<&'r Rule>, String) {
    match matching.iter().find(|rule| rule.waives_floor()) {
        Some(rule) if call.provenance == Provenance::Own => (Outcome::Run, Some(rule), by(rule)),
        Some(rule) => (
            Outcome::Ask,
            Some(rule),
            format!(
                "This turn has read text from outside the project, so no rule lets a dangerous call run; rule {} would.",
                rule.id
            ),
        ),
        None => match matching.first() {
            Some(rule) => (
                Outcome::Ask,
                Some(rule),
                format!(
                    "The call is dangerous, and rule {} was not written for exactly that.",
                    rule.id
                ),
            ),
            None => (Outcome::Ask, None, "Dangerous calls ask.".into()),
        },
    }
}

fn by(rule: &Rule) -> String {
    format!("Rule {}: {}", rule.id, rule.describe())
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
