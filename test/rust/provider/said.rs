// SPDX-License-Identifier: GPL-3.0-or-later
//! A few words to write streams and histories with, for the tests of dialects.

use agent_q_core::provider::dialect::request_body;
use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::{ChatMessage, Dialect, MessagePart, ModelReply, ProviderError};
use serde_json::Value;

use crate::matrix::{request, settings};

pub fn read(dialect: Dialect, body: &str) -> Result<ModelReply, ProviderError> {
    let mut reader = ReplyReader::new(dialect);
    reader.push(body.as_bytes());
    reader.finish().0
}

pub fn events(payloads: &[Value]) -> String {
    payloads
        .iter()
        .map(|payload| format!("data: {payload}\n\n"))
        .collect()
}

pub fn lines(payloads: &[Value]) -> String {
    payloads
        .iter()
        .map(|payload| format!("{payload}\n"))
        .collect()
}

pub fn user(text: &str) -> ChatMessage {
    ChatMessage::User(text.into())
}

pub fn answer(dialect: Dialect, parts: Vec<MessagePart>) -> ChatMessage {
    ChatMessage::Assistant {
        origin: settings(dialect).origin(),
        parts,
    }
}

/// What a dialect sends of MESSAGES, and of REPLY after it.
pub fn sent(dialect: Dialect, messages: Vec<ChatMessage>) -> Value {
    request_body(&settings(dialect), &request(messages))
}
