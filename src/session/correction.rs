// SPDX-License-Identifier: GPL-3.0-or-later
//! What is said when a host could not read the model's call, and the model is asked once more. Pure.

use std::sync::Arc;

use crate::call::format::cap;
use crate::provider::{ChatMessage, ChatRequest, ProviderError};

/// What the model is told about a call that its host could not read. It is asked again once in a turn, and
/// the words are no part of the conversation.
#[derive(Debug, PartialEq, Eq)]
pub enum Correction {
    None,
    /// The next request says this.
    Due(String),
    Made,
}

impl Correction {
    /// Says it in REQUEST, if it is due.
    pub fn add_to(&mut self, request: &mut ChatRequest) {
        *self = match std::mem::replace(self, Self::None) {
            Self::Due(text) => {
                request.messages.push(Arc::new(ChatMessage::User(text)));
                Self::Made
            }
            other => other,
        }
    }

    /// The correction after ERROR, and what the user is told: what the model wrote.
    #[must_use]
    pub fn after(error: &ProviderError) -> (Self, String) {
        const LONGEST: usize = 2000;
        let written = error.report.as_ref().and_then(|it| it.written.as_deref());
        let quoted = |lead: &str| match written.map(str::trim) {
            None | Some("") => String::new(),
            Some(written) => format!(" {lead}:\n{}", cap(written, LONGEST, "")),
        };
        let due = format!(
            "(Your last tool call could not be read, so nothing was run. Call one of the tools that you are offered, with a JSON object of its arguments.{})",
            quoted("You wrote")
        );
        let told = format!(
            "The model's host could not read its tool call, so the model is asked once more.{}",
            quoted("It wrote")
        );
        (Self::Due(due), told)
    }
}
