// SPDX-License-Identifier: GPL-3.0-or-later
//! Plan mode: calls that could change something are refused, and the model is told once.

use crate::chat::{calls, chat, turns};
use agent_q_core::protocol::{CallOutcome, Event, Op, TurnOutcome};
use serde_json::json;

#[tokio::test]
async fn nothing_is_changed_until_it_is_switched_off() {
    let steps = calls(json!([
        {"id": "a", "name": "echo", "arguments": {"text": "x"}},
        {"id": "b", "name": "alter", "arguments": {"text": "x"}},
        {"id": "c", "name": "erase", "arguments": {"text": "x"}},
    ]));
    let script = turns(json!([
        steps,
        [{"text": "A plan."}],
        [{"text": "A better plan."}],
        [{"tool_calls": [{"id": "d", "name": "alter", "arguments": {"text": "x"}}]}],
        [{"text": "Done."}],
    ]));
    let chat = chat(&script, json!({"plan": "look"}));
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    // They end in any order; the model reads them in that of the calls.
    let results = chat.results();
    let ended = |as_what| results.iter().filter(|it| it.0 == as_what).count();
    assert_eq!(ended(CallOutcome::Succeeded), 1);
    assert_eq!(ended(CallOutcome::Denied), 2);
    let asked = chat
        .emacs
        .collect(|event| matches!(event, Event::ApprovalRequested { .. }).then_some(()));
    assert!(asked.is_empty(), "nobody is asked about what can't run");
    let messages = chat.last_messages();
    assert!(
        messages[0].1.starts_with("(Plan mode is on: "),
        "{}",
        messages[0].1
    );
    assert!(!messages[2].1.contains("plan mode"), "{}", messages[2].1);
    for refused in [&messages[3].1, &messages[4].1] {
        assert!(
            refused.contains("Plan mode is on, and") && refused.ends_with("changed nothing."),
            "{refused}"
        );
    }

    chat.tell(Op::Submit("more".into()));
    chat.ended(2).await;
    assert_eq!(chat.last_messages().last().unwrap().1, "more", "told once");

    let changes = serde_json::from_value(json!({"plan": "off"})).unwrap();
    chat.session.settings.lock().unwrap().apply(changes);
    chat.tell(Op::Submit("Do it.".into()));
    assert_eq!(chat.ended(3).await, TurnOutcome::Finished);
    assert_eq!(chat.results().last().unwrap().0, CallOutcome::Succeeded);
    let bodies = chat.server.bodies();
    let said = bodies[3]["messages"].as_array().unwrap().last().unwrap();
    assert!(
        said["content"]
            .as_str()
            .unwrap()
            .starts_with("(Plan mode is off: ")
    );
    assert_eq!(
        bodies[0]["tools"], bodies[3]["tools"],
        "the tools stay the same"
    );
}

#[tokio::test]
async fn that_it_is_off_is_said_after_a_message_that_was_taken_back() {
    let chat = chat(
        &turns(json!([
            [{"text": "A plan."}],
            [{"raw": "data: {\"choices\":[{\"delta\":{\"refusal\":\"No.\"},\"finish_reason\":\"content_filter\"}]}\n\n"}, {"done": true}],
            [{"text": "Done."}],
            [{"text": "Bye."}],
        ])),
        json!({"plan": "look"}),
    );
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    chat.tell(Op::Submit("something bad".into()));
    assert!(matches!(chat.ended(2).await, TurnOutcome::Failed(_)));
    let changes = serde_json::from_value(json!({"plan": "off"})).unwrap();
    chat.session.settings.lock().unwrap().apply(changes);
    chat.tell(Op::Submit("Do it.".into()));
    assert_eq!(chat.ended(3).await, TurnOutcome::Finished);
    let messages = chat.last_messages();
    assert!(messages[0].1.starts_with("(Plan mode is on: "));
    let last = &messages.last().unwrap().1;
    assert!(last.starts_with("(Plan mode is off: "), "{last}");
    chat.tell(Op::Submit("Thanks.".into()));
    assert_eq!(chat.ended(4).await, TurnOutcome::Finished);
    assert_eq!(chat.last_messages().last().unwrap().1, "Thanks.");
}
