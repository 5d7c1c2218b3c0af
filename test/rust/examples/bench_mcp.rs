// SPDX-License-Identifier: GPL-3.0-or-later
//! Samples of another agent's calls, a line each: a name and seconds, or bytes. It starts bridges, as a
//! host does, and measures what a host sees: `bench_mcp PREFIX BRIDGE start|calls|crowd`, in which PREFIX
//! begins the names. `make bench` runs it beside the Emacs that serves.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for a terminal"
)]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const STARTS: usize = 20;
const WARM_UP: usize = 30;
const ROUNDS: usize = 300;
const CLIENTS: usize = 10;
const CALLS: usize = 100;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [prefix, bridge, what] = &*arguments else {
        eprintln!("Usage: bench_mcp PREFIX BRIDGE start|calls|crowd");
        std::process::exit(2);
    };
    match what.as_str() {
        "start" => start(prefix, bridge),
        "calls" => calls(prefix, bridge),
        _ => crowd(bridge),
    }
}

fn sample(prefix: &str, name: &str, value: f64) {
    println!("{prefix}.{name} {value:.9}");
}

/// A host's end of a bridge.
struct Host {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Host {
    fn new(bridge: &str) -> Self {
        let mut child = Command::new(bridge)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the bridge starts");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self {
            child,
            input,
            output,
            last: 0,
        }
    }

    /// One that has introduced itself as NAME.
    fn introduced(bridge: &str, name: &str) -> Self {
        let mut host = Self::new(bridge);
        let who = json!({"name": name, "version": "1"});
        host.ask(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who}),
        );
        host
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).expect("it reads");
        id
    }

    /// The next answer, and to which request.
    fn answer(&mut self) -> (u64, Value) {
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("an answer");
            assert!(read > 0, "the bridge ended");
            let mut message: Value = serde_json::from_str(&line).expect("JSON");
            if let Some(id) = message["id"]
                .as_u64()
                .filter(|_| message.get("method").is_none())
            {
                assert!(message.get("error").is_none(), "{message}");
                return (id, message["result"].take());
            }
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        let (answered, result) = self.answer();
        assert_eq!(answered, id);
        assert_ne!(result["isError"], true, "{result}");
        result
    }

    fn timed(&mut self, method: &str, params: &Value) -> f64 {
        let began = Instant::now();
        self.ask(method, params);
        began.elapsed().as_secs_f64()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// From the start of a bridge to its first answer, and its memory then.
fn start(prefix: &str, bridge: &str) {
    for _ in 0..STARTS {
        let began = Instant::now();
        let mut host = Host::new(bridge);
        host.ask("ping", &json!({}));
        sample(prefix, "mcp.bridge", began.elapsed().as_secs_f64());
        let status = fs::read_to_string(format!("/proc/{}/status", host.child.id()));
        let most = status.ok().and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.trim().strip_suffix(" kB")?.parse::<f64>().ok()
        });
        if let Some(most) = most {
            sample(prefix, "mcp.memory", most * 1024.0);
        }
    }
}

/// An echo, a trivial tool without an image, and a description, in turns.
fn calls(prefix: &str, bridge: &str) {
    let mut host = Host::introduced(bridge, "bench");
    let echo = json!({});
    let trivial = json!({"name": "more_tools", "arguments": {"group": "introspection"}});
    let describe = json!({"name": "describe_symbol", "arguments": {"symbol": "mapcar"}});
    for round in 0..WARM_UP + ROUNDS {
        let times = [
            ("mcp.ping", host.timed("ping", &echo)),
            ("mcp.rust", host.timed("tools/call", &trivial)),
            ("describe.mcp", host.timed("tools/call", &describe)),
        ];
        if round >= WARM_UP {
            for (name, seconds) in times {
                sample(prefix, name, seconds);
            }
        }
        // Emacs writes its log meanwhile, as between the calls of a model.
        thread::sleep(Duration::from_millis(5));
    }
}

/// Clients that call side by side, each with all its calls at once. Every result has to be that of its
/// call.
fn crowd(bridge: &str) {
    let hosts: Vec<Host> = (0..CLIENTS)
        .map(|client| Host::introduced(bridge, &format!("crowd{client}")))
        .collect();
    let threads = hosts.into_iter().enumerate().map(|(client, mut host)| {
        thread::spawn(move || {
            let mut expected = std::collections::HashMap::new();
            for call in 0..CALLS {
                let text = format!("\"{client}-{call}\"");
                let params = json!({"name": "eval_form", "arguments": {"form": text}});
                expected.insert(host.send("tools/call", &params), text);
            }
            while !expected.is_empty() {
                let (id, result) = host.answer();
                let text = expected.remove(&id).expect("one answer for each call");
                let got = result["content"][0]["text"].as_str().unwrap_or_default();
                assert!(
                    got.contains(&format!("=> {text}")),
                    "{text} is not in {got}"
                );
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("each result is in its place");
    }
}
