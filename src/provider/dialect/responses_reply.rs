// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server that speaks OpenAI's Responses sends back. Pure; `responses` writes the request.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::quick::{Loose, read_event, read_part};
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::failure::{FailureKind, ProviderError};
use crate::provider::report::{reported, unreadable};
use crate::provider::retry::RetryAdvice;
use crate::provider::{Finish, Usage};

/// An event of any type, as far as it is of use. Many repeat what came before, or even the request.
#[derive(Deserialize)]
struct StreamedEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
    #[serde(borrow, default)]
    delta: Loose<'a>,
    #[serde(borrow, default)]
    output_index: Loose<'a>,
    #[serde(borrow, default)]
    item_id: Loose<'a>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

impl StreamedEvent<'_> {
    /// The key of the item whose id is ID, where it matters.
    fn key<'k>(&self, id: &'k Loose<'_>) -> ItemKey<'k> {
        match self.output_index.count() {
            Some(index) => ItemKey::Index(index),
            None => ItemKey::Id(id.text()),
        }
    }
}

/// An item that begins or is complete.
#[derive(Default, Deserialize)]
struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Loose<'a>,
    #[serde(borrow, default)]
    id: Loose<'a>,
    #[serde(borrow, default)]
    call_id: Loose<'a>,
    #[serde(borrow, default)]
    name: Loose<'a>,
    #[serde(borrow, default)]
    arguments: Loose<'a>,
    #[serde(borrow, default)]
    status: Loose<'a>,
    #[serde(borrow, default)]
    encrypted_content: Loose<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
}

/// An element of an item's content or summary.
#[derive(Deserialize)]
struct ItemText<'a> {
    #[serde(borrow, default)]
    text: Loose<'a>,
    #[serde(borrow, default)]
    refusal: Loose<'a>,
}

/// A response at its end, without what is in it.
#[derive(Default, Deserialize)]
struct Ending<'a> {
    #[serde(borrow, default)]
    status: Loose<'a>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    incomplete_details: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct IncompleteDetails<'a> {
    #[serde(borrow, default)]
    reason: Loose<'a>,
}

#[derive(Default, Deserialize)]
struct SaidCounts<'a> {
    #[serde(borrow, default)]
    input_tokens: Loose<'a>,
    #[serde(borrow, default)]
    output_tokens: Loose<'a>,
    #[serde(borrow)]
    input_tokens_details: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct InputDetails<'a> {
    #[serde(borrow, default)]
    cached_tokens: Loose<'a>,
    #[serde(borrow, default)]
    cache_write_tokens: Loose<'a>,
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
        let Some(event) = read_event::<StreamedEvent<'_>>(name, data, draft) else {
            return;
        };
        let (delta, key) = (event.delta.text(), event.key(&event.item_id));
        match event.kind.some_text().unwrap_or(name) {
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
                let item: Item<'_> = read_part(event.item);
                self.open(event.key(&item.id), &item, draft);
            }
            "response.output_item.done" => {
                let item: Item<'_> = read_part(event.item);
                self.close(event.key(&item.id), &item, draft);
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
                self.end(event.response.map_or("{}", RawValue::get), draft);
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
                    let item = item.to_string();
                    let item = serde_json::from_str(&item).unwrap_or_default();
                    self.close(ItemKey::Index(index), &item, draft);
                }
                self.end(document, draft);
            }
            _ => draft.fail(reported("", document).unwrap_or_else(|| unreadable("", document))),
        }
    }

    fn open(&mut self, key: ItemKey<'_>, item: &Item<'_>, draft: &mut ReplyDraft) -> PartPlace {
        let place = match item.kind.text() {
            "function_call" => draft.open_call(item.call_id.text(), item.name.text()),
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
        match item.kind.text() {
            "function_call" => {
                draft.name_call(place, item.call_id.text(), item.name.text());
                draft.set_arguments(place, item.arguments.text());
                if item.status.some_text().unwrap_or("completed") == "completed" {
                    draft.close_call(place);
                }
            }
            "message" if missing => {
                let content: Vec<ItemText<'_>> = read_part(item.content);
                for content in content {
                    if let Some(refusal) = content.refusal.some_text() {
                        self.refuses = Refusal::Said;
                        draft.add(place, refusal);
                    }
                    draft.add(place, content.text.text());
                }
            }
            "reasoning" => {
                for texts in [item.summary, item.content] {
                    let texts: Vec<ItemText<'_>> = read_part(texts.filter(|_| missing));
                    for text in texts {
                        draft.add(place, text.text.text());
                    }
                }
                if let Some(seal) = reasoning_seal(item) {
                    draft.seal(place, seal);
                }
            }
            _ => {}
        }
    }

    /// The response ended, as the JSON in RESPONSE.
    fn end(&self, response: &str, draft: &mut ReplyDraft) {
        let ending: Ending<'_> = serde_json::from_str(response).unwrap_or_default();
        let status = ending.status.some_text();
        if status == Some("failed") {
            fail("error", response, draft);
        }
        count(ending.usage, draft);
        match status {
            Some("failed") => {}
            Some("incomplete") => {
                let details: IncompleteDetails<'_> = read_part(ending.incomplete_details);
                draft.finish_for(match details.reason.text() {
                    "content_filter" => Finish::ContentFilter,
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
        .some_text()
        .filter(|text| !text.is_empty())?;
    let mut seal = Map::new();
    seal.insert("type".into(), "reasoning".into());
    if let Some(id) = item.id.some_text() {
        seal.insert("id".into(), id.into());
    }
    let summary: Vec<Value> = read_part(item.summary);
    seal.insert("summary".into(), summary.into());
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

fn count(usage: Option<&RawValue>, draft: &mut ReplyDraft) {
    if usage.is_none() {
        return;
    }
    let said: SaidCounts<'_> = read_part(usage);
    let details: InputDetails<'_> = read_part(said.input_tokens_details);
    let number = |count: &Loose<'_>| count.count().unwrap_or(0);
    draft.count(Usage {
        input_tokens: number(&said.input_tokens),
        output_tokens: number(&said.output_tokens),
        cache_read_tokens: number(&details.cached_tokens),
        cache_write_tokens: number(&details.cache_write_tokens),
    });
}
