// SPDX-License-Identifier: GPL-3.0-or-later
//! What a mad or hostile server sends without end: it is given up early, with a word on why, and
//! takes neither memory nor time for ever. What of it stays stays usable.

use std::time::Instant;

use agent_q_core::call::batch::MOST_CALLS;
use agent_q_core::protocol::{CallOutcome, Event, Op, TurnOutcome};
use agent_q_core::provider::accumulator::{MAX_CALL_BYTES, MAX_CALLS, MAX_TEXT_BYTES};
use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::{FailureKind, ProviderError};
use serde_json::{Value, json};

use crate::chat::{calls, chat, turns};

fn payload(delta: &Value) -> Vec<u8> {
    format!("data: {}\n\n", json!({"choices": [{"delta": delta}]})).into_bytes()
}

/// Reads EVENT up to TIMES times: how often it was taken, and how the reply was given up.
fn read_without_end(first: &[u8], event: &[u8], times: usize) -> (usize, ProviderError) {
    let mut reader = ReplyReader::default();
    reader.push(first);
    let mut taken = 0;
    while !reader.is_over() && taken < times {
        reader.push(event);
        taken += 1;
    }
    let error = reader.finish().0.expect_err("a reply without end");
    (taken, error)
}

/// A call that begins, and more of its arguments.
fn endless_arguments(piece: &str) -> (Vec<u8>, Vec<u8>) {
    let fragment = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
    let mut first = fragment("{\"text\": \"");
    first["tool_calls"][0]["id"] = "a".into();
    first["tool_calls"][0]["function"]["name"] = "alter".into();
    (payload(&first), payload(&fragment(piece)))
}

#[test]
fn endless_text_reasoning_arguments_and_calls_are_given_up() {
    let piece = "x".repeat(64 * 1024);
    let (first, more) = endless_arguments(&piece);
    let call = json!({"tool_calls": [{"id": "", "function": {"name": "f", "arguments": "{}"}}]});
    for (first, event, most, word) in [
        (
            Vec::new(),
            payload(&json!({"content": piece})),
            MAX_TEXT_BYTES / piece.len(),
            "its text is longer than 16 MB",
        ),
        (
            Vec::new(),
            payload(&json!({"reasoning_content": piece})),
            MAX_TEXT_BYTES / piece.len(),
            "its reasoning is longer than 16 MB",
        ),
        (
            first,
            more,
            MAX_CALL_BYTES / piece.len(),
            "the arguments of its tool calls are longer than 2 MB, so no call was run",
        ),
        (
            Vec::new(),
            payload(&call),
            MAX_CALLS,
            "it has more than 1024 tool calls, so no call was run",
        ),
    ] {
        let (taken, error) = read_without_end(&first, &event, 100_000);
        assert!((most..=most + 1).contains(&taken), "{taken} of {most}");
        assert_eq!(error.kind, FailureKind::TooLong);
        let sentence = error.to_string();
        assert!(
            sentence.starts_with("Stopped reading the reply: "),
            "{sentence}"
        );
        assert!(sentence.contains(word), "{sentence}");
        let partial = error.partial.expect("what had come");
        assert!(partial.text().len() <= MAX_TEXT_BYTES);
        assert!(partial.calls().len() <= MAX_CALLS);
    }
}

#[test]
fn ids_and_names_count_too() {
    let long = "x".repeat(64 * 1024);
    for (field, call) in [
        ("id", json!({"id": long, "function": {"arguments": "{}"}})),
        (
            "name",
            json!({"function": {"name": long, "arguments": "{}"}}),
        ),
    ] {
        let (taken, error) =
            read_without_end(&[], &payload(&json!({"tool_calls": [call]})), 10_000);
        assert!(taken <= 2 * MAX_CALL_BYTES / long.len(), "{field}: {taken}");
        assert_eq!(error.kind, FailureKind::TooLong, "{field}");
    }
}

#[test]
fn many_small_pieces_take_time_in_proportion() {
    let arguments = format!("{{\"x\": \"{}", "y".repeat(1_000_000));
    let start = payload(
        &json!({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": arguments}}]}),
    );
    let time = |event: Vec<u8>| {
        let once = || {
            let begun = Instant::now();
            let mut reader = ReplyReader::default();
            reader.push(&start);
            for _ in 0..2_000 {
                reader.push(&event);
            }
            begun.elapsed()
        };
        (0..3).map(|_| once()).min().unwrap()
    };
    let piece = |function: Value| payload(&json!({"tool_calls": [{"function": function}]}));
    let plain = time(piece(json!({"arguments": "{}"})));
    // Each could be the start of a call, which only what came before can tell.
    let named = time(piece(json!({"name": "f", "arguments": "{}"})));
    assert!(named < 10 * plain, "{plain:?}, with names {named:?}");
}

#[tokio::test]
async fn of_a_thousand_calls_the_first_run_and_each_has_its_result() {
    let thousand: Vec<Value> = (0..1000)
        .map(|it| json!({"id": format!("c{it}"), "name": "echo", "arguments": {"text": format!("t{it}")}}))
        .collect();
    let script = turns(json!([calls(thousand.into()), [{"text": "Done."}]]));
    let chat = chat(&script, json!({}));
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    // A provider wants a result for each call, in the next request.
    let messages = &chat.server.bodies()[1]["messages"];
    let results = &messages.as_array().unwrap()[3..];
    assert_eq!(results.len(), 1000);
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result["tool_call_id"], format!("c{index}"));
        let content = result["content"].as_str().unwrap();
        let ran = content.contains(&format!("T{index}\n"));
        assert_eq!(ran, index < MOST_CALLS, "{content}");
        assert!(
            ran || content.starts_with(
                "Error: Not run: this message has 1000 tool calls, and only the first 128"
            ),
            "{content}"
        );
    }
    let failed = chat
        .results()
        .iter()
        .filter(|it| it.0 == CallOutcome::Failed)
        .count();
    assert_eq!(failed, 1000 - MOST_CALLS);
    let notices = chat.emacs.collect(|event| match event {
        Event::Notice { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(
        notices,
        ["The model made 1000 tool calls at once; only the first 128 are run."]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reply_that_was_too_long_the_chat_goes_on() {
    let script = json!({"turns": [
        {"steps": [{"text": "It begins. "}, {"big_text": 9_000_000}, {"big_text": 9_000_000}, {"stall": true}]},
        {"steps": [{"text": "Here I am."}]},
    ]});
    let chat = chat(&script, json!({}));
    let TurnOutcome::Interrupted(why) = chat.say("go").await else {
        panic!("it was taken")
    };
    assert!(why.contains("its text is longer than 16 MB"), "{why}");
    assert!(chat.shown().len() <= MAX_TEXT_BYTES);
    chat.tell(Op::Submit("again".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    let kept = &chat.last_messages()[1].1;
    assert!(kept.starts_with("It begins. xxx"), "{}", &kept[..40]);
    assert!(kept.contains("left out"));
    assert!(kept.len() < 20_000, "{} bytes go back", kept.len());
}
