// SPDX-License-Identifier: GPL-3.0-or-later
//! Tool calls that Emacs Lisp asks for outside a chat: the same pipeline, all tools, and the
//! results in one event.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Engine;
use super::running::RunningBatch;
use crate::call::batch::{BatchContext, Watcher};
use crate::call::policy::Approval;
use crate::protocol::{BatchId, Event, SessionId, ToolCall, TurnId};
use crate::rules::TurnPlace;
use crate::runtime::{held, on_emacs};
use crate::session::settings::Settings;
use crate::workspace::ProjectSettings;

/// Calls made outside a chat belong to no session.
pub const NO_SESSION: SessionId = SessionId(0);

impl Engine {
    /// Runs CALLS; a `BatchFinished` event brings the results. PRIVATE are the user's globs of private
    /// files, if they have any of their own.
    pub fn execute(
        &self,
        calls: Vec<ToolCall>,
        approval: Approval,
        watcher: Watcher,
        private: Option<Vec<String>>,
    ) -> BatchId {
        let batch = BatchId::next();
        let running = RunningBatch::default();
        held(&self.batches).insert(batch, running.clone());
        let context = BatchContext {
            watcher,
            why_cancelled: running.why_cancelled,
            ..self.outside_chats(approval, running.cancel)
        };
        context.workspace.set_ground(&ProjectSettings {
            root: None,
            private,
        });
        let executor = self.shared.executor.clone();
        let batches = Arc::clone(&self.batches);
        on_emacs::spawn(self.guarded(async move {
            let results = executor.run(&calls, &context).await;
            held(&batches).remove(&batch);
            executor.host.emit(Event::BatchFinished { batch, results });
        }));
        batch
    }

    /// The context of calls that no chat makes.
    pub(super) fn outside_chats(
        &self,
        approval: Approval,
        cancel: CancellationToken,
    ) -> BatchContext {
        BatchContext {
            session: NO_SESSION,
            watcher: Watcher::Nobody,
            tools: Arc::clone(&self.shared.registry),
            offer: Arc::default(),
            past: Arc::default(),
            approval,
            eval_deadline: Settings::default().eval_deadline,
            workspace: Arc::default(),
            eval_policy: Settings::default().eval_policy,
            cancel,
            why_cancelled: Arc::default(),
            place: TurnPlace::new(TurnId::next().0, NO_SESSION.0, None, None),
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
