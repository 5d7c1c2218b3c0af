// SPDX-License-Identifier: GPL-3.0-or-later
//! Sessions: one actor per chat. It owns the history, runs the turns and tells Emacs what happened.
//! Ops come in at any time; messages that arrive while a turn runs wait for its end.

pub mod budget;
mod compaction;
pub mod context;
pub mod conversation;
pub mod drafting;
pub mod guidance;
mod prefix;
mod reply_end;
mod rewind;
pub mod selection;
pub mod settings;
pub mod skills;
pub mod tokens;
mod turn;
mod work;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

pub use settings::{SessionSettings, Settings};
pub use turn::Shared;

use crate::call::batch::{BatchContext, PlanMode, Watcher};
use crate::protocol::{Event, LimitAnswer, Op, SessionId, SessionState, TurnId, TurnOutcome};
use crate::rules::{Scope, TurnPlace};
use crate::runtime::{held, on_emacs, panic_message};
use crate::tool::libraries::LibrariesError;
use crate::tool::offer::Offer;
use crate::tool::registry::Registry;
use crate::tool::work::PastResults;
use crate::workspace::Workspace;
use context::Told;
use conversation::{Conversation, Opening};
use prefix::Prefix;
use turn::{Pause, Steering};
use work::{Means, Work};

/// A session as Emacs's side holds it.
#[derive(Debug, Clone)]
pub struct Session {
    pub ops: mpsc::UnboundedSender<Op>,
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
    /// What its running turn is to get.
    pub steering: Arc<Steering>,
}

struct Actor {
    id: SessionId,
    shared: Shared,
    settings: Arc<Mutex<Settings>>,
    workspace: Arc<Workspace>,
    offer: Arc<Offer>,
    /// Where a turn waits that met a limit.
    pause: Arc<Pause>,
    prefix: Arc<Mutex<Prefix>>,
    /// Where the user was, as the model was told last.
    told: Arc<Mutex<Told>>,
    /// Whether the user was told that the model writes calls as text.
    unparsed_told: Arc<OnceLock<()>>,
    steering: Arc<Steering>,
    /// Results of which the model has only the beginning.
    past: Arc<PastResults>,
    history: Conversation,
    /// Where in the conversation each turn begins, in order.
    openings: Vec<Opening>,
    waiting: VecDeque<Work>,
    /// Whether something is being done.
    at_work: bool,
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

/// Whether Emacs knows of a turn.
#[derive(PartialEq, Eq)]
enum Announced {
    Yes,
    No,
}

/// Whether an actor goes on.
#[derive(PartialEq, Eq)]
enum Life {
    Open,
    Closed,
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
    let (ops, inbox) = mpsc::unbounded_channel();
    let mut own = Settings::default();
    own.apply(settings);
    let settings = Arc::new(Mutex::new(own));
    let workspace = Arc::new(Workspace::default());
    let offer = Arc::new(Offer::new(Arc::clone(&shared.registry)));
    let prefix = Arc::new(Mutex::new(Prefix::default()));
    let steering = Arc::new(Steering::default());
    let past = Arc::new(PastResults::default());
    let session = Session {
        ops,
        settings: Arc::clone(&settings),
        workspace: Arc::clone(&workspace),
        offer: Arc::clone(&offer),
        past: Arc::clone(&past),
        prefix: Arc::clone(&prefix),
        steering: Arc::clone(&steering),
    };
    let actor = Actor {
        id,
        shared,
        settings,
        workspace,
        offer,
        pause: Arc::default(),
        prefix,
        told: Arc::default(),
        unparsed_told: Arc::default(),
        steering,
        past,
        history: Conversation::default(),
        openings: Vec::new(),
        waiting: VecDeque::new(),
        at_work: false,
        turns: 0,
    };
    (session, actor.begin(beginning, inbox))
}

impl Actor {
    async fn begin(
        mut self,
        beginning: BoxFuture<'static, Beginning>,
        inbox: mpsc::UnboundedReceiver<Op>,
    ) {
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
        self.live(inbox).await;
    }

    async fn live(mut self, mut inbox: mpsc::UnboundedReceiver<Op>) {
        while let Some(op) = inbox.recv().await {
            if self.note(op, &CancellationToken::new()) == Life::Closed {
                return;
            }
            while let Some(work) = self.waiting.pop_front() {
                let life = match work {
                    // The user waits for it, and so does Emacs, as in batches.
                    Work::Console(_) => self.perform(work, &mut inbox).await,
                    _ => on_emacs::elsewhere(self.perform(work, &mut inbox)).await,
                };
                if life == Life::Closed {
                    return;
                }
                // What a turn was to get and ended before begins the next one.
                for message in self.steering.take().into_iter().rev() {
                    self.waiting.push_front(Work::Message(message));
                }
            }
        }
    }

    /// Takes in OP; CANCEL is the token of the turn that runs.
    fn note(&mut self, op: Op, cancel: &CancellationToken) -> Life {
        match op {
            Op::Submit(message) => {
                // Who sends something else has answered a turn that asks whether it goes on.
                self.pause.settle(LimitAnswer::Stop);
                self.waiting.push_back(Work::Message(message));
            }
            Op::Steer(message) => {
                self.pause.settle(LimitAnswer::GoOn);
                match self.at_work {
                    true => self.steering.add(message),
                    false => self.waiting.push_back(Work::Message(message)),
                }
            }
            Op::ShowWindow(question) => self.waiting.push_back(Work::ShowWindow(question)),
            Op::Compact => self.waiting.push_back(Work::Compact),
            Op::UndoCompaction => self.waiting.push_back(Work::UndoCompaction),
            Op::AnswerLimit(answer) => self.pause.settle(answer),
            Op::ShowRequest(question, message) => {
                self.waiting.push_back(Work::ShowRequest(question, message));
            }
            Op::Console(line) => self.waiting.push_back(Work::Console(line)),
            Op::UndoTurn(which) => self.waiting.push_back(Work::Undo(which)),
            Op::PlanRewind(question, turn) => {
                self.waiting.push_back(Work::PlanRewind { question, turn });
            }
            Op::Rewind {
                question,
                turn,
                parts,
            } => self.waiting.push_back(Work::Rewind {
                question,
                turn,
                parts,
            }),
            Op::UndoRewind(question, rewind) => {
                self.waiting
                    .push_back(Work::UndoRewind { question, rewind });
            }
            Op::Cancel => {
                self.waiting.retain(Work::only_shows);
                drop(self.steering.take());
                cancel.cancel();
            }
            Op::Close => {
                cancel.cancel();
                return Life::Closed;
            }
        }
        Life::Open
    }

    /// Does WORK while ops go on coming in.
    async fn perform(&mut self, work: Work, inbox: &mut mpsc::UnboundedReceiver<Op>) -> Life {
        let cancel = CancellationToken::new();
        // The work owns what it changes, so that ops can be noted meanwhile.
        let settings = held(&self.settings).clone();
        self.workspace.set_ground(&settings.ground);
        let tools = match self.tools_for(&work, &settings) {
            Ok(tools) => tools,
            Err(problem) => {
                self.give_up(&work, problem.to_string());
                return Life::Open;
            }
        };
        self.offer
            .begin_turn(&tools.listed, settings.unoffered(&self.shared.registry));
        let turn = TurnId::next();
        let batch = BatchContext {
            session: self.id,
            watcher: Watcher::Chat,
            tools: tools.callable,
            offer: Arc::clone(&self.offer),
            past: Arc::clone(&self.past),
            // What the user calls themselves is not a part of any plan.
            plan: match work {
                Work::Message(_) => settings.plan,
                _ => PlanMode::Off,
            },
            approval: settings.approval,
            eval_deadline: settings.eval_deadline,
            workspace: Arc::clone(&self.workspace),
            eval_policy: settings.eval_policy,
            cancel: cancel.clone(),
            why_cancelled: Arc::default(),
            place: TurnPlace::new(
                turn.0,
                self.id.0,
                settings.ground.root.as_deref().map(Path::new),
                settings.connection.clone(),
            ),
        };
        let announced = self.announce(&work, turn);
        let mut history = std::mem::take(&mut self.history);
        let openings = self.openings.clone();
        let shared = self.shared.clone();
        let mut life = Life::Open;
        self.at_work = true;
        let outcome = {
            let span = tracing::error_span!("turn", session = self.id.0, turn = turn.0);
            let (pause, prefix) = (Arc::clone(&self.pause), Arc::clone(&self.prefix));
            let (told, steering) = (Arc::clone(&self.told), Arc::clone(&self.steering));
            let unparsed_told = Arc::clone(&self.unparsed_told);
            let means = Means {
                shared: &shared,
                settings: &settings,
                batch: &batch,
                listed: &tools.listed,
                pause: &pause,
                prefix: &prefix,
                told: &told,
                unparsed_told: &unparsed_told,
                steering: &steering,
                openings: &openings,
            };
            let work = means.run(work, &mut history).instrument(span);
            let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
            loop {
                tokio::select! {
                    outcome = &mut work => break outcome,
                    op = inbox.recv(), if life == Life::Open => {
                        life = self.note(op.unwrap_or(Op::Close), &cancel);
                    }
                }
            }
        };
        self.history = history;
        self.at_work = false;
        self.shared.executor.audit.sync_aside().await;
        held(&self.shared.executor.rules).forget(&Scope::Turn(turn.0));
        let outcome = outcome.unwrap_or_else(|payload| self.contain(&*payload));
        if let TurnOutcome::Failed(message) | TurnOutcome::NoSuchModel(message) = &outcome {
            tracing::warn!(
                session = self.id.0,
                turn = turn.0,
                "the turn failed: {message}"
            );
        }
        if announced == Announced::Yes || outcome != TurnOutcome::Finished {
            self.end(outcome);
        }
        life
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
        let (text, along) = match work {
            Work::Message(message) => (&message.text, message.along.clone()),
            Work::Console(line) => (line, Vec::new()),
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
            text: text.clone(),
            along,
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
