// SPDX-License-Identifier: GPL-3.0-or-later
//! The body of a request: what is in it and what is not.

use agent_q_core::protocol::picture::{Picture, PictureFormat};
use agent_q_core::protocol::{CallArguments, CallOutcome, ToolCall};
use agent_q_core::provider::dialect::request_body;
use agent_q_core::provider::http::shown_request;
use agent_q_core::provider::{
    ChatMessage, ChatRequest, Dialect, MessagePart, ModelFacts, ProviderSettings, RequestPosition,
    Said, ToolChoice,
};
use serde_json::{Map, Value, json};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn settings() -> ProviderSettings {
    ProviderSettings {
        name: "test".into(),
        dialect: Dialect::ChatCompletions,
        effort: None,
        base_url: "http://127.0.0.1:1/v1".into(),
        model: "small".into(),
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

fn request() -> ChatRequest {
    ChatRequest {
        messages: vec![
            ChatMessage::System("Be brief.".into()),
            ChatMessage::User("Hi".into()),
        ]
        .into(),
        tools: vec![json!({"type": "function", "function": {"name": "f"}})],
        tool_choice: ToolChoice::Auto,
        position: RequestPosition::First,
        written: agent_q_core::provider::WrittenCalls::Meant,
    }
}

fn call(arguments: CallArguments, raw: &str) -> ToolCall {
    ToolCall {
        id: "call_1".into(),
        name: "f".into(),
        raw_arguments: raw.into(),
        arguments,
    }
}

/// An answer of the model that SETTINGS name.
fn answer(settings: &ProviderSettings, parts: Vec<MessagePart>) -> ChatMessage {
    ChatMessage::Assistant {
        origin: settings.origin(),
        parts,
    }
}

#[test]
fn a_request_that_is_looked_at_has_no_bytes_of_pictures() {
    let request = ChatRequest {
        messages: vec![ChatMessage::User(pictured_message())].into(),
        ..request()
    };
    let shown = shown_request(&settings(), &request).unwrap().to_string();
    assert!(!shown.contains("aGk="), "{shown}");
    assert!(shown.contains("data:image/png;base64,(2 bytes)"), "{shown}");
}

fn pictured_message() -> Said {
    let picture = Picture {
        format: PictureFormat::Png,
        width: 640,
        height: 480,
        data: "aGk=".into(),
    };
    Said {
        text: "What is this?".into(),
        pictures: vec![picture],
    }
}

/// What the dialect DIALECT sends of a message with a picture to a model of FACTS.
fn pictured(dialect: Dialect, facts: ModelFacts) -> Value {
    let settings = ProviderSettings {
        dialect,
        facts,
        ..settings()
    };
    let request = ChatRequest {
        messages: vec![ChatMessage::User(pictured_message())].into(),
        ..request()
    };
    let body = request_body(&settings, &request);
    let places = ["messages", "input", "contents"];
    let place = places.into_iter().find(|place| body.get(place).is_some());
    body[place.unwrap()][0].clone()
}

#[test]
fn pictures_go_in_front_of_the_text_in_each_dialect() {
    let seeing = |dialect| pictured(dialect, ModelFacts::default());
    assert_eq!(
        seeing(Dialect::ChatCompletions),
        json!({"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "text", "text": "What is this?"}]})
    );
    let blocks = seeing(Dialect::Messages)["content"].clone();
    assert_eq!(
        blocks[0],
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}})
    );
    assert_eq!(blocks[1]["text"], "What is this?");
    assert_eq!(
        seeing(Dialect::Responses)["content"],
        json!([{"type": "input_image", "image_url": "data:image/png;base64,aGk="},
               {"type": "input_text", "text": "What is this?"}])
    );
    assert_eq!(
        seeing(Dialect::Gemini)["parts"],
        json!([{"inlineData": {"mimeType": "image/png", "data": "aGk="}},
               {"text": "What is this?"}])
    );
    assert_eq!(
        seeing(Dialect::Ollama),
        json!({"role": "user", "content": "What is this?", "images": ["aGk="]})
    );
}

#[test]
fn a_model_that_takes_no_pictures_gets_none() {
    for dialect in [
        Dialect::ChatCompletions,
        Dialect::Messages,
        Dialect::Responses,
        Dialect::Gemini,
        Dialect::Ollama,
    ] {
        let blind = ModelFacts {
            vision: Some(false),
            ..ModelFacts::default()
        };
        let sent = pictured(dialect, blind).to_string();
        assert!(!sent.contains("aGk="), "{sent}");
        assert!(
            sent.contains("Pictures that came with this are left out"),
            "{sent}"
        );
    }
}

#[test]
fn what_was_said_is_stored_and_read_again() {
    let read = |json: Value| serde_json::from_value::<Said>(json).unwrap();
    let plain = json!("Hi");
    assert_eq!(serde_json::to_value(read(plain.clone())).unwrap(), plain);
    let pictured = json!({"text": "Hi", "pictures": [
        {"format": "jpeg", "width": 3, "height": 2, "data": "aGk="}]});
    assert_eq!(read(pictured.clone()).pictures.len(), 1);
    assert_eq!(
        serde_json::to_value(read(pictured.clone())).unwrap(),
        pictured
    );
}

#[test]
fn the_ordinary_body() {
    let body = request_body(&settings(), &request());
    assert_eq!(
        body,
        json!({
            "model": "small",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "tool_choice": "auto",
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[test]
fn every_tool_choice_has_its_spelling() {
    for (choice, spelling) in [
        (ToolChoice::Auto, json!("auto")),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::None, json!("none")),
        (
            ToolChoice::Tool("f".into()),
            json!({"type": "function", "function": {"name": "f"}}),
        ),
    ] {
        let request = ChatRequest {
            tool_choice: choice,
            ..request()
        };
        assert_eq!(request_body(&settings(), &request)["tool_choice"], spelling);
    }
}

#[test]
fn nothing_is_said_about_tools_when_there_are_none() {
    let settings = ProviderSettings {
        first_body: object(json!({"tool_choice": "required", "parallel_tool_calls": false})),
        ..settings()
    };
    let request = ChatRequest {
        tools: Vec::new(),
        ..request()
    };
    let body = object(request_body(&settings, &request));
    for field in ["tools", "tool_choice", "parallel_tool_calls"] {
        assert!(!body.contains_key(field), "{field}");
    }
}

#[test]
fn the_users_fields_win_and_null_takes_one_out() {
    let settings = ProviderSettings {
        body: object(json!({"temperature": 0, "tool_choice": "none", "stream_options": null})),
        first_body: object(json!({"tool_choice": "required"})),
        ..settings()
    };
    let first = object(request_body(&settings, &request()));
    assert_eq!(
        (&first["temperature"], &first["tool_choice"]),
        (&json!(0), &json!("required"))
    );
    assert!(!first.contains_key("stream_options"));
    let later = ChatRequest {
        position: RequestPosition::Later,
        ..request()
    };
    assert_eq!(request_body(&settings, &later)["tool_choice"], "none");
}

#[test]
fn a_call_and_its_result_go_back_as_they_came() {
    let arguments = CallArguments::Object(object(json!({"x": 1})));
    let request = ChatRequest {
        messages: vec![
            ChatMessage::User("Hi".into()),
            answer(
                &settings(),
                vec![MessagePart::call(call(arguments, "{ \"x\" : 1 }"))],
            ),
            ChatMessage::Tool {
                call_id: "call_1".into(),
                content: "2".into(),
                outcome: CallOutcome::Succeeded,
            },
        ]
        .into(),
        ..request()
    };
    assert_eq!(
        request_body(&settings(), &request)["messages"],
        json!([
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{ \"x\" : 1 }"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "2"},
        ])
    );
}

/// The only call of the only answer that the request carries.
fn sent_call(call: ToolCall) -> Value {
    let message = answer(&settings(), vec![MessagePart::call(call)]);
    let request = ChatRequest {
        messages: vec![ChatMessage::User("Hi".into()), message].into(),
        ..request()
    };
    request_body(&settings(), &request)["messages"][1]["tool_calls"][0]["function"].clone()
}

#[test]
fn arguments_that_no_server_could_parse_go_back_empty() {
    for (arguments, raw) in [
        (CallArguments::Object(Map::new()), ""),
        (CallArguments::Object(Map::new()), "null"),
        (CallArguments::Malformed("not JSON".into()), "{\"x"),
        (CallArguments::Truncated, "{\"x"),
    ] {
        assert_eq!(sent_call(call(arguments, raw))["arguments"], "{}");
    }
}

#[test]
fn a_name_that_no_server_would_take_is_mended() {
    for (name, sent) in [
        ("", "unnamed"),
        ("find definition!", "find_definition_"),
        ("f-1_X", "f-1_X"),
    ] {
        let call = ToolCall {
            name: name.into(),
            ..call(CallArguments::Truncated, "")
        };
        assert_eq!(sent_call(call)["name"], sent);
    }
}

/// The reasoning that goes back to a host, with and without tool calls.
fn returned_reasoning(base_url: &str, reasoning: &str, calls: Vec<ToolCall>) -> Value {
    let settings = ProviderSettings {
        base_url: base_url.into(),
        ..settings()
    };
    let mut parts = vec![
        MessagePart::text("x".into()),
        MessagePart::thinking(reasoning.into()),
    ];
    parts.extend(calls.into_iter().map(MessagePart::call));
    let message = answer(&settings, parts);
    let request = ChatRequest {
        messages: vec![ChatMessage::User("Hi".into()), message].into(),
        ..request()
    };
    request_body(&settings, &request)["messages"][1]["reasoning_content"].clone()
}

#[test]
fn reasoning_goes_back_with_calls_to_those_who_take_it() {
    let calls = || vec![call(CallArguments::Object(Map::new()), "{}")];
    for (base_url, reasoning, returned) in [
        ("http://127.0.0.1:8080/v1", "hm", json!("hm")),
        ("http://127.0.0.1:8080/v1", "", Value::Null),
        ("https://api.deepseek.com/v1", "hm", json!("hm")),
        ("https://api.deepseek.com", "", json!("")),
        ("https://api.groq.com/openai/v1", "hm", Value::Null),
        ("https://api.openai.com/v1", "hm", Value::Null),
        ("https://me.openai.azure.com/openai/v1", "hm", Value::Null),
        ("https://notdeepseek.com/v1", "", Value::Null),
        ("https://api.moonshot.ai/v1", "hm", json!("hm")),
        // Empty is missing to it.
        ("https://api.moonshot.ai/v1", "", json!(" ")),
        ("https://api.moonshot.cn/v1", "", json!(" ")),
        ("https://api.kimi.com/coding/v1", "", json!(" ")),
        ("https://moonshot.ai.example/v1", "", Value::Null),
    ] {
        assert_eq!(
            returned_reasoning(base_url, reasoning, calls()),
            returned,
            "{base_url}"
        );
    }
    assert_eq!(
        returned_reasoning("https://api.deepseek.com", "hm", Vec::new()),
        Value::Null
    );
}

#[test]
fn requests_of_a_chat_have_one_cache_key_at_openai_alone() {
    let key = |base_url: &str, dialect: Dialect, said: &str| {
        let settings = ProviderSettings {
            base_url: base_url.into(),
            dialect,
            ..settings()
        };
        let request = ChatRequest {
            messages: vec![
                ChatMessage::System("Be brief.".into()),
                ChatMessage::User(said.into()),
            ]
            .into(),
            ..request()
        };
        request_body(&settings, &request)["prompt_cache_key"].clone()
    };
    for dialect in [Dialect::ChatCompletions, Dialect::Responses] {
        let openai = "https://api.openai.com/v1";
        let first = key(openai, dialect, "Hi");
        assert!(first.as_str().is_some_and(|it| it.starts_with("agent-q-")));
        assert_eq!(first, key(openai, dialect, "And then?"));
        assert_eq!(key("https://api.x.ai/v1", dialect, "Hi"), Value::Null);
    }
}

#[test]
fn a_model_that_does_not_think_is_not_asked_to() {
    for (thinking, asked) in [(Some(false), false), (Some(true), true), (None, true)] {
        for dialect in crate::matrix::DIALECTS {
            let settings = ProviderSettings {
                dialect,
                model: "gemini-2.5-flash".into(),
                effort: Some(agent_q_core::provider::Effort::High),
                facts: ModelFacts {
                    thinking,
                    ..ModelFacts::default()
                },
                ..settings()
            };
            let body = request_body(&settings, &request()).to_string();
            let words = [
                "reasoning_effort",
                "\"thinking\":",
                "encrypted_content",
                "\"reasoning\":",
                "thinkingBudget",
                "\"think\":",
            ];
            assert_eq!(
                words.iter().any(|word| body.contains(word)),
                asked,
                "{dialect:?} {thinking:?}: {body}"
            );
        }
    }
}
