// SPDX-License-Identifier: GPL-3.0-or-later
//! Tool calls that Emacs Lisp asks for outside a chat: the same pipeline, all tools, and the
//! results in one event.

use std::collections::HashMap;
use std::sync::Arc;

use once_cell::sync::OnceCell;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Engine, RequestError};
use crate::near;
use crate::protocol::{BatchId, Event, SessionId, TurnId};
use crate::provider::{CallArguments, ToolCall};
use crate::rules::Place;
use crate::runtime::held;
use crate::session::settings::{Approval, Settings};
use crate::tool::circumstances::{Circumstances, Watcher};
use crate::tool::exact;
use crate::tool::schema::Problem;

/// Calls made outside a chat belong to no session.
pub const NO_SESSION: SessionId = SessionId(0);

/// How a batch that runs is cancelled.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningBatch {
    cancel: CancellationToken,
    why_cancelled: Arc<OnceCell<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallJson {
    id: String,
    name: String,
    /// An object, or its JSON text.
    arguments: Value,
}

impl Engine {
    /// Runs the calls in the JSON text; a `BatchFinished` event brings the results.
    ///
    /// # Errors
    ///
    /// When the text is no list of calls.
    pub fn execute(
        &self,
        calls: &str,
        approval: Approval,
        watcher: Watcher,
    ) -> Result<BatchId, RequestError> {
        let given: Vec<CallJson> = serde_json::from_str(calls).map_err(RequestError::Arguments)?;
        let mut inexact = inexact_arguments(calls);
        let calls: Vec<ToolCall> = given
            .into_iter()
            .enumerate()
            .map(|(index, call)| match inexact.remove(&index) {
                Some(problem) => ToolCall {
                    arguments: CallArguments::Inexact(problem),
                    ..ToolCall::from(call)
                },
                None => ToolCall::from(call),
            })
            .collect();
        let batch = BatchId::next();
        let running = RunningBatch::default();
        held(&self.batches).insert(batch, running.clone());
        let circumstances = Circumstances {
            watcher,
            why_cancelled: running.why_cancelled,
            ..self.outside_chats(approval, running.cancel)
        };
        let executor = self.shared.executor.clone();
        let batches = Arc::clone(&self.batches);
        near::spawn(self.guarded(async move {
            let results = executor.run(&calls, &circumstances).await;
            held(&batches).remove(&batch);
            executor.host.emit(Event::BatchFinished { batch, results });
        }));
        Ok(batch)
    }

    /// The circumstances of calls that no chat makes.
    pub(super) fn outside_chats(
        &self,
        approval: Approval,
        cancel: CancellationToken,
    ) -> Circumstances {
        Circumstances {
            session: NO_SESSION,
            watcher: Watcher::Nobody,
            tools: Arc::clone(&self.shared.registry),
            offer: Arc::default(),
            approval,
            eval_deadline: Settings::default().eval_deadline,
            workspace: Arc::default(),
            eval_policy: Settings::default().eval_policy,
            cancel,
            why_cancelled: Arc::default(),
            place: Place::new(TurnId::next().0, NO_SESSION.0, None, None),
        }
    }

    /// Cancels a batch; its calls still get their results, which say WHY. One that is over is let
    /// be.
    pub fn cancel_batch(&self, batch: BatchId, why: &str) {
        if let Some(running) = held(&self.batches).get(&batch) {
            // Cancelled twice, the first reason is the one.
            let _ = running.why_cancelled.set(why.to_owned());
            running.cancel.cancel();
        }
    }
}

/// The calls in the JSON text whose arguments have numbers that would change, by position.
fn inexact_arguments(calls: &str) -> HashMap<usize, String> {
    let mut inexact: HashMap<usize, String> = HashMap::new();
    for problem in exact::problems(calls).into_iter().flat_map(|it| it.0) {
        let place = problem.path.strip_prefix('[').and_then(|path| {
            let (index, path) = path.split_once("].arguments.")?;
            Some((index.parse().ok()?, path.to_owned()))
        });
        if let Some((index, path)) = place {
            let all = inexact.entry(index).or_default();
            if !all.is_empty() {
                all.push('\n');
            }
            all.push_str(&Problem { path, ..problem }.to_string());
        }
    }
    inexact
}

impl From<CallJson> for ToolCall {
    fn from(call: CallJson) -> Self {
        let raw_arguments = match &call.arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let arguments = match serde_json::from_str(&raw_arguments) {
            Ok(Value::Object(object)) => match exact::problems(&raw_arguments) {
                Some(problems) => CallArguments::Inexact(problems.to_string()),
                None => CallArguments::Object(object),
            },
            Ok(_) => CallArguments::Malformed("Arguments must be an object".to_owned()),
            Err(error) => CallArguments::Malformed(error.to_string()),
        };
        Self {
            id: call.id,
            name: call.name,
            raw_arguments,
            arguments,
        }
    }
}
