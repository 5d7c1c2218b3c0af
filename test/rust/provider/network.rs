// SPDX-License-Identifier: GPL-3.0-or-later
//! The HTTP client where the network is the matter: nobody there, the wrong one there, a client
//! that goes away, and finding the servers of this machine.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use agent_q_core::protocol::{CallOutcome, ListedModel, ToolCall};
use agent_q_core::provider::arguments::parse_arguments;
use agent_q_core::provider::discovery::{Candidate, listed_models};
use agent_q_core::provider::{
    ChatMessage, ChatRequest, Dialect, FailureKind, Finish, MessagePart, ProviderSettings, Secret,
    StreamEvent,
};
use serde_json::{Value, json};

use crate::scripted_server::{Script, ScriptedServer};

use super::http::{ask, ask_with, client, failure, request, retries, settings, start, stream};

/// A port of this machine at which nothing listens.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

#[tokio::test]
async fn nobody_there_is_said_plainly() {
    let port = free_port();
    let (result, events) = ask_with(&settings(format!("http://127.0.0.1:{port}/v1"))).await;
    let error = result.expect_err("a failure");
    assert_eq!(error.kind, FailureKind::Connection);
    let sentence = format!("Nothing listens at 127.0.0.1:{port}. Is the server running?");
    assert_eq!((error.to_string(), retries(&events)), (sentence, 2));
}

/// Whether this machine has any network but its own.
fn is_online() -> bool {
    std::net::UdpSocket::bind("0.0.0.0:0").is_ok_and(|it| it.connect("192.0.2.1:9").is_ok())
}

/// A machine without a network finds no host, and says which of the two it is.
#[tokio::test]
async fn an_unknown_host_is_named() {
    let error = ask_with(&settings("http://no-such-host.invalid/v1".into()))
        .await
        .0;
    let error = error.expect_err("a failure");
    let (kind, words) = match is_online() {
        true => (
            FailureKind::Connection,
            "no-such-host.invalid can't be found",
        ),
        false => (
            FailureKind::NetworkDown,
            "no-such-host.invalid is unreachable: no network.",
        ),
    };
    assert_eq!(error.kind, kind);
    assert!(error.to_string().contains(words), "{error}");
}

/// A port at which every connection gets this answer, whatever it asks.
fn always_answering(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A client that does not want the answer is no failure of the test.
            let _ = stream
                .read(&mut [0; 4096])
                .and_then(|_| stream.write_all(answer));
        }
    });
    port
}

#[tokio::test]
async fn settings_that_make_no_request_are_refused() {
    for base_url in ["", "api.openai.com/v1", "file:///etc", "http://"] {
        let error = ask_with(&settings(base_url.into()))
            .await
            .0
            .expect_err("a failure");
        assert_eq!(error.kind, FailureKind::Settings, "{base_url:?}");
    }
    let mut settings = settings("http://127.0.0.1:1/v1".into());
    settings.key = Some(Secret::new("two\nlines".into()));
    let error = ask_with(&settings).await.0.expect_err("a failure");
    assert_eq!(error.kind, FailureKind::Settings);
    assert!(!error.to_string().contains("two"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = start(json!({"turns": [{"steps": [{"text": "gotcha"}]}]}));
    for status in [302, 307, 308] {
        let location = format!("{}/chat/completions", elsewhere.base_url());
        let error = failure(json!({"status": status, "headers": {"location": location}})).await;
        assert_eq!(error.kind, FailureKind::Refused(status));
        assert!(
            error.to_string().contains("Correct the base URL"),
            "{error}"
        );
    }
    assert_eq!(elsewhere.requests(), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_future_closes_the_connection() {
    let server = start(json!({"turns": [{"steps": [{"text": "So far"}, {"stall": true}]}]}));
    let settings = settings(server.base_url());
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let client = Arc::new(client());
    let task = tokio::spawn(async move {
        let mut sink = |event| sender.send(event).expect("the test listens");
        stream(&client, &settings, &request(), &mut sink).await
    });
    assert_eq!(
        receiver.recv().await,
        Some(StreamEvent::Text("So far".into()))
    );
    task.abort();
    assert!(task.await.expect_err("no outcome").is_cancelled());
    assert!(server.wait_until(|state| state.aborted == 1 && state.open == 0));
}

#[tokio::test]
async fn local_servers_are_found_in_order() {
    let first = start(json!({"turns": [], "models": ["small", "text-embedding-x"]}));
    let second = start(json!({"turns": []}));
    let web_server = always_answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    let candidate = |name: &'static str, base_url: String| Candidate {
        name: name.into(),
        base_url: base_url.into(),
    };
    let found = client()
        .discover(&[
            candidate("Nobody", format!("http://127.0.0.1:{}/v1", free_port())),
            candidate("First", first.base_url()),
            candidate("A web server", format!("http://127.0.0.1:{web_server}")),
            candidate("Second", second.base_url()),
        ])
        .await;
    let summary: Vec<(&str, Vec<&str>)> = found
        .iter()
        .map(|it| (it.name.as_str(), names(&it.models)))
        .collect();
    assert_eq!(
        summary,
        [("First", vec!["small"]), ("Second", vec!["scripted"])]
    );
    assert_eq!(found[0].base_url, first.base_url());
}

fn names(models: &[ListedModel]) -> Vec<&str> {
    models.iter().map(|model| model.name.as_str()).collect()
}

#[tokio::test]
async fn a_host_lists_its_models_and_a_silent_one_none() {
    let server = start(json!({"turns": [], "models": ["small", "big", "text-embedding-x"]}));
    let mut settings = settings(server.base_url());
    let listed = client().models(&settings).await.expect("a list");
    assert_eq!(names(&listed), ["big", "small"]);
    settings.base_url = format!("http://127.0.0.1:{}/v1", free_port());
    assert!(client().models(&settings).await.is_err());
}

#[tokio::test]
async fn each_dialect_asks_at_its_own_address_with_its_own_key_header() {
    for (dialect, path, header, text) in [
        (
            Dialect::ChatCompletions,
            "/v1/chat/completions",
            "authorization",
            "Bearer sk-scripted-key-0123456789",
        ),
        (
            Dialect::Messages,
            "/v1/messages",
            "x-api-key",
            "sk-scripted-key-0123456789",
        ),
        (
            Dialect::Responses,
            "/v1/responses",
            "authorization",
            "Bearer sk-scripted-key-0123456789",
        ),
        (
            Dialect::Gemini,
            "/v1/models/small:streamGenerateContent?alt=sse",
            "x-goog-api-key",
            "sk-scripted-key-0123456789",
        ),
        (
            Dialect::Ollama,
            "/api/chat",
            "authorization",
            "Bearer sk-scripted-key-0123456789",
        ),
    ] {
        let server = start(json!({"turns": [{"steps": [
            {"reasoning": "Hm"}, {"text": "Größe"}, {"text": "."},
            {"tool_calls": [{"name": "f", "arguments": {"x": "é"}}], "fragments": 3}]}]}));
        let settings = ProviderSettings {
            dialect,
            key: Some(Secret::new("sk-scripted-key-0123456789".into())),
            ..settings(server.base_url())
        };
        let reply = ask_with(&settings).await.0.expect("a reply");
        assert_eq!(
            (reply.text().as_str(), reply.thinking().as_str()),
            ("Größe.", "Hm"),
            "{dialect:?}"
        );
        assert_eq!(
            (&reply.finish, reply.calls().len()),
            (&Finish::ToolCalls, 1),
            "{dialect:?}"
        );
        let call = reply.calls()[0];
        assert_eq!(call.raw_arguments, "{\"x\":\"é\"}", "{dialect:?}");
        let request = server.requests().remove(0);
        assert_eq!(
            (&request["path"], &request["headers"][header]),
            (&json!(path), &json!(text))
        );
        let version = &request["headers"]["anthropic-version"];
        assert_eq!(version.is_string(), dialect == Dialect::Messages);
        let keys = request["headers"]
            .to_string()
            .matches("sk-scripted-key")
            .count();
        assert_eq!(keys, 1, "{dialect:?}");
    }
}

#[test]
fn models_that_are_listed_below_a_folder_lose_it() {
    let list = json!({"models": [{"name": "models/gemini-x"}, {"name": "models/embedding-x"}]});
    assert_eq!(names(&listed_models(&list).expect("a list")), ["gemini-x"]);
}

#[test]
fn a_host_says_the_limits_of_its_models_in_its_own_way() {
    let list = json!({"data": [
        {"id": "openrouter", "context_length": 200_000,
         "top_provider": {"context_length": 128_000, "max_completion_tokens": 16_000}},
        {"id": "null", "context_length": 4096, "top_provider": {"context_length": null}},
        {"id": "groq", "context_window": 131_072, "max_completion_tokens": 65_536},
        {"id": "vllm", "max_model_len": 32_768},
        {"id": "mistral", "max_context_length": 262_144},
        {"id": "gemini", "inputTokenLimit": 1_000_000, "outputTokenLimit": 65_536},
        {"id": "llama.cpp", "meta": {"n_ctx": 8192, "n_ctx_train": 131_072}},
        {"id": "as large as the window", "context_length": 1000, "max_tokens": 1000},
        {"id": "openai"},
        {"id": "zero", "context_length": 0},
    ]});
    let limits: Vec<(String, Option<u64>, Option<u64>)> = listed_models(&list)
        .expect("a list")
        .into_iter()
        .map(|it: ListedModel| (it.name, it.context_window, it.max_output))
        .collect();
    let expected = [
        ("openrouter", Some(128_000), Some(16_000)),
        ("null", Some(4096), None),
        ("groq", Some(131_072), Some(65_536)),
        ("vllm", Some(32_768), None),
        ("mistral", Some(262_144), None),
        ("gemini", Some(1_000_000), Some(65_536)),
        ("llama.cpp", Some(8192), None),
        ("as large as the window", Some(1000), None),
        ("openai", None, None),
        ("zero", None, None),
    ];
    let expected = expected.map(|(name, window, output)| (name.to_owned(), window, output));
    assert_eq!(limits, expected);
}

/// A history in which MODEL thought, with a signature, and called.
pub(super) fn signed(dialect: Dialect, settings: &ProviderSettings) -> ChatRequest {
    let seal = match dialect {
        Dialect::Gemini => {
            json!({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "SEAL"})
        }
        _ => json!({"signature": "SEAL"}),
    };
    let call = MessagePart::call(ToolCall {
        id: "a".into(),
        name: "f".into(),
        arguments: parse_arguments("{}"),
        raw_arguments: "{}".into(),
    });
    let parts = match dialect {
        Dialect::Gemini => vec![MessagePart {
            seal: Some(seal),
            ..call
        }],
        _ => vec![
            MessagePart {
                seal: Some(seal),
                ..MessagePart::thinking("Hm.".into())
            },
            call,
        ],
    };
    ChatRequest {
        messages: vec![
            ChatMessage::User("Hi".into()),
            ChatMessage::Assistant {
                origin: settings.origin(),
                parts,
            },
            ChatMessage::Tool {
                call_id: "a".into(),
                content: "It ran.".into(),
                outcome: CallOutcome::Succeeded,
            },
        ]
        .into(),
        ..request()
    }
}

#[tokio::test]
async fn a_refused_signature_is_left_out_once() {
    let refused = json!({"status": 400, "body": {"error": {"message": "Invalid `signature` in `thinking` block"}}});
    for dialect in [Dialect::Messages, Dialect::Gemini] {
        let server =
            start(json!({"turns": [refused, {"steps": [{"text": "ok"}]}, refused, refused]}));
        let mut settings = settings(server.base_url());
        settings.dialect = dialect;
        settings.model = "gemini-3-pro".into();
        let request = signed(dialect, &settings);
        let mut events = Vec::new();
        let client = client();
        let reply = stream(&client, &settings, &request, &mut |event| {
            events.push(event);
        })
        .await
        .expect("a reply");
        assert_eq!((reply.text().as_str(), retries(&events)), ("ok", 0));
        let bodies = server.bodies();
        let has = |number: usize, what: &str| bodies[number].to_string().contains(what);
        assert!(has(0, "SEAL") && !has(1, "SEAL"), "{dialect:?}");
        assert!(has(1, "It ran."), "{dialect:?}");
        assert_eq!(
            has(1, "skip_thought_signature_validator"),
            dialect == Dialect::Gemini
        );
        let error = stream(&client, &settings, &request, &mut |_| {}).await;
        assert_eq!(
            error.expect_err("a failure").kind,
            FailureKind::Refused(400)
        );
        assert_eq!(server.requests().len(), 4, "sent again once");
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_is_named() {
    let error = failure(json!({"hang_up": true})).await;
    assert_eq!(error.kind, FailureKind::Closed);
    assert!(
        error
            .to_string()
            .ends_with("closed the connection without an answer."),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_begins_to_answer_is_given_up() {
    let server = start(json!({"turns": [{"delay_ms": 600_000}]}));
    let error = ask(&server).await.0.expect_err("a failure");
    assert_eq!(error.kind, FailureKind::Idle);
    assert!(
        error
            .to_string()
            .contains("did not begin to answer within 1 s"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 1, "it may still be working on it");
}

/// What was recorded is played again, and has no key.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_is_recorded_and_played_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let echo = format!(
        "Wrong key: {}.",
        settings(String::new()).key.expect("a key").reveal()
    );
    let server = start(json!({"turns": [
        {"status": 429, "headers": {"retry-after-ms": "1", "set-cookie": "private"},
         "body": {"error": {"message": "Slow down."}}},
        {"steps": [{"split": 7}, {"text": "Zwölf "}, {"pause_ms": 50}, {"text": "Boxkämpfer"},
                   {"tool_calls": [{"name": "f", "arguments": {"x": "é"}}]}, {"usage": [10, 5]}]},
        {"steps": [{"text": "So far"}, {"cut": true}]},
        {"status": 401, "body": {"error": {"message": echo}}},
        {"steps": [{"text": echo}]},
    ]}));
    let asked = |base_url: String| {
        let mut settings = settings(base_url);
        settings.recordings = Some(folder.path().join("new"));
        // As a file has it, with the end of its line.
        let key = settings.key.take().expect("a key");
        settings.key = Some(Secret::new(format!("{}\n", key.reveal())));
        async move {
            let mut seen = Vec::new();
            for _ in 0..4 {
                let (result, events) = ask_with(&settings).await;
                let outcome = match result {
                    Ok(reply) => format!("{} {:?} {:?}", reply.text(), reply.calls(), reply.usage),
                    Err(error) => format!(
                        "{:?} {}",
                        error.kind,
                        error
                            .partial
                            .map(|partial| partial.text())
                            .unwrap_or_default()
                    ),
                };
                seen.push((outcome, retries(&events)));
            }
            seen
        }
    };
    let first = asked(server.base_url()).await;
    let files = await_files(&folder.path().join("new"), 5).await;
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a recording");
        assert!(
            !text.contains("sk-test") && !text.contains("private"),
            "{text}"
        );
        assert!(text.contains("\"path\": \"/v1/chat/completions\""));
        assert!(text.contains("\"content\": \"Hi\""));
    }
    let replayed = ScriptedServer::listen(
        Script::of_folder(&folder.path().join("new")).expect("a script"),
        0,
        None,
    );
    let replayed = replayed.expect("a server");
    let mut again = asked(replayed.base_url()).await;
    // The echoed key is not the key any more.
    again[3].0 = again[3].0.replace(
        "[redacted]",
        settings(String::new()).key.expect("a key").reveal(),
    );
    assert_eq!(first, again);
    assert_eq!(replayed.requests().len(), 5);
}

/// The files in FOLDER, once there are COUNT that are whole.
async fn await_files(folder: &std::path::Path, count: usize) -> Vec<std::path::PathBuf> {
    loop {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let files: Vec<_> = entries.map(|entry| entry.path()).collect();
        let whole = files.iter().all(|file| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            serde_json::from_str::<Value>(&text).is_ok()
        });
        if files.len() == count && whole {
            return files;
        }
        tokio::task::yield_now().await;
    }
}
