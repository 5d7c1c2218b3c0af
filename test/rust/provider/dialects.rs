// SPDX-License-Identifier: GPL-3.0-or-later
//! What the dialects but Messages do their own way: a small example of ours for each rule.

use agent_q_core::protocol::CallArguments;
use agent_q_core::provider::dialect::request_body;
use agent_q_core::provider::retry::RetryAdvice;
use agent_q_core::provider::{
    Dialect, FailureKind, Finish, MessagePart, PartContent, ProviderSettings, ToolChoice,
};
use serde_json::{Value, json};

use crate::matrix::{call, request, result, sealed, settings};
use crate::said::{answer, events, lines, read, sent, user};

pub fn gemini(parts: Value, finish: Option<&str>) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "thoughtsTokenCount": 3, "cachedContentTokenCount": 4}})
}

#[test]
fn gemini_gets_its_parts_back_exactly_as_they_came() {
    let with_id = json!({"functionCall": {"id": "g1", "name": "look", "args": {"at": "a"}}, "thoughtSignature": "SIG"});
    let without = json!({"functionCall": {"name": "look", "args": {}}});
    let body = events(&[
        gemini(json!([{"text": "Hm", "thought": true}]), None),
        gemini(json!([{"text": "So"}]), None),
        gemini(json!([with_id, without]), None),
        gemini(
            json!([{"text": "", "thoughtSignature": "END"}]),
            Some("STOP"),
        ),
    ])
    .replace('\n', "\r\n");
    let reply = read(Dialect::Gemini, &body).expect("a reply");
    assert_eq!(
        (
            reply.text().as_str(),
            reply.thinking().as_str(),
            &reply.finish
        ),
        ("So", "Hm", &Finish::ToolCalls)
    );
    let usage = reply.usage.expect("usage");
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens
        ),
        (10, 5, 4)
    );
    let ids: Vec<String> = reply.calls().iter().map(|call| call.id.clone()).collect();
    let history = vec![
        user("hi"),
        answer(Dialect::Gemini, reply.parts),
        result(&ids[0], "first"),
        result(&ids[1], "second"),
    ];
    let contents = sent(Dialect::Gemini, history)["contents"].clone();
    assert_eq!(
        contents[1],
        json!({"role": "model", "parts": [{"text": "So"}, with_id, without, {"text": "", "thoughtSignature": "END"}]})
    );
    assert_eq!(
        contents[2],
        json!({"role": "user", "parts": [
            {"functionResponse": {"name": "look", "response": {"output": "first"}, "id": "g1"}},
            {"functionResponse": {"name": "look", "response": {"output": "second"}}},
        ]})
    );
}

/// What has no meaning for us goes back, and a value of the wrong type is as good as none.
#[test]
fn gemini_may_send_what_nobody_knows() {
    let code = json!({"executableCode": {"language": "PYTHON", "code": "1+1"}, "new": [1]});
    let thought_call =
        json!({"functionCall": {"name": "look", "args": {}}, "thought": true, "new": 1});
    let parts = json!([
        {"text": "a", "new": {"of": "Google"}, "thought": "yes"},
        {"text": "b", "thought": null, "thoughtSignature": null, "functionCall": null},
        {"text": 1},
        {},
        [],
        "no part",
        code,
        thought_call,
    ]);
    let mut odd = gemini(parts, Some("STOP"));
    odd["error"] = Value::Null;
    odd["candidates"][0]["finishMessage"] = json!(7);
    odd["promptFeedback"] = json!({"safetyRatings": []});
    odd["usageMetadata"]["promptTokenCount"] = json!("many");
    let nothing = [
        json!({"candidates": null, "usageMetadata": 5}),
        json!({"candidates": [{"content": "none"}]}),
        json!({"candidates": [{"content": {"parts": {}, "role": 3}}]}),
        json!([1]),
    ];
    let body = events(&[&nothing[..], &[odd]].concat());
    let reply = read(Dialect::Gemini, &body).expect("a reply");
    assert_eq!(
        (reply.text().as_str(), reply.thinking().as_str()),
        ("ab", "")
    );
    let usage = reply.usage.expect("usage");
    assert_eq!((usage.input_tokens, usage.output_tokens), (0, 5));
    let history = vec![user("hi"), answer(Dialect::Gemini, reply.parts)];
    assert_eq!(
        sent(Dialect::Gemini, history)["contents"][1]["parts"],
        json!([{"text": "ab"}, code, thought_call])
    );
}

#[test]
fn gemini_may_go_on_behind_a_reason_and_may_block_a_message() {
    let body = events(&[
        gemini(json!([{"text": "a"}]), Some("STOP")),
        gemini(json!([{"text": "b"}]), Some("STOP")),
    ]);
    assert_eq!(read(Dialect::Gemini, &body).expect("a reply").text(), "ab");
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let error = read(Dialect::Gemini, &events(&[blocked])).expect_err("an error");
    assert!(error.to_string().contains("SAFETY"), "{error}");
    let call = json!([{"functionCall": {"name": "look", "args": {}}}]);
    let reply = read(
        Dialect::Gemini,
        &events(&[gemini(call, Some("MAX_TOKENS"))]),
    )
    .expect("a reply");
    assert_eq!(reply.calls()[0].arguments, CallArguments::Truncated);
    let array = json!([
        gemini(json!([{"text": "a"}]), None),
        gemini(json!([{"text": "b"}]), Some("STOP"))
    ]);
    assert_eq!(
        read(Dialect::Gemini, &array.to_string())
            .expect("a reply")
            .text(),
        "ab"
    );
}

fn done(item: Value) -> Value {
    json!({"type": "response.output_item.done", "item": item})
}

pub fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": [],
        "usage": {"input_tokens": 8, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 6}}}})
}

#[test]
fn responses_keep_the_reasoning_of_the_finished_item_in_front_of_its_call() {
    let body = events(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "PART"}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm"}),
        json!({"type": "response.output_item.done", "output_index": 0,
            "item": {"type": "reasoning", "id": "rs_2", "status": "completed", "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "WHOLE"}}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"at\""}),
        json!({"type": "response.output_item.done", "output_index": 1,
            "item": {"type": "function_call", "id": "fc_2", "call_id": "call_1", "name": "look", "arguments": "{\"at\":\"a\"}", "status": "completed"}}),
        completed(),
    ]);
    let reply = read(Dialect::Responses, &body).expect("a reply");
    assert_eq!(reply.usage.map(|usage| usage.cache_read_tokens), Some(6));
    assert_eq!(reply.thinking(), "Hm");
    let history = vec![
        user("hi"),
        answer(Dialect::Responses, reply.parts),
        result("call_1", "ok"),
    ];
    let body = sent(Dialect::Responses, history);
    assert_eq!(
        body["input"].as_array().unwrap()[1..],
        [
            json!({"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "WHOLE"}),
            json!({"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"at\":\"a\"}"}),
            json!({"type": "function_call_output", "call_id": "call_1", "output": "ok"}),
        ]
    );
    assert_eq!(
        (&body["store"], &body["tools"][0]["strict"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
}

#[test]
fn responses_without_indexes_or_deltas_are_read_by_their_items() {
    let body = events(&[
        done(
            json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}),
        ),
        done(
            json!({"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": "{}"}),
        ),
        completed(),
    ]);
    let reply = read(Dialect::Responses, &body).expect("a reply");
    assert_eq!(
        (reply.text().as_str(), reply.calls()),
        ("Hi", vec![&call("c", "{}")])
    );
}

#[test]
fn responses_that_are_cut_run_no_call() {
    let item = json!({"type": "function_call", "id": "f", "call_id": "c", "name": "look", "arguments": "{}", "status": "completed"});
    let incomplete = json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}});
    let reply = read(
        Dialect::Responses,
        &events(&[done(item.clone()), incomplete]),
    )
    .expect("a reply");
    assert_eq!(
        (&reply.finish, &reply.calls()[0].arguments),
        (&Finish::Length, &CallArguments::Truncated)
    );
    let error = read(Dialect::Responses, &events(&[done(item)])).expect_err("an interrupted reply");
    assert_eq!(error.kind, FailureKind::Interrupted);
}

#[test]
fn responses_reasoning_that_led_to_nothing_stays_behind() {
    let seal = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "X"});
    let parts = vec![
        MessagePart::text("So".into()),
        sealed(PartContent::Thinking(String::new()), seal),
    ];
    let body = sent(
        Dialect::Responses,
        vec![user("hi"), answer(Dialect::Responses, parts)],
    );
    assert_eq!(body["input"].as_array().unwrap().len(), 2, "{body}");
}

#[test]
fn responses_tell_their_errors_in_two_shapes() {
    for payload in [
        json!({"type": "error", "error": {"code": "insufficient_quota", "message": "Pay first"}}),
        json!({"type": "error", "code": "insufficient_quota", "message": "Pay first"}),
        json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "insufficient_quota", "message": "Pay first"}}}),
    ] {
        let error = read(Dialect::Responses, &events(&[payload])).expect_err("an error");
        assert!(error.to_string().contains("Pay first"), "{error}");
        assert_eq!(error.retry, RetryAdvice::Never);
    }
}

#[test]
fn ollama_calls_come_whole_with_and_without_ids() {
    let function = |name: &str| json!({"function": {"name": name, "arguments": {"at": "a"}}});
    let mut with_id = function("look");
    with_id["id"] = "o1".into();
    let body = lines(&[
        json!({"message": {"role": "assistant", "content": "", "thinking": "Hm"}, "done": false}),
        json!({"message": {"content": "Let me look.", "tool_calls": [with_id, function("look")]}, "done": false}),
        json!({"message": {"content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 2, "prompt_eval_cached_count": 5}),
    ]);
    let reply = read(Dialect::Ollama, &body).expect("a reply");
    assert_eq!(
        (&reply.finish, reply.thinking().as_str()),
        (&Finish::ToolCalls, "Hm")
    );
    assert_eq!(reply.usage.map(|usage| usage.cache_read_tokens), Some(5));
    let ids = reply.calls();
    assert!(ids[0].id == "o1" && ids[1].id.len() == 9, "{ids:?}");
    let second = ids[1].id.clone();
    let history = vec![
        user("hi"),
        answer(Dialect::Ollama, reply.parts),
        result("o1", "x"),
        result(&second, "y"),
    ];
    let body = sent(Dialect::Ollama, history);
    let call = &body["messages"][1]["tool_calls"][0]["function"];
    assert_eq!(call["arguments"], json!({"at": "a"}));
    assert_eq!(body["messages"][1]["thinking"], "Hm");
    assert_eq!(body["messages"][2]["tool_name"], "look");
}

#[test]
fn ollama_is_told_of_a_window_that_is_large_enough() {
    let window =
        |text: String| sent(Dialect::Ollama, vec![user(&text)])["options"]["num_ctx"].as_u64();
    assert_eq!(window("hi".into()), Some(16_384));
    assert_eq!(window("x".repeat(120_000)), Some(65_536));
    let mut settings = settings(Dialect::Ollama);
    settings
        .body
        .insert("options".into(), json!({"num_ctx": 4096}));
    let body = request_body(&settings, &request(vec![user("hi")]));
    assert_eq!(body["options"], json!({"num_ctx": 4096}));
    settings
        .body
        .insert("options".into(), json!({"temperature": 0}));
    let body = request_body(&settings, &request(vec![user("hi")]));
    assert_eq!(
        body["options"],
        json!({"temperature": 0, "num_ctx": 16_384})
    );
}

#[test]
fn ollama_errors_and_cuts_are_told_apart() {
    let text = json!({"message": {"content": "So far"}, "done": false});
    let body = lines(&[text.clone(), json!({"error": "the model crashed"})]);
    let error = read(Dialect::Ollama, &body).expect_err("an error");
    assert!(error.to_string().contains("the model crashed"), "{error}");
    let error = read(Dialect::Ollama, &(lines(&[text]) + "{\"mess")).expect_err("a cut reply");
    assert_eq!(error.kind, FailureKind::Interrupted);
    assert_eq!(error.partial.expect("what had come").text(), "So far");
    let error = read(Dialect::Ollama, "<html>Log in</html>").expect_err("a web page");
    assert_eq!(error.kind, FailureKind::Garbage);
}

#[test]
fn chat_completions_get_reasoning_details_back_in_one_piece_each() {
    let detail = |text: &str, signature: Value| {
        json!({"choices": [{"delta": {"reasoning_details": [
        {"type": "reasoning.text", "index": 0, "text": text, "signature": signature}]}}]})
    };
    let call_delta = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]});
    let body = events(&[
        detail("Hm", Value::Null),
        detail(", yes", "SIG".into()),
        call_delta,
    ]);
    let reply = read(Dialect::ChatCompletions, &body).expect("a reply");
    let body = sent(
        Dialect::ChatCompletions,
        vec![
            user("hi"),
            answer(Dialect::ChatCompletions, reply.parts),
            result("a", "ok"),
        ],
    );
    assert_eq!(
        body["messages"][1]["reasoning_details"],
        json!([{"type": "reasoning.text", "index": 0, "text": "Hm, yes", "signature": "SIG"}])
    );
}

#[test]
fn chat_completions_cut_behind_a_router_are_cut() {
    let body = events(&[
        json!({"choices": [{"finish_reason": "tool_calls", "native_finish_reason": "max_output_tokens",
        "delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}]}}]}),
    ]);
    let reply = read(Dialect::ChatCompletions, &body).expect("a reply");
    assert_eq!(
        (&reply.finish, &reply.calls()[0].arguments),
        (&Finish::Length, &CallArguments::Truncated)
    );
}

#[test]
fn mistral_gets_short_ids_and_its_own_word() {
    let settings = ProviderSettings {
        base_url: "https://api.mistral.ai/v1".into(),
        ..settings(Dialect::ChatCompletions)
    };
    let mut request = request(vec![
        user("hi"),
        answer(
            Dialect::Messages,
            vec![
                MessagePart::call(call("toolu_01LtHJ", "{}")),
                MessagePart::call(call("abcdefgh1", "{}")),
            ],
        ),
        result("toolu_01LtHJ", "x"),
        result("abcdefgh1", "y"),
    ]);
    request.tool_choice = ToolChoice::Required;
    let body = request_body(&settings, &request);
    let id = body["messages"][1]["tool_calls"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{id}"
    );
    assert_eq!(body["messages"][2]["tool_call_id"], id.as_str());
    assert_eq!(body["messages"][3]["tool_call_id"], "abcdefgh1");
    assert_eq!(body["tool_choice"], "any");
}

#[test]
fn hosts_have_their_usual_dialects() {
    for (base_url, dialect) in [
        ("https://api.anthropic.com/v1", Dialect::Messages),
        (
            "https://generativelanguage.googleapis.com/v1beta",
            Dialect::Gemini,
        ),
        (
            "https://generativelanguage.googleapis.com/v1beta/openai/",
            Dialect::ChatCompletions,
        ),
        ("https://api.openai.com/v1", Dialect::ChatCompletions),
        ("http://127.0.0.1:11434/v1", Dialect::ChatCompletions),
        ("nonsense", Dialect::ChatCompletions),
    ] {
        assert_eq!(Dialect::usual_at(base_url), dialect, "{base_url}");
    }
}
