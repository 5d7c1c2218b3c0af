// SPDX-License-Identifier: GPL-3.0-or-later
//! What passes between Emacs and the core: [`Op`] (what Emacs asks), [`Event`] (what happened),
//! [`EmacsRequest`] and [`EmacsReply`] (what only Emacs can do for a tool).
//! Plain data: `bridge::wire` turns it into Lisp, everything below `bridge` only sees these types.

mod calls;
mod contact;
mod emacs;
mod events;
mod fields;
pub mod picture;

pub use calls::{
    BatchId, CallArguments, CallKey, CallOutcome, CallResult, Consent, Decider, Decision,
    HandlerId, MessageId, QuestionId, RequestId, SessionId, ToolCall, TurnId,
};
pub use contact::{Asked, Emacs, WatchedEmacs};
pub use emacs::{Done, EmacsError, EmacsReply, EmacsRequest, ImageRequest, Lisp, ReadBuffer};
pub use events::{
    DiscoveredServer, Event, Grounds, ListedModel, PastPlace, SessionState, TurnOutcome,
    UnlistedModels,
};
pub use picture::Picture;

use crate::trust::Provenance;

/// Which turn is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoneTurn {
    /// The latest that changed files or the image.
    Latest,
    /// The latest that changed files: the user was shown what it changed.
    LatestOfFiles,
}

/// What Emacs asks of a session, which does it after what it was asked before.
#[derive(Debug)]
pub enum Op {
    /// The user's message.
    Submit(UserMessage),
    /// The user's message for the turn that runs: the model reads it after the calls that run now. When none
    /// runs, or it ends before that, the message begins a turn.
    Steer(UserMessage),
    /// A tool call typed by the user, such as `/describe_symbol mapcar`. No model is involved.
    Console(UserMessage),
    /// The answer to [`Event::LimitReached`].
    AnswerLimit(LimitAnswer),
    /// Tell what would be sent with this message, or with none, in a [`Event::RequestShown`]; when no
    /// turn runs.
    ShowRequest(QuestionId, Option<UserMessage>),
    /// Tell what fills the model's window in a [`Event::WindowShown`]; when no turn runs.
    ShowWindow(QuestionId),
    /// Have the model summarize the conversation, and read the summary instead; when no turn runs.
    Compact,
    /// Have the model read again what the latest summary stands for; when no turn runs.
    UndoCompaction,
    /// Undo what a turn changed in files and buffers, when no turn runs.
    UndoTurn(UndoneTurn),
    /// Tell what going back to before the turn of that number would take back.
    PlanRewind(QuestionId, u64),
    /// Go back to before a turn, in these parts.
    Rewind {
        question: QuestionId,
        turn: u64,
        parts: Vec<RewindPart>,
    },
    /// Undo the rewind of that number, if nothing was asked since.
    UndoRewind(QuestionId, u64),
}

/// What of a chat can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindPart {
    Conversation,
    Files,
}

/// What becomes of a turn that met a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitAnswer {
    /// It goes on, with as much again.
    GoOn,
    /// It ends.
    Stop,
}

/// What the user sends to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserMessage {
    pub id: MessageId,
    /// As the chat shows it.
    pub text: String,
    /// What the model reads in front of it; nothing outside Emacs's chats.
    pub context: Option<String>,
    /// What the user sends along, by the names that the model is told.
    pub along: Vec<String>,
    /// Pictures among that.
    pub pictures: Vec<Picture>,
    /// Where that comes from.
    pub provenance: Provenance,
    pub sending: Sending,
}

/// Whether a message was sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sending {
    #[default]
    New,
    /// It was: where it has no answer, it takes its own place, with what was attached then.
    Again,
}

impl From<&str> for UserMessage {
    fn from(text: &str) -> Self {
        Self {
            id: MessageId::next(),
            text: text.to_owned(),
            context: None,
            along: Vec::new(),
            pictures: Vec::new(),
            provenance: Provenance::Own,
            sending: Sending::New,
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
