// SPDX-License-Identifier: GPL-3.0-or-later
//! The request body of OpenAI's Responses, with nothing kept on the server. Pure; `responses_reply`
//! reads what comes back.

use serde_json::{Map, Value, json};

use super::wire::{
    SentCall, SentCalls, add_cache_key, add_users_fields, described, fitting_id, is_plain_id,
    named_effort, sendable_arguments, sendable_name,
};
use super::written::HISTORY;
use crate::provider::history::{
    ChatMessage, Dialect, MessagePart, Messages, ModelOrigin, PartContent,
};
use crate::provider::{ChatRequest, ProviderSettings, ToolChoice};

/// The fields of a request's body.
pub fn fields(settings: &ProviderSettings, request: &ChatRequest) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    let instructions: Vec<&str> = request
        .messages
        .iter()
        .filter_map(|message| match message {
            ChatMessage::System(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if !instructions.is_empty() {
        body.insert("instructions".into(), instructions.join("\n\n").into());
    }
    body.insert("input".into(), HISTORY);
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(tool_json).collect();
        body.insert("tools".into(), tools.into());
        let choice = tool_choice_json(&request.tool_choice);
        body.insert("tool_choice".into(), choice);
    }
    if let Some(effort) = named_effort(settings) {
        let reasoning = json!({"effort": effort.name(), "summary": "auto"});
        body.insert("reasoning".into(), reasoning);
    }
    body.insert("store".into(), false.into());
    // Models that don't reason refuse to be asked for it.
    if settings.facts.thinking != Some(false) {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    add_cache_key(&mut body, settings, |body| {
        body.get("instructions").cloned()
    });
    body.insert("stream".into(), true.into());
    add_users_fields(&mut body, settings, request.position);
    if !body.contains_key("tools") {
        body.shift_remove("tool_choice");
        body.shift_remove("parallel_tool_calls");
    }
    body
}

fn tool_json(tool: &Value) -> Value {
    let (name, description, parameters) = described(tool);
    // Left out, it is taken for true, and most of our schemas are refused then.
    json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
}

fn tool_choice_json(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
    }
}

/// Hands TO each item of the input.
pub fn history(settings: &ProviderSettings, messages: &Messages, to: &mut dyn FnMut(Value)) {
    let mut sent = SentCalls::default();
    let origin = settings.origin();
    for message in messages {
        match message {
            ChatMessage::System(_) => {}
            ChatMessage::User(text) => to(
                json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
            ),
            ChatMessage::Tool { content, .. } => {
                let id = sent.of_result().id;
                to(json!({"type": "function_call_output", "call_id": id, "output": content}));
            }
            ChatMessage::Assistant { origin: who, parts } => {
                let items = assistant_items(parts, who, &origin, &mut sent);
                items.into_iter().for_each(&mut *to);
            }
        }
    }
}

fn assistant_items(
    parts: &[MessagePart],
    who: &ModelOrigin,
    origin: &ModelOrigin,
    sent: &mut SentCalls,
) -> Vec<Value> {
    let is_own = who == origin && who.dialect == Dialect::Responses;
    let mut items = Vec::new();
    let mut behind_last_word = 0;
    for part in parts {
        match (&part.content, &part.seal) {
            (PartContent::Thinking(_) | PartContent::Sealed, Some(seal)) if is_own => {
                items.push(seal.clone());
                continue;
            }
            (PartContent::Thinking(_) | PartContent::Sealed, _) => continue,
            (PartContent::Text(text), _) if text.trim().is_empty() => continue,
            (PartContent::Text(text), _) => items.push(
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
            ),
            (PartContent::Call(call), _) => {
                let id = sent.unique(fitting_id(&call.id, is_call_id), is_call_id);
                let name = sendable_name(&call.name);
                items.push(json!({"type": "function_call", "call_id": id, "name": name, "arguments": sendable_arguments(call)}));
                sent.note(SentCall { id, name });
            }
        }
        behind_last_word = items.len();
    }
    // Reasoning without what it led to is refused.
    items.truncate(behind_last_word);
    items
}

/// Ids of this dialect are longer than others take.
fn is_call_id(id: &str) -> bool {
    const LONGEST: usize = 64;
    is_plain_id(id) || (id.starts_with("call_") && id.len() <= LONGEST)
}
