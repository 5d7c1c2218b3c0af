// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server that speaks Anthropic's Messages sends back. Pure; `messages` writes the request.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::quick::{DeltaText, kind_at_start, or_empty};
use crate::provider::bounds::MAX_CALL_BYTES;
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::report::{reported, unreadable};
use crate::provider::{Finish, Usage};

/// The type of the events that have more of a block.
const DELTA: &str = "content_block_delta";

/// An event, as far as those with more of a block go.
#[derive(Deserialize)]
struct QuickEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<DeltaText<'a>>,
    index: Option<u64>,
    #[serde(borrow)]
    delta: QuickDelta<'a>,
}

/// More of a block.
#[derive(Deserialize)]
struct QuickDelta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<DeltaText<'a>>,
    #[serde(borrow)]
    text: Option<DeltaText<'a>>,
    #[serde(borrow)]
    thinking: Option<DeltaText<'a>>,
    #[serde(borrow)]
    partial_json: Option<DeltaText<'a>>,
    #[serde(borrow)]
    signature: Option<DeltaText<'a>>,
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
        if data == "[DONE]" {
            return;
        }
        if kind_at_start(data).is_none_or(|kind| kind == DELTA)
            && let Ok(event) = serde_json::from_str::<QuickEvent<'_>>(data)
            && event.kind.as_ref().map_or(name, DeltaText::as_str) == DELTA
        {
            self.add(event.index.unwrap_or(0), &event.delta, draft);
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else {
            draft.fail(unreadable(name, data));
            return;
        };
        let kind = event["type"].as_str().unwrap_or(name);
        let index = event["index"].as_u64().unwrap_or(0);
        match kind {
            "message_start" => self.start(&event["message"], draft),
            "content_block_start" => self.open(index, &event["content_block"], draft),
            DELTA => {}
            "content_block_stop" => self.close(index, draft),
            "message_delta" => {
                self.count(&event["usage"], draft);
                finish(&event["delta"], draft);
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
        self.start(&message, draft);
        for (index, block) in (0..).zip(message["content"].as_array().into_iter().flatten()) {
            self.open(index, block, draft);
            if let Some(Block::Call(place)) = self.blocks.get(&index) {
                draft.set_arguments(*place, &block["input"].to_string());
            }
            self.close(index, draft);
        }
        finish(&message, draft);
        draft.end();
    }

    fn start(&mut self, message: &Value, draft: &mut ReplyDraft) {
        let id = message["id"].as_str().unwrap_or_default().to_owned();
        match &self.message {
            // Gateways repeat it.
            Some(before) if *before == id => return,
            // They also splice a second message into the first.
            Some(_) => {
                draft.start_over();
                *self = Self::default();
            }
            None => {}
        }
        self.message = Some(id);
        self.count(&message["usage"], draft);
    }

    fn open(&mut self, index: u64, block: &Value, draft: &mut ReplyDraft) {
        let text = |key: &str| block[key].as_str().unwrap_or_default();
        let opened = match text("type") {
            "text" => {
                let place = draft.open_text();
                draft.add(place, text("text"));
                Block::Text(place)
            }
            "thinking" => {
                let place = draft.open_thinking();
                draft.add(place, text("thinking"));
                // Even one that is empty goes back.
                draft.seal(place, json!({"signature": text("signature")}));
                Block::Thinking(place)
            }
            "tool_use" => Block::Call(draft.open_call(text("id"), text("name"))),
            _ => Block::Sealed(block.clone(), String::new()),
        };
        self.blocks.insert(index, opened);
    }

    fn add(&mut self, index: u64, delta: &QuickDelta<'_>, draft: &mut ReplyDraft) {
        match self.blocks.get_mut(&index) {
            Some(Block::Text(place)) => draft.add(*place, or_empty(&delta.text)),
            Some(Block::Thinking(place)) if or_empty(&delta.kind) == "signature_delta" => {
                draft.extend_seal(*place, "signature", or_empty(&delta.signature));
            }
            Some(Block::Thinking(place)) => draft.add(*place, or_empty(&delta.thinking)),
            Some(Block::Call(place)) => draft.add(*place, or_empty(&delta.partial_json)),
            Some(Block::Sealed(_, input)) if input.len() < MAX_CALL_BYTES => {
                input.push_str(or_empty(&delta.partial_json));
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

    fn count(&mut self, usage: &Value, draft: &mut ReplyDraft) {
        if !usage.is_object() {
            return;
        }
        let Counts {
            input,
            output,
            cache_read,
            cache_write,
        } = &mut self.counts;
        for (count, name) in [
            (&mut *input, "input_tokens"),
            (&mut *output, "output_tokens"),
            (&mut *cache_read, "cache_read_input_tokens"),
            (&mut *cache_write, "cache_creation_input_tokens"),
        ] {
            if let Some(number) = usage[name].as_u64() {
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

fn finish(delta: &Value, draft: &mut ReplyDraft) {
    let Some(reason) = delta["stop_reason"].as_str() else {
        return;
    };
    draft.finish_for(match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "pause_turn" => Finish::Paused,
        "refusal" => {
            let why = delta["stop_details"]["explanation"].as_str();
            Finish::Refused(why.unwrap_or_default().to_owned())
        }
        other => Finish::Other(other.to_owned()),
    });
}
