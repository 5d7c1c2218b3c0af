// SPDX-License-Identifier: GPL-3.0-or-later
//! agent-q-mcp: what hosts of MCP servers start. It passes messages between its standard streams and the
//! socket of the user's Emacs, says at once when there is none, and finds it again when it comes back.
//! It has nothing of the core in it, so that it is small and starts quickly.

mod emacs;
mod line;
mod offer;
#[path = "../src/mcp/readable.rs"]
mod readable;
mod relay;

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use emacs::Search;

const USAGE: &str = "Usage: agent-q-mcp [--socket FILE]

Passes MCP messages between standard input and output and the Emacs that runs
agent-q-mcp-mode. Without --socket it finds the user's Emacs; where several
run, the one that works in this directory. M-x agent-q-mcp-install registers it
with the programs that start it.
";

fn main() -> ExitCode {
    let mut search = Search::from_environment();
    let mut arguments = env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--socket") => match arguments.next() {
                Some(socket) => search.socket = Some(PathBuf::from(socket)),
                None => return usage(&mut io::stderr(), ExitCode::FAILURE),
            },
            Some("--version") => {
                let version = concat!("agent-q-mcp ", env!("CARGO_PKG_VERSION"), "\n");
                return said(&mut io::stdout(), version, ExitCode::SUCCESS);
            }
            Some("--help") => return usage(&mut io::stdout(), ExitCode::SUCCESS),
            _ => return usage(&mut io::stderr(), ExitCode::FAILURE),
        }
    }
    relay::run(search);
    ExitCode::SUCCESS
}

fn usage(stream: &mut dyn Write, code: ExitCode) -> ExitCode {
    said(stream, USAGE, code)
}

fn said(stream: &mut dyn Write, text: &str, code: ExitCode) -> ExitCode {
    match stream.write_all(text.as_bytes()) {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}
