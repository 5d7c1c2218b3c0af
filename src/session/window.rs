// SPDX-License-Identifier: GPL-3.0-or-later
//! What fills a model's window, by category, for the user to look at. Pure.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::conversation::{Entry, EntryContent, Live};
use super::tokens::{message_bytes, part_bytes};
use crate::provider::{ChatMessage, ChatRequest, PartContent};

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
pub fn report(request: &ChatRequest, live: &Live<'_>, tokens: impl Fn(usize) -> u64) -> Value {
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
                (EntryContent::Asked { shown, .. }, ChatMessage::User(text)) => {
                    ("your message", shown.as_deref().unwrap_or(text).into())
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
        let report = report(&request, &it.live(), |bytes| bytes as u64);
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
