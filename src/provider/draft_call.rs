// SPDX-License-Identifier: GPL-3.0-or-later
//! A call in the making, for dialects that say which call each piece is of. Pure.

use super::accumulator::{ReplyEnd, parse_arguments, synthesise_id};
use crate::protocol::{CallArguments, ToolCall};

#[derive(Debug)]
pub struct DraftCall {
    /// Which call of the reply, from 0.
    pub number: usize,
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub state: CallState,
}

/// Whether the provider said that a call is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    Open,
    Closed,
}

impl DraftCall {
    /// The call, as its reply ended with ENDING.
    pub fn into_call(self, ending: ReplyEnd) -> ToolCall {
        ToolCall {
            arguments: match (ending, self.state) {
                (ReplyEnd::Complete, CallState::Closed) => parse_arguments(&self.arguments),
                _ => CallArguments::Truncated,
            },
            id: if self.id.is_empty() {
                synthesise_id()
            } else {
                self.id
            },
            name: self.name,
            raw_arguments: fitted(self.arguments),
        }
    }
}

/// TEXT without the room in which it grew: a history keeps it.
pub fn fitted(mut text: String) -> String {
    text.shrink_to_fit();
    text
}
