// SPDX-License-Identifier: GPL-3.0-or-later
//! Tool calls that Emacs Lisp asks for outside a chat: the same pipeline, all tools, and the
//! results in one event.

use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use std::sync::Arc;

use super::{Engine, RequestError};
use crate::protocol::{BatchId, Event, SessionId, TurnId};
use crate::provider::{CallArguments, ToolCall};
use crate::rules::Place;
use crate::runtime::held;
use crate::session::settings::{Approval, Settings};
use crate::tool::executor::Circumstances;

/// Calls made outside a chat belong to no session.
pub const NO_SESSION: SessionId = SessionId(0);

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
    pub fn execute(&self, calls: &str, approval: Approval) -> Result<BatchId, RequestError> {
        let calls: Vec<CallJson> = serde_json::from_str(calls).map_err(RequestError::Arguments)?;
        let calls: Vec<ToolCall> = calls.into_iter().map(ToolCall::from).collect();
        let batch = BatchId::next();
        let cancel = CancellationToken::new();
        held(&self.batches).insert(batch, cancel.clone());
        let circumstances = self.outside_chats(approval, cancel);
        let executor = self.shared.executor.clone();
        let batches = Arc::clone(&self.batches);
        self.spawn(async move {
            let results = executor.run(&calls, &circumstances).await;
            held(&batches).remove(&batch);
            executor.host.emit(Event::BatchFinished { batch, results });
        });
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
            tools: Arc::clone(&self.shared.registry),
            offer: Arc::default(),
            approval,
            eval_deadline: Settings::default().eval_deadline,
            workspace: Arc::default(),
            eval_policy: Settings::default().eval_policy,
            cancel,
            place: Place::new(TurnId::next().0, NO_SESSION.0, None, None),
        }
    }

    /// Cancels a batch; its calls still get their results. One that is over is let be.
    pub fn cancel_batch(&self, batch: BatchId) {
        if let Some(cancel) = held(&self.batches).get(&batch) {
            cancel.cancel();
        }
    }
}

impl From<CallJson> for ToolCall {
    fn from(call: CallJson) -> Self {
        let raw_arguments = match &call.arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let arguments = match serde_json::from_str(&raw_arguments) {
            Ok(Value::Object(object)) => CallArguments::Object(object),
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
