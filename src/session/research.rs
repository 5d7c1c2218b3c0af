// SPDX-License-Identifier: GPL-3.0-or-later
//! What the tool `research` does: a turn with a conversation, a model and a budget of its own, and with safe
//! tools alone. The chat shows its calls below the one that asked, and its model reads the answer alone.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc};

use super::agenda::Agenda;
use super::budget::{Budget, Limits};
use super::conversation::{Conversation, Entry};
use super::settings::Settings;
use super::turn::{AtLimit, Shared, Turn};
use crate::builtin::image::execution::END_SCRATCH;
use crate::builtin::image::systems::in_a_line;
use crate::builtin::{more, research};
use crate::call::Executor;
use crate::call::batch::{Approval, BatchContext, PlanMode, Watcher};
use crate::protocol::{
    Asked, CallKey, Emacs, EmacsReply, EmacsRequest, Event, SessionId, TurnOutcome,
};
use crate::provider::history::{calls_of, texts_of};
use crate::provider::{ChatMessage, ProviderSettings, ToolChoice};
use crate::rules::TurnPlace;
use crate::runtime::{held, on_emacs};
use crate::tool::begun::{AWAIT, CANCEL};
use crate::tool::libraries::Agent;
use crate::tool::offer::{Offer, Unoffered};
use crate::tool::registry::Registry;
use crate::tool::work::{AfterEdit, Researcher, Running, WorkContext};
use crate::tool::{Arguments, Content, Origin, ToolFailure};
use crate::trust::{Provenance, SafetyLevel};
use crate::workspace::Workspace;

const INSTRUCTION: &str = include_str!("research_prompt.md");

/// How many run at once in a turn.
const MOST: usize = 8;

/// What one may use before it has to answer.
const LIMITS: Limits = Limits {
    requests: 30,
    tokens: None,
    time: Some(Duration::from_secs(600)),
    cost: None,
};

/// Safe tools that are of no use in one, or end what is the chat's.
const LEFT_OUT: &[&str] = &[
    research::NAME,
    more::NAME,
    more::CALL,
    AWAIT,
    CANCEL,
    END_SCRATCH,
];

/// What the researches of a turn have in common.
pub struct Research {
    shared: Shared,
    settings: Settings,
    provider: ProviderSettings,
    session: SessionId,
    /// That of the turn.
    place: TurnPlace,
    tools: Arc<Registry>,
    /// What the turn may use.
    budget: Arc<Budget>,
    slots: Arc<Semaphore>,
}

impl fmt::Debug for Research {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Research").finish_non_exhaustive()
    }
}

impl Research {
    /// What looks into questions for the turn of the chat SESSION at PLACE, whose model can call CALLABLE; none
    /// without a model. What it uses is a part of BUDGET.
    #[must_use]
    pub fn of_turn(
        shared: &Shared,
        settings: &Settings,
        session: SessionId,
        place: &TurnPlace,
        callable: &Registry,
        budget: &Arc<Budget>,
    ) -> Option<Arc<dyn Researcher>> {
        let own = settings.research_provider.as_ref();
        let provider = own.or(settings.provider.as_ref())?.clone();
        let all = &shared.registry;
        let mut tools = match settings.unoffered(all) {
            Unoffered::Callable => all.all(),
            _ => callable.all(),
        };
        // What programs and servers offer is there where the chat has it.
        tools.retain(|tool| {
            tool.level == SafetyLevel::Safe
                && !LEFT_OUT.contains(&tool.name.as_str())
                && (tool.origin == Origin::BuiltIn || callable.get(&tool.name).is_some())
        });
        Some(Arc::new(Self {
            settings: Settings {
                instructions: None,
                limits: match own {
                    Some(_) => settings.limits,
                    // The turn has told whether its model's price is known.
                    None => Limits::default(),
                },
                context_window: settings.context_window.filter(|_| own.is_none()),
                plan: PlanMode::Off,
                tool_choice: ToolChoice::Auto,
                approval: Approval::None,
                agent: Some(Agent {
                    name: research::NAME.to_owned(),
                    instruction: INSTRUCTION.to_owned(),
                    specifications: Vec::new(),
                    libraries: Vec::new(),
                }),
                ..settings.clone()
            },
            shared: shared.clone(),
            provider,
            session,
            place: place.clone(),
            tools: Arc::new(Registry::of(tools)),
            budget: Arc::clone(budget),
            slots: Arc::new(Semaphore::new(MOST)),
        }))
    }

    /// Finds out what QUESTION asks, for the call of CONTEXT.
    async fn answer(
        &self,
        question: String,
        context: &WorkContext,
    ) -> Result<Content, ToolFailure> {
        let Ok(_slot) = self.slots.try_acquire() else {
            return Err(ToolFailure::new(format!(
                "{MOST} researches run already; ask again when one of them is done."
            )));
        };
        let question = match self.systems(context).await {
            Some(systems) => format!("{question}\n\n(The project's systems: {systems})"),
            None => question,
        };
        let steps = Arc::new(Steps {
            behind: Arc::clone(&context.emacs),
            call: context.call,
            made: Mutex::default(),
        });
        let shared = Shared {
            executor: Executor {
                emacs: Arc::clone(&steps) as Arc<dyn Emacs>,
                ..self.shared.executor.clone()
            },
            ..self.shared.clone()
        };
        let batch = self.batch(context);
        let turn = Turn {
            shared: &shared,
            settings: &self.settings,
            provider: &self.provider,
            batch: &batch,
            listed: &self.tools,
            sections: None,
            agenda: &Agenda::default(),
            prefix: &Mutex::default(),
            told: &Mutex::default(),
            unparsed_told: &OnceLock::new(),
            budget: &Budget::of_research(LIMITS, &self.budget),
            at_limit: AtLimit::Answer,
        };
        let mut history = Conversation::default();
        history.begin_turn();
        let opening = history.ask(question.clone(), &question);
        let running = turn.run(&mut history, opening);
        let model = &self.provider.model;
        let outcome = context.telling(running, || steps.told(model)).await;
        self.told(outcome, &history, batch.place.provenance())
    }

    async fn systems(&self, context: &WorkContext) -> Option<String> {
        self.settings.ground.root.as_ref()?;
        in_a_line(context, self.settings.connection.as_deref()).await
    }

    /// What the calls of one are made in, which is itself a call in CONTEXT. What it has seen of files its chat
    /// has not, and the other way round.
    fn batch(&self, context: &WorkContext) -> BatchContext {
        let workspace = Workspace::default();
        workspace.set_ground(&self.settings.ground);
        let offer = Offer::new(Arc::clone(&self.shared.registry));
        offer.begin_turn(&self.tools, Unoffered::LeftOutOfResearch);
        BatchContext {
            session: self.session,
            watcher: Watcher::Beside,
            tools: Arc::clone(&self.tools),
            offer: Arc::new(offer),
            past: Arc::default(),
            begun: None,
            approval: Approval::None,
            eval_deadline: self.settings.eval_deadline,
            workspace: Arc::new(workspace),
            eval_policy: self.settings.eval_policy,
            plan: PlanMode::Research,
            after_edit: AfterEdit::Leave,
            cancel: context.cancel.clone(),
            why_cancelled: Arc::new("the research was stopped".to_owned().into()),
            place: self.place.clone().unread(),
            researcher: None,
        }
    }

    /// What the research came to that ended with OUTCOME, and whose texts have PROVENANCE.
    fn told(
        &self,
        outcome: TurnOutcome,
        history: &Conversation,
        provenance: Provenance,
    ) -> Result<Content, ToolFailure> {
        let answer = answer_in(history);
        let text = match (outcome, answer) {
            (TurnOutcome::Finished, Some(answer)) => answer,
            (
                TurnOutcome::Limit(why)
                | TurnOutcome::Interrupted(why)
                | TurnOutcome::InterruptedLong(why),
                Some(answer),
            ) => format!("Incomplete: {why}\n\n{answer}"),
            (outcome, _) => return Err(self.failure(&outcome)),
        };
        Ok(Content {
            provenance,
            ..Content::from(text)
        })
    }

    fn failure(&self, outcome: &TurnOutcome) -> ToolFailure {
        let why = match outcome.message() {
            Some(why) => why,
            None if *outcome == TurnOutcome::Cancelled => "it was cancelled.",
            None => "its model said nothing.",
        };
        let whose = match &self.settings.research_provider {
            Some(_) => " (agent-q-research-model)",
            None => "",
        };
        ToolFailure::quoting(format!(
            "The research, by {}{whose}, ended without an answer: {why}",
            self.provider.model
        ))
    }
}

impl Researcher for Research {
    fn research(self: Arc<Self>, arguments: &Arguments, context: WorkContext) -> Running<Content> {
        let question = research::question(arguments);
        Box::pin(on_emacs::elsewhere(async move {
            self.answer(question?, &context).await
        }))
    }
}

/// The answer with which HISTORY ends, if it does.
fn answer_in(history: &Conversation) -> Option<String> {
    let live = history.live();
    let last = live.messages.last().copied().and_then(Entry::message)?;
    let ChatMessage::Assistant { parts, .. } = last.as_ref() else {
        return None;
    };
    let text: String = texts_of(parts).collect();
    let text = text.trim();
    (calls_of(parts).next().is_none() && !text.is_empty()).then(|| text.to_owned())
}

/// Emacs as a research sees it: the chat shows its calls below the one that asked, and counts what they cost.
struct Steps {
    behind: Arc<dyn Emacs>,
    /// The call that asked.
    call: Option<CallKey>,
    made: Mutex<StepsMade>,
}

#[derive(Default)]
struct StepsMade {
    count: usize,
    running: Vec<(CallKey, String)>,
    /// How much its model has written since the last one, in bytes.
    written: usize,
}

impl Steps {
    /// How far it is, which MODEL does.
    fn told(&self, model: &str) -> String {
        let made = held(&self.made);
        let now = match (made.running.last(), made.written) {
            (Some((_, tool)), _) => format!("now {tool}"),
            (None, 0) => format!("asking {model}"),
            (None, bytes) => format!("{model} has written {bytes} bytes"),
        };
        match made.count {
            0 => now,
            1 => format!("1 step, {now}"),
            count => format!("{count} steps, {now}"),
        }
    }

    /// Takes in EVENT; gives what the chat is told of it.
    fn take(&self, event: Event) -> Option<Event> {
        match event {
            Event::CallProposed {
                session,
                call,
                tool,
                arguments,
                after,
            } => {
                let mut made = held(&self.made);
                (made.count, made.written) = (made.count + 1, 0);
                drop(made);
                Some(Event::CallProposed {
                    session,
                    call,
                    tool,
                    arguments,
                    after: after.or(self.call),
                })
            }
            Event::CallStarted { call, ref tool, .. } => {
                held(&self.made).running.push((call, tool.clone()));
                Some(event)
            }
            Event::CallFinished { call, .. } => {
                held(&self.made).running.retain(|(it, _)| *it != call);
                Some(event)
            }
            // Of a conversation that nobody sees.
            Event::Text { text, .. }
            | Event::Reasoning { text, .. }
            | Event::CallDrafted { text, .. } => {
                held(&self.made).written += text.len();
                None
            }
            Event::State { .. }
            | Event::Retrying { .. }
            | Event::CacheLost { .. }
            | Event::WindowFilled { .. }
            | Event::Summarized { .. } => None,
            event => Some(event),
        }
    }
}

impl Emacs for Steps {
    fn emit(&self, event: Event) {
        if let Some(event) = self.take(event) {
            self.behind.emit(event);
        }
    }

    fn request(&self, session: SessionId, body: EmacsRequest) -> BoxFuture<'static, EmacsReply> {
        self.behind.request(session, body)
    }

    fn request_asking(
        &self,
        session: SessionId,
        body: EmacsRequest,
        questions: mpsc::UnboundedSender<Asked>,
    ) -> BoxFuture<'static, EmacsReply> {
        self.behind.request_asking(session, body, questions)
    }
}
