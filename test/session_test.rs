// SPDX-License-Identifier: GPL-3.0-or-later
//! Whole turns against the scripted server: what is sent, what is shown, what is kept, and that
//! every way out of a turn leaves a session that can go on.

#[path = "support/fence.rs"]
mod fence;
#[path = "support/recording_host.rs"]
mod recording_host;
#[path = "support/scripted_server.rs"]
mod scripted_server;

use std::path::Path;
use std::sync::{Arc, Mutex};

use agent_q_core::gram::ToolSpecification;
use agent_q_core::host::{Approvals, Host};
use agent_q_core::protocol::{
    CallOutcome, Decision, Event, HostError, HostReply, Op, SessionId, TurnOutcome,
};
use agent_q_core::provider::http::{Client, ClientSettings};
use agent_q_core::rules::RuleBook;
use agent_q_core::session::{self, Session, SessionSettings, Shared};
use agent_q_core::tool::executor::Executor;
use agent_q_core::tool::libraries::Libraries;
use agent_q_core::tool::metrics::Metrics;
use agent_q_core::tool::registry::Registry;
use agent_q_core::tool::{Parameter, ParameterType, Runner, SafetyLevel, Tool};
use agent_q_core::tools;
use recording_host::{RecordingHost, recording_host};
use scripted_server::ScriptedServer;
use serde_json::{Value, json};

struct Chat {
    host: Arc<RecordingHost>,
    approvals: Arc<Approvals>,
    libraries: Arc<Libraries>,
    metrics: Arc<Metrics>,
    session: Session,
    server: ScriptedServer,
}

/// A session whose model is SCRIPT, with extra SETTINGS.
fn chat(script: &Value, settings: Value) -> Chat {
    let server = ScriptedServer::start(&script.to_string());
    let host = recording_host();
    let registry = Arc::new(Registry::default());
    tools::register(&registry);
    for (name, level) in [
        ("echo", SafetyLevel::Safe),
        ("erase", SafetyLevel::Dangerous),
    ] {
        registry.register(Tool::new(
            name,
            "A tool.",
            level,
            &[],
            vec![Parameter::required("text", ParameterType::String, "")],
            Runner::Worker(Arc::new(|arguments| {
                Ok(arguments.required_text("text").to_uppercase())
            })),
        ));
    }
    let approvals = Arc::new(Approvals::default());
    let (libraries, metrics) = (Arc::new(Libraries::default()), Arc::new(Metrics::default()));
    let shared = Shared {
        registry,
        libraries: Arc::clone(&libraries),
        executor: Executor {
            approvals: Arc::clone(&approvals),
            host: Arc::clone(&host) as Arc<dyn Host>,
            audit: Arc::default(),
            metrics: Arc::clone(&metrics),
            rules: Arc::new(Mutex::new(RuleBook::open(Path::new("/nonexistent/rules")))),
        },
        client: Arc::new(Client::new(ClientSettings::default())),
    };
    let mut all = json!({
        "provider": {"name": "test", "base_url": server.base_url(), "model": "m"},
        "approval": "ask",
    });
    for (key, value) in settings.as_object().unwrap() {
        all[key] = value.clone();
    }
    let settings: SessionSettings = serde_json::from_value(all).unwrap();
    let (session, actor) = session::open(SessionId(1), shared, settings);
    tokio::spawn(actor);
    Chat {
        host,
        approvals,
        libraries,
        metrics,
        session,
        server,
    }
}

fn turns(steps: Value) -> Value {
    let turns: Vec<Value> = steps
        .as_array()
        .unwrap()
        .iter()
        .map(|steps| json!({"steps": steps}))
        .collect();
    json!({"turns": turns})
}

fn calls(calls: Value) -> Value {
    json!([{"tool_calls": calls}])
}

fn one_call(id: &str, name: &str, arguments: Value) -> Value {
    calls(json!([{"id": id, "name": name, "arguments": arguments}]))
}

impl Chat {
    /// Sends TEXT and waits for the turn to end.
    async fn say(&self, text: &str) -> TurnOutcome {
        self.tell(Op::Submit(text.to_owned()));
        self.ended(1).await
    }

    fn tell(&self, op: Op) {
        self.session.ops.send(op).unwrap();
    }

    /// How the COUNT-th turn ended, once it has.
    async fn ended(&self, count: usize) -> TurnOutcome {
        loop {
            let ended = self.host.collect(|event| match event {
                Event::TurnEnded { outcome, .. } => Some(outcome.clone()),
                _ => None,
            });
            if let Some(outcome) = ended.get(count - 1) {
                return outcome.clone();
            }
            tokio::task::yield_now().await;
        }
    }

    fn shown(&self) -> String {
        self.host
            .collect(|event| match event {
                Event::Text { text, .. } => Some(text.clone()),
                _ => None,
            })
            .concat()
    }

    fn results(&self) -> Vec<(CallOutcome, String)> {
        self.host.collect(|event| match event {
            Event::CallFinished { result, .. } => Some((result.outcome, result.content.clone())),
            _ => None,
        })
    }

    /// Role and content of each message of the last request, without the system prompt.
    fn last_messages(&self) -> Vec<(String, String)> {
        let bodies = self.server.bodies();
        bodies.last().unwrap()["messages"].as_array().unwrap()[1..]
            .iter()
            .map(|message| {
                let content = message["content"].as_str().unwrap_or_default();
                let content =
                    fence::read(content).map_or(content.to_owned(), |it| it.from + ": " + &it.text);
                (message["role"].as_str().unwrap().to_owned(), content)
            })
            .collect()
    }
}

fn message(role: &str, content: &str) -> (String, String) {
    (role.to_owned(), content.to_owned())
}

#[tokio::test]
async fn a_tools_result_reaches_the_model_and_the_answer_the_user() {
    let script = turns(json!([
        one_call("c1", "echo", json!({"text": "hi"})),
        [{"text": "It "}, {"text": "said HI."}],
    ]));
    let chat = chat(&script, json!({}));
    assert_eq!(chat.say("say hi").await, TurnOutcome::Finished);
    assert_eq!(chat.shown(), "It said HI.");
    assert_eq!(chat.results(), [(CallOutcome::Succeeded, "HI".to_owned())]);
    assert_eq!(
        chat.last_messages(),
        [
            message("user", "say hi"),
            message("assistant", ""),
            message("tool", "the tool echo: HI"),
        ]
    );
    let bodies = chat.server.bodies();
    let system = bodies[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("- echo (safe): A tool."));
    assert_eq!(bodies[1]["messages"][3]["tool_call_id"], "c1");
}

#[tokio::test]
async fn unknown_tools_and_broken_arguments_are_told_to_the_model() {
    let script = turns(json!([
        calls(json!([
            {"id": "a", "name": "ecco", "arguments": {}},
            {"id": "b", "name": "echo", "arguments": "{\"text\": "},
            {"id": "c", "name": "echo", "arguments": {"text": "ok"}},
        ])),
        [{"text": "Sorry."}],
    ]));
    let chat = chat(&script, json!({}));
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    let messages = chat.last_messages();
    assert_eq!(
        messages[2].1,
        "Error: Unknown tool: ecco. Did you mean echo?"
    );
    assert!(messages[3].1.contains("not a valid JSON object"));
    assert_eq!(messages[4].1, "the tool echo: OK");
}

#[tokio::test]
async fn a_call_cut_off_by_length_never_runs() {
    let script = turns(json!([
        [
            {"text": "Let me see."},
            {"tool_calls": [{"id": "a", "name": "erase", "arguments": "{\"text\": \"x\"}"}]},
            {"finish": "length"},
        ],
        [{"text": "ok"}],
    ]));
    let chat = chat(&script, json!({}));
    let TurnOutcome::Failed(why) = chat.say("go").await else {
        panic!("the turn did not fail")
    };
    assert!(why.contains("token limit"), "{why}");
    assert_eq!(chat.results()[0].0, CallOutcome::Failed);
    chat.tell(Op::Submit("again".to_owned()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    assert_eq!(
        chat.last_messages(),
        [
            message("user", "go"),
            message("assistant", "Let me see."),
            message("user", "again"),
        ]
    );
}

#[tokio::test]
async fn a_lost_connection_keeps_what_came_and_the_chat_goes_on() {
    let script = turns(json!([[{"text": "Half"}, {"cut": true}], [{"text": "Whole"}]]));
    let chat = chat(&script, json!({}));
    assert!(matches!(chat.say("go").await, TurnOutcome::Failed(_)));
    assert_eq!(chat.shown(), "Half");
    chat.tell(Op::Submit("again".to_owned()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    assert_eq!(chat.last_messages()[1], message("assistant", "Half"));
}

#[tokio::test]
async fn the_limit_ends_a_turn_that_goes_in_circles() {
    let round = one_call("c", "echo", json!({"text": "x"}));
    let script = turns(json!([round, round, round]));
    let chat = chat(&script, json!({"max_iterations": 2}));
    let TurnOutcome::Limit(text) = chat.say("go").await else {
        panic!("no limit")
    };
    assert!(text.contains("2 rounds"));
    assert_eq!(chat.server.bodies().len(), 2);
}

#[tokio::test]
async fn cancelling_works_while_the_model_is_silent_and_while_the_user_is_asked() {
    let script = turns(json!([
        [{"text": "One"}, {"stall": true}],
        one_call("c", "erase", json!({"text": "x"})),
        [{"text": "Fine."}],
    ]));
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("first".to_owned()));
    chat.host
        .wait_for(|event| matches!(event, Event::Text { .. }).then_some(()))
        .await;
    chat.tell(Op::Cancel);
    assert_eq!(chat.ended(1).await, TurnOutcome::Cancelled);

    chat.tell(Op::Submit("second".to_owned()));
    chat.host
        .wait_for(|event| matches!(event, Event::ApprovalRequested { .. }).then_some(()))
        .await;
    chat.tell(Op::Cancel);
    assert_eq!(chat.ended(2).await, TurnOutcome::Cancelled);
    assert_eq!(chat.results()[0].0, CallOutcome::Cancelled);
    assert_eq!(chat.approvals.count(), 0);

    chat.tell(Op::Submit("third".to_owned()));
    assert_eq!(chat.ended(3).await, TurnOutcome::Finished);
    let roles: Vec<String> = chat.last_messages().into_iter().map(|it| it.0).collect();
    assert_eq!(
        roles,
        ["user", "assistant", "user", "assistant", "tool", "user"]
    );
}

#[tokio::test]
async fn a_denial_is_a_result_for_the_model() {
    let script = turns(json!([
        one_call("c", "erase", json!({"text": "x"})),
        [{"text": "As you wish."}],
    ]));
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("go".to_owned()));
    let call = chat
        .host
        .wait_for(|event| match event {
            Event::ApprovalRequested { call, .. } => Some(*call),
            _ => None,
        })
        .await;
    let denied = Decision::Denied(Some("not now".to_owned()));
    assert!(chat.approvals.answer(call, denied));
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
    assert_eq!(
        chat.last_messages()[2],
        message("tool", "User denied tool execution: not now")
    );
}

#[tokio::test]
async fn messages_sent_meanwhile_wait_their_turn() {
    let script = turns(json!([
        [{"pause_ms": 20}, {"text": "1"}],
        [{"text": "2"}],
    ]));
    let chat = chat(&script, json!({}));
    chat.tell(Op::Submit("first".to_owned()));
    chat.tell(Op::Submit("second".to_owned()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    assert_eq!(
        chat.last_messages(),
        [
            message("user", "first"),
            message("assistant", "1"),
            message("user", "second"),
        ]
    );
}

#[tokio::test]
async fn the_console_runs_tools_without_a_model() {
    let chat = chat(&turns(json!([])), json!({"provider": null}));
    chat.tell(Op::Console("/echo hello".to_owned()));
    assert_eq!(chat.ended(1).await, TurnOutcome::Finished);
    assert_eq!(
        chat.results(),
        [(CallOutcome::Succeeded, "HELLO".to_owned())]
    );
    chat.tell(Op::Console("/ehco hello".to_owned()));
    assert!(matches!(chat.ended(2).await, TurnOutcome::Failed(why) if why.contains("echo")));
    chat.tell(Op::Submit("hi".to_owned()));
    assert!(matches!(chat.ended(3).await, TurnOutcome::Failed(why) if why.contains("No model")));
    assert!(chat.server.bodies().is_empty());
}

#[tokio::test]
async fn a_tool_that_emacs_serves_reports_emacss_failure() {
    let script = turns(json!([
        one_call("c", "read_buffer", json!({})),
        [{"text": "I see."}],
    ]));
    let chat = chat(&script, json!({}));
    // Whether the buffer visits a file is asked first.
    chat.host.replies.lock().unwrap().extend([
        HostReply::Done("null".to_owned()),
        HostReply::Failed(HostError::Signalled("Gone.".to_owned())),
    ]);
    assert_eq!(chat.say("read").await, TurnOutcome::Finished);
    let told = chat.last_messages().swap_remove(2).1;
    let fenced = fence::read(&told["Error:\n".len()..]).unwrap();
    assert_eq!(
        fenced.from + ": " + &fenced.text,
        "the user's buffer: Gone."
    );
}

#[tokio::test]
async fn only_the_chosen_tools_are_offered_and_choice_is_passed_on() {
    let script = turns(json!([[{"text": "ok"}]]));
    let chat = chat(
        &script,
        json!({"tools": ["echo"], "tool_choice": {"tool": "echo"}, "instructions": "Be kind."}),
    );
    assert_eq!(chat.say("go").await, TurnOutcome::Finished);
    let bodies = chat.server.bodies();
    assert_eq!(bodies[0]["tools"].as_array().unwrap().len(), 1);
    assert_eq!(bodies[0]["tool_choice"]["function"]["name"], "echo");
    let system = bodies[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.ends_with("Be kind."));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_adds_a_group_of_tools_for_the_rest_of_the_chat() {
    let more = |group| json!({"name": "more_tools", "arguments": {"group": group}});
    let chat = chat(
        &turns(json!([
            calls(json!([more("nonsense"), more(":Debugger")])),
            [{"text": "Thanks."}],
            [{"text": "Still there."}]
        ])),
        json!({"tools": ["echo", "more_tools"]}),
    );
    assert_eq!(chat.say("Look").await, TurnOutcome::Finished);
    chat.tell(Op::Submit("Again".into()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
    let results = chat.results();
    assert_eq!(results[0].0, CallOutcome::Failed);
    assert!(results[0].1.contains("debugger (4)"));
    assert!(results[1].1.contains("- invoke_restart (cautious): "));
    let offered = |body: &Value| -> Vec<Value> {
        let tools = body["tools"].as_array().unwrap();
        tools
            .iter()
            .map(|it| it["function"]["name"].clone())
            .collect()
    };
    let bodies = chat.server.bodies();
    assert_eq!(offered(&bodies[0]), ["more_tools", "echo"]);
    assert_eq!(offered(&bodies[1]).len(), 6);
    assert!(offered(&bodies[1]).contains(&json!("list_debuggers")));
    assert_eq!(offered(&bodies[2]), offered(&bodies[1]));
}

#[tokio::test]
async fn an_agents_specifications_are_bound_to_its_libraries_in_turn() {
    let answer = json!([{"text": "ok"}]);
    let script = turns(json!([
        one_call("a", "sayHello", json!({"name": "Ada"})),
        answer,
        one_call("b", "sayHello", json!({"name": "Bob"})),
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
        let mut replies = chat.host.replies.lock().unwrap();
        for text in ["Hello", "Hi"] {
            replies.push_back(HostReply::Done(text.to_owned()));
        }
    }
    assert_eq!(chat.say("greet").await, TurnOutcome::Finished);
    chat.tell(Op::Submit("again".to_owned()));
    assert_eq!(chat.ended(2).await, TurnOutcome::Finished);
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
    chat.tell(Op::Submit("once more".to_owned()));
    let TurnOutcome::Failed(why) = chat.ended(3).await else {
        panic!("a library that does not fit was bound")
    };
    assert!(why.contains("two") && why.contains("description"), "{why}");
}
