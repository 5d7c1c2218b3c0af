// SPDX-License-Identifier: GPL-3.0-or-later
//! Finding chats with an index, without one, and with one that is wrong; forks and Markdown of them.

use std::fs;
use std::path::Path;

use agent_q_core::chats::export::{fork, markdown};
use agent_q_core::chats::folder::{ChatFolder, ChatId};
use agent_q_core::chats::reader::outline;
use agent_q_core::chats::record::Record;
use agent_q_core::chats::search::search;
use agent_q_core::chats::summary::indexed;
use agent_q_core::chats::writer::ChatWriter;
use agent_q_core::protocol::CallOutcome;
use serde_json::json;

use crate::writing::{ended, listening, turn};

fn id(number: usize) -> ChatId {
    ChatId::parse(&format!("chat-{number}")).unwrap()
}

fn write(folder: &ChatFolder, number: usize, records: impl IntoIterator<Item = Record>) {
    let writer = ChatWriter::new(folder.clone(), id(number), listening().1);
    for record in records {
        writer.push(record);
    }
    writer.push(ended());
    writer.close();
}

fn text(text: &str) -> Record {
    Record::Text {
        text: text.to_owned(),
    }
}

fn found(folder: &ChatFolder, query: &str) -> Vec<String> {
    let found = search(folder, query, 50).unwrap();
    let mut ids: Vec<String> = found.chats.iter().map(|it| it.id.to_string()).collect();
    ids.sort();
    ids
}

fn three() -> (tempfile::TempDir, ChatFolder) {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    write(
        &folder,
        1,
        [turn(1, "a plum (\"sweet\")"), text("\u{c4}pfel\nand nuts")],
    );
    write(
        &folder,
        2,
        [
            Record::Name {
                name: "Orchard".to_owned(),
            },
            turn(1, "pears"),
            Record::Entry {
                entry: json!({"hidden": "walnut"}).into(),
            },
        ],
    );
    write(&folder, 3, [turn(1, "plums and pears")]);
    (home, folder)
}

const QUERIES: [(&str, &[&str]); 10] = [
    ("PLUM", &["chat-1", "chat-3"]),
    ("pears plum", &["chat-3"]),
    ("\u{e4}pfel", &["chat-1"]),
    ("(\"sweet\")", &["chat-1"]),
    ("orchard", &["chat-2"]),
    ("orchard pears", &["chat-2"]),
    // The conversation as the model reads it isn't shown, nor are the names of fields.
    ("walnut", &[]),
    ("kind", &[]),
    ("p", &["chat-1", "chat-2", "chat-3"]),
    ("", &["chat-1", "chat-2", "chat-3"]),
];

#[test]
fn the_same_is_found_with_the_index_and_without() {
    let (_home, folder) = three();
    for _ in 0..2 {
        for (query, ids) in QUERIES {
            assert_eq!(found(&folder, query), ids, "{query:?}");
        }
        for number in 1..=3 {
            indexed(&folder, &id(number)).unwrap();
        }
    }
    // Made of something else, or by something else.
    let index = folder.path().join("index");
    fs::write(index.join("chat-1.idx"), "nonsense").unwrap();
    fs::copy(index.join("chat-2.idx"), index.join("chat-3.idx")).unwrap();
    fs::write(index.join("chat-9.idx"), "of a chat that is gone").unwrap();
    for (query, ids) in QUERIES {
        assert_eq!(found(&folder, query), ids, "{query:?}");
    }
    assert!(!index.join("chat-9.idx").exists());
}

#[test]
fn what_is_new_in_a_chat_is_found() {
    let (_home, folder) = three();
    indexed(&folder, &id(2)).unwrap();
    let writer = ChatWriter::resume(folder.clone(), id(2), listening().1).unwrap();
    writer.push(turn(2, "quinces"));
    writer.flush();
    assert_eq!(found(&folder, "quince"), ["chat-2"]);
    let chat = indexed(&folder, &id(2)).unwrap();
    assert_eq!(chat.summary.turns, 2);
    assert_eq!(chat.summary.words, "pears");
    // The whole file, read again, says the same.
    fs::remove_dir_all(folder.path().join("index")).unwrap();
    assert_eq!(indexed(&folder, &id(2)).unwrap(), chat);
}

#[test]
fn what_is_no_chat_is_counted_and_hides_none() {
    let (_home, folder) = three();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    put("broken.jsonl", b"\xff\xfe plum");
    put("notes.jsonl", b"a plum\n{\"plum\": 1}\n\n");
    fs::create_dir(folder.path().join("folder.jsonl")).unwrap();
    // Nothing was written of this one yet, and of that one only that it is a chat.
    put("empty.jsonl", b"");
    put(
        "begun.jsonl",
        b"{\"kind\":\"chat\",\"version\":1,\"id\":\"begun\"}\n",
    );
    put("new.jsonl", b"{\"kind\":\"hologram\",\"rays\":1}\n");
    let unreadable = |query| search(&folder, query, 50).unwrap().unreadable;
    // With words, twice: without an index, and with one.
    for (query, ids) in [("plum", 2), ("", 3), ("plum", 2), ("", 3), ("nothing", 0)] {
        assert_eq!(found(&folder, query).len(), ids, "{query:?}");
        assert_eq!(unreadable(query), 3, "{query:?}");
    }
    // A newer version may write what it likes, as long as it says what it is.
    put("broken.jsonl", b"{\"kind\":\"hologram\",\"rays\":1}\n");
    assert_eq!(unreadable(""), 2);
}

#[test]
fn a_fork_has_the_turns_before_and_changes_of_files_stay_behind() {
    let (_home, folder) = three();
    let journal = Record::Journal {
        step: json!({"turn": 1}),
        signature: None,
    };
    write(
        &folder,
        4,
        [
            turn(1, "one"),
            journal,
            text("A"),
            turn(5, "two"),
            text("B"),
        ],
    );
    let path = folder.file(&id(4));
    let mut all = fs::read(&path).unwrap();
    let unknown = b"{\"kind\":\"hologram\",\"rays\":1}\n";
    let first = all.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    all.splice(first..first, unknown.iter().copied());
    fs::write(&path, &all).unwrap();
    fork(&folder, &id(4), Some(5), &id(5)).unwrap();
    fork(&folder, &id(4), None, &id(6)).unwrap();
    let words = |number| {
        let file = folder.open(&id(number)).unwrap();
        let outline = outline(&file, &folder.file(&id(number))).unwrap();
        assert_eq!(outline.journal, []);
        assert_eq!(outline.remarks.unknown, 1, "what is not known is kept");
        let words = outline.turns.iter().map(|turn| turn.words.clone());
        words.collect::<Vec<_>>()
    };
    assert_eq!(words(5), ["one"]);
    assert_eq!(words(6), ["one", "two"]);
    assert_eq!(fs::read(&path).unwrap(), all);
}

#[test]
fn a_rewound_turn_is_not_exported_until_that_is_undone() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    let rewound = Record::Rewound { turn: 2, rewind: 3 };
    write(
        &folder,
        1,
        [
            turn(1, "one"),
            text("```\na\n```"),
            turn(2, "two"),
            rewound,
            turn(4, "three"),
        ],
    );
    let exported = || {
        let mut output = Vec::new();
        markdown(&folder, &id(1), &mut output, Path::new("out.md")).unwrap();
        String::from_utf8(output).unwrap()
    };
    let markdown = exported();
    assert!(markdown.starts_with("# one\n"));
    assert!(
        markdown.contains("\n> three\n") && !markdown.contains("> two"),
        "{markdown}"
    );
    let writer = ChatWriter::resume(folder.clone(), id(1), listening().1).unwrap();
    writer.push(Record::Unwound { rewind: 3 });
    writer.close();
    assert!(exported().contains("\n> two\n"));
}

#[test]
fn each_exported_call_has_its_result_and_what_it_made() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    let call = |call, tool: &str, after| Record::Call {
        call,
        tool: tool.to_owned(),
        arguments: "{}".to_owned(),
        after,
    };
    let result = |call, content: &str| Record::Result {
        call,
        outcome: CallOutcome::Succeeded,
        content: content.to_owned(),
        milliseconds: 1.0,
    };
    write(
        &folder,
        1,
        [
            turn(1, "one"),
            call(1, "edit_file", None),
            call(2, "run_tests", None),
            result(1, "edited"),
            call(3, "compile_file", Some(1)),
            result(3, "compiled"),
            result(2, "passed"),
            text("Done."),
        ],
    );
    let mut output = Vec::new();
    markdown(&folder, &id(1), &mut output, Path::new("out.md")).unwrap();
    let exported = String::from_utf8(output).unwrap();
    let order = [
        "edit_file",
        "edited",
        "compile_file",
        "compiled",
        "run_tests",
        "passed",
        "Done.",
    ];
    let places: Vec<usize> = order.iter().map(|it| exported.find(it).unwrap()).collect();
    assert!(places.is_sorted(), "{exported}");
}

#[test]
fn an_exported_call_shows_code_as_code_and_short_arguments_in_its_line() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    let call = |call, arguments: &str| Record::Call {
        call,
        tool: "eval_form".to_owned(),
        arguments: arguments.to_owned(),
        after: None,
    };
    write(
        &folder,
        1,
        [
            turn(1, "one"),
            call(
                1,
                r#"{"form": "(print \"a ```\")\n(f)", "package": "BANK", "limit": 3}"#,
            ),
            call(2, r#"{"reason": "two\nlines"}"#),
            call(3, "{\"form\": \"cut"),
            call(4, "{}"),
        ],
    );
    let mut output = Vec::new();
    markdown(&folder, &id(1), &mut output, Path::new("out.md")).unwrap();
    let exported = String::from_utf8(output).unwrap();
    for shown in [
        "\n**eval_form** package: `BANK` limit: `3`\n\n````lisp\n(print \"a ```\")\n(f)\n````\n",
        "\n**eval_form**\n\nreason:\n\n```\ntwo\nlines\n```\n",
        "\n**eval_form**\n\n```\n{\"form\": \"cut\n```\n",
        "\n**eval_form**\n",
    ] {
        assert!(exported.contains(shown), "{exported}");
    }
}
