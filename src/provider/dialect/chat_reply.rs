// SPDX-License-Identifier: GPL-3.0-or-later
//! What a Chat Completions server sends back. Pure; `chat_completions` writes the request.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::quick::{AtMostOne, DeltaText, or_empty};
use crate::provider::accumulator::CallFragment;
use crate::provider::bounds::size_of;
use crate::provider::draft::ReplyDraft;
use crate::provider::report::{reported, unreadable};
use crate::provider::{Finish, Usage};

/// One payload, as much of it as matters, read leniently: servers differ in all of it.
#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    error: Option<Value>,
    usage: Option<Value>,
    x_groq: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<i64>,
    delta: Option<Delta>,
    /// The whole answer of a server that does not stream. Some that do send it beside each delta,
    /// with the text so far.
    message: Option<Delta>,
    finish_reason: Option<Value>,
    /// The word of the server behind a router.
    native_finish_reason: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Value>,
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    reasoning_details: Option<Value>,
    refusal: Option<Value>,
    tool_calls: Option<Value>,
}

/// The usual payloads: more text, a piece of one call, a reason to end, what was counted. All of it is small,
/// as it is moved often while it is read.
#[derive(Deserialize)]
struct QuickChunk<'a> {
    #[serde(borrow)]
    choices: AtMostOne<QuickChoice<'a>>,
    error: Option<IgnoredAny>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    x_groq: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct QuickChoice<'a> {
    #[serde(borrow)]
    delta: QuickDelta<'a>,
    index: Option<i64>,
    message: Option<IgnoredAny>,
    #[serde(borrow)]
    finish_reason: Option<DeltaText<'a>>,
    #[serde(borrow)]
    native_finish_reason: Option<DeltaText<'a>>,
}

#[derive(Deserialize)]
struct QuickDelta<'a> {
    #[serde(borrow)]
    content: Option<DeltaText<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<DeltaText<'a>>,
    #[serde(borrow)]
    reasoning: Option<DeltaText<'a>>,
    reasoning_details: Option<IgnoredAny>,
    refusal: Option<IgnoredAny>,
    #[serde(borrow)]
    tool_calls: Option<AtMostOne<Box<QuickCall<'a>>>>,
}

#[derive(Deserialize)]
struct QuickCall<'a> {
    #[serde(borrow)]
    id: Option<DeltaText<'a>>,
    index: Option<i64>,
    #[serde(borrow)]
    function: QuickFunction<'a>,
}

#[derive(Deserialize)]
struct QuickFunction<'a> {
    #[serde(borrow)]
    name: Option<DeltaText<'a>>,
    #[serde(borrow)]
    arguments: Option<DeltaText<'a>>,
}

impl QuickChunk<'_> {
    /// Whether there is nothing in it that has to be looked at more closely.
    fn is_usual(&self) -> bool {
        self.error.is_none()
            && self.choices.0.as_ref().is_none_or(|choice| {
                choice.index.unwrap_or(0) == 0
                    && choice.message.is_none()
                    && choice.delta.reasoning_details.is_none()
                    && choice.delta.refusal.is_none()
            })
    }
}

impl QuickDelta<'_> {
    fn take(&self, draft: &mut ReplyDraft) {
        let reasoning = self.reasoning_content.as_ref().or(self.reasoning.as_ref());
        draft.thinking(reasoning.map_or("", DeltaText::as_str));
        draft.text(or_empty(&self.content));
        if let Some(AtMostOne(Some(call))) = &self.tool_calls {
            draft.fragment(&CallFragment {
                id: or_empty(&call.id),
                index: call.index,
                name: or_empty(&call.function.name),
                arguments: or_empty(&call.function.arguments).into(),
            });
        }
    }
}

/// The decoder of Chat Completions.
#[derive(Debug, Default)]
pub struct ChatDecoder {
    /// OpenRouter's `reasoning_details` so far; they go back as they came.
    details: Vec<Value>,
    detail_bytes: usize,
}

impl ChatDecoder {
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) {
        if data == "[DONE]" {
            self.end(draft);
            return;
        }
        if let Ok(chunk) = serde_json::from_str::<QuickChunk<'_>>(data)
            && name != "error"
            && chunk.is_usual()
        {
            self.take_quick(chunk, draft);
            return;
        }
        match serde_json::from_str::<Chunk>(data) {
            Ok(chunk) => self.take_chunk(chunk, name, data, draft),
            Err(_) => draft.fail(unreadable(name, data)),
        }
    }

    fn take_quick(&mut self, chunk: QuickChunk<'_>, draft: &mut ReplyDraft) {
        let counted = |raw: Option<&RawValue>| serde_json::from_str::<Value>(raw?.get()).ok();
        if let Some(usage) = usage(
            counted(chunk.usage).as_ref(),
            counted(chunk.x_groq).as_ref(),
        ) {
            draft.count(usage);
        }
        let Some(choice) = chunk.choices.0 else {
            return;
        };
        choice.delta.take(draft);
        if let Some(reason) = &choice.finish_reason {
            let native = choice.native_finish_reason.as_ref().map(DeltaText::as_str);
            self.keep_details(draft);
            draft.finish_for(finish_for(reason.as_str(), native));
        }
    }

    pub fn take_document(&mut self, document: &str, draft: &mut ReplyDraft) {
        self.take("", document.trim(), draft);
        self.end(draft);
    }

    fn end(&mut self, draft: &mut ReplyDraft) {
        self.keep_details(draft);
        draft.end();
    }

    fn keep_details(&mut self, draft: &mut ReplyDraft) {
        if !self.details.is_empty() {
            draft.sealed(Value::Array(std::mem::take(&mut self.details)));
        }
    }

    fn take_chunk(&mut self, chunk: Chunk, name: &str, data: &str, draft: &mut ReplyDraft) {
        if let Some(usage) = usage(chunk.usage.as_ref(), chunk.x_groq.as_ref()) {
            draft.count(usage);
        }
        let has_error = chunk.error.is_some() || chunk.choices.is_none();
        // We never ask for a second choice; a server that sends one is not listened to.
        let choices = chunk.choices.into_iter().flatten();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta.or(choice.message) {
                self.take_delta(delta, draft);
            }
            if let Some(reason) = choice.finish_reason.as_ref().and_then(Value::as_str) {
                let native = choice.native_finish_reason.as_ref().and_then(Value::as_str);
                self.keep_details(draft);
                draft.finish_for(finish_for(reason, native));
            }
        }
        if (has_error || name == "error")
            && !draft.has_failed()
            && let Some(error) = reported(name, data)
        {
            draft.fail(error);
        }
    }

    fn take_delta(&mut self, delta: Delta, draft: &mut ReplyDraft) {
        if let Some(Value::Array(details)) = delta.reasoning_details {
            for detail in details {
                self.take_detail(detail);
            }
        }
        let reasoning = delta.reasoning_content.or(delta.reasoning);
        if let Some(Value::String(text)) = reasoning {
            draft.thinking(&text);
        }
        match delta.content {
            Some(Value::String(text)) => draft.text(&text),
            Some(Value::Array(parts)) => {
                for part in parts {
                    take_part(&part, draft);
                }
            }
            _ => {}
        }
        if let Some(Value::String(text)) = delta.refusal {
            draft.text(&text);
        }
        match &delta.tool_calls {
            Some(Value::Array(fragments)) => {
                for fragment in fragments {
                    draft.fragment(&CallFragment::read(fragment));
                }
            }
            Some(fragment @ Value::Object(_)) => draft.fragment(&CallFragment::read(fragment)),
            _ => {}
        }
    }

    /// Details come in pieces: those of one index and type that follow each other are one.
    fn take_detail(&mut self, detail: Value) {
        const MOST_BYTES: usize = 4 * 1024 * 1024;
        self.detail_bytes += size_of(&detail);
        let Value::Object(detail) = detail else {
            return;
        };
        if self.detail_bytes > MOST_BYTES {
            return;
        }
        match self.details.last_mut().and_then(Value::as_object_mut) {
            Some(last) if continues(last, &detail) => {
                for (key, value) in detail {
                    extend(last, key, value);
                }
            }
            _ => self.details.push(Value::Object(detail)),
        }
    }
}

fn continues(last: &Map<String, Value>, next: &Map<String, Value>) -> bool {
    let both = |key: &str| (last.get(key), next.get(key));
    let is_text = next.get("type").and_then(Value::as_str) != Some("reasoning.encrypted");
    let same_id = match both("id") {
        (Some(Value::String(left)), Some(Value::String(right))) => left == right,
        _ => true,
    };
    let (left, right) = both("type");
    let (left_index, right_index) = both("index");
    is_text && left == right && left_index == right_index && same_id
}

/// Texts grow; of everything else the last that is something counts.
fn extend(last: &mut Map<String, Value>, key: String, value: Value) {
    match (last.get_mut(&key), value) {
        (Some(Value::String(text)), Value::String(more))
            if matches!(key.as_str(), "text" | "summary") =>
        {
            text.push_str(&more);
        }
        (_, Value::Null) => {}
        (_, value) => {
            last.insert(key, value);
        }
    }
}

/// One part of content that is a list: text, or thinking that has such parts itself.
fn take_part(part: &Value, draft: &mut ReplyDraft) {
    if let Some(thinking) = part.get("thinking") {
        let inner = thinking.as_array().into_iter().flatten();
        let pieces = inner.filter_map(|piece| piece.get("text").and_then(Value::as_str));
        for piece in thinking.as_str().into_iter().chain(pieces) {
            draft.thinking(piece);
        }
    } else if let Some(text) = part.get("text").and_then(Value::as_str) {
        draft.text(text);
    }
}

fn finish_for(reason: &str, native: Option<&str>) -> Finish {
    if let Some("max_output_tokens" | "max_tokens" | "MAX_TOKENS") = native {
        return Finish::Length;
    }
    match reason {
        "stop" | "end_turn" | "eos" => Finish::Stop,
        "tool_calls" | "function_call" | "tool_use" => Finish::ToolCalls,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" => Finish::ContentFilter,
        other => Finish::Other(other.to_owned()),
    }
}

fn usage(usage: Option<&Value>, groq: Option<&Value>) -> Option<Usage> {
    let usage = usage.or(groq.and_then(|extra| extra.get("usage")))?;
    let count = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| usage.pointer(name).and_then(Value::as_u64))
    };
    let input = count(&["/prompt_tokens", "/input_tokens"]);
    let output = count(&["/completion_tokens", "/output_tokens"]);
    if input.is_none() && output.is_none() {
        return None;
    }
    Some(Usage {
        input_tokens: input.unwrap_or(0),
        output_tokens: output.unwrap_or(0),
        cache_read_tokens: count(&[
            "/prompt_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
        ])
        .unwrap_or(0),
        cache_write_tokens: count(&["/prompt_tokens_details/cache_write_tokens"]).unwrap_or(0),
    })
}
