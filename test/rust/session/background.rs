// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that a model has run in the background, in its turn and at the end of that.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use agent_q_core::protocol::{CallOutcome, Event, Op, TurnOutcome};
use agent_q_core::tool::{Parameter, ParameterType, Runner, Tool};
use agent_q_core::trust::SafetyLevel;
use serde_json::{Value, json};

use crate::chat::{Chat, chat, one_call, turns};

/// A chat with SCRIPT whose tool `build` ends when it is told to; `go_on` does that and waits until it has.
fn building(script: &Value) -> (Chat, mpsc::Sender<()>) {
    let chat = chat(script, json!({}));
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let parameter = Parameter::optional("background", ParameterType::Boolean, "");
    let work = move |_| {
        let _ = receiver.lock().unwrap().recv();
        Ok("BUILT".to_owned())
    };
    let runner = Runner::Worker(Arc::new(work));
    let level = SafetyLevel::Cautious;
    let tool = Tool::new("build", "A tool.", level, &[], vec![parameter], runner);
    chat.registry.register(tool);
    (chat, sender)
}

fn begin() -> Value {
    one_call("b", "build", json!({"background": true}))
}

#[tokio::test(flavor = "multi_thread")]
async fn its_result_comes_under_the_next_one() {
    let script = turns(json!([
        begin(),
        one_call("e", "erase", json!({"text": "x"})),
        [{"text": "Done."}],
    ]));
    let (chat, sender) = building(&script);
    chat.tell(Op::Submit("go".into()));
    let call = chat.asked().await;
    sender.send(()).unwrap();
    let wanted = |event: &Event| match event {
        Event::CallFinished { result, .. } if result.content == "BUILT" => Some(()),
        _ => None,
    };
    chat.emacs.wait_for(wanted).await;
    // Emacs is told just before the result is kept for the model, which nothing tells of.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(
        chat.approvals
            .decide(call, agent_q_core::protocol::Decision::Approved)
    );
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
    let messages = chat.last_messages();
    assert!(messages[2].1.starts_with("pending: build"), "{messages:?}");
    let body = chat.server.bodies().last().unwrap().to_string();
    assert_eq!(body.matches("has ended:").count(), 1, "{body}");
    assert!(body.contains("BUILT"));
}

#[tokio::test(flavor = "multi_thread")]
async fn none_outlives_its_turn_and_the_next_message_says_so() {
    let script = turns(json!([
        begin(),
        [{"text": "Done."}],
        [{"text": "Fine."}],
        [{"text": "Fine."}],
    ]));
    let (chat, _sender) = building(&script);
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    let notices = chat.emacs.collect(|event| match event {
        Event::Notice { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert!(
        notices
            .iter()
            .any(|it| it.starts_with("Stopped with the turn: build"))
    );
    assert_eq!(chat.results()[0].0, CallOutcome::Cancelled);
    chat.tell(Op::Submit("and?".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    chat.tell(Op::Submit("well?".into()));
    assert_eq!(chat.ended(3).await, TurnOutcome::Finished);
    let body = chat.server.bodies().last().unwrap().to_string();
    assert_eq!(body.matches("its turn ended first").count(), 1, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_a_turn_that_is_cancelled_and_with_its_chat() {
    for end in [Chat::cancel, Chat::close] {
        let script = turns(json!([
            begin(),
            one_call("e", "erase", json!({"text": "x"})),
            [{"text": "Done."}],
        ]));
        let (chat, _sender) = building(&script);
        chat.tell(Op::Submit("go".into()));
        chat.asked().await;
        end(&chat);
        assert_eq!(chat.ended(1).await, TurnOutcome::Cancelled);
        let outcomes: Vec<CallOutcome> = chat.results().into_iter().map(|it| it.0).collect();
        assert_eq!(outcomes, [CallOutcome::Cancelled, CallOutcome::Cancelled]);
    }
}

impl Chat {
    fn cancel(&self) {
        self.session.agenda.cancel();
    }

    fn close(&self) {
        self.session.agenda.close();
    }
}
