// SPDX-License-Identifier: GPL-3.0-or-later
//! What a batch of calls is made in: who makes it and watches it, with which tools and files, how it is
//! cancelled, and what its user settled beforehand: whether somebody can be asked, and when code runs
//! without asking. `pipeline` takes it along with the calls.

use std::sync::Arc;
use std::time::Duration;

use once_cell::sync::OnceCell;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::protocol::{Event, SessionId};
use crate::rules::TurnPlace;
use crate::tool::begun::BegunCalls;
use crate::tool::offer::Offer;
use crate::tool::registry::Registry;
use crate::tool::work::{AfterEdit, PastResults, Researcher};
use crate::tool::{Assessment, Tool};
use crate::trust::SafetyLevel;
use crate::workspace::Workspace;

/// What the model reads when the user stopped the turn.
const CANCELLED: &str = "The user cancelled the turn; this call was stopped or did not run.";

/// Who is told of the calls of a batch before their results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watcher {
    /// Of all that happens.
    Chat,
    /// The chat, of all that happens but what it does as a whole: the call runs beside the others.
    Beside,
    /// Of the start and the end of each call.
    Hooks,
    Nobody,
}

impl Watcher {
    /// How many calls of a batch are run. A user's program may make as many as it likes.
    pub(super) fn most_calls(self) -> usize {
        match self {
            Self::Chat | Self::Beside => MOST_CALLS,
            Self::Hooks | Self::Nobody => usize::MAX,
        }
    }

    pub(super) fn wants(self, event: &Event) -> bool {
        match self {
            Self::Chat => true,
            Self::Beside => !matches!(event, Event::State { .. }),
            Self::Hooks => matches!(
                event,
                Event::CallStarted { .. } | Event::CallFinished { .. }
            ),
            Self::Nobody => false,
        }
    }
}

/// How many calls of one message of a model are run. More would keep the user waiting for what
/// nobody asked for; a model that means it sends the rest again.
pub const MOST_CALLS: usize = 128;

/// What a batch of calls is made in.
#[derive(Debug, Clone)]
pub struct BatchContext {
    pub session: SessionId,
    pub watcher: Watcher,
    /// The tools that can be called here.
    pub tools: Arc<Registry>,
    /// What could be called besides, when the model asks for it.
    pub offer: Arc<Offer>,
    /// Results that the model can read again.
    pub past: Arc<PastResults>,
    /// The calls that the model has begun, where it can; without them, each runs to its end at once.
    pub begun: Option<Arc<BegunCalls>>,
    pub approval: Approval,
    /// How long code may run in the image when the call does not say.
    pub eval_deadline: Duration,
    /// The files that the calls are about.
    pub workspace: Arc<Workspace>,
    /// When code may run in the image without asking.
    pub eval_policy: EvalPolicy,
    pub plan: PlanMode,
    /// What becomes of definitions that an edit has changed.
    pub after_edit: AfterEdit,
    pub cancel: CancellationToken,
    /// Why they were cancelled, where a program did it; a chat's are cancelled by the user.
    pub why_cancelled: Arc<OnceCell<String>>,
    /// What rules look at besides the call.
    pub place: TurnPlace,
    /// What looks into questions for the calls, where a chat has a model.
    pub researcher: Option<Arc<dyn Researcher>>,
}

impl BatchContext {
    /// What is told of a call that was cancelled here.
    #[must_use]
    pub fn cancelled(&self) -> String {
        match self.why_cancelled.get() {
            Some(why) => format!("The call was stopped or did not run: {why}."),
            None => CANCELLED.to_owned(),
        }
    }
}

impl BatchContext {
    /// TEXT, a message of the user's for the model, with what the model has to know besides.
    #[must_use]
    pub fn with_news(&self, text: String) -> String {
        let ended = self.begun.as_ref().and_then(|begun| begun.take_ended());
        let text = self.workspace.with_news(text);
        match ended {
            Some(ended) => format!("{text}\n\n[agent-q: {ended}]"),
            None => text,
        }
    }

    /// The same without telling the model.
    #[must_use]
    pub fn previewed(&self, text: &str) -> String {
        let ended = self.begun.as_ref().and_then(|begun| begun.ended());
        let text = self.workspace.previewed(text);
        match ended {
            Some((ended, _)) => format!("{text}\n\n[agent-q: {ended}]"),
            None => text,
        }
    }
}

/// Tools that run code for what it returns.
const EVALUATE: &[&str] = &["eval_form", "eval_in_package"];

/// Whether a chat's model only looks and plans, so that calls that change something are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanMode {
    #[default]
    Off,
    /// Safe calls alone may run.
    Look,
    /// And evaluations in which nothing dangerous is found.
    Evaluate,
    /// A research looks something up: safe calls alone, whatever rules allow.
    #[serde(skip)]
    Research,
}

/// A dangerous call that is known to change nothing, such as one of `git log`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MereLook {
    /// A rule of the user's lets it run.
    Allowed,
    NotAllowed,
}

impl PlanMode {
    /// Why a call of TOOL may not run that was ASSESSED, and which is LOOK if it changes nothing; none
    /// when it may.
    #[must_use]
    pub fn objection(
        self,
        tool: &Tool,
        assessed: &Assessment,
        look: Option<MereLook>,
    ) -> Option<String> {
        let level = assessed.level;
        let evaluates = EVALUATE.contains(&tool.name.as_str()) && level < SafetyLevel::Dangerous;
        let looks = level == SafetyLevel::Safe || look == Some(MereLook::Allowed);
        let runs = match self {
            Self::Off => true,
            Self::Look => looks,
            Self::Evaluate => looks || evaluates,
            Self::Research => level == SafetyLevel::Safe,
        };
        if self == Self::Research && !runs {
            return Some(unsafe_in_research(tool, assessed));
        }
        let why = match look {
            Some(_) => "no rule of the user's allows this call, which changes nothing".to_owned(),
            None => format!("{} could change something", tool.name),
        };
        (!runs).then(|| {
            format!(
                "Plan mode is on, and {why}. Go on without it, and say in the plan what it would do."
            )
        })
    }
}

/// What a model that only looks something up is told of a call of TOOL that was ASSESSED as more than safe.
fn unsafe_in_research(tool: &Tool, assessed: &Assessment) -> String {
    let name = &tool.name;
    let why = match (assessed.reason.trim_end_matches('.'), tool.code) {
        ("", _) => format!("{name} could change something"),
        // The reason quotes the code, and what macros made of it.
        (_, Some(_)) => format!("This call of {name} would need consent"),
        (reason, None) => format!("This call of {name} would need consent: {reason}"),
    };
    format!(
        "Research only reads and asks no one. {why}. Go on without it, and name in your answer what stays open."
    )
}

/// Whether somebody can decide on an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// The chat asks its user.
    Ask,
    /// Nobody can decide: calls that need approval fail.
    None,
}

/// When code that the model wants to run in the image is run without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvalPolicy {
    /// Never: the user is asked about all of it.
    AskAlways,
    /// When assessing it finds nothing that reaches outside the program.
    #[default]
    AskIfRisky,
    /// Always.
    NeverAsk,
    /// No code is run at all.
    ReadOnly,
}
