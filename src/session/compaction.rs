// SPDX-License-Identifier: GPL-3.0-or-later
//! What becomes of a conversation that gets too long for its model: which old results are trimmed, up to
//! where a summary takes the place of the messages, and the words around it. Pure; `room` does it.

use std::fmt::Write;

use super::conversation::{Again, EntryContent, EntryId, Live};
use super::tokens::message_bytes;
use crate::provider::ChatMessage;

/// What a model is asked for.
pub const REQUEST: &str = include_str!("summary_request.md");

/// What is said of a message that was taken back because it is too long.
pub const NOT_KEPT: &str = "It is not in the conversation, so the chat can go on. M-p brings it back to the prompt: send less of it, or choose a model with a larger window by M-x agent-q-set-model.";

/// Results longer than this are trimmed, to so many bytes.
const LONG_RESULT: usize = 2048;
const KEPT_OF_RESULT: usize = 600;

/// How much of the user's message that a turn works on is repeated behind a summary.
const LONGEST_TASK: usize = 8 * 1024;

/// What a turn tried to make room.
#[derive(Debug, Default)]
pub struct RoomMaking {
    /// Why no summary came about; it is not tried again in the same turn.
    pub failure: Option<String>,
    /// How often the host refused the conversation as too long.
    pub overflows: u32,
}

/// A place at which a conversation can be cut: an answer stays together with the results of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// What is before it ends with this.
    pub through: EntryId,
    /// How many bytes are before it.
    pub before: usize,
}

fn cuts(live: &Live<'_>) -> (Vec<Cut>, usize) {
    let (mut cuts, mut bytes, mut last) = (Vec::new(), 0, None);
    for entry in live.read() {
        let Some(message) = entry.message() else {
            continue;
        };
        // What begins with a result would have lost its call.
        if let Some(through) = last
            && !matches!(message.as_ref(), ChatMessage::Tool { .. })
        {
            cuts.push(Cut {
                through,
                before: bytes,
            });
        }
        bytes += message_bytes(message);
        last = Some(entry.id);
    }
    (cuts, bytes)
}

/// Up to where messages have to be summarized so that those after it have at most KEPT bytes, if that can
/// be; none when there is nothing to summarize.
#[must_use]
pub fn cut(live: &Live<'_>, kept: usize) -> Option<Cut> {
    let (cuts, all) = cuts(live);
    let fits = cuts.iter().find(|cut| all - cut.before <= kept);
    fits.or(cuts.last()).copied()
}

/// Up to where messages can be summarized at once by a model that takes so many BYTES.
#[must_use]
pub fn head(live: &Live<'_>, bytes: usize) -> Option<Cut> {
    let (cuts, _) = cuts(live);
    let fits = cuts.iter().rev().find(|cut| cut.before <= bytes);
    fits.or(cuts.first()).copied()
}

/// The old results worth trimming that are further back than the newest KEPT bytes: an entry, and how
/// many bytes it saves. None when there are none.
#[must_use]
pub fn trim(live: &Live<'_>, kept: usize, again: Again) -> Option<(EntryContent, usize)> {
    let (mut behind, mut saved) = (0, 0);
    let mut results = Vec::new();
    for entry in live.read().iter().rev() {
        let Some(message) = entry.message() else {
            continue;
        };
        if let ChatMessage::Tool { content, .. } = message.as_ref()
            && behind > kept
            && content.len() > LONG_RESULT
            && !live.trimmed.contains_key(&entry.id)
        {
            results.push(entry.id);
            saved += content.len() - KEPT_OF_RESULT;
        }
        behind += message_bytes(message);
    }
    results.reverse();
    let content = EntryContent::Trim {
        results,
        kept: KEPT_OF_RESULT,
        again,
    };
    (saved > 0).then_some((content, saved))
}

/// What the model reads in place of the messages up to THROUGH: SURROUNDINGS, as a message would say them,
/// SUMMARY, and the message of the user's that the running turn works on, if that is among them.
#[must_use]
pub fn summary(
    live: &Live<'_>,
    through: EntryId,
    surroundings: Option<&str>,
    summary: &str,
) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(surroundings) = surroundings {
        let _ = write!(text, "{surroundings}\n\n");
    }
    let _ = write!(
        text,
        "(The conversation before this was too long. These are your own notes on it; what they don't say has to be looked up again.)\n\n{}",
        summary.trim()
    );
    if let Some(task) = task_among(live, through) {
        let _ = write!(
            text,
            "\n\n(You are working on this message of the user's:)\n\n{}",
            beginning(task)
        );
    }
    text
}

/// The user's latest message, where it would be summarized.
fn task_among<'a>(live: &Live<'a>, through: EntryId) -> Option<&'a str> {
    let last = live.messages.iter().rev().find_map(|entry| {
        match (&entry.what, entry.message()?.as_ref()) {
            (EntryContent::Asked { shown, .. }, ChatMessage::User(text)) => {
                Some((entry.id, shown.as_deref().unwrap_or(text)))
            }
            _ => None,
        }
    });
    last.filter(|(id, _)| *id <= through).map(|(_, text)| text)
}

fn beginning(text: &str) -> &str {
    let end = (0..=LONGEST_TASK.min(text.len()))
        .rev()
        .find(|&index| text.is_char_boundary(index));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::super::conversation::Conversation;
    use super::*;
    use crate::protocol::CallOutcome;
    use crate::provider::{MessagePart, ModelOrigin};

    fn result(size: usize) -> ChatMessage {
        ChatMessage::Tool {
            call_id: "c".to_owned(),
            content: "x".repeat(size),
            outcome: CallOutcome::Succeeded,
        }
    }

    fn answer(text: &str) -> ChatMessage {
        ChatMessage::Assistant {
            origin: ModelOrigin::default(),
            parts: vec![MessagePart::text(text.to_owned())],
        }
    }

    fn conversation() -> Conversation {
        let mut it = Conversation::default();
        it.ask("<context> one".to_owned(), "one");
        it.add(answer("calling"));
        it.add(result(5000));
        it.add(result(5000));
        it.add(answer("so"));
        it.ask("two".to_owned(), "two");
        it.add(answer("calling"));
        it.add(result(5000));
        it
    }

    #[test]
    fn results_stay_with_their_call() {
        let it = conversation();
        let live = it.live();
        let through = |kept| cut(&live, kept).unwrap().through;
        // The newest call and its result are kept, however large they are.
        assert_eq!(through(0), EntryId(6));
        assert_eq!(through(6000), EntryId(4));
        assert_eq!(through(12_000), EntryId(4));
        assert_eq!(through(100_000), EntryId(1));
        let head_through = |bytes| head(&live, bytes).unwrap().through;
        assert_eq!(head_through(0), EntryId(1));
        assert_eq!(head_through(9_000), EntryId(1));
        assert_eq!(head_through(11_000), EntryId(6));
        let mut short = Conversation::default();
        assert_eq!(cut(&short.live(), 0), None);
        short.ask("one".to_owned(), "one");
        assert_eq!(cut(&short.live(), 0), None);
    }

    #[test]
    fn old_long_results_are_trimmed_once() {
        let mut it = conversation();
        let (entry, saved) = trim(&it.live(), 5000, Again::ReadResult).unwrap();
        assert_eq!(saved, 2 * (5000 - KEPT_OF_RESULT));
        it.append(entry);
        assert_eq!(trim(&it.live(), 5000, Again::ReadResult), None);
    }

    #[test]
    fn the_task_is_repeated_where_it_is_summarized() {
        let mut it = Conversation::default();
        it.ask("<context> do it".to_owned(), "do it");
        it.add(answer("calling"));
        it.add(result(1));
        it.add(answer("calling"));
        let text = summary(
            &it.live(),
            EntryId(3),
            Some("<agent-q-context/>"),
            " Notes. ",
        );
        assert!(
            text.starts_with("<agent-q-context/>\n\n(The conversation"),
            "{text}"
        );
        assert!(text.contains("\n\nNotes.\n\n"), "{text}");
        assert!(text.ends_with("the user's:)\n\ndo it"), "{text}");
        let text = summary(&it.live(), EntryId(0), None, "Notes.");
        assert!(text.ends_with("Notes."), "{text}");
    }
}
