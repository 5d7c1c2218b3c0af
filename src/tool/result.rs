// SPDX-License-Identifier: GPL-3.0-or-later
//! What a tool returns, with where it comes from, or why a call has no result.

use crate::files::{FileError, Trouble};
use crate::protocol::EmacsError;
use crate::trust::Provenance;

/// What a tool's result is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// Text of files, buffers, the image or other programs, or what looks like it.
    Text,
    /// agent-q's own words and nothing else, such as "saved".
    Words,
}

/// What a call returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub text: String,
    /// Where it comes from, when that is not what its tool is about.
    pub from: Option<&'static str>,
    /// What only the text shows, such as a definition whose file is not of the project.
    pub provenance: Provenance,
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self {
            text,
            from: None,
            provenance: Provenance::Own,
        }
    }
}

/// Why a tool call has no result: one sentence that the model can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    pub message: String,
    pub quotes: Quotes,
    /// The last output of the Lisp of agent-q's own that ended during the call, if that is the failure.
    pub ended: Option<Box<str>>,
}

/// Whether a message holds text of files, buffers, the image or other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    Nothing,
    Something,
}

impl ToolFailure {
    /// A failure told in agent-q's own words.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            quotes: Quotes::Nothing,
            ended: None,
        }
    }

    /// A failure whose message holds text from elsewhere.
    pub fn quoting(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            quotes: Quotes::Something,
            ended: None,
        }
    }
}

impl From<FileError> for ToolFailure {
    /// Names of files that are like the one that is missing are nobody's words.
    fn from(error: FileError) -> Self {
        match error.trouble {
            Trouble::Missing => Self::quoting(error.message),
            _ => Self::new(error.message),
        }
    }
}

impl From<EmacsError> for ToolFailure {
    fn from(error: EmacsError) -> Self {
        let message = error.to_string();
        match error {
            EmacsError::NoConnection | EmacsError::TimedOut | EmacsError::Cancelled => {
                Self::new(message)
            }
            EmacsError::Ended(output) => Self {
                ended: Some(output.into()),
                ..Self::quoting(message)
            },
            EmacsError::Disconnected(_)
            | EmacsError::Deaf
            | EmacsError::Unresponsive(_)
            | EmacsError::Aborted(_)
            | EmacsError::Signalled(_) => Self::quoting(message),
        }
    }
}
