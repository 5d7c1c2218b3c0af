// SPDX-License-Identifier: GPL-3.0-or-later
//! Refusals whose words say nothing known, of conversations that may be too long.

use agent_q_core::protocol::{Op, Sending, TurnOutcome, UserMessage};
use serde_json::json;

use super::window::{notices, say_all, summaries, text};
use crate::chat::{chat, one_call, turns};

#[tokio::test]
async fn an_unknown_refusal_of_a_long_conversation_may_mean_that_it_is_too_long() {
    let refused = json!({"status": 400, "body": "what?"});
    let long = json!({"steps": [{"text": "x".repeat(15_000)}]});
    let notes = json!({"steps": [{"text": "NOTES"}]});
    // The host refuses the request for a summary, too, as long as that is too long.
    let turns = [&long, &long, &long, &refused, &refused, &notes];
    let long_chat = chat(&json!({"turns": turns, "repeat_last": true}), json!({}));
    let outcome = say_all(&long_chat, &["one", "two", "three", "four"]).await;
    assert!(matches!(outcome, TurnOutcome::FailedLong(_)), "{outcome:?}");
    // What the button does.
    long_chat.tell(Op::Compact);
    long_chat.tell(Op::Submit(UserMessage {
        sending: Sending::Again,
        ..UserMessage::from("four")
    }));
    assert_eq!(long_chat.ended(6).await, TurnOutcome::Finished);
    assert_eq!(summaries(&long_chat).len(), 1, "{:?}", notices(&long_chat));
    let read = long_chat.last_messages();
    assert_eq!(read.len(), 1);
    assert!(read[0].1.contains("NOTES") && read[0].1.ends_with("four"));
    // A short one is not too long, whatever the words.
    let short_chat = chat(&json!({"turns": [refused]}), json!({}));
    assert!(matches!(
        short_chat.say("one").await,
        TurnOutcome::Failed(_)
    ));
}

#[tokio::test]
async fn an_unknown_refusal_in_mid_turn_may_mean_that_it_is_too_long() {
    let long = json!([{"text": "x".repeat(20_000)}]);
    let mut script = turns(json!([
        long,
        one_call("c", "echo", json!({"text": "hi"})),
        []
    ]));
    script["turns"][2] = json!({"status": 422, "body": "what?"});
    let chat = chat(&script, json!({}));
    let outcome = say_all(&chat, &["one", "two"]).await;
    assert!(
        matches!(outcome, TurnOutcome::InterruptedLong(_)),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_long_conversation_that_is_refused_without_a_word_is_too_long() {
    let script = json!({"turns": [{"steps": text(20_000)}, {"status": 400, "body": ""},
        {"steps": [{"text": "NOTES"}]}, {"steps": [{"text": "Done."}]}]});
    let chat = chat(&script, json!({}));
    assert_eq!(say_all(&chat, &["one", "two"]).await, TurnOutcome::Finished);
    assert_eq!(summaries(&chat).len(), 1);
}
