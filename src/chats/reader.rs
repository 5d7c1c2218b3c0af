// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading a stored chat: once through for what the whole chat is, and the turns that are to be
//! drawn by their places in the file. What only drawing needs is not held.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::ChatError;
use super::folder::{LONGEST_LINE, LineRead, next_line};
use super::record::{
    ChatLine, ChatPlace, Record, RecordKind, Stamped, StoredEntry, VERSION, kind_of, parse, words,
};

/// What a stored chat is, without what its turns look like.
#[derive(Debug, Default, PartialEq)]
pub struct Outline {
    pub name: Option<String>,
    pub place: ChatPlace,
    /// The name of the Emacs and the number of the chat there, of those that wrote it, by the turn
    /// with which they began.
    pub opened: Vec<Opened>,
    pub turns: Vec<StoredTurn>,
    /// The conversation, as `session` wrote it.
    pub entries: Vec<StoredEntry>,
    /// What is kept in the chat's context, the first one first.
    pub kept: Vec<serde_json::Value>,
    /// The last rewind, if nothing was asked since.
    pub latest_rewind: Option<LatestRewind>,
    /// The steps of the journal of files, and the contents that they refer to, in order.
    pub journal: Vec<Record>,
    pub usage: Tokens,
    /// In milliseconds since 1970; the latest is not always the last, as clocks go back.
    pub began: u64,
    pub latest: u64,
    /// How much of the file was read.
    pub bytes: u64,
    pub remarks: Remarks,
}

/// A rewind that can still be undone.
#[derive(Debug, Clone, PartialEq)]
pub struct LatestRewind {
    pub rewind: u64,
    /// What it took back in the image, as Emacs said it.
    pub image: Option<serde_json::Value>,
}

/// Where a chat was open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub emacs: String,
    pub session: u64,
    /// How many turns there were before.
    pub turns_before: usize,
}

/// A turn in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTurn {
    pub turn: u64,
    /// From the line of its beginning to that of the next turn's.
    pub bytes: Range<u64>,
    /// How many entries of the conversation there were before.
    pub entries_before: usize,
    /// The beginning of the user's message.
    pub words: String,
    /// The rewind that took it back, if one did.
    pub rewound: Option<u64>,
}

impl StoredTurn {
    /// Whether it is still part of the chat.
    #[must_use]
    pub fn shown(&self) -> bool {
        self.rewound.is_none()
    }
}

/// Tokens of a chat, as its providers counted them, and what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// US dollars of the requests whose price is known.
    #[serde(default)]
    pub cost: f64,
    /// How many requests have a price that is known, and how many have none.
    #[serde(default)]
    pub priced: u64,
    #[serde(default)]
    pub unpriced: u64,
}

impl Tokens {
    /// Adds those of RECORD, if it has any.
    pub(super) fn add(&mut self, record: &Record) {
        let Record::Usage {
            input,
            output,
            cache_read,
            cache_write,
            cost,
        } = record
        else {
            return;
        };
        self.input = self.input.saturating_add(*input);
        self.output = self.output.saturating_add(*output);
        self.cache_read = self.cache_read.saturating_add(*cache_read);
        self.cache_write = self.cache_write.saturating_add(*cache_write);
        match cost {
            Some(cost) => {
                self.cost += cost;
                self.priced += 1;
            }
            None => self.unpriced += 1,
        }
    }

    /// What is known of their cost: US dollars, none when nothing is.
    #[must_use]
    pub fn known_cost(&self) -> Option<f64> {
        (self.priced > 0).then_some(self.cost)
    }
}

/// By what something that is kept in a context is told apart.
#[must_use]
pub fn kept_hash(item: &serde_json::Value) -> String {
    format!("{:016x}", xxh3_64(item.to_string().as_bytes()))
}

/// What was passed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Lines that can't be read.
    pub broken: usize,
    /// Events of kinds that are not known here.
    pub unknown: usize,
    /// Whether the chat says that a newer version wrote it.
    pub version: Age,
    pub end: End,
}

/// Who wrote a chat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Age {
    #[default]
    Known,
    Newer,
}

/// How the file ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum End {
    #[default]
    Whole,
    /// In the middle of a line.
    Cut,
}

impl Remarks {
    /// What the user should know, a sentence; none if nothing.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let mut said = Vec::new();
        if self.version == Age::Newer {
            said.push("A newer version of agent-q wrote this chat.".to_owned());
        }
        if self.unknown > 0 {
            said.push(format!(
                "{} of it can't be shown here.",
                counted(self.unknown, "event")
            ));
        }
        if self.broken > 0 {
            said.push(format!(
                "{} of the chat's file can't be read and {} left out.",
                counted(self.broken, "line"),
                if self.broken == 1 { "is" } else { "are" }
            ));
        }
        (!said.is_empty()).then(|| said.join(" ") + " The file keeps all of it.")
    }
}

fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// The most bytes of a message that tell a turn apart.
const WORDS: usize = 200;

/// Reads all of FILE, shown as PATH.
///
/// # Errors
///
/// It can't be read, or is no chat.
pub fn outline(file: &File, path: &Path) -> Result<Outline, ChatError> {
    let mut input = BufReader::with_capacity(256 * 1024, file);
    let mut outline = Outline::default();
    read_on(&mut outline, &mut input, path)?;
    Ok(outline)
}

/// Reads the rest of a chat from INPUT into OUTLINE.
fn read_on(outline: &mut Outline, input: &mut impl BufRead, path: &Path) -> Result<(), ChatError> {
    let mut line = Vec::new();
    loop {
        let read = next_line(input, &mut line, LONGEST_LINE)
            .map_err(|source| ChatError::io(path, source))?;
        let start = outline.bytes;
        match read {
            LineRead::End => break,
            LineRead::TooLong { bytes } => {
                outline.bytes += bytes;
                outline.remarks.broken += 1;
            }
            LineRead::Line { bytes } => {
                outline.bytes += bytes;
                if start == 0 {
                    outline.begin(&line, path)?;
                } else {
                    outline.take(&line, start);
                }
                outline.remarks.end = match bytes == line.len() as u64 {
                    true => End::Cut,
                    false => End::Whole,
                };
            }
        }
        if let Some(turn) = outline.turns.last_mut() {
            turn.bytes.end = outline.bytes;
        }
    }
    match outline.bytes {
        0 => Err(ChatError::NoChat(path.to_owned())),
        _ => Ok(()),
    }
}

impl Outline {
    fn begin(&mut self, line: &[u8], path: &Path) -> Result<(), ChatError> {
        match parse(line) {
            ChatLine::Known(stamped) if matches!(stamped.record, Record::Chat { .. }) => {
                self.note(*stamped, 0);
                Ok(())
            }
            // Edited by hand, or the first block was lost; the rest may be whole.
            _ if kind_of(line) != RecordKind::None => {
                self.take(line, 0);
                Ok(())
            }
            _ => Err(ChatError::NoChat(path.to_owned())),
        }
    }

    fn take(&mut self, line: &[u8], start: u64) {
        // Parsing what is only drawn would be most of the work.
        if kind_of(line) == RecordKind::View {
            return;
        }
        match parse(line) {
            ChatLine::Known(stamped) => self.note(*stamped, start),
            ChatLine::Unknown => self.remarks.unknown += 1,
            ChatLine::Broken => self.remarks.broken += 1,
            ChatLine::Empty => {}
        }
    }

    fn note(&mut self, stamped: Stamped, start: u64) {
        if self.began == 0 {
            self.began = stamped.at;
        }
        self.latest = self.latest.max(stamped.at);
        match stamped.record {
            Record::Chat { version, .. } => {
                if version > VERSION {
                    self.remarks.version = Age::Newer;
                }
            }
            Record::Opened { emacs, session } => self.opened.push(Opened {
                emacs,
                session,
                turns_before: self.turns.len(),
            }),
            Record::Place(place) => self.place.update(place),
            Record::Rewound { turn, rewind } => {
                for it in &mut self.turns {
                    if it.turn >= turn && it.shown() {
                        it.rewound = Some(rewind);
                    }
                }
                self.note_rewind(rewind, None);
            }
            Record::ImageRewound { rewind, image } => self.note_rewind(rewind, Some(image)),
            Record::Unwound { rewind } => {
                self.latest_rewind = None;
                for it in &mut self.turns {
                    if it.rewound == Some(rewind) {
                        it.rewound = None;
                    }
                }
            }
            Record::Name { name } => self.name = Some(name).filter(|name| !name.is_empty()),
            Record::Turn { turn, text, along } => {
                self.latest_rewind = None;
                self.turns.push(StoredTurn {
                    turn,
                    bytes: start..start,
                    entries_before: self.entries.len(),
                    words: beginning(&words(&text, &along), WORDS).to_owned(),
                    rewound: None,
                });
            }
            Record::Kept { item } => self.kept.push(item),
            Record::Dropped { item } => self.kept.retain(|kept| kept_hash(kept) != item),
            Record::Entry { entry } => self.entries.push(entry),
            record @ (Record::Content { .. } | Record::Journal { .. }) => {
                self.journal.push(record);
            }
            record @ Record::Usage { .. } => self.usage.add(&record),
            Record::Steered { .. }
            | Record::Text { .. }
            | Record::Reasoning { .. }
            | Record::Call { .. }
            | Record::Asked { .. }
            | Record::Started { .. }
            | Record::Result { .. }
            | Record::Notice { .. }
            | Record::Ended { .. } => {}
        }
    }
}

impl Outline {
    /// Notes the rewind of the number REWIND, and what it took back in an IMAGE.
    fn note_rewind(&mut self, rewind: u64, image: Option<serde_json::Value>) {
        let before = self.latest_rewind.take();
        let image = image.or_else(|| {
            before
                .filter(|before| before.rewind == rewind)
                .and_then(|before| before.image)
        });
        self.latest_rewind = Some(LatestRewind { rewind, image });
    }
}

/// The beginning of TEXT, no more than BYTES.
pub(super) fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The records in the range BYTES of FILE, shown as PATH, as far as they can be read.
///
/// # Errors
///
/// The file can't be read.
pub fn records(file: &File, path: &Path, bytes: &Range<u64>) -> Result<Vec<Stamped>, ChatError> {
    let part = FilePart {
        file,
        at: bytes.start,
    };
    let mut input = BufReader::with_capacity(64 * 1024, part.take(bytes.end - bytes.start));
    let (mut line, mut records) = (Vec::new(), Vec::new());
    loop {
        let read = next_line(&mut input, &mut line, LONGEST_LINE)
            .map_err(|source| ChatError::io(path, source))?;
        match read {
            LineRead::End => return Ok(records),
            LineRead::TooLong { .. } => {}
            LineRead::Line { .. } => {
                if let ChatLine::Known(stamped) = parse(&line) {
                    records.push(*stamped);
                }
            }
        }
    }
}

/// A file from a place on, whatever others read of it.
struct FilePart<'f> {
    file: &'f File,
    at: u64,
}

impl std::io::Read for FilePart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
