// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool-call accumulator, one test for each thing that some server does.

use agent_q_core::protocol::{CallArguments, ToolCall};
use agent_q_core::provider::accumulator::ReplyEnd;
use agent_q_core::provider::reply::ReplyReader;
use serde_json::{Value, json};

/// The calls of a reply in which each of DELTAS came in a chunk of its own.
fn accumulate(deltas: Value, ending: ReplyEnd) -> Vec<ToolCall> {
    let mut reader = ReplyReader::default();
    let mut push = |choice: Value| {
        reader.push(format!("data: {}\n\n", json!({ "choices": [choice] })).as_bytes());
    };
    for delta in deltas.as_array().expect("a list of deltas") {
        push(json!({"delta": {"tool_calls": [delta]}}));
    }
    if ending == ReplyEnd::Complete {
        push(json!({"finish_reason": "tool_calls"}));
    }
    let reply = match reader.finish().0 {
        Ok(reply) => reply,
        Err(error) => *error.partial.expect("what came"),
    };
    reply.calls().into_iter().cloned().collect()
}

/// Name and arguments of each call.
fn complete(deltas: Value) -> Vec<(String, Value)> {
    accumulate(deltas, ReplyEnd::Complete)
        .into_iter()
        .map(|call| match call.arguments {
            CallArguments::Object(map) => (call.name, Value::Object(map)),
            other => panic!("{} has {other:?}", call.name),
        })
        .collect()
}

fn call(name: &str, arguments: Value) -> (String, Value) {
    (name.to_owned(), arguments)
}

fn malformed(deltas: Value) -> String {
    let calls = accumulate(deltas, ReplyEnd::Complete);
    match &calls[..] {
        [
            ToolCall {
                arguments: CallArguments::Malformed(reason),
                ..
            },
        ] => reason.clone(),
        other => panic!("not one malformed call: {other:?}"),
    }
}

#[test]
fn fragments_are_joined_by_index() {
    let calls = complete(json!([
        {"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}},
        {"index": 1, "id": "b", "function": {"name": "two", "arguments": ""}},
        {"index": 0, "function": {"arguments": "{\"x\""}},
        {"index": 1, "function": {"arguments": "{\"y\":2}"}},
        {"index": 0, "function": {"arguments": ":1}"}},
    ]));
    assert_eq!(
        calls,
        [call("one", json!({"x": 1})), call("two", json!({"y": 2}))]
    );
}

#[test]
fn sparse_indexes_do_not_matter() {
    let calls = complete(json!([
        {"index": 7, "id": "a", "function": {"name": "one", "arguments": "{\"x\":"}},
        {"index": 7, "function": {"arguments": "1}"}},
    ]));
    assert_eq!(calls, [call("one", json!({"x": 1}))]);
}

#[test]
fn a_new_id_at_a_taken_index_is_a_new_call() {
    let calls = complete(json!([
        {"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"x\":1}"}},
        {"index": 0, "id": "b", "function": {"name": "one", "arguments": "{\"x\""}},
        {"index": 0, "function": {"arguments": ":2}"}},
    ]));
    assert_eq!(
        calls,
        [call("one", json!({"x": 1})), call("one", json!({"x": 2}))]
    );
}

#[test]
fn an_id_repeated_in_every_fragment_is_one_call() {
    let calls = complete(json!([
        {"id": "a", "index": 0, "function": {"name": "one", "arguments": "{"}},
        {"id": "b", "index": 1, "function": {"name": "two", "arguments": "{"}},
        {"id": "a", "index": 0, "function": {"name": "one", "arguments": "}"}},
        {"id": "b", "function": {"arguments": "}"}},
    ]));
    assert_eq!(calls, [call("one", json!({})), call("two", json!({}))]);
}

#[test]
fn an_id_that_comes_late_names_the_call_that_has_none() {
    let calls = accumulate(
        json!([
            {"index": 0, "function": {"name": "one", "arguments": "{"}},
            {"index": 0, "id": "a", "function": {"arguments": "}"}},
        ]),
        ReplyEnd::Complete,
    );
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].id, "a");
}

#[test]
fn whole_calls_without_index_or_id_stay_apart() {
    let calls = complete(json!([
        {"function": {"name": "one", "arguments": "{\"x\":1}"}},
        {"function": {"name": "one", "arguments": "{\"x\":2}"}},
        {"function": {"name": "two", "arguments": "{}"}},
    ]));
    assert_eq!(
        calls,
        [
            call("one", json!({"x": 1})),
            call("one", json!({"x": 2})),
            call("two", json!({}))
        ]
    );
}

#[test]
fn whole_calls_all_at_index_0_without_id_stay_apart() {
    let calls = complete(json!([
        {"index": 0, "function": {"name": "one", "arguments": "{\"x\":1}"}},
        {"index": 0, "function": {"name": "one", "arguments": {"x": 2}}},
    ]));
    assert_eq!(
        calls,
        [call("one", json!({"x": 1})), call("one", json!({"x": 2}))]
    );
}

#[test]
fn fragments_without_index_or_id_continue_the_latest_call() {
    let calls = complete(json!([
        {"id": "a", "function": {"name": "one", "arguments": "{\"x\":"}},
        {"function": {"arguments": "1"}},
        {"function": {"arguments": "}"}},
    ]));
    assert_eq!(calls, [call("one", json!({"x": 1}))]);
}

#[test]
fn the_first_name_counts_and_null_is_none() {
    let calls = complete(json!([
        {"index": 0, "id": "a", "function": {"name": "null", "arguments": ""}},
        {"index": 0, "function": {"name": "one", "arguments": "{"}},
        {"index": 0, "function": {"name": "null", "arguments": "\"x\":1"}},
        {"index": 0, "function": {"name": "one", "arguments": "}"}},
        {"index": 0, "function": {"name": null, "arguments": null}},
    ]));
    assert_eq!(calls, [call("one", json!({"x": 1}))]);
}

#[test]
fn arguments_may_be_an_object() {
    let calls =
        complete(json!([{"id": "a", "function": {"name": "one", "arguments": {"x": "é"}}}]));
    assert_eq!(calls, [call("one", json!({"x": "é"}))]);
}

#[test]
fn no_arguments_are_an_empty_object() {
    let calls = complete(json!([
        {"index": 0, "id": "a", "function": {"name": "one", "arguments": ""}},
        {"index": 1, "id": "b", "function": {"name": "two", "arguments": "null"}},
        {"index": 2, "id": "c", "function": {"name": "three"}},
        {"index": 3, "id": "d", "function": {"name": "four", "arguments": " {} "}},
    ]));
    assert!(calls.iter().all(|(_, arguments)| *arguments == json!({})));
    assert_eq!(calls.len(), 4);
}

#[test]
fn arguments_that_are_no_object_are_malformed() {
    let one = |arguments: &str| {
        malformed(json!([{"id": "a", "function": {"name": "one", "arguments": arguments}}]))
    };
    assert!(one("{\"x\": ").contains("not valid JSON"));
    assert!(one("[1]").contains("not an array"));
    assert!(one("\"look\"").contains("not a string"));
    assert!(one(&"[".repeat(100_000)).contains("not valid JSON"));
}

#[test]
fn a_prefix_that_parses_is_not_final() {
    let reason = malformed(json!([
        {"index": 0, "id": "a", "function": {"name": "one", "arguments": "1"}},
        {"index": 0, "function": {"arguments": "2"}},
    ]));
    assert!(reason.contains("not a number"), "{reason}");
}

#[test]
fn every_call_of_a_cut_reply_is_truncated() {
    let calls = accumulate(
        json!([
            {"index": 0, "id": "a", "function": {"name": "one", "arguments": "{}"}},
            {"index": 1, "id": "b", "function": {"name": "two", "arguments": "{\"x"}},
        ]),
        ReplyEnd::Cut,
    );
    assert_eq!(calls.len(), 2);
    assert!(
        calls
            .iter()
            .all(|call| call.arguments == CallArguments::Truncated)
    );
    assert_eq!(calls[1].raw_arguments, "{\"x");
}

#[test]
fn a_missing_id_becomes_nine_letters_and_digits() {
    let calls = accumulate(
        json!([
            {"function": {"name": "one", "arguments": "{}"}},
            {"id": "", "function": {"name": "two", "arguments": "{}"}},
        ]),
        ReplyEnd::Complete,
    );
    for call in &calls {
        assert_eq!(call.id.len(), 9);
        assert!(call.id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
    assert_ne!(calls[0].id, calls[1].id);
}

#[test]
fn shapes_that_are_no_call_are_survived() {
    let calls = accumulate(
        json!([null, 1, "x", {"index": -3}, {"index": "0", "function": null}]),
        ReplyEnd::Complete,
    );
    assert!(calls.iter().all(|call| call.name.is_empty()));
}

#[test]
fn integers_that_would_change_are_named_and_go_back_as_they_came() {
    let arguments = r#"{"ids": [1, 123456789012345678901234567890]}"#;
    let fragment = json!({"id": "a", "function": {"name": "f", "arguments": arguments}});
    let call = accumulate(json!([fragment]), ReplyEnd::Complete).remove(0);
    assert_eq!(call.raw_arguments, arguments);
    let CallArguments::Inexact(problem) = call.arguments else {
        panic!("they were read: {:?}", call.arguments)
    };
    assert!(
        problem.starts_with("ids[1]: 123456789012345678901234567890 does not fit"),
        "{problem}"
    );
}
