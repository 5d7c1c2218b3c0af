// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that a model writes as text, in each dialect: they are read, unless they are a quotation.

use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::written_calls::{ID_PREFIX, ReadableCalls};
use agent_q_core::provider::{
    ChatMessage, Dialect, Finish, MessagePart, ModelReply, StreamEvent, Unparsed, WrittenCalls,
};
use serde_json::{Value, json};

use crate::matrix::{DIALECTS, call, request, result, settings};
use crate::messages::{block, start, stop};
use crate::odd_streams::{runs, two_texts};
use crate::said::{answer, events, user};

/// What a reader of replies to a chat with MESSAGES makes of TEXT in DIALECT: the reply, and what was shown.
fn written(dialect: Dialect, text: &str, messages: Vec<ChatMessage>) -> (ModelReply, String) {
    let tool = json!({"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}});
    let mut request = request(messages);
    request.tools = vec![tool];
    request.written = WrittenCalls::in_chat(request.messages.iter(), &settings(dialect).origin());
    let readable = ReadableCalls::of(&request);
    let mut reader = ReplyReader::reading(dialect, readable);
    let (before, after) = text.split_at(text.len() / 2);
    let quoted = |text: &str| {
        let json = Value::from(text).to_string();
        json[1..json.len() - 1].to_owned()
    };
    let mut shown = reader.push(two_texts(dialect, &quoted(before), &quoted(after)).as_bytes());
    let (reply, last) = reader.finish();
    shown.extend(last);
    let shown = shown.iter().map(|event| match event {
        StreamEvent::Text(text) => text.as_str(),
        _ => "",
    });
    (reply.expect("a reply"), shown.collect())
}

const WRITTEN: &str = "Let me look.\n\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": \"a\"}}\n</tool_call>";

#[test]
fn a_call_written_as_text_is_a_call() {
    for dialect in DIALECTS {
        let (reply, shown) = written(dialect, WRITTEN, vec![user("go")]);
        assert_eq!(
            (reply.text().as_str(), &reply.finish),
            ("Let me look.", &Finish::ToolCalls),
            "{dialect:?}"
        );
        assert!(runs(&reply) && reply.calls()[0].id.starts_with(ID_PREFIX));
        assert_eq!(reply.unparsed, Some(Unparsed::Read));
        assert_eq!(shown.trim_end(), "Let me look.");
        // It goes on to be read in the next reply.
        let before = vec![
            user("go"),
            answer(dialect, reply.parts.clone()),
            result(&reply.calls()[0].id, "ok"),
        ];
        assert_eq!(
            written(dialect, WRITTEN, before).0.calls().len(),
            1,
            "{dialect:?}"
        );
    }
}

#[test]
fn a_quoted_call_stays_text() {
    let native = |dialect| {
        vec![
            user("go"),
            answer(dialect, vec![MessagePart::call(call("c1", "{}"))]),
            result("c1", "ok"),
        ]
    };
    for dialect in DIALECTS {
        for (text, messages, unparsed) in [
            // This host parses calls itself.
            (WRITTEN.to_owned(), native(dialect), None),
            (format!("```\n{WRITTEN}\n```"), vec![user("go")], None),
            (
                format!("{WRITTEN}\nThat is how it looks."),
                vec![user("go")],
                None,
            ),
            (
                WRITTEN.replace("look\"", "no_tool\""),
                vec![user("go")],
                Some(Unparsed::Left),
            ),
        ] {
            let (reply, shown) = written(dialect, &text, messages);
            assert_eq!(
                (reply.text(), reply.calls().len()),
                (text.clone(), 0),
                "{dialect:?}"
            );
            assert_eq!((shown, reply.unparsed), (text, unparsed), "{dialect:?}");
        }
    }
}

/// The reply of Messages with TEXTS, each in a block of its own.
fn in_blocks(texts: [&str; 2]) -> ModelReply {
    let tool = json!({"name": "look", "parameters": {"properties": {"at": {"type": "string"}}}});
    let mut request = request(vec![user("go")]);
    request.tools = vec![tool];
    let mut reader = ReplyReader::reading(Dialect::Messages, ReadableCalls::of(&request));
    let blocks = (0..).zip(texts).flat_map(|(index, text)| {
        let start = block(index, json!({"type": "text", "text": text}));
        [start, stop(index)]
    });
    let payloads: Vec<Value> = [start("m")].into_iter().chain(blocks).collect();
    reader.push(events(&[payloads, crate::messages::ended("end_turn")].concat()).as_bytes());
    reader.finish().0.expect("a reply")
}

#[test]
fn a_call_counts_only_where_the_whole_message_ends() {
    let call = &WRITTEN["Let me look.\n\n".len()..];
    assert_eq!(in_blocks(["Let me look.", call]).calls().len(), 1);
    assert_eq!(in_blocks([call, "\n"]).calls().len(), 1);
    for texts in [[call, "That is how it looks."], ["The file:\n```\n", call]] {
        let reply = in_blocks(texts);
        assert_eq!((reply.calls().len(), reply.text()), (0, texts.concat()));
    }
}
