// SPDX-License-Identifier: GPL-3.0-or-later
//! Finding stored chats by what is in them: by the index which chats may have the words, then in the
//! files themselves, as far as they are shown.

use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use regex::bytes::{Regex, RegexBuilder};

use super::ChatError;
use super::folder::{ChatFolder, ChatId};
use super::reader::beginning;
use super::record::{ChatLine, Record, RecordKind, kind_of, parse};
use super::summary::{self, IndexedChat, Summary, fresh, indexed, searchable, whole};
use crate::runtime::held;

/// How much of a text is shown around what was found.
const AROUND: usize = 60;

/// A chat that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundChat {
    pub id: ChatId,
    pub summary: Summary,
    /// Where the first of the words is, one line.
    pub excerpt: Option<String>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct FoundChats {
    /// The latest first.
    pub chats: Vec<FoundChat>,
    /// Whether there may be more.
    pub more: bool,
    /// The chats that the index doesn't have as they are.
    pub unindexed: Vec<ChatId>,
    /// Files that can't be read as chats.
    pub unreadable: usize,
}

/// Finds up to LIMIT chats of FOLDER that have all words of QUERY in their names or texts, in letters
/// of any case; all when there are none.
///
/// # Errors
///
/// The folder can't be read.
pub fn search(folder: &ChatFolder, query: &str, limit: usize) -> Result<FoundChats, ChatError> {
    let words: Vec<SearchWord> = query
        .split_whitespace()
        .filter_map(SearchWord::new)
        .collect();
    let mut ids = by_time(folder)?;
    summary::forget_others(folder, &ids);
    let next = AtomicUsize::new(0);
    let full = AtomicBool::new(false);
    let found = Mutex::new(Vec::new());
    let results = Mutex::new(FoundChats::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(4) {
            scope.spawn(|| {
                let mut buffer = Vec::new();
                while !full.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(id) = ids.get(index) else { return };
                    match look(folder, id, &words, &mut buffer) {
                        Ok(LookedAt { chat, stale }) => {
                            if stale {
                                held(&results).unindexed.push(id.clone());
                            }
                            if let Some(chat) = chat {
                                let mut found = held(&found);
                                found.push((index, chat));
                                full.store(found.len() >= limit, Ordering::Relaxed);
                            }
                        }
                        Err(_) => held(&results).unreadable += 1,
                    }
                }
            });
        }
    });
    let mut found = std::mem::take(&mut *held(&found));
    found.sort_by_key(|(index, _)| *index);
    found.truncate(limit);
    let mut results = std::mem::take(&mut *held(&results));
    results.chats = found.into_iter().map(|(_, chat)| chat).collect();
    results.more = next.load(Ordering::Relaxed) < ids.len();
    ids.clear();
    Ok(results)
}

/// The chats of FOLDER, those first that were written last.
fn by_time(folder: &ChatFolder) -> Result<Vec<ChatId>, ChatError> {
    let time = |id: &ChatId| {
        let metadata = std::fs::symlink_metadata(folder.file(id));
        metadata
            .and_then(|metadata| metadata.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let mut ids: Vec<(SystemTime, ChatId)> = folder
        .ids()?
        .into_iter()
        .map(|id| (time(&id), id))
        .collect();
    ids.sort_by(|one, other| other.cmp(one));
    Ok(ids.into_iter().map(|(_, id)| id).collect())
}

struct LookedAt {
    chat: Option<FoundChat>,
    /// Whether the index doesn't have the chat as it is.
    stale: bool,
}

fn look(
    folder: &ChatFolder,
    id: &ChatId,
    words: &[SearchWord],
    buffer: &mut Vec<u8>,
) -> Result<LookedAt, ChatError> {
    let known = match words {
        // A list shows all of them anyway.
        [] => Some(indexed(folder, id)?),
        _ => fresh(folder, id),
    };
    let stale = known.is_none();
    let chat = match known {
        Some(known) => match known_to_lack(&known, words) {
            true => None,
            false => excerpt(folder, id, Some(&known.summary), words, buffer)?
                .map(|excerpt| (known.summary, excerpt)),
        },
        // What the index would say takes longer than looking.
        None => match excerpt(folder, id, None, words, buffer)? {
            Some(excerpt) => Some((indexed(folder, id)?.summary, excerpt)),
            None if is_of_no_chat(buffer) => return Err(ChatError::NoChat(folder.file(id))),
            None => None,
        },
    };
    Ok(LookedAt {
        // One without a turn is no chat yet.
        chat: chat
            .filter(|(summary, _)| summary.turns > 0)
            .map(|(summary, excerpt)| FoundChat {
                id: id.clone(),
                summary,
                excerpt: excerpt.text,
            }),
        stale,
    })
}

/// Whether FILE has something in it, but no line of a chat.
fn is_of_no_chat(file: &[u8]) -> bool {
    let mut lines = file.split(|byte| *byte == b'\n');
    !file.is_empty() && lines.all(|line| kind_of(line) == RecordKind::None)
}

/// Whether the index tells that CHAT has not all of WORDS.
fn known_to_lack(chat: &IndexedChat, words: &[SearchWord]) -> bool {
    words.iter().any(|word| {
        !word.is_in_summary(&chat.summary) && !chat.grams.may_have(word.written.as_bytes())
    })
}

struct FoundExcerpt {
    text: Option<String>,
}

/// The first place of the first word that is in a text, if all are somewhere.
fn excerpt(
    folder: &ChatFolder,
    id: &ChatId,
    summary: Option<&Summary>,
    words: &[SearchWord],
    buffer: &mut Vec<u8>,
) -> Result<Option<FoundExcerpt>, ChatError> {
    let mut text = None;
    let mut read = false;
    for word in words {
        if summary.is_some_and(|summary| word.is_in_summary(summary)) {
            continue;
        }
        if !read {
            let mut file: File = folder.open(id)?;
            whole(&mut file, buffer).map_err(|source| ChatError::io(folder.file(id), source))?;
            read = true;
        }
        match word.place_in(buffer, summary.is_none()) {
            Some(place) => text = text.or(Some(place)),
            None => return Ok(None),
        }
    }
    Ok(Some(FoundExcerpt { text }))
}

/// Something that is looked for.
struct SearchWord {
    /// As it is written in JSON.
    written: String,
    plain: Regex,
    /// The same for the written form.
    raw: Regex,
}

impl SearchWord {
    fn new(word: &str) -> Option<Self> {
        let json = serde_json::to_string(word).ok()?;
        let written = json[1..json.len() - 1].to_owned();
        let regex = |text: &str| {
            RegexBuilder::new(&regex::escape(text))
                .case_insensitive(true)
                .build()
                .ok()
        };
        Some(Self {
            plain: regex(word)?,
            raw: regex(&written)?,
            written,
        })
    }

    fn is_in_summary(&self, summary: &Summary) -> bool {
        let place = &summary.place;
        let texts = [&summary.name, &place.project, &place.image, &place.model];
        let mut texts = texts.into_iter().flatten();
        texts.any(|text| self.plain.is_match(text.as_bytes()))
    }

    /// What is around the word where it is first shown in the chat FILE; with NAMES, its name counts.
    fn place_in(&self, file: &[u8], names: bool) -> Option<String> {
        let mut from = 0;
        while let Some(hit) = self.raw.find_at(file, from) {
            let start = memchr::memrchr(b'\n', &file[..hit.start()]).map_or(0, |end| end + 1);
            let end = memchr::memchr(b'\n', &file[hit.start()..])
                .map_or(file.len(), |length| hit.start() + length);
            let line = &file[start..end];
            let kind = kind_of(line);
            if (searchable(kind) || names)
                && let ChatLine::Known(stamped) = parse(line)
                && let Some(place) = self.place_in_record(&stamped.record)
            {
                return Some(place);
            }
            from = end;
        }
        None
    }

    fn place_in_record(&self, record: &Record) -> Option<String> {
        shown_texts(record)
            .into_iter()
            .find_map(|text| self.around(&text))
    }

    fn around(&self, text: &str) -> Option<String> {
        let hit = self.plain.find(text.as_bytes())?;
        let mut start = hit.start().saturating_sub(AROUND / 2);
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let excerpt = beginning(&text[start..], AROUND + hit.len());
        Some(excerpt.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// The texts of RECORD that a chat shows.
fn shown_texts(record: &Record) -> Vec<String> {
    match record {
        Record::Turn { text, along, .. } | Record::Steered { text, along } => {
            [vec![text.clone()], along.clone()].concat()
        }
        Record::Text { text } | Record::Reasoning { text } | Record::Notice { text } => {
            vec![text.clone()]
        }
        Record::Name { name } => vec![name.clone()],
        Record::Call {
            tool, arguments, ..
        } => vec![tool.clone(), arguments.clone()],
        Record::Result { content, .. } => vec![content.clone()],
        Record::Place(place) => {
            let texts = [&place.project, &place.image, &place.model];
            texts.into_iter().flatten().cloned().collect()
        }
        _ => Vec::new(),
    }
}
