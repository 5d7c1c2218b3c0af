// SPDX-License-Identifier: GPL-3.0-or-later
//! The request body of OpenAI-compatible Chat Completions. Pure; `reply` reads what comes back
//! and `http` carries both.

use serde_json::{Map, Value, json};

use super::{ChatMessage, ChatRequest, ProviderSettings, RequestPosition, ToolChoice};
use crate::protocol::{CallArguments, ToolCall};

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

/// What a message with tool calls says about the reasoning before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasoningPolicy {
    Never,
    WhenPresent,
    Always,
}

impl ReasoningPolicy {
    fn of(settings: &ProviderSettings) -> Self {
        let host = host_of(&settings.base_url);
        let is_at = |domain: &&str| {
            host.strip_suffix(*domain)
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        if REFUSES_REASONING.iter().any(is_at) {
            Self::Never
        } else if is_at(&REQUIRES_REASONING) {
            Self::Always
        } else {
            Self::WhenPresent
        }
    }
}

fn host_of(base_url: &str) -> String {
    reqwest::Url::parse(base_url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_ascii_lowercase))
        .unwrap_or_default()
}

/// The JSON body of a request. The user's fields come last and win; one that is null takes ours
/// out. `tool_choice` and `parallel_tool_calls` are only sent with tools: alone, servers refuse
/// them.
#[must_use]
pub fn request_body(settings: &ProviderSettings, request: &ChatRequest) -> Value {
    let policy = ReasoningPolicy::of(settings);
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    body.insert(
        "messages".into(),
        request
            .messages
            .iter()
            .map(|message| message_json(message, policy))
            .collect(),
    );
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.clone().into());
        body.insert("tool_choice".into(), tool_choice_json(&request.tool_choice));
    }
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    merge(&mut body, &settings.body);
    if request.position == RequestPosition::First {
        merge(&mut body, &settings.first_body);
    }
    if !body.contains_key("tools") {
        body.shift_remove("tool_choice");
        body.shift_remove("parallel_tool_calls");
    }
    Value::Object(body)
}

fn merge(body: &mut Map<String, Value>, fields: &Map<String, Value>) {
    for (name, value) in fields {
        if value.is_null() {
            body.shift_remove(name);
        } else {
            body.insert(name.clone(), value.clone());
        }
    }
}

fn tool_choice_json(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

fn message_json(message: &ChatMessage, policy: ReasoningPolicy) -> Value {
    match message {
        ChatMessage::System(text) => json!({"role": "system", "content": text}),
        ChatMessage::User(text) => json!({"role": "user", "content": text}),
        ChatMessage::Tool { call_id, content } => {
            json!({"role": "tool", "tool_call_id": call_id, "content": content})
        }
        ChatMessage::Assistant {
            text,
            reasoning,
            calls,
        } => assistant_json(text, reasoning, calls, policy),
    }
}

fn assistant_json(
    text: &str,
    reasoning: &str,
    calls: &[ToolCall],
    policy: ReasoningPolicy,
) -> Value {
    if calls.is_empty() {
        return json!({"role": "assistant", "content": text});
    }
    let content = if text.is_empty() {
        Value::Null
    } else {
        text.into()
    };
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), content);
    let returns_reasoning = match policy {
        ReasoningPolicy::Never => false,
        ReasoningPolicy::WhenPresent => !reasoning.is_empty(),
        ReasoningPolicy::Always => true,
    };
    if returns_reasoning {
        message.insert("reasoning_content".into(), reasoning.into());
    }
    message.insert("tool_calls".into(), calls.iter().map(call_json).collect());
    Value::Object(message)
}

fn call_json(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": sendable_name(&call.name), "arguments": sendable_arguments(call)},
    })
}

/// Models make names up; a server that checks them would refuse the whole conversation.
fn sendable_name(name: &str) -> String {
    const LONGEST: usize = 64;
    if name.is_empty() {
        return "unnamed".to_owned();
    }
    name.chars()
        .take(LONGEST)
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .collect()
}

/// The arguments exactly as received, so that cached prompts stay valid. What is no JSON object
/// goes back as an empty one: servers that parse old calls fail on it, and the call's result says
/// what was wrong.
fn sendable_arguments(call: &ToolCall) -> String {
    match &call.arguments {
        CallArguments::Object(_) | CallArguments::Inexact(_)
            if call.raw_arguments.trim_start().starts_with('{') =>
        {
            call.raw_arguments.clone()
        }
        CallArguments::Object(map) => Value::Object(map.clone()).to_string(),
        CallArguments::Malformed(_) | CallArguments::Inexact(_) | CallArguments::Truncated => {
            "{}".to_owned()
        }
    }
}
