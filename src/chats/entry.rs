// SPDX-License-Identifier: GPL-3.0-or-later
//! The entries of a conversation, of which `session` derives what models read. A stored chat has them, too.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::provider::ChatMessage;

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
