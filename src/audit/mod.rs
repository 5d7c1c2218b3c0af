// SPDX-License-Identifier: GPL-3.0-or-later
//! The audit log: a JSON line for each step of a call that changes something. It is written before
//! the call runs, so that even a call that takes Emacs down has left its trace.

mod shortened;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::host::Host;
use crate::log::append_to;
use crate::protocol::{CallOutcome, Consent, Decider, Event, SessionId};
use crate::runtime::held;
use crate::trust::SafetyLevel;
use shortened::shortened;

/// An append-only file, or nothing where none is wanted.
#[derive(Debug, Default)]
pub struct AuditLog {
    open: Mutex<Option<File>>,
    path: Option<PathBuf>,
    /// Whether the user knows that lines are missing.
    told: AtomicBool,
    /// Whether what was appended may not be on the disk yet.
    unsynced: AtomicBool,
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
        elapsed: Duration,
    },
}

/// What is written of a step.
#[derive(Debug)]
pub struct AuditRecord<'a> {
    pub session: SessionId,
    /// The program that calls; none in chats.
    pub client: Option<&'a str>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
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
        }
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
        let line = serde_json::to_vec(&line(record)).map_err(io::Error::from);
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
    pub fn tell_once(&self, failure: &AuditFailure, host: &dyn Host) {
        if !self.told.swap(true, Ordering::Relaxed) {
            let AuditFailure { path, source } = failure;
            host.emit(Event::Trouble {
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

fn line<'a>(record: &'a AuditRecord<'a>) -> AuditLine<'a> {
    let (step, outcome, milliseconds) = match record.step {
        AuditStep::Started => ("started", None, None),
        AuditStep::Finished { outcome, elapsed } => (
            "finished",
            Some(outcome.name()),
            Some(elapsed.as_millis().try_into().unwrap_or(u64::MAX)),
        ),
    };
    AuditLine {
        time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        step,
        chat: record.session.0,
        client: record.client,
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
