// SPDX-License-Identifier: GPL-3.0-or-later
//! The journal of a chat's changes of files, written down and read again. A content is written once;
//! the steps refer to it by its hash.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use super::record::Record;
use super::recorder::Recorder;
use crate::files::encoding::{Encoding, Mark};
use crate::workspace::journal::{
    ChangedPlace, ContentState, Disk, JournalEntry, JournalObserver, JournalStep, Turn,
};

/// A greater content is not written down; what it was can't be brought back in another Emacs.
const GREATEST: usize = 16 * 1024 * 1024;

/// Hands the steps of a journal to the recorder of its chat.
#[derive(Debug)]
pub struct ChangesRecorder {
    pub recorder: Arc<Recorder>,
    /// The contents that the file has already.
    written: HashSet<String>,
}

impl ChangesRecorder {
    /// One whose chat's file has the contents of RECORDS.
    #[must_use]
    pub fn new(recorder: Arc<Recorder>, records: &[Record]) -> Self {
        let hashes = records.iter().filter_map(|record| match record {
            Record::Content { hash, .. } => Some(hash.clone()),
            _ => None,
        });
        Self {
            recorder,
            written: hashes.collect(),
        }
    }
}

impl JournalObserver for ChangesRecorder {
    fn step(&mut self, step: &JournalStep) {
        let mut contents = Vec::new();
        let step = step_json(step, &mut contents);
        for content in contents {
            if let Record::Content { hash, .. } = &content
                && self.written.insert(hash.clone())
            {
                self.recorder.record(content);
            }
        }
        self.recorder.record(Record::Journal {
            step,
            signature: None,
        });
    }
}

fn step_json(step: &JournalStep, contents: &mut Vec<Record>) -> Value {
    match step {
        JournalStep::Turn(number) => json!({"turn": number}),
        JournalStep::Recorded(entry) => json!({"recorded": entry_json(entry, contents)}),
        JournalStep::TakenBack => json!("taken_back"),
        JournalStep::Undone(left) => {
            let left: Vec<Value> = left.iter().map(|it| entry_json(it, contents)).collect();
            json!({"undone": left})
        }
        JournalStep::Rewound { turn, rewind } => {
            json!({"rewound": {"turn": turn, "rewind": rewind}})
        }
        JournalStep::Unwound { rewind } => json!({"unwound": rewind}),
    }
}

fn entry_json(entry: &JournalEntry, contents: &mut Vec<Record>) -> Value {
    match entry {
        JournalEntry::Moved { from, to, folders } => {
            json!({"from": path_json(from), "to": path_json(to), "folders": folders})
        }
        JournalEntry::Changed {
            place,
            before,
            after,
            mode,
            disk,
            folders,
        } => {
            let (key, place) = match place {
                ChangedPlace::File(path) => ("file", path_json(path)),
                ChangedPlace::Buffer(name) => ("buffer", json!(name)),
            };
            json!({
                key: place,
                "before": state_json(before, contents),
                "after": state_json(after, contents),
                "mode": mode,
                "saved": *disk == Disk::Changed,
                "folders": folders,
            })
        }
    }
}

/// Names need not be text.
fn path_json(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => json!(text),
        None => json!(path.as_os_str().as_bytes()),
    }
}

fn state_json(state: &ContentState, contents: &mut Vec<Record>) -> Value {
    match state {
        ContentState::Absent => Value::Null,
        ContentState::Text { text, encoding } => {
            let encoding = encoding.map(encoding_name);
            match text.len() > GREATEST {
                true => json!({"lost": text.len()}),
                false => {
                    let hash = hash_of(text.as_bytes());
                    contents.push(Record::Content {
                        hash: hash.clone(),
                        text: Some(text.to_string()),
                        bytes: None,
                    });
                    json!({"text": hash, "encoding": encoding})
                }
            }
        }
        ContentState::Bytes(bytes) if bytes.len() > GREATEST => json!({"lost": bytes.len()}),
        ContentState::Bytes(bytes) => {
            let hash = hash_of(bytes);
            contents.push(Record::Content {
                hash: hash.clone(),
                text: None,
                bytes: Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            });
            json!({"bytes": hash})
        }
    }
}

/// What is signed names contents by this alone, so nobody must find another text that has it.
fn hash_of(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(digest(&SHA256, bytes))
}

const ENCODINGS: [(&str, Encoding); 7] = [
    ("utf-8", Encoding::Utf8(Mark::None)),
    ("utf-8-mark", Encoding::Utf8(Mark::Present)),
    ("utf-16-little", Encoding::Utf16Little(Mark::None)),
    ("utf-16-little-mark", Encoding::Utf16Little(Mark::Present)),
    ("utf-16-big", Encoding::Utf16Big(Mark::None)),
    ("utf-16-big-mark", Encoding::Utf16Big(Mark::Present)),
    ("latin-1", Encoding::Latin1),
];

fn encoding_name(encoding: Encoding) -> &'static str {
    ENCODINGS
        .iter()
        .find(|(_, other)| *other == encoding)
        .map_or("utf-8", |(name, _)| *name)
}

/// The steps that RECORDS tell.
#[must_use]
pub fn steps(records: Vec<Record>) -> Vec<JournalStep> {
    let mut contents = HashMap::new();
    let mut steps = Vec::new();
    for record in records {
        match record {
            Record::Content { hash, text, bytes } => {
                let content = match (text, bytes) {
                    (Some(text), _) => Some(StoredContent::Text(text.into())),
                    (None, Some(digits)) => from_digits(&digits).map(StoredContent::Bytes),
                    (None, None) => None,
                };
                if let Some(content) = content.filter(|content| hash_of(content.bytes()) == hash) {
                    contents.insert(hash, content);
                }
            }
            // A step that can't be read is one whose change can't be undone.
            Record::Journal { step, .. } => steps.extend(step_of(&step, &contents)),
            _ => {}
        }
    }
    steps
}

enum StoredContent {
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
}

impl StoredContent {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

type StoredContents = HashMap<String, StoredContent>;

fn from_digits(digits: &str) -> Option<Arc<[u8]>> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    bytes.map(Into::into)
}

fn step_of(step: &Value, contents: &StoredContents) -> Option<JournalStep> {
    if step.as_str() == Some("taken_back") {
        return Some(JournalStep::TakenBack);
    }
    let (kind, value) = step.as_object()?.iter().next()?;
    match kind.as_str() {
        "turn" => value.as_u64().map(JournalStep::Turn),
        "recorded" => entry_of(value, contents).map(JournalStep::Recorded),
        "undone" => {
            let left = value.as_array()?.iter();
            let left: Option<Turn> = left.map(|it| entry_of(it, contents)).collect();
            left.map(JournalStep::Undone)
        }
        "rewound" => Some(JournalStep::Rewound {
            turn: value.get("turn")?.as_u64()?,
            rewind: value.get("rewind")?.as_u64()?,
        }),
        "unwound" => value.as_u64().map(|rewind| JournalStep::Unwound { rewind }),
        _ => None,
    }
}

fn entry_of(value: &Value, contents: &StoredContents) -> Option<JournalEntry> {
    let entry = value.as_object()?;
    let folders = usize::try_from(entry.get("folders")?.as_u64()?).ok()?;
    if let Some(from) = entry.get("from") {
        return Some(JournalEntry::Moved {
            from: path_of(from)?,
            to: path_of(entry.get("to")?)?,
            folders,
        });
    }
    let place = match (entry.get("file"), entry.get("buffer")) {
        (Some(path), _) => ChangedPlace::File(path_of(path)?),
        (None, name) => ChangedPlace::Buffer(name?.as_str()?.to_owned()),
    };
    Some(JournalEntry::Changed {
        place,
        before: state_of(entry, "before", contents)?,
        after: state_of(entry, "after", contents)?,
        mode: match entry.get("mode") {
            Some(Value::Number(mode)) => Some(u32::try_from(mode.as_u64()?).ok()?),
            _ => None,
        },
        disk: match entry.get("saved")?.as_bool()? {
            true => Disk::Changed,
            false => Disk::Untouched,
        },
        folders,
    })
}

fn path_of(value: &Value) -> Option<PathBuf> {
    match value {
        Value::String(text) => Some(PathBuf::from(text)),
        Value::Array(bytes) => {
            let bytes = bytes.iter();
            let bytes: Option<Vec<u8>> = bytes
                .map(|byte| u8::try_from(byte.as_u64()?).ok())
                .collect();
            Some(PathBuf::from(OsString::from_vec(bytes?)))
        }
        _ => None,
    }
}

fn state_of(
    entry: &Map<String, Value>,
    key: &str,
    contents: &StoredContents,
) -> Option<ContentState> {
    let state = match entry.get(key)? {
        Value::Null => return Some(ContentState::Absent),
        state => state.as_object()?,
    };
    let content = |key: &str| contents.get(state.get(key)?.as_str()?);
    match (content("text"), content("bytes")) {
        (Some(StoredContent::Text(text)), _) => Some(ContentState::Text {
            text: Arc::clone(text),
            encoding: state.get("encoding").and_then(|name| {
                let name = name.as_str()?;
                let known = ENCODINGS.iter().find(|(other, _)| *other == name);
                known.map(|(_, encoding)| *encoding)
            }),
        }),
        (_, Some(StoredContent::Bytes(bytes))) => Some(ContentState::Bytes(Arc::clone(bytes))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, encoding: Option<Encoding>) -> ContentState {
        ContentState::Text {
            text: text.into(),
            encoding,
        }
    }

    #[test]
    fn steps_come_back_as_they_were() {
        let changed = |place, before, after| JournalEntry::Changed {
            place,
            before,
            after,
            mode: Some(0o644),
            disk: Disk::Changed,
            folders: 2,
        };
        let odd = PathBuf::from(OsString::from_vec(b"/tmp/\xff".to_vec()));
        let entries = [
            changed(
                ChangedPlace::File(odd.clone()),
                ContentState::Absent,
                text("\u{e9}\r\n", Some(Encoding::Utf16Big(Mark::Present))),
            ),
            changed(
                ChangedPlace::Buffer("*scratch*".to_owned()),
                text("a", None),
                text("\u{e9}\r\n", None),
            ),
            changed(
                ChangedPlace::File("/b".into()),
                ContentState::Bytes(vec![0, 255, 10].into()),
                ContentState::Absent,
            ),
            JournalEntry::Moved {
                from: odd,
                to: "/c".into(),
                folders: 0,
            },
        ];
        let mut all = vec![JournalStep::Turn(3)];
        all.extend(entries.iter().cloned().map(JournalStep::Recorded));
        all.extend([
            JournalStep::TakenBack,
            JournalStep::Undone(entries.to_vec()),
            JournalStep::Rewound { turn: 3, rewind: 9 },
            JournalStep::Unwound { rewind: 9 },
        ]);
        let mut records = Vec::new();
        for step in &all {
            let step = step_json(step, &mut records);
            records.push(Record::Journal {
                step,
                signature: None,
            });
        }
        assert_eq!(steps(records), all);
    }

    #[test]
    fn a_content_that_was_edited_by_hand_is_not_put_anywhere() {
        let mut records = Vec::new();
        let entry = JournalEntry::Changed {
            place: ChangedPlace::File("/a".into()),
            before: text("old", None),
            after: text("new", None),
            mode: None,
            disk: Disk::Changed,
            folders: 0,
        };
        let step = step_json(&JournalStep::Recorded(entry), &mut records);
        records.push(Record::Journal {
            step,
            signature: None,
        });
        if let Record::Content { text, .. } = &mut records[0] {
            *text = Some("forged".to_owned());
        }
        assert_eq!(steps(records), []);
    }
}
