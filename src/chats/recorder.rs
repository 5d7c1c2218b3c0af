// SPDX-License-Identifier: GPL-3.0-or-later
//! From the events of chats to their files. A host in front of Emacs sees each event on its way, and
//! hands those of saved chats to their recorders.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::reader::{beginning, kept_hash};
use super::record::{ChatPlace, Record};
use super::writer::ChatWriter;
use crate::protocol::{Event, SessionId};
use crate::runtime::held;

/// The longest text of a result that is kept.
const LONGEST_RESULT: usize = 1024 * 1024;
/// How much of an answer, and for how long, may be lost when Emacs is killed.
const OPEN_TEXT: usize = 8 * 1024;
const OPEN_TIME: Duration = Duration::from_secs(1);

/// Writes down what happens in one chat.
#[derive(Debug)]
pub struct Recorder {
    pub writer: ChatWriter,
    state: Mutex<RecorderState>,
}

#[derive(Debug)]
struct RecorderState {
    open: Option<OpenText>,
    place: ChatPlace,
    /// What is kept in the chat's context.
    kept: Vec<Value>,
    /// What is written before the first event that counts, until there is one.
    preamble: Option<Vec<Record>>,
}

/// The beginning of a text that goes on.
#[derive(Debug)]
struct OpenText {
    stream: Stream,
    text: String,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Text,
    Reasoning,
}

impl Recorder {
    /// A recorder of a chat of which the file knows that it is at PLACE with KEPT in its context.
    /// Nothing is written before something happens; OPENED is the first then.
    #[must_use]
    pub fn new(writer: ChatWriter, place: ChatPlace, kept: Vec<Value>, opened: Record) -> Self {
        let state = RecorderState {
            open: None,
            place,
            kept,
            preamble: Some(vec![opened]),
        };
        Self {
            writer,
            state: Mutex::new(state),
        }
    }

    /// Notes where the chat is, if that is new.
    pub fn place(&self, place: &ChatPlace) {
        let mut state = held(&self.state);
        if state.place != *place {
            state.place = place.clone();
            self.put(&mut state, Record::Place(place.clone()));
        }
    }

    /// Notes that ITEMS are in the chat's context, as far as that is new.
    pub fn keep(&self, items: Vec<Value>) {
        let mut state = held(&self.state);
        let before = std::mem::replace(&mut state.kept, items.clone());
        for item in before.iter().filter(|item| !items.contains(item)) {
            let item = kept_hash(item);
            self.put(&mut state, Record::Dropped { item });
        }
        for item in items {
            if !before.contains(&item) {
                self.put(&mut state, Record::Kept { item });
            }
        }
    }

    /// Appends RECORD after what came before.
    pub fn record(&self, record: Record) {
        self.put(&mut held(&self.state), record);
    }

    /// Notes EVENT, if it is one that is kept.
    pub fn event(&self, event: &Event) {
        match event {
            Event::Text { text, .. } => self.stream(Stream::Text, text),
            Event::Reasoning { text, .. } => self.stream(Stream::Reasoning, text),
            event => {
                if let Some(record) = record_of(event) {
                    self.record(record);
                }
            }
        }
    }

    /// Writes what is left.
    pub fn flush(&self) {
        self.end_text(&mut held(&self.state));
        self.writer.flush();
    }

    /// Writes what is left, and lets others write the chat.
    pub fn close(&self) {
        self.end_text(&mut held(&self.state));
        self.writer.close();
    }

    fn stream(&self, stream: Stream, text: &str) {
        let mut state = held(&self.state);
        if state
            .open
            .as_ref()
            .is_some_and(|open| open.stream != stream)
        {
            self.end_text(&mut state);
        }
        let open = state.open.get_or_insert_with(|| OpenText {
            stream,
            text: String::new(),
            since: Instant::now(),
        });
        open.text.push_str(text);
        if open.text.len() > OPEN_TEXT || open.since.elapsed() > OPEN_TIME {
            self.end_text(&mut state);
        }
    }

    fn put(&self, state: &mut RecorderState, record: Record) {
        self.end_text(state);
        if let Some(preamble) = &mut state.preamble {
            match record {
                Record::Turn { .. } | Record::Entry { .. } | Record::Content { .. } => {}
                Record::Journal { ref step, .. } if step.get("turn").is_none() => {}
                Record::Place(_)
                | Record::Name { .. }
                | Record::Kept { .. }
                | Record::Dropped { .. }
                | Record::Journal { .. } => {
                    preamble.push(record);
                    return;
                }
                // What is said in a chat that has not begun is not of it.
                _ => return,
            }
        }
        for before in state.preamble.take().into_iter().flatten() {
            self.writer.push(before);
        }
        self.writer.push(record);
    }

    fn end_text(&self, state: &mut RecorderState) {
        if let Some(OpenText { stream, text, .. }) = state.open.take() {
            self.writer.push(match stream {
                Stream::Text => Record::Text { text },
                Stream::Reasoning => Record::Reasoning { text },
            });
        }
    }
}

/// EVENT as it is kept, if it is. Requests are not: what was asked once is asked again.
fn record_of(event: &Event) -> Option<Record> {
    Some(match event {
        Event::TurnStarted {
            turn, text, along, ..
        } => Record::Turn {
            turn: turn.0,
            text: text.clone(),
            along: along.clone(),
        },
        Event::Steered { text, along, .. } => Record::Steered {
            text: text.clone(),
            along: along.clone(),
        },
        Event::CallProposed {
            call,
            tool,
            arguments,
            after,
            ..
        } => Record::Call {
            call: call.0,
            tool: tool.clone(),
            arguments: arguments.clone(),
            after: after.map(|it| it.0),
        },
        Event::ApprovalRequested {
            call,
            tool,
            level,
            reason,
            ..
        } => Record::Asked {
            call: call.0,
            tool: tool.clone(),
            level: level.name().to_owned(),
            reason: reason.clone(),
        },
        Event::CallStarted {
            call,
            tool,
            arguments,
            ..
        } => Record::Started {
            call: call.0,
            tool: tool.clone(),
            arguments: arguments.clone(),
        },
        Event::CallFinished { call, result, .. } => Record::Result {
            call: call.0,
            outcome: result.outcome,
            content: shortened(result.whole()),
            milliseconds: result.elapsed.as_secs_f64() * 1000.0,
        },
        Event::Notice { text, .. } | Event::LimitReached { text, .. } => {
            Record::Notice { text: text.clone() }
        }
        Event::Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            cost,
            ..
        } => Record::Usage {
            input: *input_tokens,
            output: *output_tokens,
            cache_read: *cache_read_tokens,
            cache_write: *cache_write_tokens,
            cost: *cost,
        },
        Event::Rewound { turn, rewind, .. } => Record::Rewound {
            turn: turn.0,
            rewind: rewind.0,
        },
        Event::Unwound { rewind, .. } => Record::Unwound { rewind: rewind.0 },
        Event::TurnEnded { outcome, .. } => Record::Ended {
            outcome: outcome.name().to_owned(),
            message: outcome.message().map(str::to_owned),
        },
        _ => return None,
    })
}

fn shortened(text: String) -> String {
    if text.len() <= LONGEST_RESULT {
        return text;
    }
    let kept = beginning(&text, LONGEST_RESULT);
    format!(
        "{kept}\n[{} bytes more were not saved]",
        text.len() - kept.len()
    )
}

/// The recorders of the chats that are saved.
pub type Recorders = Arc<Mutex<HashMap<SessionId, Arc<Recorder>>>>;

/// Writes EVENT down, if it is of a chat that is saved in RECORDERS.
pub fn write_down(recorders: &Recorders, event: &Event) {
    let Some(session) = event.session() else {
        return;
    };
    let recorder = held(recorders).get(&session).cloned();
    if let Some(recorder) = recorder {
        recorder.event(event);
    }
}
