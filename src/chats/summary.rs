// SPDX-License-Identifier: GPL-3.0-or-later
//! What lists show of a stored chat, and which texts it may have. Kept in a file beside the chats that
//! may be deleted at any time; it grows as its chat does, and only what is new of that is read.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::ChatError;
use super::folder::{ChatFolder, ChatId, LONGEST_LINE, LineRead, next_line};
use super::reader::{Tokens, beginning};
use super::record::{ChatLine, ChatPlace, Record, RecordKind, kind_of, parse};

/// The version of the index; one of another version is made again.
const VERSION: u32 = 4;
/// The most bytes of a message that a list has.
const WORDS: usize = 200;
/// How much of a chat's end tells whether it only grew.
const TAIL: u64 = 64;

/// What lists show of a chat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub name: Option<String>,
    #[serde(flatten)]
    pub place: ChatPlace,
    /// The beginning of its first message, if there is one that calls no tool.
    pub words: String,
    /// What was attached to that.
    pub along: Vec<String>,
    pub turns: usize,
    pub tokens: Tokens,
    /// In milliseconds since 1970.
    pub began: u64,
    pub latest: u64,
}

/// A summary with which texts its chat may have.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedChat {
    pub summary: Summary,
    pub grams: Grams,
    /// How many of its lines are a chat's, those of kinds that are not known here among them.
    lines: usize,
    /// How much of the file it is of, and its end.
    bytes: u64,
    tail: u64,
}

/// Which groups of three characters a text has, with a few that it doesn't have.
#[derive(Debug, Clone, PartialEq)]
pub struct Grams(Vec<u8>);

/// How many bits stand for the groups, a power of two. A megabyte of text has some ten thousands.
const BITS: usize = 1 << 18;

impl Default for Grams {
    fn default() -> Self {
        Self(vec![0; BITS / 8])
    }
}

impl Grams {
    /// Adds the groups of TEXT.
    fn add(&mut self, text: &[u8]) {
        for group in text.windows(3) {
            let bit = bit_of(group);
            self.0[bit / 8] |= 1 << (bit % 8);
        }
    }

    /// Whether what was added may have TEXT in it, in letters of any case.
    #[must_use]
    pub fn may_have(&self, text: &[u8]) -> bool {
        let mut groups = text.windows(3).filter(|group| group.is_ascii());
        groups.all(|group| {
            let bit = bit_of(group);
            self.0[bit / 8] & (1 << (bit % 8)) != 0
        })
    }
}

fn bit_of(group: &[u8]) -> usize {
    let number = group.iter().fold(0_u32, |number, byte| {
        (number << 8) | u32::from(byte.to_ascii_lowercase())
    });
    (number.wrapping_mul(0x9E37_79B1) >> 14) as usize & (BITS - 1)
}

#[derive(Serialize, Deserialize)]
struct IndexHeader {
    version: u32,
    bytes: u64,
    tail: u64,
    lines: usize,
    summary: Summary,
}

/// The folder of the index of FOLDER.
fn index_folder(folder: &ChatFolder) -> PathBuf {
    folder.path().join("index")
}

fn index_file(folder: &ChatFolder, id: &ChatId) -> PathBuf {
    index_folder(folder).join(format!("{id}.idx"))
}

/// The chat ID of FOLDER as the index has it, if that is up to date and of a chat.
#[must_use]
pub fn fresh(folder: &ChatFolder, id: &ChatId) -> Option<IndexedChat> {
    let indexed = read_index(&index_file(folder, id)).filter(|indexed| indexed.lines > 0)?;
    let file = folder.open(id).ok()?;
    let size = file.metadata().ok()?.len();
    (size == indexed.bytes && tail(&file, size).ok()? == indexed.tail).then_some(indexed)
}

/// The chat ID of FOLDER, with the index brought up to date.
///
/// # Errors
///
/// The chat can't be read, or no line of its file is one of a chat. An index that can't be written is
/// none.
pub fn indexed(folder: &ChatFolder, id: &ChatId) -> Result<IndexedChat, ChatError> {
    let path = folder.file(id);
    let file = folder.open(id)?;
    let size = match file.metadata() {
        Ok(metadata) => metadata.len(),
        Err(source) => return Err(ChatError::io(path, source)),
    };
    match bring_up_to_date(folder, id, &file, size) {
        // An empty one is a chat of which nothing was written yet.
        Ok(chat) if chat.lines == 0 && size > 0 => Err(ChatError::NoChat(path)),
        result => result.map_err(|source| ChatError::io(path, source)),
    }
}

/// FILE has SIZE bytes.
fn bring_up_to_date(
    folder: &ChatFolder,
    id: &ChatId,
    file: &File,
    size: u64,
) -> io::Result<IndexedChat> {
    let known = read_index(&index_file(folder, id)).filter(|known| {
        known.bytes <= size && tail(file, known.bytes).is_ok_and(|tail| tail == known.tail)
    });
    let mut chat = match known {
        Some(known) if known.bytes == size => return Ok(known),
        Some(known) => known,
        None => IndexedChat {
            summary: Summary::default(),
            grams: Grams::default(),
            lines: 0,
            bytes: 0,
            tail: 0,
        },
    };
    let mut rest = file;
    rest.seek(SeekFrom::Start(chat.bytes))?;
    let mut input = BufReader::with_capacity(256 * 1024, rest);
    let mut line = Vec::new();
    loop {
        match next_line(&mut input, &mut line, LONGEST_LINE)? {
            LineRead::End => break,
            LineRead::TooLong { bytes } => chat.bytes += bytes,
            // A line that is being written is read the next time.
            LineRead::Line { bytes } if bytes == line.len() as u64 => break,
            LineRead::Line { bytes } => {
                chat.bytes += bytes;
                chat.take(&line);
            }
        }
    }
    chat.tail = tail(file, chat.bytes)?;
    // Without an index everything is only slower.
    if let Err(error) = write_index(folder, id, &chat) {
        tracing::debug!("the index of chat {id} was not written: {error}");
    }
    Ok(chat)
}

fn tail(file: &File, bytes: u64) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let length = bytes.min(TAIL);
    let mut end = vec![0; length as usize];
    file.read_exact_at(&mut end, bytes - length)?;
    Ok(xxh3_64(&end))
}

impl IndexedChat {
    fn take(&mut self, line: &[u8]) {
        let kind = kind_of(line);
        if kind != RecordKind::None {
            self.lines += 1;
        }
        if searchable(kind) {
            self.grams.add(line);
        }
        // The conversation and the contents of files are most of a chat, and not shown.
        if !matches!(
            kind,
            RecordKind::Chat | RecordKind::Turn | RecordKind::State
        ) || bulky(line)
        {
            return;
        }
        if let ChatLine::Known(stamped) = parse(line) {
            self.summary.note(stamped.record, stamped.at);
        }
    }
}

fn bulky(line: &[u8]) -> bool {
    ["entry", "content", "journal", "kept"].iter().any(|kind| {
        line.strip_prefix(b"{\"kind\":\"")
            .is_some_and(|rest| rest.starts_with(kind.as_bytes()))
    })
}

/// Whether lines of KIND have what users look for.
pub(super) fn searchable(kind: RecordKind) -> bool {
    matches!(kind, RecordKind::Turn | RecordKind::View)
}

impl Summary {
    fn note(&mut self, record: Record, at: u64) {
        if self.began == 0 {
            self.began = at;
        }
        self.latest = self.latest.max(at);
        match record {
            Record::Name { name } => self.name = Some(name).filter(|name| !name.is_empty()),
            Record::Place(place) => self.place.update(place),
            Record::Turn { text, along, .. } => {
                self.turns += 1;
                let calls = |text: &str| text.starts_with('/');
                if self.words.is_empty() || calls(&self.words) && !calls(&text) {
                    beginning(&text, WORDS).clone_into(&mut self.words);
                    self.along = along;
                }
            }
            record @ Record::Usage { .. } => self.tokens.add(&record),
            _ => {}
        }
    }
}

fn read_index(path: &Path) -> Option<IndexedChat> {
    let bytes = fs::read(path).ok()?;
    let end = memchr::memchr(b'\n', &bytes)?;
    let header: IndexHeader = serde_json::from_slice(&bytes[..end]).ok()?;
    let grams = Grams(bytes[end + 1..].to_vec());
    (header.version == VERSION && grams.0.len() == BITS / 8).then_some(IndexedChat {
        summary: header.summary,
        grams,
        lines: header.lines,
        bytes: header.bytes,
        tail: header.tail,
    })
}

fn write_index(folder: &ChatFolder, id: &ChatId, chat: &IndexedChat) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(index_folder(folder))?;
    let header = IndexHeader {
        version: VERSION,
        bytes: chat.bytes,
        tail: chat.tail,
        lines: chat.lines,
        summary: chat.summary.clone(),
    };
    let path = index_file(folder, id);
    // Another Emacs may write the same one.
    let new = path.with_extension(format!("{}", std::process::id()));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    let mut bytes = serde_json::to_vec(&header)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(&chat.grams.0);
    file.write_all(&bytes)?;
    fs::rename(new, path)
}

/// Removes what the index of FOLDER has of chats that are not among IDS.
pub fn forget_others(folder: &ChatFolder, ids: &[ChatId]) {
    let Ok(entries) = fs::read_dir(index_folder(folder)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name
            .to_str()
            .and_then(|name| name.strip_suffix(".idx"))
            .and_then(|id| ChatId::parse(id).ok());
        if id.is_some_and(|id| !ids.contains(&id)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// All of FILE, which may be large.
pub(super) fn whole(file: &mut File, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    file.read_to_end(buffer)?;
    Ok(())
}
