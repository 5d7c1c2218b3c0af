// SPDX-License-Identifier: GPL-3.0-or-later
//! Emacs's side of consent: answers to approval requests, and the user's rules as JSON.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{Engine, RequestError};
use crate::call::batch::{Approval, BatchContext};
use crate::call::decide::Prediction;
use crate::exact;
use crate::protocol::{CallKey, Decider, Decision, Event, QuestionId, SessionId};
use crate::rules::{Outcome, Rule, TurnPlace, Width};
use crate::runtime::held;
use crate::tool::ToolFailure;
use crate::tool::work::Preview;
use crate::trust::Provenance;
use crate::workspace::Workspace;

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
    /// When no call waits, Emacs has yet to hear that its request is another one, or the answer is none.
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
            "stopped" => Decision::Stopped,
            "unanswered" => Decision::Unanswered(payload.unwrap_or_default()),
            "modified" => Decision::Modified(exact_object(payload.as_deref().unwrap_or_default())?),
            other => return Err(RequestError::Decision(other.to_owned())),
        };
        let approvals = &self.shared.executor.approvals;
        if approvals.has_changed(call) {
            return Err(RequestError::Changed);
        }
        if approvals.decide_by(call, decision, decider) {
            Ok(())
        } else {
            Err(RequestError::NotWaiting)
        }
    }

    /// Notes that Emacs has heard what became of the request of CALL.
    pub fn request_told(&self, call: CallKey) {
        self.shared.executor.approvals.told(call);
    }

    /// All rules as a JSON object: the rules, each with its name and what it says, the file, and why
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

    /// Takes a rule, JSON text, and returns its number. What waits for an answer and needs none any
    /// more is settled, except the call ANSWERED, which the user answers along with it.
    ///
    /// # Errors
    ///
    /// When it is no rule, can't be used, or can't be written.
    pub fn add_rule(&self, rule: &str, answered: Option<CallKey>) -> Result<u64, RequestError> {
        let rule: Rule = serde_json::from_str(rule).map_err(RequestError::RuleText)?;
        let number = held(&self.shared.executor.rules).add(rule)?;
        self.shared.executor.settle_by_rules(answered);
        Ok(number)
    }

    /// Takes rule ID back; false when there is none.
    ///
    /// # Errors
    ///
    /// When the file can't be written.
    pub fn revoke_rule(&self, id: u64) -> Result<bool, RequestError> {
        Ok(held(&self.shared.executor.rules).revoke(id)?)
    }

    /// The rules that would let the waiting CALL run again in SCOPE, as JSON text, the one of most use first.
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
        if rule.check().is_err() {
            return Err(RequestError::NoRule);
        }
        let mut rules = facts.offer_wider(scope);
        rules.insert(0, (Width::Call, rule));
        rules.sort_by_key(|(width, _)| !width.comes_first());
        let entry = |(width, rule): &(Width, Rule)| json!({"width": width.name(), "rule": rule, "description": rule.describe_beside_its_call()});
        let offers: Vec<Value> = rules.iter().map(entry).collect();
        Ok(json!(offers).to_string())
    }

    /// What the waiting CALL would make of a file; none when it does not wait or changes none.
    #[must_use]
    pub fn preview(&self, call: CallKey) -> Option<Preview> {
        self.shared.executor.approvals.preview(call)
    }

    /// Has requests looked at again, as the user may have changed the files that they are about.
    pub fn files_changed(&self) {
        self.shared.executor.approvals.files_changed();
    }

    /// Finds out what would happen to a call, JSON text; an `Explained` event brings the answer.
    ///
    /// # Errors
    ///
    /// When there is no such tool or the arguments don't fit.
    pub fn explain_call(&self, call: &str) -> Result<QuestionId, RequestError> {
        let imagined: Imagined = serde_json::from_str(call).map_err(RequestError::Question)?;
        let tool = self.shared.registry.resolve(&imagined.tool)?;
        let arguments = tool.check(imagined.arguments)?;
        let context = self.context(imagined.session);
        if imagined.foreign == Some(true) {
            context.place.note(Provenance::Foreign);
        }
        let question = QuestionId::next();
        let executor = self.shared.executor.clone();
        self.spawn(async move {
            let prediction = executor.predict(&tool, &arguments, &context).await;
            let provenance = context.place.provenance();
            let answer = match prediction {
                Ok(prediction) => explained(&prediction, provenance),
                Err(failure) => json!({"outcome": "fail", "reason": failure.message}),
            };
            executor.emacs.emit(Event::Explained { question, answer });
        });
        Ok(question)
    }

    /// The context of a call that the chat SESSION would make in its next turn.
    pub(super) fn context(&self, session: Option<u64>) -> BatchContext {
        let outside = self.outside_chats(Approval::Ask, CancellationToken::new());
        let id = SessionId(session.unwrap_or_default());
        let sessions = held(&self.sessions);
        let Some(session) = sessions.get(&id) else {
            return outside;
        };
        let settings = held(&session.settings).clone();
        // A workspace of its own: a turn that runs keeps the ground that it began on.
        let workspace = Workspace::default();
        workspace.set_ground(&settings.ground);
        let root = settings.ground.root.as_deref().map(Path::new);
        BatchContext {
            session: id,
            approval: settings.approval,
            eval_deadline: settings.eval_deadline,
            workspace: Arc::new(workspace),
            eval_policy: settings.eval_policy,
            after_edit: settings.after_edit,
            place: TurnPlace::new(0, id.0, root, settings.connection),
            ..outside
        }
    }
}

/// The object in the JSON TEXT, none of whose numbers changes.
fn exact_object(text: &str) -> Result<Map<String, Value>, RequestError> {
    let object = serde_json::from_str(text).map_err(RequestError::Arguments)?;
    match exact::problems(text) {
        Some(problems) => Err(ToolFailure::new(problems.to_string()).into()),
        None => Ok(object),
    }
}

fn described(rule: &Rule) -> Value {
    let mut json = json!(rule);
    json["description"] = rule.describe().into();
    json["name"] = rule.name().into();
    json
}

fn explained(prediction: &Prediction, provenance: Provenance) -> Value {
    let Prediction {
        explanation,
        assessment,
    } = prediction;
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
