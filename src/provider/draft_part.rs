// SPDX-License-Identifier: GPL-3.0-or-later
//! The parts of a reply in the making, and what they become in the end. Pure; `draft` fills them.

use std::collections::HashSet;

use serde_json::Value;

use super::accumulator::{ReplyEnd, new_call_id};
use super::history::{MessagePart, PartContent};
use super::model_text::ModelText;
use crate::protocol::ToolCall;

#[derive(Debug)]
pub struct DraftPart {
    pub content: DraftContent,
    pub seal: Option<Value>,
}

#[derive(Debug)]
pub enum DraftContent {
    Text(ModelText),
    Thinking(String),
    Call(DraftCall),
    Sealed,
}

/// A call, from dialects that say which call each piece is of.
#[derive(Debug)]
pub struct DraftCall {
    /// Which call of the reply, from 0.
    pub number: usize,
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub state: CallState,
}

/// Whether the server said that a call has all its arguments. Only where none came does that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    Open,
    Closed,
}

impl DraftPart {
    /// What it becomes, which is nothing when there is nothing in it.
    pub fn into_parts(self, ending: ReplyEnd) -> impl Iterator<Item = MessagePart> {
        let sealed = self.seal.is_some();
        let (before, content) = match self.content {
            DraftContent::Text(text) => {
                let (thinking, text) = text.into_parts();
                (
                    thinking,
                    (sealed || !text.is_empty()).then_some(PartContent::Text(text)),
                )
            }
            DraftContent::Thinking(mut text) => {
                text.shrink_to_fit();
                let content = (sealed || !text.is_empty()).then_some(PartContent::Thinking(text));
                (String::new(), content)
            }
            DraftContent::Call(call) => (
                String::new(),
                Some(PartContent::Call(call.into_call(ending))),
            ),
            DraftContent::Sealed => (String::new(), Some(PartContent::Sealed)),
        };
        let before = (!before.is_empty()).then(|| MessagePart::thinking(before));
        let seal = self.seal;
        before
            .into_iter()
            .chain(content.map(|content| MessagePart { content, seal }))
    }
}

impl DraftCall {
    /// The call, as its reply ended with ENDING.
    fn into_call(self, ending: ReplyEnd) -> ToolCall {
        let ending = match (self.state, self.arguments.is_empty()) {
            (CallState::Open, true) => ReplyEnd::Cut,
            _ => ending,
        };
        ending.call(self.id, &self.name, self.arguments)
    }
}

/// Gives each call of PARTS an id of its own, as some servers give none, or the same to all.
pub fn name_calls_apart(parts: &mut [MessagePart]) {
    let mut seen = HashSet::new();
    for part in parts {
        if let PartContent::Call(call) = &mut part.content
            && (call.id.is_empty() || !seen.insert(call.id.clone()))
        {
            call.id = new_call_id();
        }
    }
}
