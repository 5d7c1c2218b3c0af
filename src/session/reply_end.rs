// SPDX-License-Identifier: GPL-3.0-or-later
//! What the end of an answer means for its turn, and in which form its calls and their results are kept.
//! Pure; `turn` goes by it.

use crate::protocol::{CallArguments, CallResult, ToolCall};
use crate::provider::{ChatMessage, Finish, MessagePart, PartContent};
use crate::trust::fence::draw;

pub fn refusal(why: &str) -> String {
    let reason = match why {
        "" => String::new(),
        why => format!(" It says: {why}"),
    };
    format!(
        "The model refused to answer. Your message and what followed it are no longer part of the conversation, so that it can go on.{reason}"
    )
}

/// Whether the calls of a reply arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    Whole,
    Cut,
}

/// What the end of a reply means for its turn.
pub enum TurnEnding {
    Finished,
    /// It ended too early, and could go on.
    Cut(String),
    Failed(String),
}

pub fn ending(finish: &Finish, calls: Calls) -> TurnEnding {
    match (finish, calls) {
        (Finish::Length, Calls::Cut) => TurnEnding::Cut(
            "The reply was cut off at its token limit in the middle of a tool call, which was not run. Raise the limit (max_tokens in the provider's body) or ask for less at a time.".to_owned(),
        ),
        (_, Calls::Cut) => TurnEnding::Cut(
            "The reply ended in the middle of a tool call, which was not run.".to_owned(),
        ),
        (Finish::Length, Calls::Whole) => {
            TurnEnding::Cut("The reply was cut off at its token limit.".to_owned())
        }
        (Finish::ContentFilter, Calls::Whole) => {
            TurnEnding::Failed("The provider's content filter ended the reply.".to_owned())
        }
        (Finish::Interrupted, Calls::Whole) => TurnEnding::Cut(
            "The connection was lost before the reply was complete.".to_owned(),
        ),
        (Finish::Refused(why), Calls::Whole) => TurnEnding::Failed(refusal(why)),
        (Finish::Stop | Finish::ToolCalls | Finish::Paused | Finish::Other(_), Calls::Whole) => {
            TurnEnding::Finished
        }
    }
}

/// Providers reject a history with broken JSON in it; the result quotes what was wrong.
pub fn replayable(mut part: MessagePart) -> MessagePart {
    if let PartContent::Call(call) = &mut part.content
        && matches!(
            call.arguments,
            CallArguments::Malformed(_) | CallArguments::Truncated
        )
    {
        call.raw_arguments = "{}".to_owned();
    }
    part
}

pub fn truncated(call: ToolCall) -> ToolCall {
    ToolCall {
        arguments: CallArguments::Truncated,
        ..call
    }
}

pub fn result_message(result: CallResult) -> ChatMessage {
    ChatMessage::Tool {
        content: result.for_model(draw()),
        outcome: result.outcome,
        call_id: result.id,
    }
}
