// SPDX-License-Identifier: GPL-3.0-or-later
//! What Ollama sends back: a line of JSON for each piece. Pure; `ollama` writes the request.

use super::form::{FormReading, ListOf, Mixed, SaidCount, SaidText, SaidTrue, form, take_object};
use crate::provider::draft::ReplyDraft;
use crate::provider::report::{reported, unreadable};
use crate::provider::{Finish, Usage};

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

    struct Call<'a> {
        "id" => id: SaidText<'a>,
        "function" => function: Option<Function<'a>>,
        // Some servers leave the `function` level out.
        "name" => name: SaidText<'a>,
        "arguments" => arguments: Mixed<'a>,
    }

    struct Function<'a> {
        "name" => name: SaidText<'a>,
        "arguments" => arguments: Mixed<'a>,
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
    let (name, arguments) = match &call.function {
        Some(function) => (&function.name, &function.arguments),
        None => (&call.name, &call.arguments),
    };
    let place = draft.open_call(call.id.get(), name.get());
    draft.add(place, &arguments.text_or_json());
    draft.close_call(place);
}

fn count(line: &ReplyLine<'_>, draft: &mut ReplyDraft) {
    if line.input.0.is_some() || line.output.0.is_some() {
        let number = |count: SaidCount| count.0.unwrap_or(0);
        draft.count(Usage {
            input_tokens: number(line.input),
            output_tokens: number(line.output),
            cache_read_tokens: number(line.cached),
            cache_write_tokens: 0,
        });
    }
}
