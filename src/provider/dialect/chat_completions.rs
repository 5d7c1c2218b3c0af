// SPDX-License-Identifier: GPL-3.0-or-later
//! The request body of OpenAI-compatible Chat Completions. Pure; `chat_reply` reads what comes back.

use serde_json::{Map, Value, json};

use super::wire::{
    SentCall, SentCalls, TakesId, add_cache_key, add_users_fields, fitting_id, is_plain_id,
    is_short_id, is_some_id, named_effort, sendable_arguments, sendable_name,
};
use super::written::HISTORY;
use crate::protocol::ToolCall;
use crate::provider::history::{
    ChatMessage, Dialect, MessagePart, Messages, ModelOrigin, PartContent, calls_of, host_of,
    is_below, text_of, thinking_of,
};
use crate::provider::models::{is_one_of, takes_short_ids};
use crate::provider::{ChatRequest, ProviderSettings, ToolChoice};

/// Hosts that refuse a request with `reasoning_content` in it. Everybody else ignores the field or
/// wants it back beside the calls that the reasoning led to.
const REFUSES_REASONING: &[&str] = &[
    "api.openai.com",
    "api.groq.com",
    "api.mistral.ai",
    "api.cerebras.ai",
    "openai.azure.com",
    "githubcopilot.com",
    "googleapis.com",
];

/// Hosts that refuse a request *without* it, even where there was no reasoning, and what they take then.
const REQUIRES_REASONING: &[(&str, &str)] = &[
    ("deepseek.com", ""),
    ("moonshot.ai", BLANK_REASONING),
    ("moonshot.cn", BLANK_REASONING),
    ("kimi.com", BLANK_REASONING),
];

/// The same of models, wherever they are.
const MODELS_REQUIRING_REASONING: &[&str] = &["kimi"];

/// Empty reasoning counts as none for some.
const BLANK_REASONING: &str = " ";

/// What a message with tool calls says about the reasoning before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasoningPolicy {
    Never,
    WhenPresent,
    /// With what goes in its place.
    Always(&'static str),
}

impl ReasoningPolicy {
    fn of(settings: &ProviderSettings) -> Self {
        let host = host_of(&settings.base_url);
        let required = REQUIRES_REASONING
            .iter()
            .find(|(domain, _)| is_below(&host, domain));
        if REFUSES_REASONING.iter().any(|it| is_below(&host, it)) {
            Self::Never
        } else if let Some((_, stand_in)) = required {
            Self::Always(stand_in)
        } else if is_one_of(&settings.model, MODELS_REQUIRING_REASONING) {
            Self::Always(BLANK_REASONING)
        } else {
            Self::WhenPresent
        }
    }
}

/// What is special about a host.
struct ChatHost {
    reasoning: ReasoningPolicy,
    ids: HostIds,
    origin: ModelOrigin,
}

/// What ids of calls a host takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostIds {
    Plain,
    Short,
}

impl ChatHost {
    fn of(settings: &ProviderSettings) -> Self {
        Self {
            reasoning: ReasoningPolicy::of(settings),
            ids: if takes_short_ids(settings) {
                HostIds::Short
            } else {
                HostIds::Plain
            },
            origin: settings.origin(),
        }
    }

    /// Whether a message by ORIGIN came from there, by way of this dialect.
    fn made(&self, origin: &ModelOrigin) -> bool {
        origin.host == self.origin.host && origin.dialect == self.origin.dialect
    }

    /// Which ids go there in a message by ORIGIN. What a host made up itself it takes.
    fn takes(&self, origin: &ModelOrigin) -> TakesId {
        match self.ids {
            HostIds::Short => is_short_id,
            HostIds::Plain if self.made(origin) => is_some_id,
            HostIds::Plain => is_plain_id,
        }
    }
}

/// The fields of a request's body. `tool_choice` and `parallel_tool_calls` are only sent with tools:
/// alone, servers refuse them.
pub fn fields(settings: &ProviderSettings, request: &ChatRequest) -> Map<String, Value> {
    let host = ChatHost::of(settings);
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    body.insert("messages".into(), HISTORY);
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.clone().into());
        let choice = tool_choice_json(&request.tool_choice, &host);
        body.insert("tool_choice".into(), choice);
    }
    if let Some(effort) = named_effort(settings) {
        body.insert("reasoning_effort".into(), effort.name().into());
    }
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    add_cache_key(&mut body, settings, |_| {
        let first = request.messages.iter().next()?;
        Some(message_json(first, &host, &mut SentCalls::default()))
    });
    add_users_fields(&mut body, settings, request.position);
    if !body.contains_key("tools") {
        body.shift_remove("tool_choice");
        body.shift_remove("parallel_tool_calls");
    }
    body
}

/// Hands TO each message.
pub fn history(settings: &ProviderSettings, messages: &Messages, to: &mut dyn FnMut(Value)) {
    let host = ChatHost::of(settings);
    let mut sent = SentCalls::default();
    for message in messages {
        to(message_json(message, &host, &mut sent));
    }
}

fn tool_choice_json(choice: &ToolChoice, host: &ChatHost) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::Required if is_below(&host.origin.host, "mistral.ai") => "any".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

fn message_json(message: &ChatMessage, host: &ChatHost, sent: &mut SentCalls) -> Value {
    match message {
        ChatMessage::System(text) => json!({"role": "system", "content": text}),
        ChatMessage::User(text) => json!({"role": "user", "content": text}),
        ChatMessage::Tool { content, .. } => {
            let id = sent.of_result().id;
            json!({"role": "tool", "tool_call_id": id, "content": content})
        }
        ChatMessage::Assistant { origin, parts } => assistant_json(origin, parts, host, sent),
    }
}

fn assistant_json(
    origin: &ModelOrigin,
    parts: &[MessagePart],
    host: &ChatHost,
    sent: &mut SentCalls,
) -> Value {
    let text = text_of(parts);
    let calls: Vec<Value> = calls_of(parts)
        .map(|call| call_json(call, host.takes(origin), sent))
        .collect();
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let content = match (text.is_empty(), calls.is_empty()) {
        (true, false) => Value::Null,
        _ => text.into(),
    };
    message.insert("content".into(), content);
    let is_own = *origin == host.origin;
    let details = parts.iter().find(|part| {
        is_own && part.content == PartContent::Sealed && origin.dialect == Dialect::ChatCompletions
    });
    if let Some(details) = details.and_then(|part| part.seal.clone()) {
        message.insert("reasoning_details".into(), details);
    } else if !calls.is_empty() {
        let reasoning = match is_own {
            true => thinking_of(parts),
            false => String::new(),
        };
        let goes_back = match host.reasoning {
            ReasoningPolicy::WhenPresent if !reasoning.is_empty() => Some(reasoning),
            ReasoningPolicy::Always(stand_in) if reasoning.is_empty() => Some(stand_in.to_owned()),
            ReasoningPolicy::Always(_) => Some(reasoning),
            ReasoningPolicy::Never | ReasoningPolicy::WhenPresent => None,
        };
        if let Some(reasoning) = goes_back {
            message.insert("reasoning_content".into(), reasoning.into());
        }
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    Value::Object(message)
}

fn call_json(call: &ToolCall, takes: TakesId, sent: &mut SentCalls) -> Value {
    let id = sent.unique(fitting_id(&call.id, takes), takes);
    let name = sendable_name(&call.name);
    let json = json!({
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": sendable_arguments(call)},
    });
    sent.note(SentCall { id, name });
    json
}
