// SPDX-License-Identifier: GPL-3.0-or-later
//! The scripts of the scripted server: which are read, and what it says to a request that isn't in them.

use serde_json::json;

use crate::scripted_server::Script;

use super::http::{ask, start};

#[test]
fn scripts_with_mistakes_are_refused() {
    for mistake in [
        r#"{"turns": [{"steps": [{"txt": "x"}]}]}"#,
        r#"{"turns": [{"steps": [{}]}]}"#,
        r#"{"turns": [{"steps": [{"base64": "?"}]}]}"#,
        r#"{"turn": []}"#,
    ] {
        Script::parse(mistake).expect_err(mistake);
    }
}

#[test]
fn the_scripts_in_the_fixtures_are_valid() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/test/fixtures/scripts");
    let files = std::fs::read_dir(folder).expect("the folder of scripts");
    let mut count = 0;
    for file in files.map(|file| file.expect("a file").path()) {
        let text = std::fs::read_to_string(&file).expect("a script");
        Script::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        count += 1;
    }
    assert!(count > 0);
}

#[tokio::test]
async fn an_unexpected_request_is_refused_with_the_reason() {
    let server = start(json!({"turns": [
        {"expect": {"contains": ["\"Hi\""]}, "steps": [{"text": "ok"}]},
        {"expect": {"contains": ["Hi"], "lacks": ["small"]}, "steps": [{"text": "ok"}]}]}));
    for sentence in ["should contain", "should not contain \"small\"", "2 turns"] {
        let outcome = ask(&server).await.0;
        match outcome {
            Ok(reply) => assert_eq!((reply.text().as_str(), sentence), ("ok", "should contain")),
            Err(error) => assert!(error.to_string().contains(sentence), "{error}"),
        }
    }
    assert_eq!(server.requests().len(), 3);
}
