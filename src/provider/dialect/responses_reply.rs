// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server that speaks OpenAI's Responses sends back. Pure; `responses` writes the request.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::quick::{DeltaText, kind_at_start, or_empty};
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::failure::{FailureKind, ProviderError};
use crate::provider::report::{reported, unreadable};
use crate::provider::retry::RetryAdvice;
use crate::provider::{Finish, Usage};

const ADDED: &str = "response.output_item.added";
const DONE: &str = "response.output_item.done";
const SUMMARY_PART: &str = "response.reasoning_summary_part.added";

/// The events after which nothing more comes.
const ENDS: [&str; 4] = [
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.done",
];

/// An event, as far as those with more of an item go.
#[derive(Deserialize)]
struct QuickEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<DeltaText<'a>>,
    #[serde(borrow)]
    delta: DeltaText<'a>,
    output_index: Option<u64>,
    #[serde(borrow)]
    item_id: Option<DeltaText<'a>>,
}

/// The event at the end, without what came before it and is in it again.
#[derive(Deserialize)]
struct QuickEnd<'a> {
    #[serde(borrow)]
    response: QuickResponse<'a>,
}

#[derive(Deserialize)]
struct QuickResponse<'a> {
    #[serde(borrow)]
    status: DeltaText<'a>,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    incomplete_details: Value,
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
        if data == "[DONE]" {
            return;
        }
        let kind = kind_at_start(data);
        if kind.is_none_or(|kind| kind.ends_with(".delta"))
            && let Ok(event) = serde_json::from_str::<QuickEvent<'_>>(data)
            && self.take_delta(name, &event, draft)
        {
            return;
        }
        if kind.is_some_and(|kind| self.take_quickly(kind, data, draft)) {
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else {
            draft.fail(unreadable(name, data));
            return;
        };
        match event["type"].as_str().unwrap_or(name) {
            ADDED => {
                self.open(key(&event, &event["item"]["id"]), &event["item"], draft);
            }
            DONE => {
                self.close(key(&event, &event["item"]["id"]), &event["item"], draft);
            }
            SUMMARY_PART => self.part_thinking(&event, draft),
            kind if ENDS.contains(&kind) => self.end(&event["response"], draft),
            "error" => fail(name, &event, draft),
            other if other.starts_with("response.") => {}
            _ => {
                if let Some(error) = reported(name, data) {
                    draft.fail(error);
                }
            }
        }
    }

    /// Takes an event of KIND without reading all of it, where that will do. Says whether it did.
    fn take_quickly(&self, kind: &str, data: &str, draft: &mut ReplyDraft) -> bool {
        if ENDS.contains(&kind) {
            let end = serde_json::from_str::<QuickEnd<'_>>(data).map(|end| end.response);
            return match end {
                Ok(end) if matches!(end.status.as_str(), "completed" | "incomplete") => {
                    let reason = &end.incomplete_details["reason"];
                    self.end_as(Some(end.status.as_str()), &end.usage, reason, draft);
                    true
                }
                Ok(_) | Err(_) => false,
            };
        }
        // Some repeat the whole request.
        let is_news = [ADDED, DONE, SUMMARY_PART].contains(&kind);
        kind.starts_with("response.")
            && !is_news
            && serde_json::from_str::<IgnoredAny>(data).is_ok()
    }

    /// Takes EVENT, which NAME may name, if it is more of an item. Says whether it was.
    fn take_delta(&mut self, name: &str, event: &QuickEvent<'_>, draft: &mut ReplyDraft) -> bool {
        let delta = event.delta.as_str();
        let key = match event.output_index {
            Some(index) => ItemKey::Index(index),
            None => ItemKey::Id(or_empty(&event.item_id)),
        };
        match event.kind.as_ref().map_or(name, DeltaText::as_str) {
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
            _ => return false,
        }
        true
    }

    pub fn take_document(&mut self, document: &str, draft: &mut ReplyDraft) {
        match serde_json::from_str::<Value>(document) {
            Ok(response) if response["object"] == "response" => {
                for (index, item) in (0..).zip(response["output"].as_array().into_iter().flatten())
                {
                    self.close(ItemKey::Index(index), item, draft);
                }
                self.end(&response, draft);
            }
            _ => draft.fail(reported("", document).unwrap_or_else(|| unreadable("", document))),
        }
    }

    fn open(&mut self, key: ItemKey<'_>, item: &Value, draft: &mut ReplyDraft) -> PartPlace {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        let place = match text("type") {
            "function_call" => draft.open_call(text("call_id"), text("name")),
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

    /// Parts of a summary are paragraphs.
    fn part_thinking(&mut self, event: &Value, draft: &mut ReplyDraft) {
        if let Some(place) = self.items.get(key(event, &event["item_id"]))
            && !draft.so_far(place).is_empty()
        {
            draft.add(place, "\n\n");
        }
    }

    /// ITEM is as it is to be kept; what came of it before may have been less.
    fn close(&mut self, key: ItemKey<'_>, item: &Value, draft: &mut ReplyDraft) {
        let place = match self.items.get(key) {
            Some(place) => place,
            None => self.open(key, item, draft),
        };
        let missing = draft.so_far(place).is_empty();
        match item["type"].as_str() {
            Some("function_call") => {
                let text = |name: &str| item[name].as_str().unwrap_or_default();
                draft.name_call(place, text("call_id"), text("name"));
                draft.set_arguments(place, text("arguments"));
                if item["status"].as_str().unwrap_or("completed") == "completed" {
                    draft.close_call(place);
                }
            }
            Some("message") if missing => {
                for content in item["content"].as_array().into_iter().flatten() {
                    if let Some(refusal) = content["refusal"].as_str() {
                        self.refuses = Refusal::Said;
                        draft.add(place, refusal);
                    }
                    draft.add(place, content["text"].as_str().unwrap_or_default());
                }
            }
            Some("reasoning") => {
                let both = [&item["summary"], &item["content"]];
                let texts = both.iter().flat_map(|list| list.as_array()).flatten();
                for text in texts.filter(|_| missing) {
                    draft.add(place, text["text"].as_str().unwrap_or_default());
                }
                if let Some(seal) = reasoning_seal(item) {
                    draft.seal(place, seal);
                }
            }
            _ => {}
        }
    }

    fn end(&self, response: &Value, draft: &mut ReplyDraft) {
        let reason = &response["incomplete_details"]["reason"];
        let status = response["status"].as_str();
        if status == Some("failed") {
            fail("error", response, draft);
        }
        self.end_as(status, &response["usage"], reason, draft);
    }

    /// The response ended as STATUS says, and for REASON if it is incomplete.
    fn end_as(&self, status: Option<&str>, usage: &Value, reason: &Value, draft: &mut ReplyDraft) {
        count(usage, draft);
        match status {
            Some("failed") => {}
            Some("incomplete") => draft.finish_for(match reason.as_str() {
                Some("content_filter") => Finish::ContentFilter,
                _ => Finish::Length,
            }),
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

fn key<'a>(event: &Value, id: &'a Value) -> ItemKey<'a> {
    match event["output_index"].as_u64() {
        Some(index) => ItemKey::Index(index),
        None => ItemKey::Id(id.as_str().unwrap_or_default()),
    }
}

/// What goes back of a reasoning item; none when the server kept no secret in it, as it would look
/// for what it never stored.
fn reasoning_seal(item: &Value) -> Option<Value> {
    let encrypted = item["encrypted_content"]
        .as_str()
        .filter(|text| !text.is_empty())?;
    let mut seal = Map::new();
    seal.insert("type".into(), "reasoning".into());
    if let Some(id) = item["id"].as_str() {
        seal.insert("id".into(), id.into());
    }
    let summary = item["summary"].as_array().cloned().unwrap_or_default();
    seal.insert("summary".into(), summary.into());
    seal.insert("encrypted_content".into(), encrypted.into());
    Some(Value::Object(seal))
}

fn fail(name: &str, event: &Value, draft: &mut ReplyDraft) {
    let error = reported(name, &event.to_string()).unwrap_or_else(|| {
        ProviderError::new(
            FailureKind::Reported,
            RetryAdvice::Backoff,
            "The server ended the reply with an error and did not say which.",
        )
    });
    draft.fail(error);
}

fn count(usage: &Value, draft: &mut ReplyDraft) {
    if !usage.is_object() {
        return;
    }
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    draft.count(Usage {
        input_tokens: number("/input_tokens"),
        output_tokens: number("/output_tokens"),
        cache_read_tokens: number("/input_tokens_details/cached_tokens"),
        cache_write_tokens: number("/input_tokens_details/cache_write_tokens"),
    });
}
