// SPDX-License-Identifier: GPL-3.0-or-later
//! Sessions: one actor per chat. It owns the history, runs the turns and tells Emacs what happened.
//! What Emacs asks meanwhile waits in `agenda`.

mod agenda;
pub mod budget;
mod compaction;
pub mod context;
pub mod conversation;
pub mod drafting;
pub mod guidance;
mod prefix;
mod reply_end;
mod research;
mod rewind;
pub mod selection;
pub mod settings;
pub mod skills;
pub mod tokens;
mod turn;
mod work;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub use agenda::Agenda;
pub use settings::{SessionSettings, Settings};
pub use turn::Shared;

use crate::call::batch::{BatchContext, PlanMode, Watcher};
use crate::protocol::{Event, SessionId, SessionState, TurnId, TurnOutcome};
use crate::rules::{Scope, TurnPlace};
use crate::runtime::{held, on_emacs, panic_message};
use crate::tool::begun::BegunCalls;
use crate::tool::libraries::LibrariesError;
use crate::tool::offer::Offer;
use crate::tool::registry::Registry;
use crate::tool::work::PastResults;
use crate::workspace::Workspace;
use agenda::Work;
use budget::Budget;
use context::Told;
use conversation::{Conversation, Opening};
use prefix::Prefix;
use research::Research;
use work::Means;

/// A session as Emacs's side holds it.
#[derive(Debug, Clone)]
pub struct Session {
    /// What it is to do.
    pub agenda: Arc<Agenda>,
    /// Changed from outside the actor; a running turn goes on with those that it began with.
    pub settings: Arc<Mutex<Settings>>,
    /// What the chat knows of the user's files and changed in them.
    pub workspace: Arc<Workspace>,
    /// What its model asked for besides the tools that the user chose.
    pub offer: Arc<Offer>,
    /// Results, and parts of them, that its model can read again.
    pub past: Arc<PastResults>,
    /// What its requests begin with.
    pub prefix: Arc<Mutex<Prefix>>,
}

struct Actor {
    id: SessionId,
    agenda: Arc<Agenda>,
    shared: Shared,
    settings: Arc<Mutex<Settings>>,
    workspace: Arc<Workspace>,
    offer: Arc<Offer>,
    prefix: Arc<Mutex<Prefix>>,
    /// Where the user was, as the model was told last.
    told: Arc<Mutex<Told>>,
    /// Whether the user was told that the model writes calls as text.
    unparsed_told: Arc<OnceLock<()>>,
    /// Results of which the model has only the beginning.
    past: Arc<PastResults>,
    /// The calls that the model has begun.
    begun: Arc<BegunCalls>,
    history: Conversation,
    /// Where in the conversation each turn begins, in order.
    openings: Vec<Opening>,
    /// How many messages were worked on; an agent's libraries take turns by it.
    turns: usize,
}

/// What a chat begins with.
#[derive(Default)]
pub struct Beginning {
    pub history: Conversation,
    pub openings: Vec<Opening>,
}

/// The tools of a turn.
struct TurnTools {
    /// Those that requests list.
    listed: Arc<Registry>,
    /// Those that can be called.
    callable: Arc<Registry>,
}

impl TurnTools {
    fn all_listed(tools: Arc<Registry>) -> Self {
        Self {
            listed: Arc::clone(&tools),
            callable: tools,
        }
    }
}

/// Has the tools come that SETTINGS choose and that a server has; why some don't. A turn goes on without
/// those of a server that doesn't run.
async fn bring_tools(
    offer: &Offer,
    settings: &Settings,
    cancel: &CancellationToken,
) -> Vec<String> {
    let mut troubles = Vec::new();
    for group in settings.tools.groups() {
        tokio::select! {
            () = cancel.cancelled() => break,
            brought = offer.bring(group) => troubles.extend(brought.err().map(|it| it.message)),
        }
    }
    troubles
}

/// Whether Emacs knows of a turn.
#[derive(PartialEq, Eq)]
enum Announced {
    Yes,
    No,
}

/// Makes a session; the future is its actor and ends when it is closed.
pub fn open(
    id: SessionId,
    shared: Shared,
    settings: SessionSettings,
) -> (Session, impl Future<Output = ()> + Send + 'static) {
    let beginning = async { Beginning::default() };
    open_with(id, shared, settings, Box::pin(beginning))
}

/// The same with what BEGINNING gives; what is asked of the session meanwhile waits.
pub fn open_with(
    id: SessionId,
    shared: Shared,
    settings: SessionSettings,
    beginning: BoxFuture<'static, Beginning>,
) -> (Session, impl Future<Output = ()> + Send + 'static) {
    let agenda = Arc::new(Agenda::default());
    let mut own = Settings::default();
    own.apply(settings);
    let workspace = Arc::new(Workspace::default());
    // What a chat changed before is shown before its first turn.
    workspace.set_ground(&own.ground);
    let offer = Arc::new(Offer::new(Arc::clone(&shared.registry)));
    offer.set_project(own.ground.root.as_deref());
    let settings = Arc::new(Mutex::new(own));
    let prefix = Arc::new(Mutex::new(Prefix::default()));
    let past = Arc::new(PastResults::default());
    let session = Session {
        agenda: Arc::clone(&agenda),
        settings: Arc::clone(&settings),
        workspace: Arc::clone(&workspace),
        offer: Arc::clone(&offer),
        past: Arc::clone(&past),
        prefix: Arc::clone(&prefix),
    };
    let actor = Actor {
        id,
        agenda,
        shared,
        settings,
        workspace,
        offer,
        prefix,
        told: Arc::default(),
        unparsed_told: Arc::default(),
        past,
        begun: Arc::default(),
        history: Conversation::default(),
        openings: Vec::new(),
        turns: 0,
    };
    (session, actor.begin(beginning))
}

impl Actor {
    async fn begin(mut self, beginning: BoxFuture<'static, Beginning>) {
        Beginning {
            history: self.history,
            openings: self.openings,
        } = on_emacs::elsewhere(beginning).await;
        *held(&self.told) = Told::resumed(self.history.users());
        // What the model reads only the beginning of can be asked for.
        for id in self.history.live().trimmed.keys() {
            if let Some(message) = self.history.entry(*id).and_then(|entry| entry.message()) {
                self.past.keep(id.0, message);
            }
        }
        self.live().await;
    }

    async fn live(mut self) {
        let agenda = Arc::clone(&self.agenda);
        while let Some((work, cancel)) = agenda.next().await {
            match work {
                // The user waits for it, and so does Emacs, as in batches.
                Work::Console(_) => self.perform(work, cancel).await,
                _ => on_emacs::elsewhere(self.perform(work, cancel)).await,
            }
            agenda.done();
        }
    }

    /// Does WORK until it is over or CANCEL ends it.
    async fn perform(&mut self, work: Work, cancel: CancellationToken) {
        let settings = held(&self.settings).clone();
        self.workspace.set_ground(&settings.ground);
        self.offer.set_project(settings.ground.root.as_deref());
        for text in bring_tools(&self.offer, &settings, &cancel).await {
            let session = self.id;
            self.emit(Event::Notice { session, text });
        }
        let tools = match self.tools_for(&work, &settings) {
            Ok(tools) => tools,
            Err(problem) => {
                return self.give_up(&work, problem.to_string());
            }
        };
        self.offer
            .begin_turn(&tools.listed, settings.unoffered(&self.shared.registry));
        let turn = TurnId::next();
        let root = settings.ground.root.as_deref().map(Path::new);
        let place = TurnPlace::new(turn.0, self.id.0, root, settings.connection.clone());
        let budget = Arc::new(Budget::of_turn(settings.limits));
        let researcher = Research::of_turn(&self.shared, &settings, &place, &budget);
        let batch = BatchContext {
            session: self.id,
            watcher: Watcher::Chat,
            tools: tools.callable,
            offer: Arc::clone(&self.offer),
            past: Arc::clone(&self.past),
            // The user waits for what they call themselves.
            begun: match work {
                Work::Console(_) => None,
                _ => Some(Arc::clone(&self.begun)),
            },
            // What the user calls themselves is not a part of any plan.
            plan: match work {
                Work::Message(_) => settings.plan,
                _ => PlanMode::Off,
            },
            approval: settings.approval,
            eval_deadline: settings.eval_deadline,
            workspace: Arc::clone(&self.workspace),
            eval_policy: settings.eval_policy,
            after_edit: settings.after_edit,
            cancel,
            why_cancelled: Arc::default(),
            place,
            researcher,
        };
        let announced = self.announce(&work, turn);
        let mut history = std::mem::take(&mut self.history);
        let span = tracing::error_span!("turn", session = self.id.0, turn = turn.0);
        let means = Means {
            shared: &self.shared,
            settings: &settings,
            batch: &batch,
            listed: &tools.listed,
            agenda: &self.agenda,
            prefix: &self.prefix,
            told: &self.told,
            unparsed_told: &self.unparsed_told,
            openings: &self.openings,
            budget: &budget,
        };
        let outcome = AssertUnwindSafe(means.run(work, &mut history).instrument(span))
            .catch_unwind()
            .await;
        self.history = history;
        self.shared.executor.end_background(&batch).await;
        self.shared.executor.audit.sync_aside().await;
        held(&self.shared.executor.rules).forget(&Scope::Turn(turn.0));
        let outcome = outcome.unwrap_or_else(|payload| self.contain(&*payload));
        if let TurnOutcome::Failed(message)
        | TurnOutcome::NoSuchModel(message)
        | TurnOutcome::KeyRefused(message) = &outcome
        {
            tracing::warn!(
                session = self.id.0,
                turn = turn.0,
                "the turn failed: {message}"
            );
        }
        if announced == Announced::Yes || outcome != TurnOutcome::Finished {
            self.end(outcome);
        }
    }

    /// Ends WORK, which can't be begun because of PROBLEM.
    fn give_up(&mut self, work: &Work, problem: String) {
        if let Work::ShowWindow(question) = work {
            self.emit(Event::WindowShown {
                question: *question,
                report: Err(problem),
            });
        } else if let Work::ShowRequest(question, _) = work {
            self.emit(Event::RequestShown {
                question: *question,
                request: Err(problem),
            });
        } else {
            self.announce(work, TurnId::next());
            self.end(TurnOutcome::Failed(problem));
        }
    }

    /// What can be called while WORK is done.
    fn tools_for(&mut self, work: &Work, settings: &Settings) -> Result<TurnTools, LibrariesError> {
        let registry = &self.shared.registry;
        match (work, &settings.agent) {
            // The user may call any tool.
            (
                Work::Console(_)
                | Work::Undo(_)
                | Work::UndoCompaction
                | Work::PlanRewind { .. }
                | Work::Rewind { .. }
                | Work::UndoRewind { .. },
                _,
            ) => Ok(TurnTools::all_listed(Arc::clone(registry))),
            (
                Work::Message(_) | Work::ShowRequest(..) | Work::ShowWindow(_) | Work::Compact,
                None,
            ) => {
                let listed = settings.listed(registry, &self.offer);
                let callable = Registry::of(listed.all());
                self.offer.complete(&callable);
                Ok(TurnTools {
                    listed: Arc::new(listed),
                    callable: Arc::new(callable),
                })
            }
            (Work::ShowRequest(..) | Work::ShowWindow(_) | Work::Compact, Some(agent)) => {
                let bound = self.shared.libraries.bind(agent, self.turns, registry)?;
                Ok(TurnTools::all_listed(Arc::new(bound)))
            }
            (Work::Message(_), Some(agent)) => {
                let turn = self.turns;
                self.turns += 1;
                let bound = self.shared.libraries.bind(agent, turn, registry)?;
                Ok(TurnTools::all_listed(Arc::new(bound)))
            }
        }
    }

    /// Tells Emacs that TURN starts, if WORK is one.
    fn announce(&mut self, work: &Work, turn: TurnId) -> Announced {
        let message = match work {
            Work::Message(message) | Work::Console(message) => message,
            // The chat shows what it does, and that it is over.
            Work::Compact => return Announced::Yes,
            Work::Undo(_)
            | Work::UndoCompaction
            | Work::ShowRequest(..)
            | Work::ShowWindow(_)
            | Work::PlanRewind { .. }
            | Work::Rewind { .. }
            | Work::UndoRewind { .. } => return Announced::No,
        };
        self.openings.push(Opening {
            turn: turn.0,
            entry: self.history.next_id(),
        });
        self.workspace.journal.begin_turn(turn.0);
        self.emit(Event::TurnStarted {
            session: self.id,
            turn,
            message: Some(message.id),
            text: message.text.clone(),
            along: message.along.clone(),
        });
        Announced::Yes
    }

    fn end(&self, outcome: TurnOutcome) {
        self.emit(Event::State {
            session: self.id,
            state: SessionState::Idle,
        });
        self.emit(Event::TurnEnded {
            session: self.id,
            outcome,
        });
    }

    fn contain(&self, payload: &(dyn std::any::Any + Send)) -> TurnOutcome {
        let message = format!(
            "The turn ended because of a bug in agent-q ({}); its log has the details.",
            panic_message(payload)
        );
        self.emit(Event::Fault {
            message: message.clone(),
        });
        TurnOutcome::Failed(message)
    }

    fn emit(&self, event: Event) {
        self.shared.executor.emacs.emit(event);
    }
}
