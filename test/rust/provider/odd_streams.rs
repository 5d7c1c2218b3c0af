// SPDX-License-Identifier: GPL-3.0-or-later
//! What real hosts send beside what their documents say: odd ends, events that can't be read, arguments and
//! calls in disguise. Each fault in every dialect that can have it.

use agent_q_core::protocol::CallArguments;
use agent_q_core::provider::{Dialect, FailureKind, Finish, ModelReply, ProviderError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cuts::small_stream;
use crate::dialects::gemini;
use crate::fault_server::{Deed, FaultServer};
use crate::http::{ask_with, settings as settings_of_host};
use crate::matrix::DIALECTS;
use crate::messages::{block, delta, start, stop, tool_use};
use crate::said::{events, lines, read};

/// A stream with text and a call that ends for REASON, without an end mark where the dialect has both.
fn ending(dialect: Dialect, reason: Value) -> String {
    match dialect {
        Dialect::ChatCompletions => events(&[
            json!({"choices": [{"delta": {"content": "Let me look.", "tool_calls": [
                {"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}]}, "finish_reason": null}]}),
            json!({"choices": [{"delta": {}, "finish_reason": reason}]}),
        ]),
        Dialect::Messages => {
            let text = vec![
                start("m"),
                block(0, json!({"type": "text", "text": "Let me look."})),
                stop(0),
            ];
            let end = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
            events(&[text, tool_use(1), vec![end]].concat())
        }
        Dialect::Responses => events(&[
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Let me look."}),
            json!({"type": "response.output_item.done", "output_index": 1,
                "item": {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}}),
            json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": reason}}}),
        ]),
        Dialect::Gemini => events(&[
            gemini(
                json!([{"text": "Let me look."}, {"functionCall": {"name": "look", "args": {}}}]),
                None,
            ),
            gemini(json!([{"text": ""}]), reason.as_str()),
        ]),
        Dialect::Ollama => lines(&[
            json!({"message": {"content": "Let me look.", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]}, "done": false}),
            json!({"message": {"content": ""}, "done": true, "done_reason": reason}),
        ]),
    }
}

/// Whether the one call of REPLY may run.
pub fn runs(reply: &ModelReply) -> bool {
    let calls = reply.calls();
    assert_eq!(calls.len(), 1);
    matches!(calls[0].arguments, CallArguments::Object(_))
}

#[test]
fn only_good_reasons_let_calls_run() {
    for dialect in DIALECTS {
        // Those of a response that is not complete are never good.
        if dialect != Dialect::Responses {
            for reason in [
                "stop",
                "STOP",
                "end_turn",
                "stop_sequence",
                "eos_token",
                "tool_call",
                "Tool-Calls",
            ] {
                let reply = read(dialect, &ending(dialect, reason.into())).expect(reason);
                assert_eq!(
                    (reply.finish.clone(), runs(&reply)),
                    (Finish::ToolCalls, true),
                    "{dialect:?} {reason}"
                );
            }
        }
        for (reason, finish) in [
            ("length", Finish::Length),
            ("MAX_TOKENS", Finish::Length),
            ("max_output_tokens", Finish::Length),
            ("model_context_window_exceeded", Finish::Window),
            ("sensitive", Finish::ContentFilter),
            ("content_filter", Finish::ContentFilter),
            ("IMAGE_SAFETY", Finish::ContentFilter),
            ("abort", Finish::Early("abort".into())),
            ("network_error", Finish::Early("network_error".into())),
            (
                "TOO_MANY_TOOL_CALLS",
                Finish::Early("TOO_MANY_TOOL_CALLS".into()),
            ),
        ] {
            let reply = read(dialect, &ending(dialect, reason.into())).expect(reason);
            assert_eq!(
                (reply.finish.clone(), runs(&reply)),
                (finish, false),
                "{dialect:?} {reason}"
            );
        }
    }
}

#[test]
fn no_reason_is_no_end() {
    for dialect in [Dialect::ChatCompletions, Dialect::Messages, Dialect::Gemini] {
        for reason in [json!(""), json!("null"), json!(null)] {
            let error = read(dialect, &ending(dialect, reason)).expect_err("a cut reply");
            assert_eq!(error.kind, FailureKind::Interrupted, "{dialect:?}");
            assert!(!runs(&error.partial.expect("what had come")), "{dialect:?}");
        }
    }
}

/// Places in BODY where an event could stand.
fn between_events(dialect: Dialect, body: &str) -> Vec<usize> {
    let end = if dialect == Dialect::Ollama {
        "\n"
    } else {
        "\n\n"
    };
    let ends = body.match_indices(end).map(|(place, _)| place + end.len());
    [0].into_iter().chain(ends).collect()
}

fn read_whole(dialect: Dialect, body: &str) -> (String, Vec<(String, CallArguments)>, Finish) {
    let reply = read(dialect, body).unwrap_or_else(|error| panic!("{dialect:?}: {error}\n{body}"));
    let calls = reply.calls().into_iter();
    let calls = calls
        .map(|call| (call.name.clone(), call.arguments.clone()))
        .collect();
    (reply.text(), calls, reply.finish)
}

proptest! {
    #[test]
    fn an_unreadable_event_anywhere_changes_nothing(
        junk in prop_oneof![
            Just(": OPENROUTER PROCESSING".to_owned()), Just("ping".to_owned()), Just("null".to_owned()),
            Just("\"\"".to_owned()), Just("[]".to_owned()), Just("{\"type\":".to_owned()), Just("3".to_owned()),
            Just("{\"type\":\"keepalive\"}".to_owned()), Just("<html>".to_owned()), "[a-zé ]{1,20}",
            // Of other dialects.
            Just("{\"choices\":[],\"cost\":NaN}".to_owned()), Just("{\"candidates\":[]}".to_owned()),
        ],
        place in any::<prop::sample::Index>(),
    ) {
        for dialect in DIALECTS {
            let body = small_stream(dialect);
            let places = between_events(dialect, &body);
            let at = places[place.index(places.len())];
            let event = if dialect == Dialect::Ollama { format!("{junk}\n") } else { format!("data: {junk}\n\n") };
            let with = format!("{}{event}{}", &body[..at], &body[at..]);
            prop_assert_eq!(read_whole(dialect, &with), read_whole(dialect, &body), "{}", with);
        }
    }
}

/// Two events with text in each dialect, and an end.
pub fn two_texts(dialect: Dialect, first: &str, second: &str) -> String {
    let text = |text: &str| {
        let json = match dialect {
            Dialect::ChatCompletions => json!({"choices": [{"delta": {"content": "TEXT"}}]}),
            Dialect::Messages => delta(0, json!({"type": "text_delta", "text": "TEXT"})),
            Dialect::Responses => {
                json!({"type": "response.output_text.delta", "output_index": 0, "delta": "TEXT"})
            }
            Dialect::Gemini => gemini(json!([{"text": "TEXT"}]), None),
            Dialect::Ollama => json!({"message": {"content": "TEXT"}, "done": false}),
        };
        let event = if dialect == Dialect::Ollama {
            lines(&[json])
        } else {
            events(&[json])
        };
        event.replace("TEXT", text)
    };
    let end = match dialect {
        Dialect::ChatCompletions => "data: [done]\n\n".to_owned(),
        Dialect::Messages => events(&[json!({"type": "message_stop"})]),
        Dialect::Responses => events(&[json!({"type": "response.completed", "response": {}})]),
        Dialect::Gemini => events(&[gemini(json!([]), Some("STOP"))]),
        Dialect::Ollama => lines(&[json!({"done": true})]),
    };
    text(first) + &text(second) + &end
}

#[test]
fn text_that_json_does_not_know_is_read() {
    for dialect in DIALECTS {
        for (first, second, expected) in [
            ("A \\ud83d", "\\ude00 end.", "A 😀 end."),
            ("A \\ud83d", "B", "A \u{fffd}B"),
            ("\\ude00", "\\ud83d", "\u{fffd}\u{fffd}"),
            ("A\\r\\nB\\r", "\\nC", "A\nB\nC"),
            ("\", \"unknown\": NaN, \"x\": \"", "C", "C"),
        ] {
            let body = two_texts(dialect, first, second);
            assert_eq!(read_whole(dialect, &body).0, expected, "{dialect:?} {body}");
        }
    }
}

#[test]
fn of_a_key_that_comes_twice_the_last_counts() {
    for (dialect, event) in [
        (
            Dialect::ChatCompletions,
            r#"{"choices": [{"delta": {"content": "x", "content": "y"}, "finish_reason": null, "finish_reason": "stop"}]}"#,
        ),
        (
            Dialect::Ollama,
            r#"{"message": {"content": "x"}, "message": {"content": "y"}, "done": true}"#,
        ),
        (
            Dialect::Gemini,
            r#"{"candidates": [{"content": {"parts": [{"text": "x", "text": "y"}]}, "finishReason": "STOP"}]}"#,
        ),
    ] {
        let body = if dialect == Dialect::Ollama {
            format!("{event}\n")
        } else {
            format!("data: {event}\n\n")
        };
        assert_eq!(read_whole(dialect, &body).0, "y", "{dialect:?}");
    }
}

#[test]
fn streams_without_data_fields_or_blank_lines_are_read() {
    let body = small_stream(Dialect::ChatCompletions);
    let expected = read_whole(Dialect::ChatCompletions, &body);
    for odd in [
        body.replace("\n\n", "\n"),
        body.replace("\n\n", "\n").replace("data: ", ""),
        body.replace("data: ", ""),
    ] {
        assert_eq!(
            read_whole(Dialect::ChatCompletions, &odd),
            expected,
            "{odd}"
        );
    }
    let body = small_stream(Dialect::Ollama);
    let expected = read_whole(Dialect::Ollama, &body);
    let odd: String = body
        .lines()
        .map(|line| format!("data: {line}\n\n"))
        .collect();
    assert_eq!(read_whole(Dialect::Ollama, &odd), expected);
}

#[test]
fn arguments_that_come_with_the_start_of_a_call_count() {
    let call = |input: Value, deltas: &[&str]| {
        let mut payloads = vec![
            start("m"),
            block(
                0,
                json!({"type": "tool_use", "id": "t", "name": "look", "input": input}),
            ),
        ];
        payloads.extend(
            deltas
                .iter()
                .map(|json| delta(0, json!({"type": "input_json_delta", "partial_json": json}))),
        );
        payloads.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
        let reply = read(Dialect::Messages, &events(&payloads)).expect("a reply");
        reply.calls()[0].arguments.clone()
    };
    let a = CallArguments::Object(json!({"at": "a"}).as_object().unwrap().clone());
    assert_eq!(call(json!({"at": "a"}), &[]), a);
    assert_eq!(call(json!("{\"at\": \"a\"}"), &[]), a);
    assert_eq!(call(json!({"at": "b"}), &["{\"at\": ", "\"a\"}"]), a);
    assert_eq!(call(json!({}), &["{}", "{\"at\": \"a\"}"]), a);
    assert_eq!(
        call(json!({}), &[]),
        CallArguments::Object(serde_json::Map::new())
    );
}

#[test]
fn deltas_of_messages_open_what_they_are_of() {
    let text = |index, text| delta(index, json!({"type": "text_delta", "text": text}));
    for (payloads, expected, thinking) in [
        (vec![text(0, "One."), text(0, " Two.")], "One. Two.", ""),
        (
            vec![
                block(0, json!({"type": "thinking", "thinking": ""})),
                delta(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
                text(0, "Yes."),
            ],
            "Yes.",
            "Hm",
        ),
        (
            vec![
                block(0, json!({"type": "text", "text": "One."})),
                block(0, json!({"type": "thinking", "thinking": ""})),
                delta(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
                stop(0),
                text(1, " Two."),
            ],
            "One. Two.",
            "Hm",
        ),
    ] {
        let reply = crate::messages::messages(payloads, "end_turn").expect("a reply");
        assert_eq!(
            (reply.text().as_str(), reply.thinking().as_str()),
            (expected, thinking)
        );
    }
}

#[test]
fn a_whole_response_settles_what_is_open() {
    let item = json!({"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": "{\"at\":\"a\"}", "status": "completed"});
    let added = json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": ""}});
    let more = json!({"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc", "delta": "{\"at\":"});
    let done = json!({"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "fc", "name": "look", "arguments": "{\"at\":\"a\"}"});
    let unfinished = json!({"type": "response.output_item.done", "output_index": 0,
        "item": {"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": "{\"at\":\"a\"}", "status": "in_progress"}});
    let completed = |output: Value| json!({"type": "response.completed", "response": {"status": "completed", "output": output}});
    let other = json!({"type": "function_call", "id": "fd", "call_id": "d", "name": "look", "arguments": "{\"at\":\"b\"}"});
    for (payloads, expected) in [
        (
            vec![added.clone(), more.clone(), completed(json!([item]))],
            vec!["a"],
        ),
        (
            vec![more.clone(), done.clone(), completed(json!([]))],
            vec!["a"],
        ),
        (
            vec![
                added.clone(),
                more.clone(),
                unfinished,
                completed(json!([])),
            ],
            vec!["a"],
        ),
        (vec![completed(json!([item, other]))], vec!["a", "b"]),
        // What is left out of the whole shifts the others.
        (
            vec![
                added.clone(),
                more.clone(),
                done.clone(),
                completed(json!([{"type": "reasoning"}, item, other])),
            ],
            vec!["a", "b"],
        ),
    ] {
        let reply = read(Dialect::Responses, &events(&payloads)).expect("a reply");
        let places: Vec<Value> = reply
            .calls()
            .iter()
            .map(|call| match &call.arguments {
                CallArguments::Object(arguments) => arguments["at"].clone(),
                other => panic!("{other:?} in {payloads:?}"),
            })
            .collect();
        assert_eq!(places, expected, "{payloads:?}");
    }
    // A call of which no argument came at all is not one without arguments.
    let reply = read(Dialect::Responses, &events(&[added, completed(json!([]))])).expect("a reply");
    assert!(!runs(&reply));
    let texts = [
        vec![
            json!({"type": "response.output_text.done", "output_index": 0, "text": "All."}),
            completed(json!([])),
        ],
        vec![
            json!({"type": "response.content_part.done", "output_index": 0, "part": {"type": "output_text", "text": "All."}}),
            completed(json!([])),
        ],
        vec![completed(
            json!([{"type": "message", "content": [{"type": "output_text", "text": "All."}]}]),
        )],
        vec![
            json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "x", "delta": "All."}),
            completed(
                json!([{"type": "reasoning"}, {"type": "message", "id": "y", "content": [{"type": "output_text", "text": "All."}]}]),
            ),
        ],
    ];
    for payloads in texts {
        assert_eq!(
            read_whole(Dialect::Responses, &events(&payloads)).0,
            "All.",
            "{payloads:?}"
        );
    }
}

#[test]
fn a_failure_gets_the_reason_that_follows() {
    let failed =
        json!({"type": "response.failed", "response": {"status": "failed", "error": null}});
    let error = json!({"type": "error", "error": {"message": "The filter."}});
    let told = read(Dialect::Responses, &events(&[failed.clone(), error])).expect_err("a failure");
    assert!(told.message.contains("The filter."), "{told}");
    let untold = read(Dialect::Responses, &events(&[failed])).expect_err("a failure");
    assert!(untold.message.contains("did not say which"), "{untold}");
}

#[test]
fn calls_with_one_id_get_ids_of_their_own() {
    let chat = |calls: Value| {
        events(&[
            json!({"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}),
        ])
    };
    let of = |index: u64, at: &str| json!({"index": index, "id": "same", "function": {"name": "look", "arguments": json!({"at": at}).to_string()}});
    let plain = |at: &str| json!({"id": "same", "function": {"name": "look", "arguments": json!({"at": at}).to_string()}});
    let bodies = [
        (Dialect::ChatCompletions, chat(json!([of(0, "a"), of(1, "b")]))),
        (Dialect::ChatCompletions, json!({"choices": [{"message": {"tool_calls": [plain("a"), plain("b")]}, "finish_reason": "tool_calls"}]}).to_string()),
        (Dialect::Messages, events(&[
            vec![start("m")],
            (0..).zip(["a", "b"]).map(|(index, at)| block(index, json!({"type": "tool_use", "id": "same", "name": "look", "input": {"at": at}}))).collect(),
            crate::messages::ended("tool_use"),
        ].concat())),
        (Dialect::Gemini, events(&[gemini(json!([
            {"functionCall": {"id": "same", "name": "look", "args": {"at": "a"}}},
            {"functionCall": {"id": "same", "name": "look", "args": "{\"at\": \"b\"}"}}]), Some("STOP"))])),
        (Dialect::Ollama, lines(&[json!({"message": {"tool_calls": [
            {"id": "same", "function": {"name": "look", "arguments": {"at": "a"}}},
            {"id": "same", "function": {"name": "look", "arguments": {"at": "b"}}}]}, "done": true})])),
    ];
    for (dialect, body) in bodies {
        let reply = read(dialect, &body).expect("a reply");
        let calls = reply.calls();
        assert_eq!(calls.len(), 2, "{dialect:?}");
        assert_ne!(calls[0].id, calls[1].id, "{dialect:?}");
        for (call, at) in calls.iter().zip(["a", "b"]) {
            assert_eq!(
                call.arguments,
                CallArguments::Object(json!({"at": at}).as_object().unwrap().clone())
            );
        }
    }
}

#[test]
fn calls_of_old_servers_and_names_in_pieces_are_read() {
    let chunk = |delta: Value, reason: Value| json!({"choices": [{"delta": delta, "finish_reason": reason}]});
    for payloads in [
        vec![
            chunk(
                json!({"function_call": {"name": "look", "arguments": ""}}),
                json!(null),
            ),
            chunk(
                json!({"function_call": {"arguments": "{}"}}),
                json!("function_call"),
            ),
        ],
        vec![
            chunk(
                json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "lo"}}]}),
                json!(null),
            ),
            chunk(
                json!({"tool_calls": [{"index": 0, "function": {"name": "ok", "arguments": "{}"}}]}),
                json!("tool_calls"),
            ),
        ],
        vec![chunk(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "functions.look", "arguments": "{}"}}]}),
            json!("stop"),
        )],
    ] {
        let reply = read(Dialect::ChatCompletions, &events(&payloads)).expect("a reply");
        assert_eq!(reply.calls()[0].name, "look", "{payloads:?}");
        assert!(runs(&reply));
    }
}

#[test]
fn arguments_that_come_as_objects_are_not_lost() {
    let item = |arguments: Value| json!({"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": arguments});
    let added = json!({"type": "response.output_item.added", "item": item("".into())});
    let of_item = |more: Value| {
        let mut event = json!({"item_id": "fc"});
        event
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        event
    };
    let bodies = [
        (
            Dialect::Messages,
            [
                vec![
                    start("m"),
                    block(
                        0,
                        json!({"type": "tool_use", "id": "t", "name": "look", "input": {}}),
                    ),
                    delta(
                        0,
                        json!({"type": "input_json_delta", "partial_json": {"at": "a"}}),
                    ),
                ],
                crate::messages::ended("tool_use"),
            ]
            .concat(),
        ),
        (
            Dialect::Responses,
            vec![
                json!({"type": "response.output_item.done", "item": item(json!({"at": "a"}))}),
                crate::dialects::completed(),
            ],
        ),
        // What a `done` leaves empty came before.
        (
            Dialect::Responses,
            vec![
                added,
                of_item(
                    json!({"type": "response.function_call_arguments.delta", "delta": "{\"at\": \"a\"}"}),
                ),
                of_item(json!({"type": "response.function_call_arguments.done", "arguments": ""})),
                crate::dialects::completed(),
            ],
        ),
        (
            Dialect::Gemini,
            vec![gemini(
                json!([{"functionCall": {"name": "look", "arguments": {"at": "a"}}}]),
                Some("STOP"),
            )],
        ),
    ];
    for (dialect, payloads) in bodies {
        let (_, calls, _) = read_whole(dialect, &events(&payloads));
        let expected = CallArguments::Object(json!({"at": "a"}).as_object().unwrap().clone());
        assert_eq!(
            calls,
            [("look".to_owned(), expected)],
            "{dialect:?} {payloads:?}"
        );
    }
}

#[test]
fn objects_on_one_line_are_read() {
    let body = small_stream(Dialect::Ollama);
    let expected = read_whole(Dialect::Ollama, &body);
    for between in ["", " "] {
        let odd = body.trim_end().replace('\n', between) + "\n";
        assert_eq!(read_whole(Dialect::Ollama, &odd), expected, "{odd}");
    }
}

/// What a server that sends BODY and then does DEED makes of a request.
async fn served(
    dialect: Dialect,
    body: &str,
    deed: Option<Deed>,
) -> Result<ModelReply, ProviderError> {
    let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    let mut deeds = vec![Deed::Send([head, body.as_bytes()].concat())];
    deeds.extend(deed);
    let server = FaultServer::start(vec![deeds]);
    let mut settings = settings_of_host(format!("http://{}/v1", server.address));
    settings.dialect = dialect;
    ask_with(&settings).await.0
}

/// However a connection ends behind the reason, the reply is whole, soon.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_whole_stays_whole() {
    for dialect in [Dialect::ChatCompletions, Dialect::Messages, Dialect::Gemini] {
        let reason = if dialect == Dialect::Messages {
            "tool_use"
        } else {
            "STOP"
        };
        let body = ending(dialect, reason.into());
        let junk = "data: {\"oops\n\ndata: upstream died\n\n".to_owned();
        let error = events(&[json!({"type": "error", "error": {"message": "Too busy."}})]);
        for (body, deed) in [
            (body.clone(), None),
            (body.clone() + &junk, None),
            (body.clone() + &error, None),
            (body.clone(), Some(Deed::Stall)),
            (body.clone(), Some(Deed::Beat(b": ping\n\n".to_vec()))),
            (body, Some(Deed::Reset)),
        ] {
            let reply = served(dialect, &body, deed).await.expect("a whole reply");
            assert_eq!(
                (reply.text().as_str(), runs(&reply)),
                ("Let me look.", true),
                "{dialect:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_words_of_a_cut_reply_are_told() {
    let text = events(&[json!({"choices": [{"delta": {"content": "Hi "}}]})]);
    for (last, kind, words) in [
        (
            "upstream error: reset\n\n",
            FailureKind::Interrupted,
            "The server's last words: upstream error: reset",
        ),
        (
            "error: {\"message\": \"Too busy\"}\n\n",
            FailureKind::Reported,
            "Too busy",
        ),
        (
            "{\"error\": {\"message\": \"Too busy\"}}\n\n",
            FailureKind::Reported,
            "Too busy",
        ),
        (
            "data: upstream died\n\n",
            FailureKind::Interrupted,
            "upstream died",
        ),
    ] {
        let error = served(Dialect::ChatCompletions, &(text.clone() + last), None).await;
        let error = error.expect_err("a cut reply");
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(words), "{error}");
        assert_eq!(error.partial.expect("what had come").text(), "Hi ");
    }
}
