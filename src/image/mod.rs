// SPDX-License-Identifier: GPL-3.0-or-later
//! The Lisp image as the core sees it: property lists that go out as text for Emacs's `read`, and
//! replies of the Common Lisp half that come back as text. No sockets: Emacs has the connection.

mod form;
mod plist;
mod reply;

pub use form::{joined_lists, print_arguments, property_list};
pub use plist::Plist;
pub use reply::{MalformedReply, denials, parse, parse_reply, quoted_files, with_head};

/// What the Common Lisp half answered.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageReply {
    /// The operation's own data, a property list.
    Returned(lexpr::Value),
    /// An expected miss: one sentence that says what to try.
    Missed(String),
    /// A condition that nobody handled.
    Error(ConditionReport),
    /// The call was stopped.
    Cancelled(Stopped),
}

impl ImageReply {
    /// The same for a tool that can choose no restart: they would only be tried in vain.
    #[must_use]
    pub fn without_restarts(mut self) -> Self {
        if let Self::Error(report) = &mut self {
            report.restarts.clear();
        }
        self
    }
}

/// A call that was stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Stopped {
    /// Why and after how long, as Emacs or the image says.
    pub because: Option<String>,
    /// How much was allocated while it ran, such as `650 MB`.
    pub allocated: Option<String>,
    /// Where it was, innermost frame first.
    pub frames: Vec<Frame>,
    /// What it had printed.
    pub output: String,
    /// What it had done.
    pub value: lexpr::Value,
}

/// A frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What was called, such as `(FOO 1)`.
    pub text: String,
    /// Where in the source it stopped, such as `/src/foo.lisp:9`.
    pub place: Option<String>,
}

/// A condition as the image saw it, before the stack was unwound.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionReport {
    /// The condition's type, such as `DIVISION-BY-ZERO`.
    pub condition_type: String,
    pub message: String,
    /// Names and descriptions of the restarts that were open.
    pub restarts: Vec<(String, String)>,
    /// The backtrace, innermost frame first, cut at our own frames.
    pub frames: Vec<Frame>,
    /// What had been printed.
    pub output: String,
    /// What the operation had done before it failed.
    pub value: lexpr::Value,
    /// The name of the debugger that keeps its stack alive, when it is parked.
    pub debugger: Option<String>,
}
