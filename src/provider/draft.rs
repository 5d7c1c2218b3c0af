// SPDX-License-Identifier: GPL-3.0-or-later
//! A reply in the making. The decoder of a dialect says what came; the draft keeps it within bounds,
//! says what there is to show, and in the end whether it is a whole reply. Pure.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::accumulator::{
    CallAccumulator, CallFragment, MAX_CALL_BYTES, MAX_CALLS, MAX_PARTS, MAX_TEXT_BYTES, ReplyEnd,
    TooMuch, new_call_id, size_of,
};
use super::failure::{FailureKind, ProviderError};
use super::history::{MessagePart, PartContent};
use super::model_text::{ModelText, Shown};
use super::refusal::{cut_off, unexplained_failure};
use super::retry::RetryAdvice;
use super::written_calls::{ID_PREFIX, ReadableCalls, WrittenCall, ends_like_a_call};
use super::{Finish, ModelReply, StreamEvent, Unparsed, Usage};
use crate::protocol::ToolCall;

/// What has come of a reply.
#[derive(Debug, Default)]
pub struct ReplyDraft {
    parts: Vec<DraftPart>,
    /// Calls whose pieces say only vaguely where they belong.
    fragments: CallAccumulator,
    /// What calls may be written as text.
    readable: ReadableCalls,
    unparsed: Option<Unparsed>,
    calls: usize,
    call_bytes: usize,
    text_bytes: usize,
    thinking_bytes: usize,
    ending: Ending,
    usage: Option<Usage>,
    failure: Option<ProviderError>,
    /// A failure whose reason may follow.
    unexplained: Option<ProviderError>,
    /// The latest that came and is not part of a reply.
    unread: Option<String>,
    skipped: usize,
    pieces: Pieces,
}

/// What is known of the reply's end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Ending {
    reason: Option<Finish>,
    mark: EndMark,
    /// More came behind the reason, as from servers that say one each time.
    early_reason: bool,
}

/// Whether the stream's own end mark was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum EndMark {
    #[default]
    Awaited,
    Seen,
}

/// Where in the draft a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartPlace(usize);

impl ReplyDraft {
    /// A draft of a reply in whose text the calls of READABLE are read.
    #[must_use]
    pub fn new(readable: ReadableCalls) -> Self {
        Self {
            readable,
            ..Self::default()
        }
    }

    /// More text, as a part of its own unless text came last.
    pub fn text(&mut self, text: &str) {
        let last = self.parts.last();
        let goes_on = last.is_some_and(|part| {
            part.seal.is_none() && matches!(part.content, DraftContent::Text(_))
        });
        self.append(text, goes_on, || DraftContent::Text(ModelText::default()));
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
        self.open(DraftContent::Text(ModelText::default()))
    }

    /// A part of thinking that begins.
    pub fn open_thinking(&mut self) -> PartPlace {
        self.open(DraftContent::Thinking(String::new()))
    }

    /// A call that begins. Without any arguments, it never runs unless it is closed.
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
        self.ending.early_reason |= self.ending.reason.is_some();
        match &mut part.content {
            DraftContent::Text(text) => {
                let (readable, pieces) = (&self.readable, &mut self.pieces);
                text.push(more, readable, &mut |shown| pieces.shown(shown));
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

    /// Whether nothing has come of the text, thinking or arguments at PLACE.
    #[must_use]
    pub fn is_empty_at(&self, place: PartPlace) -> bool {
        match self.parts.get(place.0).map(|part| &part.content) {
            Some(DraftContent::Text(text)) => text.is_empty(),
            Some(DraftContent::Thinking(text)) => text.is_empty(),
            Some(DraftContent::Call(call)) => call.arguments.is_empty(),
            Some(DraftContent::Sealed) | None => true,
        }
    }

    /// All arguments of the call at PLACE, whatever came of them before.
    pub fn set_arguments(&mut self, place: PartPlace, arguments: &str) {
        let Some(call) = self.call_at(place) else {
            return;
        };
        if let Some(more) = arguments.strip_prefix(call.arguments.as_str()) {
            let more = more.to_owned();
            self.add(place, &more);
        } else {
            let before = std::mem::take(&mut call.arguments);
            self.call_bytes -= before.len();
            self.add(place, arguments);
        }
    }

    /// The id of the call at PLACE, if it has one.
    #[must_use]
    pub fn call_id_at(&self, place: PartPlace) -> Option<&str> {
        match &self.parts.get(place.0)?.content {
            DraftContent::Call(call) if !call.id.is_empty() => Some(&call.id),
            _ => None,
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
        self.ending.early_reason |= self.ending.reason.is_some();
        match self.fragments.push(fragment) {
            Ok((number, name)) => {
                self.pieces.arguments(number, name, &fragment.arguments);
            }
            Err(what) => self.give_up(what),
        }
    }

    /// Why it ended. Servers repeat the reason; one that says that the reply is not whole stays.
    pub fn finish_for(&mut self, reason: Finish) {
        if self.ending.reason.as_ref().is_none_or(Finish::is_good) {
            self.ending.reason = Some(reason);
        }
    }

    /// Why it ended, in the host's word, which may be none.
    pub fn finish_with(&mut self, word: &str) {
        if let Some(reason) = Finish::for_reason(word) {
            self.finish_for(reason);
        }
    }

    /// Whether it has the end of a whole reply.
    fn ended_well(&self) -> bool {
        match &self.ending.reason {
            Some(reason) => reason.is_good(),
            None => self.ending.mark == EndMark::Seen,
        }
    }

    pub fn count(&mut self, usage: Usage) {
        self.usage = Some(usage);
    }

    /// The end mark came.
    pub fn end(&mut self) {
        self.ending.mark = EndMark::Seen;
    }

    /// The server reports ERROR. The first counts; what is whole stays whole.
    pub fn fail(&mut self, error: ProviderError) {
        if self.ended_well() && !self.ending.early_reason {
            tracing::warn!("an error behind the end of a reply: {error}");
        } else {
            self.failure.get_or_insert(error);
        }
    }

    /// The server reports an error without a reason, which may follow.
    pub fn fail_unexplained(&mut self, error: ProviderError) {
        self.unexplained.get_or_insert(error);
    }

    /// DATA, of an event called NAME, is not part of a reply.
    pub fn skip(&mut self, name: &str, data: &str) {
        self.skipped += 1;
        if self.skipped <= MOST_LOGGED {
            tracing::warn!("skipped what is not a part of a reply: {name} {data:.200}");
        }
        self.unread = Some(data.chars().take(LONGEST_UNREAD).collect());
    }

    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Another message begins in place of what came.
    pub fn start_over(&mut self) {
        *self = Self {
            pieces: std::mem::take(&mut self.pieces),
            ..Self::new(std::mem::take(&mut self.readable))
        };
    }

    /// Ends the reply, which has TOO_MUCH of something.
    fn give_up(&mut self, too_much: TooMuch) {
        self.failure.get_or_insert(ProviderError::new(
            FailureKind::TooLong,
            RetryAdvice::Never,
            format!(
                "Stopped reading the reply: {too_much}. Send a message to go on, and ask for less at a time."
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
        self.failure.is_some() || self.ending.mark == EndMark::Seen
    }

    /// Only the end mark is missing, or what explains a failure: if no more comes, nothing is lost.
    #[must_use]
    pub fn may_be_over(&self) -> bool {
        self.unexplained.is_some() || self.ended_well() && !self.ending.early_reason
    }

    /// Something of the answer has arrived, so that sending the request again would repeat it.
    #[must_use]
    pub fn has_content(&self) -> bool {
        let begun = |part: &DraftPart| match &part.content {
            DraftContent::Text(text) => !text.is_empty(),
            DraftContent::Thinking(text) => !text.is_empty(),
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

    /// No more comes: calls that were written as text are read if the reply is whole, and what was held back
    /// is shown.
    pub fn settle(&mut self) {
        let native = self.calls > 0 || !self.fragments.is_empty();
        let failed = self.failure.is_some() || self.unexplained.is_some();
        let readable = self.ended_well() && !failed && !native;
        let mut calls = Vec::new();
        let mut fenced = false;
        let spoken = |part: &DraftPart| match &part.content {
            DraftContent::Text(text) => !text.is_blank(),
            _ => false,
        };
        let last = self.parts.iter().rposition(spoken);
        for (index, part) in self.parts.iter_mut().enumerate() {
            let DraftContent::Text(text) = &mut part.content else {
                continue;
            };
            let ends = Some(index) == last && !fenced && part.seal.is_none();
            match text.held().map(|held| self.readable.read(held)) {
                Some(Some(written)) if readable && ends => {
                    text.drop_held();
                    calls.extend(written);
                }
                // Words behind it would say that it is only shown.
                Some(_) if ends && text.held().is_some_and(ends_like_a_call) => {
                    self.unparsed = Some(Unparsed::Left);
                }
                Some(_) | None => {}
            }
            fenced |= text.ends_in_fence();
            text.release(&mut |shown| self.pieces.shown(shown));
        }
        for WrittenCall { name, arguments } in calls {
            tracing::info!("read a call of {name} out of the text");
            self.unparsed = Some(Unparsed::Read);
            let place = self.open_call(&format!("{ID_PREFIX}{}", new_call_id()), &name);
            self.add(place, &arguments);
            self.close_call(place);
        }
    }

    /// The stream is over.
    pub fn finish(mut self) -> Result<ModelReply, ProviderError> {
        self.settle();
        if let Some(failure) = self.failure.take().or(self.unexplained.take()) {
            return Err(self.interrupt(failure));
        }
        let finish = match (self.ending.reason.take(), self.ending.mark) {
            (Some(Finish::Early(reason)), _) if reason.eq_ignore_ascii_case("error") => {
                return Err(self.interrupt(unexplained_failure()));
            }
            (Some(Finish::Early(reason)), _) if !self.has_content() => {
                return Err(self.interrupt(ProviderError::new(
                    FailureKind::Reported,
                    RetryAdvice::Backoff,
                    format!("The reply ended early: {reason}."),
                )));
            }
            (Some(finish), _) => finish,
            // A server that sends its end mark but no reason did mean to end.
            (None, EndMark::Seen) if self.has_content() => Finish::Stop,
            (None, EndMark::Seen) => {
                return Err(self.interrupt(ProviderError::new(
                    FailureKind::Garbage,
                    RetryAdvice::Backoff,
                    "The server sent an empty reply.",
                )));
            }
            (None, EndMark::Awaited) => {
                let unread = self.unread.take();
                return Err(self.interrupt(cut_off(unread.as_deref())));
            }
        };
        let ending = match finish.is_good() {
            true => ReplyEnd::Complete,
            false => ReplyEnd::Cut,
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
            .flat_map(|part| part.into_parts(ending));
        let fragments = self
            .fragments
            .finish(ending)
            .into_iter()
            .map(MessagePart::call);
        let mut parts: Vec<MessagePart> = whole.chain(fragments).collect();
        name_calls_apart(&mut parts);
        parts.shrink_to_fit();
        ModelReply {
            parts,
            finish,
            usage: self.usage,
            unparsed: self.unparsed,
        }
    }
}

/// How much is kept of what can't be read: enough for an error with all its details.
const LONGEST_UNREAD: usize = 16_000;

/// How often the log is told of it.
const MOST_LOGGED: usize = 5;

// The parts of a reply in the making, and what they become in the end.

#[derive(Debug)]
struct DraftPart {
    pub content: DraftContent,
    pub seal: Option<Value>,
}

#[derive(Debug)]
enum DraftContent {
    Text(ModelText),
    Thinking(String),
    Call(DraftCall),
    Sealed,
}

/// A call, from dialects that say which call each piece is of.
#[derive(Debug)]
struct DraftCall {
    /// Which call of the reply, from 0.
    pub number: usize,
    pub id: String,
    pub name: String,
    pub arguments: String,
    pub state: CallState,
}

/// Whether the server said that a call has all its arguments. Only where none came does that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallState {
    Open,
    Closed,
}

impl DraftPart {
    /// What it becomes, which is nothing when there is nothing in it.
    pub fn into_parts(self, ending: ReplyEnd) -> impl Iterator<Item = MessagePart> {
        let sealed = self.seal.is_some();
        let (before, content) = match self.content {
            DraftContent::Text(text) => {
                let (thinking, text) = text.into_parts();
                (
                    thinking,
                    (sealed || !text.is_empty()).then_some(PartContent::Text(text)),
                )
            }
            DraftContent::Thinking(mut text) => {
                text.shrink_to_fit();
                let content = (sealed || !text.is_empty()).then_some(PartContent::Thinking(text));
                (String::new(), content)
            }
            DraftContent::Call(call) => (
                String::new(),
                Some(PartContent::Call(call.into_call(ending))),
            ),
            DraftContent::Sealed => (String::new(), Some(PartContent::Sealed)),
        };
        let before = (!before.is_empty()).then(|| MessagePart::thinking(before));
        let seal = self.seal;
        before
            .into_iter()
            .chain(content.map(|content| MessagePart { content, seal }))
    }
}

impl DraftCall {
    /// The call, as its reply ended with ENDING.
    fn into_call(self, ending: ReplyEnd) -> ToolCall {
        let ending = match (self.state, self.arguments.is_empty()) {
            (CallState::Open, true) => ReplyEnd::Cut,
            _ => ending,
        };
        ending.call(self.id, &self.name, self.arguments)
    }
}

/// Gives each call of PARTS an id of its own, as some servers give none, or the same to all.
fn name_calls_apart(parts: &mut [MessagePart]) {
    let mut seen = HashSet::new();
    for part in parts {
        if let PartContent::Call(call) = &mut part.content
            && (call.id.is_empty() || !seen.insert(call.id.clone()))
        {
            call.id = new_call_id();
        }
    }
}

// What there is to show of a reply since the last look: adjacent pieces of the same thing are one.

#[derive(Debug, Default)]
struct Pieces(Vec<StreamEvent>);

impl Pieces {
    /// A piece of text is to be shown.
    pub fn shown(&mut self, shown: Shown<'_>) {
        match shown {
            Shown::Answer(text) => self.text(text),
            Shown::Thinking(text) => self.reasoning(text),
        }
    }

    /// MORE of the text came.
    fn text(&mut self, more: &str) {
        match self.0.last_mut() {
            Some(StreamEvent::Text(shown)) => shown.push_str(more),
            _ => self.0.push(StreamEvent::Text(more.to_owned())),
        }
    }

    /// MORE of the thinking came.
    pub fn reasoning(&mut self, more: &str) {
        match self.0.last_mut() {
            Some(StreamEvent::Reasoning(shown)) => shown.push_str(more),
            _ => self.0.push(StreamEvent::Reasoning(more.to_owned())),
        }
    }

    /// MORE of the arguments of the call of the number NUMBER, to TOOL, came.
    pub fn arguments(&mut self, number: usize, tool: &str, more: &str) {
        match self.0.last_mut() {
            Some(StreamEvent::Arguments {
                call, more: shown, ..
            }) if *call == number => shown.push_str(more),
            _ => self.0.push(StreamEvent::Arguments {
                call: number,
                tool: tool.to_owned(),
                more: more.to_owned(),
            }),
        }
    }

    pub fn take(&mut self) -> Vec<StreamEvent> {
        std::mem::take(&mut self.0)
    }
}
