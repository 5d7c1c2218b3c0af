// SPDX-License-Identifier: GPL-3.0-or-later
//! How many tokens a request will have, and what fills a model's window, by category. Only the model's
//! host can count tokens; what it counted for earlier requests gives a ratio, by which the next one is
//! estimated.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::conversation::{Entry, EntryContent, Live};
use crate::protocol::Picture;
use crate::provider::{ChatMessage, ChatRequest, MessagePart, ModelOrigin, PartContent, Said};
use crate::runtime::held;

/// Bytes per token of a model that nothing is known of. Code has fewer than prose.
const USUAL_RATIO: f64 = 3.3;

/// Bytes per token of prose in which every word is common.
const LARGEST_USUAL_RATIO: f64 = 5.0;

/// What a ratio can be; a host that reports another one doesn't count what it was sent.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 1.0..=8.0;

/// Roles, marks and names, which take about as much as this of each message, in bytes.
const FRAME: usize = 16;

/// How many bytes each model has to a token.
#[derive(Debug, Default)]
pub struct TokenRatios(Mutex<HashMap<ModelOrigin, f64>>);

impl TokenRatios {
    /// Takes in that MODEL's host counted TOKENS in a request of so many BYTES.
    pub fn learn(&self, model: ModelOrigin, bytes: usize, tokens: u64) {
        let ratio = bytes as f64 / tokens.max(1) as f64;
        if PLAUSIBLE.contains(&ratio) {
            held(&self.0).insert(model, ratio);
        }
    }

    /// About how many tokens BYTES are for MODEL.
    #[must_use]
    pub fn estimate(&self, model: &ModelOrigin, bytes: usize) -> u64 {
        (bytes as f64 / self.ratio(model)).ceil() as u64
    }

    /// How many tokens BYTES are for MODEL at least.
    #[must_use]
    pub fn at_least(&self, model: &ModelOrigin, bytes: usize) -> u64 {
        let known = held(&self.0).get(model).copied();
        (bytes as f64 / known.unwrap_or(LARGEST_USUAL_RATIO)) as u64
    }

    /// About how many bytes TOKENS are for MODEL.
    #[must_use]
    pub fn bytes(&self, model: &ModelOrigin, tokens: u64) -> usize {
        (tokens as f64 * self.ratio(model)) as usize
    }

    fn ratio(&self, model: &ModelOrigin) -> f64 {
        held(&self.0).get(model).copied().unwrap_or(USUAL_RATIO)
    }
}

/// The bytes of REQUEST that a model reads.
#[must_use]
pub fn request_bytes(request: &ChatRequest) -> usize {
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.to_string().len())
        .sum();
    let messages: usize = request.messages.iter().map(message_bytes).sum();
    tools + messages
}

/// The bytes of MESSAGE that a model reads.
#[must_use]
pub fn message_bytes(message: &ChatMessage) -> usize {
    FRAME
        + match message {
            ChatMessage::System(text) => text.len(),
            ChatMessage::User(said) => said.text.len() + pictures_bytes(said),
            ChatMessage::Tool { content, .. } => content.len(),
            ChatMessage::Assistant { parts, .. } => parts.iter().map(part_bytes).sum(),
        }
}

/// The bytes of text that the pictures of SAID are as long as for a model, about.
fn pictures_bytes(said: &Said) -> usize {
    let tokens: usize = said.pictures.iter().map(Picture::tokens).sum();
    (tokens as f64 * USUAL_RATIO) as usize
}

/// The bytes of PART that a model reads. Whether thinking goes back depends on the model; it counts.
#[must_use]
fn part_bytes(part: &MessagePart) -> usize {
    match &part.content {
        PartContent::Text(text) | PartContent::Thinking(text) => text.len(),
        PartContent::Call(call) => call.name.len() + call.raw_arguments.len() + FRAME,
        PartContent::Sealed => 0,
    }
}

// What fills a model's window, by category, for the user to look at. Pure.

/// How many of the largest messages are named.
const LARGEST: usize = 5;

/// What a share of the window is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Category {
    System,
    Tools,
    Summary,
    Users,
    Answers,
    Thinking,
    Calls,
    Results,
}

const CATEGORIES: [(Category, &str); 8] = [
    (Category::System, "System prompt"),
    (Category::Tools, "Tools"),
    (Category::Summary, "Summary"),
    (Category::Users, "Your messages"),
    (Category::Answers, "Answers"),
    (Category::Thinking, "Thinking"),
    (Category::Calls, "Tool calls"),
    (Category::Results, "Tool results"),
];

/// What is in REQUEST, which was made of LIVE: a JSON object with `rows` of name, count and tokens, the
/// `largest` messages with their beginnings, and the sum of `tokens`, as TOKENS says of bytes.
#[must_use]
pub fn window_report(
    request: &ChatRequest,
    live: &Live<'_>,
    tokens: impl Fn(usize) -> u64,
) -> Value {
    let mut parts: Vec<(Category, usize)> = Vec::new();
    for tool in &request.tools {
        parts.push((Category::Tools, tool.to_string().len()));
    }
    let mut summary = live.summary().map(str::len);
    for message in &request.messages {
        match message {
            ChatMessage::System(_) => parts.push((Category::System, message_bytes(message))),
            ChatMessage::User(_) => {
                // It stands in front of the first message.
                let front = summary.take().unwrap_or(0).min(message_bytes(message));
                if front > 0 {
                    parts.push((Category::Summary, front));
                }
                if live.summary().map(str::len) != Some(front)
                    || message_bytes(message) > front + 16
                {
                    parts.push((Category::Users, message_bytes(message) - front));
                }
            }
            ChatMessage::Tool { .. } => parts.push((Category::Results, message_bytes(message))),
            ChatMessage::Assistant { parts: said, .. } => {
                parts.extend(said.iter().filter_map(|part| {
                    let category = match part.content {
                        PartContent::Text(_) => Category::Answers,
                        PartContent::Thinking(_) => Category::Thinking,
                        PartContent::Call(_) => Category::Calls,
                        PartContent::Sealed => return None,
                    };
                    Some((category, part_bytes(part)))
                }));
            }
        }
    }
    let rows: Vec<Value> = CATEGORIES
        .iter()
        .filter_map(|(category, name)| {
            let sizes = parts.iter().filter(|(it, _)| it == category);
            let (count, bytes) =
                sizes.fold((0, 0), |(count, all), (_, bytes)| (count + 1, all + bytes));
            (count > 0).then(|| json!({"name": name, "count": count, "tokens": tokens(bytes)}))
        })
        .collect();
    let all: usize = parts.iter().map(|(_, bytes)| bytes).sum();
    json!({"rows": rows, "largest": largest(live, &tokens), "tokens": tokens(all)})
}

fn largest(live: &Live<'_>, tokens: &impl Fn(usize) -> u64) -> Vec<Value> {
    let mut read: Vec<(&Entry, usize)> = live
        .read()
        .iter()
        .filter(|entry| !live.trimmed.contains_key(&entry.id))
        .filter_map(|entry| Some((*entry, message_bytes(entry.message()?))))
        .collect();
    read.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let named = read.into_iter().take(LARGEST);
    named
        .filter_map(|(entry, bytes)| {
            let (what, text) = match (&entry.what, entry.message()?.as_ref()) {
                (EntryContent::Asked { shown, .. }, ChatMessage::User(said)) => {
                    ("your message", shown.as_deref().unwrap_or(&said.text).into())
                }
                (_, ChatMessage::Tool { content, .. }) => ("result", unfenced(content)),
                (_, ChatMessage::Assistant { .. }) => ("answer", "".into()),
                _ => return None,
            };
            let beginning: String = text.chars().take(60).collect();
            Some(json!({"what": what, "turn": entry.turn.0, "tokens": tokens(bytes), "text": beginning}))
        })
        .collect()
}

/// What of CONTENT stands behind the mark of a fence: where it comes from, and its text.
fn unfenced(content: &str) -> Cow<'_, str> {
    match content.split_once(" from=\"") {
        Some((mark, rest)) if mark.starts_with("<data-") => rest.replacen("\">\n", ": ", 1).into(),
        _ => content.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::conversation::{Conversation, EntryId};
    use super::*;
    use crate::protocol::CallOutcome;
    use crate::provider::{RequestPosition, ToolChoice, WrittenCalls};

    #[test]
    fn the_ratio_of_a_model_is_learnt() {
        let (ratios, model) = (TokenRatios::default(), ModelOrigin::default());
        assert_eq!(ratios.estimate(&model, 3300), 1000);
        assert_eq!(ratios.at_least(&model, 5000), 1000);
        ratios.learn(model.clone(), 4000, 1000);
        assert_eq!(ratios.estimate(&model, 8000), 2000);
        assert_eq!(ratios.at_least(&model, 8000), 2000);
        assert_eq!(ratios.bytes(&model, 2000), 8000);
        // Who counts 3 tokens in 4,000 bytes left out what was in a cache.
        ratios.learn(model.clone(), 4000, 3);
        assert_eq!(ratios.estimate(&model, 8000), 2000);
    }

    #[test]
    fn a_picture_counts_by_what_is_seen_of_it() {
        let counted = |(width, height)| {
            let picture = Picture {
                format: crate::protocol::picture::PictureFormat::Png,
                width,
                height,
                data: "a".repeat(1_000_000),
            };
            let bytes = pictures_bytes(&Said {
                text: String::new(),
                pictures: vec![picture],
            });
            TokenRatios::default().estimate(&ModelOrigin::default(), bytes)
        };
        assert_eq!(
            [(16, 16), (640, 480), (4000, 3000)].map(counted),
            [85, 409, 1600]
        );
    }

    #[test]
    fn each_part_of_a_request_has_its_row() {
        let mut it = Conversation::default();
        it.ask("x".repeat(100), "x");
        it.append(EntryContent::Compaction {
            summary: "s".repeat(50),
            through: EntryId(1),
        });
        it.ask("y".repeat(84), "y");
        it.add(ChatMessage::Tool {
            call_id: "c".to_owned(),
            content: "z".repeat(184),
            outcome: CallOutcome::Succeeded,
        });
        let request = ChatRequest {
            messages: it.for_model().after(ChatMessage::System("p".repeat(84))),
            tools: vec![json!("t")],
            tool_choice: ToolChoice::Auto,
            position: RequestPosition::First,
            written: WrittenCalls::Meant,
        };
        let report = window_report(&request, &it.live(), |bytes| bytes as u64);
        assert_eq!(
            report["rows"],
            json!([
                {"name": "System prompt", "count": 1, "tokens": 100},
                {"name": "Tools", "count": 1, "tokens": 3},
                {"name": "Summary", "count": 1, "tokens": 50},
                {"name": "Your messages", "count": 1, "tokens": 102},
                {"name": "Tool results", "count": 1, "tokens": 200},
            ])
        );
        assert_eq!(report["tokens"], 455);
        assert_eq!(report["largest"][0]["what"], "result");
        assert_eq!(report["largest"][1]["text"], "y");
        assert_eq!(
            unfenced("<data-1 from=\"the tool x\">\nIt ran."),
            "the tool x: It ran."
        );
    }
}
