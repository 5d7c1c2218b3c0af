// SPDX-License-Identifier: GPL-3.0-or-later
//! A session whose model is a script, and a few words to write scripts with.

#![allow(dead_code, reason = "each test program uses its own part of it")]

#[path = "fence.rs"]
pub mod fence;
#[path = "recording_emacs.rs"]
mod recording_emacs;
#[path = "scripted_server.rs"]
pub mod scripted_server;

use std::path::Path;
use std::sync::{Arc, Mutex};

use agent_q_core::builtin;
use agent_q_core::call::Executor;
use agent_q_core::call::approvals::Approvals;
use agent_q_core::call::metrics::Metrics;
use agent_q_core::protocol::Emacs;
use agent_q_core::protocol::{CallKey, CallOutcome, Event, Op, SessionId, TurnOutcome};
use agent_q_core::provider::http::{Http, HttpSettings};
use agent_q_core::rules::RuleBook;
use agent_q_core::session::{self, Session, SessionSettings, Shared};
use agent_q_core::tool::libraries::Libraries;
use agent_q_core::tool::registry::Registry;
use agent_q_core::tool::{Parameter, ParameterType, Runner, Tool};
use agent_q_core::trust::SafetyLevel;
use recording_emacs::{RecordingEmacs, recording_emacs};
use scripted_server::ScriptedServer;
use serde_json::{Value, json};

pub struct Chat {
    pub emacs: Arc<RecordingEmacs>,
    pub approvals: Arc<Approvals>,
    pub registry: Arc<Registry>,
    pub libraries: Arc<Libraries>,
    pub metrics: Arc<Metrics>,
    pub session: Session,
    pub server: ScriptedServer,
}

/// A session whose model is SCRIPT, with extra SETTINGS.
pub fn chat(script: &Value, settings: Value) -> Chat {
    chat_through(HttpSettings::default(), script, settings)
}

/// The same, with a client of its own.
pub fn chat_through(client: HttpSettings, script: &Value, settings: Value) -> Chat {
    let server = ScriptedServer::start(&script.to_string());
    let emacs = recording_emacs();
    let registry = Arc::new(Registry::default());
    builtin::register(&registry);
    for (name, level) in [
        ("echo", SafetyLevel::Safe),
        ("alter", SafetyLevel::Cautious),
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
        registry: Arc::clone(&registry),
        libraries: Arc::clone(&libraries),
        executor: Executor {
            approvals: Arc::clone(&approvals),
            emacs: Arc::clone(&emacs) as Arc<dyn Emacs>,
            audit: Arc::default(),
            metrics: Arc::clone(&metrics),
            rules: Arc::new(Mutex::new(RuleBook::open(Path::new("/nonexistent/rules")))),
        },
        http: Arc::new(Http::new(client)),
        ratios: Arc::default(),
    };
    let mut all = json!({
        "provider": {"name": "test", "base_url": server.base_url(), "model": "m"},
        "approval": "ask",
    });
    for (key, value) in settings.as_object().unwrap() {
        all[key] = value.clone();
    }
    if let Some(provider) = all["provider"].as_object_mut() {
        provider
            .entry("base_url")
            .or_insert_with(|| server.base_url().into());
    }
    let settings: SessionSettings = serde_json::from_value(all).unwrap();
    let (session, actor) = session::open(SessionId(1), shared, settings);
    tokio::spawn(actor);
    Chat {
        emacs,
        approvals,
        registry,
        libraries,
        metrics,
        session,
        server,
    }
}

pub fn turns(steps: Value) -> Value {
    let turns: Vec<Value> = steps
        .as_array()
        .unwrap()
        .iter()
        .map(|steps| json!({"steps": steps}))
        .collect();
    json!({"turns": turns})
}

pub fn calls(calls: Value) -> Value {
    json!([{"tool_calls": calls}])
}

pub fn one_call(id: &str, name: &str, arguments: Value) -> Value {
    calls(json!([{"id": id, "name": name, "arguments": arguments}]))
}

impl Chat {
    /// Sends TEXT and waits for the turn to end.
    pub async fn say(&self, text: &str) -> TurnOutcome {
        self.tell(Op::Submit(text.into()));
        self.ended(1).await
    }

    pub fn tell(&self, op: Op) {
        self.session.agenda.tell(op);
    }

    /// How the COUNT-th turn ended, once it has.
    pub async fn ended(&self, count: usize) -> TurnOutcome {
        let outcome = |event: &Event| match event {
            Event::TurnEnded { outcome, .. } => Some(outcome.clone()),
            _ => None,
        };
        let wanted = |events: &[Event]| events.iter().filter_map(outcome).nth(count - 1);
        self.emacs.wait_until(wanted).await
    }

    /// The first call about which the user is asked, once he is.
    pub async fn asked(&self) -> CallKey {
        self.emacs
            .wait_for(|event| match event {
                Event::ApprovalRequested { call, .. } => Some(*call),
                _ => None,
            })
            .await
    }

    pub fn shown(&self) -> String {
        self.emacs
            .collect(|event| match event {
                Event::Text { text, .. } => Some(text.clone()),
                _ => None,
            })
            .concat()
    }

    pub fn results(&self) -> Vec<(CallOutcome, String)> {
        self.emacs.collect(|event| match event {
            Event::CallFinished { result, .. } => Some((result.outcome, result.content.clone())),
            _ => None,
        })
    }

    /// Role and content of each message of the last request, without the system prompt.
    pub fn last_messages(&self) -> Vec<(String, String)> {
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

pub fn message(role: &str, content: &str) -> (String, String) {
    (role.to_owned(), content.to_owned())
}
