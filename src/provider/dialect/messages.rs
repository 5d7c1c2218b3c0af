// SPDX-License-Identifier: GPL-3.0-or-later
//! The request body of Anthropic's Messages. Pure; `messages_reply` reads what comes back.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::wire::{
    SentCall, SentCalls, Side, Sides, add_users_fields, described, fitting_id, is_plain_id,
    object_arguments, sendable_name,
};
use super::written::HISTORY;
use crate::protocol::CallOutcome;
use crate::provider::history::{ChatMessage, Dialect, MessagePart, PartContent};
use crate::provider::{ChatRequest, Effort, ProviderSettings, ToolChoice};

/// The most tokens of a reply, which must be said. Models that write less are known to.
const MAX_TOKENS: u64 = 16_000;

/// Models that refuse the level of effort that came after them: parts of their names.
const KNOW_NO_XHIGH: &[&str] = &["opus-4-6", "sonnet-4-6"];

/// Models that think by a budget of tokens and know no effort: parts of their names.
const THINK_BY_BUDGET: &[&str] = &[
    "claude-3",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
];

/// The fields of a request's body.
pub fn fields(settings: &ProviderSettings, request: &ChatRequest) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    let reply = settings.facts.reply_limit(MAX_TOKENS);
    body.insert("max_tokens".into(), reply.into());
    let mut tools: Vec<Value> = request.tools.iter().map(tool_json).collect();
    if let Some(last) = tools.last_mut() {
        break_cache(last);
        body.insert("tools".into(), tools.into());
        let choice = tool_choice_json(&request.tool_choice);
        body.insert("tool_choice".into(), choice);
    }
    let mut system: Vec<Value> = request.messages.iter().filter_map(system_json).collect();
    if let Some(last) = system.last_mut() {
        break_cache(last);
        body.insert("system".into(), system.into());
    }
    body.insert("messages".into(), HISTORY);
    add_effort(&mut body, settings);
    body.insert("stream".into(), true.into());
    add_users_fields(&mut body, settings, request.position);
    agree(&mut body);
    body
}

/// Takes out what servers refuse together.
fn agree(body: &mut Map<String, Value>) {
    if !body.contains_key("tools") {
        body.shift_remove("tool_choice");
    }
    let thinks = body
        .get("thinking")
        .and_then(|thinking| thinking.get("type"))
        .is_some_and(|kind| kind != "disabled");
    let forced = body
        .get("tool_choice")
        .and_then(|choice| choice.get("type")?.as_str())
        .is_some_and(|kind| matches!(kind, "any" | "tool"));
    if thinks && forced {
        body.insert("tool_choice".into(), json!({"type": "auto"}));
    }
}

/// How hard to think, in the words that the model knows. Without a wish nothing is said.
fn add_effort(body: &mut Map<String, Value>, settings: &ProviderSettings) {
    let Some(effort) = settings.wished_effort() else {
        return;
    };
    if effort == Effort::None {
        body.insert("thinking".into(), json!({"type": "disabled"}));
    } else if THINK_BY_BUDGET
        .iter()
        .any(|name| settings.model.contains(name))
    {
        let budget: u64 = match effort {
            Effort::None | Effort::Minimal => 1024,
            Effort::Low => 2048,
            Effort::Medium => 8192,
            Effort::High => 16_384,
            Effort::ExtraHigh => 24_576,
            Effort::Max => 32_768,
        };
        let thinking = json!({"type": "enabled", "budget_tokens": budget});
        body.insert("thinking".into(), thinking);
        // What is thought counts as part of the reply.
        body.insert("max_tokens".into(), (MAX_TOKENS + budget).into());
    } else {
        let knows_no_xhigh = KNOW_NO_XHIGH
            .iter()
            .any(|name| settings.model.contains(name));
        let name = match effort {
            Effort::None | Effort::Minimal => "low",
            Effort::ExtraHigh if knows_no_xhigh => "high",
            other => other.name(),
        };
        body.insert("thinking".into(), json!({"type": "adaptive"}));
        body.insert("output_config".into(), json!({"effort": name}));
    }
}

fn tool_json(tool: &Value) -> Value {
    let (name, description, parameters) = described(tool);
    json!({"name": name, "description": description, "input_schema": parameters})
}

fn tool_choice_json(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::Required => json!({"type": "any"}),
        ToolChoice::None => json!({"type": "none"}),
        ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
    }
}

fn system_json(message: &ChatMessage) -> Option<Value> {
    match message {
        ChatMessage::System(text) if !text.trim().is_empty() => Some(text_json(text)),
        _ => None,
    }
}

fn text_json(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// What was sent up to and with BLOCK is to be kept in the cache.
fn break_cache(block: &mut Value) {
    block["cache_control"] = json!({"type": "ephemeral"});
}

/// The messages from the last but one of the user's on. The end of the history is where the next
/// request's prefix ends; the end before it is where this one's did, and is named as well because
/// servers look back only a few blocks.
#[derive(Default)]
struct LastMessages {
    held: VecDeque<Side>,
}

impl LastMessages {
    const USERS: usize = 2;

    /// Adds MESSAGE, and hands TO what is none of the last any more.
    fn add(&mut self, message: Side, to: &mut dyn FnMut(Value)) {
        self.held.push_back(message);
        while self.held.iter().filter(|it| is_users(it)).count() > Self::USERS {
            if let Some(message) = self.held.pop_front() {
                to(message_json(message));
            }
        }
    }

    /// Hands them TO, with breaks of the cache.
    fn end(self, to: &mut dyn FnMut(Value)) {
        for mut message in self.held {
            if let (true, Some(last)) = (is_users(&message), message.1.last_mut()) {
                break_cache(last);
            }
            to(message_json(message));
        }
    }
}

fn is_users((role, _): &Side) -> bool {
    *role == "user"
}

fn message_json((role, blocks): Side) -> Value {
    json!({"role": role, "content": blocks})
}

/// Hands TO the messages. Those of one side that follow each other are one; results come before words.
pub fn history(settings: &ProviderSettings, request: &ChatRequest, to: &mut dyn FnMut(Value)) {
    let mut sent = SentCalls::default();
    let (mut sides, mut last) = (Sides::default(), LastMessages::default());
    let mut add = |role, blocks| {
        if let Some(message) = sides.add(role, blocks) {
            last.add(message, to);
        }
    };
    let origin = settings.origin();
    for message in &request.messages {
        match message {
            ChatMessage::System(_) => {}
            // Blank text is refused.
            ChatMessage::User(text) if text.trim().is_empty() => {
                add("user", vec![text_json("(nothing)")]);
            }
            ChatMessage::User(text) => add("user", vec![text_json(text)]),
            ChatMessage::Tool {
                call_id,
                content,
                outcome,
            } => {
                let id = sent.of_result(call_id).id;
                add("user", vec![result_json(&id, content, *outcome)]);
            }
            ChatMessage::Assistant { origin: who, parts } => {
                let own = *who == origin && who.dialect == Dialect::Messages;
                add("assistant", assistant_blocks(parts, own.into(), &mut sent));
            }
        }
    }
    if let Some(message) = sides.end() {
        last.add(message, to);
    }
    last.end(to);
}

/// Whether what a part is sealed with is understood by who gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seals {
    Own,
    Foreign,
}

impl From<bool> for Seals {
    fn from(own: bool) -> Self {
        if own { Self::Own } else { Self::Foreign }
    }
}

fn assistant_blocks(parts: &[MessagePart], seals: Seals, sent: &mut SentCalls) -> Vec<Value> {
    let mut blocks = Vec::new();
    let mut says_something = false;
    for part in parts {
        let block = match (&part.content, &part.seal) {
            (PartContent::Text(text), _) if text.trim().is_empty() => continue,
            (PartContent::Text(text), _) => {
                says_something = true;
                text_json(text)
            }
            (PartContent::Thinking(text), Some(seal)) if seals == Seals::Own => {
                let mut block = json!({"type": "thinking", "thinking": text});
                for (key, value) in seal.as_object().into_iter().flatten() {
                    block[key] = value.clone();
                }
                block
            }
            (PartContent::Sealed, Some(seal)) if seals == Seals::Own => {
                says_something |= seal["type"] != "redacted_thinking";
                seal.clone()
            }
            (PartContent::Call(call), _) => {
                says_something = true;
                let id = fitting_id(&call.id, is_plain_id);
                let name = sendable_name(&call.name);
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": object_arguments(call)});
                sent.note(call, SentCall { id, name });
                block
            }
            (PartContent::Thinking(_) | PartContent::Sealed, _) => continue,
        };
        blocks.push(block);
    }
    // Thinking that led to nothing is refused.
    if says_something { blocks } else { Vec::new() }
}

fn result_json(id: &str, content: &str, outcome: CallOutcome) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": id});
    if !content.is_empty() {
        block["content"] = content.into();
    }
    if outcome != CallOutcome::Succeeded {
        block["is_error"] = true.into();
    }
    block
}
