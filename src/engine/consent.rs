// SPDX-License-Identifier: GPL-3.0-or-later
//! Emacs's side of consent: answers to approval requests, and the user's rules as JSON.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Engine, RequestError};
use crate::protocol::{CallKey, Decider, Decision, SessionId};
use crate::rules::{Explanation, Facts, Outcome, Place, Provenance, Rule};
use crate::runtime::held;
use crate::tool::preview::Preview;

/// A call that the user wonders about.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Imagined {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    /// The chat that would make it.
    #[serde(default)]
    session: Option<u64>,
    /// Whether the turn would have read text from outside the project.
    #[serde(default)]
    foreign: Option<bool>,
}

impl Engine {
    /// Passes the answer that DECIDER gave to the call that waits for it.
    ///
    /// # Errors
    ///
    /// When no call waits, or the answer is none.
    pub fn decide(
        &self,
        call: CallKey,
        decision: &str,
        payload: Option<String>,
        decider: Decider,
    ) -> Result<(), RequestError> {
        let decision = match decision {
            "approved" => Decision::Approved,
            "denied" => Decision::Denied(payload),
            "modified" => Decision::Modified(
                serde_json::from_str::<Map<String, Value>>(payload.as_deref().unwrap_or_default())
                    .map_err(RequestError::Arguments)?,
            ),
            other => return Err(RequestError::Decision(other.to_owned())),
        };
        let approvals = &self.shared.executor.approvals;
        if approvals.answer_by(call, decision, decider) {
            Ok(())
        } else {
            Err(RequestError::NotWaiting)
        }
    }

    /// All rules as a JSON object: the rules, each with what it says in words, the file, and why
    /// that can't be used.
    #[must_use]
    pub fn rules(&self) -> String {
        let mut book = held(&self.shared.executor.rules);
        book.reload();
        let rules: Vec<Value> = book.rules().map(described).collect();
        json!({
            "rules": rules,
            "file": book.file(),
            "trouble": book.trouble().map(ToString::to_string),
        })
        .to_string()
    }

    /// Takes a rule, JSON text, and returns its number.
    ///
    /// # Errors
    ///
    /// When it is no rule, can't be used, or can't be written.
    pub fn add_rule(&self, rule: &str) -> Result<u64, RequestError> {
        let rule: Rule = serde_json::from_str(rule).map_err(RequestError::Settings)?;
        Ok(held(&self.shared.executor.rules).add(rule)?)
    }

    /// Takes rule ID back; false when there is none.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn revoke_rule(&self, id: u64) -> Result<bool, RequestError> {
        Ok(held(&self.shared.executor.rules).revoke(id)?)
    }

    /// The narrowest rule that would let the waiting CALL run again in SCOPE, as JSON text.
    ///
    /// # Errors
    ///
    /// When the call does not wait or the scope is none.
    pub fn offered_rule(&self, call: CallKey, scope: &str) -> Result<String, RequestError> {
        let facts = self.shared.executor.approvals.facts(call);
        let facts = facts.ok_or(RequestError::NotWaiting)?;
        let rule = facts
            .offer(scope)
            .ok_or_else(|| RequestError::Scope(scope.to_owned()))?;
        Ok(json!({"rule": rule, "description": rule.describe()}).to_string())
    }

    /// What the waiting CALL would make of a file; none when it does not wait or changes none.
    #[must_use]
    pub fn preview(&self, call: CallKey) -> Option<Preview> {
        self.shared.executor.approvals.preview(call)
    }

    /// What would happen to a call, JSON text, as a JSON object.
    ///
    /// # Errors
    ///
    /// When there is no such tool or the arguments don't fit.
    pub fn explain_call(&self, call: &str) -> Result<String, RequestError> {
        let imagined: Imagined = serde_json::from_str(call).map_err(RequestError::Settings)?;
        let tool = self.shared.registry.resolve(&imagined.tool)?;
        let arguments = tool.check(imagined.arguments)?;
        let assessment = (tool.assess)(tool.level, &arguments);
        let place = self.place(imagined.session);
        if imagined.foreign == Some(true) {
            place.note_foreign();
        }
        let facts = Facts::gather(0, &tool, &arguments, &assessment, &place);
        let explanation = self.shared.executor.explain(&facts);
        Ok(explained(&explanation, &assessment, place.provenance()).to_string())
    }

    /// Where a call of SESSION would be made.
    fn place(&self, session: Option<u64>) -> Place {
        let sessions = held(&self.sessions);
        let id = session.unwrap_or_default();
        let Some(session) = sessions.get(&SessionId(id)) else {
            return Place::new(0, id, None, None);
        };
        let settings = held(&session.settings);
        let connection = settings.connection.clone();
        Place::new(
            0,
            id,
            settings.ground.root.as_deref().map(Path::new),
            connection,
        )
    }
}

fn described(rule: &Rule) -> Value {
    let mut json = json!(rule);
    json["description"] = rule.describe().into();
    json
}

fn explained(
    explanation: &Explanation,
    assessment: &crate::tool::Assessment,
    provenance: Provenance,
) -> Value {
    json!({
        "outcome": match explanation.outcome {
            Outcome::Run => "run",
            Outcome::Ask => "ask",
            Outcome::Deny => "deny",
        },
        "reason": explanation.reason,
        "rule": explanation.rule,
        "matching": explanation.matching,
        "level": assessment.level.name(),
        "assessment": assessment.reason,
        "foreign": provenance == Provenance::Foreign,
    })
}
