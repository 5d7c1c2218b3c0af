// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server that speaks Anthropic's Messages sends back. Pure; `messages` writes the request.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::form::{Anything, FormReading, Mixed, SaidCount, SaidText, form, form_of, take_object};
use crate::provider::bounds::MAX_CALL_BYTES;
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::report::{foreign, reported};
use crate::provider::{Dialect, Finish, Usage};

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
