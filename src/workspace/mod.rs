// SPDX-License-Identifier: GPL-3.0-or-later
//! A chat's place among the user's files: by what paths are judged, what the model last saw of
//! each text, and what its turns changed ([`journal`]). Only state; `crate::builtin` does the work.

pub mod journal;
pub mod quoting;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Deserialize;

use crate::files::fingerprint::{Fingerprint, text_hash};
use crate::files::path::PathPolicy;
use crate::files::private::{DEFAULT_PATTERNS, PrivateFiles};
use crate::files::{FileError, Trouble};
use crate::runtime::held;
use journal::Journal;

/// Where the files of a chat are, as Emacs says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ProjectSettings {
    /// The project's root; none when the chat doesn't say.
    #[serde(rename = "project_root")]
    pub root: Option<String>,
    /// Globs of files that hold secrets; none for the default list.
    #[serde(rename = "private_files")]
    pub private: Option<Vec<String>>,
}

type Judged = Option<Result<Arc<PathPolicy>, FileError>>;

/// What a chat knows of the user's files.
#[derive(Debug, Default)]
pub struct Workspace {
    ground: Mutex<(ProjectSettings, Judged)>,
    seen: Mutex<HashMap<PathBuf, Seen>>,
    pub journal: Journal,
    /// What the model is told with the user's next message.
    news: Mutex<Vec<String>>,
}

/// What is known to have stood at a path.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Of the file's bytes.
    file: Option<Fingerprint>,
    /// Of the text, with plain line ends; see [`text_hash`].
    text: Option<u64>,
    reason: Reason,
}

/// Why something counts as seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Reason {
    /// The model read or wrote it.
    #[default]
    Known,
    /// It is what a change was proposed for; the user answers with that in mind.
    Proposed,
}

/// What stands at a path now.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    pub file: Option<Fingerprint>,
    pub text: u64,
}

impl Workspace {
    /// Takes over where the files are; a policy is made when it is first needed.
    pub fn set_ground(&self, ground: &ProjectSettings) {
        let mut held = held(&self.ground);
        if held.0 != *ground {
            *held = (ground.clone(), None);
        }
    }

    /// By what paths are judged, if that was made already.
    pub fn made_policy(&self) -> Judged {
        held(&self.ground).1.clone()
    }

    /// By what paths are judged; nothing when no root is known yet.
    pub fn policy(&self) -> Judged {
        let mut held = held(&self.ground);
        if held.1.is_none() {
            let root = held.0.root.clone()?;
            held.1 = Some(make_policy(&root, held.0.private.as_deref()));
        }
        held.1.clone()
    }

    /// The files that hold secrets; where the user's list can't be used, all do.
    #[must_use]
    pub fn private_files(&self) -> PrivateFiles {
        let held = held(&self.ground);
        if let Some(Ok(policy)) = &held.1 {
            return policy.private_files().clone();
        }
        let home = std::env::home_dir();
        match &held.0.private {
            Some(patterns) => PrivateFiles::new(patterns, home.as_deref()),
            None => PrivateFiles::new(DEFAULT_PATTERNS, home.as_deref()),
        }
        .unwrap_or_else(|_| PrivateFiles::everything())
    }

    /// Takes over GROUND where no root was known, for calls outside chats.
    ///
    /// # Errors
    ///
    /// There is still none, or it can't be one.
    pub fn settle(&self, ground: &ProjectSettings) -> Result<Arc<PathPolicy>, FileError> {
        if held(&self.ground).0.root.is_none() {
            self.set_ground(ground);
        }
        self.policy().unwrap_or_else(|| {
            Err(FileError::new(
                Trouble::Missing,
                "No project root is known; the user can set agent-q-project-root.",
            ))
        })
    }

    /// Has the model told TEXT with the user's next message.
    pub fn tell_later(&self, text: impl Into<String>) {
        held(&self.news).push(text.into());
    }

    /// The user's message TEXT with what the model was to be told with it.
    #[must_use]
    pub fn with_news(&self, text: String) -> String {
        told_with(text, &std::mem::take(&mut *held(&self.news)))
    }

    /// The user's message TEXT as `with_news` would give it now; the news stay.
    #[must_use]
    pub fn previewed(&self, text: &str) -> String {
        told_with(text.to_owned(), &held(&self.news))
    }

    /// Notes that the model saw the file at PATH as it was then.
    pub fn saw_file(&self, path: &Path, file: Fingerprint) {
        let seen = Seen {
            file: Some(file),
            ..Seen::default()
        };
        held(&self.seen).insert(path.to_owned(), seen);
    }

    /// Notes that the model knows that TEXT stands at PATH.
    pub fn saw_text(&self, path: &Path, text: &str) {
        let seen = Seen {
            text: Some(text_hash(text)),
            ..Seen::default()
        };
        held(&self.seen).insert(path.to_owned(), seen);
    }

    /// Nothing is known of PATH any more.
    pub fn forget(&self, path: &Path) {
        held(&self.seen).remove(path);
    }

    /// Leaves open what the model knows of each text: it may have read them by other means since. What
    /// changes were proposed for stays.
    pub fn forget_what_was_seen(&self) {
        held(&self.seen).retain(|_, seen| seen.reason == Reason::Proposed);
    }

    /// What was known of FROM is now known of TO, and nothing else.
    pub fn moved(&self, from: &Path, to: &Path) {
        let mut seen = held(&self.seen);
        seen.remove(to);
        if let Some(known) = seen.remove(from) {
            seen.insert(to.to_owned(), known);
        }
    }

    /// Notes that a change was proposed to what is at PATH now, unless the model knows more.
    pub fn proposed(&self, path: &Path, now: Now) {
        let mut seen = held(&self.seen);
        let entry = seen.entry(path.to_owned()).or_insert(Seen {
            reason: Reason::Proposed,
            ..Seen::default()
        });
        if entry.reason == Reason::Proposed {
            (entry.file, entry.text) = (now.file, Some(now.text));
        }
    }

    /// Makes sure that what is at PATH, shown as SHOWN, is what the model last saw of it.
    ///
    /// # Errors
    ///
    /// It was changed since.
    pub fn check_seen(&self, path: &Path, shown: &str, now: Now) -> Result<(), FileError> {
        let Some(seen) = held(&self.seen).get(path).copied() else {
            return Ok(());
        };
        let same_file = match (seen.file, now.file) {
            (Some(then), Some(now)) => then.same_content(&now),
            _ => false,
        };
        if same_file || seen.text == Some(now.text) {
            return Ok(());
        }
        let since = match seen.reason {
            Reason::Known => "you last saw it",
            Reason::Proposed => "this change was proposed",
        };
        Err(FileError::new(
            Trouble::Changed,
            format!("'{shown}' was changed since {since}; nothing was done. Read it again first."),
        ))
    }
}

fn make_policy(root: &str, private: Option<&[String]>) -> Result<Arc<PathPolicy>, FileError> {
    let home = std::env::home_dir();
    let (root, home) = (Path::new(root), home.as_deref());
    let policy = match private {
        Some(patterns) => PathPolicy::with_private(root, home, patterns),
        None => PathPolicy::with_private(root, home, DEFAULT_PATTERNS),
    };
    policy.map(Arc::new)
}

fn told_with(text: String, news: &[String]) -> String {
    match news.is_empty() {
        true => text,
        false => format!("{text}\n\n[agent-q: {}]", news.join("\n")),
    }
}
