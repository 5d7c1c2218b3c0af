// SPDX-License-Identifier: GPL-3.0-or-later
//! The events on their way to Emacs: in order, adjacent text of one session merged, and paced so
//! that a fast model costs a few wake-ups instead of thousands. Pure data; `bridge::wake` owns the
//! pipe that wakes Emacs.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::protocol::Event;
use crate::runtime::held;

/// How long text may wait for more text before Emacs is woken for it.
pub const TEXT_PACE: Duration = Duration::from_millis(16);

/// No text event is much longer, merged or as it came: Emacs draws that many bytes of Markdown in
/// two or three milliseconds, and can look at its clock after each event.
pub const TEXT_LIMIT: usize = 4 * 1024;

/// When Emacs should be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing is queued, or Emacs is already at it.
    Never,
    /// Text is queued that may wait until then.
    At(Instant),
    Now,
}

/// The queue between the core's threads and Emacs's.
#[derive(Debug, Default)]
pub struct EventQueue {
    inner: Mutex<Inner>,
    /// Told when there may be something to wake Emacs for.
    pub changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    events: VecDeque<Event>,
    urgency: Urgency,
    emacs: Listener,
    /// When Emacs took text, if that is the last thing it took.
    last_text: Option<Instant>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    #[default]
    CanWait,
    AtOnce,
}

/// What Emacs is doing as far as the queue knows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Listener {
    /// It waits for a wake.
    #[default]
    Listening,
    /// It was woken and has not yet said that it applied what it took.
    Woken,
}

impl EventQueue {
    /// Appends EVENT, merged into the one before it when both are text of one message.
    pub fn push(&self, mut event: Event) {
        let emacs = {
            let mut inner = held(&self.inner);
            match streamed(&mut event) {
                Some(text) if text.len() > TEXT_LIMIT => {
                    let whole = std::mem::take(text);
                    for piece in pieces(&whole) {
                        inner.append(with_text(event.clone(), piece));
                    }
                }
                _ => inner.append(event),
            }
            inner.emacs
        };
        // An Emacs that is at the events says when it is ready for more.
        if emacs == Listener::Listening {
            self.changed.notify_one();
        }
    }

    /// The oldest event.
    pub fn pop(&self) -> Option<Event> {
        let mut inner = held(&self.inner);
        let event = inner.events.pop_front()?;
        // After anything else, the next message's first words go out at once again.
        inner.last_text = is_text(&event).then(Instant::now);
        if inner.events.is_empty() {
            inner.urgency = Urgency::CanWait;
        }
        Some(event)
    }

    /// When Emacs should be woken, as things stand.
    #[must_use]
    pub fn due(&self) -> Due {
        let inner = held(&self.inner);
        match (inner.emacs, inner.events.is_empty(), inner.urgency) {
            (Listener::Woken, _, _) | (_, true, _) => Due::Never,
            (_, _, Urgency::AtOnce) => Due::Now,
            (_, _, Urgency::CanWait) => inner
                .last_text
                .map_or(Due::Now, |last| Due::At(last + TEXT_PACE)),
        }
    }

    /// Notes that Emacs is being woken; false when it already was.
    pub fn claim_wake(&self) -> bool {
        let mut inner = held(&self.inner);
        let claimed = inner.emacs == Listener::Listening;
        inner.emacs = Listener::Woken;
        claimed
    }

    /// Notes that Emacs has applied what it took; true when there is more for it.
    pub fn ready(&self) -> bool {
        let more = {
            let mut inner = held(&self.inner);
            inner.emacs = Listener::Listening;
            !inner.events.is_empty()
        };
        if more {
            self.changed.notify_one();
        }
        more
    }

    /// How many events wait.
    #[must_use]
    pub fn len(&self) -> usize {
        held(&self.inner).events.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inner {
    fn append(&mut self, event: Event) {
        let continues_text = is_text(&event)
            && (self.last_text.is_some() || self.events.back().is_some_and(is_text));
        if !continues_text {
            self.urgency = Urgency::AtOnce;
        }
        if let Some(event) = merge(self.events.back_mut(), event) {
            self.events.push_back(event);
        }
    }
}

/// TEXT in pieces of the limit's length, or a little less where a character would be cut.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(TEXT_LIMIT);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

/// Whether EVENT takes time to draw that grows with its length.
#[must_use]
pub fn is_text(event: &Event) -> bool {
    matches!(
        event,
        Event::Text { .. } | Event::Reasoning { .. } | Event::CallDrafted { .. }
    )
}

/// The text of EVENT, if that is a piece of a longer one.
fn streamed(event: &mut Event) -> Option<&mut String> {
    match event {
        Event::Text { text, .. }
        | Event::Reasoning { text, .. }
        | Event::CallDrafted { text, .. } => Some(text),
        _ => None,
    }
}

/// EVENT with TEXT for its own.
fn with_text(mut event: Event, text: String) -> Event {
    if let Some(own) = streamed(&mut event) {
        *own = text;
    }
    event
}

/// Whether EVENT is more of the text that LAST is a piece of.
fn continues(last: &Event, event: &Event) -> bool {
    match (last, event) {
        (Event::Text { session, .. }, Event::Text { session: from, .. })
        | (Event::Reasoning { session, .. }, Event::Reasoning { session: from, .. }) => {
            session == from
        }
        (
            Event::CallDrafted {
                session,
                number,
                parameter,
                ..
            },
            Event::CallDrafted {
                session: from,
                number: call,
                parameter: grown,
                ..
            },
        ) => (session, number, parameter) == (from, call, grown),
        _ => false,
    }
}

/// Merges EVENT into LAST when both are pieces of one text; else gives EVENT back.
fn merge(last: Option<&mut Event>, mut event: Event) -> Option<Event> {
    if let Some(last) = last
        && continues(last, &event)
        && let (Some(text), Some(more)) = (streamed(last), streamed(&mut event))
        && text.len() + more.len() <= TEXT_LIMIT
    {
        text.push_str(more);
        return None;
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{SessionId, SessionState};

    fn text(session: u64, text: &str) -> Event {
        Event::Text {
            session: SessionId(session),
            text: text.to_owned(),
        }
    }

    fn drafted(number: u64, parameter: &str, text: &str) -> Event {
        Event::CallDrafted {
            session: SessionId(1),
            number,
            tool: "write_file".to_owned(),
            parameter: parameter.to_owned(),
            text: text.to_owned(),
        }
    }

    fn state(session: u64) -> Event {
        Event::State {
            session: SessionId(session),
            state: SessionState::Idle,
        }
    }

    fn drained(queue: &EventQueue) -> Vec<Event> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn keeps_order_and_merges_only_neighbours() {
        let queue = EventQueue::default();
        for event in [
            text(1, "a"),
            text(1, "b"),
            text(2, "x"),
            text(1, "c"),
            state(1),
            text(1, "d"),
        ] {
            queue.push(event);
        }
        assert_eq!(
            drained(&queue),
            [
                text(1, "ab"),
                text(2, "x"),
                text(1, "c"),
                state(1),
                text(1, "d")
            ]
        );
    }

    #[test]
    fn each_text_of_a_call_is_merged_by_itself() {
        let queue = EventQueue::default();
        for event in [
            drafted(0, "path", "a."),
            drafted(0, "path", "lisp"),
            drafted(0, "content", "(a"),
            drafted(1, "content", "(b"),
            drafted(1, "content", ")"),
            text(1, "!"),
        ] {
            queue.push(event);
        }
        assert_eq!(
            drained(&queue),
            [
                drafted(0, "path", "a.lisp"),
                drafted(0, "content", "(a"),
                drafted(1, "content", "(b)"),
                text(1, "!")
            ]
        );
    }

    #[test]
    fn merging_stops_at_the_limit() {
        let queue = EventQueue::default();
        let large = "x".repeat(TEXT_LIMIT);
        queue.push(text(1, &large));
        queue.push(text(1, "y"));
        assert_eq!(drained(&queue), [text(1, &large), text(1, "y")]);
    }

    #[test]
    fn a_long_text_comes_in_pieces_that_cut_no_character() {
        let queue = EventQueue::default();
        // Three bytes each, so that the limit falls inside one.
        let long = "a".to_owned() + &"\u{20ac}".repeat(TEXT_LIMIT);
        queue.push(text(1, &long));
        let pieces: Vec<String> = drained(&queue)
            .into_iter()
            .map(|event| match event {
                Event::Text { text, .. } => text,
                other => panic!("not a text: {other:?}"),
            })
            .collect();
        assert!(pieces.iter().all(|piece| piece.len() <= TEXT_LIMIT));
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces.concat(), long);
    }

    #[test]
    fn the_first_text_goes_at_once_and_the_next_waits() {
        let queue = EventQueue::default();
        queue.push(text(1, "a"));
        assert_eq!(queue.due(), Due::Now);
        assert!(queue.claim_wake());
        drained(&queue);
        queue.push(text(1, "b"));
        assert_eq!(
            queue.due(),
            Due::Never,
            "Emacs has not applied the batch yet"
        );
        assert!(queue.ready());
        assert!(matches!(queue.due(), Due::At(_)));
        queue.push(state(1));
        assert_eq!(
            queue.due(),
            Due::Now,
            "everything else flushes the text before it"
        );
        drained(&queue);
        queue.push(text(1, "c"));
        assert_eq!(
            queue.due(),
            Due::Now,
            "a new message's first words go at once"
        );
    }

    #[test]
    fn one_wake_at_most_is_under_way() {
        let queue = EventQueue::default();
        queue.push(state(1));
        assert!(queue.claim_wake());
        assert!(!queue.claim_wake());
        queue.pop();
        assert!(!queue.ready());
        assert!(queue.claim_wake());
    }
}
