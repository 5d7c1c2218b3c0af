// SPDX-License-Identifier: GPL-3.0-or-later
//! The audit log: a JSON line for each step of a call that changes something. It is written before
//! the call runs, so that even a call that takes Emacs down has left its trace.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::log::append_to;
use crate::protocol::Emacs;
use crate::protocol::{CallOutcome, Consent, Decider, Event, SessionId};
use crate::runtime::held;
use crate::trust::SafetyLevel;

/// An append-only file, or nothing where none is wanted.
#[derive(Debug, Default)]
pub struct AuditLog {
    open: Mutex<Option<File>>,
    path: Option<PathBuf>,
    /// Whether the user knows that lines are missing.
    told: AtomicBool,
    /// Whether what was appended may not be on the disk yet.
    unsynced: AtomicBool,
    /// The ids of the chats that are saved.
    chats: Mutex<HashMap<SessionId, String>>,
}

/// Why a step of a call is not in the log.
#[derive(Debug, thiserror::Error)]
#[error(
    "The call was not run, because the audit log {path} can't be written: {source}. Make room for it, then try again."
)]
pub struct AuditFailure {
    path: String,
    source: io::Error,
}

/// A step of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditStep {
    Started,
    Finished {
        outcome: CallOutcome,
        /// How long it ran; none where it did not.
        ran: Option<Duration>,
    },
}

/// What is written of a step.
#[derive(Debug)]
pub struct AuditRecord<'a> {
    pub session: SessionId,
    /// The turn that it is of; 0 outside of turns.
    pub turn: u64,
    /// The program that calls; none in chats.
    pub mcp_client: Option<&'a str>,
    pub tool: &'a str,
    pub level: SafetyLevel,
    pub arguments: &'a Value,
    pub consent: Consent,
    pub decided_by: Decider,
    pub step: AuditStep,
}

#[derive(Serialize)]
struct AuditLine<'a> {
    time: String,
    step: &'static str,
    chat: u64,
    /// By which the chat is found again, in any Emacs.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_as: Option<String>,
    turn: u64,
    #[serde(rename = "client", skip_serializing_if = "Option::is_none")]
    mcp_client: Option<&'a str>,
    tool: &'a str,
    level: &'static str,
    arguments: Cow<'a, Value>,
    decision: Consent,
    decided_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<u64>,
}

impl AuditLog {
    /// The log at PATH, readable by its owner alone. Where it can't be opened, that is tried again
    /// with each step; [`AuditLog::trouble`] says why.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self {
            open: Mutex::new(append_to(path).ok()),
            path: Some(path.to_owned()),
            told: AtomicBool::new(false),
            unsynced: AtomicBool::new(false),
            chats: Mutex::default(),
        }
    }

    /// Notes that SESSION is saved under ID, or no longer open.
    pub fn note_chat(&self, session: SessionId, id: Option<String>) {
        let mut chats = held(&self.chats);
        match id {
            Some(id) => chats.insert(session, id),
            None => chats.remove(&session),
        };
    }

    /// Why nothing can be written, for the user, as far as that is known before there is something
    /// to write.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        let source = opened(&mut held(&self.open), path).err()?;
        Some(format!(
            "The audit log {} can't be written: {source}. Until it can, nothing runs that changes anything. Make its folder writable, or set agent-q-log-file to a file elsewhere and restart Emacs.",
            path.display()
        ))
    }

    /// The file, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Appends RECORD as one line, which is written when this is over. A slow disk holds up
    /// nothing else.
    ///
    /// # Errors
    ///
    /// When the line could not be written whole.
    pub async fn append(self: &Arc<Self>, record: &AuditRecord<'_>) -> Result<(), AuditFailure> {
        let log = Arc::clone(self);
        let saved_as = held(&self.chats).get(&record.session).cloned();
        let line = serde_json::to_vec(&line(record, saved_as)).map_err(io::Error::from);
        let written = match line {
            Ok(line) => spawn_blocking(move || log.write(line))
                .await
                .unwrap_or_else(|failure| Err(io::Error::other(failure))),
            Err(error) => Err(error),
        };
        written.map_err(|source| {
            tracing::error!("the audit log could not be written: {source}");
            AuditFailure {
                path: self
                    .path()
                    .map_or_else(String::new, |path| path.display().to_string()),
                source,
            }
        })
    }

    /// Tells the user, the first time, that the log lacks a step because of FAILURE.
    pub fn tell_once(&self, failure: &AuditFailure, emacs: &dyn Emacs) {
        if !self.told.swap(true, Ordering::Relaxed) {
            let AuditFailure { path, source } = failure;
            emacs.emit(Event::Trouble {
                message: format!(
                    "A line is missing in the audit log {path}, which can't be written: {source}. Calls that change anything don't run until there is room."
                ),
            });
        }
    }

    fn write(&self, mut line: Vec<u8>) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        line.push(b'\n');
        let mut open = held(&self.open);
        let file = opened(&mut open, path)?;
        // A line that another program, or a full disk, left torn must not take this one along.
        if is_torn(file)? {
            line.insert(0, b'\n');
        }
        self.unsynced.store(true, Ordering::Relaxed);
        file.write_all(&line)
    }

    /// Makes sure that what was appended is on the disk.
    pub fn sync(&self) {
        if !self.unsynced.swap(false, Ordering::Relaxed) {
            return;
        }
        if let Some(file) = held(&self.open).as_ref()
            && let Err(error) = file.sync_data()
        {
            self.unsynced.store(true, Ordering::Relaxed);
            tracing::error!("the audit log could not be synced: {error}");
        }
    }

    /// The same, where a slow disk may hold up nothing else.
    pub async fn sync_aside(self: &Arc<Self>) {
        if self.unsynced.load(Ordering::Relaxed) {
            let log = Arc::clone(self);
            // One that panics has said so in the log.
            let _ = spawn_blocking(move || log.sync()).await;
        }
    }
}

/// The file in OPEN, which is opened at PATH if there is none.
fn opened<'a>(open: &'a mut Option<File>, path: &Path) -> io::Result<&'a mut File> {
    match open {
        Some(file) => Ok(file),
        None => Ok(open.insert(append_to(path)?)),
    }
}

/// Whether FILE ends in the middle of a line.
fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != [b'\n'])
}

fn line<'a>(record: &'a AuditRecord<'a>, saved_as: Option<String>) -> AuditLine<'a> {
    let (step, outcome, milliseconds) = match record.step {
        AuditStep::Started => ("started", None, None),
        AuditStep::Finished { outcome, ran } => (
            "finished",
            Some(outcome.name()),
            ran.map(|ran| ran.as_millis().try_into().unwrap_or(u64::MAX)),
        ),
    };
    AuditLine {
        time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        step,
        chat: record.session.0,
        saved_as,
        turn: record.turn,
        mcp_client: record.mcp_client,
        tool: record.tool,
        level: record.level.name(),
        arguments: shortened(record.arguments),
        decision: record.consent,
        decided_by: record.decided_by.name(),
        rule: match record.decided_by {
            Decider::Rule(rule) => Some(rule),
            Decider::Level | Decider::Nobody | Decider::User | Decider::Handler => None,
        },
        outcome,
        milliseconds,
    }
}

// Arguments as the audit log has them: long ones are cut, with a mark of how much is missing. The
// log is read long after, and one call must not fill it.

/// The most bytes of one text.
const LONGEST_TEXT: usize = 4 * 1024;

/// About how many bytes the arguments of a call take.
const ROOM: usize = 16 * 1024;

/// ARGUMENTS, cut where they are longer than the log takes.
fn shortened(arguments: &Value) -> Cow<'_, Value> {
    // What can't be told without writing it all is told by a writer that only counts.
    if written_length(arguments) <= LONGEST_TEXT {
        return Cow::Borrowed(arguments);
    }
    let mut room = ROOM;
    Cow::Owned(cut(arguments, &mut room))
}

/// VALUE within ROOM bytes, which get less by what it takes.
fn cut(value: &Value, room: &mut usize) -> Value {
    *room = room.saturating_sub(3);
    match value {
        Value::String(text) => Value::String(cut_text(text, room)),
        Value::Array(elements) => {
            let mut kept = Vec::new();
            for element in elements {
                if *room == 0 {
                    kept.push(Value::String(missing(
                        elements.len() - kept.len(),
                        "elements",
                    )));
                    break;
                }
                kept.push(cut(element, room));
            }
            Value::Array(kept)
        }
        Value::Object(members) => {
            let mut kept = Map::new();
            for (name, member) in members {
                if *room == 0 {
                    let left_out = members.len() - kept.len();
                    kept.insert("…".to_owned(), missing(left_out, "members").into());
                    break;
                }
                let name = cut_text(name, room);
                kept.insert(name, cut(member, room));
            }
            Value::Object(kept)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            *room = room.saturating_sub(8);
            value.clone()
        }
    }
}

/// TEXT, or its beginning and how much there is.
fn cut_text(text: &str, room: &mut usize) -> String {
    let longest = LONGEST_TEXT.min(*room);
    // Its quotes, too.
    *room = room.saturating_sub(text.len().min(longest) + 3);
    if text.len() <= longest {
        return text.to_owned();
    }
    let end = (0..=longest)
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    format!("{}{}", &text[..end], missing(text.len() - end, "bytes"))
}

fn missing(count: usize, of_what: &str) -> String {
    format!("[… {count} more {of_what} left out …]")
}

/// How many bytes VALUE takes as JSON.
fn written_length(value: &Value) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // What can't be written is long for our purpose.
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_short_stays_as_it_is() {
        let given = json!({"form": "(+ 1 2)", "seconds": 3, "all": [true, null]});
        assert_eq!(*shortened(&given), given);
    }

    #[test]
    fn a_long_text_says_how_much_is_missing() {
        let given = json!({"path": "a.lisp", "content": "ä".repeat(3_000_000), "last": 1});
        let short = shortened(&given);
        assert!(written_length(&short) < 2 * LONGEST_TEXT);
        assert_eq!(short["path"], "a.lisp");
        assert_eq!(short["last"], 1);
        let content = short["content"].as_str().unwrap();
        assert!(content.starts_with("ää"), "{content}");
        assert!(
            content.ends_with("[… 5995904 more bytes left out …]"),
            "{content}"
        );
    }

    #[test]
    fn many_short_parts_are_bounded_too() {
        let members: Map<String, Value> = (0..100_000)
            .map(|it| (format!("name {it}"), json!([it, {"deep": "x".repeat(100)}])))
            .collect();
        for given in [
            Value::Object(members),
            json!({"list": vec!["some text"; 100_000]}),
            json!({"list": vec![json!([]); 1_000_000]}),
            json!({"list": vec![1; 1_000_000]}),
        ] {
            let text = shortened(&given).to_string();
            assert!(text.len() < 3 * ROOM, "{} bytes", text.len());
            assert!(text.contains("left out"), "{}", &text[..200]);
        }
    }
}
