// SPDX-License-Identifier: GPL-3.0-or-later
//! The reducer: small bodies of our own, one for each thing that some server does.

use std::collections::BTreeMap;

use agent_q_core::protocol::CallArguments;
use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::retry::RetryAdvice;
use agent_q_core::provider::{FailureKind, Finish, ModelReply, ProviderError, StreamEvent, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Read a body in pieces of `size`: the outcome, and the text and reasoning shown meanwhile.
fn read_in(body: &[u8], size: usize) -> (Result<ModelReply, ProviderError>, String, String) {
    let mut reader = ReplyReader::default();
    let mut events = Vec::new();
    for chunk in body.chunks(size.max(1)) {
        events.extend(reader.push(chunk));
    }
    let (result, last) = reader.finish();
    events.extend(last);
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut arguments: BTreeMap<usize, String> = BTreeMap::new();
    for event in events {
        match event {
            StreamEvent::Text(more) => text.push_str(&more),
            StreamEvent::Reasoning(more) => reasoning.push_str(&more),
            StreamEvent::Arguments { call, more, .. } => {
                arguments.entry(call).or_default().push_str(&more);
            }
            StreamEvent::Retrying { .. } => panic!("a reader does not retry"),
        }
    }
    if let Ok(reply) = &result {
        for (call, arguments) in arguments {
            assert_eq!(reply.calls()[call].raw_arguments, arguments);
        }
    }
    (result, text, reasoning)
}

fn read(body: &str) -> Result<ModelReply, ProviderError> {
    read_in(body.as_bytes(), body.len()).0
}

fn sse(payloads: &[Value]) -> String {
    payloads
        .iter()
        .map(|it| format!("data: {it}\n\n"))
        .collect()
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn text(content: &str) -> Value {
    delta(json!({"content": content}))
}

const DONE: &str = "data: [DONE]\n\n";

#[test]
fn an_ordinary_stream() {
    let body = sse(&[
        delta(json!({"role": "assistant", "content": null})),
        delta(json!({"reasoning_content": "Hm"})),
        text("Hel"),
        text("lo"),
        finish("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}),
    ]) + DONE;
    for size in [1, 5, 10_000] {
        let (result, text, reasoning) = read_in(body.as_bytes(), size);
        let reply = result.expect("a whole reply");
        assert_eq!((text.as_str(), reasoning.as_str()), ("Hello", "Hm"));
        assert_eq!(
            (reply.text().as_str(), reply.thinking().as_str()),
            ("Hello", "Hm")
        );
        assert_eq!(reply.finish, Finish::Stop);
        assert_eq!(
            reply.usage,
            Some(Usage {
                input_tokens: 9,
                output_tokens: 4,
                ..Usage::default()
            })
        );
    }
}

#[test]
fn reasoning_under_either_name_counts_once() {
    let body = sse(&[
        delta(json!({"reasoning": "a", "reasoning_content": "a"})),
        delta(json!({"reasoning": "b", "reasoning_content": null})),
        text("x"),
        finish("stop"),
    ]);
    assert_eq!(read(&body).expect("a reply").thinking(), "ab");
}

#[test]
fn content_may_be_a_list_of_text_and_thinking() {
    let body = sse(&[
        delta(
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
        ),
        delta(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})),
        finish("stop"),
    ]);
    let reply = read(&body).expect("a reply");
    assert_eq!(
        (reply.text().as_str(), reply.thinking().as_str()),
        ("ab", "hm")
    );
}

#[test]
fn the_text_so_far_beside_a_delta_is_not_repeated() {
    let both = |delta: &str, so_far: &str| json!({"choices": [{"delta": {"content": delta}, "message": {"content": so_far}}]});
    let body = sse(&[both("a", "a"), both("b", "ab"), finish("stop")]);
    assert_eq!(read(&body).expect("a reply").text(), "ab");
}

#[test]
fn a_refusal_is_shown_as_text() {
    let body = sse(&[delta(json!({"refusal": "I won't."})), finish("stop")]);
    assert_eq!(read(&body).expect("a reply").text(), "I won't.");
}

#[test]
fn the_first_call_may_share_its_delta_with_the_role_and_the_finish() {
    let call = json!([{"id": "abcdefghi", "function": {"name": "f", "arguments": "{}"}}]);
    let body = sse(&[
        json!({"choices": [{"delta": {"role": "assistant", "tool_calls": call},
        "finish_reason": "tool_calls"}]}),
    ]);
    let reply = read(&body).expect("a reply");
    assert_eq!(reply.calls().len(), 1);
    assert_eq!(reply.finish, Finish::ToolCalls);
}

#[test]
fn the_calls_decide_whatever_the_reason_says() {
    let call = delta(
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}),
    );
    let reply = read(&sse(&[call, finish("stop")])).expect("a reply");
    assert_eq!(reply.finish, Finish::ToolCalls);
    assert!(matches!(
        reply.calls()[0].arguments,
        CallArguments::Object(_)
    ));
    let reply = read(&sse(&[text("x"), finish("tool_calls")])).expect("a reply");
    assert_eq!(reply.finish, Finish::Stop);
}

#[test]
fn a_reason_that_is_repeated_changes_nothing() {
    let body = sse(&[text("a"), finish("length"), finish("stop"), text("b")]) + DONE;
    let reply = read(&body).expect("a reply");
    assert_eq!(
        (reply.text().as_str(), reply.finish),
        ("ab", Finish::Length)
    );
}

#[test]
fn calls_cut_by_length_or_filter_never_run() {
    for reason in ["length", "content_filter"] {
        let call = delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}),
        );
        let reply = read(&sse(&[call, finish(reason)])).expect("a reply");
        assert_eq!(reply.calls()[0].arguments, CallArguments::Truncated);
    }
}

#[test]
fn usage_may_come_in_any_chunk() {
    let groq = json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}],
        "x_groq": {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}});
    let usage = read(&sse(&[groq])).expect("a reply").usage;
    assert_eq!(
        usage,
        Some(Usage {
            input_tokens: 1,
            output_tokens: 2,
            ..Usage::default()
        })
    );
}

#[test]
fn a_stream_without_end_mark_is_whole_after_its_reason() {
    assert_eq!(
        read(&sse(&[text("a"), finish("stop")]))
            .expect("a reply")
            .text(),
        "a"
    );
}

#[test]
fn an_end_mark_without_reason_ends_a_reply() {
    let reply = read(&(sse(&[text("a")]) + "data:  [DONE] \n\n")).expect("a reply");
    assert_eq!((reply.text().as_str(), reply.finish), ("a", Finish::Stop));
    assert_eq!(
        read(DONE).expect_err("an empty reply").kind,
        FailureKind::Garbage
    );
}

#[test]
fn a_stream_that_just_stops_is_interrupted() {
    let call = delta(
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}),
    );
    let body = sse(&[text("so far"), call]) + "data: {\"choi";
    let error = read(&body).expect_err("an interrupted reply");
    assert_eq!(
        (error.kind, error.retry),
        (FailureKind::Interrupted, RetryAdvice::Never)
    );
    let partial = error.partial.expect("what had arrived");
    assert_eq!(
        (partial.text().as_str(), &partial.finish),
        ("so far", &Finish::Interrupted)
    );
    assert_eq!(partial.calls()[0].arguments, CallArguments::Truncated);
}

#[test]
fn a_stream_that_stops_before_anything_may_be_repeated() {
    let error = read(": ping\n\n").expect_err("an interrupted reply");
    assert_eq!((error.retry, error.partial), (RetryAdvice::Backoff, None));
}

#[test]
fn an_error_in_the_stream_keeps_what_came_before() {
    for (name, payload) in [
        (
            "",
            json!({"error": {"message": "Token limit", "code": 400}, "choices": [{"delta": {"content": ""}}]}),
        ),
        (
            "event: error\n",
            json!({"error": {"message": "Token limit"}}),
        ),
        ("event: error\n", json!({"message": "Token limit"})),
        ("", json!({"error": "Token limit"})),
        ("", json!({"detail": "Token limit"})),
        (
            "",
            json!({"object": "error", "message": "Token limit", "type": "x", "code": 3280}),
        ),
        ("event: error\n", json!("Token limit")),
    ] {
        let body = format!("{}{name}data: {payload}\n\n{DONE}", sse(&[text("so far")]));
        let error = read(&body).expect_err("an error");
        assert_eq!(error.kind, FailureKind::Reported, "{payload}");
        assert!(error.to_string().contains("Token limit"), "{error}");
        assert_eq!(error.partial.expect("what had arrived").text(), "so far");
    }
}

#[test]
fn an_overloaded_server_may_be_asked_again() {
    let body = sse(&[json!({"error": {"type": "overloaded_error", "message": "Overloaded"}})]);
    assert_eq!(read(&body).expect_err("an error").retry, RetryAdvice::Busy);
    let body = sse(&[
        json!({"error": {"code": "insufficient_quota", "status_code": 429, "message": "Pay"}}),
    ]);
    assert_eq!(read(&body).expect_err("an error").retry, RetryAdvice::Never);
}

#[test]
fn garbage_is_quoted_and_what_came_before_is_kept() {
    let body = sse(&[text("so far")]) + "data: {\"choices\": oops}\n\n";
    let error = read(&body).expect_err("an error");
    assert_eq!(error.kind, FailureKind::Interrupted);
    assert!(error.to_string().contains("oops"), "{error}");
    assert_eq!(error.partial.expect("what had arrived").text(), "so far");
    assert_eq!(read(&(body + DONE)).expect("a reply").text(), "so far");
}

#[test]
fn a_web_page_is_quoted() {
    let error = read("<html><title>Log in to the hotel</title></html>").expect_err("an error");
    assert_eq!(error.kind, FailureKind::Garbage);
    assert!(error.to_string().contains("Log in to the hotel"), "{error}");
}

#[test]
fn a_plain_json_answer_is_a_reply_too() {
    let body = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "Let me look.",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}});
    let body = format!("\n{body:#}\n");
    for size in [1, 3, 10_000] {
        let (result, shown, _) = read_in(body.as_bytes(), size);
        let reply = result.expect("a reply");
        assert_eq!((shown.as_str(), reply.calls().len()), ("Let me look.", 1));
    }
}

#[test]
fn a_plain_json_error_is_an_error() {
    for body in [
        json!({"error": {"message": "No such model", "type": "x"}}),
        json!([{"error": {"message": "No such model", "code": 404}}]),
    ] {
        let error = read(&format!("{body:#}")).expect_err("an error");
        assert!(error.to_string().contains("No such model"), "{error}");
    }
}

#[test]
fn other_choices_and_unknown_payloads_are_ignored() {
    let body = sse(&[
        json!({"choices": [], "prompt_filter_results": [], "id": "", "model": ""}),
        json!({"type": "ping"}),
        json!({"choices": [{"index": 2, "delta": {"content": "a"}}]}),
        json!({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]}),
        json!({"choices": [{"index": 2, "delta": {}, "finish_reason": "stop"}]}),
    ]);
    let reply = read(&body).expect("a reply");
    assert_eq!((reply.text().as_str(), reply.finish), ("a", Finish::Stop));
}

#[test]
fn blanks_before_a_body_count_in_no_chunking() {
    let body = b"\n\n data: data: \n\n";
    let whole = read_in(body, body.len());
    for size in 1..body.len() {
        assert_eq!(read_in(body, size), whole);
    }
}

proptest! {
    /// Nothing that a server can send makes the reader panic or depend on chunking.
    #[test]
    fn any_body_is_survived(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "data: ", "\n\n", "\r\n", "[DONE]", "{\"choices\":[", "{\"delta\":{\"content\":\"é\"}}", "]}",
            "{\"error\":null}", "{\"error\":\"x\"}", "event: error\n", "null", " ", "<", "{\"index\":0}",
            "{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}",
            "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"i\"}]}}]}",
        ]), 0..20),
        size in 1_usize..12,
    ) {
        let body = pieces.concat();
        let whole = read_in(body.as_bytes(), body.len());
        prop_assert_eq!(read_in(body.as_bytes(), size), whole);
    }
}
