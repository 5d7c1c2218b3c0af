// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that follow another one at its wish, such as compiling what was edited. Each goes the whole way
//! of a call, with its own question where it needs one; the model reads all as one result.

use super::batch::BatchContext;
use super::executor::Executor;
use super::prepared::Prepared;
use crate::protocol::{CallArguments, CallKey, CallOutcome, CallResult, ToolCall};
use crate::tool::work::NextCall;
use crate::trust::{Provenance, Source};

impl Executor {
    /// Takes a PREPARED call to its result, and those that follow it.
    pub(super) async fn settle_all(
        &self,
        id: &str,
        key: CallKey,
        prepared: Prepared,
        batch: &BatchContext,
    ) -> CallResult {
        let next = prepared.next();
        let mut result = self.settle(id, key, prepared, batch).await;
        let mut calls = next.take().into_iter();
        for call in calls.by_ref() {
            let followed = self.follow(id, call, key, batch).await;
            let told = followed.content.trim_end();
            result.content = format!("{}\n\n{told}", result.content.trim_end());
            let is_foreign = |it: &&Source| it.provenance == Provenance::Foreign;
            if followed.source.as_ref().filter(is_foreign).is_some() || result.source.is_none() {
                result.source = followed.source;
            }
            if let Some(remark) = followed.remark {
                result.add_remark(remark);
            }
            if followed.outcome != CallOutcome::Succeeded {
                result.content.push_str("\nThe edit itself is done.");
                break;
            }
        }
        let left: Vec<&str> = calls.as_slice().iter().map(NextCall::about).collect();
        if !left.is_empty() {
            result
                .content
                .push_str(&format!(" Not compiled after that: {}.", left.join(", ")));
        }
        result
    }

    /// Takes CALL, which the call AFTER made, to its result.
    async fn follow(
        &self,
        id: &str,
        call: NextCall,
        after: CallKey,
        batch: &BatchContext,
    ) -> CallResult {
        let key = CallKey::next();
        let call = ToolCall {
            id: id.to_owned(),
            name: call.tool.to_owned(),
            raw_arguments: serde_json::Value::Object(call.arguments.clone()).to_string(),
            arguments: CallArguments::Object(call.arguments),
        };
        self.tell_proposed(&call, key, Some(after), batch);
        let mut prepared = self.prepare(&call, key, batch).await;
        if let Prepared::Runnable(call) = &mut prepared {
            self.ask_if_needed(call, batch);
        }
        self.settle(id, key, prepared, batch).await
    }
}
