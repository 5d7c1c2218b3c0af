// SPDX-License-Identifier: GPL-3.0-or-later
//! Turns of a program that calls tools in a session of its own, where a chat has a model: the same
//! settings, files, rules and events, and the same way of each call.

use std::path::Path;
use std::sync::Arc;

use once_cell::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::{Engine, RequestError};
use crate::builtin::FOR_CHATS;
use crate::call::Executor;
use crate::call::batch::{BatchContext, Watcher};
use crate::protocol::Emacs;
use crate::protocol::{CallResult, Event, SessionId, SessionState, ToolCall, TurnId, TurnOutcome};
use crate::rules::{Scope, TurnPlace};
use crate::runtime::held;
use crate::session::Session;
use crate::tool::offer::Unoffered;
use crate::tool::registry::Registry;
use crate::tool::{Tool, ToolFailure};

/// A turn of a program's.
pub struct McpTurn {
    pub id: TurnId,
    pub session: SessionId,
    handles: Session,
    place: TurnPlace,
    tools: Arc<Registry>,
    executor: Executor,
}

impl Engine {
    /// Begins a turn of the program NAME in the session ID. It is told of the tools LISTED; UNOFFERED is
    /// what becomes of calls of others.
    ///
    /// # Errors
    ///
    /// When the session is closed.
    pub fn begin_mcp_turn(
        &self,
        id: SessionId,
        name: &str,
        listed: Registry,
        unoffered: Unoffered,
    ) -> Result<McpTurn, RequestError> {
        let handles = held(&self.sessions).get(&id).cloned();
        let handles = handles.ok_or(RequestError::NoSession(id.0))?;
        let turn = TurnId::next();
        let settings = held(&handles.settings).clone();
        handles.workspace.set_ground(&settings.ground);
        handles.workspace.journal.begin_turn(turn.0);
        handles.offer.withhold(FOR_CHATS);
        handles.offer.begin_turn(&listed, unoffered);
        handles.offer.complete(&listed);
        let root = settings.ground.root.as_deref().map(Path::new);
        let place = TurnPlace::new(turn.0, id.0, root, settings.connection).of_mcp_client(name);
        let executor = self.shared.executor.clone();
        executor.emacs.emit(Event::TurnStarted {
            session: id,
            turn,
            message: None,
            text: name.to_owned(),
            along: Vec::new(),
        });
        Ok(McpTurn {
            id: turn,
            session: id,
            handles,
            place,
            tools: Arc::new(listed),
            executor,
        })
    }

    #[must_use]
    pub fn emacs(&self) -> &Arc<dyn Emacs> {
        &self.shared.executor.emacs
    }
}

impl McpTurn {
    /// The tool that the program meant by NAME.
    ///
    /// # Errors
    ///
    /// When there is none, or the user doesn't offer it.
    pub fn resolve(&self, name: &str) -> Result<Arc<Tool>, ToolFailure> {
        self.handles.offer.resolve(name, &self.tools)
    }

    /// Runs CALL until CANCEL, for which WHY has the reason. HOST sees what the call does and asks.
    pub async fn run(
        &self,
        call: &ToolCall,
        emacs: Arc<dyn Emacs>,
        cancel: CancellationToken,
        why: Arc<OnceCell<String>>,
    ) -> Option<CallResult> {
        // An agent that isn't offered read_file reads by a tool of its own, which nobody sees here.
        if self.tools.get("read_file").is_none() {
            self.handles.workspace.forget_what_was_seen();
        }
        let settings = held(&self.handles.settings).clone();
        let batch = BatchContext {
            session: self.session,
            watcher: Watcher::Chat,
            tools: Arc::clone(&self.tools),
            offer: Arc::clone(&self.handles.offer),
            past: Arc::clone(&self.handles.past),
            begun: None,
            plan: crate::call::batch::PlanMode::Off,
            approval: settings.approval,
            eval_deadline: settings.eval_deadline,
            workspace: Arc::clone(&self.handles.workspace),
            eval_policy: settings.eval_policy,
            after_edit: settings.after_edit,
            cancel,
            why_cancelled: why,
            place: self.place.clone().on_connection(settings.connection),
        };
        let executor = Executor {
            emacs,
            ..self.executor.clone()
        };
        executor.run(std::slice::from_ref(call), &batch).await.pop()
    }

    /// Says that nothing of the turn runs now; more may come.
    pub fn rest(&self) {
        self.executor.emacs.emit(Event::State {
            session: self.session,
            state: SessionState::Idle,
        });
    }

    pub fn end(&self) {
        self.executor.audit.sync();
        held(&self.executor.rules).forget(&Scope::Turn(self.id.0));
        self.executor.emacs.emit(Event::TurnEnded {
            session: self.session,
            outcome: TurnOutcome::Finished,
        });
    }
}
