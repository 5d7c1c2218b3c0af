// SPDX-License-Identifier: GPL-3.0-or-later
//! Tool calls that Emacs Lisp asks for outside a chat: the same pipeline, all tools, and the
//! results in one event.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Engine, RunningBatch};
use crate::call::batch::{Approval, BatchContext, Watcher};
use crate::files::FileError;
use crate::files::path::PathPolicy;
use crate::files::search::{FileSearch, search_files};
use crate::protocol::{BatchId, Event, QuestionId, SessionId, ToolCall, TurnId};
use crate::rules::TurnPlace;
use crate::runtime::{held, on_emacs};
use crate::session::settings::Settings;
use crate::workspace::{ProjectSettings, Workspace};

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
        let running = RunningBatch::default();
        let context = BatchContext {
            watcher,
            why_cancelled: Arc::clone(&running.why_cancelled),
            ..self.outside_chats(approval, running.cancel.clone())
        };
        context.workspace.set_ground(&ProjectSettings {
            root: None,
            private,
        });
        self.run_batch(calls, running, context)
    }

    fn run_batch(
        &self,
        calls: Vec<ToolCall>,
        running: RunningBatch,
        context: BatchContext,
    ) -> BatchId {
        let batch = BatchId::next();
        held(&self.batches).insert(batch, running);
        let executor = self.shared.executor.clone();
        let batches = Arc::clone(&self.batches);
        on_emacs::spawn(self.guarded(async move {
            let results = executor.run(&calls, &context).await;
            held(&batches).remove(&batch);
            executor.emacs.emit(Event::BatchFinished { batch, results });
        }));
        batch
    }

    /// Runs CALLS in the project and the image of the chat SESSION, for its user and not for its model;
    /// a `BatchFinished` event brings the results.
    pub fn look_up(&self, session: SessionId, calls: Vec<ToolCall>) -> BatchId {
        let running = RunningBatch::default();
        let context = BatchContext {
            watcher: Watcher::Nobody,
            approval: Approval::None,
            cancel: running.cancel.clone(),
            why_cancelled: Arc::clone(&running.why_cancelled),
            ..self.context(Some(session.0))
        };
        self.run_batch(calls, running, context)
    }

    /// Finds the files of the project of the chat SESSION; a `ProjectFiles` event brings the answer.
    pub fn project_files(&self, session: SessionId) -> QuestionId {
        let question = QuestionId::next();
        let workspace = self.context(Some(session.0)).workspace;
        let emacs = Arc::clone(&self.shared.executor.emacs);
        self.spawn(async move {
            let found = tokio::task::spawn_blocking(move || files_of(&workspace)).await;
            let files = found.unwrap_or_else(|_| Err("The search failed.".to_owned()));
            emacs.emit(Event::ProjectFiles { question, files });
        });
        question
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
            begun: None,
            plan: crate::call::batch::PlanMode::Off,
            approval,
            eval_deadline: Settings::default().eval_deadline,
            workspace: Arc::default(),
            eval_policy: Settings::default().eval_policy,
            after_edit: Settings::default().after_edit,
            cancel,
            why_cancelled: Arc::default(),
            place: TurnPlace::new(TurnId::next().0, NO_SESSION.0, None, None),
            researcher: None,
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

/// The most files of a project that are named to its user.
const MOST_FILES: usize = 20_000;

/// The files of the project of WORKSPACE, and how many more there are; or why there are none.
fn files_of(workspace: &Workspace) -> Result<(Vec<String>, u64), String> {
    let policy = workspace
        .policy()
        .ok_or("This chat has no project.")?
        .map_err(|error| error.message)?;
    let found = search(&policy).map_err(|error| error.message)?;
    let files = found.0.into_iter();
    // A name that isn't text, or has lines, can't be typed.
    let files = files
        .filter_map(|path| path.into_os_string().into_string().ok())
        .filter(|name| !name.contains('\n'))
        .collect();
    Ok((files, found.1))
}

fn search(policy: &PathPolicy) -> Result<(Vec<PathBuf>, u64), FileError> {
    let folder = policy.judge(".").resolved()?;
    let all = FileSearch::readable(MOST_FILES);
    let found = search_files(policy, &folder, &all, &|| false)?;
    Ok((found.paths, found.more))
}
