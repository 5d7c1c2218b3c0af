// SPDX-License-Identifier: GPL-3.0-or-later
//! What the user puts into a running turn.

use crate::chat::{chat, one_call, turns};
use agent_q_core::protocol::{Decision, Event, Op, TurnOutcome};
use serde_json::json;

#[tokio::test]
async fn it_is_read_after_the_calls_that_run() {
    let script = turns(json!([
        one_call("c", "erase", json!({"text": "x"})),
        [{"text": "Done."}],
        [{"text": "More."}],
    ]));
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("go".into()));
    let call = chat.asked().await;
    chat.tell(Op::Steer("drop this".into()));
    chat.tell(Op::Steer("and keep the names".into()));
    while !chat.session.steering.take_back("drop this") {
        tokio::task::yield_now().await;
    }
    assert!(chat.approvals.decide(call, Decision::Approved));
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
    let messages = chat.last_messages();
    let roles: Vec<&str> = messages.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    assert_eq!(messages[3].1, "and keep the names");
    let steered = chat.emacs.collect(|event| match event {
        Event::Steered { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(steered, ["and keep the names"]);
    assert!(!chat.session.steering.take_back("and keep the names"));
}

#[tokio::test]
async fn what_no_turn_took_begins_one() {
    let script = turns(json!([
        // Long enough for both messages, however slow the machine.
        [{"text": "One"}, {"pause_ms": 2000}, {"text": "."}],
        [{"text": "Two."}],
        [{"text": "Three."}],
    ]));
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("first".into()));
    chat.emacs
        .wait_for(|event| matches!(event, Event::Text { .. }).then_some(()))
        .await;
    chat.tell(Op::Submit("third".into()));
    chat.tell(Op::Steer("second".into()));
    assert_eq!(chat.ended(3).await, TurnOutcome::Finished);
    let users: Vec<String> = chat
        .last_messages()
        .into_iter()
        .filter(|it| it.0 == "user")
        .map(|it| it.1)
        .collect();
    assert_eq!(users, ["first", "second", "third"]);
    chat.tell(Op::Steer("fourth".into()));
    assert!(
        matches!(chat.ended(4).await, TurnOutcome::Failed(_)),
        "the script is over"
    );
}
