// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server that speaks OpenAI's Responses sends back. Pure; `responses` writes the request.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::form::{Anything, ListOf, SaidCount, SaidText, form, form_of, read_event};
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::failure::{FailureKind, ProviderError};
use crate::provider::report::{reported, unreadable};
use crate::provider::retry::RetryAdvice;
use crate::provider::{Finish, Usage};

form! {
    /// An event of any type, as far as it is of use. Many repeat what came before, or even the request.
    struct StreamedEvent<'a> {
        "type" => kind: SaidText<'a>,
        "delta" => delta: SaidText<'a>,
        "output_index" => output_index: SaidCount,
        "item_id" => item_id: SaidText<'a>,
        "item" => item: Option<Item<'a>>,
        "response" => response: Option<Ending<'a>>,
    }

    /// An item that begins or is complete.
    struct Item<'a> {
        "type" => kind: SaidText<'a>,
        "id" => id: SaidText<'a>,
        "call_id" => call_id: SaidText<'a>,
        "name" => name: SaidText<'a>,
        "arguments" => arguments: SaidText<'a>,
        "status" => status: SaidText<'a>,
        "encrypted_content" => encrypted_content: SaidText<'a>,
        "content" => content: ListOf<ItemText<'a>>,
        /// Texts, too, which go back as they came.
        "summary" => summary: Anything,
    }

    struct ItemText<'a> {
        "text" => text: SaidText<'a>,
        "refusal" => refusal: SaidText<'a>,
    }

    /// A response at its end, without what is in it.
    struct Ending<'a> {
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
    by_index: BTreeMap<u64, PartPlace>,
    by_id: BTreeMap<String, PartPlace>,
}

impl Items {
    fn get(&self, key: ItemKey<'_>) -> Option<PartPlace> {
        match key {
            ItemKey::Index(index) => self.by_index.get(&index).copied(),
            ItemKey::Id(id) => self.by_id.get(id).copied(),
        }
    }

    fn insert(&mut self, key: ItemKey<'_>, place: PartPlace) {
        match key {
            ItemKey::Index(index) => self.by_index.insert(index, place),
            ItemKey::Id(id) => self.by_id.insert(id.to_owned(), place),
        };
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
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) {
        let mut event = StreamedEvent::default();
        if read_event(name, data, &mut event, draft).is_none() {
            return;
        }
        let (delta, key) = (event.delta.get(), event.key(&event.item_id));
        match event.kind.some().unwrap_or(name) {
            "response.output_text.delta" => self.add(key, delta, draft, ReplyDraft::open_text),
            "response.refusal.delta" => {
                self.refuses = Refusal::Said;
                self.add(key, delta, draft, ReplyDraft::open_text);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.add(key, delta, draft, ReplyDraft::open_thinking);
            }
            "response.function_call_arguments.delta" => {
                if let Some(place) = self.items.get(key) {
                    draft.add(place, delta);
                }
            }
            "response.output_item.added" => {
                if let Some(item) = &event.item {
                    self.open(event.key(&item.id), item, draft);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = &event.item {
                    self.close(event.key(&item.id), item, draft);
                }
            }
            // Parts of a summary are paragraphs.
            "response.reasoning_summary_part.added" => {
                if let Some(place) = self.items.get(key)
                    && !draft.so_far(place).is_empty()
                {
                    draft.add(place, "\n\n");
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.done" => {
                self.end(event.response.as_ref(), || part_of(data, "response"), draft);
            }
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
                for (index, item) in (0..).zip(response["output"].as_array().into_iter().flatten())
                {
                    self.close(ItemKey::Index(index), &form_of(&item.to_string()), draft);
                }
                self.end(Some(&form_of(document)), || document.to_owned(), draft);
            }
            _ => draft.fail(reported("", document).unwrap_or_else(|| unreadable("", document))),
        }
    }

    fn open(&mut self, key: ItemKey<'_>, item: &Item<'_>, draft: &mut ReplyDraft) -> PartPlace {
        let place = match item.kind.get() {
            "function_call" => draft.open_call(item.call_id.get(), item.name.get()),
            "message" => draft.open_text(),
            // Also one of a type that we don't know.
            _ => draft.open_thinking(),
        };
        self.items.insert(key, place);
        place
    }

    fn add(
        &mut self,
        key: ItemKey<'_>,
        delta: &str,
        draft: &mut ReplyDraft,
        open: fn(&mut ReplyDraft) -> PartPlace,
    ) {
        let place = self.items.get(key).unwrap_or_else(|| {
            let place = open(draft);
            self.items.insert(key, place);
            place
        });
        draft.add(place, delta);
    }

    /// ITEM is as it is to be kept; what came of it before may have been less.
    fn close(&mut self, key: ItemKey<'_>, item: &Item<'_>, draft: &mut ReplyDraft) {
        let place = match self.items.get(key) {
            Some(place) => place,
            None => self.open(key, item, draft),
        };
        let missing = draft.so_far(place).is_empty();
        match item.kind.get() {
            "function_call" => {
                draft.name_call(place, item.call_id.get(), item.name.get());
                draft.set_arguments(place, item.arguments.get());
                if item.status.some().unwrap_or("completed") == "completed" {
                    draft.close_call(place);
                }
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
            "reasoning" => {
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

    /// The response ended, as ENDING says, all of which is the JSON that WHOLE gives.
    fn end(
        &self,
        ending: Option<&Ending<'_>>,
        whole: impl FnOnce() -> String,
        draft: &mut ReplyDraft,
    ) {
        let status = ending.and_then(|ending| ending.status.some());
        if status == Some("failed") {
            fail("error", &whole(), draft);
        }
        if let Some(said) = ending.and_then(|ending| ending.usage.as_ref()) {
            count(said, draft);
        }
        match status {
            Some("failed") => {}
            Some("incomplete") => {
                let details = ending.and_then(|ending| ending.incomplete_details.as_ref());
                draft.finish_for(match details.map(|details| details.reason.get()) {
                    Some("content_filter") => Finish::ContentFilter,
                    _ => Finish::Length,
                });
            }
            Some("cancelled") => draft.finish_for(Finish::Other("cancelled".to_owned())),
            _ => {
                if self.refuses == Refusal::Said {
                    tracing::info!("the model refused");
                }
                draft.finish_for(Finish::Stop);
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
    seal.insert("type".into(), "reasoning".into());
    if let Some(id) = item.id.some() {
        seal.insert("id".into(), id.into());
    }
    seal.insert("summary".into(), item.summary.elements().into());
    seal.insert("encrypted_content".into(), encrypted.into());
    Some(Value::Object(seal))
}

/// The server says in the JSON of DATA that it failed.
fn fail(name: &str, data: &str, draft: &mut ReplyDraft) {
    let error = reported(name, data).unwrap_or_else(|| {
        ProviderError::new(
            FailureKind::Reported,
            RetryAdvice::Backoff,
            "The server ended the reply with an error and did not say which.",
        )
    });
    draft.fail(error);
}

fn count(said: &SaidCounts, draft: &mut ReplyDraft) {
    let number = |count: SaidCount| count.0.unwrap_or(0);
    draft.count(Usage {
        input_tokens: number(said.input),
        output_tokens: number(said.output),
        cache_read_tokens: number(said.details.cached),
        cache_write_tokens: number(said.details.cache_write),
    });
}

/// The JSON under KEY in that of DATA.
fn part_of(data: &str, key: &str) -> String {
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    value[key].to_string()
}
