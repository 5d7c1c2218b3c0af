// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server that speaks Anthropic's Messages sends back. Pure; `messages` writes the request.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::form::{SaidCount, SaidText, form, form_of, read_event};
use crate::provider::bounds::MAX_CALL_BYTES;
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::report::{reported, unreadable};
use crate::provider::{Finish, Usage};

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
        "partial_json" => partial_json: SaidText<'a>,
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
    Call(PartPlace),
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
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) {
        let mut event = StreamedEvent::default();
        if read_event(name, data, &mut event, draft).is_none() {
            return;
        }
        let index = event.index.0.unwrap_or(0);
        match event.kind.some().unwrap_or(name) {
            "content_block_delta" => match &event.delta {
                Some(delta) => self.add(index, delta, draft),
                None => draft.fail(unreadable(name, data)),
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
                finish(event.delta.as_ref(), draft);
            }
            "message_stop" => draft.end(),
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
                draft.fail(reported("", document).unwrap_or_else(|| unreadable("", document)));
                return;
            }
        };
        self.start(Some(&form_of(document)), draft);
        for (index, block) in (0..).zip(message["content"].as_array().into_iter().flatten()) {
            let text = block.to_string();
            self.open(index, Some(&form_of(&text)), || block.clone(), draft);
            if let Some(Block::Call(place)) = self.blocks.get(&index) {
                draft.set_arguments(*place, &block["input"].to_string());
            }
            self.close(index, draft);
        }
        finish(Some(&form_of(document)), draft);
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
            "tool_use" => Block::Call(draft.open_call(start.id.get(), start.name.get())),
            _ => Block::Sealed(whole(), String::new()),
        };
        self.blocks.insert(index, opened);
    }

    fn add(&mut self, index: u64, delta: &Delta<'_>, draft: &mut ReplyDraft) {
        match self.blocks.get_mut(&index) {
            Some(Block::Text(place)) => draft.add(*place, delta.text.get()),
            Some(Block::Thinking(place)) if delta.kind.get() == "signature_delta" => {
                draft.extend_seal(*place, "signature", delta.signature.get());
            }
            Some(Block::Thinking(place)) => draft.add(*place, delta.thinking.get()),
            Some(Block::Call(place)) => draft.add(*place, delta.partial_json.get()),
            Some(Block::Sealed(_, input)) if input.len() < MAX_CALL_BYTES => {
                input.push_str(delta.partial_json.get());
            }
            Some(Block::Sealed(..)) | None => {}
        }
    }

    fn close(&mut self, index: u64, draft: &mut ReplyDraft) {
        match self.blocks.remove(&index) {
            Some(Block::Call(place)) => draft.close_call(place),
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
            *count = said.0.unwrap_or(*count);
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

fn finish(delta: Option<&Delta<'_>>, draft: &mut ReplyDraft) {
    let Some((delta, reason)) = delta.and_then(|delta| Some((delta, delta.stop_reason.some()?)))
    else {
        return;
    };
    draft.finish_for(match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "pause_turn" => Finish::Paused,
        "refusal" => {
            let details = delta.stop_details.as_ref();
            let why = details.map_or("", |details| details.explanation.get());
            Finish::Refused(why.to_owned())
        }
        other => Finish::Other(other.to_owned()),
    });
}
