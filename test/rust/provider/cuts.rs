// SPDX-License-Identifier: GPL-3.0-or-later
//! A small stream in each dialect, cut at any byte: it is whole, or none of its calls runs.

use agent_q_core::protocol::{CallArguments, ToolCall};
use agent_q_core::provider::ModelReply;
use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::{Dialect, ProviderError};
use serde_json::json;

use crate::dialects::{completed, gemini};
use crate::fault_server::{Deed, FaultServer};
use crate::http::{ask_with, settings};
use crate::messages::{block, ended, start, stop, tool_use};
use crate::said::{events, lines};

/// A whole reply with text and a call, in each dialect.
pub fn small_stream(dialect: Dialect) -> String {
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
        let text = body.find("look.").expect("its text");
        let said = text + body[text..].find('\n').expect("the end of its line");
        let mut wholes = 0;
        for end in 0..=body.len() {
            let mut reader = ReplyReader::new(dialect);
            reader.push(&body.as_bytes()[..end]);
            match reader.finish().0 {
                Ok(reply) => {
                    wholes += 1;
                    assert_eq!(
                        (reply.text().as_str(), reply.calls().len()),
                        ("Let me look.", 1)
                    );
                    assert!(matches!(
                        reply.calls()[0].arguments,
                        CallArguments::Object(_)
                    ));
                }
                Err(error) => {
                    let partial = error.partial.as_deref();
                    if end >= said {
                        let kept = partial.map(ModelReply::text);
                        assert_eq!(
                            kept.as_deref(),
                            Some("Let me look."),
                            "{dialect:?} at {end}"
                        );
                    }
                    let calls = partial.map(ModelReply::calls).unwrap_or_default();
                    let truncated = |call: &&ToolCall| call.arguments == CallArguments::Truncated;
                    assert!(calls.iter().all(truncated), "{dialect:?} at {end}");
                    assert_eq!(wholes, 0, "{dialect:?} at {end}");
                }
            }
        }
        assert!(wholes > 0, "{dialect:?}");
    }
}

/// On a socket the outcome is that of the pure decoder, wherever between two events the connection ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_cut_between_events_ends_alike_on_a_socket() {
    for dialect in crate::matrix::DIALECTS {
        let body = small_stream(dialect);
        let ends = body
            .match_indices('\n')
            .map(|(place, _)| place + 1)
            .chain([0, body.len() - 1]);
        for end in ends {
            let prefix = &body.as_bytes()[..end];
            let mut reader = ReplyReader::new(dialect);
            reader.push(prefix);
            let pure = reader.finish().0;
            let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
            let server = FaultServer::start(vec![vec![Deed::Send([head, prefix].concat())]]);
            let mut settings = settings(format!("http://{}/v1", server.address));
            settings.dialect = dialect;
            let on_a_socket = ask_with(&settings).await.0;
            match (pure, on_a_socket) {
                (Ok(pure), Ok(reply)) => assert_eq!(
                    (pure.text(), pure.calls().len(), pure.finish),
                    (reply.text(), reply.calls().len(), reply.finish)
                ),
                (Err(pure), Err(error)) => {
                    assert_eq!(pure.kind, error.kind, "{dialect:?} at {end}");
                    let text = |error: &ProviderError| {
                        error.partial.as_ref().map(|partial| partial.text())
                    };
                    assert_eq!(text(&pure), text(&error), "{dialect:?} at {end}");
                    let sent = if error.partial.is_some() { 1 } else { 3 };
                    assert_eq!(server.requests().len(), sent, "{dialect:?} at {end}");
                }
                (pure, reply) => panic!("{dialect:?} at {end}: {pure:?} but {reply:?}"),
            }
        }
    }
}
