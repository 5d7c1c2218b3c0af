// SPDX-License-Identifier: GPL-3.0-or-later
//! Ollama's `/api/chat`: the body of a request, and the decoder of what comes back: a line of JSON for
//! each piece. Pure.

use serde_json::{Map, Value, json};

use super::chat_completions::Call;
use super::form::{FormReading, ListOf, SaidCount, SaidText, SaidTrue, form, take_object};
use super::wire::{SentCall, SentCalls, add_users_fields, is_some_id, object_arguments};
use crate::provider::accumulator::CallFragment;
use crate::provider::body::HISTORY;
use crate::provider::draft::ReplyDraft;
use crate::provider::history::{
    ChatMessage, MessagePart, Messages, ModelOrigin, calls_of, text_of, thinking_of,
};
use crate::provider::model_facts::{Knob, level};
use crate::provider::refusal::{reported, unreadable};
use crate::provider::{ChatRequest, Effort, Finish, ProviderSettings, ToolChoice, Usage};

/// The fields of the body of REQUEST, of which the MESSAGES go.
pub fn fields(
    settings: &ProviderSettings,
    request: &ChatRequest,
    messages: &Messages,
) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    body.insert("messages".into(), HISTORY);
    // There is no other way to say that none is to be called.
    if !request.tools.is_empty() && request.tool_choice != ToolChoice::None {
        body.insert("tools".into(), request.tools.clone().into());
    }
    if let Some(effort) = settings.wished_effort() {
        body.insert("think".into(), think(effort, &settings.model));
    }
    body.insert("stream".into(), true.into());
    add_users_fields(&mut body, settings, request.position);
    set_window(&mut body, settings, messages);
    body
}

/// Hands TO each message.
pub fn history(settings: &ProviderSettings, messages: &Messages, to: &mut dyn FnMut(Value)) {
    let origin = settings.origin();
    let mut sent = SentCalls::default();
    for message in messages {
        to(message_json(message, &origin, &mut sent));
    }
}

/// Only gpt-oss knows levels everywhere; other models refuse them, or their servers do.
fn think(effort: Effort, model: &str) -> Value {
    match Knob::of(model) {
        _ if effort == Effort::None => false.into(),
        Some(Knob::Levels(levels)) if model.contains("gpt-oss") => {
            level(effort, levels).map_or(true.into(), |level| level.name().into())
        }
        _ => true.into(),
    }
}

/// Ollama cuts a prompt that is longer than the window and says nothing, and its usual window is small.
/// The window grows in large steps, as the model is loaded anew for each.
fn set_window(body: &mut Map<String, Value>, settings: &ProviderSettings, messages: &Messages) {
    const SMALLEST: usize = 16_384;
    const LARGEST: usize = 262_144;
    const FOR_THE_REPLY: usize = 4096;
    // Code has fewer bytes in a token than prose has.
    const BYTES_IN_A_TOKEN: usize = 3;
    let bytes: usize = ["messages", "tools"]
        .iter()
        .filter_map(|name| body.get(*name))
        .map(|value| match *value == HISTORY {
            true => history_bytes(settings, messages),
            false => value.to_string().len(),
        })
        .sum();
    let needed = bytes / BYTES_IN_A_TOKEN + FOR_THE_REPLY;
    let window = needed.next_power_of_two().clamp(SMALLEST, LARGEST);
    let options = body.entry("options").or_insert_with(|| json!({}));
    if let Some(options) = options.as_object_mut() {
        options.entry("num_ctx").or_insert_with(|| window.into());
    }
}

/// What a large picture takes, as bytes of text.
const BYTES_FOR_A_PICTURE: usize = 4800;

fn history_bytes(settings: &ProviderSettings, messages: &Messages) -> usize {
    let mut bytes = "[]".len();
    history(settings, messages, &mut |mut message| {
        // What a picture takes of the window has nothing to do with its bytes.
        let pictures = message.as_object_mut().and_then(|it| it.remove("images"));
        let pictures = pictures
            .as_ref()
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        bytes += pictures * BYTES_FOR_A_PICTURE;
        bytes += message.to_string().len() + ",".len();
    });
    bytes
}

fn message_json(message: &ChatMessage, origin: &ModelOrigin, sent: &mut SentCalls) -> Value {
    match message {
        ChatMessage::System(text) => json!({"role": "system", "content": text}),
        ChatMessage::User(said) if said.pictures.is_empty() => {
            json!({"role": "user", "content": said.text})
        }
        ChatMessage::User(said) => {
            let pictures: Vec<&str> = said.pictures.iter().map(|it| it.data.as_str()).collect();
            json!({"role": "user", "content": said.text, "images": pictures})
        }
        ChatMessage::Tool { content, .. } => {
            let SentCall { id, name } = sent.of_result();
            json!({"role": "tool", "tool_name": name, "tool_call_id": id, "content": content})
        }
        ChatMessage::Assistant { origin: who, parts } => assistant_json(parts, who, origin, sent),
    }
}

fn assistant_json(
    parts: &[MessagePart],
    who: &ModelOrigin,
    origin: &ModelOrigin,
    sent: &mut SentCalls,
) -> Value {
    let mut message = json!({"role": "assistant", "content": text_of(parts)});
    let calls: Vec<Value> = calls_of(parts)
        .map(|call| {
            let SentCall { id, name } = sent.send(call, is_some_id);
            json!({"id": id, "function": {"name": name, "arguments": object_arguments(call)}})
        })
        .collect();
    if !calls.is_empty() {
        let thinking = thinking_of(parts);
        if who == origin && !thinking.is_empty() {
            message["thinking"] = thinking.into();
        }
        message["tool_calls"] = calls.into();
    }
    message
}

// What comes back.

form! {
    /// A line, as much of it as matters.
    struct ReplyLine<'a> {
        "message" => message: Option<Message<'a>>,
        "done" => done: SaidTrue,
        "done_reason" => done_reason: SaidText<'a>,
        "prompt_eval_count" => input: SaidCount,
        "eval_count" => output: SaidCount,
        "prompt_eval_cached_count" => cached: SaidCount,
    }

    struct Message<'a> {
        "content" => content: SaidText<'a>,
        "thinking" => thinking: SaidText<'a>,
        "tool_calls" => calls: ListOf<Call<'a>>,
    }
}

/// The decoder of Ollama's lines; each is whole in itself.
#[derive(Debug, Default)]
pub struct OllamaDecoder;

impl OllamaDecoder {
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) -> FormReading {
        take_object(data, |line: ReplyLine<'_>| {
            take_line(&line, name, data, draft);
        })
    }

    pub fn take_document(&mut self, document: &str, draft: &mut ReplyDraft) {
        if self.take("", document, draft) != FormReading::Object {
            draft.fail(unreadable("", document));
        }
    }
}

fn take_line(line: &ReplyLine<'_>, name: &str, data: &str, draft: &mut ReplyDraft) {
    if let Some(message) = &line.message {
        draft.thinking(message.thinking.get());
        draft.text(message.content.get());
        for call in message.calls.iter() {
            take_call(call, draft);
        }
    }
    if line.done.0 {
        count(line, draft);
        draft.finish_for(Finish::for_reason(line.done_reason.get()).unwrap_or(Finish::Stop));
        draft.end();
    } else if line.message.is_none()
        && let Some(error) = reported(name, data)
    {
        draft.fail(error);
    }
}

/// Calls come whole.
fn take_call(call: &Call<'_>, draft: &mut ReplyDraft) {
    let CallFragment {
        id,
        name,
        arguments,
        ..
    } = call.fragment();
    let place = draft.open_call(id, name);
    draft.add(place, &arguments);
    draft.close_call(place);
}

fn count(line: &ReplyLine<'_>, draft: &mut ReplyDraft) {
    if line.input.0.is_some() || line.output.0.is_some() {
        draft.count(Usage {
            input_tokens: line.input.or_zero(),
            output_tokens: line.output.or_zero(),
            cache_read_tokens: line.cached.or_zero(),
            cache_write_tokens: 0,
        });
    }
}
