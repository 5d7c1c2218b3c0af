// SPDX-License-Identifier: GPL-3.0-or-later
//! What Ollama sends back: a line of JSON for each piece. Pure; `ollama` writes the request.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::quick::{DeltaText, or_empty};
use crate::provider::draft::ReplyDraft;
use crate::provider::report::{reported, unreadable};
use crate::provider::{Finish, Usage};

/// A line in which only text is of interest.
#[derive(Deserialize)]
struct QuickLine<'a> {
    #[serde(borrow)]
    message: QuickMessage<'a>,
    done: Option<bool>,
}

#[derive(Deserialize)]
struct QuickMessage<'a> {
    #[serde(borrow)]
    content: Option<DeltaText<'a>>,
    #[serde(borrow)]
    thinking: Option<DeltaText<'a>>,
    tool_calls: Option<IgnoredAny>,
}

/// The decoder of Ollama's lines; each is whole in itself.
#[derive(Debug, Default)]
pub struct OllamaDecoder;

impl OllamaDecoder {
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) {
        if let Ok(line) = serde_json::from_str::<QuickLine<'_>>(data)
            && line.message.tool_calls.is_none()
            && line.done != Some(true)
        {
            draft.thinking(or_empty(&line.message.thinking));
            draft.text(or_empty(&line.message.content));
            return;
        }
        let Ok(line) = serde_json::from_str::<Value>(data) else {
            draft.fail(unreadable(name, data));
            return;
        };
        let message = &line["message"];
        draft.thinking(message["thinking"].as_str().unwrap_or_default());
        draft.text(message["content"].as_str().unwrap_or_default());
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            take_call(call, draft);
        }
        if line["done"] == true {
            count(&line, draft);
            draft.finish_for(match line["done_reason"].as_str() {
                None | Some("stop" | "load" | "unload") => Finish::Stop,
                Some("length") => Finish::Length,
                Some(other) => Finish::Other(other.to_owned()),
            });
            draft.end();
        } else if message.is_null()
            && let Some(error) = reported(name, data)
        {
            draft.fail(error);
        }
    }
}

/// Calls come whole.
fn take_call(call: &Value, draft: &mut ReplyDraft) {
    let function = call.get("function").unwrap_or(call);
    let id = call["id"].as_str().unwrap_or_default();
    let place = draft.open_call(id, function["name"].as_str().unwrap_or_default());
    match &function["arguments"] {
        Value::Null => {}
        Value::String(text) => draft.add(place, text),
        arguments => draft.add(place, &arguments.to_string()),
    }
    draft.close_call(place);
}

fn count(line: &Value, draft: &mut ReplyDraft) {
    let number = |name: &str| line[name].as_u64();
    let (input, output) = (number("prompt_eval_count"), number("eval_count"));
    if input.is_some() || output.is_some() {
        draft.count(Usage {
            input_tokens: input.unwrap_or(0),
            output_tokens: output.unwrap_or(0),
            cache_read_tokens: number("prompt_eval_cached_count").unwrap_or(0),
            cache_write_tokens: 0,
        });
    }
}
