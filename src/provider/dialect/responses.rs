// SPDX-License-Identifier: GPL-3.0-or-later
//! OpenAI's Responses, with nothing kept on the server: the body of a request, and the decoder of what
//! comes back. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::form::{
    Anything, FormReading, ListOf, Mixed, SaidCount, SaidText, form, form_of, take_object,
};
use super::wire::{
    SentCall, SentCalls, add_cache_key, add_users_fields, described, is_plain_id, named_effort,
    sendable_arguments, system_texts, without_last_thoughts,
};
use crate::provider::body::HISTORY;
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::history::{ChatMessage, MessagePart, Messages, ModelOrigin, PartContent};
use crate::provider::refusal::{foreign, reported, unexplained_failure};
use crate::provider::{ChatRequest, Dialect, Finish, ProviderSettings, ToolChoice, Usage};

/// The fields of a request's body.
pub fn fields(settings: &ProviderSettings, request: &ChatRequest) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), settings.model.clone().into());
    let instructions = system_texts(request);
    if !instructions.is_empty() {
        body.insert("instructions".into(), instructions.join("\n\n").into());
    }
    body.insert("input".into(), HISTORY);
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(tool_json).collect();
        body.insert("tools".into(), tools.into());
        let choice = tool_choice_json(&request.tool_choice);
        body.insert("tool_choice".into(), choice);
    }
    if let Some(effort) = named_effort(settings) {
        let reasoning = json!({"effort": effort.name(), "summary": "auto"});
        body.insert("reasoning".into(), reasoning);
    }
    body.insert("store".into(), false.into());
    // Models that don't reason refuse to be asked for it.
    if settings.facts.thinking != Some(false) {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    add_cache_key(&mut body, settings, |body| {
        body.get("instructions").cloned()
    });
    body.insert("stream".into(), true.into());
    add_users_fields(&mut body, settings, request.position);
    body
}

fn tool_json(tool: &Value) -> Value {
    let (name, description, parameters) = described(tool);
    // Left out, it is taken for true, and most of our schemas are refused then.
    json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
}

fn tool_choice_json(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
    }
}

/// Hands TO each item of the input.
pub fn history(settings: &ProviderSettings, messages: &Messages, to: &mut dyn FnMut(Value)) {
    let mut sent = SentCalls::default();
    let origin = settings.origin();
    for message in messages {
        match message {
            ChatMessage::System(_) => {}
            ChatMessage::User(said) => {
                let pictures = said
                    .pictures
                    .iter()
                    .map(|it| json!({"type": "input_image", "image_url": it.url()}));
                let text = json!({"type": "input_text", "text": said.text});
                let content: Value = pictures.chain([text]).collect();
                to(json!({"type": "message", "role": "user", "content": content}));
            }
            ChatMessage::Tool { content, .. } => {
                let id = sent.of_result().id;
                to(json!({"type": "function_call_output", "call_id": id, "output": content}));
            }
            ChatMessage::Assistant { origin: who, parts } => {
                let items = assistant_items(parts, who, &origin, &mut sent);
                items.into_iter().for_each(&mut *to);
            }
        }
    }
}

/// The type of items with thinking.
const REASONING: &str = "reasoning";

fn assistant_items(
    parts: &[MessagePart],
    who: &ModelOrigin,
    origin: &ModelOrigin,
    sent: &mut SentCalls,
) -> Vec<Value> {
    let is_own = who == origin && who.dialect == Dialect::Responses;
    let mut items = Vec::new();
    for part in parts {
        match (&part.content, &part.seal) {
            (PartContent::Thinking(_) | PartContent::Sealed, Some(seal)) if is_own => {
                items.push(seal.clone());
            }
            (PartContent::Thinking(_) | PartContent::Sealed, _) => {}
            (PartContent::Text(text), _) if text.trim().is_empty() => {}
            (PartContent::Text(text), _) => items.push(
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
            ),
            (PartContent::Call(call), _) => {
                let SentCall { id, name } = sent.send(call, is_call_id);
                items.push(json!({"type": "function_call", "call_id": id, "name": name, "arguments": sendable_arguments(call)}));
            }
        }
    }
    without_last_thoughts(items, &[REASONING])
}

/// Ids of this dialect are longer than others take.
fn is_call_id(id: &str) -> bool {
    const LONGEST: usize = 64;
    is_plain_id(id) || (id.starts_with("call_") && id.len() <= LONGEST)
}

// What comes back.

form! {
    /// An event of any type, as far as it is of use. Many repeat what came before, or even the request.
    struct StreamedEvent<'a> {
        "type" => kind: SaidText<'a>,
        "delta" => delta: SaidText<'a>,
        "text" => text: SaidText<'a>,
        "refusal" => refusal: SaidText<'a>,
        "name" => name: SaidText<'a>,
        "arguments" => arguments: Mixed<'a>,
        "output_index" => output_index: SaidCount,
        "item_id" => item_id: SaidText<'a>,
        "item" => item: Option<Item<'a>>,
        "part" => part: Option<ItemText<'a>>,
        "response" => response: Option<Ending<'a>>,
    }

    /// An item that begins or is complete.
    struct Item<'a> {
        "type" => kind: SaidText<'a>,
        "id" => id: SaidText<'a>,
        "call_id" => call_id: SaidText<'a>,
        "name" => name: SaidText<'a>,
        "arguments" => arguments: Mixed<'a>,
        "encrypted_content" => encrypted_content: SaidText<'a>,
        "content" => content: ListOf<ItemText<'a>>,
        /// Texts, too, which go back as they came.
        "summary" => summary: Anything,
    }

    struct ItemText<'a> {
        "text" => text: SaidText<'a>,
        "refusal" => refusal: SaidText<'a>,
    }

    /// A response at its end.
    struct Ending<'a> {
        "output" => output: ListOf<Item<'a>>,
        "status" => status: SaidText<'a>,
        "usage" => usage: Option<SaidCounts>,
        "incomplete_details" => incomplete_details: Option<IncompleteDetails<'a>>,
    }

    struct IncompleteDetails<'a> {
        "reason" => reason: SaidText<'a>,
    }

    struct SaidCounts {
        "input_tokens" => input: SaidCount,
        "output_tokens" => output: SaidCount,
        "input_tokens_details" => details: InputDetails,
    }

    struct InputDetails {
        "cached_tokens" => cached: SaidCount,
        "cache_write_tokens" => cache_write: SaidCount,
    }
}

impl StreamedEvent<'_> {
    /// The key of the item whose id is ID, where it matters.
    fn key<'k>(&self, id: &'k SaidText<'_>) -> ItemKey<'k> {
        match self.output_index.0 {
            Some(index) => ItemKey::Index(index),
            None => ItemKey::Id(id.get()),
        }
    }
}

/// The decoder of Responses.
#[derive(Debug, Default)]
pub struct ResponsesDecoder {
    items: Items,
    refuses: Refusal,
}

/// What names an item. Some servers leave the index out, some change ids on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKey<'a> {
    Index(u64),
    Id(&'a str),
}

/// The parts that items became.
#[derive(Debug, Default)]
struct Items {
    all: Vec<ItemState>,
    by_index: BTreeMap<u64, usize>,
    by_id: BTreeMap<String, usize>,
}

/// An item that has begun.
#[derive(Debug, Clone, Copy)]
struct ItemState {
    place: PartPlace,
    kind: ItemKind,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Message,
    Call,
    /// Reasoning, and what we don't know.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Open,
    Done,
}

impl ItemKind {
    fn of(item: &Item<'_>) -> Self {
        match item.kind.get() {
            "message" => Self::Message,
            "function_call" => Self::Call,
            _ => Self::Other,
        }
    }

    fn open(self, draft: &mut ReplyDraft) -> PartPlace {
        match self {
            Self::Message => draft.open_text(),
            Self::Call => draft.open_call("", ""),
            Self::Other => draft.open_thinking(),
        }
    }
}

impl Items {
    fn get(&self, key: ItemKey<'_>) -> Option<usize> {
        match key {
            ItemKey::Index(index) => self.by_index.get(&index).copied(),
            ItemKey::Id(id) => self.by_id.get(id).copied(),
        }
    }

    /// The item at KEY, which begins with KIND unless it has begun.
    fn begun(&mut self, key: ItemKey<'_>, kind: ItemKind, draft: &mut ReplyDraft) -> usize {
        self.get(key)
            .unwrap_or_else(|| self.begin(key, kind, draft))
    }

    fn begin(&mut self, key: ItemKey<'_>, kind: ItemKind, draft: &mut ReplyDraft) -> usize {
        let number = self.all.len();
        self.all.push(ItemState {
            place: kind.open(draft),
            kind,
            progress: Progress::Open,
        });
        match key {
            ItemKey::Index(index) => self.by_index.insert(index, number),
            ItemKey::Id(id) => self.by_id.insert(id.to_owned(), number),
        };
        number
    }

    /// The item NUMBER has the id of ITEM, too.
    fn name(&mut self, number: usize, item: &Item<'_>) {
        if let Some(id) = item.id.some().filter(|id| !id.is_empty()) {
            self.by_id.insert(id.to_owned(), number);
        }
    }

    /// The item that ITEM, the one at INDEX of a whole response, is. Responses may leave items out, so its ids
    /// count more than its index.
    fn of_output(&self, index: u64, item: &Item<'_>, draft: &ReplyDraft) -> Option<usize> {
        let kind = ItemKind::of(item);
        let same = |number: &usize| self.all[*number].kind == kind;
        let call_id = |number: usize| draft.call_id_at(self.all[number].place);
        let by_id = self.get(ItemKey::Id(item.id.get())).filter(same);
        let by_call_id = || {
            let said = item.call_id.some()?;
            (0..self.all.len()).find(|number| call_id(*number) == Some(said))
        };
        let by_index = || {
            let number = self.get(ItemKey::Index(index)).filter(same)?;
            let other = item.call_id.some().zip(call_id(number)).is_some();
            (!other).then_some(number)
        };
        by_id.or_else(by_call_id).or_else(by_index)
    }
}

/// Whether the model said in so many words that it won't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Refusal {
    #[default]
    No,
    Said,
}

impl ResponsesDecoder {
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
        let (delta, key) = (event.delta.get(), event.key(&event.item_id));
        match event.kind.some().unwrap_or(name) {
            "response.output_text.delta" => self.add(key, ItemKind::Message, delta, draft),
            "response.output_text.done" => self.complete_text(key, event.text.get(), draft),
            "response.content_part.done" => {
                let text = event.part.as_ref().map_or("", |part| part.text.get());
                self.complete_text(key, text, draft);
            }
            "response.refusal.delta" => {
                self.refuses = Refusal::Said;
                self.add(key, ItemKind::Message, delta, draft);
            }
            "response.refusal.done" => {
                self.refuses = Refusal::Said;
                self.complete_text(key, event.refusal.get(), draft);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.add(key, ItemKind::Other, delta, draft);
            }
            "response.function_call_arguments.delta" => {
                self.add(key, ItemKind::Call, delta, draft);
            }
            "response.function_call_arguments.done" if !event.arguments.is_missing() => {
                let number = self.items.begun(key, ItemKind::Call, draft);
                let place = self.items.all[number].place;
                draft.name_call(place, "", event.name.get());
                complete_call(place, &event.arguments, draft);
            }
            "response.output_item.added" => {
                if let Some(item) = &event.item {
                    self.open(event.key(&item.id), item, draft);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = &event.item {
                    let number = match self.items.get(event.key(&item.id)) {
                        Some(number) => number,
                        None => self.open(event.key(&item.id), item, draft),
                    };
                    self.close(number, item, draft);
                }
            }
            // Parts of a summary are paragraphs.
            "response.reasoning_summary_part.added" => {
                if let Some(number) = self.items.get(key)
                    && !draft.is_empty_at(self.items.all[number].place)
                {
                    draft.add(self.items.all[number].place, "\n\n");
                }
            }
            "response.completed" => self.end("completed", event.response.as_ref(), data, draft),
            "response.incomplete" => self.end("incomplete", event.response.as_ref(), data, draft),
            "response.failed" => self.end("failed", event.response.as_ref(), data, draft),
            "response.cancelled" => self.end("cancelled", event.response.as_ref(), data, draft),
            "response.done" => self.end("completed", event.response.as_ref(), data, draft),
            "error" => fail(name, data, draft),
            other if other.starts_with("response.") => {}
            _ => {
                if let Some(error) = reported(name, data) {
                    draft.fail(error);
                }
            }
        }
    }

    pub fn take_document(&mut self, document: &str, draft: &mut ReplyDraft) {
        match serde_json::from_str::<Value>(document) {
            Ok(response) if response["object"] == "response" => {
                self.end("completed", Some(&form_of(document)), document, draft);
            }
            _ => draft.fail(foreign(Dialect::Responses, "", document)),
        }
    }

    fn open(&mut self, key: ItemKey<'_>, item: &Item<'_>, draft: &mut ReplyDraft) -> usize {
        let number = self.items.begin(key, ItemKind::of(item), draft);
        self.items.name(number, item);
        let place = self.items.all[number].place;
        draft.name_call(place, item.call_id.get(), item.name.get());
        number
    }

    fn add(&mut self, key: ItemKey<'_>, kind: ItemKind, delta: &str, draft: &mut ReplyDraft) {
        let number = self.items.begun(key, kind, draft);
        draft.add(self.items.all[number].place, delta);
    }

    /// TEXT is all of the text at KEY.
    fn complete_text(&mut self, key: ItemKey<'_>, text: &str, draft: &mut ReplyDraft) {
        let number = self.items.begun(key, ItemKind::Message, draft);
        let place = self.items.all[number].place;
        if draft.is_empty_at(place) {
            draft.add(place, text);
        }
    }

    /// The item NUMBER is as ITEM has it; what came of it before may have been less.
    fn close(&mut self, number: usize, item: &Item<'_>, draft: &mut ReplyDraft) {
        self.items.name(number, item);
        self.items.all[number].progress = Progress::Done;
        let place = self.items.all[number].place;
        let missing = draft.is_empty_at(place);
        match item.kind.get() {
            "function_call" => {
                draft.name_call(place, item.call_id.get(), item.name.get());
                complete_call(place, &item.arguments, draft);
            }
            "message" if missing => {
                for content in item.content.iter() {
                    if let Some(refusal) = content.refusal.some() {
                        self.refuses = Refusal::Said;
                        draft.add(place, refusal);
                    }
                    draft.add(place, content.text.get());
                }
            }
            REASONING => {
                if missing {
                    let summary = item.summary.elements().iter();
                    let texts = summary.filter_map(|element| element["text"].as_str());
                    for text in texts.chain(item.content.iter().map(|element| element.text.get())) {
                        draft.add(place, text);
                    }
                }
                if let Some(seal) = reasoning_seal(item) {
                    draft.seal(place, seal);
                }
            }
            _ => {}
        }
    }

    /// Takes from ENDING, a whole response, what did not come before it, or only in part.
    fn settle(&mut self, ending: &Ending<'_>, draft: &mut ReplyDraft) {
        let came: Vec<ItemKind> = self.items.all.iter().map(|item| item.kind).collect();
        for (index, item) in (0..).zip(ending.output.iter()) {
            let kind = ItemKind::of(item);
            match self.items.of_output(index, item, draft) {
                Some(number) if self.items.all[number].progress == Progress::Open => {
                    self.close(number, item, draft);
                }
                Some(_) => {}
                // Under other ids, it is most likely what came.
                None if kind != ItemKind::Call && came.contains(&kind) => {}
                None => {
                    let number = self.open(ItemKey::Index(index), item, draft);
                    self.close(number, item, draft);
                }
            }
        }
    }

    /// The response ended, as ENDING in DATA says. It is STATUS where that says nothing.
    fn end(
        &mut self,
        status: &str,
        ending: Option<&Ending<'_>>,
        data: &str,
        draft: &mut ReplyDraft,
    ) {
        if let Some(said) = ending.and_then(|ending| ending.usage.as_ref()) {
            count(said, draft);
        }
        let said = ending.and_then(|ending| ending.status.some());
        // Gateways copy the status that a response begins with.
        let begun = |status: &&str| matches!(*status, "" | "in_progress" | "queued");
        match said.filter(|status| !begun(status)).unwrap_or(status) {
            "failed" => {
                match reported("", &response_in(data)) {
                    Some(error) => draft.fail(error),
                    None => draft.fail_unexplained(unexplained_failure()),
                }
                return;
            }
            "incomplete" => {
                let details = ending.and_then(|ending| ending.incomplete_details.as_ref());
                let reason = details.map_or("", |details| details.reason.get());
                draft.finish_for(Finish::for_reason(reason).unwrap_or(Finish::Length));
            }
            status => {
                if let Some(ending) = ending {
                    self.settle(ending, draft);
                }
                if self.refuses == Refusal::Said {
                    tracing::info!("the model refused");
                }
                draft.finish_with(status);
            }
        }
        draft.end();
    }
}

/// What goes back of a reasoning item; none when the server kept no secret in it, as it would look
/// for what it never stored.
fn reasoning_seal(item: &Item<'_>) -> Option<Value> {
    let encrypted = item
        .encrypted_content
        .some()
        .filter(|text| !text.is_empty())?;
    let mut seal = Map::new();
    seal.insert("type".into(), REASONING.into());
    if let Some(id) = item.id.some() {
        seal.insert("id".into(), id.into());
    }
    seal.insert("summary".into(), item.summary.elements().into());
    seal.insert("encrypted_content".into(), encrypted.into());
    Some(Value::Object(seal))
}

/// The call at PLACE is complete, with ARGUMENTS unless there are none; what came of them before may have been less.
fn complete_call(place: PartPlace, arguments: &Mixed<'_>, draft: &mut ReplyDraft) {
    let arguments = arguments.text_or_json();
    if !arguments.is_empty() {
        draft.set_arguments(place, &arguments);
    }
    draft.close_call(place);
}

/// The server says in the JSON of DATA that it failed.
fn fail(name: &str, data: &str, draft: &mut ReplyDraft) {
    draft.fail(reported(name, data).unwrap_or_else(unexplained_failure));
}

fn count(said: &SaidCounts, draft: &mut ReplyDraft) {
    draft.count(Usage {
        input_tokens: said.input.or_zero(),
        output_tokens: said.output.or_zero(),
        cache_read_tokens: said.details.cached.or_zero(),
        cache_write_tokens: said.details.cache_write.or_zero(),
    });
}

/// The JSON of the response in DATA, which may be DATA itself.
fn response_in(data: &str) -> String {
    let mut value: Value = serde_json::from_str(data).unwrap_or_default();
    match value.get_mut("response") {
        Some(response) => response.take().to_string(),
        None => value.to_string(),
    }
}
