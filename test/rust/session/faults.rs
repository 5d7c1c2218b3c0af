// SPDX-License-Identifier: GPL-3.0-or-later
//! What becomes of a chat when its model's server does wrong, in each dialect: one clear outcome, no call
//! runs that was not whole, and the next message is answered. The table of all of it is in
//! test/fixtures/faults.md; AGENT_Q_WRITE_FAULTS=1 writes it.

use std::fmt::Write as _;
use std::time::Duration;

use agent_q_core::protocol::{CallOutcome, Event, TurnOutcome};
use agent_q_core::provider::http::HttpSettings;
use agent_q_core::provider::retry::RetryPolicy;
use serde_json::{Value, json};

use crate::chat::scripted_server::{Action, Script, Wire};
use crate::chat::{Chat, chat_through, turns};
use crate::fault_server::{Deed, FaultServer};

const DIALECTS: [(&str, Wire); 5] = [
    ("chat-completions", Wire::Chat),
    ("messages", Wire::Messages),
    ("responses", Wire::Responses),
    ("gemini", Wire::Gemini),
    ("ollama", Wire::Ollama),
];

/// How long a client waits where it must give up.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a server does wrong: the deeds for a dialect.
struct Fault<'a> {
    name: &'a str,
    scheme: &'static str,
    /// How often the server does it, before it does well.
    times: usize,
    /// Whether it takes nothing but time; such faults are tried side by side.
    waits: bool,
    deeds: fn(Wire) -> Vec<Deed>,
}

const fn fault(name: &'static str, deeds: fn(Wire) -> Vec<Deed>) -> Fault<'static> {
    Fault {
        name,
        scheme: "http",
        times: 3,
        waits: false,
        deeds,
    }
}

/// A fault that costs time, and is not repeated.
const fn slow(name: &'static str, deeds: fn(Wire) -> Vec<Deed>) -> Fault<'static> {
    Fault {
        times: 1,
        ..fault(name, deeds)
    }
}

/// A fault that the client's patience ends.
const fn stall(name: &'static str, deeds: fn(Wire) -> Vec<Deed>) -> Fault<'static> {
    Fault {
        waits: true,
        ..slow(name, deeds)
    }
}

/// An answer that says STEPS, without its end if NO_END is true in it.
fn said(wire: Wire, turn: Value) -> Vec<u8> {
    let script = Script::parse(&json!({"turns": [turn]}).to_string()).unwrap();
    let actions = script.turns[0].actions(0, wire).unwrap();
    let bytes = actions.into_iter().map(|action| match action {
        Action::Send(bytes) => bytes,
        other => panic!("{other:?} is no part of a stream"),
    });
    bytes.collect::<Vec<_>>().concat()
}

fn whole(wire: Wire) -> Vec<u8> {
    said(wire, json!({"steps": [{"text": "Well said."}]}))
}

fn text(wire: Wire) -> Vec<u8> {
    said(wire, json!({"steps": [{"text": "So far"}], "no_end": true}))
}

fn call() -> Value {
    json!({"tool_calls": [{"id": "call_0_0", "name": "echo", "arguments": {"text": "boom"}}],
           "fragments": 3})
}

/// Text and a call, all of it but the end of the answer.
fn text_and_call(wire: Wire) -> Vec<u8> {
    said(
        wire,
        json!({"steps": [{"text": "So far"}, call()], "no_end": true}),
    )
}

/// Text and the beginning of a call.
fn half_a_call(wire: Wire) -> Vec<u8> {
    let (text, all) = (text(wire).len(), text_and_call(wire));
    let end = text + (all.len() - text) / 2;
    all[..end].to_vec()
}

fn calling(wire: Wire) -> Vec<u8> {
    said(wire, json!({"steps": [{"text": "So far"}, call()]}))
}

/// A call and the reason for the end, without the end mark where that is another event.
fn reasoned_call(wire: Wire) -> Vec<u8> {
    match wire {
        Wire::Chat | Wire::Messages | Wire::Gemini => {
            let steps = json!([{"text": "So far"}, call(), {"finish": "tool_calls"}]);
            said(wire, json!({"steps": steps}))
        }
        Wire::Responses | Wire::Ollama => calling(wire),
    }
}

/// The event that says why the answer ends.
fn reason(wire: Wire, reason: &str) -> Vec<u8> {
    let event = match wire {
        Wire::Chat => json!({"choices": [{"delta": {}, "finish_reason": reason}]}),
        Wire::Messages => json!({"type": "message_delta", "delta": {"stop_reason": reason}}),
        Wire::Responses => json!({"type": "response.incomplete", "response":
            {"status": "incomplete", "incomplete_details": {"reason": reason}}}),
        Wire::Gemini => json!({"candidates": [{"finishReason": reason}]}),
        Wire::Ollama => {
            return format!("{}\n", json!({"done": true, "done_reason": reason})).into_bytes();
        }
    };
    format!("data: {event}\n\n").into_bytes()
}

fn head(status: &str, more: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{more}\r\n").into_bytes()
}

/// The head of an answer whose end is that of the connection.
fn plain() -> Vec<u8> {
    head(
        "200 OK",
        "content-type: text/event-stream\r\nconnection: close\r\n",
    )
}

fn chunked() -> Vec<u8> {
    head(
        "200 OK",
        "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n",
    )
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [
        format!("{:x}\r\n", bytes.len()).as_bytes(),
        bytes,
        b"\r\n".as_slice(),
    ]
    .concat()
}

fn send(parts: &[Vec<u8>]) -> Vec<Deed> {
    vec![Deed::Send(parts.concat())]
}

fn then(parts: &[Vec<u8>], deed: Deed) -> Vec<Deed> {
    [send(parts), vec![deed]].concat()
}

/// Something that says only that the server lives.
fn sign_of_life(wire: Wire) -> Vec<u8> {
    match wire {
        Wire::Chat | Wire::Gemini => b": ping\n\n".to_vec(),
        Wire::Messages => b"event: ping\ndata: {\"type\":\"ping\"}\n\n".to_vec(),
        Wire::Responses => b": ping\n\n".to_vec(),
        Wire::Ollama => b"\n".to_vec(),
    }
}

fn error_inside(wire: Wire) -> Vec<u8> {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Too busy."}}"#;
    match wire {
        Wire::Ollama => b"{\"error\":\"Too busy.\"}\n".to_vec(),
        _ => format!("event: error\ndata: {error}\n\n").into_bytes(),
    }
}

/// An event whose fields can't be told: one is there twice, or in another form; elsewhere it is cut.
fn unreadable(wire: Wire) -> Vec<u8> {
    let event = match wire {
        Wire::Messages => r#"{"type":"content_block_delta","index":0,"delta":"x"}"#,
        Wire::Responses => r#"{"type":"response.output_text.delta","delta":"x","delta":"y"}"#,
        Wire::Ollama => return b"{\"message\":\n".to_vec(),
        Wire::Chat | Wire::Gemini => r#"{"type":"#,
    };
    format!("data: {event}\n\n").into_bytes()
}

/// What servers do wrong below HTTP, and in their answers.
fn faults() -> Vec<Fault<'static>> {
    vec![
        fault("closes without a word", |_| vec![]),
        fault("resets without a word", |_| vec![Deed::Reset]),
        fault("garbage in place of HTTP", |_| {
            send(&[b"\0\x01\x02 what?\r\n\r\n".to_vec()])
        }),
        Fault {
            scheme: "https",
            ..fault("garbage in answer to a TLS hello", |_| {
                send(&[b"\x15\x03\x01\0\x02nonsense".to_vec()])
            })
        },
        Fault {
            scheme: "https",
            ..fault("reset in mid-TLS", |_| {
                // The head of a handshake record that never comes.
                then(&[b"\x16\x03\x03\0\x7a\x02".to_vec()], Deed::Reset)
            })
        },
        stall("stalls before it answers", |_| vec![Deed::Stall]),
        stall("stalls within its head", |_| {
            then(&[b"HTTP/1.1 200 OK\r\ncontent-".to_vec()], Deed::Stall)
        }),
        stall("stalls behind its head", |_| {
            then(&[chunked()], Deed::Stall)
        }),
        stall("stalls after text", |wire| {
            then(&[chunked(), chunk(&text(wire))], Deed::Stall)
        }),
        stall("stalls in a call", |wire| {
            then(&[chunked(), chunk(&half_a_call(wire))], Deed::Stall)
        }),
        stall("only signs of life", |wire| {
            then(&[plain()], Deed::Beat(sign_of_life(wire)))
        }),
        fault("lost after its head", |_| send(&[chunked()])),
        fault("lost after text", |wire| {
            send(&[chunked(), chunk(&text(wire))])
        }),
        fault("lost in a call", |wire| {
            send(&[chunked(), chunk(&half_a_call(wire))])
        }),
        fault("reset after text", |wire| {
            then(&[chunked(), chunk(&text(wire))], Deed::Reset)
        }),
        fault("ends before it says that it ends", |wire| {
            send(&[plain(), text(wire)])
        }),
        fault("ends in a call", |wire| send(&[plain(), half_a_call(wire)])),
        fault("ends behind a whole call", |wire| {
            send(&[plain(), text_and_call(wire)])
        }),
        fault("an empty answer", |_| send(&[plain()])),
        fault("a page of HTML with 200", |_| {
            send(&[plain(), b"<!doctype html><title>Log in</title>".to_vec()])
        }),
        fault("binary garbage with 200", |_| {
            send(&[plain(), (0..=255).collect()])
        }),
        fault("gzip that nobody asked for", |_| {
            let head = head("200 OK", "content-encoding: gzip\r\nconnection: close\r\n");
            send(&[
                head,
                b"\x1f\x8b\x08\0\0\0\0\0\0\x03KIL\x02\0\xc2A$5".to_vec(),
            ])
        }),
        fault("an error inside the stream", |wire| {
            send(&[plain(), error_inside(wire)])
        }),
        fault("an error after text", |wire| {
            send(&[plain(), text(wire), error_inside(wire)])
        }),
        fault("an unreadable event after text", |wire| {
            send(&[plain(), text(wire), unreadable(wire)])
        }),
        fault("a line of plain text after text", |wire| {
            send(&[plain(), text(wire), b"upstream died\n\n".to_vec()])
        }),
        fault("an unknown reason behind a call", |wire| {
            send(&[plain(), text_and_call(wire), reason(wire, "abort")])
        }),
        fault("the filter behind a call", |wire| {
            send(&[plain(), text_and_call(wire), reason(wire, "content_filter")])
        }),
        fault("a full window behind a call", |wire| {
            send(&[
                plain(),
                text_and_call(wire),
                reason(wire, "model_context_window_exceeded"),
            ])
        }),
        slow("100 MB in one event", |_| {
            vec![
                Deed::Send([plain(), b"data: ".to_vec()].concat()),
                Deed::Repeat(vec![b'x'; 1 << 20], 100),
            ]
        }),
        slow("text without end", |wire| {
            let piece = said(
                wire,
                json!({"steps": [{"big_text": 1 << 20}], "no_end": true}),
            );
            vec![Deed::Send(plain()), Deed::Repeat(piece, 100)]
        }),
        fault("a redirect", |_| {
            send(&[head(
                "307 Temporary Redirect",
                "location: http://127.0.0.1:9/v1\r\ncontent-length: 0\r\n",
            )])
        }),
    ]
}

/// A refusal with STATUS and BODY.
fn refuse(status: u16, body: &str) -> Vec<Deed> {
    let length = format!("content-length: {}\r\n", body.len());
    send(&[head(&format!("{status} No"), &length), body.into()])
}

/// Refusals and errors that say in clothes of their own what is wrong.
fn wordings() -> Vec<Fault<'static>> {
    vec![
        fault("400 with its cause inside of another error", |_| {
            refuse(
                400,
                r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"The kettle is cold.\"}}","provider_name":"Kitchen"}}}"#,
            )
        }),
        fault("400 in an event", |_| {
            refuse(
                400,
                "data: {\"error\":{\"message\":\"The kettle is cold.\"}}\n\n",
            )
        }),
        fault("400 without a body", |_| refuse(400, "")),
        fault("400 for its key", |_| {
            refuse(
                400,
                r#"{"error":{"message":"API key not valid.","status":"INVALID_ARGUMENT"}}"#,
            )
        }),
        fault("400 as it can't read a call", |_| {
            refuse(
                400,
                r#"{"error":{"message":"Failed to call a function.","code":"tool_use_failed","failed_generation":"<f>"}}"#,
            )
        }),
        fault("403 for a country", |_| {
            refuse(
                403,
                r#"{"error":{"message":"Country, region or territory not supported."}}"#,
            )
        }),
        fault("429 for a day's quota", |_| {
            refuse(
                429,
                r#"{"error":{"message":"Quota exceeded.","details":[{"violations":[{"quotaId":"RequestsPerDay"}]},{"retryDelay":"40611s"}]}}"#,
            )
        }),
        fault("500 for want of memory", |_| {
            refuse(
                500,
                r#"{"error":"model requires more system memory than is available"}"#,
            )
        }),
        fault("502 with a page", |_| {
            refuse(
                502,
                "<html><head><style>p { color: red }</style></head><body><p>Bad gateway</p></body></html>",
            )
        }),
        fault("200 with an error alone", |_| {
            refuse(
                200,
                r#"{"base_resp":{"status_code":1004,"status_msg":"Log in first."}}"#,
            )
        }),
    ]
}

/// What is odd and does no harm.
fn oddities() -> Vec<Fault<'static>> {
    vec![
        fault("the wrong content type", |wire| {
            let head = head("200 OK", "content-type: text/html\r\nconnection: close\r\n");
            send(&[head, calling(wire)])
        }),
        fault("no content type", |wire| {
            send(&[head("200 OK", "connection: close\r\n"), calling(wire)])
        }),
        fault("a byte at a time", |wire| {
            vec![Deed::Send(plain()), Deed::Drip(calling(wire))]
        }),
        fault("signs of life in between", |wire| {
            send(&[plain(), sign_of_life(wire), calling(wire)])
        }),
        fault("two answers in one", |wire| {
            send(&[plain(), calling(wire), calling(wire)])
        }),
        fault("nonsense behind its end", |wire| {
            send(&[plain(), calling(wire), b"}}}".to_vec()])
        }),
        fault("an unreadable event within", |wire| {
            send(&[plain(), text(wire), unreadable(wire), calling(wire)])
        }),
        fault("stalls behind its reason", |wire| {
            then(&[chunked(), chunk(&reasoned_call(wire))], Deed::Stall)
        }),
        fault("signs of life behind its reason", |wire| {
            then(
                &[plain(), reasoned_call(wire)],
                Deed::Beat(sign_of_life(wire)),
            )
        }),
        fault("reset behind its reason", |wire| {
            then(&[chunked(), chunk(&reasoned_call(wire))], Deed::Reset)
        }),
    ]
}

const STATUSES: [(u16, &str); 14] = [
    (400, "invalid_request_error"),
    (401, "authentication_error"),
    (402, "billing_error"),
    (403, "permission_error"),
    (404, "not_found_error"),
    (408, "timeout_error"),
    (413, "request_too_large"),
    (422, "invalid_request_error"),
    (429, "insufficient_quota"),
    (429, "rate_limit_error"),
    (500, "api_error"),
    (502, "api_error"),
    (503, "server_error"),
    (529, "overloaded_error"),
];

/// The shapes in which servers say what is wrong; CODE is in those that have one.
fn bodies(code: &str) -> [String; 5] {
    [
        json!({"error": {"message": "So it is.", "type": code}}).to_string(),
        json!({"type": "error", "error": {"type": code, "message": "So it is."}}).to_string(),
        json!([{"error": {"code": 7, "message": "So it is.", "status": code}}]).to_string(),
        json!({"message": "So it is.", "type": code}).to_string(),
        json!({"detail": "So it is.", "code": code}).to_string(),
    ]
}

/// A chat in a dialect whose server does DEEDS, as often as FAULT says, and then well.
fn chat(fault: &Fault<'_>, dialect: &str, wire: Wire, deeds: &[Deed]) -> (Chat, FaultServer) {
    let mut answers = vec![deeds.to_vec(); fault.times];
    answers.push(send(&[plain(), whole(wire)]));
    let server = FaultServer::start(answers);
    let patience = match fault.waits {
        true => PATIENCE,
        // Whatever else the machine does, no healthy answer may be too slow.
        false => PATIENCE * 60,
    };
    let base_url = format!("{}://localhost:{}/v1", fault.scheme, server.address.port());
    let client = HttpSettings {
        connect_timeout: patience,
        first_byte_timeout: patience,
        idle_timeout: patience,
        content_timeout: patience * 2,
        retry: RetryPolicy {
            base_delay: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
    };
    let provider = json!({"name": "test", "base_url": base_url, "model": "m", "dialect": dialect});
    // More tools would only make the requests longer.
    let tools = json!({"chosen": {"names": ["echo"]}});
    let settings = json!({"provider": provider, "tools": tools});
    let chat = chat_through(client, &turns(json!([])), settings);
    (chat, server)
}

/// How TURN ended and what is said about it, without what differs from run to run.
fn outcome(chat: &Chat, server: &FaultServer, turn: &TurnOutcome) -> (String, String) {
    let (word, sentence) = match turn {
        TurnOutcome::Finished => ("finished", ""),
        TurnOutcome::Failed(why)
        | TurnOutcome::NoSuchModel(why)
        | TurnOutcome::KeyRefused(why)
        | TurnOutcome::FailedLong(why) => ("failed", why.as_str()),
        TurnOutcome::Interrupted(why) | TurnOutcome::InterruptedLong(why) => {
            ("interrupted", why.as_str())
        }
        TurnOutcome::Limit(why) => ("limit", why.as_str()),
        TurnOutcome::Cancelled => ("cancelled", ""),
    };
    let requests = server.requests().len();
    let shown = match chat.shown() {
        text if text.is_empty() => "",
        _ => ", text kept",
    };
    let ran = chat
        .results()
        .iter()
        .filter(|(outcome, _)| *outcome == CallOutcome::Succeeded)
        .count();
    let ran = match ran {
        0 => String::new(),
        1 => ", the call ran".to_owned(),
        number => format!(", {number} calls ran"),
    };
    let place = format!("localhost:{}", server.address.port());
    let sentence = sentence
        .replace(&place, "HOST")
        .replace("2 s", "N s")
        .replace("4 s", "N s");
    (format!("{word} after {requests}{shown}{ran}"), sentence)
}

/// One row of the table: what comes of FAULT in each dialect, where the server does DEEDS.
async fn row(fault: &Fault<'_>, deeds: impl Fn(Wire) -> Vec<Deed>) -> String {
    let Fault { name, scheme, .. } = *fault;
    let chats = DIALECTS.map(|(dialect, wire)| {
        let (chat, server) = chat(fault, dialect, wire, &deeds(wire));
        async move {
            let turn = chat.say("Go.").await;
            let seen = outcome(&chat, &server, &turn);
            check_calls(&chat);
            if scheme == "http" {
                check_usable(&chat, &server, wire, &turn).await;
            }
            seen
        }
    });
    let seen = futures_util::future::join_all(chats).await;
    let mut row = format!("| {name} |");
    for (outcome, _) in &seen {
        let _ = write!(row, " {outcome} |");
    }
    let _ = write!(row, " {} |", seen[0].1);
    row
}

/// The rows of FAULTS, all tried side by side.
async fn rows(faults: &[&Fault<'_>]) -> Vec<String> {
    futures_util::future::join_all(faults.iter().map(|fault| row(fault, fault.deeds))).await
}

/// No call ran with anything but what was said in full, and each has its result.
fn check_calls(chat: &Chat) {
    for (outcome, content) in chat.results() {
        assert!(
            outcome != CallOutcome::Succeeded || content == "BOOM",
            "{content}"
        );
    }
    let proposed = chat
        .emacs
        .collect(|event| matches!(event, Event::CallProposed { .. }).then_some(()));
    assert_eq!(proposed.len(), chat.results().len());
}

/// The next message is answered, in a history that the server can take.
async fn check_usable(chat: &Chat, server: &FaultServer, wire: Wire, first: &TurnOutcome) {
    // What the server still has to do wrong does not matter any more.
    let mut count = 1;
    let mut last = first.clone();
    while count < 5 && (last != TurnOutcome::Finished || count == 1) {
        chat.tell(agent_q_core::protocol::Op::Submit("Again.".into()));
        count += 1;
        last = chat.ended(count).await;
    }
    assert_eq!(last, TurnOutcome::Finished, "{wire:?}");
    assert!(chat.shown().contains("Well said."));
    let request = server.requests().pop().unwrap();
    let ran = chat
        .results()
        .iter()
        .any(|(outcome, _)| *outcome == CallOutcome::Succeeded);
    let has = |text: &str| request.contains(text);
    assert_eq!(
        (has("\\\"boom\\\"") || has("\"boom\"")),
        ran,
        "{wire:?}: {request}"
    );
    assert_eq!(has("BOOM"), ran, "{wire:?}: {request}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_has_its_one_outcome() {
    let mut table = String::from(
        "<!-- SPDX-License-Identifier: GPL-3.0-or-later -->\n\
         # What becomes of a turn when the model's server does wrong\n\n\
         Written by `AGENT_Q_WRITE_FAULTS=1 cargo test --test session faults`. The number says how many\n\
         requests were sent: 3 are one and its two repetitions. What was shown is kept; no call runs that\n\
         did not arrive whole; and the next message is answered.\n\n\
         | the server | chat-completions | messages | responses | gemini | ollama | what is said |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let faults = faults();
    let waiting: Vec<_> = faults.iter().filter(|fault| fault.waits).collect();
    let mut waited = rows(&waiting).await.into_iter();
    for fault in &faults {
        let row = match fault.waits {
            true => waited.next().unwrap(),
            false => row(fault, fault.deeds).await,
        };
        table += &(row + "\n");
    }
    for (status, code) in STATUSES {
        let rows = bodies(code).map(|body| {
            let head = head(
                &format!("{status} No"),
                &format!("content-length: {}\r\n", body.len()),
            );
            let name = format!("{status} ({code})");
            async move {
                let answer = [head, body.into_bytes()].concat();
                let fault = Fault {
                    name: &name,
                    ..fault("", |_| vec![])
                };
                row(&fault, |_| send(std::slice::from_ref(&answer))).await
            }
        });
        let rows = futures_util::future::join_all(rows).await;
        assert!(rows.iter().all(|row| *row == rows[0]), "{rows:#?}");
        table += &(rows[0].clone() + "\n");
    }
    for row in rows(&wordings().iter().collect::<Vec<_>>()).await {
        table += &(row + "\n");
    }
    // What is odd is done once: the call's result must get an answer.
    let mut oddities = oddities();
    oddities.iter_mut().for_each(|fault| fault.times = 1);
    for row in rows(&oddities.iter().collect::<Vec<_>>()).await {
        table += &(row + "\n");
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/test/fixtures/faults.md");
    if std::env::var_os("AGENT_Q_WRITE_FAULTS").is_some() {
        std::fs::write(file, &table).unwrap();
    }
    let golden = std::fs::read_to_string(file).unwrap_or_default();
    for (golden, now) in golden.lines().zip(table.lines()) {
        assert_eq!(golden, now);
    }
    assert_eq!(golden, table);
}
