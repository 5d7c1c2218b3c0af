// SPDX-License-Identifier: GPL-3.0-or-later
//! Samples of stored chats, a line each: a name and seconds, or a ratio; searches beside ripgrep where it
//! is installed, or else grep. `cargo run --release --example bench_chats`, or `make bench`. A folder that is
//! named as its argument keeps the chat of 10 MB, for Emacs to resume.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for a terminal"
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use agent_q_core::chats::folder::{ChatFolder, ChatId};
use agent_q_core::chats::reader::{outline, records};
use agent_q_core::chats::record::{Record, Stamped};
use agent_q_core::chats::search::search;
use agent_q_core::chats::summary::indexed;
use agent_q_core::chats::writer::ChatWriter;
use serde_json::json;

const CHATS: usize = 1000;
const ROUNDS: usize = 5;

fn main() {
    let home = tempfile::TempDir::new().expect("a folder for the chats");
    let large = std::env::args_os()
        .nth(1)
        .map_or_else(|| home.path().join("large"), PathBuf::from);
    resuming(&large);
    searching(&home.path().join("many"));
}

/// A turn of about 10 KB, half of it what the model reads and not shown.
fn turn(chat: usize, number: usize) -> Vec<u8> {
    let prose =
        format!("Look at (defun function-{chat}-{number} (first) (list first)) once more. ");
    let text = prose.repeat(20);
    let records = [
        Record::Turn {
            turn: number as u64,
            text: format!("What does function-{number} do?"),
            along: Vec::new(),
        },
        Record::Entry {
            entry: json!({"id": number, "turn": number, "what": {"message": text.repeat(3)}})
                .into(),
        },
        Record::Text {
            text: text.repeat(3),
        },
        Record::Ended {
            outcome: "finished".to_owned(),
            message: None,
        },
    ];
    let lines = records
        .into_iter()
        .map(|record| Stamped::now(record).line());
    lines.flatten().collect()
}

fn write_chat(folder: &ChatFolder, number: usize, bytes: usize) -> ChatId {
    let id = ChatId::parse(&format!("chat-{number}")).expect("an id");
    let mut file = folder.create(&id).expect("the chat's file");
    let first = Record::Chat {
        version: 1,
        id: id.to_string(),
        from: None,
    };
    let mut text = Stamped::now(first).line();
    let mut turns = 0;
    while text.len() < bytes {
        text.extend(turn(number, turns));
        turns += 1;
    }
    if number.is_multiple_of(50) {
        let needle = Record::Text {
            text: format!("the needle of {number}"),
        };
        text.extend(Stamped::now(needle).line());
    }
    file.write_all(&text).expect("the chat");
    id
}

fn resuming(home: &Path) {
    let folder = ChatFolder::new(home);
    let id = write_chat(&folder, 1, 10 * 1024 * 1024);
    let path = folder.file(&id);
    for _ in 0..ROUNDS {
        sample("chats.resume.core", || {
            let file = folder.open(&id).expect("the chat");
            let outline = outline(&file, &path).expect("its outline");
            let last = outline.turns.last().expect("a turn");
            assert!(
                !records(&file, &path, &last.bytes)
                    .expect("its records")
                    .is_empty()
            );
        });
        sample("chats.resume.cat", || {
            run(Command::new("cat").arg(&path));
        });
    }
    let writer = ChatWriter::resume(folder, id, Box::new(drop)).expect("the chat is free");
    for number in 0..20 {
        sample("chats.push", || {
            writer.push(Record::Text {
                text: "x".repeat(10_000),
            });
            let _ = number;
        });
    }
    writer.close();
}

fn searching(home: &Path) {
    let folder = ChatFolder::new(home);
    let ids: Vec<ChatId> = (0..CHATS)
        .map(|number| write_chat(&folder, number, 1024 * 1024))
        .collect();
    let find = |query: &str, expected: usize| {
        let found = search(&folder, query, 50).expect("an answer");
        assert_eq!(found.chats.len(), expected, "{query}");
    };
    for _ in 0..ROUNDS {
        sample("chats.search.plain", || find("no-such-thing-anywhere", 0));
        sample("chats.search.rg", || rg("no-such-thing-anywhere", home));
        let _ = fs::remove_dir_all(home.join("index"));
    }
    for id in &ids {
        indexed(&folder, id).expect("its index");
    }
    for _ in 0..ROUNDS {
        sample("chats.search.none", || find("no-such-thing-anywhere", 0));
        sample("chats.search.few", || find("needle", 20));
        sample("chats.search.all", || find("function-1", 50));
        sample("chats.list", || find("", 50));
    }
}

fn rg(pattern: &str, folder: &Path) {
    let mut command = Command::new("rg");
    command.args(["-i", "-F", "--no-messages", "-g", "*.jsonl", pattern]);
    if !run(command.arg(folder)) {
        run(Command::new("grep")
            .args(["-r", "-i", "-F", pattern])
            .arg(folder));
    }
}

/// Whether COMMAND could be run.
fn run(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

fn sample(name: &str, work: impl FnOnce()) {
    let began = Instant::now();
    work();
    println!("{name} {:.6}", began.elapsed().as_secs_f64());
}
