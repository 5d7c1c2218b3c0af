// SPDX-License-Identifier: GPL-3.0-or-later
//! What is made of the words of servers' errors, in whatever clothes they come: which failure it is, and
//! what is said.

use agent_q_core::provider::error_report::ErrorReport;
use agent_q_core::provider::retry::RetryAdvice;
use agent_q_core::provider::{Dialect, FailureKind, ProviderError};
use serde_json::{Value, json};

use super::http::{ask, ask_with, client, failure, request, retries, settings, start, stream};
use super::said::{events, lines, read};

/// The failure of a request that is answered with STATUS and ERROR.
async fn refused(status: u16, error: Value) -> ProviderError {
    failure(json!({"status": status, "body": error})).await
}

/// ERROR inside of the one that a router makes of it.
fn routed(error: &Value) -> Value {
    json!({"error": {"message": "Provider returned error", "code": 400, "metadata":
        {"raw": error.to_string(), "provider_name": "Backend"}}})
}

#[tokio::test]
async fn errors_are_read_in_all_clothes() {
    let words = "the kettle is cold";
    for body in [
        json!({"error": {"message": words}}),
        json!([{"error": {"message": words}}]),
        json!({"error": true, "reason": words}),
        json!({"Message": words}),
        json!({"fault": {"faultstring": words, "detail": {"errorcode": "E1"}}}),
        json!({"exception": words}),
        json!({"errors": [{"code": 7003, "message": words}], "success": false}),
        json!({"errors": [words]}),
        json!({"base_resp": {"status_code": 1004, "status_msg": words}}),
        json!({"error_code": 17, "error_msg": words}),
        json!({"errorCode": "E1", "errorMsg": words}),
        json!({"detail": [{"type": "missing", "loc": ["body", "x"], "msg": words}]}),
        json!({"error": {"error": {"error": {"message": words}}}}),
        json!({"error": format!("400 - {{\"error\":{{\"message\":\"{words}\"}}}}")}),
        json!({"message": json!({"error": {"message": words}}).to_string()}),
        json!(format!("\u{feff}{{\"error\":\"{words}\"}}")),
        json!(format!(
            "data: {{\"error\":{{\"message\":\"{words}\"}}}}\n\n"
        )),
        json!(format!(
            "event: error\ndata: [{{\"error\":{{\"message\":\"{words}\"}}}}]\n\n"
        )),
        json!(format!(
            "<!DOCTYPE html><html><head><style>p {{ color: red }}</style></head><p>{words}</p></html>"
        )),
        json!(words),
    ] {
        let error = refused(400, body.clone()).await.to_string();
        assert!(error.ends_with(words), "{body}: {error}");
        for markup in ['{', '<', '\u{feff}'] {
            assert!(!error.contains(markup), "{body}: {error}");
        }
    }
    let inner = json!({"error": {"message": words}});
    for body in [
        routed(&inner),
        routed(&json!(words)),
        routed(&routed(&inner)),
    ] {
        let error = refused(400, body).await.to_string();
        assert!(
            error.ends_with(&format!("It says: Backend: {words}")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn all_that_says_too_long_is_told_from_limits_of_rates() {
    for words in [
        "This model's maximum context length is 10 tokens. However, you sent 12.",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "This model's maximum prompt length is 10 but the request contains 12 tokens.",
        "prompt token count of 12 exceeds the limit of 10",
        "Your request exceeded model token limit: 10 (requested: 12)",
        "The input exceeds the maximum allowed input length of 10",
        "Range of input length should be [1, 10]",
        "Prompt exceeds max length",
        "`inputs` tokens + `max_new_tokens` must be <= 10. Given: 12",
        "Invalid 'messages[3].content': string too long. Expected a maximum of 10.",
        "prompt is too long: 12 tokens > 10 maximum",
        "Input is too long for requested model.",
        "The input token count (12) exceeds the maximum number of tokens allowed (10).",
        "Please reduce the length of the messages or completion.",
        "request (12 tokens) exceeds the available context size (10 tokens), try increasing it",
        "Prompt contains 12 tokens, too large for model with 10 maximum",
        "length of prompt_tokens (12) must be less than max_seq_len (10)",
        "The number of tokens to keep from the initial prompt is greater than the context length",
        "x.ContextWindowExceededError: full",
        "too many total text bytes: 12 > 10",
        "This model only supports context up to 10 tokens",
        "Token count exceeds the model's limit",
        "The total length of input and output exceeds the model's max length",
        "prompt tokens limit exceeded: 12 > 10",
        "max_tokens must be at least 1, got -2",
    ] {
        let report = json!({"error": {"message": words, "type": "invalid_request_error"}});
        for (status, body) in [(400, report.clone()), (400, routed(&report)), (500, report)] {
            let error = refused(status, body).await;
            assert_eq!(error.kind, FailureKind::Overflow, "{status}: {error}");
        }
    }
    for (status, words) in [
        (
            429,
            "This request would exceed your limit of 10 input tokens per minute",
        ),
        (
            400,
            "Number of request tokens has exceeded your per-minute rate limit",
        ),
        (
            413,
            "Request too large: tokens per minute (TPM): Limit 10, Requested 12",
        ),
        (
            400,
            "max_tokens is too large: 100. This model supports at most 10 completion tokens",
        ),
        (400, "`max_tokens` must be less than 10"),
    ] {
        let report = ErrorReport::of_body(json!({"error": words}).to_string().as_bytes(), None);
        assert!(report.message.contains(words));
        let error = failure(json!({"status": status, "body": {"error": words},
            "headers": {"x-should-retry": "false"}}))
        .await;
        assert_eq!(error.kind, FailureKind::Refused(status), "{error}");
    }
}

#[tokio::test]
async fn sentences_name_what_is_wrong() {
    let routed_key = json!({"error": {"message": "Provider returned error", "code": 401, "metadata":
        {"raw": "{\"error\":\"bad key\"}", "provider_name": "Backend"}}});
    let info = json!({"error": {"code": 400, "message": "API key not valid. Pass a valid one.",
        "details": [{"reason": "API_KEY_INVALID"}]}});
    let day = json!({"error": {"message": "Quota exceeded", "details": [
        {"violations": [{"quotaId": "RequestsPerDay"}]}, {"retryDelay": "40611s"}]}});
    for (status, body, parts) in [
        (
            401,
            routed_key,
            [
                "Backend rejected the key that your account at 127.0.0.1 has",
                "bad key",
            ],
        ),
        (
            400,
            info,
            ["rejected the key (400)", "machine 127.0.0.1 login apikey"],
        ),
        (
            403,
            json!({"error": {"message": "Country, region, or territory not supported"}}),
            ["does not serve the country", "The key is not the problem"],
        ),
        (
            400,
            json!({"error": {"message": "User location is not supported for the API use."}}),
            ["does not serve the country", "location"],
        ),
        (
            403,
            json!({"error": {"message": "The API has not been used in project 7 before or it is disabled."}}),
            ["does not let this account use", "key itself was accepted"],
        ),
        (
            403,
            json!({"error": "Your plan lacks it."}),
            ["Check its plan", "lacks"],
        ),
        (
            403,
            json!({"error": "Invalid API key"}),
            ["rejected the key (403)", "login apikey"],
        ),
        (
            403,
            json!({"error": "No."}),
            ["forbids this request", "No."],
        ),
        (
            429,
            day,
            ["the quota of the day is used up", "Try again in 12 hours"],
        ),
        (
            500,
            json!({"error": "model requires more system memory (9 GiB) than is available (7 GiB)"}),
            ["too little memory", "smaller model"],
        ),
        (
            500,
            json!({"error": {"message": "tools param requires --jinja flag"}}),
            ["Start llama.cpp with --jinja", ":tools nil"],
        ),
        (
            413,
            json!({"error": "Request too large: limit of 10 tokens per minute"}),
            ["more tokens than", "in a minute"],
        ),
        (
            529,
            json!({"error": {"type": "overloaded_error"}}),
            ["is overloaded", "overloaded_error"],
        ),
    ] {
        let error = refused(status, body).await.to_string();
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
    }
}

#[tokio::test]
async fn a_successful_answer_may_be_an_error() {
    for (dialect, document, words) in [
        (
            Dialect::ChatCompletions,
            json!({"base_resp": {"status_code": 1004, "status_msg": "log in first"}}),
            "log in first",
        ),
        (
            Dialect::ChatCompletions,
            json!({"error_code": 17, "error_msg": "the limit"}),
            "the limit",
        ),
        (
            Dialect::ChatCompletions,
            json!({"success": false, "errorMsg": "not active"}),
            "not active",
        ),
        (
            Dialect::ChatCompletions,
            json!({"answer": 42}),
            "not a part of a reply: \"{\\\"answer\\\":42}\"",
        ),
        (
            Dialect::Messages,
            json!({"base_resp": {"status_code": 1004, "status_msg": "log in first"}}),
            "log in first",
        ),
        (
            Dialect::Responses,
            json!({"error_code": 17, "error_msg": "the limit"}),
            "the limit",
        ),
        (
            Dialect::Gemini,
            json!({"success": false, "errorMsg": "not active"}),
            "not active",
        ),
        (
            Dialect::Gemini,
            json!({"answer": 42}),
            "not a part of a reply",
        ),
        (
            Dialect::Ollama,
            json!({"errorMsg": "not active"}),
            "not active",
        ),
    ] {
        let error = read(dialect, &document.to_string()).expect_err("an error");
        assert!(error.to_string().contains(words), "{dialect:?}: {error}");
        assert_eq!(error.retry, RetryAdvice::Never, "{dialect:?}: {error}");
    }
    // An event may be a list, and what a success says of itself is no error.
    let list = events(&[json!([{"error": {"message": "cold"}}])]);
    let error = read(Dialect::Gemini, &list).expect_err("an error");
    assert!(error.to_string().contains("cold"), "{error}");
    let well = json!({"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}],
        "base_resp": {"status_code": 0, "status_msg": ""}});
    assert_eq!(
        read(Dialect::ChatCompletions, &well.to_string())
            .expect("a reply")
            .text(),
        "Hi."
    );
}

#[test]
fn a_reply_in_another_dialect_is_told_as_such() {
    let samples = [
        (
            Dialect::ChatCompletions,
            json!({"choices": [{"index": 0, "message": {"content": "x"}}]}),
        ),
        (Dialect::Messages, json!({"type": "message", "content": []})),
        (
            Dialect::Responses,
            json!({"object": "response", "output": [], "status": "completed"}),
        ),
        (Dialect::Gemini, json!({"candidates": []})),
        (
            Dialect::Ollama,
            json!({"model": "m", "response": "x", "done": false}),
        ),
    ];
    for (spoken, _) in &samples {
        for (other, document) in &samples {
            let error = match *spoken {
                Dialect::Ollama => read(*spoken, &lines(std::slice::from_ref(document))),
                _ => read(*spoken, &document.to_string()),
            };
            let told = error
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            let is_told =
                told.contains("does not look like the") && told.contains("Set :dialect to");
            assert_eq!(is_told, spoken != other, "{spoken:?}, {other:?}: {told}");
        }
    }
}

#[tokio::test]
async fn a_field_that_is_refused_is_left_out_from_then_on() {
    for (status, body) in [
        (
            400,
            json!({"error": {"message": "Unrecognized request argument supplied: stream_options"}}),
        ),
        (
            422,
            json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"],
            "msg": "Extra inputs are not permitted"}]}),
        ),
        (
            400,
            routed(&json!({"error": {"message": "stream_options is not supported"}})),
        ),
    ] {
        let ok = json!({"steps": [{"text": "ok"}]});
        let server = start(json!({"turns": [{"status": status, "body": body}, ok, ok]}));
        let (client, settings) = (client(), settings(server.base_url()));
        for _ in 0..2 {
            let mut shown = Vec::new();
            let mut sink = |event| shown.push(event);
            let reply = stream(&client, &settings, &request(), &mut sink).await;
            assert_eq!(
                (reply.expect("a reply").text().as_str(), retries(&shown)),
                ("ok", 0)
            );
        }
        let sent: Vec<bool> = server
            .bodies()
            .iter()
            .map(|body| body.get("stream_options").is_some())
            .collect();
        assert_eq!(sent, [true, false, false]);
    }
}

#[tokio::test]
async fn other_fields_than_ours_and_other_words_are_no_reason_to_send_again() {
    let words = |words: &str| json!({"status": 400, "body": {"error": {"message": words}}});
    for (refusal, body) in [
        (
            words("stream_options is not supported"),
            json!({"stream_options": {"x": 1}}),
        ),
        (
            words("temperature is not supported"),
            json!({"temperature": 1}),
        ),
        (words("The model is upset about stream_options."), json!({})),
        (words("xstream_options is not supported"), json!({})),
    ] {
        let server = start(json!({"turns": [refusal], "repeat_last": true}));
        let mut settings = settings(server.base_url());
        settings.body = body.as_object().expect("an object").clone();
        let error = ask_with(&settings).await.0.expect_err("a failure");
        assert_eq!(error.kind, FailureKind::Refused(400));
        assert_eq!(server.requests().len(), 1, "{error}");
    }
    // Each field is left out once.
    let server = start(
        json!({"turns": [words("tool_choice is not supported; neither is stream_options")],
        "repeat_last": true}),
    );
    ask(&server).await.0.expect_err("a failure");
    assert_eq!(server.requests().len(), 3);
}
