// SPDX-License-Identifier: GPL-3.0-or-later
//! A reply in the making. The decoder of a dialect says what came; the draft keeps it within bounds,
//! says what there is to show, and in the end whether it is a whole reply. Pure.

use serde_json::{Map, Value};

use super::accumulator::{CallAccumulator, CallFragment, ReplyEnd};
use super::bounds::{MAX_CALL_BYTES, MAX_CALLS, MAX_PARTS, MAX_TEXT_BYTES, TooMuch, size_of};
use super::draft_call::{CallState, DraftCall, fitted};
use super::failure::{FailureKind, ProviderError};
use super::history::{MessagePart, PartContent};
use super::pieces::Pieces;
use super::retry::RetryAdvice;
use super::{Finish, ModelReply, StreamEvent, Usage};

/// What has come of a reply.
#[derive(Debug, Default)]
pub struct ReplyDraft {
    parts: Vec<DraftPart>,
    /// Calls whose pieces say only vaguely where they belong.
    fragments: CallAccumulator,
    calls: usize,
    call_bytes: usize,
    text_bytes: usize,
    thinking_bytes: usize,
    finish: Option<Finish>,
    usage: Option<Usage>,
    failure: Option<ProviderError>,
    terminator: Terminator,
    end_rule: EndRule,
    pieces: Pieces,
}

#[derive(Debug)]
struct DraftPart {
    content: DraftContent,
    seal: Option<Value>,
}

#[derive(Debug)]
enum DraftContent {
    Text(String),
    Thinking(String),
    Call(DraftCall),
    Sealed,
}

/// Where in the draft a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartPlace(usize);

/// Whether the stream's own end mark was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Terminator {
    #[default]
    Awaited,
    Seen,
}

/// What makes a reply whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndRule {
    /// A reason why it ended, or the end mark.
    #[default]
    ReasonOrMark,
    /// The end mark.
    Mark,
}

impl ReplyDraft {
    #[must_use]
    pub fn new(end_rule: EndRule) -> Self {
        Self {
            end_rule,
            ..Self::default()
        }
    }

    /// More text, as a part of its own unless text came last.
    pub fn text(&mut self, text: &str) {
        let last = self.parts.last();
        let goes_on = last.is_some_and(|part| {
            part.seal.is_none() && matches!(part.content, DraftContent::Text(_))
        });
        self.append(text, goes_on, || DraftContent::Text(String::new()));
    }

    /// More thinking, as a part of its own unless thinking came last.
    pub fn thinking(&mut self, text: &str) {
        let last = self.parts.last();
        let goes_on = last.is_some_and(|part| {
            part.seal.is_none() && matches!(part.content, DraftContent::Thinking(_))
        });
        self.append(text, goes_on, || DraftContent::Thinking(String::new()));
    }

    fn append(&mut self, text: &str, goes_on: bool, new: impl FnOnce() -> DraftContent) {
        if text.is_empty() {
            return;
        }
        let place = if goes_on {
            PartPlace(self.parts.len() - 1)
        } else {
            self.open(new())
        };
        self.add(place, text);
    }

    /// A part of text that begins.
    pub fn open_text(&mut self) -> PartPlace {
        self.open(DraftContent::Text(String::new()))
    }

    /// A part of thinking that begins.
    pub fn open_thinking(&mut self) -> PartPlace {
        self.open(DraftContent::Thinking(String::new()))
    }

    /// A call that begins. It never runs unless it is closed.
    pub fn open_call(&mut self, id: &str, name: &str) -> PartPlace {
        let number = self.calls;
        self.calls += 1;
        self.call_bytes += id.len() + name.len();
        if self.calls > MAX_CALLS {
            self.give_up(TooMuch::Calls);
        }
        self.open(DraftContent::Call(DraftCall {
            number,
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
            state: CallState::Open,
        }))
    }

    /// A part that only its provider can read.
    pub fn sealed(&mut self, seal: Value) -> PartPlace {
        let place = self.open(DraftContent::Sealed);
        self.seal(place, seal);
        place
    }

    fn open(&mut self, content: DraftContent) -> PartPlace {
        if self.parts.len() == MAX_PARTS {
            self.give_up(TooMuch::Parts);
            return PartPlace(self.parts.len() - 1);
        }
        self.parts.push(DraftPart {
            content,
            seal: None,
        });
        PartPlace(self.parts.len() - 1)
    }

    /// More of the text, thinking or arguments at PLACE.
    pub fn add(&mut self, place: PartPlace, more: &str) {
        if more.is_empty() || self.failure.is_some() {
            return;
        }
        let Some(part) = self.parts.get_mut(place.0) else {
            return;
        };
        let (bytes, most, too_much) = match part.content {
            DraftContent::Text(_) => (&mut self.text_bytes, MAX_TEXT_BYTES, TooMuch::Text),
            DraftContent::Thinking(_) => {
                (&mut self.thinking_bytes, MAX_TEXT_BYTES, TooMuch::Reasoning)
            }
            DraftContent::Call(_) => (&mut self.call_bytes, MAX_CALL_BYTES, TooMuch::Arguments),
            DraftContent::Sealed => return,
        };
        if *bytes + more.len() > most {
            self.give_up(too_much);
            return;
        }
        *bytes += more.len();
        match &mut part.content {
            DraftContent::Text(text) => {
                text.push_str(more);
                self.pieces.text(more);
            }
            DraftContent::Thinking(text) => {
                text.push_str(more);
                self.pieces.reasoning(more);
            }
            DraftContent::Call(call) => {
                call.arguments.push_str(more);
                self.pieces.arguments(call.number, &call.name, more);
            }
            DraftContent::Sealed => {}
        }
    }

    /// The text, thinking or arguments that came at PLACE.
    #[must_use]
    pub fn so_far(&self, place: PartPlace) -> &str {
        match self.parts.get(place.0).map(|part| &part.content) {
            Some(DraftContent::Text(text) | DraftContent::Thinking(text)) => text,
            Some(DraftContent::Call(call)) => &call.arguments,
            Some(DraftContent::Sealed) | None => "",
        }
    }

    /// All arguments of the call at PLACE, whatever came of them before.
    pub fn set_arguments(&mut self, place: PartPlace, arguments: &str) {
        if let Some(more) = arguments.strip_prefix(self.so_far(place)) {
            self.add(place, more);
        } else if let Some(call) = self.call_at(place) {
            let before = std::mem::take(&mut call.arguments);
            self.call_bytes -= before.len();
            self.add(place, arguments);
        }
    }

    fn call_at(&mut self, place: PartPlace) -> Option<&mut DraftCall> {
        match &mut self.parts.get_mut(place.0)?.content {
            DraftContent::Call(call) => Some(call),
            _ => None,
        }
    }

    /// The id and the name that the call at PLACE has, where they came late or changed.
    pub fn name_call(&mut self, place: PartPlace, id: &str, name: &str) {
        if let Some(call) = self.call_at(place) {
            if !id.is_empty() {
                call.id = id.to_owned();
            }
            if !name.is_empty() {
                call.name = name.to_owned();
            }
        }
    }

    /// The call at PLACE is complete.
    pub fn close_call(&mut self, place: PartPlace) {
        if let Some(call) = self.call_at(place) {
            call.state = CallState::Closed;
        }
    }

    /// What the provider wants back with the part at PLACE.
    pub fn seal(&mut self, place: PartPlace, seal: Value) {
        self.thinking_bytes += size_of(&seal);
        if self.thinking_bytes > MAX_TEXT_BYTES {
            self.give_up(TooMuch::Reasoning);
        } else if let Some(part) = self.parts.get_mut(place.0) {
            part.seal = Some(seal);
        }
    }

    /// More of the text under KEY in the seal of the part at PLACE.
    pub fn extend_seal(&mut self, place: PartPlace, key: &str, more: &str) {
        self.thinking_bytes += more.len();
        if self.thinking_bytes > MAX_TEXT_BYTES {
            self.give_up(TooMuch::Reasoning);
            return;
        }
        let Some(part) = self.parts.get_mut(place.0) else {
            return;
        };
        let seal = part.seal.get_or_insert_with(|| Map::new().into());
        match seal.get_mut(key) {
            Some(Value::String(text)) => text.push_str(more),
            _ => seal[key] = more.into(),
        }
    }

    /// One element of a delta's `tool_calls`.
    pub fn fragment(&mut self, fragment: &CallFragment<'_>) {
        if self.failure.is_some() {
            return;
        }
        match self.fragments.push(fragment) {
            Ok((number, name)) => {
                self.pieces.arguments(number, name, &fragment.arguments);
            }
            Err(what) => self.give_up(what),
        }
    }

    /// Why it ended. Servers repeat the reason; one that says that the reply was cut is not taken
    /// back.
    pub fn finish_for(&mut self, reason: Finish) {
        if !matches!(
            self.finish,
            Some(Finish::Length | Finish::ContentFilter | Finish::Refused(_))
        ) {
            self.finish = Some(reason);
        }
    }

    pub fn count(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// The end mark came.
    pub fn end(&mut self) {
        self.terminator = Terminator::Seen;
    }

    /// The first failure counts.
    pub fn fail(&mut self, error: ProviderError) {
        self.failure.get_or_insert(error);
    }

    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Another message begins in place of what came.
    pub fn start_over(&mut self) {
        *self = Self {
            pieces: std::mem::take(&mut self.pieces),
            ..Self::new(self.end_rule)
        };
    }

    /// Ends the reply, which has TOO_MUCH of something.
    fn give_up(&mut self, too_much: TooMuch) {
        self.fail(ProviderError::new(
            FailureKind::TooLong,
            RetryAdvice::Never,
            format!(
                "The reply was given up: {too_much}. Send a message to go on, and ask for less at a time."
            ),
        ));
    }

    /// What there is to show since this was last asked.
    pub fn take_events(&mut self) -> Vec<StreamEvent> {
        self.pieces.take()
    }

    /// Nothing more is expected: the end mark or an error came.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.failure.is_some() || self.terminator == Terminator::Seen
    }

    /// Something of the answer has arrived, so that sending the request again would repeat it.
    #[must_use]
    pub fn has_content(&self) -> bool {
        let begun = |part: &DraftPart| match &part.content {
            DraftContent::Text(text) | DraftContent::Thinking(text) => !text.is_empty(),
            DraftContent::Call(_) => true,
            DraftContent::Sealed => false,
        };
        !self.fragments.is_empty() || self.parts.iter().any(begun)
    }

    /// How many bytes of the answer have come.
    #[must_use]
    pub fn content_bytes(&self) -> usize {
        self.text_bytes + self.thinking_bytes + self.call_bytes + self.fragments.bytes()
    }

    /// The stream is over.
    pub fn finish(mut self) -> Result<ModelReply, ProviderError> {
        if let Some(failure) = self.failure.take() {
            return Err(self.interrupt(failure));
        }
        let finish = match (self.finish.take(), self.terminator) {
            (Some(Finish::Other(reason)), _) if reason == "error" => {
                return Err(self.interrupt(ProviderError::new(
                    FailureKind::Reported,
                    RetryAdvice::Backoff,
                    "The server ended the reply with an error and did not say which.",
                )));
            }
            (Some(_), Terminator::Awaited) if self.end_rule == EndRule::Mark => {
                return Err(self.interrupt(cut_off()));
            }
            (Some(finish), _) => finish,
            // A server that sends its end mark but no reason did mean to end.
            (None, Terminator::Seen) if self.has_content() => Finish::Stop,
            (None, Terminator::Seen) => {
                return Err(self.interrupt(ProviderError::new(
                    FailureKind::Garbage,
                    RetryAdvice::Backoff,
                    "The server sent an empty reply.",
                )));
            }
            (None, Terminator::Awaited) => return Err(self.interrupt(cut_off())),
        };
        let ending = match finish {
            Finish::Length | Finish::ContentFilter | Finish::Refused(_) => ReplyEnd::Cut,
            _ => ReplyEnd::Complete,
        };
        // What to do next depends on the calls that are there, not on what the reason says.
        let has_calls = self.calls > 0 || !self.fragments.is_empty();
        let finish = match (finish, has_calls) {
            (Finish::ToolCalls, false) => {
                tracing::warn!("the reply ended for tool calls and has none");
                Finish::Stop
            }
            (Finish::Stop, true) => Finish::ToolCalls,
            (finish, _) => finish,
        };
        Ok(self.into_reply(finish, ending))
    }

    /// The reply failed: the error, with what had arrived. Only a reply of which nothing had
    /// arrived may be asked for again.
    #[must_use]
    pub fn interrupt(self, mut error: ProviderError) -> ProviderError {
        if let Some(partial) = self.partial() {
            error.retry = RetryAdvice::Never;
            error.partial = Some(Box::new(partial));
        }
        error
    }

    /// What has arrived, if anything has.
    #[must_use]
    pub fn partial(self) -> Option<ModelReply> {
        self.has_content()
            .then(|| self.into_reply(Finish::Interrupted, ReplyEnd::Cut))
    }

    fn into_reply(self, finish: Finish, ending: ReplyEnd) -> ModelReply {
        let whole = self
            .parts
            .into_iter()
            .filter_map(|part| part.into_part(ending));
        let fragments = self
            .fragments
            .finish(ending)
            .into_iter()
            .map(MessagePart::call);
        let mut parts: Vec<MessagePart> = whole.chain(fragments).collect();
        parts.shrink_to_fit();
        ModelReply {
            parts,
            finish,
            usage: self.usage,
        }
    }
}

impl DraftPart {
    /// The part; none when there is nothing in it.
    fn into_part(self, ending: ReplyEnd) -> Option<MessagePart> {
        let empty = self.seal.is_none();
        let content = match self.content {
            DraftContent::Text(text) | DraftContent::Thinking(text) if empty && text.is_empty() => {
                return None;
            }
            DraftContent::Text(text) => PartContent::Text(fitted(text)),
            DraftContent::Thinking(text) => PartContent::Thinking(fitted(text)),
            DraftContent::Call(call) => PartContent::Call(call.into_call(ending)),
            DraftContent::Sealed => PartContent::Sealed,
        };
        Some(MessagePart {
            content,
            seal: self.seal,
        })
    }
}

fn cut_off() -> ProviderError {
    ProviderError::new(
        FailureKind::Interrupted,
        RetryAdvice::Backoff,
        "The connection was closed before the reply was complete.",
    )
}
