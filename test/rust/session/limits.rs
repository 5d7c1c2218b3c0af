// SPDX-License-Identifier: GPL-3.0-or-later
//! Limits of a turn: it stops between two requests and asks, and each answer leaves a conversation that
//! can go on. Calls that fail again and again end it.

use crate::chat::{Chat, chat, message, one_call, turns};
use agent_q_core::protocol::{CallOutcome, Decision, Event, LimitAnswer, Op, TurnOutcome};
use serde_json::{Value, json};

fn rounds(count: usize) -> Value {
    let mut steps: Vec<Value> = (0..count)
        .map(|number| one_call("c", "echo", json!({"text": format!("x{number}")})))
        .collect();
    steps.push(json!([{"text": "Done."}]));
    turns(json!(steps))
}

/// What the COUNT-th question about a limit says, once it is put.
async fn question(chat: &Chat, count: usize) -> String {
    loop {
        let asked = chat.emacs.collect(|event| match event {
            Event::LimitReached { text, .. } => Some(text.clone()),
            _ => None,
        });
        if let Some(text) = asked.get(count - 1) {
            return text.clone();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_turn_at_its_limit_asks_and_goes_on() {
    let chat = chat(&rounds(4), json!({"max_iterations": 2}));
    chat.tell(Op::Submit("go".into()));
    for (count, used) in [(1, "2 requests"), (2, "another 2 requests")] {
        assert_eq!(
            question(&chat, count).await,
            format!("The turn has used {used} (agent-q-max-iterations).")
        );
        assert_eq!(chat.server.bodies().len(), 2 * count);
        chat.tell(Op::AnswerLimit(LimitAnswer::GoOn));
    }
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
    let users = chat
        .last_messages()
        .iter()
        .filter(|it| it.0 == "user")
        .count();
    assert_eq!(users, 1, "nothing is said to the model");
}

#[tokio::test]
async fn a_turn_that_is_not_to_go_on_ends_with_all_its_results() {
    let chat = chat(&rounds(3), json!({"max_iterations": 1}));
    chat.tell(Op::Submit("go".into()));
    question(&chat, 1).await;
    chat.tell(Op::AnswerLimit(LimitAnswer::Stop));
    assert_eq!(
        chat.ended(1).await,
        TurnOutcome::Limit(
            "The turn has used 1 request (agent-q-max-iterations). It was stopped.".to_owned()
        )
    );
    // An answer that comes too late is to nobody.
    chat.tell(Op::AnswerLimit(LimitAnswer::GoOn));

    chat.tell(Op::Submit("and now?".into()));
    question(&chat, 2).await;
    chat.tell(Op::Submit("something else".into()));
    assert!(
        matches!(chat.ended(2).await, TurnOutcome::Limit(_)),
        "a message is an answer"
    );

    question(&chat, 3).await;
    chat.session.agenda.cancel();
    assert_eq!(chat.ended(3).await, TurnOutcome::Cancelled);
    let roles: Vec<String> = chat.last_messages().into_iter().map(|it| it.0).collect();
    assert_eq!(
        roles,
        [
            "user",
            "assistant",
            "tool",
            "user",
            "assistant",
            "tool",
            "user"
        ]
    );
}

#[tokio::test]
async fn a_message_that_waits_behind_a_turn_answers_it_at_its_limit() {
    let script = turns(json!([
        one_call("c", "erase", json!({"text": "x"})),
        [{"text": "Done."}],
    ]));
    let chat = chat(&script, json!({"max_iterations": 1}));
    chat.tell(Op::Submit("go".into()));
    let call = chat.asked().await;
    chat.tell(Op::Submit("something else".into()));
    assert!(chat.approvals.decide(call, Decision::Approved));
    assert!(matches!(chat.ended(1).await, TurnOutcome::Limit(_)));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    let asked = |event: &Event| matches!(event, Event::LimitReached { .. }).then_some(());
    assert!(chat.emacs.collect(asked).is_empty());
}

#[tokio::test]
async fn without_anybody_to_ask_a_turn_ends_at_its_limit() {
    let settings = json!({"max_iterations": 2, "approval": "none"});
    let chat = chat(&rounds(3), settings);
    let TurnOutcome::Limit(why) = chat.say("go").await else {
        panic!("no limit")
    };
    assert!(why.contains("2 requests"), "{why}");
}

#[tokio::test]
async fn tokens_are_counted_as_the_provider_counts_them() {
    let mut script = rounds(2);
    for turn in script["turns"].as_array_mut().unwrap() {
        turn["steps"]
            .as_array_mut()
            .unwrap()
            .push(json!({"usage": [90, 10]}));
    }
    let chat = chat(&script, json!({"max_turn_tokens": 200}));
    chat.tell(Op::Submit("go".into()));
    assert_eq!(
        question(&chat, 1).await,
        "The turn has used 200 tokens (agent-q-max-turn-tokens)."
    );
    chat.tell(Op::AnswerLimit(LimitAnswer::GoOn));
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
}

#[tokio::test]
async fn a_call_that_fails_again_and_again_ends_the_turn() {
    let round = one_call("c", "no_such_tool", json!({}));
    let chat = chat(&turns(json!(vec![round; 9])), json!({}));
    let TurnOutcome::Limit(why) = chat.say("go").await else {
        panic!("no limit")
    };
    assert_eq!(
        why,
        "Stopped: the model called no_such_tool 4 times with the same arguments and it did not succeed. Send a message to go on."
    );
    let told: Vec<String> = chat
        .emacs
        .collect(|event| match event {
            Event::CallFinished { result, .. } => Some(result.clone()),
            _ => None,
        })
        .iter()
        .map(|result| {
            assert_eq!(result.outcome, CallOutcome::Failed);
            result.remark.clone().unwrap_or_default()
        })
        .collect();
    assert_eq!(told.len(), 4);
    let bodies = chat.server.bodies();
    let last = bodies.last().unwrap()["messages"].to_string();
    assert!(
        last.contains("did not succeed 3 times. Try something else"),
        "{last}"
    );
}

#[tokio::test]
async fn an_answer_that_was_cut_can_go_on() {
    let script = turns(json!([
        [{"text": "One, two"}, {"cut": true}],
        [{"text": "Three."}],
        [{"reasoning": "Hm"}, {"cut": true}],
    ]));
    let chat = chat(&script, json!({}));
    let TurnOutcome::Interrupted(why) = chat.say("count").await else {
        panic!("not interrupted")
    };
    assert!(
        why.contains("was lost before the reply was complete"),
        "{why}"
    );
    chat.tell(Op::Submit("Go on.".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    assert_eq!(chat.last_messages()[1], message("assistant", "One, two"));
    // There is nothing to go on from here.
    chat.tell(Op::Submit("more".into()));
    assert!(matches!(chat.ended(3).await, TurnOutcome::Failed(_)));
}

#[tokio::test]
async fn a_turn_that_fails_after_its_calls_can_go_on() {
    let refusal = json!({"status": 400, "body": {"error": {"message": "No."}}});
    let mut script = turns(json!([
        one_call("c", "echo", json!({"text": "x"})),
        [],
        [{"text": "Done."}],
    ]));
    script["turns"][1] = refusal;
    let chat = chat(&script, json!({}));
    assert!(matches!(chat.say("go").await, TurnOutcome::Interrupted(why) if why.contains("No.")));
    chat.tell(Op::Submit("Go on.".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    let roles: Vec<String> = chat.last_messages().into_iter().map(|it| it.0).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
}
