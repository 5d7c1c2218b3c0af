// SPDX-License-Identifier: GPL-3.0-or-later
//! Samples of what the tool system costs by itself, a line each: a name and seconds. A trivial call
//! through the whole pipeline, beside the same work handed to a worker thread and nothing else; one of an MCP
//! server's; the schemas of 200 tools; gram. `cargo run --release --example bench_tools`, or `make bench`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for a terminal"
)]

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agent_q_core::call::Executor;
use agent_q_core::call::approvals::Approvals;
use agent_q_core::call::batch::{Approval, BatchContext, EvalPolicy, Watcher};
use agent_q_core::gram::{parse, parse_type_signature};
use agent_q_core::protocol::Emacs;
use agent_q_core::protocol::{CallArguments, EmacsReply, EmacsRequest, Event, SessionId, ToolCall};
use agent_q_core::rules::{RuleBook, TurnPlace};
use agent_q_core::servers::ToolServers;
use agent_q_core::tool::registry::Registry;
use agent_q_core::tool::{Parameter, ParameterType, Runner, Tool};
use agent_q_core::trust::SafetyLevel;
use futures_util::future::BoxFuture;
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

const RUNS: usize = 2000;

/// A program around the core that looks at nothing.
struct Silence;

impl Emacs for Silence {
    fn emit(&self, event: Event) {
        black_box(event);
    }

    fn request(&self, _: SessionId, _: EmacsRequest) -> BoxFuture<'static, EmacsReply> {
        Box::pin(std::future::pending())
    }
}

/// A tool that needs no other thread, as those that ask Emacs on their way.
fn at_once() -> Runner {
    Runner::Task(|arguments, _| {
        Box::pin(async move { Ok(arguments.required_text("text").to_owned()) })
    })
}

fn tool(name: &str, runner: Runner) -> Tool {
    let parameters = vec![
        Parameter::required("text", ParameterType::String, "Any text"),
        Parameter::optional("limit", ParameterType::Integer, "How many"),
    ];
    Tool::new(name, "A tool.", SafetyLevel::Safe, &[], parameters, runner)
}

fn call(name: &str) -> [ToolCall; 1] {
    let arguments = serde_json::Map::from_iter([("text".to_owned(), json!("x"))]);
    [ToolCall {
        id: "1".to_owned(),
        name: name.to_owned(),
        raw_arguments: "{\"text\":\"x\"}".to_owned(),
        arguments: CallArguments::Object(arguments),
    }]
}

fn sample(name: &str, time: Duration) {
    println!("{name} {:.9}", time.as_secs_f64());
}

/// What runs calls, and the batch in which all tools of REGISTRY are.
fn pipeline(registry: Registry) -> (Executor, BatchContext) {
    let rules = std::env::temp_dir().join(format!("agent-q-bench-{}.rules", std::process::id()));
    let executor = Executor {
        approvals: Arc::new(Approvals::default()),
        emacs: Arc::new(Silence),
        audit: Arc::default(),
        metrics: Arc::default(),
        rules: Arc::new(Mutex::new(RuleBook::open(&rules))),
    };
    let batch = BatchContext {
        watcher: Watcher::Chat,
        offer: Arc::default(),
        past: Arc::default(),
        begun: None,
        plan: agent_q_core::call::batch::PlanMode::Off,
        session: SessionId(1),
        tools: Arc::new(registry),
        approval: Approval::None,
        eval_deadline: Duration::from_secs(30),
        workspace: Arc::default(),
        eval_policy: EvalPolicy::default(),
        after_edit: agent_q_core::tool::work::AfterEdit::default(),
        cancel: CancellationToken::new(),
        why_cancelled: Arc::default(),
        researcher: None,
        place: TurnPlace::new(1, 1, None, None),
    };
    (executor, batch)
}

async fn calls() {
    let registry = Registry::default();
    registry.register(tool("at_once", at_once()));
    let (executor, batch) = pipeline(registry);
    let at_once = call("at_once");
    for _ in 0..RUNS {
        let start = Instant::now();
        black_box(executor.run(&at_once, &batch).await);
        sample("tools.pipeline", start.elapsed());
        let start = Instant::now();
        let work = tokio::task::spawn_blocking(|| black_box("x".to_owned()));
        black_box(work.await.is_ok());
        sample("tools.worker", start.elapsed());
    }
}

/// Calls of a tool of an MCP server, beside those by a client of the same crate and nothing else.
async fn server_calls() {
    let program = std::env::current_exe().expect("a name of this program");
    let program = program.with_file_name("tool-server");
    let all = Arc::new(Registry::default());
    let servers = ToolServers::new(Arc::clone(&all), Arc::new(Silence));
    let settings = json!([{"name": "bench", "command": [program], "directory": "/"}]);
    servers.configure(&settings.to_string()).expect("a server");
    all.bring("bench").await.expect("its tools");
    all.set_levels([("bench_echo".to_owned(), SafetyLevel::Safe)].into());
    let (executor, batch) = pipeline(Registry::of(all.all()));

    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the same server");
    let pipes = (child.stdout.take(), child.stdin.take());
    let (Some(output), Some(input)) = pipes else {
        panic!("it has no pipes");
    };
    let output = pipe::Receiver::from_owned_fd(output.into()).expect("its output");
    let input = pipe::Sender::from_owned_fd(input.into()).expect("its input");
    let bare = ().serve((output, input)).await.expect("its greeting");

    let ours = call("bench_echo");
    let arguments = serde_json::Map::from_iter([("text".to_owned(), json!("x"))]);
    for round in 0..RUNS + 100 {
        let start = Instant::now();
        let results = executor.run(&ours, &batch).await;
        let time = start.elapsed();
        assert!(results[0].content.contains('x'), "{:?}", results[0]);
        let start = Instant::now();
        let asked = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
        black_box(bare.call_tool(asked).await.expect("an answer"));
        if round >= 100 {
            sample("servers.call", time);
            sample("servers.bare", start.elapsed());
        }
    }
    drop(bare);
    let _ = child.kill();
    let _ = child.wait();
    servers.leave();
}

fn schemas() {
    let registry = Registry::default();
    for index in 0..200 {
        registry.register(tool(&format!("tool_{index}"), at_once()));
    }
    for _ in 0..50 {
        let start = Instant::now();
        let schemas: Vec<Value> = registry.all().iter().map(|tool| tool.schema()).collect();
        sample("tools.schemas", start.elapsed());
        black_box(schemas);
    }
}

fn gram() {
    let signature = "(::Text {paramName:\"name\"})==>(::Int {paramName:\"age\"})==>(::String)";
    let bombs = ["[", "[a|", "{k:", "{k:["].map(|open| open.repeat((1 << 20) / open.len()));
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..10_000 {
            black_box(parse_type_signature(black_box(signature)).is_ok());
        }
        sample("gram.signatures", start.elapsed());
        for bomb in &bombs {
            let start = Instant::now();
            black_box(parse(bomb).is_err());
            sample("gram.nested", start.elapsed());
        }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads to measure on");
    // As sessions do, on a thread of the runtime and not beside it.
    runtime
        .block_on(runtime.spawn(calls()))
        .expect("the calls to come to their end");
    runtime
        .block_on(runtime.spawn(server_calls()))
        .expect("the calls of a server to come to their end");
    schemas();
    gram();
}
