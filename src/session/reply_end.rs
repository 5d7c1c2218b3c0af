// SPDX-License-Identifier: GPL-3.0-or-later
//! What the end of an answer means for its turn, in which form its calls and their results are kept, and
//! what is said when a host could not read the model's call. Pure; `turn` goes by it.

use std::collections::HashSet;
use std::sync::Arc;

use super::conversation::{Conversation, Entry};
use crate::call::result::cap;
use crate::protocol::{CallArguments, CallResult, ToolCall};
use crate::provider::accumulator::new_call_id;
use crate::provider::history::calls_of;
use crate::provider::{
    ChatMessage, ChatRequest, Finish, MessagePart, PartContent, ProviderError, Unparsed,
};
use crate::trust::{draw, one_line};

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
    let in_call = match calls {
        Calls::Whole => "",
        Calls::Cut => " in the middle of a tool call, which was not run",
    };
    match finish {
        Finish::Length if calls == Calls::Cut => TurnEnding::Cut(format!(
            "The reply was cut off at its token limit{in_call}. Raise the limit (max_tokens in the provider's body) or ask for less at a time."
        )),
        Finish::Length => TurnEnding::Cut("The reply was cut off at its token limit.".to_owned()),
        Finish::Window => TurnEnding::Cut(format!(
            "The reply was cut off{in_call}: the model's window is full."
        )),
        Finish::ContentFilter => {
            TurnEnding::Failed("The provider's content filter ended the reply.".to_owned())
        }
        Finish::Early(reason) => TurnEnding::Cut(format!(
            "The reply ended early{in_call}: {}.",
            one_line(reason, LONGEST_REASON)
        )),
        Finish::Refused(why) => TurnEnding::Failed(refusal(why)),
        Finish::Interrupted => TurnEnding::Cut(format!(
            "The connection was lost before the reply was complete{in_call}."
        )),
        Finish::Stop | Finish::ToolCalls | Finish::Paused if calls == Calls::Cut => {
            TurnEnding::Cut(format!("The reply ended{in_call}."))
        }
        Finish::Stop | Finish::ToolCalls | Finish::Paused => TurnEnding::Finished,
    }
}

/// How much is shown of a host's word for an end.
const LONGEST_REASON: usize = 80;

/// What the user is told, once a chat, of calls that the model wrote as text.
pub fn unparsed_notice(unparsed: Unparsed) -> String {
    let what = match unparsed {
        Unparsed::Read => "agent-q read it from the text",
        Unparsed::Left => "it can't be run, so it stays text",
    };
    format!(
        "The model wrote a tool call as text, because its server did not parse it; {what}. Let the server parse calls: llama.cpp with --jinja, vLLM with --enable-auto-tool-choice and --tool-call-parser, Ollama and LM Studio with a model that supports tools."
    )
}

/// Gives each call among PARTS that has the id of one in HISTORY a new one: some servers begin to count again with
/// each reply, and others refuse a conversation with such ids.
pub fn with_new_ids(mut parts: Vec<MessagePart>, history: &Conversation) -> Vec<MessagePart> {
    if calls_of(&parts).next().is_none() {
        return parts;
    }
    let messages = history.entries().iter().filter_map(Entry::message);
    let used: HashSet<&str> = messages
        .filter_map(|message| match message.as_ref() {
            ChatMessage::Tool { call_id, .. } => Some(call_id.as_str()),
            _ => None,
        })
        .collect();
    for part in &mut parts {
        if let PartContent::Call(call) = &mut part.content
            && used.contains(call.id.as_str())
        {
            call.id = new_call_id();
        }
    }
    parts
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

// What is said when a host could not read the model's call, and the model is asked once more.

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
                request
                    .messages
                    .push(Arc::new(ChatMessage::User(text.into())));
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
