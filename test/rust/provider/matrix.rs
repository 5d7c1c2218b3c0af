// SPDX-License-Identifier: GPL-3.0-or-later
//! Changing the model in mid-chat, between each pair of dialects: what one provider sealed is sent to
//! no other, ids fit, every call has its result; and a history survives being written and read.

use agent_q_core::protocol::{CallOutcome, ToolCall};
use agent_q_core::provider::arguments::parse_arguments;
use agent_q_core::provider::dialect::{request_body, written_body};
use agent_q_core::provider::{
    ChatMessage, ChatRequest, Dialect, MessagePart, ModelFacts, PartContent, ProviderSettings,
    RequestPosition, StreamEvent, ToolChoice,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

pub const DIALECTS: [Dialect; 5] = [
    Dialect::ChatCompletions,
    Dialect::Messages,
    Dialect::Responses,
    Dialect::Gemini,
    Dialect::Ollama,
];

pub fn settings(dialect: Dialect) -> ProviderSettings {
    ProviderSettings {
        name: "test".into(),
        dialect,
        effort: None,
        base_url: format!("https://{dialect:?}.example/v1"),
        model: format!("model-{dialect:?}"),
        key: None,
        body: Map::new(),
        first_body: Map::new(),
        headers: Vec::new(),
        facts: ModelFacts::default(),
        recordings: None,
        route: agent_q_core::provider::Route::default(),
        script: None,
    }
}

pub fn request(messages: Vec<ChatMessage>) -> ChatRequest {
    let function = json!({"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}});
    ChatRequest {
        messages: messages.into(),
        tools: vec![json!({"type": "function", "function": function})],
        tool_choice: ToolChoice::Auto,
        position: RequestPosition::Later,
        written: agent_q_core::provider::WrittenCalls::Meant,
    }
}

pub fn call(id: &str, raw: &str) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: "look".into(),
        raw_arguments: raw.into(),
        arguments: parse_arguments(raw),
    }
}

pub fn sealed(content: PartContent, seal: Value) -> MessagePart {
    MessagePart {
        content,
        seal: Some(seal),
    }
}

pub fn result(id: &str, content: &str) -> ChatMessage {
    ChatMessage::Tool {
        call_id: id.into(),
        content: content.into(),
        outcome: CallOutcome::Succeeded,
    }
}

/// A turn as the model of a dialect has it, with everything that this dialect seals.
fn turn(dialect: Dialect) -> Vec<ChatMessage> {
    let (first, second) = match dialect {
        // One that others don't take.
        Dialect::Responses => (format!("call_{}", "x".repeat(50)), "call_2".to_owned()),
        Dialect::ChatCompletions => ("functions.look:0".to_owned(), "b".to_owned()),
        _ => ("one".to_owned(), "two".to_owned()),
    };
    let thinking = PartContent::Thinking("THOUGHT".into());
    let first_call = PartContent::Call(call(&first, "{\"at\": \"a\"}"));
    let mut parts = match dialect {
        Dialect::ChatCompletions => vec![
            MessagePart::thinking("THOUGHT".into()),
            sealed(
                PartContent::Sealed,
                json!([{"type": "reasoning.encrypted", "data": "SEAL"}]),
            ),
        ],
        Dialect::Messages => vec![
            sealed(thinking, json!({"signature": "SEAL"})),
            sealed(
                PartContent::Sealed,
                json!({"type": "redacted_thinking", "data": "SEAL"}),
            ),
        ],
        Dialect::Responses => vec![sealed(
            thinking,
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEAL"}),
        )],
        Dialect::Gemini | Dialect::Ollama => vec![MessagePart::thinking("THOUGHT".into())],
    };
    parts.push(MessagePart::text("Let me look.".into()));
    parts.push(match dialect {
        Dialect::Gemini => sealed(
            first_call,
            json!({"functionCall": {"name": "look", "args": {"at": "a"}, "id": first}, "thoughtSignature": "SEAL"}),
        ),
        _ => MessagePart {
            content: first_call,
            seal: None,
        },
    });
    parts.push(MessagePart::call(call(&second, "{}")));
    let origin = settings(dialect).origin();
    vec![
        ChatMessage::User("What is there?".into()),
        ChatMessage::Assistant {
            origin: origin.clone(),
            parts,
        },
        result(&first, "FIRST"),
        result(&second, "SECOND"),
        ChatMessage::Assistant {
            origin,
            parts: vec![MessagePart::text("Two things.".into())],
        },
    ]
}

/// The ids of calls and of results that a body has, in order.
fn ids(dialect: Dialect, body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let note = |list: &mut Vec<String>, id: &Value| list.push(id.as_str().unwrap_or("").to_owned());
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match dialect {
        Dialect::ChatCompletions | Dialect::Ollama => {
            for message in list(&body["messages"]) {
                for call in list(&message["tool_calls"]) {
                    note(&mut calls, &call["id"]);
                }
                if message["role"] == "tool" {
                    note(&mut results, &message["tool_call_id"]);
                }
            }
        }
        Dialect::Messages => {
            for block in list(&body["messages"])
                .iter()
                .flat_map(|it| list(&it["content"]))
            {
                match block["type"].as_str() {
                    Some("tool_use") => note(&mut calls, &block["id"]),
                    Some("tool_result") => note(&mut results, &block["tool_use_id"]),
                    _ => {}
                }
            }
        }
        Dialect::Responses => {
            for item in list(&body["input"]) {
                match item["type"].as_str() {
                    Some("function_call") => note(&mut calls, &item["call_id"]),
                    Some("function_call_output") => note(&mut results, &item["call_id"]),
                    _ => {}
                }
            }
        }
        Dialect::Gemini => {
            for part in list(&body["contents"])
                .iter()
                .flat_map(|it| list(&it["parts"]))
            {
                if let Some(call) = part.get("functionCall") {
                    note(&mut calls, &call["id"]);
                }
                if let Some(response) = part.get("functionResponse") {
                    note(&mut results, &response["id"]);
                }
            }
        }
    }
    (calls, results)
}

fn takes(dialect: Dialect, id: &str) -> bool {
    let plain = id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    match dialect {
        Dialect::ChatCompletions => plain && (1..=40).contains(&id.len()),
        Dialect::Messages => plain && !id.is_empty(),
        Dialect::Responses => plain && (1..=64).contains(&id.len()),
        Dialect::Gemini | Dialect::Ollama => true,
    }
}

#[test]
fn each_pair_of_dialects_goes_on_with_the_others_history() {
    for before in DIALECTS {
        for after in DIALECTS {
            let what = format!("{before:?}, then {after:?}");
            let mut messages = vec![ChatMessage::System("SYSTEM".into())];
            messages.extend(turn(before));
            messages.push(ChatMessage::User("And now?".into()));
            let body = request_body(&settings(after), &request(messages));
            let text = body.to_string();
            for word in [
                "SYSTEM",
                "What is there?",
                "Let me look.",
                "FIRST",
                "SECOND",
                "Two things.",
                "And now?",
            ] {
                assert_eq!(text.matches(word).count(), 1, "{what}: {word} in {text}");
            }
            let own = before == after;
            let is_sealed = own && before != Dialect::Ollama;
            assert_eq!(text.contains("SEAL"), is_sealed, "{what}: {text}");
            if !own {
                assert!(!text.contains("THOUGHT"), "{what}: {text}");
            }
            let (calls, results) = ids(after, &body);
            assert_eq!(calls, results, "{what}");
            assert_eq!(calls.len(), 2, "{what}");
            if !own {
                assert!(calls.iter().all(|id| takes(after, id)), "{what}: {calls:?}");
            }
        }
    }
}

#[test]
fn another_model_of_the_same_host_gets_no_seals() {
    for dialect in DIALECTS {
        let settings = ProviderSettings {
            model: "another".into(),
            ..settings(dialect)
        };
        let text = request_body(&settings, &request(turn(dialect))).to_string();
        assert!(!text.contains("SEAL"), "{dialect:?}: {text}");
    }
}

#[test]
fn a_chat_through_all_dialects_keeps_every_pair() {
    let messages: Vec<ChatMessage> = DIALECTS.into_iter().flat_map(turn).collect();
    for dialect in DIALECTS {
        let body = request_body(&settings(dialect), &request(messages.clone()));
        let (calls, results) = ids(dialect, &body);
        assert_eq!((calls.len(), results.len()), (10, 10), "{dialect:?}");
        assert_eq!(calls, results, "{dialect:?}");
    }
}

#[test]
fn a_request_begins_with_the_one_before_it() {
    // Messages marks the end of its prefix, which is no part of what is cached.
    fn without_marks(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.shift_remove("cache_control");
                fields.values_mut().for_each(without_marks);
            }
            Value::Array(items) => items.iter_mut().for_each(without_marks),
            _ => {}
        }
    }
    for dialect in DIALECTS {
        let field = history_field(dialect);
        let whole = turn(dialect);
        let mut bodies: Vec<Value> = [1, 4, 5]
            .iter()
            .map(|&end| request_body(&settings(dialect), &request(whole[..end].to_vec())))
            .collect();
        bodies.iter_mut().for_each(without_marks);
        for pair in bodies.windows(2) {
            let (before, after) = (
                pair[0][field].as_array().unwrap(),
                pair[1][field].as_array().unwrap(),
            );
            assert_eq!(before[..], after[..before.len()], "{dialect:?}");
            assert_eq!(pair[0]["tools"], pair[1]["tools"], "{dialect:?}");
        }
    }
}

/// The field of a body in DIALECT that has the history.
fn history_field(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Responses => "input",
        Dialect::Gemini => "contents",
        Dialect::ChatCompletions | Dialect::Messages | Dialect::Ollama => "messages",
    }
}

#[test]
fn a_body_is_written_message_by_message_as_it_is_as_a_whole() {
    let history: Vec<ChatMessage> = DIALECTS.into_iter().flat_map(turn).collect();
    for dialect in DIALECTS {
        let settings = settings(dialect);
        for end in 0..=history.len() {
            let request = request(history[..end].to_vec());
            let written = serde_json::to_string(&written_body(&settings, &request)).unwrap();
            let whole = request_body(&settings, &request).to_string();
            assert_eq!(written, whole, "{dialect:?} {end}");
        }
    }
}

#[test]
fn a_history_of_the_users_is_written_instead() {
    for dialect in DIALECTS {
        let field = history_field(dialect);
        for (own, sent) in [(json!(["own"]), json!(["own"])), (Value::Null, Value::Null)] {
            let mut settings = settings(dialect);
            settings.body.insert(field.into(), own);
            let request = request(turn(dialect));
            let written = serde_json::to_value(written_body(&settings, &request)).unwrap();
            assert_eq!(written[field], sent, "{dialect:?}");
            assert_eq!(written, request_body(&settings, &request), "{dialect:?}");
            assert_eq!(written.get(field).is_some(), !sent.is_null(), "{dialect:?}");
        }
    }
}

#[test]
fn a_history_that_is_written_and_read_is_the_same() {
    let history: Vec<ChatMessage> = DIALECTS.into_iter().flat_map(turn).collect();
    let text = serde_json::to_string(&history).unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<ChatMessage>>(&text).unwrap(),
        history
    );
}

proptest! {
    #[test]
    fn any_arguments_and_seals_survive_being_written(
        number in any::<f64>().prop_filter("JSON has no others", |number| number.is_finite()),
        integer in any::<i64>(),
        text in ".{0,40}",
        raw in "\\PC{0,30}",
    ) {
        let arguments = json!({"n": number, "i": integer, "t": text}).to_string();
        let parts = vec![
            sealed(PartContent::Thinking(text.clone()), json!({"n": number, "i": integer, "t": text})),
            MessagePart::call(call("a", &arguments)),
            MessagePart::call(call("b", &raw)),
        ];
        let origin = settings(Dialect::Gemini).origin();
        let message = ChatMessage::Assistant { origin, parts };
        let text = serde_json::to_string(&message).unwrap();
        prop_assert_eq!(serde_json::from_str::<ChatMessage>(&text).unwrap(), message);
    }

    /// Nothing that a server can send makes a decoder panic or depend on chunking.
    #[test]
    fn any_body_is_survived_in_every_dialect(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "data: ", "\n", "\r\n", "\n\n", "{", "}", "event: error\n", "null\n\n", "[]", "\"x\"",
            "data: {\"type\":\"message_start\",\"message\":{\"id\":\"a\",\"usage\":{\"input_tokens\":1}}}\n\n",
            "data: {\"type\":\"message_start\",\"message\":{\"id\":\"b\"}}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\"}}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"é\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"s\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"partial_json\":\"{}\",\"text\":\"t\",\"thinking\":\"h\"}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n",
            "data: {\"type\":\"message_stop\"}\n\n",
            "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\"}}\n\n",
            "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"message\",\"content\":[{\"text\":\"x\"}]}}\n\n",
            "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"encrypted_content\":\"x\"}}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\"}},{\"text\":\"x\",\"thoughtSignature\":\"s\"}]}}]}\r\n\r\n",
            "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\r\n\r\n",
            "{\"message\":{\"content\":\"é\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]}}\n",
            "{\"done\":true}\n", "{\"error\":\"x\"}\n",
        ]), 0..14),
        size in 1_usize..12,
    ) {
        for dialect in DIALECTS {
            let body = pieces.concat();
            // An id that was missing is made up, another each time.
            let read = |size: usize| {
                let mut reader = agent_q_core::provider::reply::ReplyReader::new(dialect);
                let mut events = Vec::new();
                for piece in body.as_bytes().chunks(size.max(1)) {
                    events.extend(reader.push(piece));
                }
                let (result, last) = reader.finish();
                events.extend(last);
                // What comes together is shown together.
                let mut shown: Vec<(String, String)> = Vec::new();
                for event in events {
                    let (what, more) = match event {
                        StreamEvent::Text(more) => ("text".to_owned(), more),
                        StreamEvent::Reasoning(more) => ("reasoning".to_owned(), more),
                        StreamEvent::Arguments { call, tool, more } => {
                            (format!("{tool} {call}"), more)
                        }
                        StreamEvent::Retrying { .. } => unreachable!("nothing is sent"),
                    };
                    match shown.last_mut() {
                        Some((before, text)) if *before == what => text.push_str(&more),
                        _ => shown.push((what, more)),
                    }
                }
                let summary = match result {
                    Ok(reply) => (reply.text(), reply.calls().len(), format!("{:?}", reply.finish)),
                    Err(error) => (String::new(), 0, format!("{:?} {error}", error.kind)),
                };
                (summary, shown)
            };
            prop_assert_eq!(read(size), read(body.len()), "{:?}", dialect);
        }
    }
}
