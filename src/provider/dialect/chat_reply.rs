// SPDX-License-Identifier: GPL-3.0-or-later
//! What a Chat Completions server sends back. Pure; `chat_completions` writes the request.

use serde_json::{Map, Value};

use super::form::{
    Anything, FormReading, ListOf, Mention, Mixed, SaidCount, SaidText, form, take_object,
};
use crate::provider::accumulator::CallFragment;
use crate::provider::bounds::size_of;
use crate::provider::draft::ReplyDraft;
use crate::provider::report::{foreign, looks_like, reported, unexplained_failure};
use crate::provider::{Dialect, Finish, ProviderError, Usage};

form! {
    /// One payload, as much of it as matters.
    struct Chunk<'a> {
        "choices" => choices: Option<ListOf<Choice<'a>>>,
        "error" => error: Mention,
        "usage" => usage: Option<SaidCounts>,
        "x_groq" => groq: Option<GroqExtra>,
    }

    struct Choice<'a> {
        "index" => index: SaidCount,
        "delta" => delta: Option<Delta<'a>>,
        /// The whole answer of a server that does not stream. Some that do send it beside each delta,
        /// with the text so far.
        "message" => message: Option<Delta<'a>>,
        "finish_reason" => finish_reason: SaidText<'a>,
        /// The word of the server behind a router.
        "native_finish_reason" => native_finish_reason: SaidText<'a>,
        /// Some count here.
        "usage" => usage: Option<SaidCounts>,
        "error" => error: Mention,
    }

    struct Delta<'a> {
        "content" => content: Mixed<'a>,
        "reasoning_content" => reasoning_content: SaidText<'a>,
        "reasoning" => reasoning: SaidText<'a>,
        "reasoning_text" => reasoning_text: SaidText<'a>,
        "thinking" => thinking: SaidText<'a>,
        "reasoning_details" => reasoning_details: Anything,
        "refusal" => refusal: SaidText<'a>,
        "tool_calls" => tool_calls: ListOf<Call<'a>>,
        /// The one call of servers from before there were more.
        "function_call" => function_call: Option<Function<'a>>,
    }

    struct Call<'a> {
        "id" => id: SaidText<'a>,
        "index" => index: SaidCount,
        "function" => function: Option<Function<'a>>,
        // Some servers leave the `function` level out.
        "name" => name: SaidText<'a>,
        "arguments" => arguments: Mixed<'a>,
    }

    struct Function<'a> {
        "name" => name: SaidText<'a>,
        "arguments" => arguments: Mixed<'a>,
    }

    struct GroqExtra {
        "usage" => usage: Option<SaidCounts>,
    }

    struct SaidCounts {
        "prompt_tokens" => prompt: SaidCount,
        "input_tokens" => input: SaidCount,
        "completion_tokens" => completion: SaidCount,
        "output_tokens" => output: SaidCount,
        "prompt_tokens_details" => details: PromptDetails,
        "prompt_cache_hit_tokens" => cache_hit: SaidCount,
        "cached_tokens" => cached: SaidCount,
    }

    struct PromptDetails {
        "cached_tokens" => cached: SaidCount,
        "cache_write_tokens" => cache_write: SaidCount,
    }
}

impl<'a> Call<'a> {
    fn fragment(&self) -> CallFragment<'_> {
        let (name, arguments) = match &self.function {
            Some(function) => (&function.name, &function.arguments),
            None => (&self.name, &self.arguments),
        };
        CallFragment {
            id: self.id.get(),
            index: self.index.0.and_then(|index| index.try_into().ok()),
            name: name.get(),
            arguments: arguments.text_or_json(),
        }
    }
}

impl<'a> Function<'a> {
    /// The call, which is the only one.
    fn fragment(&self) -> CallFragment<'_> {
        CallFragment {
            id: "",
            index: Some(0),
            name: self.name.get(),
            arguments: self.arguments.text_or_json(),
        }
    }
}

/// The decoder of Chat Completions.
#[derive(Debug, Default)]
pub struct ChatDecoder {
    /// OpenRouter's `reasoning_details` so far; they go back as they came.
    details: Vec<Value>,
    detail_bytes: usize,
    /// The index of the choice that is listened to: the first that comes, as we never ask for a second.
    choice: Option<u64>,
}

impl ChatDecoder {
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) -> FormReading {
        take_object(data, |mut chunk: Chunk<'_>| {
            self.take_chunk(&mut chunk, name, data, draft);
        })
    }

    pub fn take_document(&mut self, document: &str, draft: &mut ReplyDraft) {
        let document = document.trim();
        self.take("", document, draft);
        if !draft.has_failed() && looks_like(document) != Some(Dialect::ChatCompletions) {
            draft.fail(foreign(Dialect::ChatCompletions, "", document));
        }
        self.end(draft);
    }

    /// The end mark came.
    pub fn end(&mut self, draft: &mut ReplyDraft) {
        self.keep_details(draft);
        draft.end();
    }

    fn keep_details(&mut self, draft: &mut ReplyDraft) {
        if !self.details.is_empty() {
            draft.sealed(Value::Array(std::mem::take(&mut self.details)));
        }
    }

    fn take_chunk(
        &mut self,
        chunk: &mut Chunk<'_>,
        name: &str,
        data: &str,
        draft: &mut ReplyDraft,
    ) {
        let groq = chunk.groq.as_ref().and_then(|extra| extra.usage.as_ref());
        if let Some(usage) = chunk.usage.as_ref().or(groq).and_then(usage) {
            draft.count(usage);
        }
        let has_error = chunk.error == Mention::Something || chunk.choices.is_none();
        for choice in chunk.choices.iter_mut().flat_map(ListOf::iter_mut) {
            let index = choice.index.0.unwrap_or(0);
            if *self.choice.get_or_insert(index) != index {
                continue;
            }
            if let Some(usage) = choice.usage.as_ref().and_then(usage) {
                draft.count(usage);
            }
            if let Some(delta) = choice.delta.as_mut().or(choice.message.as_mut()) {
                self.take_delta(delta, draft);
            }
            if choice.error == Mention::Something {
                draft.fail(error_of_choice(data).unwrap_or_else(unexplained_failure));
            }
            let reasons = [&choice.finish_reason, &choice.native_finish_reason];
            if reasons
                .iter()
                .any(|reason| Finish::for_reason(reason.get()).is_some())
            {
                self.keep_details(draft);
                finish(
                    choice.finish_reason.get(),
                    choice.native_finish_reason.get(),
                    draft,
                );
            }
        }
        if (has_error || name == "error")
            && !draft.has_failed()
            && let Some(error) = reported(name, data)
        {
            draft.fail(error);
        }
    }

    fn take_delta(&mut self, delta: &mut Delta<'_>, draft: &mut ReplyDraft) {
        for detail in delta.reasoning_details.take_elements() {
            self.take_detail(detail);
        }
        let reasoning = [
            &delta.reasoning_content,
            &delta.reasoning,
            &delta.reasoning_text,
            &delta.thinking,
        ];
        let reasoning = reasoning.iter().find(|it| !it.get().is_empty());
        draft.thinking(reasoning.map_or("", |it| it.get()));
        draft.text(delta.content.text.get());
        for part in delta.content.other.elements() {
            take_part(part, draft);
        }
        draft.text(delta.refusal.get());
        for call in delta.tool_calls.iter() {
            draft.fragment(&call.fragment());
        }
        if let Some(function) = &delta.function_call {
            draft.fragment(&function.fragment());
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

/// The reply ended for REASON; NATIVE is the word of the server behind a router. Routers have no word of their own
/// for some ends.
fn finish(reason: &str, native: &str, draft: &mut ReplyDraft) {
    match Finish::for_reason(native) {
        Some(cut @ (Finish::Length | Finish::Window)) => draft.finish_for(cut),
        _ => draft.finish_with(reason),
    }
}

/// What is wrong, where a choice says so.
fn error_of_choice(data: &str) -> Option<ProviderError> {
    let chunk: Value = serde_json::from_str(data).ok()?;
    let mut choices = chunk.get("choices")?.as_array()?.iter();
    choices.find_map(|choice| reported("", &choice.to_string()))
}

fn usage(said: &SaidCounts) -> Option<Usage> {
    let input = said.prompt.0.or(said.input.0);
    let output = said.completion.0.or(said.output.0);
    if input.is_none() && output.is_none() {
        return None;
    }
    Some(Usage {
        input_tokens: input.unwrap_or(0),
        output_tokens: output.unwrap_or(0),
        cache_read_tokens: said
            .details
            .cached
            .0
            .or(said.cache_hit.0)
            .or(said.cached.0)
            .unwrap_or(0),
        cache_write_tokens: said.details.cache_write.0.unwrap_or(0),
    })
}
