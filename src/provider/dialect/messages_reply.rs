// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server that speaks Anthropic's Messages sends back. Pure; `messages` writes the request.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::quick::{Loose, read_event, read_part};
use crate::provider::bounds::MAX_CALL_BYTES;
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::report::{reported, unreadable};
use crate::provider::{Finish, Usage};

/// An event of any type, as far as it is of use.
#[derive(Deserialize)]
struct StreamedEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
    #[serde(borrow, default)]
    index: Loose<'a>,
    /// Boxed, as a delta is large and an event is moved often while it is read.
    #[serde(borrow)]
    delta: Option<Box<Delta<'a>>>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// More of a block, or of the message.
#[derive(Default, Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
    #[serde(borrow, default)]
    text: Loose<'a>,
    #[serde(borrow, default)]
    thinking: Loose<'a>,
    #[serde(borrow, default)]
    partial_json: Loose<'a>,
    #[serde(borrow, default)]
    signature: Loose<'a>,
    #[serde(borrow, default)]
    stop_reason: Loose<'a>,
    #[serde(borrow)]
    stop_details: Option<&'a RawValue>,
}

/// A message, but for its content.
#[derive(Default, Deserialize)]
struct MessageHead<'a> {
    #[serde(borrow, default)]
    id: Loose<'a>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// How a block begins.
#[derive(Default, Deserialize)]
struct BlockStart<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
    #[serde(borrow, default)]
    text: Loose<'a>,
    #[serde(borrow, default)]
    thinking: Loose<'a>,
    #[serde(borrow, default)]
    signature: Loose<'a>,
    #[serde(borrow, default)]
    id: Loose<'a>,
    #[serde(borrow, default)]
    name: Loose<'a>,
}

#[derive(Default, Deserialize)]
struct StopDetails<'a> {
    #[serde(borrow, default)]
    explanation: Loose<'a>,
}

/// What the server counts at one place.
#[derive(Default, Deserialize)]
struct SaidCounts<'a> {
    #[serde(borrow, default)]
    input_tokens: Loose<'a>,
    #[serde(borrow, default)]
    output_tokens: Loose<'a>,
    #[serde(borrow, default)]
    cache_read_input_tokens: Loose<'a>,
    #[serde(borrow, default)]
    cache_creation_input_tokens: Loose<'a>,
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
        let Some(event) = read_event::<StreamedEvent<'_>>(name, data, draft) else {
            return;
        };
        let index = event.index.count().unwrap_or(0);
        let delta = event.delta.unwrap_or_default();
        match event.kind.some_text().unwrap_or(name) {
            "content_block_delta" => self.add(index, &delta, draft),
            "message_start" => self.start(&read_part(event.message), draft),
            "content_block_start" => {
                self.open(
                    index,
                    event.content_block.map_or("{}", RawValue::get),
                    draft,
                );
            }
            "content_block_stop" => self.close(index, draft),
            "message_delta" => {
                self.count(event.usage, draft);
                finish(&delta, draft);
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
        self.start(&serde_json::from_str(document).unwrap_or_default(), draft);
        for (index, block) in (0..).zip(message["content"].as_array().into_iter().flatten()) {
            self.open(index, &block.to_string(), draft);
            if let Some(Block::Call(place)) = self.blocks.get(&index) {
                draft.set_arguments(*place, &block["input"].to_string());
            }
            self.close(index, draft);
        }
        finish(&serde_json::from_str(document).unwrap_or_default(), draft);
        draft.end();
    }

    fn start(&mut self, message: &MessageHead<'_>, draft: &mut ReplyDraft) {
        let id = message.id.text();
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
        self.count(message.usage, draft);
    }

    /// The block with INDEX begins, as the JSON in BLOCK.
    fn open(&mut self, index: u64, block: &str, draft: &mut ReplyDraft) {
        let start: BlockStart<'_> = serde_json::from_str(block).unwrap_or_default();
        let opened = match start.kind.text() {
            "text" => {
                let place = draft.open_text();
                draft.add(place, start.text.text());
                Block::Text(place)
            }
            "thinking" => {
                let place = draft.open_thinking();
                draft.add(place, start.thinking.text());
                // Even one that is empty goes back.
                draft.seal(place, json!({"signature": start.signature.text()}));
                Block::Thinking(place)
            }
            "tool_use" => Block::Call(draft.open_call(start.id.text(), start.name.text())),
            _ => Block::Sealed(
                serde_json::from_str(block).unwrap_or_default(),
                String::new(),
            ),
        };
        self.blocks.insert(index, opened);
    }

    fn add(&mut self, index: u64, delta: &Delta<'_>, draft: &mut ReplyDraft) {
        match self.blocks.get_mut(&index) {
            Some(Block::Text(place)) => draft.add(*place, delta.text.text()),
            Some(Block::Thinking(place)) if delta.kind.text() == "signature_delta" => {
                draft.extend_seal(*place, "signature", delta.signature.text());
            }
            Some(Block::Thinking(place)) => draft.add(*place, delta.thinking.text()),
            Some(Block::Call(place)) => draft.add(*place, delta.partial_json.text()),
            Some(Block::Sealed(_, input)) if input.len() < MAX_CALL_BYTES => {
                input.push_str(delta.partial_json.text());
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

    fn count(&mut self, usage: Option<&RawValue>, draft: &mut ReplyDraft) {
        if usage.is_none() {
            return;
        }
        let said: SaidCounts<'_> = read_part(usage);
        let Counts {
            input,
            output,
            cache_read,
            cache_write,
        } = &mut self.counts;
        for (count, said) in [
            (&mut *input, &said.input_tokens),
            (&mut *output, &said.output_tokens),
            (&mut *cache_read, &said.cache_read_input_tokens),
            (&mut *cache_write, &said.cache_creation_input_tokens),
        ] {
            if let Some(number) = said.count() {
                *count = number;
            }
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

fn finish(delta: &Delta<'_>, draft: &mut ReplyDraft) {
    let Some(reason) = delta.stop_reason.some_text() else {
        return;
    };
    draft.finish_for(match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "pause_turn" => Finish::Paused,
        "refusal" => {
            let details: StopDetails<'_> = read_part(delta.stop_details);
            Finish::Refused(details.explanation.text().to_owned())
        }
        other => Finish::Other(other.to_owned()),
    });
}
