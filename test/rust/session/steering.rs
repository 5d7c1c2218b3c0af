// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages that the user sends while a turn runs: into it, or behind it.

use crate::chat::{Chat, chat, one_call, turns};
use agent_q_core::protocol::{Decision, Event, MessageId, Op, TurnOutcome, UserMessage};
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
    let same = UserMessage::from("keep the names");
    chat.tell(Op::Steer(same.clone()));
    let read = UserMessage::from("keep the names");
    chat.tell(Op::Steer(read.clone()));
    assert!(chat.session.agenda.take_back(same.id));
    assert!(!chat.session.agenda.take_back(same.id));
    assert!(chat.approvals.decide(call, Decision::Approved));
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
    let messages = chat.last_messages();
    let roles: Vec<&str> = messages.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    assert_eq!(messages[3].1, "keep the names");
    let steered = chat.emacs.collect(|event| match event {
        Event::Steered { message, .. } => *message,
        _ => None,
    });
    assert_eq!(steered, [read.id]);
    assert!(!chat.session.agenda.take_back(read.id));
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

/// The messages with which turns began.
fn begun(chat: &Chat) -> Vec<MessageId> {
    chat.emacs.collect(|event| match event {
        Event::TurnStarted { message, .. } => *message,
        _ => None,
    })
}

#[tokio::test]
async fn what_waits_is_taken_back_and_dropped_by_its_number() {
    let script = turns(json!([
        one_call("c", "erase", json!({"text": "x"})),
        [{"text": "Done."}],
        one_call("d", "erase", json!({"text": "x"})),
    ]));
    let chat = chat(&script, json!({}));
    let [first, same, second, steered, line] =
        ["go", "again", "again", "so", "/echo a"].map(UserMessage::from);
    let ids = [first.id, second.id];
    chat.tell(Op::Submit(first));
    let call = chat.asked().await;
    let dropped = same.id;
    chat.tell(Op::Submit(same));
    chat.tell(Op::Submit(second));
    assert!(chat.session.agenda.take_back(dropped));
    assert!(!chat.session.agenda.take_back(ids[0]), "it is read");
    assert!(chat.approvals.decide(call, Decision::Approved));
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
    chat.emacs
        .wait_for(|event| match event {
            Event::ApprovalRequested { call: it, .. } if *it != call => Some(()),
            _ => None,
        })
        .await;
    assert_eq!(begun(&chat), ids);
    let waiting = [steered.id, line.id];
    chat.tell(Op::Console(line));
    chat.tell(Op::Steer(steered));
    assert_eq!(chat.session.agenda.cancel(), waiting);
    assert_eq!(chat.ended(2).await, TurnOutcome::Cancelled);
    assert_eq!(chat.session.agenda.cancel(), []);
    assert_eq!(begun(&chat), ids);
}
