// SPDX-License-Identifier: GPL-3.0-or-later
//! A tool call from end to end, as data: what was asked for, who decided about it, and its one
//! result. And the numbers by which Emacs and the core know chats, turns, calls and requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::trust::{SafetyLevel, Source, fence, without_fences};

/// A tool call that arrived whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id, or one of ours when it gave none.
    pub id: String,
    pub name: String,
    /// The arguments as received, JSON text.
    pub raw_arguments: String,
    pub arguments: CallArguments,
}

/// What the arguments of a received call turned out to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallArguments {
    /// A JSON object; the call may run.
    Object(Map<String, Value>),
    /// Not a JSON object: the model is told so and can repeat the call.
    Malformed(String),
    /// An object with numbers that would change when they are read, as the sentences say.
    Inexact(String),
    /// The reply ended before the call was complete: it never runs.
    Truncated,
}

/// The user's answer to an approval request.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Run it as shown.
    Approved,
    /// Run it with these arguments instead; they are validated and assessed again.
    Modified(Map<String, Value>),
    /// Do not run it. The reason, if any, is told to the model.
    Denied(Option<String>),
    /// Do not let it happen, and end the call that asks; only effects are answered so.
    Stopped,
    /// Do not run it: nobody answered, as the sentence says.
    Unanswered(String),
}

/// How one tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    Succeeded,
    Failed,
    Denied,
    Cancelled,
}

impl CallOutcome {
    /// The outcome's name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The one result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    /// The call's id, as the provider or the caller gave it.
    pub id: String,
    pub outcome: CallOutcome,
    /// The answer, or what went wrong.
    pub content: String,
    /// Where the content comes from, if it is more than agent-q's or the user's own words.
    pub source: Option<Source>,
    /// What the user says about it.
    pub remark: Option<String>,
    /// What the user changed in the arguments, for the model, which sees only those that it gave.
    pub changed: Option<String>,
    pub elapsed: Duration,
    /// The level that the call had with its arguments; none when it got no further than look-up
    /// and validation.
    pub level: Option<SafetyLevel>,
    pub consent: Consent,
}

impl CallResult {
    /// All that there is to read, for people and programs.
    #[must_use]
    pub fn whole(&self) -> String {
        // What has no source is in our own words, with fences where it quotes.
        let content = match &self.source {
            Some(_) => self.content.clone(),
            None => without_fences(&self.content),
        };
        self.with_remark(content)
    }

    /// The copy for a model, in which what nobody said to it is fenced. DRAWN is the fence's number.
    #[must_use]
    pub fn for_model(&self, drawn: u64) -> String {
        let content = match &self.source {
            Some(source) => fence(&self.content, source, drawn),
            None => self.content.clone(),
        };
        let told = match (self.outcome, &self.source) {
            (CallOutcome::Succeeded, _) => content,
            (CallOutcome::Failed | CallOutcome::Denied | CallOutcome::Cancelled, None) => {
                format!("Error: {content}")
            }
            (CallOutcome::Failed | CallOutcome::Denied | CallOutcome::Cancelled, Some(_)) => {
                format!("Error:\n{content}")
            }
        };
        // A model that reads only that somebody said no may believe that a part was done.
        let told = match self.outcome {
            CallOutcome::Denied => format!("{told}\nThe call did not run and changed nothing."),
            _ => told,
        };
        let told = match &self.changed {
            Some(changed) => format!("{told}\n\n{changed}"),
            None => told,
        };
        self.with_remark(told)
    }

    /// Adds REMARK to what is said about the result.
    pub fn add_remark(&mut self, remark: String) {
        self.remark = Some(match self.remark.take() {
            Some(before) => format!("{before}\n{remark}"),
            None => remark,
        });
    }

    fn with_remark(&self, told: String) -> String {
        match &self.remark {
            Some(remark) => format!("{told}\n\n{remark}"),
            None => told,
        }
    }
}

impl Serialize for CallResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "id": self.id,
            ":outcome": self.outcome,
            "content": self.whole(),
            "milliseconds": self.elapsed.as_secs_f64() * 1000.0,
            "level": self.level,
            ":consent": self.consent,
        })
        .serialize(serializer)
    }
}

/// Why a call could run, or could not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// Its level needs none, or it never got that far.
    NotNeeded,
    /// The user, or the approval handler for them, approved it as it was.
    Approved,
    /// They changed the arguments and approved that.
    Modified,
    /// They gave other arguments, which can't be used, so it did not run.
    Unfit,
    Denied,
    /// A rule of the user's let it run without asking.
    ByRule,
    /// Nobody could be asked.
    Unavailable,
    /// It ended before anybody answered, or without an answer.
    Unanswered,
}

/// Who decided whether a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decider {
    /// Nobody had to: its level did.
    Level,
    /// Somebody had to, but nobody did.
    Nobody,
    User,
    /// The user's program, `agent-q-approval-handler`.
    Handler,
    /// The rule with this number; 0 is the one that guards the rules themselves.
    Rule(u64),
}

impl Decider {
    /// The decider's name in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Level => "level",
            Self::Nobody => "nobody",
            Self::User => "user",
            Self::Handler => "handler",
            Self::Rule(_) => "rule",
        }
    }
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        pub struct $name(pub u64);

        impl $name {
            /// An identifier that this process has not used before.
            #[must_use]
            pub fn next() -> Self {
                Self(Self::counter().fetch_add(1, Ordering::Relaxed))
            }

            /// Has [`Self::next`] give only greater ones than NUMBER from now on.
            pub fn pass(number: u64) {
                Self::counter().fetch_max(number.saturating_add(1), Ordering::Relaxed);
            }

            fn counter() -> &'static AtomicU64 {
                static COUNTER: AtomicU64 = AtomicU64::new(1);
                &COUNTER
            }
        }
    };
}

identifier! {
    /// One chat.
    SessionId
}
identifier! {
    /// What follows one message of the user's.
    TurnId
}
identifier! {
    /// One message of the user's, from when it is sent.
    MessageId
}
identifier! {
    /// One tool call, unique in the process (a provider's own call ids are not).
    CallKey
}
identifier! {
    /// Tool calls that Emacs asked for together, outside a chat.
    BatchId
}
identifier! {
    /// A call that the user wonders about.
    QuestionId
}
identifier! {
    /// One request of the core to Emacs that waits for a reply.
    RequestId
}

/// A tool's function in Emacs Lisp; Emacs keeps the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct HandlerId(pub u64);
