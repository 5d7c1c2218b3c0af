// SPDX-License-Identifier: GPL-3.0-or-later
//! Any history leads to requests that each host accepts: generated ones, odd ones, and the recordings of
//! streams one after the other.

use std::path::{Path, PathBuf};

use agent_q_core::protocol::CallArguments;
use agent_q_core::provider::dialect::request_body;
use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::{
    ChatMessage, Dialect, MessagePart, ModelOrigin, ModelReply, PartContent,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::hosts::{HOSTS, Host};
use crate::matrix::{call, request, result, sealed};
use crate::said::user;

/// What HOST is sent of MESSAGES; panics if it would refuse that.
fn accepted(host: Host, messages: &[ChatMessage]) -> Value {
    let body = request_body(&host.settings(), &request(messages.to_vec()));
    if let Err(complaint) = host.accepts(&body) {
        panic!("{host:?} says: {complaint}\n{messages:#?}\n{body:#}");
    }
    body
}

/// An answer with everything that the model of HOST seals.
fn answer(host: Host, text: &str, thinks: Thinks, calls: &[(&str, &str, usize)]) -> ChatMessage {
    let origin = host.settings().origin();
    let mut parts = Vec::new();
    if thinks == Thinks::Loud {
        let thought = PartContent::Thinking("Hm.".into());
        match origin.dialect {
            Dialect::Messages => {
                parts.push(sealed(thought, json!({"signature": "SEAL"})));
                parts.push(sealed(
                    PartContent::Sealed,
                    json!({"type": "redacted_thinking", "data": "SEAL"}),
                ));
            }
            Dialect::Responses => parts.push(sealed(
                thought,
                json!({"type": "reasoning", "summary": [], "encrypted_content": "SEAL"}),
            )),
            _ => parts.push(MessagePart::thinking("Hm.".into())),
        }
    }
    parts.push(MessagePart::text(text.into()));
    for (place, (id, name, serial)) in calls.iter().enumerate() {
        let mut call = call(id, &json!({"serial": serial}).to_string());
        call.name = (*name).to_owned();
        parts.push(match origin.dialect {
            Dialect::Gemini => {
                let mut seal = json!({"functionCall": {"name": name, "args": {"serial": serial}}});
                if !id.is_empty() {
                    seal["functionCall"]["id"] = (*id).into();
                }
                if place == 0 {
                    seal["thoughtSignature"] = "SEAL".into();
                }
                sealed(PartContent::Call(call), seal)
            }
            _ => MessagePart::call(call),
        });
    }
    ChatMessage::Assistant { origin, parts }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thinks {
    Loud,
    Not,
}

/// The serials of the calls in BODY with the results that they have.
fn pairs(host: Host, body: &Value) -> Vec<(u64, String)> {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    collect(body, &mut calls, &mut results);
    assert_eq!(calls.len(), results.len(), "{host:?} {body}");
    calls.into_iter().zip(results).collect()
}

/// Notes the serials and the results in VALUE, in their order.
fn collect(value: &Value, calls: &mut Vec<u64>, results: &mut Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match value {
        Value::Object(fields) => {
            if let Some(serial) = fields.get("serial") {
                calls.extend(serial.as_u64());
            } else if let Some(Value::String(arguments)) = fields.get("arguments") {
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                calls.extend(arguments["serial"].as_u64());
            }
            if fields.get("role").is_some_and(|it| it == "tool")
                || fields.get("type").is_some_and(|it| it == "tool_result")
            {
                results.push(text(&value["content"]));
            } else if fields.contains_key("call_id") && fields.contains_key("output") {
                results.push(text(&value["output"]));
            } else if let Some(response) = fields.get("response") {
                let said = response.as_object().unwrap().values().next().unwrap();
                results.push(text(said));
            }
            for field in fields.values() {
                collect(field, calls, results);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, calls, results)),
        _ => {}
    }
}

#[test]
fn ids_that_come_again_are_told_apart_by_their_places() {
    for from in HOSTS {
        let mut messages = vec![ChatMessage::System("Be brief.".into())];
        for turn in 0..3 {
            let serial = turn * 2;
            let calls = [("call_0", "look", serial), ("call_0", "find", serial + 1)];
            messages.extend([
                user("Look."),
                answer(from, "", Thinks::Not, &calls),
                result("call_0", &format!("R{serial}")),
                result("call_0", &format!("R{}", serial + 1)),
                answer(from, "Done.", Thinks::Not, &[]),
            ]);
        }
        messages.push(user("And now?"));
        for to in HOSTS {
            let body = accepted(to, &messages);
            let expected: Vec<(u64, String)> = (0..6)
                .map(|serial| (serial, format!("R{serial}")))
                .collect();
            assert_eq!(pairs(to, &body), expected, "{from:?}, then {to:?}");
        }
    }
}

#[test]
fn what_was_renamed_stays_so_as_the_chat_goes_on() {
    let mut messages = Vec::new();
    for serial in 0..4 {
        messages.extend([
            user("Look."),
            answer(Host::Kimi, "", Thinks::Not, &[("look:0", "look", serial)]),
            result("look:0", "R"),
            answer(Host::Kimi, "Done.", Thinks::Not, &[]),
        ]);
    }
    for host in [Host::OpenAi, Host::Mistral, Host::Kimi, Host::Ollama] {
        let whole = accepted(host, &messages);
        let whole = whole["messages"].as_array().unwrap();
        for end in (4..messages.len()).step_by(4) {
            let body = accepted(host, &messages[..end]);
            assert_eq!(body["messages"].as_array().unwrap()[..], whole[..end]);
        }
    }
}

#[test]
fn calls_without_results_get_one_and_results_without_calls_are_told() {
    let calls = [("a", "look", 0), ("b", "look", 1)];
    let messages = [
        result("z", "STRAY"),
        user("One."),
        answer(Host::Anthropic, "", Thinks::Not, &calls),
        user("Two."),
        result("b", "LATE"),
        result("b", "TWICE"),
        answer(Host::Anthropic, "Done.", Thinks::Not, &[]),
        user("Three."),
    ];
    for host in HOSTS {
        let body = accepted(host, &messages);
        let pairs = pairs(host, &body);
        assert_eq!(pairs.len(), 2, "{host:?}");
        assert!(pairs[0].1.contains("no result"), "{host:?}: {pairs:?}");
        assert_eq!(pairs[1], (1, "LATE".to_owned()), "{host:?}");
        let text = body.to_string();
        for word in ["STRAY", "One.", "Two.", "TWICE", "Done.", "Three."] {
            assert_eq!(text.matches(word).count(), 1, "{host:?}: {word} in {text}");
        }
    }
}

#[test]
fn a_failed_turn_leaves_one_message_of_the_users() {
    let messages = [
        ChatMessage::System("Be brief.".into()),
        user("One."),
        user("Two."),
        answer(Host::OpenAi, "Both.", Thinks::Not, &[]),
        answer(Host::Ollama, "And more.", Thinks::Not, &[]),
        user("Three."),
    ];
    for host in [Host::OpenAi, Host::Ollama] {
        let body = accepted(host, &messages);
        assert_eq!(
            body["messages"],
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "One.\n\nTwo."},
                {"role": "assistant", "content": "Both.\n\nAnd more."},
                {"role": "user", "content": "Three."},
            ])
        );
    }
}

#[derive(Debug, Clone)]
enum Said {
    User(&'static str),
    Answer {
        host: Host,
        text: &'static str,
        thinks: Thinks,
        /// Ids and names, and whether there is a result.
        calls: Vec<(&'static str, &'static str, bool)>,
        stray: Option<&'static str>,
    },
}

fn said() -> impl Strategy<Value = Said> {
    let long = "call_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    let id = prop::sample::select(vec![
        "call_0",
        "call_0",
        "call_0_2",
        "call_1",
        "a.b",
        "",
        "functions.look:0",
        "abcdefgh1",
        long,
        "é",
    ]);
    let call = (
        id.clone(),
        prop::sample::select(vec!["look", "find it!", ""]),
        prop::bool::weighted(0.8),
    );
    let words = prop::sample::select(vec!["", " \n", "Said."]);
    prop_oneof![
        prop::sample::select(vec!["", "  ", "One.", "Two\nlines."]).prop_map(Said::User),
        (
            prop::sample::select(HOSTS.to_vec()),
            words,
            prop::sample::select(vec![Thinks::Loud, Thinks::Not]),
            prop::collection::vec(call, 0..4),
            prop::option::weighted(0.2, id),
        )
            .prop_map(|(host, text, thinks, calls, stray)| Said::Answer {
                host,
                text,
                thinks,
                calls,
                stray,
            }),
    ]
}

proptest! {
    #[test]
    fn any_history_is_accepted_by_each_host(all in prop::collection::vec(said(), 0..12)) {
        let mut messages = vec![ChatMessage::System("Be brief.".into())];
        let mut serial = 0;
        let mut told = Vec::new();
        for said in all {
            match said {
                Said::User(text) => messages.push(user(text)),
                Said::Answer { host, text, thinks, calls, stray } => {
                    let numbered: Vec<_> = calls
                        .iter()
                        .enumerate()
                        .map(|(place, (id, name, _))| (*id, *name, serial + place))
                        .collect();
                    messages.push(answer(host, text, thinks, &numbered));
                    let results = calls.iter().filter(|(_, _, answered)| *answered);
                    for id in results.map(|(id, ..)| *id).chain(stray) {
                        told.push(format!("[R{}]", told.len()));
                        messages.push(result(id, &told[told.len() - 1]));
                    }
                    serial += calls.len();
                }
            }
        }
        messages.push(user("Go on."));
        for host in HOSTS {
            let text = accepted(host, &messages).to_string();
            for result in &told {
                prop_assert_eq!(text.matches(result).count(), 1, "{:?}: {} in {}", host, result, text);
            }
        }
    }
}

/// What the recordings beside the project become in a chat, as `session/turn.rs` keeps it; what several
/// become, once.
fn recorded() -> Vec<Vec<ChatMessage>> {
    let mut all = Vec::new();
    for (folder, dialects) in [("streams", 2), ("findings/wire", 1)] {
        let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
        let folder: PathBuf = match std::env::var_os("AGENT_Q_STREAMS") {
            Some(streams) if folder == "streams" => streams.into(),
            _ => shared.join(folder),
        };
        let Ok(manifest) = std::fs::read_to_string(folder.join("manifest.tsv")) else {
            #[allow(clippy::print_stderr, reason = "a test says what it left out")]
            {
                eprintln!("skipped: no recordings in {}", folder.display());
            }
            continue;
        };
        for line in manifest.lines().skip(1) {
            let columns: Vec<&str> = line.split('\t').collect();
            let names = columns[if dialects == 2 { 0 } else { 3 }];
            for name in names.split(',').map(str::trim) {
                let Some(dialect) = dialect(columns[dialects]) else {
                    continue;
                };
                if let Ok(bytes) = std::fs::read(folder.join(name)) {
                    let kept = kept(dialect, name, &bytes);
                    if !all.contains(&kept) {
                        all.push(kept);
                    }
                }
            }
        }
    }
    all
}

fn dialect(api: &str) -> Option<Dialect> {
    match api {
        "chat.completions" | "chat-completions" => Some(Dialect::ChatCompletions),
        "messages" => Some(Dialect::Messages),
        "responses" => Some(Dialect::Responses),
        "streamGenerateContent" | "gemini" => Some(Dialect::Gemini),
        "/api/chat" | "ollama" => Some(Dialect::Ollama),
        _ => None,
    }
}

/// What a chat keeps of BYTES, the recording NAME.
fn kept(dialect: Dialect, name: &str, bytes: &[u8]) -> Vec<ChatMessage> {
    let mut reader = ReplyReader::new(dialect);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // The files of lines have lost their framing.
        if name.ends_with(".jsonl") {
            reader.push(b"data: ");
            reader.push(line);
            reader.push(b"\n");
        } else {
            reader.push(line);
        }
    }
    let (whole, partial) = match reader.finish().0 {
        Ok(reply) => (Some(reply), None),
        Err(error) => (None, error.partial),
    };
    let is_cut = |reply: &ModelReply| {
        let calls = reply.calls();
        calls
            .iter()
            .any(|it| it.arguments == CallArguments::Truncated)
    };
    let host = HOSTS
        .into_iter()
        .find(|host| host.settings().dialect == dialect)
        .unwrap();
    let origin: ModelOrigin = host.settings().origin();
    match whole {
        Some(reply) if !is_cut(&reply) => {
            let results: Vec<ChatMessage> = reply
                .calls()
                .iter()
                .map(|call| result(&call.id, "RESULT"))
                .collect();
            let parts = reply.parts;
            let mut messages = vec![ChatMessage::Assistant { origin, parts }];
            messages.extend(results);
            messages
        }
        whole => {
            let text = whole.or(partial.map(|it| *it)).map(|it| it.text());
            let parts = vec![MessagePart::text(text.unwrap_or_default())];
            vec![ChatMessage::Assistant { origin, parts }]
        }
    }
}

#[test]
fn any_two_recordings_in_one_chat_are_accepted_by_each_host() {
    let all = recorded();
    for (index, one) in all.iter().enumerate() {
        for other in &all[index..] {
            // Both orders.
            let mut messages = Vec::new();
            for said in [one, other, one] {
                messages.push(user("Go on."));
                messages.extend(said.iter().cloned());
            }
            messages.push(user("Go on."));
            for host in HOSTS {
                accepted(host, &messages);
            }
        }
    }
}
