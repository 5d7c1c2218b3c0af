// SPDX-License-Identifier: GPL-3.0-or-later
//! Conversations that get too long for their model: old results are trimmed, the model writes a summary,
//! and whatever fails or is undone leaves all as it was.

use crate::chat::{Chat, chat, one_call, turns};
use agent_q_core::protocol::{Event, Op, QuestionId, SessionState, TurnOutcome};
use agent_q_core::provider::ModelFacts;
use agent_q_core::tool::{Parameter, ParameterType, Runner, Tool};
use agent_q_core::trust::SafetyLevel;
use serde_json::{Value, json};
use std::sync::Arc;

/// Settings of a chat with the tools NAMES whose model takes so many tokens.
fn window(tokens: u64, names: &[&str]) -> Value {
    json!({"context_window": tokens, "tools": {"chosen": {"names": names}}})
}

pub(super) fn text(size: usize) -> Value {
    json!([{"text": "x".repeat(size)}])
}

/// Roles and beginnings of the messages of the request COUNT, without the system prompt.
fn sent(chat: &Chat, count: usize) -> Vec<String> {
    chat.server.bodies()[count]["messages"].as_array().unwrap()[1..]
        .iter()
        .map(|message| {
            let content = message["content"].as_str().unwrap_or_default();
            let beginning: String = content.chars().take(12).collect();
            format!("{}: {beginning}", message["role"].as_str().unwrap())
        })
        .collect()
}

pub(super) async fn say_all(chat: &Chat, texts: &[&str]) -> TurnOutcome {
    let before = chat
        .emacs
        .collect(|event| matches!(event, Event::TurnEnded { .. }).then_some(()));
    for text in texts {
        chat.tell(Op::Submit((*text).into()));
    }
    chat.ended(before.len() + texts.len()).await
}

pub(super) fn notices(chat: &Chat) -> Vec<String> {
    chat.emacs.collect(|event| match event {
        Event::Notice { text, .. } => Some(text.clone()),
        _ => None,
    })
}

pub(super) fn summaries(chat: &Chat) -> Vec<(usize, String)> {
    chat.emacs.collect(|event| match event {
        Event::Summarized {
            messages, summary, ..
        } => Some((*messages, summary.clone())),
        _ => None,
    })
}

fn configure(chat: &Chat, changes: Value) {
    let changes = serde_json::from_value(changes).unwrap();
    chat.session.settings.lock().unwrap().apply(changes);
}

#[tokio::test]
async fn a_summary_takes_the_place_of_old_messages_before_the_window_is_full() {
    let script = turns(json!([
        text(9000), text(9000), [{"text": "NOTES"}], text(10), text(10),
    ]));
    let chat = chat(&script, window(7000, &["echo"]));
    say_all(&chat, &["one", "two", "three"]).await;
    let bodies = chat.server.bodies();
    // What is to be summarized begins as it was sent before, with the same tools.
    assert_eq!(bodies[2]["tools"], bodies[1]["tools"]);
    let (asked, before) = (
        bodies[2]["messages"].as_array().unwrap(),
        bodies[1]["messages"].as_array().unwrap(),
    );
    assert_eq!(asked[..before.len()], before[..]);
    assert!(
        asked.last().unwrap()["content"]
            .to_string()
            .contains("Write notes")
    );
    let read = bodies[3]["messages"][1]["content"].to_string();
    assert!(read.contains("NOTES") && read.contains("three"), "{read}");
    assert_eq!(sent(&chat, 3).len(), 1);
    let summaries = summaries(&chat);
    assert_eq!(summaries.len(), 1);
    assert_eq!(summaries[0].0, 4);

    configure(&chat, json!({"context_window": null}));
    chat.tell(Op::UndoCompaction);
    say_all(&chat, &["four"]).await;
    let roles = sent(&chat, 4);
    assert_eq!(roles.len(), 7, "{roles:?}");
    assert_eq!(roles[0], "user: one");
    assert!(notices(&chat)[0].contains("reads the messages themselves again"));
}

/// As of the models that write long replies: what they read is the smaller part of the window.
#[tokio::test]
async fn a_limit_of_requests_below_the_window_counts() {
    let script = turns(json!([text(9000), text(9000), [{"text": "NOTES"}], text(10)]));
    let chat = chat(&script, json!({"tools": {"chosen": {"names": ["echo"]}}}));
    {
        let mut settings = chat.session.settings.lock().unwrap();
        settings.provider.as_mut().unwrap().facts = ModelFacts {
            context_window: Some(100_000),
            max_input: Some(7000),
            ..ModelFacts::default()
        };
        assert_eq!(settings.window(), Some(7000));
    }
    say_all(&chat, &["one", "two", "three"]).await;
    assert_eq!(summaries(&chat).len(), 1);
    configure(&chat, json!({"context_window": 50_000}));
    let settings = chat.session.settings.lock().unwrap();
    assert_eq!(settings.window(), Some(50_000), "the user's word wins");
}

#[tokio::test]
async fn a_refusal_as_too_long_leads_to_a_summary_and_the_turn_goes_on() {
    let mut script = turns(json!([text(3000), [], [{"text": "NOTES"}], [{"text": "Done."}]]));
    script["turns"][1] = json!({"status": 400, "body":
        {"error": {"code": "context_length_exceeded", "message": "too many"}}});
    let chat = chat(&script, json!({}));
    assert_eq!(say_all(&chat, &["one", "two"]).await, TurnOutcome::Finished);
    let read = chat.server.bodies()[3]["messages"][1]["content"].to_string();
    assert!(read.contains("NOTES") && read.contains("two"), "{read}");
    assert_eq!(sent(&chat, 3).len(), 1);
}

#[tokio::test]
async fn what_is_too_long_even_so_says_why_and_loses_nothing() {
    let refusal = json!({"status": 400, "body":
        {"error": {"message": "This model's maximum context length is 10 tokens."}}});
    let script = json!({"turns": [refusal], "repeat_last": true});
    let chat = chat(&script, json!({}));
    let TurnOutcome::Failed(why) = chat.say("one").await else {
        panic!("it went on")
    };
    assert!(
        why.contains("maximum context length is 10") && why.contains("or give it :tools nil"),
        "{why}"
    );
    say_all(&chat, &["two"]).await;
    assert!(sent(&chat, 1).contains(&"user: one\n\ntwo".to_owned()));
}

#[tokio::test]
async fn a_message_beyond_the_window_is_not_sent_and_the_chat_goes_on() {
    let script = turns(json!([[{"text": "One."}], [{"text": "Two."}]]));
    let chat = chat(&script, window(8000, &["echo"]));
    assert_eq!(chat.say("one").await, TurnOutcome::Finished);
    chat.tell(Op::Submit("x".repeat(60_000).as_str().into()));
    let TurnOutcome::Failed(why) = chat.ended(2).await else {
        panic!("it was sent")
    };
    assert!(
        why.contains("too long for m") && why.contains("takes 8000"),
        "{why}"
    );
    assert_eq!(chat.server.bodies().len(), 1, "it was not sent");
    chat.tell(Op::Submit("two".into()));
    assert_eq!(chat.ended(3).await, TurnOutcome::Finished);
    assert_eq!(
        sent(&chat, 1),
        ["user: one", "assistant: One.", "user: two"]
    );
}

#[tokio::test]
async fn a_message_that_the_host_finds_too_long_does_not_stay() {
    let script = json!({"turns": [
        {"status": 400, "body": {"error": {"message": "This model's maximum context length is 10 tokens."}}},
        {"steps": [{"text": "Two."}]},
    ]});
    // Nobody knows the window.
    let chat = chat(&script, json!({}));
    let TurnOutcome::Failed(why) = chat.say(&"x".repeat(200_000)).await else {
        panic!("it went on")
    };
    assert!(
        why.contains("maximum context length") && why.contains("M-p"),
        "{why}"
    );
    chat.tell(Op::Submit("two".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    assert_eq!(sent(&chat, 1), ["user: two"]);
}

#[tokio::test]
async fn a_summary_that_fails_changes_nothing() {
    let mut script = turns(json!([text(6000), text(6000), [], text(10), [], text(10)]));
    let refusal = json!({"status": 401, "body": {"error": "no"}});
    script["turns"][2] = refusal.clone();
    script["turns"][4] = refusal;
    let chat = chat(&script, window(5000, &["echo"]));
    assert_eq!(
        say_all(&chat, &["one", "two", "three"]).await,
        TurnOutcome::Finished
    );
    assert_eq!(sent(&chat, 3).len(), 5, "all of it was sent");
    let told = notices(&chat);
    assert!(told[0].contains("could not be summarized"), "{told:?}");
    assert!(summaries(&chat).is_empty());

    chat.tell(Op::Compact);
    assert_eq!(chat.ended(4).await, TurnOutcome::Finished);
    assert!(notices(&chat)[1].contains("the conversation is unchanged"));
}

#[tokio::test]
async fn a_summary_longer_than_what_it_replaces_is_refused() {
    let script = turns(json!([text(6000), text(6000), text(20_000), text(10)]));
    let chat = chat(&script, json!({}));
    say_all(&chat, &["one", "two"]).await;
    chat.tell(Op::Compact);
    assert_eq!(chat.ended(3).await, TurnOutcome::Finished);
    let told = notices(&chat);
    assert!(
        told[0].contains("the conversation is unchanged"),
        "{told:?}"
    );
    assert!(told[0].contains("no shorter"), "{told:?}");
    assert!(summaries(&chat).is_empty());
    say_all(&chat, &["three"]).await;
    assert_eq!(sent(&chat, 3).len(), 5, "all of it was sent");
}

#[tokio::test]
async fn a_summary_is_written_on_demand_and_can_be_cancelled() {
    let script = turns(json!([
        text(6000), text(6000), [{"stall": true}], [{"text": "NOTES"}], text(10),
    ]));
    let chat = chat(&script, json!({}));
    say_all(&chat, &["one", "two"]).await;
    chat.tell(Op::Compact);
    let summarizing = |event: &Event| {
        matches!(
            event,
            Event::State {
                state: SessionState::Summarizing,
                ..
            }
        )
        .then_some(())
    };
    chat.emacs.wait_for(summarizing).await;
    while chat.server.bodies().len() < 3 {
        tokio::task::yield_now().await;
    }
    chat.session.agenda.cancel();
    assert_eq!(chat.ended(3).await, TurnOutcome::Cancelled);
    chat.tell(Op::Compact);
    assert_eq!(chat.ended(4).await, TurnOutcome::Finished);
    assert_eq!(summaries(&chat).len(), 1);
    say_all(&chat, &["three"]).await;
    let read = sent(&chat, 4);
    assert!(read.len() <= 3, "{read:?}");
}

/// A summary stands for the call that the host parsed, so no message says any more that it parses them.
#[tokio::test]
async fn a_quoted_call_runs_nothing_behind_a_summary() {
    let quoted =
        "<tool_call>\n{\"name\": \"echo\", \"arguments\": {\"text\": \"no\"}}\n</tool_call>";
    let script = turns(json!([
        one_call("c1", "echo", json!({"text": "yes"})), text(6000), text(6000), [{"text": "NOTES"}],
        [{"text": quoted}], text(10),
    ]));
    let chat = chat(&script, json!({}));
    say_all(&chat, &["one", "two"]).await;
    chat.tell(Op::Compact);
    assert_eq!(chat.ended(3).await, TurnOutcome::Finished);
    say_all(&chat, &["three"]).await;
    assert!(!sent(&chat, 4).iter().any(|it| it.starts_with("tool")));
    assert_eq!(chat.results().len(), 1);
    assert_eq!(chat.server.bodies().len(), 5);
}

#[tokio::test]
async fn a_model_with_a_smaller_window_summarizes_part_by_part() {
    let script = turns(json!([
        text(5000), text(5000), text(5000), text(5000),
        [{"text": "NOTES 1"}], [{"text": "NOTES 2"}], [{"text": "NOTES 3"}], [{"text": "NOTES 4"}], text(10),
    ]));
    let chat = chat(&script, window(100_000, &["echo"]));
    say_all(&chat, &["one", "two", "three", "four"]).await;
    configure(&chat, json!({"context_window": 4500}));
    assert_eq!(say_all(&chat, &["five"]).await, TurnOutcome::Finished);
    let bodies = chat.server.bodies();
    assert!(bodies.len() > 6, "{} requests", bodies.len());
    for body in &bodies[4..] {
        let size = body["messages"].to_string().len() + body["tools"].to_string().len();
        assert!(size < 4500 * 33 / 10, "{size}");
    }
    assert!(
        bodies[5]["messages"][1]["content"]
            .to_string()
            .contains("NOTES 1")
    );
}

/// A chat of four long turns whose model now takes 4500 tokens, with ENDING for what it is sent of the
/// second part of a summary.
async fn smaller(ending: Value) -> Chat {
    let mut script = turns(json!([
        text(5000), text(5000), text(5000), text(5000),
        [{"text": "NOTES 1"}], [{"text": "NOTES 2"}], [{"text": "NOTES 3"}], [{"text": "NOTES 4"}], text(10),
    ]));
    script["turns"][5] = ending;
    let chat = chat(&script, window(100_000, &["echo"]));
    say_all(&chat, &["one", "two", "three", "four"]).await;
    configure(&chat, json!({"context_window": 4500}));
    chat
}

#[tokio::test]
async fn a_summary_of_which_a_later_part_fails_changes_nothing() {
    let chat = smaller(json!({"status": 401, "body": {"error": "no"}})).await;
    chat.tell(Op::Compact);
    assert_eq!(chat.ended(5).await, TurnOutcome::Finished);
    let told = notices(&chat);
    assert!(
        told[0].contains("the conversation is unchanged"),
        "{told:?}"
    );
    assert!(summaries(&chat).is_empty());
    configure(&chat, json!({"context_window": 100_000}));
    say_all(&chat, &["five"]).await;
    assert_eq!(sent(&chat, 6).len(), 9, "all of it was sent");
}

#[tokio::test]
async fn a_summary_that_is_cancelled_in_a_later_part_changes_nothing() {
    let chat = smaller(json!({"steps": [{"stall": true}]})).await;
    chat.tell(Op::Compact);
    while chat.server.bodies().len() < 6 {
        tokio::task::yield_now().await;
    }
    chat.session.agenda.cancel();
    assert_eq!(chat.ended(5).await, TurnOutcome::Cancelled);
    assert!(summaries(&chat).is_empty());
    configure(&chat, json!({"context_window": 100_000}));
    say_all(&chat, &["five"]).await;
    assert_eq!(sent(&chat, 6).len(), 9, "all of it was sent");
}

#[tokio::test]
async fn a_summary_of_several_parts_is_undone_as_one() {
    let chat = smaller(json!({"steps": [{"text": "NOTES 2"}]})).await;
    chat.tell(Op::Compact);
    assert_eq!(chat.ended(5).await, TurnOutcome::Finished);
    assert_eq!(summaries(&chat).len(), 1);
    chat.tell(Op::UndoCompaction);
    let undone = |event: &Event| match event {
        Event::Notice { text, .. } => text.contains("themselves again").then_some(()),
        _ => None,
    };
    chat.emacs.wait_for(undone).await;
    configure(&chat, json!({"context_window": 100_000}));
    let parts = chat.server.bodies().len();
    assert!(parts > 5, "{parts} requests");
    say_all(&chat, &["five"]).await;
    assert_eq!(sent(&chat, parts).len(), 9, "all of it was sent");
}

#[tokio::test]
async fn old_results_are_trimmed_first_and_can_be_read_again() {
    let long = |letter: &str| one_call(letter, "long", json!({"text": letter}));
    let script = turns(json!([
        long("a"),
        [{"text": "A"}],
        long("b"),
        [{"text": "B"}],
        one_call("r", "read_result", json!({"number": 3})),
        [{"text": "Read."}],
    ]));
    let chat = chat(&script, window(9000, &["long", "read_result"]));
    chat.registry.register(Tool::new(
        "long",
        "Repeats a text.",
        SafetyLevel::Safe,
        &[],
        vec![Parameter::required("text", ParameterType::String, "")],
        Runner::Worker(Arc::new(|arguments| {
            Ok(arguments.required_text("text").repeat(9000))
        })),
    ));
    say_all(&chat, &["one", "two"]).await;
    configure(&chat, json!({"context_window": 7500}));
    assert_eq!(say_all(&chat, &["three"]).await, TurnOutcome::Finished);
    let messages = chat.server.bodies()[4]["messages"].clone();
    let trimmed = messages[3]["content"].as_str().unwrap();
    assert!(
        trimmed.len() < 1000 && trimmed.contains("read_result with number 3"),
        "{} bytes",
        trimmed.len()
    );
    assert!(
        messages[7]["content"].as_str().unwrap().len() > 9000,
        "the newest stay"
    );
    let read = chat.server.bodies()[5]["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert!(
        read["content"]
            .as_str()
            .unwrap()
            .contains(&"a".repeat(9000))
    );
    assert!(notices(&chat)[0].contains("only the beginning of 1 old result now"));
    assert!(summaries(&chat).is_empty());
}

#[tokio::test]
async fn what_fills_the_window_is_told() {
    let script = turns(json!([[{"text": "Hello."}, {"usage": [500, 10]}]]));
    let chat = chat(&script, window(8000, &["echo"]));
    chat.say("one").await;
    chat.tell(Op::ShowWindow(QuestionId(7)));
    let report = chat
        .emacs
        .wait_for(|event| match event {
            Event::WindowShown { report, .. } => Some(report.clone().unwrap()),
            _ => None,
        })
        .await;
    assert_eq!(report["window"], 8000);
    assert_eq!(report["compacts_at"], 6400);
    let names: Vec<&str> = report["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["System prompt", "Tools", "Your messages", "Answers"]
    );
    // What the host counted is what is estimated.
    let tokens = report["tokens"].as_u64().unwrap();
    assert!((500..550).contains(&tokens), "{tokens}");
    let filled = chat.emacs.collect(|event| match event {
        Event::WindowFilled { tokens, window, .. } => Some((*tokens, *window)),
        _ => None,
    });
    assert_eq!(filled.last(), Some(&(510, Some(8000))));
}

#[tokio::test]
async fn a_window_that_does_not_hold_the_tools_is_told_with_its_numbers() {
    let refusal = json!({"status": 400, "body": {"error": {"code": 400, "type": "exceed_context_size_error",
        "message": "request (7932 tokens) exceeds the context size (4096 tokens)"}}});
    let chat = chat(&json!({"turns": [refusal]}), json!({}));
    let TurnOutcome::Failed(why) = chat.say("go").await else {
        panic!("it went on")
    };
    for part in [
        "exceeds the context size (4096 tokens). agent-q needs about 8k tokens",
        "a window of 32k or more",
    ] {
        assert!(why.contains(part), "{part:?} is not in {why}");
    }
}
