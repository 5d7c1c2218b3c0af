// SPDX-License-Identifier: GPL-3.0-or-later
//! How much of a reply is taken. No honest model comes near; a mad or hostile server must not fill
//! the memory, the chat or the logs.

use serde_json::Value;

/// The most bytes of text in a reply, and the most of reasoning.
pub const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// The most bytes of all tool calls of a reply: their arguments, names and ids. The longest replies
/// that models can give are a quarter of it.
pub const MAX_CALL_BYTES: usize = 2 * 1024 * 1024;

/// The most tool calls that a reply may have. Far fewer of them are run.
pub const MAX_CALLS: usize = 1024;

/// The most parts that a reply may have, whatever is in them.
pub const MAX_PARTS: usize = 65_536;

/// What there is too much of in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    #[error("its text is longer than {} MB", MAX_TEXT_BYTES >> 20)]
    Text,
    #[error("its reasoning is longer than {} MB", MAX_TEXT_BYTES >> 20)]
    Reasoning,
    #[error(
        "the arguments of its tool calls are longer than {} MB, so no call was run",
        MAX_CALL_BYTES >> 20
    )]
    Arguments,
    #[error("it has more than {MAX_CALLS} tool calls, so no call was run")]
    Calls,
    #[error("it has more than {MAX_PARTS} parts")]
    Parts,
}

/// About how many bytes VALUE has as JSON.
#[must_use]
pub fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => 2 + values.iter().map(|it| size_of(it) + 1).sum::<usize>(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| name.len() + 4 + size_of(value);
            2 + fields.iter().map(field).sum::<usize>()
        }
    }
}
