// SPDX-License-Identifier: GPL-3.0-or-later
//! Reduces what a Chat Completions server sends to one [`ModelReply`]: [`Reducer`] takes the payloads
//! of events, [`ReplyReader`] the bytes of a body. Pure; `http` feeds it.

use serde::Deserialize;
use serde_json::Value;

use super::accumulator::{CallAccumulator, ReplyEnd};
use super::bounds::{MAX_TEXT_BYTES, TooMuch};
use super::failure::{ErrorReport, FailureKind, ProviderError, excerpt};
use super::retry::{RetryAdvice, stream_advice};
use super::sse::{MAX_EVENT_BYTES, SseDecoder};
use super::{Finish, ModelReply, StreamEvent, Usage};

/// One payload, as much of it as matters, read leniently: servers differ in all of it.
#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    error: Option<Value>,
    usage: Option<Value>,
    x_groq: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<i64>,
    delta: Option<Delta>,
    /// The whole answer of a server that does not stream. Some that do send it beside each delta,
    /// with the text so far.
    message: Option<Delta>,
    finish_reason: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Value>,
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    refusal: Option<Value>,
    tool_calls: Option<Value>,
}

/// Puts a reply together from the payloads of its events.
#[derive(Debug, Default)]
pub struct Reducer {
    text: String,
    reasoning: String,
    calls: CallAccumulator,
    finish: Option<Finish>,
    usage: Option<Usage>,
    failure: Option<ProviderError>,
    terminator: Terminator,
}

/// Whether the stream's own end mark was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Terminator {
    #[default]
    Awaited,
    Seen,
}

impl Reducer {
    /// Take one event's name and data.
    pub fn push(&mut self, name: &str, data: &str) -> Vec<StreamEvent> {
        let data = data.trim();
        if self.is_over() || data.is_empty() {
            return Vec::new();
        }
        if data == "[DONE]" {
            self.terminator = Terminator::Seen;
            return Vec::new();
        }
        match serde_json::from_str::<Chunk>(data) {
            Ok(chunk) => self.take_chunk(chunk, name, data),
            Err(_) => {
                self.failure = Some(unreadable(name, data));
                Vec::new()
            }
        }
    }

    /// Nothing more is expected: the end mark or an error came.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.failure.is_some() || self.terminator == Terminator::Seen
    }

    /// Something of the answer has arrived, so that sending the request again would repeat it.
    #[must_use]
    pub fn has_content(&self) -> bool {
        !(self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty())
    }

    /// How many bytes of the answer have come.
    #[must_use]
    pub fn content_bytes(&self) -> usize {
        self.text.len() + self.reasoning.len() + self.calls.bytes()
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
            Finish::Length | Finish::ContentFilter => ReplyEnd::Cut,
            _ => ReplyEnd::Complete,
        };
        // What to do next depends on the calls that are there, not on what the reason says.
        let finish = match (finish, self.calls.is_empty()) {
            (Finish::ToolCalls, true) => {
                tracing::warn!("the reply ended for tool calls and has none");
                Finish::Stop
            }
            (Finish::Stop, false) => Finish::ToolCalls,
            (finish, _) => finish,
        };
        Ok(self.into_reply(finish, ending))
    }

    /// The reply failed: the error, with what had arrived. Only a reply of which nothing had
    /// arrived may be asked for again.
    #[must_use]
    pub fn interrupt(self, mut error: ProviderError) -> ProviderError {
        if self.has_content() {
            error.retry = RetryAdvice::Never;
            error.partial = Some(Box::new(
                self.into_reply(Finish::Interrupted, ReplyEnd::Cut),
            ));
        }
        error
    }

    fn into_reply(self, finish: Finish, ending: ReplyEnd) -> ModelReply {
        ModelReply {
            text: self.text,
            reasoning: self.reasoning,
            calls: self.calls.finish(ending),
            finish,
            usage: self.usage,
        }
    }

    fn take_chunk(&mut self, chunk: Chunk, name: &str, data: &str) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        self.take_usage(&chunk);
        let has_error = chunk.error.is_some() || chunk.choices.is_none();
        // We never ask for a second choice; a server that sends one is not listened to.
        let choices = chunk.choices.into_iter().flatten();
        for choice in choices.filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta.or(choice.message) {
                self.take_delta(delta, &mut events);
            }
            if let Some(reason) = choice.finish_reason.as_ref().and_then(Value::as_str) {
                self.take_finish(reason);
            }
        }
        if (has_error || name == "error") && self.failure.is_none() {
            self.failure = reported(name, data);
        }
        events
    }

    fn take_delta(&mut self, delta: Delta, events: &mut Vec<StreamEvent>) {
        let reasoning = delta.reasoning_content.or(delta.reasoning);
        if let Some(Value::String(text)) = reasoning {
            self.show_reasoning(text, events);
        }
        match delta.content {
            Some(Value::String(text)) => self.show_text(text, events),
            Some(Value::Array(parts)) => {
                for part in parts {
                    self.take_part(&part, events);
                }
            }
            _ => {}
        }
        if let Some(Value::String(text)) = delta.refusal {
            self.show_text(text, events);
        }
        match &delta.tool_calls {
            Some(Value::Array(fragments)) => {
                for fragment in fragments {
                    self.take_call(fragment);
                }
            }
            Some(fragment @ Value::Object(_)) => self.take_call(fragment),
            _ => {}
        }
    }

    fn take_call(&mut self, fragment: &Value) {
        if self.failure.is_none()
            && let Err(what) = self.calls.push(fragment)
        {
            self.give_up(what);
        }
    }

    /// Ends the reply, which has TOO_MUCH of something.
    fn give_up(&mut self, too_much: TooMuch) {
        self.failure.get_or_insert_with(|| {
            ProviderError::new(
                FailureKind::TooLong,
                RetryAdvice::Never,
                format!(
                    "The reply was given up: {too_much}. Send a message to go on, and ask for less at a time."
                ),
            )
        });
    }

    /// One part of content that is a list: text, or thinking that has such parts itself.
    fn take_part(&mut self, part: &Value, events: &mut Vec<StreamEvent>) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let Some(thinking) = part.get("thinking") {
            let inner = thinking.as_array().into_iter().flatten();
            let pieces = inner.filter_map(|piece| piece.get("text").and_then(text));
            for piece in text(thinking).into_iter().chain(pieces) {
                self.show_reasoning(piece, events);
            }
        } else if let Some(text) = part.get("text").and_then(text) {
            self.show_text(text, events);
        }
    }

    fn show_text(&mut self, text: String, events: &mut Vec<StreamEvent>) {
        if self.text.len() + text.len() > MAX_TEXT_BYTES {
            self.give_up(TooMuch::Text);
        } else if !text.is_empty() {
            self.text.push_str(&text);
            events.push(StreamEvent::Text(text));
        }
    }

    fn show_reasoning(&mut self, text: String, events: &mut Vec<StreamEvent>) {
        if self.reasoning.len() + text.len() > MAX_TEXT_BYTES {
            self.give_up(TooMuch::Reasoning);
        } else if !text.is_empty() {
            self.reasoning.push_str(&text);
            events.push(StreamEvent::Reasoning(text));
        }
    }

    /// Servers repeat the reason; one that says that the reply was cut is not taken back.
    fn take_finish(&mut self, reason: &str) {
        if !matches!(self.finish, Some(Finish::Length | Finish::ContentFilter)) {
            self.finish = Some(match reason {
                "stop" | "end_turn" | "eos" => Finish::Stop,
                "tool_calls" | "function_call" | "tool_use" => Finish::ToolCalls,
                "length" | "max_tokens" | "model_length" => Finish::Length,
                "content_filter" => Finish::ContentFilter,
                other => Finish::Other(other.to_owned()),
            });
        }
    }

    fn take_usage(&mut self, chunk: &Chunk) {
        let groq = chunk.x_groq.as_ref().and_then(|extra| extra.get("usage"));
        let Some(usage) = chunk.usage.as_ref().or(groq) else {
            return;
        };
        let count = |names: [&str; 2]| {
            names
                .iter()
                .find_map(|name| usage.get(name).and_then(Value::as_u64))
        };
        let input = count(["prompt_tokens", "input_tokens"]);
        let output = count(["completion_tokens", "output_tokens"]);
        if input.is_some() || output.is_some() {
            self.usage = Some(Usage {
                input_tokens: input.unwrap_or(0),
                output_tokens: output.unwrap_or(0),
            });
        }
    }
}

fn cut_off() -> ProviderError {
    ProviderError::new(
        FailureKind::Interrupted,
        RetryAdvice::Backoff,
        "The connection was closed before the reply was complete.",
    )
}

/// The error that a payload reports, if it reports one.
fn reported(name: &str, data: &str) -> Option<ProviderError> {
    let value: Value = serde_json::from_str(data).ok()?;
    let report = match ErrorReport::read(&value) {
        Some(report) => report,
        None if name == "error" => ErrorReport {
            message: data.to_owned(),
            ..ErrorReport::default()
        },
        None => return None,
    };
    Some(ProviderError::new(
        FailureKind::Reported,
        stream_advice(report.status, &report.codes),
        format!("The server reported an error: {}", excerpt(&report.message)),
    ))
}

/// The error for a payload that is no chunk.
fn unreadable(name: &str, data: &str) -> ProviderError {
    let report = serde_json::from_str::<Value>(data)
        .is_ok()
        .then(|| reported(name, data))
        .flatten();
    report.unwrap_or_else(|| {
        let sentence = if name == "error" {
            "The server reported an error:"
        } else {
            "The server sent something that is no part of a reply:"
        };
        ProviderError::new(
            FailureKind::Garbage,
            RetryAdvice::Never,
            format!("{sentence} {}", quoted(data)),
        )
    })
}

fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        format!("{short:?}…")
    } else {
        format!("{short:?}")
    }
}

/// Reads the body of a successful answer: a stream of events, or, from servers that do not stream
/// and from those that report errors so, one JSON document.
#[derive(Debug, Default)]
pub struct ReplyReader {
    body: Body,
    reducer: Reducer,
    /// How the body began, to be quoted when it turns out to be no reply at all.
    opening: Vec<u8>,
}

#[derive(Debug)]
enum Body {
    /// Only blanks so far.
    Undecided(Vec<u8>),
    Events(SseDecoder),
    Json(Vec<u8>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Undecided(Vec::new())
    }
}

impl ReplyReader {
    /// Take more bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        const OPENING_BYTES: usize = 400;
        let missing = OPENING_BYTES.saturating_sub(self.opening.len());
        self.opening
            .extend_from_slice(&bytes[..missing.min(bytes.len())]);
        if let Body::Undecided(blanks) = &mut self.body {
            blanks.extend_from_slice(bytes);
            let Some(first) = blanks.iter().position(|byte| !byte.is_ascii_whitespace()) else {
                blanks.clear();
                return Vec::new();
            };
            // Blanks before the first word never count, however the body was cut into pieces.
            let start = blanks.split_off(first);
            let is_json = matches!(start[0], b'{' | b'[');
            if is_json {
                self.body = Body::Json(Vec::new());
            } else {
                self.body = Body::Events(SseDecoder::default());
            }
            return self.push_decided(&start);
        }
        self.push_decided(bytes)
    }

    fn push_decided(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        let reducer = &mut self.reducer;
        let result = match &mut self.body {
            Body::Events(decoder) => decoder.push(bytes, &mut |event| {
                events.append(&mut reducer.push(&event.name, &event.data));
            }),
            Body::Json(document) | Body::Undecided(document) => {
                document.extend_from_slice(bytes);
                if document.len() > MAX_EVENT_BYTES {
                    Err(super::sse::SseError::TooLarge {
                        limit: MAX_EVENT_BYTES,
                    })
                } else {
                    Ok(())
                }
            }
        };
        if let Err(error) = result {
            self.reducer.failure = Some(ProviderError::new(
                FailureKind::Garbage,
                RetryAdvice::Never,
                format!("The reply was given up: {error}."),
            ));
        }
        events
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.reducer.is_over()
    }

    /// How many bytes of the answer have come, of which pings are no part.
    #[must_use]
    pub fn content_bytes(&self) -> usize {
        self.reducer.content_bytes()
    }

    /// The body ended as bodies do. The second value is what its last, unended event shows.
    pub fn finish(mut self) -> (Result<ModelReply, ProviderError>, Vec<StreamEvent>) {
        let mut events = Vec::new();
        let reducer = &mut self.reducer;
        match std::mem::take(&mut self.body) {
            Body::Events(decoder) => decoder.finish(&mut |event| {
                // Half an event is not garbage, it is a lost connection.
                let whole = event.data.trim() == "[DONE]"
                    || serde_json::from_str::<serde::de::IgnoredAny>(&event.data).is_ok();
                if whole {
                    events = reducer.push(&event.name, &event.data);
                }
            }),
            Body::Json(document) => {
                events = reducer.push("", &String::from_utf8_lossy(&document));
                // The document's end is the reply's end.
                events.append(&mut reducer.push("", "[DONE]"));
            }
            Body::Undecided(_) => {}
        }
        let result = self.reducer.finish().map_err(|error| {
            let nothing_read = error.kind == FailureKind::Interrupted && error.partial.is_none();
            let looks_foreign = !is_event_stream(&self.opening);
            if nothing_read && looks_foreign {
                let opening = String::from_utf8_lossy(&self.opening);
                unreadable("", &excerpt(&opening))
            } else {
                error
            }
        });
        (result, events)
    }

    /// The body did not end, it failed.
    #[must_use]
    pub fn interrupt(self, error: ProviderError) -> ProviderError {
        self.reducer.interrupt(error)
    }
}

/// Whether a body that gave no event began like a stream of events nevertheless; an empty one did.
fn is_event_stream(opening: &[u8]) -> bool {
    let text = String::from_utf8_lossy(opening);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.is_empty()
        || [":", "data", "event", "id", "retry"]
            .iter()
            .any(|field| text.starts_with(field))
}
