// SPDX-License-Identifier: GPL-3.0-or-later
//! The dialects of the scripted server: what a script says in Chat Completions, in the words of the
//! dialect that the request was made in. Used by `script`.

use serde_json::{Value, json};

/// The dialect of a request, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Chat,
    Messages,
    Responses,
    Gemini,
    Ollama,
}

impl Wire {
    /// The dialect that is spoken at PATH; none when no chat is answered there.
    pub fn at(path: &str) -> Option<Self> {
        [
            ("/chat/completions", Self::Chat),
            ("/messages", Self::Messages),
            ("/responses", Self::Responses),
            (":streamGenerateContent", Self::Gemini),
            ("/api/chat", Self::Ollama),
        ]
        .into_iter()
        .find_map(|(end, wire)| path.ends_with(end).then_some(wire))
    }

    /// What an answer begins with.
    pub fn opening(self) -> Vec<u8> {
        match self {
            Self::Messages => self.event(
                &json!({"type": "message_start", "message": {"id": "scripted", "type": "message"}}),
            ),
            _ => Vec::new(),
        }
    }

    fn event(self, payload: &Value) -> Vec<u8> {
        match self {
            Self::Ollama => format!("{payload}\n"),
            Self::Gemini => format!("data: {payload}\r\n\r\n"),
            Self::Chat => format!("data: {payload}\n\n"),
            Self::Messages | Self::Responses => {
                let name = payload["type"].as_str().unwrap_or_default();
                format!("event: {name}\ndata: {payload}\n\n")
            }
        }
        .into_bytes()
    }

    fn events(self, payloads: &[Value]) -> Vec<u8> {
        payloads.iter().flat_map(|it| self.event(it)).collect()
    }

    fn block(self, block: &Value, deltas: &[Value]) -> Vec<u8> {
        let deltas = deltas.iter().flat_map(|it| self.block_delta(it));
        let deltas = deltas.collect::<Vec<_>>();
        [self.block_start(block), deltas, self.block_stop()].concat()
    }

    fn block_start(self, block: &Value) -> Vec<u8> {
        self.event(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
    }

    fn block_delta(self, delta: &Value) -> Vec<u8> {
        self.event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
    }

    fn block_stop(self) -> Vec<u8> {
        self.event(&json!({"type": "content_block_stop", "index": 0}))
    }

    fn part(self, part: Value) -> Vec<u8> {
        self.event(&json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]}))
    }

    fn text(self, text: &str) -> Vec<u8> {
        match self {
            Self::Messages => self.block_delta(&json!({"type": "text_delta", "text": text})),
            Self::Responses => self.event(
                &json!({"type": "response.output_text.delta", "item_id": "text", "delta": text}),
            ),
            Self::Gemini => self.part(json!({"text": text})),
            Self::Chat | Self::Ollama => self
                .event(&json!({"message": {"role": "assistant", "content": text}, "done": false})),
        }
    }

    fn thinking(self, text: &str) -> Vec<u8> {
        match self {
            Self::Messages => self.block(
                &json!({"type": "thinking", "thinking": "", "signature": ""}),
                &[
                    json!({"type": "thinking_delta", "thinking": text}),
                    json!({"type": "signature_delta", "signature": "scripted-seal"}),
                ],
            ),
            Self::Responses => self.events(&[
                json!({"type": "response.reasoning_summary_text.delta", "item_id": "thought", "delta": text}),
                json!({"type": "response.output_item.done", "item": {"type": "reasoning", "id": "thought",
                    "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "scripted-seal"}}),
            ]),
            Self::Gemini => self.part(json!({"text": text, "thought": true})),
            Self::Chat | Self::Ollama => self.event(
                &json!({"message": {"role": "assistant", "content": "", "thinking": text}, "done": false}),
            ),
        }
    }

    fn call(self, start: &Value, arguments: &str) -> Vec<u8> {
        let (id, name) = (&start["id"], &start["function"]["name"]);
        let object = || serde_json::from_str::<Value>(arguments).unwrap_or_else(|_| json!({}));
        match self {
            Self::Messages => self.block(
                &json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                &[json!({"type": "input_json_delta", "partial_json": arguments})],
            ),
            Self::Responses => self.event(
                &json!({"type": "response.output_item.done", "item": {"type": "function_call", "id": id,
                    "call_id": id, "name": name, "arguments": arguments, "status": "completed"}}),
            ),
            Self::Gemini => self.part(
                json!({"functionCall": {"name": name, "args": object()}, "thoughtSignature": "scripted-seal"}),
            ),
            Self::Chat | Self::Ollama => self.event(
                &json!({"message": {"role": "assistant", "content": "",
                    "tool_calls": [{"id": id, "function": {"name": name, "arguments": object()}}]}, "done": false}),
            ),
        }
    }

    fn finish(self, reason: &str) -> Vec<u8> {
        let cut = reason == "length";
        match self {
            Self::Messages => {
                let reason = match reason {
                    "stop" => "end_turn",
                    "tool_calls" => "tool_use",
                    "length" => "max_tokens",
                    other => other,
                };
                self.event(&json!({"type": "message_delta", "delta": {"stop_reason": reason}}))
            }
            Self::Gemini => {
                let reason = if cut { "MAX_TOKENS" } else { "STOP" };
                self.event(
                    &json!({"candidates": [{"content": {"parts": []}, "finishReason": reason}]}),
                )
            }
            Self::Responses if cut => self.event(
                &json!({"type": "response.incomplete", "response": {"status": "incomplete",
                    "incomplete_details": {"reason": "max_output_tokens"}}}),
            ),
            Self::Ollama if cut => self
                .event(&json!({"message": {"content": ""}, "done": true, "done_reason": "length"})),
            Self::Chat | Self::Responses | Self::Ollama => Vec::new(),
        }
    }

    fn usage(self, input: u64, output: u64) -> Vec<u8> {
        match self {
            // Half of what was sent came out of the cache.
            Self::Messages => self.event(&json!({"type": "message_delta", "delta": {},
                "usage": {"input_tokens": input - input / 2, "cache_read_input_tokens": input / 2, "output_tokens": output}})),
            Self::Gemini => self.event(&json!({"usageMetadata": {"promptTokenCount": input,
                "cachedContentTokenCount": input / 2, "candidatesTokenCount": output}})),
            // They count at their end, which a script can't see yet.
            Self::Chat | Self::Responses | Self::Ollama => Vec::new(),
        }
    }

    fn end(self) -> Vec<u8> {
        match self {
            Self::Messages => self.event(&json!({"type": "message_stop"})),
            Self::Responses => self
                .event(&json!({"type": "response.completed", "response": {"status": "completed"}})),
            Self::Ollama => self
                .event(&json!({"message": {"content": ""}, "done": true, "done_reason": "stop"})),
            Self::Chat | Self::Gemini => Vec::new(),
        }
    }
}

/// An answer in the making, which says in a dialect what comes in Chat Completions.
#[derive(Debug)]
pub struct Translation {
    wire: Wire,
    block: TextBlock,
}

/// Whether a block of text is open. Only Messages have blocks, and texts that follow each other share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextBlock {
    Closed,
    Open,
}

impl Translation {
    pub fn to(wire: Wire) -> Self {
        Self {
            wire,
            block: TextBlock::Closed,
        }
    }

    /// CHAT, events of Chat Completions, in the dialect. A call is whole in them.
    pub fn translate(&mut self, chat: Vec<u8>) -> Vec<u8> {
        let wire = self.wire;
        if wire == Wire::Chat {
            return chat;
        }
        let text = String::from_utf8(chat).unwrap_or_default();
        let payloads = text
            .split("\n\n")
            .filter_map(|it| it.strip_prefix("data: "));
        let mut bytes = Vec::new();
        let mut call: Option<(Value, String)> = None;
        for payload in payloads {
            let chunk: Value = serde_json::from_str(payload).unwrap_or_default();
            let choice = &chunk["choices"][0];
            if let Some(text) = choice["delta"]["content"].as_str() {
                bytes.extend(self.text(text));
                continue;
            }
            bytes.extend(self.end_text());
            let fragment = &choice["delta"]["tool_calls"][0];
            if fragment.is_object() {
                let (_, arguments) = call.get_or_insert_with(|| (fragment.clone(), String::new()));
                arguments.push_str(fragment["function"]["arguments"].as_str().unwrap_or(""));
            }
            if let Some(text) = choice["delta"]["reasoning_content"].as_str() {
                bytes.extend(wire.thinking(text));
            }
            if let Some(reason) = choice["finish_reason"].as_str() {
                bytes.extend(wire.finish(reason));
            }
            if let Some(input) = chunk["usage"]["prompt_tokens"].as_u64() {
                let output = chunk["usage"]["completion_tokens"].as_u64().unwrap_or(0);
                bytes.extend(wire.usage(input, output));
            }
            if payload == "[DONE]" {
                bytes.extend(wire.end());
            }
        }
        if let Some((start, arguments)) = call {
            bytes.extend(wire.call(&start, &arguments));
        }
        bytes
    }

    fn text(&mut self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.wire == Wire::Messages && self.block == TextBlock::Closed {
            self.block = TextBlock::Open;
            bytes.extend(self.wire.block_start(&json!({"type": "text", "text": ""})));
        }
        bytes.extend(self.wire.text(text));
        bytes
    }

    /// What comes before anything that is no text.
    pub fn end_text(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.block, TextBlock::Closed) {
            TextBlock::Open => self.wire.block_stop(),
            TextBlock::Closed => Vec::new(),
        }
    }
}
