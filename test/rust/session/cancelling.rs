// SPDX-License-Identifier: GPL-3.0-or-later
//! Cancelling a turn, whatever it is doing: it ends, no question stays open, each call has its result, and
//! the next message is answered in a history that every server takes.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use agent_q_core::protocol::{CallOutcome, EmacsRequest, Event, Op, QuestionId, TurnOutcome};
use agent_q_core::tool::{Runner, Tool};
use agent_q_core::trust::SafetyLevel;
use serde_json::{Value, json};

use crate::chat::{Chat, chat, message, one_call, turns};
use crate::fault_server::{Deed, FaultServer};

/// A chat whose first message goes to a server that never answers.
fn with_silent_server(scheme: &str) -> (Chat, FaultServer) {
    let server = FaultServer::start(vec![vec![Deed::Stall]]);
    let base_url = format!("{scheme}://localhost:{}/v1", server.address.port());
    let provider = json!({"name": "test", "base_url": base_url, "model": "m"});
    let script = turns(json!([[{"text": "Fine."}]]));
    (chat(&script, json!({"provider": provider})), server)
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

/// Cancels the running turn and sends another message. The model then reads EXPECTED, and the message.
async fn check(chat: &Chat, expected: &[(&str, &str)]) {
    chat.session.agenda.cancel();
    assert_eq!(chat.ended(1).await, TurnOutcome::Cancelled);
    assert_eq!(chat.approvals.count(), 0);
    let proposed = chat
        .emacs
        .collect(|event| matches!(event, Event::CallProposed { .. }).then_some(()));
    assert_eq!(proposed.len(), chat.results().len());
    // What the server of the first message was is no matter any more.
    let provider = json!({"name": "test", "base_url": chat.server.base_url(), "model": "m"});
    let changes = serde_json::from_value(json!({ "provider": provider })).unwrap();
    chat.session.settings.lock().unwrap().apply(changes);
    chat.tell(Op::Submit("again".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    let mut all = vec![message("user", "go")];
    all.extend(expected.iter().map(|(role, text)| message(role, text)));
    // Without an answer in between, the user's messages are one.
    match all.last_mut() {
        Some((role, text)) if role == "user" => text.push_str("\n\nagain"),
        _ => all.push(message("user", "again")),
    }
    assert_eq!(chat.last_messages(), all);
}

/// The chat has said that it is shown when the turn is over.
#[tokio::test]
async fn what_was_to_be_shown_is_shown_even_so() {
    let (chat, server) = with_silent_server("http");
    chat.tell(Op::Submit("go".into()));
    until(|| !server.requests().is_empty()).await;
    let (request, window) = (QuestionId::next(), QuestionId::next());
    chat.tell(Op::ShowRequest(request, None));
    chat.tell(Op::ShowWindow(window));
    chat.session.agenda.cancel();
    for shown in [request, window] {
        chat.emacs
            .wait_for(|event| match event {
                Event::RequestShown { question, .. } | Event::WindowShown { question, .. } => {
                    (*question == shown).then_some(())
                }
                _ => None,
            })
            .await;
    }
}

#[tokio::test]
async fn while_it_connects() {
    let (chat, server) = with_silent_server("https");
    chat.tell(Op::Submit("go".into()));
    // The server has its greeting, and says nothing.
    until(|| !server.requests().is_empty()).await;
    check(&chat, &[]).await;
}

#[tokio::test]
async fn before_the_first_byte() {
    let (chat, server) = with_silent_server("http");
    chat.tell(Op::Submit("go".into()));
    until(|| !server.requests().is_empty()).await;
    check(&chat, &[]).await;
}

#[tokio::test]
async fn while_text_comes() {
    let script = turns(json!([[{"text": "One"}, {"stall": true}], [{"text": "Fine."}]]));
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("go".into()));
    chat.emacs
        .wait_for(|event| matches!(event, Event::Text { .. }).then_some(()))
        .await;
    check(&chat, &[("assistant", "One")]).await;
}

#[tokio::test]
async fn while_a_call_comes() {
    let half = json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c",
        "type": "function", "function": {"name": "erase", "arguments": "{\"te"}}]}}]});
    let script = turns(json!([
        [{"text": "One"}, {"raw": format!("data: {half}\n\n")}, {"stall": true}],
        [{"text": "Fine."}],
    ]));
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("go".into()));
    chat.emacs
        .wait_for(|event| matches!(event, Event::Text { .. }).then_some(()))
        .await;
    check(&chat, &[("assistant", "One")]).await;
}

#[tokio::test]
async fn while_it_waits_to_send_again() {
    let script = json!({"turns": [
        {"status": 503, "headers": {"retry-after": "60"}, "body": {"error": {"message": "Busy."}}},
        {"steps": [{"text": "Fine."}]},
    ]});
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("go".into()));
    chat.emacs
        .wait_for(|event| matches!(event, Event::Retrying { .. }).then_some(()))
        .await;
    check(&chat, &[]).await;
}

/// What a cancelled call's result is, as the model reads it.
const CANCELLED: &str = "Error: The user cancelled the turn; this call was stopped or did not run.";

/// A chat whose model calls the tool NAME and has two more messages to come.
fn calling(name: &str, arguments: Value) -> Chat {
    let script = turns(json!([one_call("c", name, arguments), [{"text": "Fine."}]]));
    chat(&script, json!({}))
}

async fn check_call(chat: &Chat) {
    check(chat, &[("assistant", ""), ("tool", CANCELLED)]).await;
    assert_eq!(chat.results()[0].0, CallOutcome::Cancelled);
}

#[tokio::test]
async fn while_the_user_is_asked() {
    let chat = calling("erase", json!({"text": "x"}));
    chat.tell(Op::Submit("go".into()));
    chat.asked().await;
    check_call(&chat).await;
}

#[tokio::test]
async fn while_a_tool_in_rust_works() {
    let chat = calling("dawdle", json!({}));
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    chat.registry.register(Tool::new(
        "dawdle",
        "A tool that doesn't come to its end.",
        SafetyLevel::Safe,
        &[],
        Vec::new(),
        Runner::Worker(Arc::new(move |_| {
            // Nothing interrupts its thread; nobody waits for it.
            let _ = released
                .lock()
                .unwrap()
                .recv_timeout(Duration::from_secs(60));
            Ok("Done.".to_owned())
        })),
    ));
    chat.tell(Op::Submit("go".into()));
    chat.emacs
        .wait_for(|event| matches!(event, Event::CallStarted { .. }).then_some(()))
        .await;
    check_call(&chat).await;
    drop(release);
}

#[tokio::test]
async fn while_emacs_works() {
    let chat = calling("read_buffer", json!({}));
    chat.tell(Op::Submit("go".into()));
    // The request to Emacs is never answered.
    until(|| !chat.emacs.requests.lock().unwrap().is_empty()).await;
    check_call(&chat).await;
}

#[tokio::test]
async fn while_the_image_works() {
    let chat = calling("describe_symbol", json!({"symbol": "car"}));
    chat.tell(Op::Submit("go".into()));
    until(|| {
        let requests = chat.emacs.requests.lock().unwrap();
        let is_of_image = |it: &EmacsRequest| matches!(it, EmacsRequest::Image(_));
        requests.iter().any(is_of_image)
    })
    .await;
    check_call(&chat).await;
}
