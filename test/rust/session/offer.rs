// SPDX-License-Identifier: GPL-3.0-or-later
//! What a chat's model is offered, and what comes of the calls that it makes of anything else, or makes
//! again and again.

use std::sync::Arc;

use crate::chat::{calls, chat, one_call, turns};
use agent_q_core::gram::ToolSpecification;
use agent_q_core::protocol::{CallOutcome, EmacsReply, Event, Op, TurnOutcome};
use agent_q_core::session::SessionSettings;
use agent_q_core::session::selection::USUAL;
use agent_q_core::tool::{Parameter, ParameterType, Runner, Tool};
use agent_q_core::trust::SafetyLevel;
use serde_json::{Value, json};

#[tokio::test]
async fn only_the_chosen_tools_are_offered_and_choice_is_passed_on() {
    let script = turns(json!([[{"text": "ok"}]]));
    let chat = chat(
        &script,
        json!({"tools": {"chosen": {"names": ["echo"]}}, "tool_choice": {"tool": "echo"}, "instructions": "Be kind."}),
    );
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    let bodies = chat.server.bodies();
    assert_eq!(bodies[0]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(bodies[0]["tool_choice"]["function"]["name"], "echo");
    let system = bodies[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.ends_with("Be kind."));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_calls_further_tools_and_the_list_stays_the_same() {
    let more = |group| json!({"name": "more_tools", "arguments": {"group": group}});
    let through = |name, arguments| json!({"name": "call_tool", "arguments": {"name": name, "arguments": arguments}});
    let chat = chat(
        &turns(json!([
            calls(json!([more("nonsense"), more("own")])),
            calls(json!([
                through("shout", json!({"text": "hi"})),
                {"name": "shout", "arguments": {"text": "ho"}},
                through("erase", json!({"text": "x"})),
                through("shout", json!({})),
                {"name": "call_tool", "arguments": {"tool": "shout"}},
            ])),
            [{"text": "Thanks."}],
            calls(json!([more("own"), through("shout", json!({"text": "again"}))])),
            [{"text": "Still there."}]
        ])),
        json!({"tools": {"chosen": {"names": ["echo", "more_tools", "call_tool"]}}, "approval": "none"}),
    );
    chat.registry.register(Tool::new(
        "shout",
        "Say it loudly. Then stop.",
        SafetyLevel::Safe,
        &["own"],
        vec![Parameter::required("text", ParameterType::String, "")],
        Runner::Worker(Arc::new(|arguments| {
            Ok(arguments.required_text("text").to_uppercase() + "!")
        })),
    ));
    assert_eq!(chat.say("Look").await, TurnOutcome::Finished);
    chat.tell(Op::Submit("Again".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    let results: Vec<String> = chat.results().into_iter().map(|it| it.1).collect();
    assert!(results[0].contains("\"nonsense\" is not one of \"buffer\", "));
    assert!(
        results[1].starts_with(
            "1 tool, to be called through call_tool\n- shout (safe): Say it loudly. Then stop.\n  arguments: {"
        ),
        "{}",
        results[1]
    );
    // Side by side, they end in any order.
    for expected in [
        "HI!",
        "HO!",
        "The user doesn't offer erase",
        "Missing required field: name",
        "Missing required field: text",
    ] {
        assert!(
            results[2..7].iter().any(|it| it.starts_with(expected)),
            "{results:?}"
        );
    }
    // It can be described again.
    assert_eq!(results[7], results[1]);
    assert_eq!(results[8], "AGAIN!");
    // What the chat shows, and what rules see, is the tool that runs.
    let shown = chat.emacs.collect(|event| match event {
        Event::CallProposed { tool, .. } => Some(tool.clone()),
        _ => None,
    });
    assert_eq!(shown[2..5], ["shout", "shout", "erase"]);
    let bodies = chat.server.bodies();
    assert_eq!(bodies.len(), 5);
    for pair in bodies.windows(2) {
        assert_eq!(pair[0]["tools"], pair[1]["tools"]);
        let (before, after) = (&pair[0]["messages"], &pair[1]["messages"]);
        let before = before.as_array().unwrap();
        assert_eq!(before[..], after.as_array().unwrap()[..before.len()]);
    }
    let lost = chat.emacs.collect(|event| match event {
        Event::CacheLost { why, .. } => Some(*why),
        _ => None,
    });
    assert!(lost.is_empty(), "{lost:?}");
}

#[tokio::test]
async fn what_costs_the_cache_is_told() {
    let script = json!({"turns": [{"steps": [{"text": "ok"}]}], "repeat_last": true});
    let chat = chat(
        &script,
        json!({"tools": {"chosen": {"names": ["echo"]}}, "instructions": "Be brief."}),
    );
    let set = |settings: Value| {
        let changes: SessionSettings = serde_json::from_value(settings).unwrap();
        chat.session.settings.lock().unwrap().apply(changes);
    };
    let lost = || {
        chat.emacs.collect(|event| match event {
            Event::CacheLost { why, .. } => Some(*why),
            _ => None,
        })
    };
    let notices = || {
        chat.emacs.collect(|event| match event {
            Event::Notice { text, .. } => Some(text.clone()),
            _ => None,
        })
    };
    let system = || {
        let bodies = chat.server.bodies();
        bodies.last().unwrap()["messages"][0]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    chat.say("one").await;
    set(json!({"instructions": "Be long."}));
    for count in [2, 3] {
        chat.tell(Op::Submit("more".into()));
        chat.ended(count).await;
    }
    assert!(system().ends_with("Be brief."), "the prompt is frozen");
    assert_eq!(notices().len(), 1, "and that is said once");
    assert!(notices()[0].contains("M-x agent-q-sync-instructions"));
    assert_eq!(lost(), Vec::<&str>::new());

    chat.session.prefix.lock().unwrap().sync();
    chat.tell(Op::Submit("more".into()));
    chat.ended(4).await;
    assert!(system().ends_with("Be long."));
    assert_eq!(lost(), ["system prompt changed"]);

    set(json!({"tools": {"chosen": {"names": ["echo", "alter"]}}}));
    chat.tell(Op::Submit("more".into()));
    chat.ended(5).await;
    set(
        json!({"provider": {"name": "test", "base_url": chat.server.base_url(), "model": "other"}}),
    );
    chat.tell(Op::Submit("more".into()));
    chat.ended(6).await;
    assert_eq!(
        lost(),
        ["system prompt changed", "tools changed", "another model"]
    );
}

#[tokio::test]
async fn what_is_not_offered_can_be_called_unless_the_user_left_it_out() {
    let script = turns(json!([
        one_call("a", "echo", json!({"text": "hi"})),
        one_call("b", "erase", json!({"text": "x"})),
        calls(json!([{"name": "ecco", "arguments": {}}, {"name": "nothing", "arguments": {}}])),
        [{"text": "ok"}],
    ]));
    let chat_of = |names: &[&str]| {
        let settings = json!({"tools": {"chosen": {"names": names}}, "approval": "none"});
        chat(&script, settings)
    };
    let chat = chat_of(USUAL);
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    let results = chat.results();
    assert_eq!(results[0], (CallOutcome::Succeeded, "HI".to_owned()));
    // It is as dangerous as it always was.
    assert!(results[1].1.contains("approval"), "{}", results[1].1);
    assert_eq!(results[2].1, "Unknown tool: ecco. Did you mean echo?");
    assert_eq!(results[3].1, "Unknown tool: nothing");
    let bodies = chat.server.bodies();
    assert!(
        bodies
            .iter()
            .all(|body| body["tools"] == bodies[0]["tools"])
    );

    let chat = chat_of(&["read_file"]);
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    let results = chat.results();
    assert_eq!(
        results[0].1,
        "The user doesn't offer echo in this chat. Do without it, or say what it is needed for."
    );
    assert_eq!(results[2].1, "Unknown tool: ecco");
}

#[tokio::test]
async fn an_answer_that_names_a_tool_which_was_left_out_says_so() {
    let script = turns(json!([
        one_call("a", "echo", json!({"text": "hi"})),
        [{"text": "ok"}],
    ]));
    let chosen = json!({"chosen": {"names": ["echo"]}});
    for (tools, noted) in [(chosen, true), (json!("usual"), false)] {
        let chat = chat(&script, json!({ "tools": tools }));
        let text = "Use xref_all, xref or echo.";
        chat.registry.register(Tool::new(
            "echo",
            "A tool.",
            SafetyLevel::Safe,
            &[],
            vec![Parameter::required("text", ParameterType::String, "")],
            Runner::Worker(Arc::new(move |_| Ok(text.to_owned()))),
        ));
        assert_eq!(chat.say("go").await, TurnOutcome::Finished);
        let messages = chat.server.bodies()[1]["messages"].clone();
        let content = messages[3]["content"].as_str().unwrap();
        assert_eq!(
            content.ends_with("\n\n(Not offered in this chat: xref.)"),
            noted,
            "{content}"
        );
    }
}

#[tokio::test]
async fn a_call_that_is_repeated_is_remarked_on_and_then_ends_the_turn() {
    let echo = |text: &str| json!({"name": "echo", "arguments": {"text": text}});
    let missing = json!({"name": "echo", "arguments": {}});
    // Others in between change nothing, unless they change anything.
    let rounds: Vec<Value> = (0..6)
        .map(|round| calls(json!([missing, echo(&format!("{round}"))])))
        .collect();
    let chat = chat(&turns(json!(rounds)), json!({}));
    let TurnOutcome::Limit(why) = chat.say("go").await else {
        panic!("the turn went on")
    };
    assert!(
        why.starts_with("Stopped: the model called echo 4 times with the same arguments"),
        "{why}"
    );
    assert_eq!(chat.server.bodies().len(), 4);
    let last = chat.server.bodies().pop().unwrap();
    let told: Vec<bool> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["role"] == "tool")
        .map(|it| {
            it["content"]
                .as_str()
                .unwrap()
                .contains("did not succeed 3 times")
        })
        .collect();
    assert_eq!(told, [false, false, false, false, true, false]);
}

#[tokio::test]
async fn a_call_may_be_repeated_while_something_changes() {
    let look = json!({"name": "echo", "arguments": {"text": "x"}});
    let mut rounds: Vec<Value> = (0..6)
        .flat_map(|round| {
            let change = json!({"name": "alter", "arguments": {"text": format!("{round}")}});
            [calls(json!([look])), calls(json!([change]))]
        })
        .collect();
    rounds.push(json!([{"text": "done"}]));
    let chat = chat(&turns(json!(rounds)), json!({}));
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
}

#[tokio::test]
async fn an_agents_specifications_are_bound_to_its_libraries_in_turn() {
    let answer = json!([{"text": "ok"}]);
    let script = turns(json!([
        one_call("a", "sayHello", json!({"name": "Ada"})),
        answer,
        calls(json!([
            {"id": "b", "name": "sayHello", "arguments": {"name": "Bob"}},
            {"id": "c", "name": "echo", "arguments": {"text": "x"}},
        ])),
        answer,
        answer,
    ]));
    let signature = r#"(::Text {paramName:"name"})==>(::String)"#;
    let specification = ToolSpecification::create("sayHello", "Greet.", signature).unwrap();
    let agent = |libraries: &[&str]| {
        json!({"agent": {
            "name": "greeter",
            "instruction": "You greet people.",
            "specifications": [specification.to_json()],
            "libraries": libraries,
        }})
    };
    let chat = chat(&script, agent(&["one", "two"]));
    let library = |handler: u64| {
        json!([{
            "name": "sayHello",
            "description": "Greet.",
            "schema": specification.schema(),
            "handler": handler,
            "level": "safe",
        }])
        .to_string()
    };
    chat.libraries.set("one", &library(1)).unwrap();
    chat.libraries.set("two", &library(2)).unwrap();
    {
        let mut replies = chat.emacs.replies.lock().unwrap();
        for text in ["Hello", "Hi"] {
            replies.push_back(EmacsReply::done(text.to_owned()));
        }
    }
    assert_eq!(chat.say("greet").await, TurnOutcome::Finished);
    chat.tell(Op::Submit("again".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    assert!(
        chat.results()[2]
            .1
            .starts_with("The agent's file doesn't offer echo")
    );
    let counted: Vec<_> = chat
        .metrics
        .snapshot()
        .into_iter()
        .map(|(key, numbers)| (key.library, numbers.calls))
        .collect();
    assert_eq!(
        counted,
        [(Some("one".to_owned()), 1), (Some("two".to_owned()), 1)]
    );
    let bodies = chat.server.bodies();
    let system = bodies[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("You greet people."));
    assert_eq!(bodies[0]["tools"].as_array().unwrap().len(), 1);

    chat.libraries
        .set("two", &library(2).replace("Greet.", "Greet them."))
        .unwrap();
    let settings = serde_json::from_value(agent(&["two"])).unwrap();
    chat.session.settings.lock().unwrap().apply(settings);
    chat.tell(Op::Submit("once more".into()));
    let TurnOutcome::Failed(why) = chat.ended(3).await else {
        panic!("a library that does not fit was bound")
    };
    assert!(why.contains("two") && why.contains("description"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_projects_people_wrote_is_read_and_said() {
    let script = json!({"turns": [{"steps": [{"text": "ok"}]}], "repeat_last": true});
    let root = tempfile::TempDir::new().unwrap();
    let file = root.path().join("AGENTS.md");
    std::fs::write(&file, "Use spaces.").unwrap();
    for (choice, reads) in [("read", true), ("ignore", false)] {
        let chat = chat(
            &script,
            json!({"project_root": root.path(), "project_instructions": choice, "instructions": "Be kind."}),
        );
        std::fs::write(&file, "Use spaces.").unwrap();
        assert_eq!(chat.say("go").await, TurnOutcome::Finished);
        std::fs::write(&file, "Use tabs.").unwrap();
        for count in [2, 3] {
            chat.tell(Op::Submit("again".into()));
            assert_eq!(chat.ended(count).await, TurnOutcome::Finished);
        }
        let notices = chat.emacs.collect(|event| match event {
            Event::Notice { text, .. } => Some(text.clone()),
            _ => None,
        });
        for body in chat.server.bodies() {
            let system = body["messages"][0]["content"].as_str().unwrap();
            assert_eq!(system.contains("Use spaces.\n\n## The user's"), reads);
            assert!(system.ends_with("Be kind.") && !system.contains("tabs"));
        }
        assert_eq!(notices.len(), if reads { 2 } else { 0 });
        if reads {
            assert!(
                notices[0].starts_with(&format!("The model reads {} (11 bytes);", file.display()))
            );
            assert!(notices[1].contains("AGENTS.md changed"));
        }
    }
}

/// A model that can call nothing reads what was called before it as text, side after side.
#[tokio::test]
async fn a_model_without_tools_reads_calls_as_text() {
    let two = json!([{"tool_calls": [
        {"id": "a", "name": "echo", "arguments": {"text": "one"}},
        {"id": "b", "name": "echo", "arguments": {"text": "two"}},
    ]}]);
    for dialect in ["chat-completions", "messages", "ollama"] {
        let script = turns(json!([two, [{"text": "Done."}], [{"text": "Well."}]]));
        let provider = json!({"name": "test", "model": "m", "dialect": dialect});
        let tools = json!({"chosen": {"names": ["echo"]}});
        let chat = chat(&script, json!({"provider": provider, "tools": tools}));
        assert_eq!(chat.say("Go.").await, TurnOutcome::Finished);
        {
            let mut settings = chat.session.settings.lock().unwrap();
            settings.provider.as_mut().unwrap().facts.tools = Some(false);
        }
        chat.tell(Op::Submit("Next.".into()));
        assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
        let body = chat.server.bodies().pop().unwrap();
        let messages = body["messages"].as_array().unwrap();
        let roles: Vec<&str> = messages
            .iter()
            .filter_map(|message| message["role"].as_str())
            .filter(|role| *role != "system")
            .collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
        let text = body.to_string();
        assert!(!text.contains("tool_use") && !text.contains("tool_calls"));
        assert!(text.contains("(I called echo ") && text.contains("ONE") && text.contains("TWO"));
        assert!(body.get("tools").is_none());
    }
}
