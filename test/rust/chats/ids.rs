// SPDX-License-Identifier: GPL-3.0-or-later
//! Ids are names of files and never paths.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use agent_q_core::chats::folder::ChatId;

#[test]
fn an_id_has_the_form_that_users_of_agent_q_know() {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_763_933_400);
    let id = ChatId::new(then).to_string();
    let form = regex::Regex::new(r"^session-20251123-213000-[0-9A-F]{4}$").unwrap();
    assert!(form.is_match(&id), "{id}");
    assert_eq!(ChatId::parse(&id).unwrap().as_str(), id);
}

#[test]
fn a_thousand_ids_of_a_second_are_distinct() {
    let now = SystemTime::now();
    let ids: HashSet<ChatId> = (0..1000).map(|_| ChatId::new(now)).collect();
    assert_eq!(ids.len(), 1000);
}

#[test]
fn what_could_be_a_path_is_no_id() {
    let long = "a".repeat(65);
    for text in [
        "",
        "..",
        "../x",
        "a/b",
        "/etc/passwd",
        "a.b",
        "a\0b",
        "a\nb",
        "-x",
        "\u{e4}",
        " a",
        &long,
    ] {
        let problem = ChatId::parse(text).unwrap_err().to_string();
        assert!(problem.contains("can't be the id of a chat"), "{problem}");
    }
    assert_eq!(ChatId::of_file("..jsonl"), None);
    assert_eq!(ChatId::of_file("a.jsonl~"), None);
    assert_eq!(ChatId::of_file("a.b.jsonl"), None);
    assert_eq!(ChatId::of_file("a.jsonl"), ChatId::parse("a").ok());
}
