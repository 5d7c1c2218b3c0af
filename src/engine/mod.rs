// SPDX-License-Identifier: GPL-3.0-or-later
//! The one engine of an Emacs: the registry, the open sessions, and what they share.
//! `bridge` keeps it and passes Emacs's requests on to it.

pub mod batch;
mod chats;
mod consent;
pub mod mcp_turn;
mod open_chats;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use once_cell::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::audit::AuditLog;
use crate::builtin;
use crate::call::Executor;
use crate::call::metrics::Metrics;
use crate::chats::ChatError;
use crate::chats::recorder::write_down;
use crate::protocol::{BatchId, Event, Op, QuestionId, SessionId, UserMessage};
use crate::protocol::{Emacs, WatchedEmacs};
use crate::provider::discovery::LOCAL_SERVERS;
use crate::provider::http::{Http, HttpSettings};
use crate::rules::{RuleBook, Scope, StoreError, TurnPlace};
use crate::runtime::{self, held, on_emacs};
use crate::servers::ToolServers;
use crate::session::guidance::sections;
use crate::session::selection::{SelectionError, ToolSelection};
use crate::session::{self, Agenda, Beginning, Session, SessionSettings, Shared, skills};
use crate::tool::ToolFailure;
use crate::tool::definition::InvalidTool;
use crate::tool::libraries::Libraries;
use crate::tool::registry::Registry;
use crate::trust::SafetyLevel;
use crate::workspace::Workspace;
use open_chats::OpenChats;

/// Why Emacs's request could not be passed on.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("Chat {0} is closed. Open a new one with M-x agent-q-chat.")]
    NoSession(u64),
    #[error("Cannot parse the settings: {0}")]
    Settings(#[source] serde_json::Error),
    #[error("Cannot parse the levels of tools: {0}")]
    Levels(#[source] serde_json::Error),
    #[error(
        "No rule can allow similar calls, because not everything that this one reaches is known."
    )]
    NoRule,
    #[error("Cannot parse the rule: {0}")]
    RuleText(#[source] serde_json::Error),
    #[error("Cannot parse the question about a call: {0}")]
    Question(#[source] serde_json::Error),
    #[error("Not a provider.")]
    Provider,
    #[error("This request was already decided.")]
    NotWaiting,
    #[error("The request has changed: read it, then press the key again.")]
    Changed,
    #[error("The arguments are not a JSON object: {0}")]
    Arguments(#[source] serde_json::Error),
    #[error("Unknown decision {0}: expected approved, denied, modified or stopped.")]
    Decision(String),
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error(transparent)]
    Tool(#[from] InvalidTool),
    #[error(transparent)]
    Rule(#[from] StoreError),
    #[error(transparent)]
    Call(#[from] ToolFailure),
    #[error("Unknown scope {0}, or no project here: expected chat, project or always.")]
    Scope(String),
}

/// How a batch that runs is cancelled.
#[derive(Debug, Clone, Default)]
struct RunningBatch {
    cancel: CancellationToken,
    why_cancelled: Arc<OnceCell<String>>,
}

/// What one Emacs runs.
pub struct Engine {
    shared: Shared,
    /// Emacs itself; the executor's host writes down what passes to it.
    emacs: Arc<dyn Emacs>,
    chats: Arc<OpenChats>,
    sessions: Mutex<HashMap<SessionId, Session>>,
    batches: Arc<Mutex<HashMap<BatchId, RunningBatch>>>,
    servers: ToolServers,
}

impl Engine {
    /// An engine with the built-in tools and no session.
    #[must_use]
    pub fn new(emacs: Arc<dyn Emacs>, audit: AuditLog, rules: RuleBook) -> Self {
        let registry = Arc::new(Registry::default());
        builtin::register(&registry);
        let chats = Arc::new(OpenChats::default());
        let recorders = Arc::clone(&chats.recorders);
        let executor = Executor {
            approvals: Arc::default(),
            emacs: Arc::new(WatchedEmacs {
                behind: Arc::clone(&emacs),
                see: move |event: Event| {
                    write_down(&recorders, &event);
                    Some(event)
                },
            }),
            audit: Arc::new(audit),
            metrics: Arc::default(),
            rules: Arc::new(Mutex::new(rules)),
        };
        Self {
            servers: ToolServers::new(Arc::clone(&registry), Arc::clone(&emacs)),
            shared: Shared {
                registry,
                libraries: Arc::default(),
                executor,
                http: Arc::new(Http::new(HttpSettings::default())),
                ratios: Arc::default(),
            },
            emacs,
            chats,
            sessions: Mutex::default(),
            batches: Arc::default(),
        }
    }

    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.shared.executor.metrics
    }

    #[must_use]
    pub fn audit(&self) -> &AuditLog {
        &self.shared.executor.audit
    }

    /// Puts the levels in force that the user set, a JSON object of names and levels.
    ///
    /// # Errors
    ///
    /// When the text is no such object, or names no level.
    pub fn set_levels(&self, levels: &str) -> Result<(), RequestError> {
        let levels: HashMap<String, String> =
            serde_json::from_str(levels).map_err(RequestError::Levels)?;
        let levels = levels
            .into_iter()
            .map(|(name, level)| Ok((name, SafetyLevel::parse(&level)?)))
            .collect::<Result<_, InvalidTool>>()?;
        self.shared.registry.set_levels(levels);
        Ok(())
    }

    /// The servers that have tools of others.
    #[must_use]
    pub fn servers(&self) -> &ToolServers {
        &self.servers
    }

    /// The named tool libraries.
    #[must_use]
    pub fn libraries(&self) -> &Libraries {
        &self.shared.libraries
    }

    /// Opens a session with the settings in JSON.
    ///
    /// # Errors
    ///
    /// When the settings are not understood.
    pub fn open_session(&self, settings: &str) -> Result<SessionId, RequestError> {
        let settings = self.settings(settings)?;
        let id = SessionId::next();
        self.open_with(id, settings, Box::pin(async { Beginning::default() }));
        Ok(id)
    }

    /// Opens the session ID, which begins with what BEGINNING gives.
    fn open_with(
        &self,
        id: SessionId,
        settings: SessionSettings,
        beginning: BoxFuture<'static, Beginning>,
    ) -> Arc<Workspace> {
        let (session, actor) = session::open_with(id, self.shared.clone(), settings, beginning);
        let workspace = Arc::clone(&session.workspace);
        held(&self.sessions).insert(id, session);
        let chats = Arc::clone(&self.chats);
        let audit = Arc::clone(&self.shared.executor.audit);
        on_emacs::spawn(self.guarded(async move {
            actor.await;
            chats.close(id);
            audit.note_chat(id, None);
        }));
        workspace
    }

    /// Hands OP to a session.
    ///
    /// # Errors
    ///
    /// When the session is closed.
    pub fn tell(&self, id: SessionId, op: Op) -> Result<(), RequestError> {
        let sessions = held(&self.sessions);
        let session = sessions.get(&id).ok_or(RequestError::NoSession(id.0))?;
        session.agenda.tell(op);
        Ok(())
    }

    /// Changes the settings named in JSON; those of a running turn stay.
    ///
    /// # Errors
    ///
    /// When the session is closed or the settings are not understood.
    pub fn configure(&self, id: SessionId, settings: &str) -> Result<(), RequestError> {
        let changes = self.settings(settings)?;
        let sessions = held(&self.sessions);
        let session = sessions.get(&id).ok_or(RequestError::NoSession(id.0))?;
        held(&session.settings).apply(changes);
        Ok(())
    }

    /// The settings in JSON, whose selection of tools has to fit those that there are.
    fn settings(&self, json: &str) -> Result<SessionSettings, RequestError> {
        let settings: SessionSettings =
            serde_json::from_str(json).map_err(RequestError::Settings)?;
        if let Some(selection) = &settings.tools {
            selection.check(self.registry())?;
        }
        Ok(settings)
    }

    /// Hands the user's MESSAGE to a session.
    ///
    /// # Errors
    ///
    /// When the session is closed, or offers a category whose tools are gone meanwhile.
    pub fn submit(&self, id: SessionId, message: UserMessage) -> Result<(), RequestError> {
        if let Some(session) = held(&self.sessions).get(&id) {
            held(&session.settings).tools.check(self.registry())?;
        }
        self.tell(id, Op::Submit(message))
    }

    /// The names of the tools that SELECTION, the JSON of a chat's setting, offers.
    ///
    /// # Errors
    ///
    /// When the selection is not understood, or has a category that no tool has.
    pub fn offered_tools(&self, selection: &str) -> Result<Vec<String>, RequestError> {
        let selection: ToolSelection =
            serde_json::from_str(selection).map_err(RequestError::Settings)?;
        selection.check(self.registry())?;
        let tools = selection.tools(self.registry());
        Ok(tools.iter().map(|tool| tool.name.clone()).collect())
    }

    /// Ends a session and its turn. Closing it twice is no error.
    pub fn close_session(&self, id: SessionId) {
        if let Some(session) = held(&self.sessions).remove(&id) {
            held(&self.shared.executor.rules).forget(&Scope::Chat(id.0));
            session.agenda.close();
        }
    }

    /// The system prompt that the session would send now.
    ///
    /// # Errors
    ///
    /// When the session is closed.
    pub fn system_prompt(&self, id: SessionId) -> Result<String, RequestError> {
        let sessions = held(&self.sessions);
        let session = sessions.get(&id).ok_or(RequestError::NoSession(id.0))?;
        let settings = held(&session.settings);
        let tools = match &settings.agent {
            // A library that does not fit is reported when the turn starts; here its tools are
            // only missing from the list.
            Some(agent) => self
                .libraries()
                .bind(agent, 0, self.registry())
                .unwrap_or_default(),
            None => settings.listed(self.registry(), &session.offer),
        };
        let root = settings.ground.root.as_deref().map(Path::new);
        let place = TurnPlace::new(0, id.0, root, settings.connection.clone());
        let tools = self.shared.executor.without_denied(&tools, &place);
        let now = sections(
            settings.instructions.as_deref(),
            &settings.guides(),
            &skills::section(&settings.skills()),
        );
        let sections = held(&session.prefix).sections(now.as_deref());
        Ok(settings.system_prompt(&tools, sections.as_deref()))
    }

    /// Has the session's next request take over the user's instructions as they are then.
    ///
    /// # Errors
    ///
    /// When the session is closed.
    pub fn sync_instructions(&self, id: SessionId) -> Result<(), RequestError> {
        let sessions = held(&self.sessions);
        let session = sessions.get(&id).ok_or(RequestError::NoSession(id.0))?;
        held(&session.prefix).sync();
        Ok(())
    }

    /// What the session is to do.
    ///
    /// # Errors
    ///
    /// When the session is closed.
    pub fn agenda(&self, id: SessionId) -> Result<Arc<Agenda>, RequestError> {
        let sessions = held(&self.sessions);
        let session = sessions.get(&id).ok_or(RequestError::NoSession(id.0))?;
        Ok(Arc::clone(&session.agenda))
    }

    /// What the latest turn of the session that changed anything changed, as one diff.
    ///
    /// # Errors
    ///
    /// When the session is closed.
    pub fn changes(&self, id: SessionId) -> Result<String, RequestError> {
        let sessions = held(&self.sessions);
        let session = sessions.get(&id).ok_or(RequestError::NoSession(id.0))?;
        let turn = session.workspace.journal.last().unwrap_or_default();
        Ok(session.workspace.diff(&turn))
    }

    /// Has the session's model told that the user took back changes in the image; RESULTS is the
    /// image's word on it.
    ///
    /// # Errors
    ///
    /// When the session is closed.
    pub fn image_undone(&self, id: SessionId, results: &str) -> Result<(), RequestError> {
        let sessions = held(&self.sessions);
        let session = sessions.get(&id).ok_or(RequestError::NoSession(id.0))?;
        builtin::files::undo::image_undone(&session.workspace, results);
        Ok(())
    }

    /// Looks for model servers on this machine; the answer is an event.
    pub fn discover(&self) {
        let shared = self.shared.clone();
        self.spawn(async move {
            let servers = shared.http.discover(LOCAL_SERVERS).await;
            shared.executor.emacs.emit(Event::Discovered { servers });
        });
    }

    /// Asks the host of PROVIDER, JSON text, for its models; the answer is an event.
    ///
    /// # Errors
    ///
    /// When PROVIDER is not understood.
    pub fn models(&self, provider: &str) -> Result<QuestionId, RequestError> {
        let settings =
            session::settings::provider_from_json(provider).ok_or(RequestError::Provider)?;
        let question = QuestionId::next();
        let shared = self.shared.clone();
        self.spawn(async move {
            let models = shared.http.models(&settings).await;
            shared
                .executor
                .emacs
                .emit(Event::Models { question, models });
        });
        Ok(question)
    }

    /// Runs FUTURE on the core's threads; a panic becomes an event.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        runtime::spawn(self.guarded(future));
    }

    /// FUTURE, a panic of which becomes an event.
    pub fn guarded(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let emacs = Arc::clone(&self.shared.executor.emacs);
        runtime::guarded(future, move |message| emacs.emit(Event::Fault { message }))
    }

    #[must_use]
    pub fn has_session(&self, id: SessionId) -> bool {
        held(&self.sessions).contains_key(&id)
    }

    /// How many sessions are open.
    #[must_use]
    pub fn session_count(&self) -> usize {
        held(&self.sessions).len()
    }

    /// How many tool calls wait for the user's answer.
    #[must_use]
    pub fn approval_count(&self) -> usize {
        self.shared.executor.approvals.count()
    }
}
