// SPDX-License-Identifier: GPL-3.0-or-later
//! What each dialect does its own way: a small example of ours for each rule.

use agent_q_core::protocol::{CallArguments, CallOutcome, ToolCall};
use agent_q_core::provider::dialect::request_body;
use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::retry::RetryAdvice;
use agent_q_core::provider::{
    ChatMessage, Dialect, Effort, FailureKind, Finish, MessagePart, ModelReply, PartContent,
    ProviderError, ProviderSettings, ToolChoice, Usage,
};
use serde_json::{Value, json};

use crate::matrix::{call, request, result, sealed, settings};

fn read(dialect: Dialect, body: &str) -> Result<ModelReply, ProviderError> {
    let mut reader = ReplyReader::new(dialect);
    reader.push(body.as_bytes());
    reader.finish().0
}

fn events(payloads: &[Value]) -> String {
    payloads
        .iter()
        .map(|payload| format!("data: {payload}\n\n"))
        .collect()
}

fn lines(payloads: &[Value]) -> String {
    payloads
        .iter()
        .map(|payload| format!("{payload}\n"))
        .collect()
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::User(text.into())
}

fn answer(dialect: Dialect, parts: Vec<MessagePart>) -> ChatMessage {
    ChatMessage::Assistant {
        origin: settings(dialect).origin(),
        parts,
    }
}

/// What a dialect sends of MESSAGES, and of REPLY after it.
fn sent(dialect: Dialect, messages: Vec<ChatMessage>) -> Value {
    request_body(&settings(dialect), &request(messages))
}

fn start(id: &str) -> Value {
    json!({"type": "message_start", "message": {"id": id, "usage": {"input_tokens": 5,
        "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}}})
}

fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn ended(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn messages(payloads: Vec<Value>, reason: &str) -> Result<ModelReply, ProviderError> {
    let all: Vec<Value> = [start("m")]
        .into_iter()
        .chain(payloads)
        .chain(ended(reason))
        .collect();
    read(Dialect::Messages, &events(&all))
}

fn tool_use(index: u64) -> Vec<Value> {
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
        (reply.reasoning.as_str(), &reply.finish),
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
    assert!(matches!(reply.calls[0].arguments, CallArguments::Object(_)));
}

#[test]
fn messages_calls_without_their_end_never_run() {
    let open = tool_use(0)[..3].to_vec();
    for reason in ["max_tokens", "tool_use"] {
        let reply = messages(open.clone(), reason).expect("a reply");
        assert_eq!(
            reply.calls[0].arguments,
            CallArguments::Truncated,
            "{reason}"
        );
    }
    let mut cut = vec![start("m")];
    cut.extend(tool_use(0));
    cut.push(ended("tool_use")[0].clone());
    let error = read(Dialect::Messages, &events(&cut)).expect_err("an interrupted reply");
    assert_eq!(error.kind, FailureKind::Interrupted);
    let partial = error.partial.expect("what had come");
    assert_eq!(partial.calls[0].arguments, CallArguments::Truncated);
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
        (FailureKind::Reported, RetryAdvice::Backoff)
    );
    let begun = [
        start("m"),
        block(0, json!({"type": "text", "text": "So far"})),
        error,
    ];
    let failed = read(Dialect::Messages, &events(&begun)).expect_err("an error");
    assert_eq!(failed.retry, RetryAdvice::Never);
    assert_eq!(failed.partial.expect("what had come").text, "So far");
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
            .text,
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
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("b", 0));
}

#[test]
fn messages_that_are_not_streamed_are_read_too() {
    let body = json!({"type": "message", "id": "m", "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 2},
        "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "x"}}]});
    let reply = read(Dialect::Messages, &body.to_string()).expect("a reply");
    assert_eq!(reply.text, "Let me look.");
    assert_eq!(reply.calls, [call("a", "{\"at\":\"x\"}")]);
}

fn with_effort(dialect: Dialect, model: &str, effort: Effort) -> Value {
    let settings = ProviderSettings {
        model: model.into(),
        effort: Some(effort),
        ..settings(dialect)
    };
    request_body(&settings, &request(vec![user("hi")]))
}

#[test]
fn effort_has_a_spelling_in_each_dialect() {
    let body = with_effort(Dialect::Messages, "claude-opus-5", Effort::High);
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["output_config"]["effort"], "high");
    let body = with_effort(Dialect::Messages, "claude-opus-5", Effort::None);
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    let body = with_effort(Dialect::Messages, "claude-sonnet-4-5", Effort::Low);
    let budget = body["thinking"]["budget_tokens"]
        .as_u64()
        .expect("a budget");
    assert!((1024..body["max_tokens"].as_u64().unwrap()).contains(&budget));
    let body = with_effort(Dialect::Responses, "gpt-5", Effort::Minimal);
    assert_eq!(body["reasoning"]["effort"], "minimal");
    let body = with_effort(Dialect::ChatCompletions, "x", Effort::Low);
    assert_eq!(body["reasoning_effort"], "low");
    let body = with_effort(Dialect::Gemini, "gemini-3-pro", Effort::High);
    assert_eq!(
        body["generationConfig"]["thinkingConfig"]["thinkingLevel"],
        "high"
    );
    let body = with_effort(Dialect::Ollama, "gpt-oss:20b", Effort::High);
    assert_eq!(body["think"], "high");
    let body = with_effort(Dialect::Ollama, "qwen3:4b", Effort::High);
    assert_eq!(body["think"], true);
    for dialect in crate::matrix::DIALECTS {
        let body = request_body(&settings(dialect), &request(vec![user("hi")])).to_string();
        assert!(
            !body.contains("think") && !body.contains("effort"),
            "{body}"
        );
    }
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

fn gemini(parts: Value, finish: Option<&str>) -> Value {
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
        (reply.text.as_str(), reply.reasoning.as_str(), &reply.finish),
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
    let ids: Vec<String> = reply.calls.iter().map(|call| call.id.clone()).collect();
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

#[test]
fn gemini_may_go_on_behind_a_reason_and_may_block_a_message() {
    let body = events(&[
        gemini(json!([{"text": "a"}]), Some("STOP")),
        gemini(json!([{"text": "b"}]), Some("STOP")),
    ]);
    assert_eq!(read(Dialect::Gemini, &body).expect("a reply").text, "ab");
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let error = read(Dialect::Gemini, &events(&[blocked])).expect_err("an error");
    assert!(error.to_string().contains("SAFETY"), "{error}");
    let call = json!([{"functionCall": {"name": "look", "args": {}}}]);
    let reply = read(
        Dialect::Gemini,
        &events(&[gemini(call, Some("MAX_TOKENS"))]),
    )
    .expect("a reply");
    assert_eq!(reply.calls[0].arguments, CallArguments::Truncated);
    let array = json!([
        gemini(json!([{"text": "a"}]), None),
        gemini(json!([{"text": "b"}]), Some("STOP"))
    ]);
    assert_eq!(
        read(Dialect::Gemini, &array.to_string())
            .expect("a reply")
            .text,
        "ab"
    );
}

fn done(item: Value) -> Value {
    json!({"type": "response.output_item.done", "item": item})
}

fn completed() -> Value {
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
    assert_eq!(reply.reasoning, "Hm");
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
        (reply.text.as_str(), &reply.calls[..]),
        ("Hi", &[call("c", "{}")][..])
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
        (&reply.finish, &reply.calls[0].arguments),
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
        (reply.finish, reply.reasoning.as_str()),
        (Finish::ToolCalls, "Hm")
    );
    assert_eq!(reply.usage.map(|usage| usage.cache_read_tokens), Some(5));
    let ids: Vec<&ToolCall> = reply.calls.iter().collect();
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
    assert_eq!(error.partial.expect("what had come").text, "So far");
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
        (&reply.finish, &reply.calls[0].arguments),
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

/// A whole reply with text and a call, in each dialect.
fn small_stream(dialect: Dialect) -> String {
    let arguments = "{\"at\":\"é\"}";
    match dialect {
        Dialect::ChatCompletions => events(&[
            json!({"choices": [{"delta": {"content": "Let me look."}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": arguments}}]}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}),
        ]),
        Dialect::Messages => {
            let text = vec![
                start("m"),
                block(0, json!({"type": "text", "text": "Let me look."})),
                stop(0),
            ];
            events(&[text, tool_use(1), ended("tool_use")].concat())
        }
        Dialect::Responses => events(&[
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Let me look."}),
            json!({"type": "response.output_item.done", "output_index": 1,
                "item": {"type": "function_call", "call_id": "a", "name": "look", "arguments": arguments, "status": "completed"}}),
            completed(),
        ]),
        Dialect::Gemini => events(&[
            gemini(json!([{"text": "Let me look."}]), None),
            gemini(
                json!([{"functionCall": {"name": "look", "args": {"at": "é"}}}]),
                None,
            ),
            gemini(json!([{"text": ""}]), Some("STOP")),
        ]),
        Dialect::Ollama => lines(&[
            json!({"message": {"content": "Let me look."}, "done": false}),
            json!({"message": {"content": "", "tool_calls": [{"function": {"name": "look", "arguments": {"at": "é"}}}]}, "done": false}),
            json!({"message": {"content": ""}, "done": true, "done_reason": "stop"}),
        ]),
    }
}

#[test]
fn a_stream_cut_at_any_byte_is_whole_or_runs_nothing() {
    for dialect in crate::matrix::DIALECTS {
        let body = small_stream(dialect);
        let mut wholes = 0;
        for end in 0..=body.len() {
            let mut reader = ReplyReader::new(dialect);
            reader.push(&body.as_bytes()[..end]);
            match reader.finish().0 {
                Ok(reply) => {
                    wholes += 1;
                    assert_eq!(
                        (reply.text.as_str(), reply.calls.len()),
                        ("Let me look.", 1)
                    );
                    assert!(matches!(reply.calls[0].arguments, CallArguments::Object(_)));
                }
                Err(error) => {
                    let calls = error
                        .partial
                        .map(|partial| partial.calls)
                        .unwrap_or_default();
                    let truncated = |call: &ToolCall| call.arguments == CallArguments::Truncated;
                    assert!(calls.iter().all(truncated), "{dialect:?} at {end}");
                    assert_eq!(wholes, 0, "{dialect:?} at {end}");
                }
            }
        }
        assert!(wholes > 0, "{dialect:?}");
    }
}
