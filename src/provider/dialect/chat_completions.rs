// SPDX-License-Identifier: GPL-3.0-or-later
//! OpenAI-compatible Chat Completions: the body of a request, and the decoder of what comes back. Pure.

use serde_json::{Map, Value, json};

use super::form::{
    Anything, FormReading, ListOf, Mention, Mixed, SaidCount, SaidText, form, take_object,
};
use super::wire::{
    SentCall, SentCalls, TakesId, add_cache_key, add_users_fields, is_plain_id, is_short_id,
    is_some_id, named_effort, sendable_arguments,
};
use crate::protocol::ToolCall;
use crate::provider::accumulator::{CallFragment, size_of};
use crate::provider::body::HISTORY;
use crate::provider::draft::ReplyDraft;
use crate::provider::history::{
    ChatMessage, MessagePart, Messages, ModelOrigin, PartContent, Said, calls_of, host_of,
    is_below, text_of, thinking_of,
};
use crate::provider::model_facts::{is_one_of, takes_short_ids};
use crate::provider::refusal::{foreign, looks_like, reported, unexplained_failure};
use crate::provider::{
    ChatRequest, Dialect, Finish, ProviderError, ProviderSettings, ToolChoice, Usage,
};

/// Hosts that refuse a request with `reasoning_content` in it. Everybody else ignores the field or
/// wants it back beside the calls that the reasoning led to.
const REFUSES_REASONING: &[&str] = &[
    "api.openai.com",
    "api.groq.com",
    "api.mistral.ai",
    "api.cerebras.ai",
    "openai.azure.com",
    "githubcopilot.com",
    "googleapis.com",
];

/// Hosts that refuse a request *without* it, even where there was no reasoning, and what they take then.
const REQUIRES_REASONING: &[(&str, &str)] = &[
    ("deepseek.com", ""),
    ("moonshot.ai", BLANK_REASONING),
    ("moonshot.cn", BLANK_REASONING),
    ("kimi.com", BLANK_REASONING),
];

/// The same of models, wherever they are.
const MODELS_REQUIRING_REASONING: &[&str] = &["kimi"];

/// Empty reasoning counts as none for some.
const BLANK_REASONING: &str = " ";

/// What a message with tool calls says about the reasoning before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasoningPolicy {
    Never,
    WhenPresent,
    /// With what goes in its place.
    Always(&'static str),
}

impl ReasoningPolicy {
    fn of(settings: &ProviderSettings) -> Self {
        let host = host_of(&settings.base_url);
        let required = REQUIRES_REASONING
            .iter()
            .find(|(domain, _)| is_below(&host, domain));
        if REFUSES_REASONING.iter().any(|it| is_below(&host, it)) {
            Self::Never
        } else if let Some((_, stand_in)) = required {
            Self::Always(stand_in)
        } else if is_one_of(&settings.model, MODELS_REQUIRING_REASONING) {
            Self::Always(BLANK_REASONING)
        } else {
            Self::WhenPresent
        }
    }
}

/// What is special about a host.
struct ChatHost {
    reasoning: ReasoningPolicy,
    ids: HostIds,
    origin: ModelOrigin,
}

/// What ids of calls a host takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostIds {
    Plain,
    Short,
}

impl ChatHost {
    fn of(settings: &ProviderSettings) -> Self {
        Self {
            reasoning: ReasoningPolicy::of(settings),
            ids: if takes_short_ids(settings) {
                HostIds::Short
            } else {
                HostIds::Plain
            },
            origin: settings.origin(),
        }
    }

    /// Whether a message by ORIGIN came from there, by way of this dialect.
    fn made(&self, origin: &ModelOrigin) -> bool {
        origin.host == self.origin.host && origin.dialect == self.origin.dialect
    }

    /// Which ids go there in a message by ORIGIN. What a host made up itself it takes.
    fn takes(&self, origin: &ModelOrigin) -> TakesId {
        match self.ids {
            HostIds::Short => is_short_id,
            HostIds::Plain if self.made(origin) => is_some_id,
            HostIds::Plain => is_plain_id,
        }
    }
}

/// The fields of a request's body.
pub fn fields(settings: &ProviderSettings, request: &ChatRequest) -> Map<String, Value> {
    let host = ChatHost::of(settings);
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    body.insert("messages".into(), HISTORY);
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.clone().into());
        let choice = tool_choice_json(&request.tool_choice, &host);
        body.insert("tool_choice".into(), choice);
    }
    if let Some(effort) = named_effort(settings) {
        body.insert("reasoning_effort".into(), effort.name().into());
    }
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    add_cache_key(&mut body, settings, |_| {
        let first = request.messages.iter().next()?;
        Some(message_json(first, &host, &mut SentCalls::default()))
    });
    add_users_fields(&mut body, settings, request.position);
    body
}

/// Hands TO each message.
pub fn history(settings: &ProviderSettings, messages: &Messages, to: &mut dyn FnMut(Value)) {
    let host = ChatHost::of(settings);
    let mut sent = SentCalls::default();
    for message in messages {
        to(message_json(message, &host, &mut sent));
    }
}

fn tool_choice_json(choice: &ToolChoice, host: &ChatHost) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::Required if is_below(&host.origin.host, "mistral.ai") => "any".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

fn message_json(message: &ChatMessage, host: &ChatHost, sent: &mut SentCalls) -> Value {
    match message {
        ChatMessage::System(text) => json!({"role": "system", "content": text}),
        ChatMessage::User(said) => json!({"role": "user", "content": said_json(said)}),
        ChatMessage::Tool { content, .. } => {
            let id = sent.of_result().id;
            json!({"role": "tool", "tool_call_id": id, "content": content})
        }
        ChatMessage::Assistant { origin, parts } => assistant_json(origin, parts, host, sent),
    }
}

/// SAID: a text, as all servers take it, unless there are pictures.
fn said_json(said: &Said) -> Value {
    if said.pictures.is_empty() {
        return said.text.clone().into();
    }
    let pictures = said
        .pictures
        .iter()
        .map(|it| json!({"type": "image_url", "image_url": {"url": it.url()}}));
    let text = json!({"type": "text", "text": said.text});
    pictures.chain([text]).collect()
}

fn assistant_json(
    origin: &ModelOrigin,
    parts: &[MessagePart],
    host: &ChatHost,
    sent: &mut SentCalls,
) -> Value {
    let text = text_of(parts);
    let calls: Vec<Value> = calls_of(parts)
        .map(|call| call_json(call, host.takes(origin), sent))
        .collect();
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let content = match (text.is_empty(), calls.is_empty()) {
        (true, false) => Value::Null,
        _ => text.into(),
    };
    message.insert("content".into(), content);
    let is_own = *origin == host.origin;
    let details = parts.iter().find(|part| {
        is_own && part.content == PartContent::Sealed && origin.dialect == Dialect::ChatCompletions
    });
    if let Some(details) = details.and_then(|part| part.seal.clone()) {
        message.insert("reasoning_details".into(), details);
    } else if !calls.is_empty() {
        let reasoning = match is_own {
            true => thinking_of(parts),
            false => String::new(),
        };
        let goes_back = match host.reasoning {
            ReasoningPolicy::WhenPresent if !reasoning.is_empty() => Some(reasoning),
            ReasoningPolicy::Always(stand_in) if reasoning.is_empty() => Some(stand_in.to_owned()),
            ReasoningPolicy::Always(_) => Some(reasoning),
            ReasoningPolicy::Never | ReasoningPolicy::WhenPresent => None,
        };
        if let Some(reasoning) = goes_back {
            message.insert("reasoning_content".into(), reasoning.into());
        }
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    Value::Object(message)
}

fn call_json(call: &ToolCall, takes: TakesId, sent: &mut SentCalls) -> Value {
    let SentCall { id, name } = sent.send(call, takes);
    json!({
        "id": id,
        "type": "function",
        "function": {"name": name, "arguments": sendable_arguments(call)},
    })
}

// What comes back.

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

    pub(super) struct Call<'a> {
        "id" => id: SaidText<'a>,
        "index" => index: SaidCount,
        "function" => function: Option<Function<'a>>,
        // Some servers leave the `function` level out.
        "name" => name: SaidText<'a>,
        "arguments" => arguments: Mixed<'a>,
    }

    pub(super) struct Function<'a> {
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

impl Call<'_> {
    pub(super) fn fragment(&self) -> CallFragment<'_> {
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

impl Function<'_> {
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
        cache_write_tokens: said.details.cache_write.or_zero(),
    })
}
