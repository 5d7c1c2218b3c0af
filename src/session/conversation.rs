// SPDX-License-Identifier: GPL-3.0-or-later
//! The conversation of a chat: a log of entries that only grows. What the model reads is derived from it,
//! so that compacting, trimming and taking back lose nothing and can be undone, and a store can keep all.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub use crate::chats::record::{Again, Entry, EntryContent, EntryId, TurnNumber};

use crate::chats::record::{Record, Stamped, StoredEntry};
use crate::protocol::{CallOutcome, ToolCall};
use crate::provider::history::calls_of;
use crate::provider::{ChatMessage, Messages, Said};
use crate::trust::{Provenance, Source, draw, fence};

/// With which entry of the conversation a turn begins, or would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    pub turn: u64,
    pub entry: EntryId,
}

/// Learns of each entry that a conversation gets, in their order.
pub trait Observer: Send {
    fn appended(&mut self, entry: &Entry);
}

/// A chat's log.
#[derive(Default)]
pub struct Conversation {
    entries: Vec<Entry>,
    turn: TurnNumber,
    observer: Option<Box<dyn Observer>>,
}

/// The entries that count: what was taken back or rewound is left out, and so are compactions and trims that
/// were undone.
#[derive(Debug, Clone, PartialEq)]
pub struct Live<'a> {
    /// Messages, as they were.
    pub messages: Vec<&'a Entry>,
    /// The compaction that holds.
    pub compaction: Option<&'a Entry>,
    /// How many bytes the model gets of the results that are trimmed.
    pub trimmed: HashMap<EntryId, (usize, Again)>,
}

impl Conversation {
    /// The conversation that ENTRIES tell. Entries out of order are left out.
    #[must_use]
    pub fn restored(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut conversation = Self::default();
        for entry in entries {
            if entry.id >= conversation.next_id() {
                conversation.turn = conversation.turn.max(entry.turn);
                conversation.entries.push(entry);
            }
        }
        conversation
    }

    /// Has OBSERVER learn of what is added from now on.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    #[must_use]
    pub fn entry(&self, id: EntryId) -> Option<&Entry> {
        let index = self.entries.binary_search_by_key(&id, |entry| entry.id);
        index.ok().map(|index| &self.entries[index])
    }

    /// The turn that began last.
    #[must_use]
    pub fn turn(&self) -> TurnNumber {
        self.turn
    }

    /// Begins a turn, to which what is added then belongs.
    pub fn begin_turn(&mut self) -> TurnNumber {
        self.turn.0 += 1;
        self.turn
    }

    /// Adds the user's message, which the model reads as SAID and the chat shows as SHOWN.
    pub fn ask(&mut self, said: impl Into<Said>, shown: &str) -> EntryId {
        let said = said.into();
        let shown = (shown != said.text).then(|| shown.to_owned());
        let message = Arc::new(ChatMessage::User(said));
        self.append(EntryContent::Asked { message, shown })
    }

    /// The number of the user's latest message, if the chat shows it as SHOWN, and what the model was to read of
    /// it. It may not count any more.
    #[must_use]
    pub fn asked_last(&self, shown: &str) -> Option<(EntryId, Said)> {
        let latest = self.entries.iter().rev();
        let (id, message, as_shown) = latest
            .filter_map(|entry| match &entry.what {
                EntryContent::Asked { message, shown } => Some((entry.id, message, shown)),
                _ => None,
            })
            .next()?;
        match message.as_ref() {
            ChatMessage::User(said) if as_shown.as_ref().unwrap_or(&said.text) == shown => {
                Some((id, said.clone()))
            }
            _ => None,
        }
    }

    /// The user's messages, as the model was to read them.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match &entry.what {
            EntryContent::Asked { message, .. } => match message.as_ref() {
                ChatMessage::User(said) => Some(said.text.as_str()),
                _ => None,
            },
            _ => None,
        })
    }

    /// Whether the message ID is the last one that counts, so nothing answers it.
    #[must_use]
    pub fn ends_with(&self, id: EntryId) -> bool {
        self.live()
            .messages
            .last()
            .is_some_and(|last| last.id == id)
    }

    /// Adds an answer or a result.
    pub fn add(&mut self, message: ChatMessage) -> EntryId {
        self.append(EntryContent::Message(Arc::new(message)))
    }

    /// Adds what happened. The number of its entry is the greatest so far.
    pub fn append(&mut self, what: EntryContent) -> EntryId {
        let (id, turn) = (self.next_id(), self.turn);
        let entry = Entry { id, turn, what };
        if let Some(observer) = &mut self.observer {
            observer.appended(&entry);
        }
        self.entries.push(entry);
        id
    }

    /// The number that the next entry gets.
    #[must_use]
    pub fn next_id(&self) -> EntryId {
        EntryId(self.entries.last().map_or(1, |entry| entry.id.0 + 1))
    }

    /// What counts of it.
    #[must_use]
    pub fn live(&self) -> Live<'_> {
        let (mut undone, mut floor) = (BTreeSet::new(), None);
        // Backwards, as what comes later decides about what came before.
        let mut entries: Vec<&Entry> = Vec::with_capacity(self.entries.len());
        for entry in self.entries.iter().rev() {
            if floor.is_some_and(|floor| entry.id >= floor) {
                continue;
            }
            match entry.what {
                EntryContent::Undone(id) if !undone.contains(&entry.id) => {
                    undone.insert(id);
                }
                EntryContent::TakenBack { from } => floor = Some(from),
                EntryContent::Rewind { from } if !undone.contains(&entry.id) => floor = Some(from),
                _ if undone.contains(&entry.id) => {}
                _ => entries.push(entry),
            }
        }
        entries.reverse();
        let mut live = Live {
            messages: Vec::with_capacity(entries.len()),
            compaction: None,
            trimmed: HashMap::new(),
        };
        for entry in entries {
            match &entry.what {
                EntryContent::Asked { .. } | EntryContent::Message(_) => live.messages.push(entry),
                EntryContent::Compaction { .. } => live.compaction = Some(entry),
                EntryContent::Trim {
                    results,
                    kept,
                    again,
                } => {
                    let trimmed = results.iter().map(|id| (*id, (*kept, *again)));
                    live.trimmed.extend(trimmed);
                }
                EntryContent::TakenBack { .. }
                | EntryContent::Rewind { .. }
                | EntryContent::Undone(_) => {}
            }
        }
        live
    }

    /// What the model reads.
    #[must_use]
    pub fn for_model(&self) -> Messages {
        self.live().for_model()
    }

    /// Whether the message ID counts, as it is neither taken back nor rewound.
    #[must_use]
    pub fn holds(&self, id: EntryId) -> bool {
        self.live().messages.iter().any(|entry| entry.id == id)
    }
}

impl<'a> Live<'a> {
    /// The summary that the model reads in place of what is not among [`Self::read`].
    #[must_use]
    pub fn summary(&self) -> Option<&'a str> {
        match &self.compaction?.what {
            EntryContent::Compaction { summary, .. } => Some(summary),
            _ => None,
        }
    }

    /// The messages that the model reads itself.
    #[must_use]
    pub fn read(&self) -> &[&'a Entry] {
        let start = match self.compaction.map(|entry| &entry.what) {
            Some(EntryContent::Compaction { through, .. }) => {
                self.messages.partition_point(|entry| entry.id <= *through)
            }
            _ => 0,
        };
        &self.messages[start..]
    }

    /// The same, as if nothing had been said after the message THROUGH.
    #[must_use]
    pub fn until(mut self, through: EntryId) -> Self {
        self.messages.retain(|entry| entry.id <= through);
        self
    }

    /// What the model reads.
    #[must_use]
    pub fn for_model(&self) -> Messages {
        let mut messages = Messages::default();
        let mut read = self.read().iter().copied();
        if let Some(summary) = self.summary() {
            // Some templates of local models take no two messages of the user's in a row.
            let first = read
                .clone()
                .next()
                .and_then(Entry::message)
                .map(AsRef::as_ref);
            let said = match first {
                Some(ChatMessage::User(said)) => {
                    read.next();
                    Said {
                        text: format!("{summary}\n\n{}", said.text),
                        pictures: said.pictures.clone(),
                    }
                }
                _ => summary.into(),
            };
            messages.push(Arc::new(ChatMessage::User(said)));
        }
        for entry in read {
            if let Some(message) = entry.message() {
                messages.push(self.trimmed_message(entry.id, message));
            }
        }
        messages
    }

    fn trimmed_message(&self, id: EntryId, message: &Arc<ChatMessage>) -> Arc<ChatMessage> {
        let ChatMessage::Tool {
            call_id,
            content,
            outcome,
        } = message.as_ref()
        else {
            return Arc::clone(message);
        };
        match self.trimmed.get(&id) {
            Some((kept, again)) if *kept < content.len() => Arc::new(ChatMessage::Tool {
                call_id: call_id.clone(),
                content: trimmed(content, *kept, *again, id),
                outcome: *outcome,
            }),
            _ => Arc::clone(message),
        }
    }
}

/// The first KEPT bytes of CONTENT, the result ID, and a word on the rest.
fn trimmed(content: &str, kept: usize, again: Again, id: EntryId) -> String {
    let end = (0..=kept.min(content.len()))
        .rev()
        .find(|&index| content.is_char_boundary(index))
        .unwrap_or(0);
    let how = match again {
        Again::ReadResult => format!("read_result with number {} shows all of it", id.0),
        Again::Call => "make the call again to see it".to_owned(),
    };
    format!(
        "{}\n[… {} bytes of this old result were left out to save space; {how} …]",
        &content[..end],
        content.len() - end,
    )
}

// The results of calls that were lost when Emacs went away in the middle of a turn: as far as they were
// recorded, else that nothing is known.

/// What is said of a call whose result is not known.
const UNKNOWN: &str =
    "Emacs went away while this call waited or ran; whether it was done is not known.";

/// The calls with which HISTORY ends and the entry that has them; none when it ends otherwise.
#[must_use]
pub fn without_results(history: &Conversation) -> Option<(EntryId, Vec<ToolCall>)> {
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
    // All of them are proposed at once; meanwhile calls in the background may make some.
    let mut keys = after.iter().filter_map(|record| match record {
        Record::Call {
            call, after: None, ..
        } => Some(*call),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(texts: &[&str]) -> Conversation {
        let mut conversation = Conversation::default();
        for text in texts {
            conversation.begin_turn();
            conversation.ask((*text).to_owned(), text);
        }
        conversation
    }

    fn read(conversation: &Conversation) -> Vec<String> {
        let messages = conversation.for_model();
        messages
            .iter()
            .map(|message| match message {
                ChatMessage::User(said) => said.text.clone(),
                ChatMessage::Tool { content, .. } => content.clone(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_summary_stands_for_what_came_before_and_can_be_undone() {
        let mut it = conversation(&["a", "b", "c"]);
        let compaction = |summary: &str, through| EntryContent::Compaction {
            summary: summary.to_owned(),
            through: EntryId(through),
        };
        let first = it.append(compaction("S", 2));
        assert_eq!(read(&it), ["S\n\nc"]);
        it.ask("d".to_owned(), "d");
        let second = it.append(compaction("T", 5));
        assert_eq!(read(&it), ["T"]);
        let undone = it.append(EntryContent::Undone(second));
        assert_eq!(read(&it), ["S\n\nc", "d"]);
        it.append(EntryContent::Undone(first));
        assert_eq!(read(&it), ["a", "b", "c", "d"]);
        it.append(EntryContent::Undone(undone));
        assert_eq!(read(&it), ["T"]);
    }

    #[test]
    fn what_was_rewound_comes_back_when_the_rewind_is_undone() {
        let mut it = conversation(&["a", "b", "c"]);
        let whole = it.append(EntryContent::Compaction {
            summary: "S".to_owned(),
            through: EntryId(2),
        });
        let rewind = it.append(EntryContent::Rewind { from: EntryId(2) });
        assert_eq!(read(&it), ["a"], "the compaction is taken back, too");
        assert!(it.holds(EntryId(1)) && !it.holds(EntryId(2)));
        it.append(EntryContent::Undone(rewind));
        assert_eq!(read(&it), ["S\n\nc"]);
        it.append(EntryContent::Undone(whole));
        assert_eq!(read(&it), ["a", "b", "c"]);
        it.append(EntryContent::TakenBack { from: EntryId(3) });
        assert_eq!(read(&it), ["a", "b"]);
        it.ask("d".to_owned(), "d");
        assert_eq!(read(&it), ["a", "b", "d"]);
    }

    #[test]
    fn trimmed_results_say_how_to_read_them() {
        let mut it = conversation(&["a"]);
        let id = it.add(ChatMessage::Tool {
            call_id: "c".to_owned(),
            content: "aüb".to_owned(),
            outcome: CallOutcome::Succeeded,
        });
        it.append(EntryContent::Trim {
            results: vec![id],
            kept: 2,
            again: Again::ReadResult,
        });
        assert_eq!(
            read(&it)[1],
            "a\n[… 3 bytes of this old result were left out to save space; read_result with number 2 shows all of it …]"
        );
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<std::sync::Mutex<Vec<String>>>);

    impl Observer for Lines {
        fn appended(&mut self, entry: &Entry) {
            let line = serde_json::to_string(entry).unwrap();
            self.0.lock().unwrap().push(line);
        }
    }

    #[test]
    fn what_an_observer_wrote_restores_all_of_it() {
        let lines = Lines::default();
        let mut it = Conversation::default();
        it.observe(Box::new(lines.clone()));
        it.begin_turn();
        it.ask("<context> a".to_owned(), "a");
        it.append(EntryContent::Compaction {
            summary: "S".to_owned(),
            through: EntryId(1),
        });
        it.begin_turn();
        it.ask("b".to_owned(), "b");
        it.append(EntryContent::Trim {
            results: vec![EntryId(1)],
            kept: 5,
            again: Again::Call,
        });
        it.append(EntryContent::Undone(EntryId(2)));
        it.append(EntryContent::TakenBack { from: EntryId(3) });
        it.append(EntryContent::Rewind { from: EntryId(1) });
        let written = lines.0.lock().unwrap().clone();
        assert_eq!(
            written[0],
            r#"{"id":1,"turn":1,"what":{"asked":{"message":{"user":"<context> a"},"shown":"a"}}}"#
        );
        let entries = written
            .iter()
            .map(|line| serde_json::from_str(line).unwrap());
        let mut restored = Conversation::restored(entries);
        assert_eq!(restored.entries(), it.entries());
        assert_eq!(restored.turn(), TurnNumber(2));
        assert_eq!(restored.ask("c".to_owned(), "c"), EntryId(8));
    }
}
