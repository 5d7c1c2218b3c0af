// SPDX-License-Identifier: GPL-3.0-or-later
//! What the tool `research` does: a turn with a conversation, a model and a budget of its own, and with safe
//! tools alone. The chat shows its calls below the one that asked, and its model reads the answer alone.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::Semaphore;

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
use crate::protocol::{CallKey, Event, TurnOutcome, WatchedEmacs};
use crate::provider::history::{calls_of, texts_of};
use crate::provider::{ChatMessage, ProviderSettings, ToolChoice};
use crate::rules::TurnPlace;
use crate::runtime::{held, on_emacs};
use crate::tool::begun::{AWAIT, CANCEL};
use crate::tool::libraries::Agent;
use crate::tool::offer::{Offer, Unoffered};
use crate::tool::registry::Registry;
use crate::tool::work::{AfterEdit, Researcher, Running, WorkContext};
use crate::tool::{Arguments, Content, Origin, Tool, ToolFailure};
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
    /// That of the turn.
    place: TurnPlace,
    /// What becomes of the turn's calls of tools that it isn't offered.
    unoffered: Unoffered,
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
    /// What looks into questions for the turn at PLACE of a chat with SETTINGS; none without a model. What it
    /// uses is a part of BUDGET.
    #[must_use]
    pub fn of_turn(
        shared: &Shared,
        settings: &Settings,
        place: &TurnPlace,
        budget: &Arc<Budget>,
    ) -> Option<Arc<dyn Researcher>> {
        let own = settings.research_provider.as_ref();
        let provider = own.or(settings.provider.as_ref())?.clone();
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
            place: place.clone(),
            unoffered: settings.unoffered(&shared.registry),
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
            call: context.call,
            made: Mutex::default(),
        });
        let shared = self.shared_with(&steps, context);
        let batch = self.batch(context);
        let turn = Turn {
            shared: &shared,
            settings: &self.settings,
            provider: &self.provider,
            batch: &batch,
            listed: &batch.tools,
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
        let line = in_a_line(context, self.settings.connection.as_deref()).await?;
        Some(more::by_name(&line, &self.shared.registry))
    }

    /// What sessions share, with an Emacs that STEPS stands in front of.
    fn shared_with(&self, steps: &Arc<Steps>, context: &WorkContext) -> Shared {
        let steps = Arc::clone(steps);
        let emacs = WatchedEmacs {
            behind: Arc::clone(&context.emacs),
            see: move |event: Event| steps.take(event),
        };
        Shared {
            executor: Executor {
                emacs: Arc::new(emacs),
                ..self.shared.executor.clone()
            },
            ..self.shared.clone()
        }
    }

    /// The tools for the work of a call in CONTEXT: the safe ones, as far as the chat has them.
    fn tools(&self, context: &WorkContext) -> Registry {
        let mut tools = match self.unoffered {
            Unoffered::Callable => self.shared.registry.all(),
            _ => context.tools.all(),
        };
        // Those of programs and servers have to be among what the chat's model can call.
        let is_there =
            |tool: &Tool| tool.origin == Origin::BuiltIn || context.tools.get(&tool.name).is_some();
        tools.retain(|tool| {
            tool.level == SafetyLevel::Safe
                && !LEFT_OUT.contains(&tool.name.as_str())
                && is_there(tool)
        });
        Registry::of(tools)
    }

    /// What the calls of one are made in, which is itself a call in CONTEXT. What it has seen of files its chat
    /// has not, and the other way round.
    fn batch(&self, context: &WorkContext) -> BatchContext {
        let workspace = Workspace::default();
        workspace.set_ground(&self.settings.ground);
        let tools = self.tools(context);
        let offer = Offer::new(Arc::clone(&self.shared.registry));
        offer.begin_turn(&tools, Unoffered::LeftOutOfResearch);
        BatchContext {
            session: context.session,
            watcher: Watcher::Beside,
            tools: Arc::new(tools),
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

/// What a research does, as the chat shows it: its calls below the one that asked, and what it costs.
struct Steps {
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
    /// Why its model is asked again.
    failed: Option<String>,
}

impl Steps {
    /// How far it is, which MODEL does.
    fn told(&self, model: &str) -> String {
        let made = held(&self.made);
        let now = match (made.running.last(), made.written, &made.failed) {
            (Some((_, tool)), ..) => format!("now {tool}"),
            (None, 0, None) => format!("asking {model}"),
            (None, 0, Some(why)) => format!("asking {model} again: {why}"),
            (None, bytes, _) => format!("{model} has written {bytes} bytes"),
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
                (made.count, made.written, made.failed) = (made.count + 1, 0, None);
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
            Event::Retrying { reason, .. } => {
                held(&self.made).failed = Some(reason);
                None
            }
            Event::Notice { session, text } => Some(Event::Notice {
                session,
                text: format!("In a research: {text}"),
            }),
            Event::State { .. }
            | Event::CacheLost { .. }
            | Event::WindowFilled { .. }
            | Event::Summarized { .. } => None,
            event => Some(event),
        }
    }
}
