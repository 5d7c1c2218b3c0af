// SPDX-License-Identifier: GPL-3.0-or-later
//! Putting files and buffers back as they were before a turn, and undoing that. What is put back is
//! noted as a turn of the rewind's number, so that it can be undone as any turn can.

use super::change::load;
use super::moves::on_disk;
use super::undo::{back, changed_since, live, put_back};
use crate::tool::ToolFailure;
use crate::tool::work::WorkContext;
use crate::workspace::journal::{ChangedPlace, ContentState, JournalEntry, NumberedTurn};

/// What going back would do to files and buffers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FilesSurvey {
    /// What would be put back, as people know it.
    pub places: Vec<String>,
    /// Why something can't be, a sentence each.
    pub lost: Vec<String>,
}

/// What was done to files and buffers.
#[derive(Debug, Default)]
pub struct FilesPutBack {
    /// A line for each.
    pub done: Vec<String>,
    pub left: Vec<String>,
}

/// What going back to before TURN would do.
pub async fn survey(context: &WorkContext, turn: u64) -> FilesSurvey {
    let journal = &context.workspace.journal;
    let mut survey = FilesSurvey::default();
    if let Some(forgotten) = journal.forgotten().filter(|forgotten| *forgotten >= turn) {
        survey.lost.push(format!(
            "What the oldest of these turns (up to number {forgotten}) changed in files is no longer known."
        ));
    }
    let turns = journal.since(turn);
    let mut known: Vec<&ChangedPlace> = Vec::new();
    // Only the latest state of a place can still be there.
    for entry in turns.iter().rev().flat_map(|(_, turn)| turn.iter().rev()) {
        match entry {
            JournalEntry::Moved { from, to, .. } => {
                survey
                    .places
                    .push(format!("{} (moved to {})", from.display(), to.display()));
            }
            JournalEntry::Changed {
                place,
                shown,
                before,
                after,
                ..
            } => {
                if known.contains(&place) {
                    continue;
                }
                known.push(place);
                match stays(context, (place, shown), (before, after), &turns).await {
                    Ok(None) => survey.places.push(shown.clone()),
                    Ok(Some(lines)) => {
                        survey.places.push(shown.clone());
                        survey.lost.push(format!(
                            "'{shown}' was changed since, too: {lines} would stay."
                        ));
                    }
                    Err(failure) => survey.lost.push(failure.to_string()),
                }
            }
        }
    }
    survey
}

/// The lines of PLACE, called SHOWN, that would stay as they are when its change from BEFORE to AFTER is
/// undone. What was moved meanwhile is only looked at when it is its turn.
///
/// # Errors
///
/// All of it would.
async fn stays(
    context: &WorkContext,
    (place, shown): (&ChangedPlace, &str),
    (before, after): (&ContentState, &ContentState),
    turns: &[NumberedTurn],
) -> Result<Option<String>, ToolFailure> {
    let current = match place {
        ChangedPlace::Buffer(name) => live(context, name).await?,
        ChangedPlace::File(path) => {
            let moved = |entry: &JournalEntry| matches!(entry, JournalEntry::Moved { from, to, .. } if from == path || to == path);
            if turns.iter().any(|(_, turn)| turn.iter().any(moved)) {
                return Ok(None);
            }
            let target = context.follow(&path.to_string_lossy()).await?;
            match after {
                ContentState::Text { .. } => load(context, &target).await?,
                ContentState::Absent | ContentState::Bytes(_) => {
                    return match on_disk(context, &target).await?.0.same(after) {
                        true => Ok(None),
                        false => Err(changed_since(shown)),
                    };
                }
            }
        }
    };
    let back = back(shown, before, after, &current)?;
    Ok(back.left.map(|(_, lines)| lines))
}

/// Puts files and buffers back as they were before TURN; the rewind has the number REWIND.
pub async fn rewind(context: &WorkContext, turn: u64, rewind: u64) -> FilesPutBack {
    let turns = context.workspace.journal.rewind(turn, rewind);
    let entries = turns.into_iter().flat_map(|(_, turn)| turn).collect();
    put_all_back(context, entries, Inverse::Noted).await
}

/// Undoes the rewind of the number REWIND, as far as nothing was changed since.
///
/// # Errors
///
/// Something else was changed since, a sentence.
pub async fn unwind(context: &WorkContext, rewind: u64) -> Result<FilesPutBack, String> {
    let journal = &context.workspace.journal;
    let latest = journal.last_number();
    if latest.is_some_and(|latest| latest > rewind) {
        return Err("Files were changed since, so the rewind can't be undone any more.".to_owned());
    }
    let mut put_back = FilesPutBack::default();
    if latest == Some(rewind) {
        let turn = journal.last().unwrap_or_default();
        put_back = put_all_back(context, turn, Inverse::Forgotten).await;
        journal.undone(Vec::new());
    }
    journal.unwind(rewind);
    Ok(put_back)
}

/// Whether the journal gets what undoes an undoing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inverse {
    Noted,
    Forgotten,
}

/// Puts back what ENTRIES changed, the last first.
async fn put_all_back(
    context: &WorkContext,
    entries: Vec<JournalEntry>,
    inverse: Inverse,
) -> FilesPutBack {
    let journal = &context.workspace.journal;
    let mut result = FilesPutBack::default();
    for entry in entries.into_iter().rev() {
        // Noted before it is done, as each change is.
        let was = match inverse {
            Inverse::Noted => Some(journal.record(inverted(&entry))),
            Inverse::Forgotten => None,
        };
        match put_back(context, &entry).await {
            Ok(put) => result.done.push(put.line),
            Err(failure) => {
                if let Some(was) = was {
                    journal.take_back(was);
                }
                result.left.push(failure.to_string());
            }
        }
    }
    result
}

/// What undoes the undoing of ENTRY.
fn inverted(entry: &JournalEntry) -> JournalEntry {
    match entry.clone() {
        JournalEntry::Moved { from, to, folders } => JournalEntry::Moved {
            from: to,
            to: from,
            folders,
        },
        JournalEntry::Changed {
            place,
            shown,
            before,
            after,
            mode,
            disk,
            folders,
        } => JournalEntry::Changed {
            place,
            shown,
            before: after,
            after: before,
            mode,
            disk,
            folders,
        },
    }
}
