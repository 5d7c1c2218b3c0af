// SPDX-License-Identifier: GPL-3.0-or-later
//! The audit log: a JSON line for each step of a call that changes something. It is written before
//! the call runs, so that even a call that takes Emacs down has left its trace.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::protocol::{CallOutcome, Consent, Decider, SessionId};
use crate::runtime::{append_to, held};
use crate::tool::SafetyLevel;

/// An append-only file, or nothing where none is wanted.
#[derive(Debug, Default)]
pub struct AuditLog {
    open: Mutex<Option<File>>,
    path: Option<PathBuf>,
}

/// Why a step could not be written.
#[derive(Debug, thiserror::Error)]
#[error(
    "The audit log {path} can't be written ({source}), and without it nothing runs that changes \
     anything. The user can make its folder writable, or set agent-q-log-file to a file elsewhere \
     and restart Emacs."
)]
pub struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// A step of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Started,
    Finished {
        outcome: CallOutcome,
        elapsed: Duration,
    },
}

/// What is written of a step.
#[derive(Debug)]
pub struct Record<'a> {
    pub session: SessionId,
    pub tool: &'a str,
    pub level: SafetyLevel,
    pub arguments: &'a Value,
    pub consent: Consent,
    pub decided_by: Decider,
    pub step: Step,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    step: &'static str,
    chat: u64,
    tool: &'a str,
    level: &'static str,
    arguments: &'a Value,
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
        }
    }

    /// Why nothing can be written, as far as that is known before there is something to write.
    #[must_use]
    pub fn trouble(&self) -> Option<AuditError> {
        self.write(&[]).err().map(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> AuditError {
        AuditError {
            path: self.path.clone().unwrap_or_default(),
            source,
        }
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
    /// When the line can't be written; the program's own log has that too.
    pub async fn append(self: &Arc<Self>, record: &Record<'_>) -> Result<(), AuditError> {
        let log = Arc::clone(self);
        let line = serde_json::to_vec(&line(record)).map_err(io::Error::from);
        let written = match line {
            Ok(mut line) => {
                line.push(b'\n');
                spawn_blocking(move || log.write(&line))
                    .await
                    .unwrap_or_else(|failure| Err(io::Error::other(failure)))
            }
            Err(error) => Err(error),
        };
        written.map_err(|source| {
            tracing::error!("the audit log could not be written: {source}");
            self.failed(source)
        })
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut open = held(&self.open);
        match open.as_mut() {
            Some(file) => file.write_all(bytes),
            None => {
                let mut file = append_to(path)?;
                file.write_all(bytes)?;
                *open = Some(file);
                Ok(())
            }
        }
    }

    /// Makes sure that what was appended is on the disk.
    pub fn sync(&self) {
        if let Some(file) = held(&self.open).as_ref()
            && let Err(error) = file.sync_data()
        {
            tracing::error!("the audit log could not be synced: {error}");
        }
    }
}

fn line<'a>(record: &'a Record<'a>) -> Line<'a> {
    let (step, outcome, milliseconds) = match record.step {
        Step::Started => ("started", None, None),
        Step::Finished { outcome, elapsed } => (
            "finished",
            Some(outcome.name()),
            Some(elapsed.as_millis().try_into().unwrap_or(u64::MAX)),
        ),
    };
    Line {
        time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        step,
        chat: record.session.0,
        tool: record.tool,
        level: record.level.name(),
        arguments: record.arguments,
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
