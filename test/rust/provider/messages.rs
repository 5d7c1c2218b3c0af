// SPDX-License-Identifier: GPL-3.0-or-later
//! What Anthropic's Messages do their own way: a small example of ours for each rule.

use agent_q_core::protocol::{CallArguments, CallOutcome};
use agent_q_core::provider::dialect::request_body;
use agent_q_core::provider::retry::RetryAdvice;
use agent_q_core::provider::{
    ChatMessage, Dialect, Effort, FailureKind, Finish, MessagePart, ModelReply, ProviderError,
    ProviderSettings, ToolChoice, Usage,
};
use serde_json::{Value, json};

use crate::matrix::{call, request, result, settings};
use crate::said::{answer, events, read, sent, user};

pub fn start(id: &str) -> Value {
    json!({"type": "message_start", "message": {"id": id, "usage": {"input_tokens": 5,
        "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}}})
}

pub fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

pub fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

pub fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

pub fn ended(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

pub fn messages(payloads: Vec<Value>, reason: &str) -> Result<ModelReply, ProviderError> {
    let all: Vec<Value> = [start("m")]
        .into_iter()
        .chain(payloads)
        .chain(ended(reason))
        .collect();
    read(Dialect::Messages, &events(&all))
}

pub fn tool_use(index: u64) -> Vec<Value> {
    vec![
        block(
            index,
            json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}),
        ),
        delta(
            index,
            json!({"type": "input_json_delta", "partial_json": "{\"at\":"}),
        ),
        delta(
            index,
            json!({"type": "input_json_delta", "partial_json": "\"a\"}"}),
        ),
        stop(index),
    ]
}

#[test]
fn messages_thinking_goes_back_as_it_came_with_its_signature() {
    let mut payloads = vec![
        block(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "SIG"})),
        stop(0),
        block(1, json!({"type": "redacted_thinking", "data": "DATA"})),
        stop(1),
        block(
            2,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        stop(2),
    ];
    payloads.extend(tool_use(3));
    let reply = messages(payloads, "tool_use").expect("a reply");
    assert_eq!(
        (reply.thinking().as_str(), &reply.finish),
        ("Hm", &Finish::ToolCalls)
    );
    let history = vec![
        user("hi"),
        answer(Dialect::Messages, reply.parts),
        result("toolu_1", "ok"),
    ];
    let body = sent(Dialect::Messages, history);
    assert_eq!(
        body["messages"][1]["content"],
        json!([
            {"type": "thinking", "thinking": "Hm", "signature": "SIG"},
            {"type": "redacted_thinking", "data": "DATA"},
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "a"}},
        ])
    );
}

#[test]
fn messages_count_what_came_out_of_the_cache_and_went_into_it() {
    let payloads = vec![block(0, json!({"type": "text", "text": "Hi"})), stop(0)];
    let reply = messages(payloads, "end_turn").expect("a reply");
    assert_eq!(
        reply.usage,
        Some(Usage {
            input_tokens: 125,
            output_tokens: 9,
            cache_read_tokens: 100,
            cache_write_tokens: 20,
        })
    );
}

#[test]
fn messages_mark_tools_system_and_both_ends_of_the_history_for_the_cache() {
    let history = vec![
        ChatMessage::System("Be brief.".into()),
        user("one"),
        answer(Dialect::Messages, vec![MessagePart::call(call("a", "{}"))]),
        result("a", "ok"),
    ];
    let body = sent(Dialect::Messages, history);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body["tools"][0]["cache_control"], mark);
    assert_eq!(body["system"][0]["cache_control"], mark);
    assert_eq!(body["messages"][0]["content"][0]["cache_control"], mark);
    assert_eq!(body["messages"][2]["content"][0]["cache_control"], mark);
    assert_eq!(body.to_string().matches("cache_control").count(), 4);
}

#[test]
fn messages_mark_only_the_last_two_of_many_users_messages() {
    let said = |number: usize| match number % 2 {
        0 => user("one"),
        _ => answer(Dialect::Messages, vec![MessagePart::text("two".into())]),
    };
    for (count, marked) in [(7, [4, 6]), (8, [4, 6])] {
        let body = sent(Dialect::Messages, (0..count).map(said).collect());
        let messages = body["messages"].as_array().expect("messages");
        assert_eq!(messages.len(), count);
        for (index, message) in messages.iter().enumerate() {
            let has_mark = message.to_string().contains("cache_control");
            assert_eq!(has_mark, marked.contains(&index), "{index} of {count}");
        }
    }
}

#[test]
fn messages_put_results_before_words_and_say_which_failed() {
    let history = vec![
        user("one"),
        answer(
            Dialect::Messages,
            vec![MessagePart::call(call("a.b", "{}"))],
        ),
        ChatMessage::Tool {
            call_id: "a.b".into(),
            content: "No.".into(),
            outcome: CallOutcome::Denied,
        },
        user("two"),
    ];
    let body = sent(Dialect::Messages, history);
    let last = &body["messages"][2];
    assert_eq!(
        (&last["role"], &last["content"][0]["type"]),
        (&json!("user"), &json!("tool_result"))
    );
    assert_eq!(last["content"][0]["is_error"], true);
    assert_eq!(last["content"][1]["text"], "two");
    assert_eq!(
        last["content"][0]["tool_use_id"],
        body["messages"][1]["content"][0]["id"]
    );
}

#[test]
fn messages_run_calls_whatever_the_reason_says() {
    let reply = messages(tool_use(0), "end_turn").expect("a reply");
    assert_eq!(reply.finish, Finish::ToolCalls);
    assert!(matches!(
        reply.calls()[0].arguments,
        CallArguments::Object(_)
    ));
}

#[test]
fn messages_calls_run_only_when_the_message_ended_well() {
    let open = tool_use(0)[..3].to_vec();
    let reply = messages(open.clone(), "max_tokens").expect("a reply");
    assert_eq!(reply.calls()[0].arguments, CallArguments::Truncated);
    // A good reason ends what is open, and needs no end mark behind it.
    let mut unmarked = [vec![start("m")], open].concat();
    unmarked.push(ended("tool_use")[0].clone());
    let reply = read(Dialect::Messages, &events(&unmarked)).expect("a reply");
    assert!(matches!(
        reply.calls()[0].arguments,
        CallArguments::Object(_)
    ));
    let mut cut = vec![start("m")];
    cut.extend(tool_use(0));
    let error = read(Dialect::Messages, &events(&cut)).expect_err("an interrupted reply");
    assert_eq!(error.kind, FailureKind::Interrupted);
    let partial = error.partial.expect("what had come");
    assert_eq!(partial.calls()[0].arguments, CallArguments::Truncated);
}

#[test]
fn messages_may_pause_and_refuse() {
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let payloads = vec![
        block(0, search),
        delta(
            0,
            json!({"type": "input_json_delta", "partial_json": "{\"query\":\"x\"}"}),
        ),
        stop(0),
    ];
    let reply = messages(payloads, "pause_turn").expect("a reply");
    assert_eq!(reply.finish, Finish::Paused);
    let body = sent(
        Dialect::Messages,
        vec![user("hi"), answer(Dialect::Messages, reply.parts)],
    );
    assert_eq!(
        body["messages"][1]["content"][0]["input"],
        json!({"query": "x"})
    );
    let refusal = json!({"type": "message_delta", "delta": {"stop_reason": "refusal",
        "stop_details": {"explanation": "Not this."}}});
    let body = events(&[start("m"), refusal, json!({"type": "message_stop"})]);
    let reply = read(Dialect::Messages, &body).expect("a reply");
    assert_eq!(reply.finish, Finish::Refused("Not this.".into()));
}

#[test]
fn messages_report_errors_in_mid_stream() {
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let failed =
        read(Dialect::Messages, &events(&[start("m"), error.clone()])).expect_err("an error");
    assert_eq!(
        (failed.kind, failed.retry),
        (FailureKind::Reported, RetryAdvice::Busy)
    );
    let begun = [
        start("m"),
        block(0, json!({"type": "text", "text": "So far"})),
        error,
    ];
    let failed = read(Dialect::Messages, &events(&begun)).expect_err("an error");
    assert_eq!(failed.retry, RetryAdvice::Never);
    assert_eq!(failed.partial.expect("what had come").text(), "So far");
}

#[test]
fn unreadable_events_cost_nothing_but_themselves() {
    let messages = events(&[
        start("m"),
        block(0, json!({"type": "text", "text": "So far"})),
    ]);
    let responses = events(&[
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "So far"}),
    ]);
    let unreadable = [
        (
            Dialect::Messages,
            &messages,
            r#"{"type": "content_block_delta", "index": 0, "delta": "no object"}"#,
            "So far",
        ),
        (
            Dialect::Messages,
            &messages,
            r#"{"type": "content_block_delta", "index": 1, "index": 0, "delta": {"type": "text_delta", "text": "x"}}"#,
            "So farx",
        ),
        (
            Dialect::Responses,
            &responses,
            r#"{"type": "response.output_text.delta", "delta": "x", "delta": "y", "output_index": 0}"#,
            "So fary",
        ),
        (Dialect::Responses, &responses, "ping", "So far"),
    ];
    for (dialect, before, event, text) in unreadable {
        let later = match dialect {
            Dialect::Messages => events(&[tool_use(1), ended("tool_use")].concat()),
            _ => events(&[json!({"type": "response.completed", "response": {}})]),
        };
        let reply = read(dialect, &format!("{before}data: {event}\n\n{later}")).expect("a reply");
        assert_eq!(reply.text(), text, "{event}");
        let calls = usize::from(dialect == Dialect::Messages);
        assert_eq!(reply.calls().len(), calls, "{event}");
        let cut = read(dialect, &format!("{before}data: {event}\n\n")).expect_err("no end");
        assert_eq!(cut.kind, FailureKind::Interrupted);
    }
}

#[test]
fn messages_that_gateways_repeat_or_splice_are_one() {
    let text = |text: &str| vec![block(0, json!({"type": "text", "text": text})), stop(0)];
    let repeated = [
        vec![start("m")],
        text("a"),
        vec![start("m")],
        ended("end_turn"),
    ]
    .concat();
    assert_eq!(
        read(Dialect::Messages, &events(&repeated))
            .expect("a reply")
            .text(),
        "a"
    );
    let spliced = [
        vec![start("m")],
        tool_use(0),
        vec![start("n")],
        text("b"),
        ended("end_turn"),
    ]
    .concat();
    let reply = read(Dialect::Messages, &events(&spliced)).expect("a reply");
    assert_eq!((reply.text().as_str(), reply.calls().len()), ("b", 0));
}

#[test]
fn messages_that_are_not_streamed_are_read_too() {
    let body = json!({"type": "message", "id": "m", "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 2},
        "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "x"}}]});
    let reply = read(Dialect::Messages, &body.to_string()).expect("a reply");
    assert_eq!(reply.text(), "Let me look.");
    assert_eq!(reply.calls(), [&call("a", "{\"at\":\"x\"}")]);
}

#[test]
fn messages_do_not_force_a_call_while_thinking() {
    let settings = ProviderSettings {
        effort: Some(Effort::High),
        ..settings(Dialect::Messages)
    };
    let mut request = request(vec![user("hi")]);
    request.tool_choice = ToolChoice::Required;
    assert_eq!(
        request_body(&settings, &request)["tool_choice"],
        json!({"type": "auto"})
    );
}
