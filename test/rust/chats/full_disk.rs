// SPDX-License-Identifier: GPL-3.0-or-later
//! A disk that is full in the middle of a line. A limit on the size of files stands for it, in a
//! process of its own.

use std::process::Command;

use agent_q_core::chats::folder::{ChatFolder, ChatId};
use agent_q_core::chats::reader::outline;
use agent_q_core::chats::writer::ChatWriter;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::writing::{ended, listening, turn};

/// The variable that says that the process has the limit.
const INSIDE: &str = "AGENT_Q_TEST_FULL_DISK";

#[test]
fn a_full_disk_loses_nothing() {
    if std::env::var_os(INSIDE).is_some() {
        with_a_full_disk();
        return;
    }
    let script =
        "trap '' XFSZ; ulimit -S -f 1; exec \"$0\" --exact full_disk::a_full_disk_loses_nothing";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

fn with_a_full_disk() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    let id = ChatId::parse("full").unwrap();
    let (said, tell) = listening();
    let writer = ChatWriter::new(folder.clone(), id.clone(), tell);
    // More than the 512 or 1024 bytes that fit; the limit is met in the middle of a line.
    for number in 0..20 {
        writer.push(turn(number, &"x".repeat(100)));
        writer.push(ended());
        writer.flush();
    }
    assert!(writer.trouble().is_some());
    assert_eq!(said.lock().unwrap().len(), 1);

    let limit = getrlimit(Resource::Fsize);
    setrlimit(
        Resource::Fsize,
        rustix::process::Rlimit {
            current: limit.maximum,
            ..limit
        },
    )
    .unwrap();
    writer.flush();
    let file = folder.open(&id).unwrap();
    let outline = outline(&file, &folder.file(&id)).unwrap();
    assert_eq!(outline.turns.len(), 20);
    assert_eq!(outline.remarks.broken, 0);
    assert_eq!(said.lock().unwrap().len(), 2);
}
