// SPDX-License-Identifier: GPL-3.0-or-later
//! A long chat in which everything happens that can: each dialect follows each other one, connections die,
//! limits ask, summaries are written, turns are cancelled. Each request has a result for each call, and
//! begins like the one before it, unless something happened that says so.

use std::time::Duration;

use crate::chat::{Chat, chat_through};
use agent_q_core::protocol::{Event, LimitAnswer, Op};
use agent_q_core::provider::http::HttpSettings;
use agent_q_core::provider::retry::RetryPolicy;
use serde_json::{Value, json};

const DIALECTS: [&str; 5] = [
    "chat-completions",
    "messages",
    "responses",
    "gemini",
    "ollama",
];

/// What a turn of the chat is like.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Answer,
    Call,
    /// Nothing but dead connections.
    Dead,
    /// The connection dies in the middle of the answer.
    Cut,
    /// A limit asks between two requests.
    Limit,
    Cancelled,
    Summary,
}

/// Each of 200 turns, with the dialect that is spoken then: each dialect follows each other one.
fn course() -> Vec<(&'static str, Kind)> {
    let count = DIALECTS.len();
    // Steps of 1 to 4, five times each, lead over each pair once.
    let mut dialects = vec![0];
    for step in 1..count {
        for _ in 0..count {
            dialects.push((dialects.last().unwrap() + step) % count);
        }
    }
    (0..200)
        .map(|turn| {
            let dialect = DIALECTS[dialects[(turn * dialects.len() / 200).min(dialects.len() - 1)]];
            let kind = match turn % 20 {
                3 | 9 | 13 | 17 => Kind::Call,
                5 => Kind::Cut,
                7 if turn < 60 => Kind::Dead,
                11 => Kind::Limit,
                15 => Kind::Cancelled,
                19 if turn % 60 == 59 => Kind::Summary,
                _ => Kind::Answer,
            };
            (dialect, kind)
        })
        .collect()
}

fn script(course: &[(&str, Kind)]) -> Value {
    let mut turns = Vec::new();
    for (number, (_, kind)) in course.iter().enumerate() {
        let answer = json!({"steps": [{"text": format!("Answer {number}. ").repeat(20)}]});
        let call = json!({"steps": [{"text": "Let me see."}, {"tool_calls": [
            {"id": format!("call.{number}"), "name": "echo", "arguments": {"text": "x"}},
            {"id": format!("call.{number}.b"), "name": "ecco", "arguments": {"text": "x"}}]}]});
        match kind {
            Kind::Answer => turns.push(answer),
            Kind::Call | Kind::Limit => turns.extend([call, answer]),
            // One on the connection that was kept, and one with its retries on new ones.
            Kind::Dead => turns.extend((0..4).map(|_| json!({"hang_up": true}))),
            Kind::Cut => turns.push(json!({"steps": [{"text": "Half"}, {"cut": true}]})),
            Kind::Cancelled => turns.push(json!({"steps": [{"text": "On "}, {"stall": true}]})),
            Kind::Summary => turns.extend([json!({"steps": [{"text": "NOTES"}]}), answer]),
        }
    }
    json!({"turns": turns})
}

/// The calls and the results of a request in DIALECT, each by what pairs them.
fn pairs(dialect: &str, body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let mut note = |list: bool, value: &Value| {
        let text = value.as_str().unwrap_or_default().to_owned();
        if list { &mut calls } else { &mut results }.push(text);
    };
    for (_, piece) in pieces(dialect, body) {
        match dialect {
            "chat-completions" | "ollama" => {
                let (id, result) = match dialect {
                    "ollama" => ("/function/name", "tool_name"),
                    _ => ("/id", "tool_call_id"),
                };
                for call in piece["tool_calls"].as_array().into_iter().flatten() {
                    note(true, call.pointer(id).unwrap());
                }
                if piece["role"] == "tool" {
                    note(false, &piece[result]);
                }
            }
            "messages" if piece["type"] == "tool_use" => note(true, &piece["id"]),
            "messages" if piece["type"] == "tool_result" => note(false, &piece["tool_use_id"]),
            "responses" if piece["type"] == "function_call" => note(true, &piece["call_id"]),
            "responses" if piece["type"] == "function_call_output" => {
                note(false, &piece["call_id"]);
            }
            "gemini" if piece.get("functionCall").is_some() => {
                note(true, &piece["functionCall"]["name"]);
            }
            "gemini" if piece.get("functionResponse").is_some() => {
                note(false, &piece["functionResponse"]["name"]);
            }
            _ => {}
        }
    }
    (calls, results)
}

/// The conversation of a request, in its smallest pieces with their roles. Marks for caches are left out:
/// they are no part of what is cached.
fn pieces(dialect: &str, body: &Value) -> Vec<(Value, Value)> {
    let (field, inner) = match dialect {
        "messages" => ("messages", Some("content")),
        "gemini" => ("contents", Some("parts")),
        "responses" => ("input", None),
        _ => ("messages", None),
    };
    let mut pieces = Vec::new();
    for message in body[field].as_array().unwrap() {
        match inner {
            None => pieces.push((Value::Null, message.clone())),
            Some(inner) => {
                for piece in message[inner].as_array().unwrap() {
                    let mut piece = piece.clone();
                    piece.as_object_mut().unwrap().remove("cache_control");
                    pieces.push((message["role"].clone(), piece));
                }
            }
        }
    }
    pieces
}

/// Waits until CHAT was told COUNT times of what is WANTED.
async fn until(chat: &Chat, wanted: impl Fn(&Event) -> bool, count: usize) {
    let enough = |events: &[Event]| {
        let seen = events.iter().filter(|event| wanted(event)).count();
        (seen >= count).then_some(())
    };
    chat.emacs.wait_until(enough).await;
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::TurnEnded { .. })
}

#[tokio::test]
async fn two_hundred_turns_in_all_dialects_stay_consistent() {
    let course = course();
    let retry = RetryPolicy {
        base_delay: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    let client = HttpSettings {
        retry,
        ..HttpSettings::default()
    };
    let chat = chat_through(client, &script(&course), json!({}));
    let (mut limits, mut ends, mut summaries, mut cancelled) = (0, 0, 0, 0);
    for (number, (dialect, kind)) in course.iter().enumerate() {
        let most = if *kind == Kind::Limit { 1 } else { 50 };
        let changes = json!({"max_iterations": most, "provider": {"name": "test",
            "base_url": chat.server.base_url(), "model": dialect, "dialect": dialect}});
        let changes = serde_json::from_value(changes).unwrap();
        chat.session.settings.lock().unwrap().apply(changes);
        if *kind == Kind::Summary {
            summaries += 1;
            ends += 1;
            chat.tell(Op::Compact);
            until(&chat, is_end, ends).await;
        }
        chat.tell(Op::Submit(format!("Question {number}").as_str().into()));
        match kind {
            Kind::Limit => {
                limits += 1;
                until(
                    &chat,
                    |event| matches!(event, Event::LimitReached { .. }),
                    limits,
                )
                .await;
                chat.tell(Op::AnswerLimit(LimitAnswer::GoOn));
            }
            Kind::Cancelled => {
                cancelled += 1;
                let stalls = |event: &Event| matches!(event, Event::Text { text, .. } if text.contains("On "));
                until(&chat, stalls, cancelled).await;
                chat.session.agenda.cancel();
            }
            _ => {}
        }
        ends += 1;
        until(&chat, is_end, ends).await;
    }
    let summarized = |event: &Event| matches!(event, Event::Summarized { .. }).then_some(());
    assert_eq!(chat.emacs.collect(summarized).len(), summaries);
    check(&chat);
}

/// What a request sent: its dialect, the pieces of its conversation, its tools.
type Sent = (String, Vec<(Value, Value)>, Value);

/// Checks all that CHAT sent.
fn check(chat: &Chat) {
    let mut last: Option<Sent> = None;
    for (index, request) in chat.server.requests().iter().enumerate() {
        let body = &request["body"];
        let dialect = dialect_of(request);
        let (mut calls, mut results) = pairs(dialect, body);
        calls.sort();
        results.sort();
        assert_eq!(calls, results, "request {index} in {dialect}");
        let now = (
            dialect.to_owned(),
            pieces(dialect, body),
            body["tools"].clone(),
        );
        if let Some((before, said, tools)) = &last
            && before == dialect
        {
            // A summary is asked for after a part of what was sent before, and stands for that part.
            let asked = match now.1.split_last() {
                Some((_, asked)) if asks_for_notes(&now.1) => asked,
                _ => &now.1[..],
            };
            if !asks_for_notes(said) {
                let shared = asked.len().min(said.len());
                assert!(
                    begins(&asked[..shared], &said[..shared]),
                    "request {index} in {dialect}"
                );
                assert!(
                    shared == said.len() || asks_for_notes(&now.1),
                    "request {index}"
                );
            }
            assert_eq!(
                without_marks(&now.2),
                without_marks(tools),
                "request {index}"
            );
        }
        last = Some(now);
    }
    assert!(chat.server.requests().len() > 200);
}

/// Whether ASKED is what was SAID; the user may have added to the last message.
fn begins(asked: &[(Value, Value)], said: &[(Value, Value)]) -> bool {
    let added_to = |asked: &Value, said: &Value| {
        let text = |piece: &Value| piece["content"].as_str().unwrap_or_default().to_owned();
        asked["role"] == said["role"] && text(asked).starts_with(&format!("{}\n\n", text(said)))
    };
    match (asked.split_last(), said.split_last()) {
        (Some((last, asked)), Some((end, said))) => {
            asked == said && (last == end || added_to(&last.1, &end.1))
        }
        (asked, said) => asked == said,
    }
}

fn asks_for_notes(said: &[(Value, Value)]) -> bool {
    said.last()
        .is_some_and(|(_, piece)| piece.to_string().contains("Write notes from which"))
}

fn without_marks(tools: &Value) -> String {
    tools
        .to_string()
        .replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
}

fn dialect_of(request: &Value) -> &'static str {
    let path = request["path"].as_str().unwrap();
    if path.ends_with("/chat/completions") {
        "chat-completions"
    } else if path.contains("GenerateContent") {
        "gemini"
    } else if path.ends_with("/responses") {
        "responses"
    } else if path.ends_with("/messages") {
        "messages"
    } else {
        "ollama"
    }
}
