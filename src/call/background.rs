// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls in the background: their model reads at once that they have begun, and the result later. They go the
//! same way as others, with the same questions, and none outlives its turn.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::Executor;
use super::batch::{BatchContext, Watcher};
use super::prepared::{Prepared, PreparedCall};
use super::result::CallEnding;
use crate::builtin::calls::calling;
use crate::protocol::{CallKey, CallOutcome, CallResult, Event, ToolCall, WatchedEmacs};
use crate::runtime::panic_message;
use crate::tool::begun::{BegunCall, BegunCalls, CallStep, CallText, STOPPING_TIME};

impl Executor {
    /// Takes PREPARED, which is CALL, to its result, or begins it, if it is one for the background.
    pub(super) async fn settle_or_begin(
        &self,
        call: &ToolCall,
        key: CallKey,
        prepared: Prepared,
        batch: &BatchContext,
    ) -> CallResult {
        match (&batch.begun, prepared) {
            (Some(begun), Prepared::Runnable(it)) if it.tool.runs_in_background(&it.arguments) => {
                self.begin(begun, call, it, batch).await
            }
            (_, prepared) => self.settle_all(&call.id, key, prepared, batch).await,
        }
    }

    /// Begins PREPARED, which is CALL and becomes one of the calls BEGUN. The result says so.
    async fn begin(
        &self,
        begun: &BegunCalls,
        call: &ToolCall,
        prepared: Box<PreparedCall>,
        batch: &BatchContext,
    ) -> CallResult {
        let length = call.raw_arguments.len();
        let running = BegunCall::new(&prepared.tool.name, length, batch.cancel.child_token());
        let running = match begun.begin(running) {
            Ok(running) => running,
            Err(why) => {
                self.approvals.close(prepared.key);
                let failed = Prepared::Failed(CallEnding::new(CallOutcome::Failed, why));
                return self.settle(&call.id, prepared.key, failed, batch).await;
            }
        };
        let assessment = &prepared.verdict.assessment;
        running.reach(match prepared.pending {
            Some(_) => CallStep::Asking(assessment.reason.clone()),
            None => CallStep::Running,
        });
        let told = format!(
            "{} It is stopped when your turn ends.",
            running.pending(calling(&batch.offer), None)
        );
        let (level, consent) = (Some(assessment.level), prepared.consent);
        self.run_beside(running, &call.id, prepared, batch);
        let ending = CallEnding::new(CallOutcome::Succeeded, told);
        ending.result(&call.id, Duration::ZERO, level, consent)
    }

    /// Takes PREPARED, which RUNNING stands for, to its result beside all else.
    fn run_beside(
        &self,
        running: Arc<BegunCall>,
        id: &str,
        prepared: Box<PreparedCall>,
        batch: &BatchContext,
    ) {
        let batch = BatchContext {
            watcher: Watcher::Beside,
            cancel: running.cancel.clone(),
            why_cancelled: Arc::clone(&running.why),
            begun: None,
            ..batch.clone()
        };
        let seeing = Arc::clone(&running);
        let executor = Self {
            emacs: Arc::new(WatchedEmacs {
                behind: Arc::clone(&self.emacs),
                see: move |event: Event| {
                    seeing.see(&event);
                    Some(event)
                },
            }),
            ..self.clone()
        };
        let (id, key) = (id.to_owned(), prepared.key);
        tokio::spawn(async move {
            let settled = executor.settle_all(&id, key, Prepared::Runnable(prepared), &batch);
            let outcome = match AssertUnwindSafe(settled).catch_unwind().await {
                Ok(result) => CallText::from(&result),
                Err(payload) => {
                    let message = format!(
                        "The call failed because of a bug in agent-q ({}); its log has the details.",
                        panic_message(&*payload)
                    );
                    let problem = CallText::problem(format!("Error: {message}"));
                    executor.emacs.emit(Event::Fault { message });
                    problem
                }
            };
            running.finish(outcome);
        });
    }

    /// Stops what BATCH, whose turn is over, has in the background, and tells the user.
    pub async fn end_background(&self, batch: &BatchContext) {
        let running = batch.begun.as_ref().map(|begun| begun.running());
        let Some(running) = running.filter(|it| !it.is_empty()) else {
            return;
        };
        let names: Vec<String> = running
            .iter()
            .map(|call| format!("{} (after {} s)", call.tool, call.seconds()))
            .collect();
        for call in &running {
            call.stop("its turn ended first");
        }
        join_all(running.iter().map(|it| it.outcome_within(STOPPING_TIME))).await;
        if !batch.cancel.is_cancelled() {
            let text = format!("Stopped with the turn: {}.", names.join(", "));
            let session = batch.session;
            self.emacs.emit(Event::Notice { session, text });
        }
    }
}
