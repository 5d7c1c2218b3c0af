// SPDX-License-Identifier: GPL-3.0-or-later
//! Whole turns against the scripted server: what is sent, what is shown, what is kept, and that
//! every way out of a turn leaves a session that can go on.

use crate::chat::{calls, chat, fence, message, one_call, turns};
use agent_q_core::protocol::{
    CallOutcome, Decision, EmacsError, EmacsReply, Event, Op, Sending, TurnOutcome, UserMessage,
};
use serde_json::json;

#[tokio::test]
async fn a_tools_result_reaches_the_model_and_the_answer_the_user() {
    let script = turns(json!([
        one_call("c1", "echo", json!({"text": "hi"})),
        [{"text": "It "}, {"text": "said HI."}],
    ]));
    let chat = chat(&script, json!({}));
    assert_eq!(chat.say("say hi").await, TurnOutcome::Finished);
    assert_eq!(chat.shown(), "It said HI.");
    assert_eq!(chat.results(), [(CallOutcome::Succeeded, "HI".to_owned())]);
    assert_eq!(
        chat.last_messages(),
        [
            message("user", "say hi"),
            message("assistant", ""),
            message("tool", "the tool echo: HI"),
        ]
    );
    let bodies = chat.server.bodies();
    assert_eq!(bodies[1]["messages"][3]["tool_call_id"], "c1");
}

#[tokio::test]
async fn unknown_tools_and_broken_arguments_are_told_to_the_model() {
    let script = turns(json!([
        calls(json!([
            {"id": "a", "name": "ecco", "arguments": {}},
            {"id": "b", "name": "echo", "arguments": "{\"text\": "},
            {"id": "c", "name": "echo", "arguments": {"text": "ok"}},
        ])),
        [{"text": "Sorry."}],
    ]));
    let chat = chat(&script, json!({}));
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    let messages = chat.last_messages();
    assert_eq!(
        messages[2].1,
        "Error: Unknown tool: ecco. Did you mean echo?"
    );
    assert!(messages[3].1.contains("not a valid JSON object"));
    assert_eq!(messages[4].1, "the tool echo: OK");
}

#[tokio::test]
async fn a_call_cut_off_by_length_never_runs() {
    let script = turns(json!([
        [
            {"text": "Let me see."},
            {"tool_calls": [{"id": "a", "name": "erase", "arguments": "{\"text\": \"x\"}"}]},
            {"finish": "length"},
        ],
        [{"text": "ok"}],
    ]));
    let chat = chat(&script, json!({}));
    let TurnOutcome::Interrupted(why) = chat.say("go").await else {
        panic!("the turn was not interrupted")
    };
    assert!(why.contains("token limit"), "{why}");
    assert_eq!(chat.results()[0].0, CallOutcome::Failed);
    chat.tell(Op::Submit("again".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    assert_eq!(
        chat.last_messages(),
        [
            message("user", "go"),
            message("assistant", "Let me see."),
            message("user", "again"),
        ]
    );
}

#[tokio::test]
async fn a_lost_connection_keeps_what_came_and_the_chat_goes_on() {
    let script = turns(json!([[{"text": "Half"}, {"cut": true}], [{"text": "Whole"}]]));
    let chat = chat(&script, json!({}));
    assert!(matches!(chat.say("go").await, TurnOutcome::Interrupted(_)));
    assert_eq!(chat.shown(), "Half");
    chat.tell(Op::Submit("again".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    assert_eq!(chat.last_messages()[1], message("assistant", "Half"));
}

#[tokio::test]
async fn a_denial_is_a_result_for_the_model() {
    let script = turns(json!([
        one_call("c", "erase", json!({"text": "x"})),
        [{"text": "As you wish."}],
    ]));
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("go".into()));
    let call = chat.asked().await;
    let denied = Decision::Denied(Some("not now".to_owned()));
    assert!(chat.approvals.decide(call, denied));
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
    assert_eq!(
        chat.last_messages()[2],
        message(
            "tool",
            "Error: User denied tool execution: not now\nThe call did not run and changed nothing."
        )
    );
}

#[tokio::test]
async fn messages_sent_meanwhile_wait_their_turn() {
    let script = turns(json!([
        [{"pause_ms": 20}, {"text": "1"}],
        [{"text": "2"}],
    ]));
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("first".into()));
    chat.tell(Op::Submit("second".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    assert_eq!(
        chat.last_messages(),
        [
            message("user", "first"),
            message("assistant", "1"),
            message("user", "second"),
        ]
    );
}

#[tokio::test]
async fn the_console_runs_tools_without_a_model() {
    let chat = chat(&turns(json!([])), json!({"provider": null}));
    chat.tell(Op::Console("/echo hello".into()));
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
    assert_eq!(
        chat.results(),
        [(CallOutcome::Succeeded, "HELLO".to_owned())]
    );
    chat.tell(Op::Console("/ehco hello".into()));
    assert!(matches!(chat.ended(2).await, TurnOutcome::Failed(why) if why.contains("echo")));
    chat.tell(Op::Submit("hi".into()));
    assert!(matches!(chat.ended(3).await, TurnOutcome::Failed(why) if why.contains("No model")));
    assert!(chat.server.bodies().is_empty());
}

#[tokio::test]
async fn a_tool_that_emacs_serves_reports_emacss_failure() {
    let script = turns(json!([
        one_call("c", "read_buffer", json!({})),
        [{"text": "I see."}],
    ]));
    let chat = chat(&script, json!({}));
    // Whether the buffer visits a file is asked first.
    chat.emacs.replies.lock().unwrap().extend([
        EmacsReply::done("null".to_owned()),
        EmacsReply::Failed(EmacsError::Signalled("Gone.".to_owned())),
    ]);
    assert_eq!(chat.say("read").await, TurnOutcome::Finished);
    let told = chat.last_messages().swap_remove(2).1;
    let fenced = fence::read(&told["Error:\n".len()..]).unwrap();
    assert_eq!(
        fenced.from + ": " + &fenced.text,
        "the user's buffer: Gone."
    );
}

/// A session with the script's model behind Anthropic's dialect.
fn in_messages(steps: serde_json::Value) -> crate::chat::Chat {
    let chat = chat(&turns(steps), json!({}));
    let provider = json!({"provider": {"name": "test", "base_url": chat.server.base_url(), "model": "m", "dialect": "messages"}});
    let changes = serde_json::from_value(provider).unwrap();
    chat.session.settings.lock().unwrap().apply(changes);
    chat
}

fn event(payload: &serde_json::Value) -> serde_json::Value {
    json!({"raw": format!("data: {payload}\n\n")})
}

#[tokio::test]
async fn what_was_refused_is_not_sent_again() {
    let refusal = json!({"type": "message_delta", "delta": {"stop_reason": "refusal",
        "stop_details": {"explanation": "Not this."}}});
    let chat = in_messages(json!([
        [event(&refusal), {"done": true}],
        [{"text": "Hello."}],
    ]));
    let TurnOutcome::Failed(why) = chat.say("something bad").await else {
        panic!("it went on");
    };
    assert!(
        why.contains("refused") && why.contains("Not this."),
        "{why}"
    );
    chat.tell(Op::Submit("hi".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    let body = chat.server.bodies()[1].to_string();
    assert!(
        body.contains("hi") && !body.contains("something bad"),
        "{body}"
    );
}

/// TEXT as the user sends it the second time, with CONTEXT.
fn again(text: &str, context: Option<&str>) -> Op {
    Op::Submit(UserMessage {
        context: context.map(str::to_owned),
        sending: Sending::Again,
        ..text.into()
    })
}

#[tokio::test]
async fn a_message_that_is_sent_again_is_read_once_with_what_went_along() {
    let script = json!({"turns": [
        {"status": 400, "body": {"error": {"message": "No."}}},
        {"steps": [{"text": "It doubles."}]},
        {"steps": [{"text": "As I said."}]},
    ]});
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit(UserMessage {
        context: Some("<data-1>(* 2 x)</data-1>".to_owned()),
        ..UserMessage::from("What is this?")
    }));
    assert!(matches!(chat.ended(1).await, TurnOutcome::Failed(_)));
    chat.tell(again("What is this?", Some("Now in b.lisp")));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    let sent = "<data-1>(* 2 x)</data-1>\n\nWhat is this?\n\nNow in b.lisp";
    assert_eq!(chat.last_messages(), [message("user", sent)]);

    // What has an answer is asked anew.
    chat.tell(again("What is this?", None));
    assert_eq!(chat.ended(3).await, TurnOutcome::Finished);
    let answer = message("assistant", "It doubles.");
    assert_eq!(
        chat.last_messages(),
        [message("user", sent), answer, message("user", sent)]
    );
}

#[tokio::test]
async fn what_was_refused_can_be_sent_again_with_what_went_along() {
    let refusal = json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}});
    let chat = in_messages(json!([
        [event(&refusal), {"done": true}],
        [{"text": "Hello."}],
    ]));
    chat.tell(Op::Submit(UserMessage {
        context: Some("along".to_owned()),
        ..UserMessage::from("hi")
    }));
    assert!(matches!(chat.ended(1).await, TurnOutcome::Failed(_)));
    chat.tell(again("hi", None));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    let body = &chat.server.bodies()[1];
    assert_eq!(body["messages"].as_array().map(Vec::len), Some(1), "{body}");
    assert!(body["messages"].to_string().contains("along"), "{body}");
}

#[tokio::test]
async fn what_was_paused_goes_on_by_itself() {
    let pause = json!({"type": "message_delta", "delta": {"stop_reason": "pause_turn"}});
    let chat = in_messages(json!([
        [{"text": "Wait. "}, event(&pause), {"done": true}],
        [{"text": "Done."}],
    ]));
    assert_eq!(chat.say("look").await, TurnOutcome::Finished);
    assert_eq!(chat.shown(), "Wait. Done.");
    let body = &chat.server.bodies()[1];
    assert_eq!(body["messages"][1]["content"][0]["text"], "Wait. ");
}

#[tokio::test]
async fn a_chat_goes_on_when_its_model_speaks_another_dialect() {
    let turn = [
        json!([{"reasoning": "Hm"}, {"text": "Let me see."},
            {"tool_calls": [{"id": "the.call:1", "name": "echo", "arguments": {"text": "hi"}}]}]),
        json!([{"text": "It said HI."}]),
    ];
    let names = [
        "messages",
        "gemini",
        "chat-completions",
        "responses",
        "ollama",
        "messages",
    ];
    let script: Vec<_> = names.iter().flat_map(|_| turn.clone()).collect();
    let chat = chat(&turns(script.into()), json!({}));
    for (count, name) in (1..).zip(names) {
        let provider = json!({"provider": {"name": "test", "base_url": chat.server.base_url(), "model": name, "dialect": name}});
        let changes = serde_json::from_value(provider).unwrap();
        chat.session.settings.lock().unwrap().apply(changes);
        chat.tell(Op::Submit("say hi".into()));
        assert_eq!(chat.ended(count).await, TurnOutcome::Finished, "{name}");
        let request = chat.server.bodies().pop().unwrap().to_string();
        for text in ["say hi", "the tool echo"] {
            assert_eq!(request.matches(text).count(), count, "{name}: {text}");
        }
        // Only what this model sealed itself comes back to it.
        let own = names[..count].iter().filter(|&&it| it == name).count();
        let seals = match name {
            "chat-completions" | "ollama" => 0,
            _ => own,
        };
        assert_eq!(request.matches("scripted-seal").count(), seals, "{name}");
    }
    assert_eq!(chat.results().len(), names.len());
}

#[tokio::test]
async fn a_call_that_the_host_could_not_read_is_asked_for_once_more() {
    let failed = json!({"error": {"message": "Failed to call a function. See 'failed_generation'.",
        "code": "tool_use_failed", "failed_generation": "<function=echo>{\"text\": </function>"}});
    let refused = json!({"status": 400, "body": failed});
    let event = json!({"steps": [{"raw": format!("data: {failed}\n\n")}]});
    for answer in [&refused, &event] {
        let mut script = turns(json!([
            [],
            one_call("c", "echo", json!({"text": "hi"})),
            [{"text": "Done."}],
            [{"text": "Well."}],
        ]));
        script["turns"][0] = answer.clone();
        let chat = chat(&script, json!({}));
        assert_eq!(chat.say("say hi").await, TurnOutcome::Finished);
        assert_eq!(chat.shown(), "Done.");
        let shown = chat.emacs.collect(|event| match event {
            Event::Notice { text, .. } => Some(text.clone()),
            _ => None,
        });
        assert!(
            shown
                .iter()
                .any(|text| text.contains("It wrote:\n<function=echo>")),
            "{shown:?}"
        );
        // The note is said once, and is no part of the conversation.
        chat.tell(Op::Submit("more".into()));
        assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
        let noted: Vec<bool> = chat
            .server
            .bodies()
            .iter()
            .map(|body| body["messages"].to_string().contains("could not be read"))
            .collect();
        assert_eq!(noted, [false, true, false, false]);
    }
}

#[tokio::test]
async fn a_host_that_reads_no_call_is_asked_twice() {
    let failed =
        json!({"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}});
    let script = json!({"turns": [{"status": 400, "body": failed}], "repeat_last": true});
    let chat = chat(&script, json!({}));
    let outcome = chat.say("say hi").await;
    assert!(matches!(outcome, TurnOutcome::Failed(_)));
    assert_eq!(chat.server.requests().len(), 2);
}
