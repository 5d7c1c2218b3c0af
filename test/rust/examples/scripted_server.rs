// SPDX-License-Identifier: GPL-3.0-or-later
//! The scripted model server as a program:
//! `scripted-server SCRIPT.json|FOLDER [--requests FILE] [--port N]`, where FOLDER holds what
//! `agent-q-provider-recordings` recorded. It says where it listens and serves
//! until its standard input closes or it is killed.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for a terminal"
)]

use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

#[path = "../support/scripted_server.rs"]
mod scripted_server;

use scripted_server::{Script, ScriptedServer};

const USAGE: &str = "usage: scripted-server SCRIPT.json|FOLDER [--requests FILE] [--port N]";

fn main() -> ExitCode {
    match start() {
        Ok(server) => {
            println!("listening on {}", server.address());
            let mut ignored = Vec::new();
            // Whatever ends the input, reading is over.
            let _ = std::io::stdin().read_to_end(&mut ignored);
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("scripted-server: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The script in a file, or in a folder of recordings.
fn read(path: &str) -> Result<Script, String> {
    if Path::new(path).is_dir() {
        return Script::of_folder(Path::new(path));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    Script::parse(&text)
}

fn start() -> Result<ScriptedServer, String> {
    let mut words = std::env::args().skip(1);
    let (mut script, mut requests, mut port) = (None, None, 0);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(USAGE);
        match word.as_str() {
            "--requests" => requests = Some(value()?),
            "--port" => port = value()?.parse().map_err(|_| USAGE)?,
            _ if script.is_none() => script = Some(word),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let path = script.ok_or(USAGE)?;
    let script = read(&path).map_err(|error| format!("{path}: {error}"))?;
    let log = requests
        .map(|path| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(&path)
                .map_err(|error| format!("{path}: {error}"))
        })
        .transpose()?;
    ScriptedServer::listen(script, port, log).map_err(|error| format!("port {port}: {error}"))
}
