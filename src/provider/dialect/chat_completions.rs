// SPDX-License-Identifier: GPL-3.0-or-later
//! The request body of OpenAI-compatible Chat Completions. Pure; `chat_reply` reads what comes back.

use serde_json::{Map, Value, json};

use super::wire::{
    SentCall, SentCalls, add_cache_key, add_users_fields, fitting_id, is_plain_id, is_short_id,
    sendable_arguments, sendable_name,
};
use super::written::HISTORY;
use crate::protocol::ToolCall;
use crate::provider::history::{
    ChatMessage, Dialect, MessagePart, ModelOrigin, PartContent, calls_of, host_of, text_of,
    thinking_of,
};
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

/// The host that refuses a request *without* it, even where there was no reasoning.
const REQUIRES_REASONING: &str = "deepseek.com";

/// The host that takes only ids of nine letters and digits, and has its own word for a call that must
/// be made.
const SHORT_IDS: &str = "mistral.ai";

/// What a message with tool calls says about the reasoning before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasoningPolicy {
    Never,
    WhenPresent,
    Always,
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
        let host = host_of(&settings.base_url);
        let is_at = |domain: &&str| {
            host.strip_suffix(*domain)
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        Self {
            reasoning: if REFUSES_REASONING.iter().any(is_at) {
                ReasoningPolicy::Never
            } else if is_at(&REQUIRES_REASONING) {
                ReasoningPolicy::Always
            } else {
                ReasoningPolicy::WhenPresent
            },
            ids: if is_at(&SHORT_IDS) {
                HostIds::Short
            } else {
                HostIds::Plain
            },
            origin: settings.origin(),
        }
    }

    /// The id under which CALL, made by ORIGIN, goes there. What a host made up itself it takes.
    fn id(&self, call: &ToolCall, origin: &ModelOrigin) -> String {
        match self.ids {
            HostIds::Short => fitting_id(&call.id, is_short_id),
            HostIds::Plain if origin.host == self.origin.host => call.id.clone(),
            HostIds::Plain => fitting_id(&call.id, is_plain_id),
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
    if let Some(effort) = settings.wished_effort() {
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
pub fn history(settings: &ProviderSettings, request: &ChatRequest, to: &mut dyn FnMut(Value)) {
    let host = ChatHost::of(settings);
    let mut sent = SentCalls::default();
    for message in &request.messages {
        to(message_json(message, &host, &mut sent));
    }
}

fn tool_choice_json(choice: &ToolChoice, host: &ChatHost) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::Required if host.ids == HostIds::Short => "any".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

fn message_json(message: &ChatMessage, host: &ChatHost, sent: &mut SentCalls) -> Value {
    match message {
        ChatMessage::System(text) => json!({"role": "system", "content": text}),
        ChatMessage::User(text) => json!({"role": "user", "content": text}),
        ChatMessage::Tool {
            call_id, content, ..
        } => {
            let id = sent.of_result(call_id).id;
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
        .map(|call| call_json(call, host.id(call, origin), sent))
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
            ReasoningPolicy::Never => false,
            ReasoningPolicy::WhenPresent => !reasoning.is_empty(),
            ReasoningPolicy::Always => true,
        };
        if goes_back {
            message.insert("reasoning_content".into(), reasoning.into());
        }
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    Value::Object(message)
}

fn call_json(call: &ToolCall, id: String, sent: &mut SentCalls) -> Value {
    let name = sendable_name(&call.name);
    let json = json!({
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": sendable_arguments(call)},
    });
    sent.note(call, SentCall { id, name });
    json
}
