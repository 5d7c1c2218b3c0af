// SPDX-License-Identifier: GPL-3.0-or-later
//! What only Emacs can do for a tool, and its answers.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::calls::{CallKey, HandlerId};
use super::fields;

/// What only Emacs can do. What has no name in Lisp is done by the bridge itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = ":type")]
pub enum EmacsRequest {
    /// Call OPERATION of the Common Lisp half in an image.
    #[serde(rename = "image-call")]
    Image(ImageRequest),
    /// Read text of a buffer, straight through the Env.
    #[serde(skip)]
    ReadBuffer(ReadBuffer),
    /// Tell the file of the buffer of that name, or of the user's last one, as JSON.
    #[serde(skip)]
    VisitedFile(Option<String>),
    /// Do what agent-q's own Emacs Lisp knows as OPERATION.
    #[serde(rename = "emacs-call")]
    Operation {
        operation: &'static str,
        #[serde(serialize_with = "fields::text")]
        arguments: Value,
    },
    /// Call a tool's function in Emacs Lisp.
    #[serde(rename = "tool-handler")]
    Handler {
        handler: HandlerId,
        #[serde(serialize_with = "fields::text")]
        arguments: Value,
        /// The watch settings of the image that owns this tool, printed for `read`.
        watch: Option<String>,
    },
}

/// A Lisp that calls can be about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(untagged)]
pub enum Lisp {
    /// The user's, of the session's chat.
    #[default]
    Users,
    /// One that agent-q has started for the session, by its name.
    Second(Arc<str>),
}

/// A call of the Common Lisp half.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImageRequest {
    #[serde(rename = "image")]
    pub lisp: Lisp,
    /// The operation's name, such as `describe-symbol`.
    pub operation: String,
    /// Its arguments: a property list printed for Emacs's `read`.
    pub arguments: String,
    /// How long it may run in the image.
    #[serde(rename = "seconds", serialize_with = "fields::seconds")]
    pub deadline: Duration,
    /// The call whose work it is, if it is all of that for now.
    pub call: Option<CallKey>,
}

/// What to read of a buffer; positions are Emacs's, 1-based, end exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadBuffer {
    /// The buffer's name; none means the buffer that the user last worked in.
    pub buffer: Option<String>,
    pub start: Option<i64>,
    pub end: Option<i64>,
}

/// Emacs's answer to a [`EmacsRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmacsReply {
    /// It was done.
    Done(Done),
    /// It could not be done.
    Failed(EmacsError),
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// What came out.
    pub text: String,
    /// What the model reads under it.
    pub note: Option<String>,
    /// What Emacs adds to TEXT, a reply of the image, as `image::parse_added` reads it.
    pub added: Option<String>,
}

impl EmacsReply {
    /// TEXT came out.
    pub fn done(text: impl Into<String>) -> Self {
        Self::Done(Done {
            text: text.into(),
            ..Done::default()
        })
    }
}

/// TEXT as what follows a sentence.
fn after(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(" {text}")
    }
}

/// TEXT as what stands below a sentence.
fn below(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!("\n{text}"),
    }
}

/// Why Emacs could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmacsError {
    #[error(
        "No Lisp image is connected. The user starts one with M-x sly or M-x slime; ask again then."
    )]
    NoConnection,
    #[error("The connection to the Lisp image was lost during the call.{}", after(.0))]
    Disconnected(String),
    /// The Lisp was one that agent-q had started; with its last output.
    #[error("The image scratch ended during the call; the next call with it starts a new one.{}", below(.0))]
    Ended(String),
    #[error("The call ran out of time and was stopped.")]
    TimedOut,
    #[error(
        "The Lisp image does not answer, even to a request to stop; the call may still be running in it.{}",
        after(.0)
    )]
    Unresponsive(String),
    #[error(
        "The call doesn't react to a request to stop: it runs without interrupts or in foreign code. The image answers other calls."
    )]
    Deaf,
    #[error("The Lisp side aborted the call: {0}")]
    Aborted(String),
    #[error("The call was cancelled.")]
    Cancelled,
    #[error("{0}")]
    Signalled(String),
}
