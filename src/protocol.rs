// SPDX-License-Identifier: GPL-3.0-or-later
//! What passes between Emacs and the core: [`Op`] (what Emacs asks), [`Event`] (what happened),
//! [`HostRequest`] and [`HostReply`] (what only Emacs can do for a tool).
//! Plain data: `bridge::wire` turns it into Lisp, everything below `bridge` only sees these types.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::effect::Answer;
use crate::tool::fence::fence;
use crate::tool::{HandlerId, SafetyLevel, Source};

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl $name {
            /// An identifier that this process has not used before.
            #[must_use]
            pub fn next() -> Self {
                static COUNTER: AtomicU64 = AtomicU64::new(1);
                Self(COUNTER.fetch_add(1, Ordering::Relaxed))
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

/// What Emacs asks of a session.
#[derive(Debug)]
pub enum Op {
    /// The user's message. Queued while a turn runs.
    Submit(UserMessage),
    /// A tool call typed by the user, such as `/describe_symbol mapcar`. No model is involved.
    Console(String),
    /// Put back what the latest turn changed in files and buffers, when no turn runs.
    UndoTurn,
    /// End the running turn; every open tool call gets its result first.
    Cancel,
    /// The chat is gone.
    Close,
}

/// What the user sends to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserMessage {
    /// As the chat shows it.
    pub text: String,
    /// What the model reads in front of it; nothing outside Emacs's chats.
    pub context: Option<String>,
}

impl From<&str> for UserMessage {
    fn from(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            context: None,
        }
    }
}

impl UserMessage {
    /// As the model reads it.
    #[must_use]
    pub fn for_model(&self) -> String {
        match &self.context {
            Some(context) => format!("{context}\n\n{}", self.text),
            None => self.text.clone(),
        }
    }
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
    /// Do not run it: whoever was asked gave no answer, as the sentence says.
    Unanswered(String),
}

/// What a session is doing, as its header line shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing runs.
    Idle,
    /// The request is sent, nothing has come back yet.
    Waiting,
    /// The model is answering.
    Streaming,
    /// Tools are running.
    Running,
    /// A tool call waits for the user's approval.
    Approving,
}

/// How one tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    Succeeded,
    Failed,
    Denied,
    Cancelled,
}

impl CallOutcome {
    /// The outcome's name in events and logs.
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
        self.with_remark(self.content.clone())
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

/// How it came about that a call could run, or could not.
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

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The model has nothing more to do.
    Finished,
    /// The user cancelled it.
    Cancelled,
    /// It met the iteration limit; the text says so.
    Limit(String),
    /// It failed; the text says why and what to do. What had been received was kept.
    Failed(String),
}

/// What happened, in the order in which it happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A session changed its state.
    State { session: SessionId, state: State },
    /// A turn begins with this message of the user's.
    TurnStarted {
        session: SessionId,
        turn: TurnId,
        text: String,
    },
    /// More of the model's answer. Adjacent ones may be merged.
    Text { session: SessionId, text: String },
    /// More of the model's reasoning. Adjacent ones may be merged.
    Reasoning { session: SessionId, text: String },
    /// A tool call that the model or the console asked for. `arguments` is JSON text as received.
    CallProposed {
        session: SessionId,
        call: CallKey,
        tool: String,
        arguments: String,
    },
    /// A tool call needs the user's approval before it may run. `arguments` is the validated JSON.
    ApprovalRequested {
        session: SessionId,
        call: CallKey,
        tool: String,
        /// The tool's function in Emacs Lisp: tools of several libraries may share a name.
        handler: Option<HandlerId>,
        level: SafetyLevel,
        reason: String,
        arguments: Value,
    },
    /// A tool call that waited for the user was settled by a rule that came meanwhile.
    ApprovalSettled {
        session: SessionId,
        call: CallKey,
        outcome: &'static str,
    },
    /// The question of this number, which the image asked while REQUEST was under way, is answered.
    EffectDecided {
        session: SessionId,
        request: RequestId,
        question: i64,
        answer: Answer,
    },
    /// A tool call runs now, with these validated arguments.
    CallStarted {
        session: SessionId,
        call: CallKey,
        tool: String,
        handler: Option<HandlerId>,
        arguments: Value,
    },
    /// A tool call has its one result. The content is whole here; the model gets it capped.
    CallFinished {
        session: SessionId,
        call: CallKey,
        result: CallResult,
    },
    /// All calls of a batch have their results, in call order.
    BatchFinished {
        batch: BatchId,
        results: Vec<CallResult>,
    },
    /// What would happen to a call that the user wondered about: a JSON object.
    Explained { question: QuestionId, answer: Value },
    /// Tokens of one request, as the provider counted them.
    Usage {
        session: SessionId,
        input_tokens: u64,
        output_tokens: u64,
    },
    /// A request failed before anything was shown and is sent again after `delay`.
    Retrying {
        session: SessionId,
        attempt: u32,
        attempts: u32,
        delay: Duration,
        reason: String,
    },
    /// Something the user should read; the turn goes on.
    Notice { session: SessionId, text: String },
    /// A turn that was undone has changed definitions in the image, too; the user is asked about them.
    ImageChanged {
        session: SessionId,
        turn: TurnId,
        definitions: Vec<String>,
    },
    /// A turn is over.
    TurnEnded {
        session: SessionId,
        outcome: TurnOutcome,
    },
    /// Emacs is asked to do something for a tool call.
    HostRequested {
        session: SessionId,
        request: RequestId,
        body: HostRequest,
    },
    /// Nobody waits for this request any more; stop it.
    HostCancelled { request: RequestId },
    /// The model servers that answered on this machine, best first.
    Discovered { servers: Vec<DiscoveredServer> },
    /// Something outside of any chat that the user should know of.
    Trouble { message: String },
    /// A bug of ours that was contained; the log has the rest.
    Fault { message: String },
}

/// A local model server that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredServer {
    /// What it is: "Ollama", "llama.cpp", "LM Studio".
    pub name: String,
    /// The base of its Chat Completions API, such as `http://127.0.0.1:8080/v1`.
    pub base_url: String,
    /// The models that it offers.
    pub models: Vec<String>,
}

/// What only Emacs can do.
#[derive(Debug, Clone, PartialEq)]
pub enum HostRequest {
    /// Call OPERATION of the Common Lisp half in the image of the session's chat.
    Image(ImageRequest),
    /// Read text of a buffer, straight through the Env.
    ReadBuffer(ReadBuffer),
    /// Tell the file of the buffer of that name, or of the user's last one, as JSON.
    VisitedFile(Option<String>),
    /// Do what agent-q's own Emacs Lisp knows as OPERATION.
    Operation {
        operation: &'static str,
        arguments: Value,
    },
    /// Call a tool's function in Emacs Lisp.
    Handler {
        handler: HandlerId,
        arguments: Value,
        /// How the watch of an image is set whose tool it is, printed for Emacs's `read`.
        watch: Option<String>,
    },
}

/// A call of the Common Lisp half.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageRequest {
    /// The operation's name, such as `describe-symbol`.
    pub operation: String,
    /// Its arguments: a property list printed for Emacs's `read`.
    pub arguments: String,
    /// How long it may run in the image.
    pub deadline: Duration,
}

/// What to read of a buffer; positions are Emacs's, 1-based, end exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadBuffer {
    /// The buffer's name; none means the buffer that the user last worked in.
    pub buffer: Option<String>,
    pub start: Option<i64>,
    pub end: Option<i64>,
}

/// Emacs's answer to a [`HostRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostReply {
    /// It was done; this is what came out.
    Done(String),
    /// It could not be done.
    Failed(HostError),
}

/// TEXT as what follows a sentence.
fn after(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" {text}")
    }
}

/// Why Emacs could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("No Lisp image is connected. Start one with M-x sly or M-x slime, then ask again.")]
    NoConnection,
    #[error("The connection to the Lisp image was lost during the call.{}", after(.0))]
    Disconnected(String),
    #[error("The call ran out of time and was stopped.")]
    TimedOut,
    #[error(
        "The Lisp image does not answer, even to a request to stop; the call may still be running in it.{}",
        after(.0)
    )]
    Unresponsive(String),
    #[error("The Lisp side aborted the call: {0}")]
    Aborted(String),
    #[error("The call was cancelled.")]
    Cancelled,
    #[error("{0}")]
    Signalled(String),
}
