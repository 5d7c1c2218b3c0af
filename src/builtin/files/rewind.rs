// SPDX-License-Identifier: GPL-3.0-or-later
//! Putting files and buffers back as they were before a turn, and undoing that. What is put back is
//! noted as a turn of the rewind's number, so that it can be undone as any turn can.

use super::change::load;
use super::moves::on_disk;
use super::undo::{
    Agreed, FilesPutBack, Inverse, at, back, changed_since, live, put_all_back, same_buffer,
};
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

/// What going back to before TURN would do.
pub async fn survey(context: &WorkContext, turn: u64) -> FilesSurvey {
    let journal = &context.workspace.journal;
    let mut survey = FilesSurvey::default();
    if let Some(forgotten) = journal.forgotten().filter(|forgotten| *forgotten >= turn) {
        survey.lost.push(format!(
            "File changes up to turn {forgotten} are no longer on record."
        ));
    }
    let turns = journal.since(turn);
    let mut known: Vec<&ChangedPlace> = Vec::new();
    // Only the latest state of a place can still be there.
    for entry in turns.iter().rev().flat_map(|(_, turn)| turn.iter().rev()) {
        match entry {
            JournalEntry::Moved { from, to, .. } => {
                match (at(context, from).await, at(context, to).await) {
                    (Ok(from), Ok(to)) => {
                        let moved = format!("{} (moved to {})", from.listed(), to.listed());
                        survey.places.push(moved);
                    }
                    (Err(failure), _) | (_, Err(failure)) => survey.lost.push(failure.to_string()),
                }
            }
            JournalEntry::Changed {
                place,
                before,
                after,
                ..
            } => {
                if known.contains(&place) {
                    continue;
                }
                known.push(place);
                match stays(context, place, (before, after), &turns).await {
                    Ok((shown, None)) => survey.places.push(shown),
                    Ok((shown, Some(lines))) => {
                        survey.lost.push(format!(
                            "'{shown}' was changed since, too: {lines} would stay."
                        ));
                        survey.places.push(shown);
                    }
                    Err(failure) => survey.lost.push(failure.to_string()),
                }
            }
        }
    }
    survey
}

/// What PLACE is called, and the lines of it that would stay as they are when its change from BEFORE to
/// AFTER is undone. What was moved meanwhile is only looked at when it is its turn.
///
/// # Errors
///
/// All of it would.
async fn stays(
    context: &WorkContext,
    place: &ChangedPlace,
    (before, after): (&ContentState, &ContentState),
    turns: &[NumberedTurn],
) -> Result<(String, Option<String>), ToolFailure> {
    let (shown, current) = match place {
        ChangedPlace::Buffer(name) => {
            same_buffer(context, name)?;
            (name.clone(), live(context, name).await?)
        }
        ChangedPlace::File(path) => {
            let moved = |entry: &JournalEntry| matches!(entry, JournalEntry::Moved { from, to, .. } if from == path || to == path);
            let here = at(context, path).await?;
            let shown = here.listed();
            if turns.iter().any(|(_, turn)| turn.iter().any(moved)) {
                return Ok((shown, None));
            }
            match after {
                ContentState::Text { .. } => (shown, load(context, &here.target).await?),
                ContentState::Absent | ContentState::Bytes(_) => {
                    return match on_disk(context, &here.target).await?.0.same(after) {
                        true => Ok((shown, None)),
                        false => Err(changed_since(&shown)),
                    };
                }
            }
        }
    };
    let back = back(&shown, before, after, &current)?;
    Ok((shown, back.left.map(|(_, lines)| lines)))
}

/// Puts files and buffers back as they were before TURN; the rewind has the number REWIND.
pub async fn rewind(context: &WorkContext, turn: u64, rewind: u64) -> FilesPutBack {
    let journal = &context.workspace.journal;
    let turns = journal.since(turn).into_iter();
    let entries: Vec<JournalEntry> = turns.flat_map(|(_, turn)| turn).collect();
    let agreed = Agreed::of(context, &entries).await;
    journal.rewind(turn, rewind);
    put_all_back(context, entries, &agreed, Inverse::Noted).await
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
    if latest == Some(rewind) && journal.has_rewound(rewind) {
        let turn = journal.last().unwrap_or_default();
        let agreed = Agreed::of(context, &turn).await;
        put_back = put_all_back(context, turn, &agreed, Inverse::Forgotten).await;
        journal.undone(Vec::new());
    }
    journal.unwind(rewind);
    Ok(put_back)
}
