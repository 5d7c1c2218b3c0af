// SPDX-License-Identifier: GPL-3.0-or-later
//! How a change of the user's text was made, and what is told of it.

/// How a change was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    OnDisk,
    InBuffer {
        buffer: String,
        saved: Save,
        /// What the user's own hooks made of the text when it was saved.
        text: Option<String>,
    },
}

/// Whether a buffer is saved after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Save {
    Yes,
    No,
}

impl Made {
    /// The text that was saved, where that is not the one that was to be.
    #[must_use]
    pub fn saved_as(&self) -> Option<&str> {
        match self {
            Self::OnDisk => None,
            Self::InBuffer { text, .. } => text.as_deref(),
        }
    }

    /// The end of a sentence.
    #[must_use]
    pub fn note(&self) -> String {
        match self {
            Self::OnDisk => String::new(),
            Self::InBuffer {
                buffer,
                saved: Save::Yes,
                text: None,
            } => format!(" in its buffer {buffer}, and saved"),
            Self::InBuffer {
                buffer,
                saved: Save::Yes,
                text: Some(_),
            } => format!(
                " in its buffer {buffer}, and saved, when the user's Emacs changed the text further"
            ),
            Self::InBuffer {
                buffer,
                saved: Save::No,
                ..
            } => format!(
                " in its buffer {buffer}, which is NOT saved because it has unsaved changes of the user's"
            ),
        }
    }
}
