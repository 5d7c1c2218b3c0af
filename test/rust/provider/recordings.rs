// SPDX-License-Identifier: GPL-3.0-or-later
//! Recorded streams of real servers, reduced under several chunkings. The recordings are not part
//! of the project: AGENT_Q_STREAMS names their folder, and without it the test has nothing to do.

use std::fs;
use std::path::{Path, PathBuf};

use agent_q_core::protocol::CallArguments;
use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::{Finish, ModelReply, ProviderError};
use serde_json::Value;

fn folder() -> PathBuf {
    std::env::var_os("AGENT_Q_STREAMS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/streams"),
        PathBuf::from,
    )
}

fn reduce(bytes: &[u8], size: usize) -> Result<ModelReply, ProviderError> {
    let mut reader = ReplyReader::default();
    for chunk in bytes.chunks(size) {
        reader.push(chunk);
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
    check_text("text", &reply.text, expected);
    check_text("reasoning", &reply.reasoning, expected);
    let calls = expected["tool_calls"].as_array().expect("calls");
    assert_eq!(reply.calls.len(), calls.len());
    for (call, wanted) in reply.calls.iter().zip(calls) {
        assert_eq!(call.id, wanted["id"]);
        assert_eq!(call.name, wanted["name"]);
        assert_eq!(call.raw_arguments, wanted["raw_args"]);
        match (&call.arguments, expected["finish"].as_str()) {
            (arguments, Some("length")) => assert_eq!(*arguments, CallArguments::Truncated),
            (CallArguments::Object(map), _) => {
                assert_eq!(Value::Object(map.clone()), wanted["args"]);
            }
            (other, _) => panic!("{} has {other:?}", call.name),
        }
    }
    let usage = &expected["usage"];
    let counts = reply
        .usage
        .map(|usage| (usage.input_tokens, usage.output_tokens));
    let wanted = usage["prompt_tokens"]
        .as_u64()
        .zip(usage["completion_tokens"].as_u64());
    assert_eq!(counts, wanted);
}

fn check(result: Result<ModelReply, ProviderError>, expected: &Value) {
    match (result, expected["error"]["message"].as_str()) {
        (Ok(reply), None) => {
            check_reply(&reply, expected);
            let finish = match expected["finish"].as_str() {
                Some("tool_calls") => Finish::ToolCalls,
                Some("stop") => Finish::Stop,
                Some("length") => Finish::Length,
                other => panic!("unexpected {other:?}"),
            };
            assert_eq!(reply.finish, finish);
        }
        (Err(error), Some(message)) => {
            assert!(error.to_string().contains(message), "{error}");
            check_reply(&error.partial.expect("what had arrived"), expected);
        }
        (result, _) => panic!("unexpected {result:?}"),
    }
}

#[test]
fn recordings_reduce_to_the_expected_message() {
    let folder = folder();
    let Ok(manifest) = fs::read_to_string(folder.join("manifest.tsv")) else {
        eprintln!("skipped: no recordings in {}", folder.display());
        return;
    };
    let expected = fs::read_to_string(folder.join("expected.json")).expect("expected.json");
    let expected: Value = serde_json::from_str(&expected).expect("JSON");
    let mut checked = 0;
    for line in manifest.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        if columns[2] != "chat.completions" {
            continue;
        }
        let bytes = body(&folder.join(columns[0]));
        for size in [1, 2, 3, 7, 64, 1000, bytes.len()] {
            eprintln!("{} in pieces of {size}", columns[0]);
            check(reduce(&bytes, size), &expected[columns[0]]);
        }
        checked += 1;
    }
    assert!(
        checked > 0,
        "the manifest names no chat.completions recording"
    );
    eprintln!("{checked} recordings");
}
