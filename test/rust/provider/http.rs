// SPDX-License-Identifier: GPL-3.0-or-later
//! The HTTP client against the scripted server: what it sends, what it makes of each way to
//! answer, and what it does when nobody answers.

use std::time::Duration;

use agent_q_core::protocol::CallArguments;
use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::retry::RetryPolicy;
use agent_q_core::provider::{
    ChatMessage, ChatRequest, Dialect, FailureKind, Finish, Http, HttpSettings, ModelReply,
    ProviderError, ProviderSettings, RequestPosition, Secret, StreamEvent, ToolChoice,
};
use serde_json::{Map, Value, json};

use crate::scripted_server::ScriptedServer;

const KEY: &str = "sk-test-0123456789abcdef";

/// Long enough for any test's machine, short enough to wait for where it must pass.
const IDLE: Duration = Duration::from_secs(1);

pub(super) fn client() -> Http {
    Http::new(HttpSettings {
        first_byte_timeout: IDLE,
        idle_timeout: IDLE,
        retry: RetryPolicy {
            base_delay: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
        ..HttpSettings::default()
    })
}

pub(super) fn settings(base_url: String) -> ProviderSettings {
    ProviderSettings {
        name: "test".into(),
        dialect: Dialect::ChatCompletions,
        effort: None,
        base_url,
        model: "small".into(),
        key: Some(Secret::new(KEY.into())),
        body: Map::new(),
        first_body: Map::new(),
        headers: Vec::new(),
        facts: agent_q_core::provider::ModelFacts::default(),
        recordings: None,
        route: agent_q_core::provider::Route::default(),
        script: None,
    }
}

pub(super) fn request() -> ChatRequest {
    ChatRequest {
        messages: vec![ChatMessage::User("Hi".into())].into(),
        tools: vec![json!({"type": "function", "function": {"name": "f"}})],
        tool_choice: ToolChoice::Required,
        position: RequestPosition::First,
        written: agent_q_core::provider::WrittenCalls::Meant,
    }
}

pub(super) fn start(script: Value) -> ScriptedServer {
    ScriptedServer::start(&script.to_string())
}

/// The outcome of a request, of which SINK gets what is shown.
pub(super) async fn stream(
    client: &Http,
    settings: &ProviderSettings,
    request: &ChatRequest,
    sink: &mut (dyn FnMut(StreamEvent) + Send),
) -> Result<ModelReply, ProviderError> {
    client
        .stream_chat(settings, request, &mut ReplyReader::default(), sink)
        .await
}

/// The outcome of one request with these settings, and what was shown.
pub(super) async fn ask_with(
    settings: &ProviderSettings,
) -> (Result<ModelReply, ProviderError>, Vec<StreamEvent>) {
    let mut events = Vec::new();
    let result = stream(&client(), settings, &request(), &mut |event| {
        events.push(event);
    })
    .await;
    (result, events)
}

pub(super) async fn ask(
    server: &ScriptedServer,
) -> (Result<ModelReply, ProviderError>, Vec<StreamEvent>) {
    ask_with(&settings(server.base_url())).await
}

/// The failure of a request that shows nothing.
pub(super) async fn failure(turn: Value) -> ProviderError {
    let server = start(json!({"turns": [turn], "repeat_last": true}));
    ask(&server).await.0.expect_err("a failure")
}

fn shown(events: &[StreamEvent]) -> String {
    let text = |event: &StreamEvent| match event {
        StreamEvent::Text(text) => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

pub(super) fn retries(events: &[StreamEvent]) -> usize {
    let is_retry = |event: &&StreamEvent| matches!(event, StreamEvent::Retrying { .. });
    events.iter().filter(is_retry).count()
}

#[tokio::test]
async fn a_reply_streams_with_text_reasoning_calls_and_usage() {
    let server = start(json!({"turns": [{"steps": [
        {"reasoning": "Hm."}, {"text": "Let me "}, {"text": "see."},
        {"tool_calls": [{"id": "c1", "name": "f", "arguments": {"x": "é"}}, {"name": "g"}], "fragments": 3},
        {"usage": [12, 5]}]}]}));
    let (result, events) = ask(&server).await;
    let reply = result.expect("a reply");
    assert_eq!(shown(&events), "Let me see.");
    assert_eq!(events[0], StreamEvent::Reasoning("Hm.".into()));
    assert_eq!(
        (reply.text().as_str(), &reply.finish),
        ("Let me see.", &Finish::ToolCalls)
    );
    let calls: Vec<&str> = reply
        .calls()
        .iter()
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(calls, ["f", "g"]);
    assert_eq!(reply.calls()[0].raw_arguments, "{\"x\":\"é\"}");
    assert_eq!(
        reply.usage.map(|it| (it.input_tokens, it.output_tokens)),
        Some((12, 5))
    );
}

#[tokio::test]
async fn the_server_sees_key_choice_and_extra_fields() {
    let server = start(json!({"turns": [{"steps": [{"text": "ok"}]}]}));
    let mut settings = settings(server.base_url() + "/");
    settings.body.insert("temperature".into(), json!(0));
    settings.first_body.insert("seed".into(), json!(7));
    settings.headers.push(("X-Title".into(), "agent-q".into()));
    ask_with(&settings).await.0.expect("a reply");
    let sent = &server.requests()[0];
    assert_eq!(sent["path"], "/v1/chat/completions");
    assert_eq!(sent["headers"]["authorization"], format!("Bearer {KEY}"));
    assert_eq!(sent["headers"]["x-title"], "agent-q");
    assert_eq!(sent["body"]["model"], "small");
    assert_eq!(sent["body"]["tool_choice"], "required");
    assert_eq!(sent["body"]["temperature"], 0);
    assert_eq!(sent["body"]["seed"], 7);
}

#[tokio::test]
async fn pieces_of_one_byte_make_the_same_reply() {
    let server =
        start(json!({"turns": [{"steps": [{"split": 1}, {"text": "Größe 𝄞\u{2028} ok"}]}]}));
    let (result, events) = ask(&server).await;
    assert_eq!(result.expect("a reply").text(), "Größe 𝄞\u{2028} ok");
    assert_eq!(shown(&events), "Größe 𝄞\u{2028} ok");
}

#[tokio::test]
async fn ten_thousand_events_and_a_large_one() {
    let server = start(json!({"turns": [{"steps": [
        {"repeat": 10_000, "text": "word "}, {"big_text": 1_048_576}]}]}));
    let (result, events) = ask(&server).await;
    let text = result.expect("a reply").text();
    assert_eq!(text.len(), 50_000 + 1_048_576);
    assert!(shown(&events) == text, "all of it was shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_is_used_again() {
    let server = start(json!({"turns": [{"steps": [{"text": "ok"}]}], "repeat_last": true}));
    let (client, settings) = (client(), settings(server.base_url()));
    let requests = 12;
    for _ in 0..requests {
        let reply = stream(&client, &settings, &request(), &mut |_| {}).await;
        reply.expect("a reply");
    }
    assert_eq!(server.requests().len(), requests);
    // A connection becomes free a moment after its reply has ended: on a busy machine the next
    // request may come first and open another one. Without any reuse there were one per request.
    assert!(server.wait_until(|state| (1..requests).contains(&state.accepted)));
}

#[tokio::test]
async fn streams_are_asked_for_as_they_are() {
    let server = start(json!({"turns": [{"steps": [{"text": "ok"}]}]}));
    ask(&server).await.0.expect("a reply");
    assert_eq!(
        server.requests()[0]["headers"]["accept-encoding"],
        "identity"
    );
}

#[tokio::test]
async fn a_cut_keeps_the_text_and_truncates_the_call() {
    let server = start(json!({"turns": [{"steps": [
        {"text": "So far"}, {"tool_calls": [{"name": "f", "arguments": "{\"x\""}]}, {"cut": true}]}]}));
    let (result, events) = ask(&server).await;
    let error = result.expect_err("a failure");
    assert_eq!(error.kind, FailureKind::Interrupted);
    assert!(
        error
            .to_string()
            .contains("lost before the reply was complete"),
        "{error}"
    );
    let partial = error.partial.expect("what had arrived");
    assert_eq!(
        (shown(&events).as_str(), partial.text().as_str()),
        ("So far", "So far")
    );
    assert_eq!(partial.calls()[0].arguments, CallArguments::Truncated);
    assert_eq!(
        server.requests().len(),
        1,
        "a reply that had begun is not asked for again"
    );
}

#[tokio::test]
async fn a_cut_before_anything_is_tried_again() {
    let server = start(json!({"turns": [
        {"steps": [{"cut": true}]}, {"steps": [{"raw": ": ping\n\n"}, {"cut": true}]}, {"steps": [{"text": "ok"}]}]}));
    let (result, events) = ask(&server).await;
    assert_eq!(result.expect("a reply").text(), "ok");
    assert_eq!(retries(&events), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_given_up_before_and_within_a_reply() {
    let server = start(json!({"turns": [
        {"steps": [{"stall": true}]}, {"steps": [{"text": "So far"}, {"stall": true}]}]}));
    for (text, why) in [
        ("", "did not begin to answer within 1 s"),
        ("So far", "sent nothing for 1 s"),
    ] {
        let (result, events) = ask(&server).await;
        let error = result.expect_err("a failure");
        assert_eq!(error.kind, FailureKind::Idle);
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.partial.map(|it| it.text()).unwrap_or_default(), text);
        assert_eq!(shown(&events), text);
    }
    assert_eq!(server.requests().len(), 2, "silence is not asked again");
    assert!(server.wait_until(|state| state.aborted == 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_without_end_are_given_up() {
    let mut steps = vec![json!({"text": "So far"})];
    for _ in 0..1000 {
        steps.extend([json!({"raw": ": ping\n\n"}), json!({"pause_ms": 20})]);
        steps.push(json!({"raw": "data: {\"choices\":[{\"delta\":{}}]}\n\n"}));
    }
    let server = start(json!({"turns": [{"steps": steps}]}));
    let client = Http::new(HttpSettings {
        content_timeout: IDLE,
        ..HttpSettings::default()
    });
    let settings = settings(server.base_url());
    let result = stream(&client, &settings, &request(), &mut |_| {}).await;
    let error = result.expect_err("a failure");
    assert_eq!(error.kind, FailureKind::Idle);
    assert!(
        error.to_string().contains("sent only keep-alives for 1 s"),
        "{error}"
    );
    assert_eq!(error.partial.expect("what had come").text(), "So far");
    assert_eq!(server.requests().len(), 1, "it is not asked again");
    assert!(server.wait_until(|state| state.aborted == 1));
}

#[tokio::test]
async fn pings_are_no_silence() {
    let ping = json!([{"raw": ":\n\n"}, {"pause_ms": 100}]);
    let mut steps: Vec<Value> = Vec::new();
    while steps.len() < 26 {
        steps.extend(ping.as_array().expect("two steps").iter().cloned());
    }
    steps.push(json!({"text": "ok"}));
    let server = start(json!({"turns": [{"steps": steps}]}));
    assert_eq!(ask(&server).await.0.expect("a reply").text(), "ok");
}

#[tokio::test]
async fn a_refused_key_names_where_keys_come_from() {
    let echo = json!({"error": {"message": format!("Incorrect API key: {KEY}, that is sk-te***cdef."),
        "code": "invalid_api_key"}});
    let server = start(json!({"turns": [{"status": 401, "body": echo}]}));
    let error = ask(&server).await.0.expect_err("a failure");
    let text = error.to_string();
    assert_eq!(error.kind, FailureKind::Refused(401));
    for part in [
        "127.0.0.1",
        "auth-source",
        "login apikey",
        "Incorrect API key",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(
        !text.contains("0123456") && !text.contains("cdef"),
        "{text}"
    );
    assert_eq!(
        server.requests().len(),
        1,
        "a refused key is not tried again"
    );
}

#[tokio::test]
async fn a_missing_key_is_called_missing() {
    let server = start(json!({"turns": [{"status": 401, "body": "no"}]}));
    let mut settings = settings(server.base_url());
    settings.key = None;
    let error = ask_with(&settings).await.0.expect_err("a failure");
    assert!(error.to_string().contains("none was found"), "{error}");
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    for (status, kind, body, parts) in [
        (
            400,
            FailureKind::Refused(400),
            json!({"detail": "messages: too many"}),
            ["(400)", "messages: too many"],
        ),
        (
            402,
            FailureKind::Refused(402),
            json!({"error": "no credit left"}),
            ["account", "no credit left"],
        ),
        (
            400,
            FailureKind::NoSuchModel,
            json!({"error": "registry.ollama.ai/library/gemma:2b does not support tools"}),
            ["M-x agent-q-set-model", ":tools nil in :models"],
        ),
    ] {
        let error = failure(json!({"status": status, "body": body})).await;
        assert_eq!(error.kind, kind);
        for part in parts {
            assert!(
                error.to_string().contains(part),
                "{part:?} is not in {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_model_that_the_host_does_not_have_is_told_from_other_refusals() {
    for (status, body) in [
        (404, json!({"error": {"message": "model not found"}})),
        (404, json!("")),
        (
            400,
            json!({"error": {"message": "no/such is not a valid model ID", "code": 400}}),
        ),
        (
            400,
            json!({"error": {"message": "No.", "code": "model_not_found"}}),
        ),
    ] {
        let error = failure(json!({"status": status, "body": body})).await;
        assert_eq!(error.kind, FailureKind::NoSuchModel, "{error}");
    }
    let error = failure(json!({"status": 404, "body": {"error": "model not found"}})).await;
    for part in ["\"small\"", "model not found"] {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in {error}"
        );
    }
}

#[tokio::test]
async fn what_is_too_large_is_too_much_for_the_window() {
    let error = failure(json!({"status": 413, "body": "<html>too large</html>"})).await;
    assert_eq!(error.kind, FailureKind::Overflow);
    for part in ["new chat", "too large"] {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in {error}"
        );
    }
}

#[tokio::test]
async fn secrets_in_the_base_url_are_not_shown() {
    let server = start(json!({"turns": [{"status": 404, "body": ""}]}));
    let base_url = server.base_url().replace("//", "//me:hidden@") + "?token=hidden";
    let error = ask_with(&settings(base_url))
        .await
        .0
        .expect_err("a failure");
    assert!(error.to_string().contains(&server.base_url()), "{error}");
    assert!(!error.to_string().contains("hidden"), "{error}");
    assert_eq!(
        server.requests()[0]["path"],
        "/v1/chat/completions?token=hidden"
    );
}

#[tokio::test]
async fn a_limited_rate_is_waited_for() {
    let limit = json!({"status": 429, "headers": {"retry-after-ms": "3"}, "body": {"error": {"message": "slowly"}}});
    let server = start(json!({"turns": [limit, limit, {"steps": [{"text": "ok"}]}]}));
    let (result, events) = ask(&server).await;
    assert_eq!(result.expect("a reply").text(), "ok");
    let wait = Duration::from_millis(3);
    for (event, number) in events.iter().zip([1, 2]) {
        match event {
            StreamEvent::Retrying {
                attempt,
                attempts,
                delay,
                reason,
            } => {
                assert_eq!((*attempt, *attempts, *delay), (number, 2, wait));
                assert!(reason.contains("slowly"), "{reason}");
            }
            other => panic!("unexpected {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_failing_server_is_tried_three_times() {
    let server = start(json!({"turns": [{"status": 500, "body": "boom"}], "repeat_last": true}));
    let (result, events) = ask(&server).await;
    let error = result.expect_err("a failure");
    assert_eq!(
        (error.kind, server.requests().len()),
        (FailureKind::Refused(500), 3)
    );
    assert_eq!(retries(&events), 2);
    assert!(error.to_string().contains("boom"), "{error}");
}

#[tokio::test]
async fn a_spent_quota_is_not_tried_again() {
    let body = json!({"error": {"message": "quota", "code": "insufficient_quota"}});
    let server = start(json!({"turns": [{"status": 429, "body": body}], "repeat_last": true}));
    ask(&server).await.0.expect_err("a failure");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_error_in_the_stream_does_not_show_the_key() {
    let payload = json!({"error": {"message": format!("bad {KEY}"), "code": 401}});
    let error =
        failure(json!({"steps": [{"raw": format!("event: error\ndata: {payload}\n\n")}]})).await;
    assert_eq!(error.kind, FailureKind::Reported);
    assert!(error.to_string().contains("bad [redacted]"), "{error}");
}

#[tokio::test]
async fn a_plain_json_answer_is_a_reply() {
    let message = json!({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]});
    let server = start(json!({"turns": [{"body": message}]}));
    let (result, events) = ask(&server).await;
    assert_eq!(
        (
            result.expect("a reply").text().as_str(),
            shown(&events).as_str()
        ),
        ("ok", "ok")
    );
}

#[tokio::test]
async fn invalid_utf_8_is_shown_as_such() {
    // data: {"choices":[{"delta":{"content":"a<FF>b"}}]} and a blank line
    let bytes = "ZGF0YTogeyJjaG9pY2VzIjpbeyJkZWx0YSI6eyJjb250ZW50IjoiYf9iIn19XX0KCg==";
    let server = start(json!({"turns": [{"steps": [{"base64": bytes}]}]}));
    assert_eq!(ask(&server).await.0.expect("a reply").text(), "a\u{fffd}b");
}
