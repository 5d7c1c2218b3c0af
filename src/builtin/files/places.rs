// SPDX-License-Identifier: GPL-3.0-or-later
//! The places that undoing writes to. Each is judged at that moment, as for any write: it is what its
//! name says, and the user is asked about one that is outside the project or private.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::files::path::Resolved;
use crate::tool::ToolFailure;
use crate::tool::work::{WorkContext, parse_answer};
use crate::workspace::journal::{ChangedPlace, JournalEntry};

/// How many places a question names.
const IN_A_QUESTION: usize = 5;

/// A place, and why any write there asks, a sentence.
pub(super) struct WritePlace {
    pub target: Resolved,
    concern: Option<String>,
}

impl WritePlace {
    /// Its name for a list of what would be written.
    pub fn listed(&self) -> String {
        match self.concern {
            Some(_) => format!("{} (asks first)", self.target.shown()),
            None => self.target.shown(),
        }
    }
}

/// What is at PATH now.
///
/// # Errors
///
/// It can't be used, or leads elsewhere.
pub(super) async fn at(context: &WorkContext, path: &Path) -> Result<WritePlace, ToolFailure> {
    let (policy, given) = (context.policy().await?, path.to_string_lossy().into_owned());
    let place = context.on_a_thread(move |_| {
        let verdict = policy.judge(&given);
        let concern = verdict.concern();
        let target = verdict.resolved()?;
        Ok(WritePlace { target, concern })
    });
    let place = place.await?;
    match place.target.path == path {
        true => Ok(place),
        false => Err(ToolFailure::new(format!(
            "'{}' leads to '{}' now, so it was left as it is.",
            path.display(),
            place.target.path.display()
        ))),
    }
}

/// Makes sure that the buffer NAME is the one that the chat changed.
///
/// # Errors
///
/// It was changed in another Emacs.
pub(super) fn same_buffer(context: &WorkContext, name: &str) -> Result<(), ToolFailure> {
    match context.workspace.journal.has_changed_buffer(name) {
        true => Ok(()),
        false => Err(ToolFailure::new(format!(
            "The buffer {name} was changed in another Emacs, so the one of that name was left as it is."
        ))),
    }
}

/// The places that may be written though they ask.
#[derive(Default)]
pub(super) struct Agreed(HashSet<PathBuf>);

impl Agreed {
    /// Asks the user about those places of ENTRIES of which any write asks.
    pub async fn of(context: &WorkContext, entries: &[JournalEntry]) -> Self {
        let mut asked: Vec<(PathBuf, String)> = Vec::new();
        for path in entries.iter().flat_map(paths) {
            if asked.iter().any(|(known, _)| known == path) {
                continue;
            }
            if let Ok(WritePlace {
                concern: Some(concern),
                ..
            }) = at(context, path).await
            {
                asked.push((path.to_owned(), concern));
            }
        }
        let mut agreed = HashSet::new();
        for some in asked.chunks(IN_A_QUESTION) {
            let concerns: Vec<&str> = some.iter().map(|(_, concern)| concern.as_str()).collect();
            let question = json!({"concerns": concerns});
            let answer = context.ask_emacs("may-put-back", question).await;
            if answer.is_ok_and(|answer| parse_answer(&answer).unwrap_or(false)) {
                agreed.extend(some.iter().map(|(path, _)| path.clone()));
            }
        }
        Self(agreed)
    }

    /// Where PATH is, which is to be written.
    ///
    /// # Errors
    ///
    /// It can't be used, leads elsewhere, or the user has not agreed to it.
    pub async fn at(&self, context: &WorkContext, path: &Path) -> Result<Resolved, ToolFailure> {
        let place = at(context, path).await?;
        match place.concern {
            Some(concern) if !self.0.contains(path) => {
                Err(ToolFailure::new(format!("{concern} It was left as it is.")))
            }
            _ => Ok(place.target),
        }
    }
}

fn paths(entry: &JournalEntry) -> Vec<&Path> {
    match entry {
        JournalEntry::Moved { from, to, .. } => vec![to, from],
        JournalEntry::Changed {
            place: ChangedPlace::File(path),
            ..
        } => vec![path],
        JournalEntry::Changed {
            place: ChangedPlace::Buffer(_),
            ..
        } => Vec::new(),
    }
}
