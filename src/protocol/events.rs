// SPDX-License-Identifier: GPL-3.0-or-later
//! What happened, for Emacs to show: the events of chats, turns, calls and requests, and what Emacs had asked
//! for, such as the models of a server.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::calls::{
    BatchId, CallKey, CallResult, HandlerId, MessageId, QuestionId, RequestId, SessionId, TurnId,
};
use super::emacs::EmacsRequest;
use super::fields;
use crate::effect::EffectDecision;
use crate::trust::SafetyLevel;

/// What a session is doing, as its header line shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
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
    /// The model writes a summary of the conversation, which gets too long for it.
    Summarizing,
    /// The turn met a limit, and waits for the user to say whether it goes on.
    Paused,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The model has nothing more to do.
    Finished,
    /// The user cancelled it.
    Cancelled,
    /// It met a limit and was not to go on, or went in circles; the text says so.
    Limit(String),
    /// The answer ended before it was complete, as the text says. What came is in the conversation, and
    /// the model can be asked to go on.
    Interrupted(String),
    /// It failed; the text says why and what to do.
    Failed(String),
    /// It failed, as its host has no such model; the text says so.
    NoSuchModel(String),
    /// It failed, as its host refused the key; the text says so.
    KeyRefused(String),
    /// It failed for a reason that is not known, and the conversation is long: it may be too long.
    FailedLong(String),
    /// It was interrupted so.
    InterruptedLong(String),
}

impl TurnOutcome {
    /// The outcome's name in events and stored chats.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::Limit(_) => "limit",
            Self::Interrupted(_) | Self::InterruptedLong(_) => "interrupted",
            Self::Failed(_) | Self::NoSuchModel(_) | Self::KeyRefused(_) | Self::FailedLong(_) => {
                "failed"
            }
        }
    }

    /// What the user reads of it.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Finished | Self::Cancelled => None,
            Self::Limit(text)
            | Self::Interrupted(text)
            | Self::InterruptedLong(text)
            | Self::Failed(text)
            | Self::NoSuchModel(text)
            | Self::KeyRefused(text)
            | Self::FailedLong(text) => Some(text),
        }
    }

    /// The outcome of that NAME and MESSAGE; what a stored chat doesn't say is not known any more.
    #[must_use]
    pub fn stored(name: &str, message: String) -> Self {
        match name {
            "finished" => Self::Finished,
            "cancelled" => Self::Cancelled,
            "limit" => Self::Limit(message),
            "interrupted" => Self::Interrupted(message),
            _ => Self::Failed(message),
        }
    }
}

impl Serialize for TurnOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let why = match self {
            Self::NoSuchModel(_) => Some("no-such-model"),
            Self::KeyRefused(_) => Some("key"),
            Self::FailedLong(_) | Self::InterruptedLong(_) => Some("long"),
            _ => None,
        };
        json!({":outcome": self.name(), "message": self.message(), ":why": why})
            .serialize(serializer)
    }
}

/// Whether a request is about more than every call of its tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grounds {
    /// The reason is what the tool itself says of such a call, and nothing else.
    Usual,
    Special,
}

/// What happened, in the order in which it happened. Serialized as the property list that Emacs gets
/// (`bridge::wire`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = ":type", rename_all = "kebab-case")]
pub enum Event {
    /// A session changed its state.
    State {
        session: SessionId,
        #[serde(rename = ":state")]
        state: SessionState,
    },
    /// A turn begins with this message of the user's.
    TurnStarted {
        session: SessionId,
        turn: TurnId,
        /// None where a program begins it, and in a stored chat.
        #[serde(rename = "message-id")]
        message: Option<MessageId>,
        text: String,
        /// What the user sent along.
        along: Vec<String>,
    },
    /// More of the model's answer. Adjacent ones may be merged.
    Text { session: SessionId, text: String },
    /// More of the model's reasoning. Adjacent ones may be merged.
    Reasoning { session: SessionId, text: String },
    /// More of a text in the arguments of a call that the model is still writing. Adjacent ones may be
    /// merged.
    CallDrafted {
        session: SessionId,
        /// Which call of the reply, from 0.
        number: u64,
        tool: String,
        parameter: String,
        text: String,
    },
    /// A tool call that the model or the console asked for. `arguments` is JSON text as received.
    CallProposed {
        session: SessionId,
        call: CallKey,
        tool: String,
        arguments: String,
        /// The call that made it: it stands there, not behind what else was called.
        after: Option<CallKey>,
    },
    /// A tool call needs the user's approval before it may run. `arguments` is the validated JSON.
    #[serde(rename = "approval")]
    ApprovalRequested {
        session: SessionId,
        call: CallKey,
        tool: String,
        /// The tool's function in Emacs Lisp: tools of several libraries may share a name.
        handler: Option<HandlerId>,
        level: SafetyLevel,
        reason: String,
        #[serde(rename = ":grounds")]
        grounds: Grounds,
        #[serde(serialize_with = "fields::pretty_text")]
        arguments: Value,
    },
    /// The file was changed that a request is about, which shows something else now.
    ApprovalChanged { session: SessionId, call: CallKey },
    /// A tool call that waited for the user was settled by a rule that came meanwhile.
    ApprovalSettled {
        session: SessionId,
        call: CallKey,
        outcome: &'static str,
    },
    /// The question of this number, which the image asked while REQUEST was under way, is decided.
    EffectDecided {
        session: SessionId,
        request: RequestId,
        question: i64,
        #[serde(flatten)]
        decision: EffectDecision,
    },
    /// A tool call runs now, with these validated arguments.
    CallStarted {
        session: SessionId,
        call: CallKey,
        tool: String,
        handler: Option<HandlerId>,
        #[serde(serialize_with = "fields::text")]
        arguments: Value,
    },
    /// How far a tool call is that runs, in a few words; empty when that isn't known any more.
    CallProgress {
        session: SessionId,
        call: CallKey,
        text: String,
        /// The end of what its program has printed so far, and how many bytes that is in all.
        output: Option<(String, u64)>,
    },
    /// A tool call has its one result. The content is whole here; the model gets it capped.
    CallFinished {
        session: SessionId,
        call: CallKey,
        #[serde(flatten)]
        result: CallResult,
    },
    /// All calls of a batch have their results, in call order.
    BatchFinished {
        batch: BatchId,
        results: Vec<CallResult>,
    },
    /// Files of a project, relative to its root and in the order of their names, and how many more there
    /// are; or why there are none.
    ProjectFiles {
        question: QuestionId,
        #[serde(flatten, serialize_with = "fields::files")]
        files: Result<(Vec<String>, u64), String>,
    },
    /// What would happen to a call that the user wondered about: a JSON object.
    Explained {
        question: QuestionId,
        #[serde(serialize_with = "fields::text")]
        answer: Value,
    },
    /// Tokens of one request, as the provider counted them.
    Usage {
        session: SessionId,
        /// With what came out of the provider's cache and went into it.
        input_tokens: u64,
        output_tokens: u64,
        cache_read_tokens: u64,
        cache_write_tokens: u64,
        /// US dollars; none when the model's price is not known.
        cost: Option<f64>,
    },
    /// A request failed before anything was shown and is sent again after `delay`.
    Retrying {
        session: SessionId,
        attempt: u32,
        attempts: u32,
        #[serde(rename = "seconds", serialize_with = "fields::seconds")]
        delay: Duration,
        reason: String,
    },
    /// A request doesn't begin like the one before it, so that the provider's cache is of no use to it.
    CacheLost {
        session: SessionId,
        /// What changed, such as "tools changed".
        why: &'static str,
    },
    /// How full the model's window is, about.
    WindowFilled {
        session: SessionId,
        tokens: u64,
        /// The size of the window in tokens, where it is known.
        window: Option<u64>,
    },
    /// The model reads a summary in place of what came before from now on. The user sees all as it was.
    Summarized {
        session: SessionId,
        /// How many messages it stands for.
        messages: usize,
        /// What the conversation has in tokens without it and with it, about.
        before: u64,
        after: u64,
        summary: String,
    },
    /// The user's message that was to be put into the running turn is in it now.
    Steered {
        session: SessionId,
        /// None in a stored chat.
        #[serde(rename = "message-id")]
        message: Option<MessageId>,
        text: String,
        /// What the user sent along.
        along: Vec<String>,
    },
    /// What fills the window: a JSON object, or why that can't be said.
    WindowShown {
        question: QuestionId,
        #[serde(serialize_with = "fields::answer")]
        report: Result<Value, String>,
    },
    /// The turn met a limit, as the text says. It waits for an answer: [`Op::AnswerLimit`], a further
    /// message, which ends it, or cancelling.
    ///
    /// [`Op::AnswerLimit`]: super::Op::AnswerLimit
    LimitReached { session: SessionId, text: String },
    /// What would be sent, `{"url", "headers", "body"}`, or why nothing can be.
    RequestShown {
        question: QuestionId,
        #[serde(serialize_with = "fields::pretty_answer")]
        request: Result<Value, String>,
    },
    /// Something the user should read; the turn goes on.
    Notice { session: SessionId, text: String },
    /// A turn was undone in files and buffers, but for so many changes that are left. It may have changed
    /// definitions in the image, too; the user is asked about them. The systems are those that were loaded
    /// before files were restored.
    TurnUndone {
        session: SessionId,
        turn: TurnId,
        left: usize,
        definitions: Vec<String>,
        systems: Vec<String>,
    },
    /// The conversation went back to before a turn; what is shown from there on doesn't count.
    Rewound {
        session: SessionId,
        turn: TurnId,
        /// The rewind's own number, by which it can be undone.
        rewind: TurnId,
    },
    /// That was undone.
    Unwound { session: SessionId, rewind: TurnId },
    /// A turn is over.
    TurnEnded {
        session: SessionId,
        #[serde(flatten)]
        outcome: TurnOutcome,
    },
    /// Nobody waits for this request any more; stop it.
    EmacsCancelled { request: RequestId },
    /// The model servers that answered on this machine, best first.
    Discovered { servers: Vec<DiscoveredServer> },
    /// The models that the host of a provider lists, for the question about them, or why it lists none.
    Models {
        question: QuestionId,
        #[serde(flatten, serialize_with = "listing")]
        models: Result<Vec<ListedModel>, UnlistedModels>,
    },
    /// What was found out about stored chats, JSON, or why nothing was.
    ChatsAnswered {
        question: QuestionId,
        #[serde(serialize_with = "fields::answer")]
        answer: Result<Value, String>,
    },
    /// A stored chat was read: what there is to know of it, a JSON object.
    ChatResumed {
        session: SessionId,
        #[serde(serialize_with = "fields::text")]
        about: Value,
    },
    /// A turn of a stored chat, to be shown.
    PastTurn {
        session: SessionId,
        turn: TurnId,
        /// Its name in the journals of images.
        name: String,
        /// When it began, in milliseconds since 1970.
        #[serde(serialize_with = "fields::from_milliseconds")]
        at: u64,
        /// What happened in it.
        events: Vec<Event>,
        /// What it changed in files, as far as that was not undone, as one diff.
        changed: String,
        /// How many older ones are left to be shown.
        older: usize,
        #[serde(rename = "below", serialize_with = "is_below")]
        place: PastPlace,
    },
    /// The state, tools, prompts or resources of an MCP server are others now.
    ToolServer { name: String },
    /// What an MCP server has for the user, JSON, or why nothing.
    ToolServerAnswered {
        question: QuestionId,
        #[serde(serialize_with = "fields::answer")]
        answer: Result<Value, String>,
    },
    /// Something outside of any chat that the user should know of.
    Trouble { message: String },
    /// A bug of ours that was contained; the log has the rest.
    Fault { message: String },
    /// Emacs is asked to do something for a tool call.
    #[serde(untagged)]
    EmacsRequested {
        #[serde(flatten)]
        body: EmacsRequest,
        session: SessionId,
        request: RequestId,
    },
}

impl Event {
    /// The chat that the event is of, if it is one's.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::State { session, .. }
            | Self::TurnStarted { session, .. }
            | Self::Text { session, .. }
            | Self::Reasoning { session, .. }
            | Self::CallDrafted { session, .. }
            | Self::CallProposed { session, .. }
            | Self::ApprovalRequested { session, .. }
            | Self::ApprovalChanged { session, .. }
            | Self::ApprovalSettled { session, .. }
            | Self::EffectDecided { session, .. }
            | Self::CallStarted { session, .. }
            | Self::CallProgress { session, .. }
            | Self::CallFinished { session, .. }
            | Self::Usage { session, .. }
            | Self::Retrying { session, .. }
            | Self::CacheLost { session, .. }
            | Self::WindowFilled { session, .. }
            | Self::Summarized { session, .. }
            | Self::Steered { session, .. }
            | Self::LimitReached { session, .. }
            | Self::Notice { session, .. }
            | Self::TurnUndone { session, .. }
            | Self::TurnEnded { session, .. }
            | Self::ChatResumed { session, .. }
            | Self::Rewound { session, .. }
            | Self::Unwound { session, .. }
            | Self::PastTurn { session, .. }
            | Self::EmacsRequested { session, .. } => Some(*session),
            Self::BatchFinished { .. }
            | Self::Explained { .. }
            | Self::RequestShown { .. }
            | Self::WindowShown { .. }
            | Self::EmacsCancelled { .. }
            | Self::Discovered { .. }
            | Self::Models { .. }
            | Self::ChatsAnswered { .. }
            | Self::ToolServer { .. }
            | Self::ToolServerAnswered { .. }
            | Self::Trouble { .. }
            | Self::ProjectFiles { .. }
            | Self::Fault { .. } => None,
        }
    }
}

/// A local model server that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiscoveredServer {
    /// What it is: "Ollama", "llama.cpp", "LM Studio".
    pub name: String,
    /// The base of its Chat Completions API, such as `http://127.0.0.1:8080/v1`.
    pub base_url: String,
    /// The models that it offers.
    #[serde(flatten, serialize_with = "models")]
    pub models: Vec<ListedModel>,
}

/// A model as its host lists it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ListedModel {
    #[serde(rename = "model")]
    pub name: String,
    /// Tokens of a request and its reply together, as the host serves it; none when it doesn't say.
    #[serde(rename = "window")]
    pub context_window: Option<u64>,
    /// Tokens of a reply; none when it doesn't say.
    #[serde(rename = "output")]
    pub max_output: Option<u64>,
}

/// Why no models of a host are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnlistedModels {
    /// How far the question came, such as "TLS" or "HTTP (401)".
    pub stage: String,
    #[serde(rename = "problem")]
    pub why: String,
    /// The status of the refusal, if it came that far; 401 is a refused key, whatever the host calls it.
    pub status: Option<u16>,
}

/// Where a turn of a stored chat belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastPlace {
    /// Above the stored turns that are shown.
    Above,
    /// Below everything: it had been taken back.
    Below,
}

fn is_below<S: Serializer>(place: &PastPlace, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(*place == PastPlace::Below)
}

/// Names, and the limits of those models whose host says any.
fn models<S: Serializer>(models: &[ListedModel], serializer: S) -> Result<S::Ok, S::Error> {
    let names = models.iter().map(|model| model.name.as_str());
    let limited = |model: &&ListedModel| model.context_window.or(model.max_output).is_some();
    json!({
        "models": names.collect::<Vec<_>>(),
        "limits": models.iter().filter(limited).collect::<Vec<_>>(),
    })
    .serialize(serializer)
}

fn listing<S: Serializer>(
    listing: &Result<Vec<ListedModel>, UnlistedModels>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match listing {
        Ok(listed) => models(listed, serializer),
        Err(unlisted) => unlisted.serialize(serializer),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::super::{EmacsRequest, ImageRequest, Lisp};
    use super::*;

    #[test]
    fn what_an_event_holds_is_said_as_its_own() {
        let (session, request, question) = (SessionId(1), RequestId(2), QuestionId(3));
        let image = EmacsRequest::Image(ImageRequest {
            lisp: Lisp::Second("scratch".into()),
            operation: "describe-symbol".to_owned(),
            arguments: "(:symbol \"car\")".to_owned(),
            deadline: Duration::from_millis(1500),
            call: Some(CallKey(3)),
        });
        let cases = [
            (
                Event::EmacsRequested {
                    session,
                    request,
                    body: image,
                },
                json!({
                    ":type": "image-call", "session": 1, "request": 2, "seconds": 1.5,
                    "image": "scratch", "operation": "describe-symbol", "call": 3,
                    "arguments": "(:symbol \"car\")",
                }),
            ),
            (
                Event::EffectDecided {
                    session,
                    request,
                    question: 4,
                    decision: EffectDecision::Deny(Some("no".to_owned())),
                },
                json!({
                    ":type": "effect-decided", "session": 1, "request": 2, "question": 4,
                    "decision": "deny", "reason": "no",
                }),
            ),
            (
                Event::ProjectFiles {
                    question,
                    files: Ok((vec!["a".to_owned(), "b".to_owned()], 7)),
                },
                json!({":type": "project-files", "question": 3, "files": "a\nb", "more": 7}),
            ),
            (
                Event::ProjectFiles {
                    question,
                    files: Err("gone".to_owned()),
                },
                json!({":type": "project-files", "question": 3, "problem": "gone"}),
            ),
            (
                Event::TurnEnded {
                    session,
                    outcome: TurnOutcome::FailedLong("full".to_owned()),
                },
                json!({
                    ":type": "turn-ended", "session": 1, ":outcome": "failed",
                    "message": "full", ":why": "long",
                }),
            ),
        ];
        for (event, shown) in cases {
            assert_eq!(to_value(event).unwrap(), shown);
        }
    }
}
