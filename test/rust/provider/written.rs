// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that a model writes as text, in each dialect: they are read, unless they are a quotation.

use agent_q_core::provider::reply::ReplyReader;
use agent_q_core::provider::written_calls::{ID_PREFIX, ReadableCalls};
use agent_q_core::provider::{
    ChatMessage, Dialect, Finish, MessagePart, ModelReply, StreamEvent, Unparsed,
};
use serde_json::{Value, json};

use crate::matrix::{DIALECTS, call, request, result, settings};
use crate::odd_streams::{runs, two_texts};
use crate::said::{answer, user};

/// What a reader of replies to a chat with MESSAGES makes of TEXT in DIALECT: the reply, and what was shown.
fn written(dialect: Dialect, text: &str, messages: Vec<ChatMessage>) -> (ModelReply, String) {
    let tool = json!({"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}});
    let mut request = request(messages);
    request.tools = vec![tool];
    let readable = ReadableCalls::of(&request, &settings(dialect).origin());
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
