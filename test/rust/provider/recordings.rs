// SPDX-License-Identifier: GPL-3.0-or-later
//! Recorded streams of real servers in all dialects, reduced under any chunking, and cut at any byte. The recordings are not part
//! of the project: AGENT_Q_STREAMS names their folder, and without it the test has nothing to do.

use std::fs;
use std::path::{Path, PathBuf};

use agent_q_core::protocol::CallArguments;
use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::{
    Dialect, FailureKind, Finish, MessagePart, ModelReply, PartContent, ProviderError,
};
use proptest::prelude::*;
use serde_json::Value;

fn folder() -> PathBuf {
    std::env::var_os("AGENT_Q_STREAMS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/streams"),
        PathBuf::from,
    )
}

/// The dialect that the manifest's column says.
fn dialect(api: &str) -> Dialect {
    match api {
        "chat.completions" => Dialect::ChatCompletions,
        "messages" => Dialect::Messages,
        "responses" => Dialect::Responses,
        "streamGenerateContent" => Dialect::Gemini,
        "/api/chat" => Dialect::Ollama,
        other => panic!("no dialect is called {other}"),
    }
}

struct Recording {
    name: String,
    dialect: Dialect,
    body: Vec<u8>,
    expected: Value,
}

#[allow(clippy::print_stderr, reason = "a test says what it left out")]
/// All recordings; none, and a line about it, without them.
fn recordings() -> Vec<Recording> {
    let folder = folder();
    let Ok(manifest) = fs::read_to_string(folder.join("manifest.tsv")) else {
        eprintln!("skipped: no recordings in {}", folder.display());
        return Vec::new();
    };
    let expected = fs::read_to_string(folder.join("expected.json")).expect("expected.json");
    let expected: Value = serde_json::from_str(&expected).expect("JSON");
    let recording = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        Recording {
            name: columns[0].to_owned(),
            dialect: dialect(columns[2]),
            body: body(&folder.join(columns[0])),
            expected: expected[columns[0]].clone(),
        }
    };
    manifest.lines().skip(1).map(recording).collect()
}

fn reduce<'b>(
    dialect: Dialect,
    pieces: impl IntoIterator<Item = &'b [u8]>,
) -> Result<ModelReply, ProviderError> {
    let mut reader = ReplyReader::new(dialect);
    for piece in pieces {
        reader.push(piece);
    }
    reader.finish().0
}

/// Bytes as the server sent them; `.jsonl` files have lost their framing.
fn body(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).expect("a recording");
    if path.extension().is_some_and(|it| it == "jsonl") {
        let text = String::from_utf8(bytes).expect("UTF-8");
        let events: String = text
            .lines()
            .map(|line| format!("data: {line}\n\n"))
            .collect();
        events.into_bytes()
    } else {
        bytes
    }
}

/// Compare a text with one that may be shortened, with its length beside it.
fn check_text(what: &str, text: &str, expected: &Value) {
    let wanted = expected[what].as_str().expect("a text");
    match expected[format!("{what}_len")].as_u64() {
        Some(length) => {
            assert_eq!(text.chars().count() as u64, length, "{what}");
            assert!(text.starts_with(wanted.trim_end_matches('…')), "{what}");
        }
        None => assert_eq!(text, wanted, "{what}"),
    }
}

fn check_reply(reply: &ModelReply, expected: &Value) {
    match (reply.thinking(), expected["reasoning"].as_str()) {
        // Its server left the thinking in the text.
        (thinking, Some("")) if !thinking.is_empty() => {
            let all = format!("{thinking}</think>\n\n{}", reply.text());
            check_text("text", &all, expected);
        }
        (thinking, _) => {
            check_text("text", &reply.text(), expected);
            check_text("reasoning", &thinking, expected);
        }
    }
    let calls = expected["tool_calls"].as_array().expect("calls");
    assert_eq!(reply.calls().len(), calls.len());
    for (call, wanted) in reply.calls().iter().zip(calls) {
        if !wanted["id"].is_null() {
            assert_eq!(call.id, wanted["id"]);
        }
        assert!(!call.id.is_empty());
        assert_eq!(call.name, wanted["name"]);
        if let Some(raw) = wanted["raw_args"].as_str() {
            assert_eq!(call.raw_arguments, raw);
        }
        match (&call.arguments, wanted["args"].is_null()) {
            (CallArguments::Truncated, true) => {}
            (CallArguments::Object(map), false) => {
                assert_eq!(Value::Object(map.clone()), wanted["args"]);
            }
            (other, _) => panic!("{} has {other:?}", call.name),
        }
    }
    let (sealed, read): (Vec<&MessagePart>, Vec<&MessagePart>) = reply
        .parts
        .iter()
        .filter(|part| part.seal.is_some())
        .partition(|part| part.content == PartContent::Sealed);
    if let Some(redacted) = expected["redacted"].as_u64() {
        assert_eq!(sealed.len() as u64, redacted);
    }
    let signed = read.iter().filter(|part| {
        let seal = part.seal.as_ref().expect("a seal");
        let keys = ["signature", "thoughtSignature", "encrypted_content"];
        keys.iter()
            .any(|key| seal[key].as_str().is_some_and(|text| !text.is_empty()))
    });
    let wanted = ["signatures", "encrypted"]
        .iter()
        .find_map(|key| expected[key].as_u64());
    let wanted = wanted.or_else(|| expected["signature"].as_bool().map(u64::from));
    if let Some(wanted) = wanted {
        assert_eq!(signed.count() as u64, wanted, "{:?}", reply.parts);
    }
    check_usage(reply, &expected["usage"]);
}

fn check_usage(reply: &ModelReply, expected: &Value) {
    let Some(usage) = reply.usage else {
        assert!(expected.is_null());
        return;
    };
    if let Some(output) = expected.as_u64() {
        assert_eq!(usage.output_tokens, output);
        return;
    }
    let count = |names: [&str; 4]| names.iter().find_map(|name| expected[name].as_u64());
    let input = count([
        "prompt_tokens",
        "input_tokens",
        "promptTokenCount",
        "prompt_eval_count",
    ]);
    let output = count([
        "completion_tokens",
        "output_tokens",
        "candidatesTokenCount",
        "eval_count",
    ]);
    assert_eq!(Some(usage.input_tokens), input);
    // Gemini counts what was thought by itself.
    match expected["candidatesTokenCount"].as_u64() {
        Some(said) => assert!(usage.output_tokens >= said),
        None => assert_eq!(Some(usage.output_tokens), output),
    }
}

fn check(result: Result<ModelReply, ProviderError>, expected: &Value) {
    match (result, expected["error"]["message"].as_str()) {
        (Ok(reply), None) => {
            check_reply(&reply, expected);
            let finish = match expected["finish"].as_str() {
                _ if matches!(reply.finish, Finish::ToolCalls) => {
                    assert!(!reply.calls().is_empty());
                    return;
                }
                Some("stop" | "end_turn" | "STOP" | "completed") => Finish::Stop,
                Some("length" | "max_tokens" | "incomplete:max_output_tokens") => Finish::Length,
                Some("refusal") => {
                    assert!(matches!(&reply.finish, Finish::Refused(why) if !why.is_empty()));
                    return;
                }
                other => panic!("unexpected {other:?}"),
            };
            assert_eq!(reply.finish, finish);
        }
        (Err(error), Some(message)) => {
            assert!(error.to_string().contains(message), "{error}");
            match error.partial {
                Some(partial) => check_reply(&partial, expected),
                None => assert_eq!(expected["text"], ""),
            }
        }
        (result, _) => panic!("unexpected {result:?}"),
    }
}

#[test]
fn recordings_reduce_to_the_expected_message() {
    for recording in recordings() {
        let Recording {
            name,
            dialect,
            body,
            expected,
        } = recording;
        for size in [1, 2, 3, 7, 64, 1000, body.len()] {
            eprintln!("{name} in pieces of {size}");
            check(reduce(dialect, body.chunks(size)), &expected);
        }
    }
}

/// A reply that was cut is whole all the same, or it failed; no call of it has other arguments than
/// those of the recording.
#[test]
fn a_recording_cut_at_any_byte_has_one_clear_outcome() {
    for recording in recordings() {
        let Recording {
            name,
            dialect,
            body,
            ..
        } = recording;
        let whole = match reduce(dialect, [&body[..]]) {
            Ok(reply) => Some(reply),
            Err(error) => error.partial.map(|partial| *partial),
        };
        let runnable = |reply: Option<&ModelReply>| -> Vec<(String, CallArguments)> {
            let calls = reply.map(ModelReply::calls).unwrap_or_default();
            let wholes = calls
                .into_iter()
                .filter(|call| call.arguments != CallArguments::Truncated);
            wholes
                .map(|call| (call.name.clone(), call.arguments.clone()))
                .collect()
        };
        let step = if body.len() > 20_000 { 37 } else { 1 };
        for end in (0..body.len()).step_by(step) {
            match reduce(dialect, [&body[..end]]) {
                Ok(reply) => {
                    assert_eq!(
                        runnable(Some(&reply)),
                        runnable(whole.as_ref()),
                        "{name} at {end}"
                    );
                }
                Err(error) => {
                    assert_eq!(runnable(error.partial.as_deref()), [], "{name} at {end}");
                    assert!(!error.message.is_empty());
                    assert!(
                        error.kind != FailureKind::Garbage || end < 40,
                        "{name} at {end}: {}",
                        error.message
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn recordings_reduce_to_the_same_in_any_pieces(sizes in prop::collection::vec(1_usize..200, 1..40)) {
        for recording in recordings() {
            let mut pieces = Vec::new();
            let mut rest = &recording.body[..];
            let mut next = sizes.iter().cycle();
            while !rest.is_empty() {
                let (piece, tail) = rest.split_at((*next.next().unwrap()).min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            check(reduce(recording.dialect, pieces), &recording.expected);
        }
    }
}
