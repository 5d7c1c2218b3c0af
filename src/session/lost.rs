// SPDX-License-Identifier: GPL-3.0-or-later
//! The results of calls that a chat's last Emacs took with it when it went away in the middle of a turn: as
//! far as they were written down, else that nothing is known.

use crate::chats::entry::{EntryContent, StoredEntry};
use crate::chats::record::{Record, Stamped};
use crate::protocol::{CallOutcome, ToolCall};
use crate::provider::ChatMessage;
use crate::provider::history::calls_of;
use crate::trust::fence::{draw, fence};
use crate::trust::{Provenance, Source};

use super::conversation::{Conversation, Entry, EntryId};

/// What is said of a call whose result is not known.
const UNKNOWN: &str =
    "Emacs went away while this call waited or ran; whether it was done is not known.";

/// The calls with which HISTORY ends and the entry that has them; none when it ends otherwise.
#[must_use]
pub fn unanswered(history: &Conversation) -> Option<(EntryId, Vec<ToolCall>)> {
    let live = history.live();
    let last = live.messages.last()?;
    match last.message()?.as_ref() {
        ChatMessage::Assistant { parts, .. } => {
            let calls: Vec<ToolCall> = calls_of(parts).cloned().collect();
            (!calls.is_empty()).then_some((last.id, calls))
        }
        _ => None,
    }
}

/// The results of CALLS, which the message ENTRY has, by what was RECORDED of its turn.
#[must_use]
pub fn lost_results(entry: EntryId, calls: &[ToolCall], recorded: &[Stamped]) -> Vec<ChatMessage> {
    let mut after = recorded.iter().map(|it| &it.record);
    let is_entry = |record: &Record| match record {
        Record::Entry {
            entry: StoredEntry::Known(Entry { id, what, .. }),
        } => *id == entry && matches!(what, EntryContent::Message(_)),
        _ => false,
    };
    after.by_ref().find(|record| is_entry(record));
    let after: Vec<&Record> = after.collect();
    // All of them are proposed at once, before anything else is.
    let mut keys = after.iter().filter_map(|record| match record {
        Record::Call { call, .. } => Some(*call),
        _ => None,
    });
    let results = calls.iter().map(|call| {
        let key = keys.next();
        let result = after.iter().find_map(|record| match record {
            Record::Result {
                call,
                outcome,
                content,
                ..
            } if Some(*call) == key => Some((*outcome, content)),
            _ => None,
        });
        let (outcome, content) = match result {
            Some((outcome, content)) => (outcome, told(&call.name, outcome, content)),
            None => (CallOutcome::Cancelled, format!("Error: {UNKNOWN}")),
        };
        ChatMessage::Tool {
            call_id: call.id.clone(),
            content,
            outcome,
        }
    });
    results.collect()
}

/// CONTENT, what a call of TOOL gave, for the model. Where it came from was not written down, so all of it is
/// fenced.
fn told(tool: &str, outcome: CallOutcome, content: &str) -> String {
    let source = Source {
        what: format!("the stored result of {tool}"),
        provenance: Provenance::Own,
    };
    let fenced = fence(content, &source, draw());
    match outcome {
        CallOutcome::Succeeded => fenced,
        CallOutcome::Failed | CallOutcome::Denied | CallOutcome::Cancelled => {
            format!("Error:\n{fenced}")
        }
    }
}
