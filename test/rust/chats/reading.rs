// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading a file that was cut, edited, written by a newer version or by nobody.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use agent_q_core::chats::ChatError;
use agent_q_core::chats::reader::{End, LatestRewind, Outline, kept_hash, outline, records};
use agent_q_core::chats::record::{ChatLine, ChatPlace, Record, Stamped, parse};
use agent_q_core::protocol::CallOutcome;
use proptest::prelude::*;
use serde_json::json;

use crate::writing::{ended, turn};

fn stamped(record: Record) -> Stamped {
    Stamped {
        record,
        at: 1_763_933_400_000,
    }
}

/// A chat with all kinds of events.
fn chat() -> Vec<Stamped> {
    let first = Record::Chat {
        version: 1,
        id: "a".to_owned(),
        from: None,
    };
    let mut all = vec![
        first,
        Record::Opened {
            emacs: "12.3".to_owned(),
            session: 4,
        },
        Record::Place(ChatPlace {
            project: Some("shop".to_owned()),
            ..ChatPlace::default()
        }),
        Record::Name {
            name: "A \"name\"\nwith \u{e9}".to_owned(),
        },
        Record::Kept {
            item: json!({"mention": "@error"}),
        },
    ];
    for number in [7, 9, 12] {
        all.extend([
            Record::Entry {
                entry: json!({"user": format!("question {number}")}).into(),
            },
            turn(number, &format!("question {number}\n(defun \u{1f980} ())")),
            Record::Reasoning {
                text: "hm".to_owned(),
            },
            Record::Call {
                call: number,
                tool: "eval_form".to_owned(),
                arguments: "{\"form\": \"(+ 1 2)\"}".to_owned(),
                after: None,
            },
            Record::Asked {
                call: number,
                tool: "eval_form".to_owned(),
                level: "dangerous".to_owned(),
                reason: "it evaluates".to_owned(),
            },
            Record::Started {
                call: number,
                tool: "eval_form".to_owned(),
                arguments: json!({"form": "(+ 1 2)"}),
            },
            Record::Result {
                call: number,
                outcome: CallOutcome::Succeeded,
                content: "3".to_owned(),
                milliseconds: 1.5,
            },
            Record::Text {
                text: "It is *3*.".to_owned(),
            },
            Record::Usage {
                input: 100,
                output: 50,
                cache_read: 10,
                cache_write: 0,
                cost: Some(0.25),
            },
            ended(),
        ]);
    }
    all.into_iter().map(stamped).collect()
}

fn bytes_of(chat: &[Stamped]) -> Vec<u8> {
    chat.iter().flat_map(Stamped::line).collect()
}

fn read(bytes: &[u8]) -> Result<(File, Outline), ChatError> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let file = rewound(file);
    let outline = outline(&file, Path::new("a.jsonl"))?;
    Ok((file, outline))
}

fn rewound(mut file: File) -> File {
    use std::io::Seek;
    file.rewind().unwrap();
    file
}

/// All that can be drawn of the turns of a chat.
fn drawn(bytes: &[u8]) -> Vec<Stamped> {
    let Ok((file, outline)) = read(bytes) else {
        return Vec::new();
    };
    let turns = outline.turns.iter();
    turns
        .flat_map(|turn| records(&file, Path::new("a.jsonl"), &turn.bytes).unwrap())
        .collect()
}

#[test]
fn a_chat_comes_back_as_it_was() {
    let chat = chat();
    let (file, outline) = read(&bytes_of(&chat)).unwrap();
    assert_eq!(outline.name.as_deref(), Some("A \"name\"\nwith \u{e9}"));
    assert_eq!(outline.place.project.as_deref(), Some("shop"));
    assert_eq!(outline.usage.input, 300);
    assert_eq!(outline.usage.output, 150);
    assert_eq!(outline.usage.known_cost(), Some(0.75));
    assert_eq!(outline.usage.unpriced, 0);
    assert_eq!(outline.kept, [json!({"mention": "@error"})]);
    assert_eq!(outline.entries.len(), 3);
    let numbers: Vec<u64> = outline.turns.iter().map(|turn| turn.turn).collect();
    assert_eq!(numbers, [7, 9, 12]);
    let second = records(&file, Path::new("a.jsonl"), &outline.turns[1].bytes).unwrap();
    // With the entry that belongs to the next turn.
    assert_eq!(second, chat[16..26]);
    assert_eq!(outline.remarks.text(), None);
    assert_eq!(outline.remarks.end, End::Whole);
}

#[test]
fn cut_at_every_byte_a_chat_loses_its_last_event_alone() {
    let chat = chat();
    let lines: Vec<Vec<u8>> = chat.iter().map(Stamped::line).collect();
    let bytes = bytes_of(&chat);
    let first_turn = 6;
    for cut in lines[0].len()..=bytes.len() {
        let mut length = 0;
        // A line without its end is whole all the same.
        let whole = lines
            .iter()
            .take_while(|line| {
                length += line.len();
                length - 1 <= cut
            })
            .count();
        let expected = chat.get(first_turn..whole).unwrap_or_default();
        assert_eq!(drawn(&bytes[..cut]), expected, "cut at {cut}");
    }
    for cut in 1..lines[0].len() - 1 {
        // What is left may still say of what kind it was.
        if let Ok((_, outline)) = read(&bytes[..cut]) {
            assert_eq!(outline.turns, []);
        }
    }
    assert!(matches!(read(b""), Err(ChatError::NoChat(_))));
}

#[test]
fn what_is_kept_in_the_context_comes_and_goes() {
    let item = |name: &str| json!({"name": name, "content": "(f)"});
    let kept = |name: &str| Record::Kept { item: item(name) };
    let dropped = |name: &str| Record::Dropped {
        item: kept_hash(&item(name)),
    };
    let mut chat = chat();
    for record in [kept("a"), kept("b"), dropped("a"), kept("c"), dropped("d")] {
        chat.push(stamped(record));
    }
    let (_, outline) = read(&bytes_of(&chat)).unwrap();
    assert_eq!(
        outline.kept,
        [json!({"mention": "@error"}), item("b"), item("c")]
    );
}

#[test]
fn the_last_rewind_is_known_until_something_is_asked_or_it_is_undone() {
    let latest = |records: &[Record]| {
        let mut chat = chat();
        chat.extend(records.iter().cloned().map(stamped));
        read(&bytes_of(&chat)).unwrap().1.latest_rewind
    };
    let rewound = |rewind| Record::Rewound { turn: 9, rewind };
    let image = |rewind| Record::ImageRewound {
        rewind,
        image: json!([1]),
    };
    let known = |rewind, image| Some(LatestRewind { rewind, image });
    assert_eq!(latest(&[]), None);
    assert_eq!(latest(&[rewound(20)]), known(20, None));
    assert_eq!(
        latest(&[rewound(20), image(20)]),
        known(20, Some(json!([1])))
    );
    assert_eq!(
        latest(&[rewound(20), image(20), rewound(21)]),
        known(21, None)
    );
    let undone = Record::Unwound { rewind: 20 };
    assert_eq!(latest(&[rewound(20), image(20), undone]), None);
    assert_eq!(latest(&[rewound(20), turn(21, "on")]), None);
}

#[test]
fn what_has_no_price_is_counted_apart() {
    let mut chat = chat();
    let usage = |cost| Record::Usage {
        input: 1,
        output: 1,
        cache_read: 0,
        cache_write: 0,
        cost,
    };
    let unpriced = br#"{"kind":"usage","input":1,"output":1,"cache_read":0,"cache_write":0}"#;
    chat.push(stamped(usage(None)));
    let mut bytes = bytes_of(&chat);
    bytes.extend_from_slice(unpriced);
    let tokens = read(&bytes).unwrap().1.usage;
    assert_eq!((tokens.known_cost(), tokens.unpriced), (Some(0.75), 2));
    let (_, outline) = read(&bytes_of(&[stamped(usage(None))])).unwrap();
    assert_eq!(outline.usage.known_cost(), None);
}

#[test]
fn a_newer_versions_events_are_passed_over_and_told() {
    let mut bytes = br#"{"kind":"chat","version":7,"id":"a","flavour":"new"}
{"kind":"hologram","at":3,"rays":[1,2]}
"#
    .to_vec();
    bytes.extend(stamped(turn(1, "hello")).line());
    bytes.extend(b"{\"kind\":\"text\",\"text\":\"hi\",\"voice\":\"low\",\"at\":5}\n");
    let (_, outline) = read(&bytes).unwrap();
    assert_eq!(outline.turns.len(), 1);
    assert_eq!(
        outline.remarks.text().as_deref(),
        Some(
            "A newer version of agent-q wrote this chat. 1 event of it can't be shown here. The file keeps all of it."
        )
    );
    assert_eq!(drawn(&bytes).len(), 2, "a field that is new harms nothing");
}

#[test]
fn what_was_edited_by_hand_is_read_as_far_as_it_goes() {
    let mut bytes = stamped(Record::Chat {
        version: 1,
        id: "a".to_owned(),
        from: None,
    })
    .line();
    bytes.extend(b"\n  \n{ \"at\": 12, \"turn\": 3, \"kind\": \"turn\", \"text\": \"by hand\" }\n");
    bytes.extend(b"{\"kind\":\"turn\",\"turn\":4,\"text\":\"lost\"\n");
    bytes.extend(b"{\"kind\":\"turn\",\"turn\":-4,\"text\":\"lost, too\"}\n");
    bytes.extend(b"(this (is #.(lisp)))\n\xff\xfe\0\n");
    bytes.extend(b"{\"kind\":\"text\",\"text\":\"\xff\"}\n");
    bytes.extend(stamped(turn(5, "after")).line());
    let (_, outline) = read(&bytes).unwrap();
    let words: Vec<&str> = outline.turns.iter().map(|it| it.words.as_str()).collect();
    assert_eq!(words, ["by hand", "after"]);
    assert_eq!(outline.remarks.broken, 4);
    assert_eq!(drawn(&bytes).len(), 2);
}

#[test]
fn what_is_no_chat_is_refused() {
    for bytes in [&b"hello\n"[..], b"\x7fELF\0\0", b"[1,2]\n", b"{}\n", b"\n"] {
        assert!(
            matches!(read(bytes), Err(ChatError::NoChat(_))),
            "{bytes:?}"
        );
    }
}

#[test]
fn clocks_that_go_back_change_no_order() {
    let mut chat = chat();
    for (number, stamped) in chat.iter_mut().enumerate() {
        stamped.at = 1_000_000 - number as u64;
    }
    let (_, outline) = read(&bytes_of(&chat)).unwrap();
    let numbers: Vec<u64> = outline.turns.iter().map(|turn| turn.turn).collect();
    assert_eq!(numbers, [7, 9, 12]);
    assert_eq!((outline.began, outline.latest), (1_000_000, 1_000_000));
}

proptest! {
    /// No bytes make reading fail but by a sentence, and no record needs more than one line.
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut whole = bytes_of(&chat());
        whole.extend(&bytes);
        let (_, outline) = read(&whole).unwrap();
        prop_assert!(outline.turns.len() >= 3);
        prop_assert_eq!(outline.bytes, whole.len() as u64);
        let _ = read(&bytes);
    }

    #[test]
    fn any_text_comes_back(text in any::<String>(), name in any::<String>()) {
        for record in [turn(1, &text), Record::Name { name }] {
            let line = stamped(record).line();
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let ChatLine::Known(read) = parse(&line) else {
                return Err(TestCaseError::fail("not read"));
            };
            prop_assert_eq!(read.line(), line);
        }
    }
}
