// SPDX-License-Identifier: GPL-3.0-or-later
//! The events of a stored chat, each a line of JSON that begins with its kind. What a newer version
//! writes has kinds that are not known here: they are passed over, and stay in the file.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::CallOutcome;
use crate::provider::ChatMessage;

/// The version of what is written.
pub const VERSION: u32 = 1;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The first line.
    Chat {
        version: u32,
        id: String,
        /// The chat of which this one began as a copy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// The chat was opened in an Emacs; what is written next happened there.
    Opened {
        /// The name of that Emacs in the journals of images.
        emacs: String,
        /// The number of the chat there.
        session: u64,
    },
    /// Where the chat is, as far as it changed.
    Place(ChatPlace),
    Name {
        name: String,
    },
    Turn {
        turn: u64,
        text: String,
        /// What the user sent along, such as "defun transfer, lines 3 to 9 of src/bank.lisp".
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        along: Vec<String>,
    },
    /// The user's message that was put into the running turn.
    Steered {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        along: Vec<String>,
    },
    Text {
        text: String,
    },
    Reasoning {
        text: String,
    },
    Call {
        call: u64,
        tool: String,
        /// JSON text as received.
        arguments: String,
        /// The call that made it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// The call waited for the user.
    Asked {
        call: u64,
        tool: String,
        level: String,
        reason: String,
    },
    Started {
        call: u64,
        tool: String,
        arguments: Value,
    },
    Result {
        call: u64,
        outcome: CallOutcome,
        content: String,
        milliseconds: f64,
    },
    Notice {
        text: String,
    },
    Usage {
        input: u64,
        output: u64,
        cache_read: u64,
        cache_write: u64,
        /// US dollars; none when the price was not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// Something is kept in the chat's context, as Emacs describes it.
    Kept {
        item: Value,
    },
    /// Of those that are kept, the one with this hash is not any more.
    Dropped {
        item: String,
    },
    Ended {
        outcome: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The user went back to before TURN; what came after it is not shown any more.
    Rewound {
        turn: u64,
        rewind: u64,
    },
    /// What that rewind took back in the image, by which Emacs has it brought back.
    ImageRewound {
        rewind: u64,
        image: Value,
    },
    /// That was undone.
    Unwound {
        rewind: u64,
    },
    /// A part of the conversation that models are sent, as `session` keeps it.
    Entry {
        entry: StoredEntry,
    },
    /// A text or the bytes of a file, to which changes refer by their hash.
    Content {
        hash: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// In hexadecimal digits, where it is no text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<String>,
    },
    /// A step in the journal of the chat's changes of files.
    Journal {
        step: Value,
        /// By which the user's own Emacs knows it again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
}

/// What is known of a chat's surroundings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatPlace {
    /// The project's name and root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// By which the user's own Emacs knows the root again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The Lisp image, as Emacs calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The model, as the header line calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ChatPlace {
    /// Takes over what NEWER knows.
    pub fn update(&mut self, newer: Self) {
        self.project = newer.project.or(self.project.take());
        if newer.root.is_some() {
            (self.root, self.signature) = (newer.root, newer.signature);
        }
        self.image = newer.image.or(self.image.take());
        self.model = newer.model.or(self.model.take());
    }
}

/// A record, and when it was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    #[serde(flatten)]
    pub record: Record,
    /// In milliseconds since 1970. Only shown: clocks go back.
    #[serde(default)]
    pub at: u64,
}

impl Stamped {
    #[must_use]
    pub fn now(record: Record) -> Self {
        Self {
            record,
            at: milliseconds(SystemTime::now()),
        }
    }

    /// The record as a line, with its end.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        // Nothing in a record can fail to become JSON.
        let _ = self.write_line(&mut line);
        line
    }

    /// Writes that to OUT.
    pub fn write_line(&self, mut out: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut out, self)?;
        out.write_all(b"\n")
    }
}

/// The message TEXT for a list: where something went ALONG, it says little by itself.
#[must_use]
pub fn words(text: &str, along: &[String]) -> String {
    match along {
        [] => text.to_owned(),
        _ => format!("{text} [{}]", along.join("; ")),
    }
}

/// TIME in milliseconds since 1970; 0 before that.
#[must_use]
pub fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A line of a chat's file.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatLine {
    Known(Box<Stamped>),
    /// An event of a kind that is not known here.
    Unknown,
    /// It can't be read.
    Broken,
    Empty,
}

/// Reads LINE, with or without its end.
#[must_use]
pub fn parse(line: &[u8]) -> ChatLine {
    if line.trim_ascii().is_empty() {
        return ChatLine::Empty;
    }
    match serde_json::from_slice(line) {
        Ok(stamped) => ChatLine::Known(Box::new(stamped)),
        Err(_) => match kind_of(line) {
            RecordKind::Other => ChatLine::Unknown,
            _ => ChatLine::Broken,
        },
    }
}

/// What kind of a record a line is, as far as opening a chat goes by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    Chat,
    Turn,
    /// Something of a turn that only its drawing needs.
    View,
    /// What counts for the chat as a whole.
    State,
    /// One that is not known here.
    Other,
    /// It is no record.
    None,
}

/// The kind of LINE, told from its beginning alone where that is as it is written.
#[must_use]
pub fn kind_of(line: &[u8]) -> RecordKind {
    const START: &[u8] = b"{\"kind\":\"";
    #[derive(Deserialize)]
    struct Any {
        kind: String,
    }
    let written = line
        .strip_prefix(START)
        .and_then(|rest| Some(&rest[..memchr::memchr(b'"', rest)?]))
        .filter(|name| !name.contains(&b'\\'));
    if let Some(name) = written {
        return named(name);
    }
    match serde_json::from_slice::<Any>(line) {
        Ok(any) => named(any.kind.as_bytes()),
        Err(_) => RecordKind::None,
    }
}

fn named(name: &[u8]) -> RecordKind {
    match name {
        b"chat" => RecordKind::Chat,
        b"turn" => RecordKind::Turn,
        b"steered" | b"text" | b"reasoning" | b"call" | b"asked" | b"started" | b"result"
        | b"notice" => RecordKind::View,
        b"opened" | b"rewound" | b"image_rewound" | b"unwound" | b"place" | b"name" | b"usage"
        | b"kept" | b"dropped" | b"ended" | b"entry" | b"content" | b"journal" => RecordKind::State,
        _ => RecordKind::Other,
    }
}

// The entries of a conversation, from which `session` derives what models read.

/// The number of an entry within its conversation; later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(pub u64);

/// The number of a turn within its conversation. It is 0 for what belongs to none.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct TurnNumber(pub u64);

/// Something that happened in a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub id: EntryId,
    pub turn: TurnNumber,
    pub what: EntryContent,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryContent {
    /// The user's message, which opens a turn or is put into one.
    Asked {
        /// As the model reads it, with what was said in front of it.
        message: Arc<ChatMessage>,
        /// As the chat shows it; none when that is the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown: Option<String>,
    },
    /// An answer, or the result of a call.
    Message(Arc<ChatMessage>),
    /// The model reads SUMMARY in place of all up to and with the entry THROUGH.
    Compaction { summary: String, through: EntryId },
    /// The model reads only the beginnings of these results, of so many bytes each.
    Trim {
        results: Vec<EntryId>,
        kept: usize,
        again: Again,
    },
    /// A message that was refused, or is sent again, was taken back, with all that followed it.
    TakenBack { from: EntryId },
    /// The user went back to before FROM.
    Rewind { from: EntryId },
    /// A compaction, a trim or a rewind was undone.
    Undone(EntryId),
}

/// How a model sees a result again that is trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// By the tool `read_result`.
    ReadResult,
    /// By another call: the chat doesn't offer that tool.
    Call,
}

impl Entry {
    /// The message that it is.
    #[must_use]
    pub fn message(&self) -> Option<&Arc<ChatMessage>> {
        match &self.what {
            EntryContent::Asked { message, .. } | EntryContent::Message(message) => Some(message),
            _ => None,
        }
    }
}

/// An entry in a stored chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, from = "Value")]
pub enum StoredEntry {
    Known(Entry),
    /// One that a newer version wrote.
    Unknown(Value),
}

impl From<Value> for StoredEntry {
    fn from(entry: Value) -> Self {
        match Entry::deserialize(&entry) {
            Ok(known) => Self::Known(known),
            Err(_) => Self::Unknown(entry),
        }
    }
}

impl StoredEntry {
    #[must_use]
    pub fn known(self) -> Option<Entry> {
        match self {
            Self::Known(entry) => Some(entry),
            Self::Unknown(_) => None,
        }
    }
}
