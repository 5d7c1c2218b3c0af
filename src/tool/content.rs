// SPDX-License-Identifier: GPL-3.0-or-later
//! What a tool returns: a text, and what is known of where it comes from.

use crate::trust::Provenance;

/// What a tool's answer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
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
