// SPDX-License-Identifier: GPL-3.0-or-later
//! Anthropic's Messages: the body of a request, and the decoder of what comes back. Pure.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value, json};

use super::form::{Anything, FormReading, Mixed, SaidCount, SaidText, form, form_of, take_object};
use super::wire::{
    SentCall, SentCalls, Side, Sides, add_users_fields, described, is_plain_id, object_arguments,
    system_texts, without_last_thoughts,
};
use crate::protocol::{CallOutcome, Picture};
use crate::provider::accumulator::MAX_CALL_BYTES;
use crate::provider::body::HISTORY;
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::history::{ChatMessage, MessagePart, Messages, PartContent};
use crate::provider::model_facts::{Knob, budget_of, level, reply_limit};
use crate::provider::refusal::{foreign, reported};
use crate::provider::{ChatRequest, Dialect, Effort, Finish, ProviderSettings, ToolChoice, Usage};

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
    let system = system_texts(request).into_iter();
    let mut system: Vec<Value> = system
        .filter(|text| !text.trim().is_empty())
        .map(text_json)
        .collect();
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

fn picture_json(picture: &Picture) -> Value {
    let media = picture.format.media_type();
    json!({"type": "image", "source": {"type": "base64", "media_type": media, "data": picture.data}})
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
            ChatMessage::User(said) => {
                let pictures = said.pictures.iter().map(picture_json);
                add("user", pictures.chain([text_json(&said.text)]).collect());
            }
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
    for part in parts {
        match (&part.content, &part.seal) {
            (PartContent::Text(text), _) if text.trim().is_empty() => {}
            (PartContent::Text(text), _) => blocks.push(text_json(text)),
            (PartContent::Thinking(text), Some(seal)) if seals == Seals::Own => {
                let mut block = json!({"type": "thinking", "thinking": text});
                for (key, value) in seal.as_object().into_iter().flatten() {
                    block[key] = value.clone();
                }
                blocks.push(block);
            }
            (PartContent::Sealed, Some(seal)) if seals == Seals::Own => blocks.push(seal.clone()),
            (PartContent::Call(call), _) => {
                let SentCall { id, name } = sent.send(call, is_plain_id);
                blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": object_arguments(call)}));
            }
            (PartContent::Thinking(_) | PartContent::Sealed, _) => {}
        }
    }
    without_last_thoughts(blocks, &["thinking", "redacted_thinking"])
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

// What comes back.

form! {
    /// An event of any type, as far as it is of use.
    struct StreamedEvent<'a> {
        "type" => kind: SaidText<'a>,
        "index" => index: SaidCount,
        "delta" => delta: Option<Delta<'a>>,
        "content_block" => content_block: Option<BlockStart<'a>>,
        "message" => message: Option<MessageHead<'a>>,
        "usage" => usage: Option<SaidCounts>,
    }

    /// More of a block, or of the message.
    struct Delta<'a> {
        "type" => kind: SaidText<'a>,
        "text" => text: SaidText<'a>,
        "thinking" => thinking: SaidText<'a>,
        "partial_json" => partial_json: Mixed<'a>,
        "signature" => signature: SaidText<'a>,
        "stop_reason" => stop_reason: SaidText<'a>,
        "stop_details" => stop_details: Option<StopDetails<'a>>,
    }

    struct StopDetails<'a> {
        "explanation" => explanation: SaidText<'a>,
    }

    /// A message, but for its content.
    struct MessageHead<'a> {
        "id" => id: SaidText<'a>,
        "usage" => usage: Option<SaidCounts>,
    }

    /// How a block begins.
    struct BlockStart<'a> {
        "type" => kind: SaidText<'a>,
        "text" => text: SaidText<'a>,
        "thinking" => thinking: SaidText<'a>,
        "signature" => signature: SaidText<'a>,
        "id" => id: SaidText<'a>,
        "name" => name: SaidText<'a>,
        "input" => input: Anything,
    }

    /// What the server counts at one place.
    #[derive(Clone, Copy)]
    struct SaidCounts {
        "input_tokens" => input: SaidCount,
        "output_tokens" => output: SaidCount,
        "cache_read_input_tokens" => cache_read: SaidCount,
        "cache_creation_input_tokens" => cache_write: SaidCount,
    }
}

/// What a delta has more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeltaKind {
    Text,
    Thinking,
    Signature,
    Input,
    Other,
}

impl Delta<'_> {
    /// Its kind, by its type or by what it has.
    fn kind(&self) -> DeltaKind {
        let has = |text: &SaidText<'_>| text.some().is_some();
        match self.kind.get() {
            "text_delta" => DeltaKind::Text,
            "thinking_delta" => DeltaKind::Thinking,
            "signature_delta" => DeltaKind::Signature,
            "input_json_delta" => DeltaKind::Input,
            _ if has(&self.text) => DeltaKind::Text,
            _ if has(&self.thinking) => DeltaKind::Thinking,
            _ if !self.partial_json.text_or_json().is_empty() => DeltaKind::Input,
            _ => DeltaKind::Other,
        }
    }
}

/// The decoder of Messages.
#[derive(Debug, Default)]
pub struct MessagesDecoder {
    /// The id of the message that comes.
    message: Option<String>,
    /// The blocks that are open, by their index.
    blocks: BTreeMap<u64, Block>,
    counts: Counts,
}

/// A block that came in part.
#[derive(Debug)]
enum Block {
    Text(PartPlace),
    Thinking(PartPlace),
    /// With the arguments that it began with, which count if no more come.
    Call(PartPlace, String),
    /// One that only its provider can read: how it began, and the text of its input.
    Sealed(Value, String),
}

/// What the server counted so far; each count stands for the whole message.
#[derive(Debug, Default)]
struct Counts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl MessagesDecoder {
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) -> FormReading {
        take_object(data, |event: StreamedEvent<'_>| {
            self.take_event(&event, name, data, draft);
        })
    }

    fn take_event(
        &mut self,
        event: &StreamedEvent<'_>,
        name: &str,
        data: &str,
        draft: &mut ReplyDraft,
    ) {
        let index = event.index.0.unwrap_or(0);
        match event.kind.some().unwrap_or(name) {
            "content_block_delta" => match &event.delta {
                Some(delta) => self.add(index, delta, draft),
                None => draft.skip(name, data),
            },
            "message_start" => self.start(event.message.as_ref(), draft),
            "content_block_start" => {
                let whole = || {
                    let mut event: Value = serde_json::from_str(data).unwrap_or_default();
                    event["content_block"].take()
                };
                self.open(index, event.content_block.as_ref(), whole, draft);
            }
            "content_block_stop" => self.close(index, draft),
            "message_delta" => {
                self.count(event.usage, draft);
                self.finish(event.delta.as_ref(), draft);
            }
            "message_stop" => {
                self.close_all(draft);
                draft.end();
            }
            "ping" => {}
            // A block in a type that we don't know yet is no error.
            _ => {
                if let Some(error) = reported(name, data) {
                    draft.fail(error);
                }
            }
        }
    }

    pub fn take_document(&mut self, document: &str, draft: &mut ReplyDraft) {
        let message: Value = match serde_json::from_str(document) {
            Ok(message @ Value::Object(_)) if message["type"] == "message" => message,
            _ => {
                draft.fail(foreign(Dialect::Messages, "", document));
                return;
            }
        };
        self.start(Some(&form_of(document)), draft);
        for (index, block) in (0..).zip(message["content"].as_array().into_iter().flatten()) {
            let text = block.to_string();
            self.open(index, Some(&form_of(&text)), || block.clone(), draft);
            self.close(index, draft);
        }
        self.finish(Some(&form_of(document)), draft);
        draft.end();
    }

    fn start(&mut self, message: Option<&MessageHead<'_>>, draft: &mut ReplyDraft) {
        let id = message.map_or("", |message| message.id.get());
        match &self.message {
            // Gateways repeat it.
            Some(before) if before == id => return,
            // They also splice a second message into the first.
            Some(_) => {
                draft.start_over();
                *self = Self::default();
            }
            None => {}
        }
        self.message = Some(id.to_owned());
        self.count(message.and_then(|message| message.usage), draft);
    }

    /// The block with INDEX begins with what START says, all of which is WHOLE.
    fn open(
        &mut self,
        index: u64,
        start: Option<&BlockStart<'_>>,
        whole: impl FnOnce() -> Value,
        draft: &mut ReplyDraft,
    ) {
        let Some(start) = start else {
            return;
        };
        let opened = match start.kind.get() {
            "text" => {
                let place = draft.open_text();
                draft.add(place, start.text.get());
                Block::Text(place)
            }
            "thinking" => {
                let place = draft.open_thinking();
                draft.add(place, start.thinking.get());
                // Even one that is empty goes back.
                draft.seal(place, json!({"signature": start.signature.get()}));
                Block::Thinking(place)
            }
            "tool_use" => {
                let input = match start.input.0.as_deref() {
                    None | Some(Value::Null) => String::new(),
                    Some(Value::Object(none)) if none.is_empty() => String::new(),
                    Some(Value::String(text)) => text.clone(),
                    Some(input) => input.to_string(),
                };
                let place = draft.open_call(start.id.get(), start.name.get());
                Block::Call(place, input)
            }
            _ => Block::Sealed(whole(), String::new()),
        };
        // Of a block that a gateway opens over another, what came stays.
        self.replace(index, opened, draft);
    }

    /// Adds what DELTA has to the block with INDEX. Its own kind counts: one that the block is not of, or for which
    /// none is open, opens a block.
    fn add(&mut self, index: u64, delta: &Delta<'_>, draft: &mut ReplyDraft) {
        match (delta.kind(), self.blocks.get_mut(&index)) {
            (DeltaKind::Text, Some(Block::Text(place))) => draft.add(*place, delta.text.get()),
            (DeltaKind::Thinking, Some(Block::Thinking(place))) => {
                draft.add(*place, delta.thinking.get());
            }
            (DeltaKind::Signature, Some(Block::Thinking(place))) => {
                draft.extend_seal(*place, "signature", delta.signature.get());
            }
            (DeltaKind::Input, Some(Block::Call(place, _))) => {
                draft.add(*place, &delta.partial_json.text_or_json());
            }
            (DeltaKind::Input, Some(Block::Sealed(_, input))) => {
                if input.len() < MAX_CALL_BYTES {
                    input.push_str(&delta.partial_json.text_or_json());
                }
            }
            (DeltaKind::Text, _) => {
                let place = draft.open_text();
                draft.add(place, delta.text.get());
                self.replace(index, Block::Text(place), draft);
            }
            (DeltaKind::Thinking, _) => {
                let place = draft.open_thinking();
                draft.add(place, delta.thinking.get());
                self.replace(index, Block::Thinking(place), draft);
            }
            (DeltaKind::Input, _) if !delta.partial_json.text_or_json().is_empty() => {
                let place = draft.open_call("", "");
                draft.add(place, &delta.partial_json.text_or_json());
                self.replace(index, Block::Call(place, String::new()), draft);
            }
            (DeltaKind::Signature | DeltaKind::Input | DeltaKind::Other, _) => {}
        }
    }

    /// Has BLOCK under INDEX, and closes what was there.
    fn replace(&mut self, index: u64, block: Block, draft: &mut ReplyDraft) {
        self.close(index, draft);
        self.blocks.insert(index, block);
    }

    /// The message is complete, and so are its blocks.
    fn close_all(&mut self, draft: &mut ReplyDraft) {
        while let Some(index) = self.blocks.keys().next().copied() {
            self.close(index, draft);
        }
    }

    fn finish(&mut self, delta: Option<&Delta<'_>>, draft: &mut ReplyDraft) {
        let Some((delta, reason)) =
            delta.and_then(|delta| Some((delta, Finish::for_reason(delta.stop_reason.get())?)))
        else {
            return;
        };
        if reason.is_good() {
            self.close_all(draft);
        }
        draft.finish_for(match reason {
            Finish::Refused(_) => {
                let details = delta.stop_details.as_ref();
                let why = details.map_or("", |details| details.explanation.get());
                Finish::Refused(why.to_owned())
            }
            reason => reason,
        });
    }

    fn close(&mut self, index: u64, draft: &mut ReplyDraft) {
        match self.blocks.remove(&index) {
            Some(Block::Call(place, input)) => {
                if draft.is_empty_at(place) {
                    draft.add(place, &input);
                }
                draft.close_call(place);
            }
            Some(Block::Sealed(mut block, input)) => {
                if !input.is_empty() {
                    block["input"] = serde_json::from_str(&input).unwrap_or(Map::new().into());
                }
                draft.sealed(block);
            }
            Some(Block::Text(_) | Block::Thinking(_)) | None => {}
        }
    }

    fn count(&mut self, said: Option<SaidCounts>, draft: &mut ReplyDraft) {
        let Some(said) = said else {
            return;
        };
        let Counts {
            input,
            output,
            cache_read,
            cache_write,
        } = &mut self.counts;
        for (count, said) in [
            (&mut *input, said.input),
            (&mut *output, said.output),
            (&mut *cache_read, said.cache_read),
            (&mut *cache_write, said.cache_write),
        ] {
            // A 0 behind a count is none.
            *count = said.0.filter(|it| *it > 0).unwrap_or(*count);
        }
        draft.count(Usage {
            // What came out of the cache and went into it is not in theirs.
            input_tokens: *input + *cache_read + *cache_write,
            output_tokens: *output,
            cache_read_tokens: *cache_read,
            cache_write_tokens: *cache_write,
        });
    }
}
