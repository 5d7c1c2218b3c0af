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
use crate::provider::history::{ChatMessage, Dialect, MessagePart, Messages, PartContent};
use crate::provider::models::{Knob, budget_of, level, reply_limit};
use crate::provider::{ChatRequest, Effort, ProviderSettings, ToolChoice};

/// The most tokens of a reply, which must be said, beside what is thought. Models that write less are known to.
const MAX_TOKENS: u64 = 16_000;

/// The smallest budget for thinking that is taken.
const LEAST_BUDGET: u64 = 1024;

/// The levels of effort in this dialect.
const LEVELS: &[Effort] = &[
    Effort::None,
    Effort::Low,
    Effort::Medium,
    Effort::High,
    Effort::ExtraHigh,
    Effort::Max,
];

/// The fields of a request's body.
pub fn fields(settings: &ProviderSettings, request: &ChatRequest) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    body.insert("max_tokens".into(), reply_tokens(settings, 0).into());
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
    fit_budget(body);
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

/// Leaves a quarter of the reply to what is said: a budget has to be less than the whole.
fn fit_budget(body: &mut Map<String, Value>) {
    let tokens = body.get("max_tokens").and_then(Value::as_u64);
    let budget = body.get("thinking").and_then(|it| it.get("budget_tokens"));
    if let (Some(tokens), Some(budget)) = (tokens, budget.and_then(Value::as_u64)) {
        match budget.min(tokens / 4 * 3) {
            fitting if fitting < LEAST_BUDGET => drop(body.shift_remove("thinking")),
            fitting => body["thinking"]["budget_tokens"] = fitting.into(),
        }
    }
}

/// The tokens to ask for, of which THOUGHT are for thinking: no more than the model gives.
fn reply_tokens(settings: &ProviderSettings, thought: u64) -> u64 {
    let wished = settings.facts.reply_limit(MAX_TOKENS + thought);
    match reply_limit(&settings.model) {
        Some(limit) if settings.facts.max_output.is_none() => limit.min(wished),
        _ => wished,
    }
}

/// How hard to think, in the words that the model knows. Without a wish nothing is said.
fn add_effort(body: &mut Map<String, Value>, settings: &ProviderSettings) {
    let Some(wish) = settings.wished_effort() else {
        return;
    };
    let level = match Knob::of(&settings.model) {
        Some(Knob::Budget { least, most, .. }) if wish != Effort::None => {
            let budget = budget_of(wish).clamp(least, most);
            let thinking = json!({"type": "enabled", "budget_tokens": budget});
            body.insert("thinking".into(), thinking);
            // What is thought counts as part of the reply.
            let tokens = reply_tokens(settings, budget);
            body.insert("max_tokens".into(), tokens.into());
            return;
        }
        Some(knob) => level(wish, knob.levels()),
        None => level(wish, LEVELS),
    };
    let Some(level) = level else {
        return;
    };
    if level == Effort::None {
        body.insert("thinking".into(), json!({"type": "disabled"}));
    } else {
        body.insert("thinking".into(), json!({"type": "adaptive"}));
        body.insert("output_config".into(), json!({"effort": level.name()}));
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
pub fn history(settings: &ProviderSettings, messages: &Messages, to: &mut dyn FnMut(Value)) {
    let mut sent = SentCalls::default();
    let (mut sides, mut last) = (Sides::default(), LastMessages::default());
    let mut add = |role, blocks| {
        if let Some(message) = sides.add(role, blocks) {
            last.add(message, to);
        }
    };
    let origin = settings.origin();
    for message in messages {
        match message {
            ChatMessage::System(_) => {}
            ChatMessage::User(text) => add("user", vec![text_json(text)]),
            ChatMessage::Tool {
                content, outcome, ..
            } => {
                let id = sent.of_result().id;
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
    let mut behind_last_word = 0;
    for part in parts {
        let is_thought = match (&part.content, &part.seal) {
            (PartContent::Text(text), _) if text.trim().is_empty() => continue,
            (PartContent::Text(text), _) => {
                blocks.push(text_json(text));
                false
            }
            (PartContent::Thinking(text), Some(seal)) if seals == Seals::Own => {
                let mut block = json!({"type": "thinking", "thinking": text});
                for (key, value) in seal.as_object().into_iter().flatten() {
                    block[key] = value.clone();
                }
                blocks.push(block);
                true
            }
            (PartContent::Sealed, Some(seal)) if seals == Seals::Own => {
                blocks.push(seal.clone());
                seal["type"] == "redacted_thinking"
            }
            (PartContent::Call(call), _) => {
                let id = sent.unique(fitting_id(&call.id, is_plain_id), is_plain_id);
                let name = sendable_name(&call.name);
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": object_arguments(call)});
                sent.note(SentCall { id, name });
                blocks.push(block);
                false
            }
            (PartContent::Thinking(_) | PartContent::Sealed, _) => continue,
        };
        if !is_thought {
            behind_last_word = blocks.len();
        }
    }
    // Thinking that led to nothing is refused.
    blocks.truncate(behind_last_word);
    blocks
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
