// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads the body of a successful answer: bytes in any chunking in, what there is to show out, and in
//! the end one [`ModelReply`]. The dialect's decoder understands what the framing brings. Pure;
//! `http` feeds it.

use super::arguments::{awaits_half, joined, mended};
use super::dialect::{Decoder, FormReading};
use super::draft::ReplyDraft;
use super::error_report::excerpt;
use super::failure::{FailureKind, ProviderError};
use super::framing::{EventSource, LineDecoder, MAX_EVENT_BYTES, SseDecoder, SseError, SseEvent};
use super::history::Dialect;
use super::refusal::{mistaken, reported, unreadable};
use super::retry::RetryAdvice;
use super::written_calls::ReadableCalls;
use super::{ModelReply, StreamEvent};

/// Reads the body of a successful answer: a stream of events, or, from servers that do not stream
/// and from those that report errors so, one JSON document.
#[derive(Debug)]
pub struct ReplyReader {
    body: Body,
    events: EventReader,
    /// How the body began, to be quoted when it turns out to be no reply at all.
    opening: Vec<u8>,
}

#[derive(Debug)]
enum Body {
    /// Only blanks so far.
    Undecided,
    Events(SseDecoder),
    Json(Vec<u8>),
    /// A JSON value on each line.
    Lines(LineDecoder),
}

/// For Chat Completions.
impl Default for ReplyReader {
    fn default() -> Self {
        Self::new(Dialect::default())
    }
}

impl ReplyReader {
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self::reading(dialect, ReadableCalls::default())
    }

    /// A reader that makes calls of those that the model writes as text, as far as they are READABLE.
    #[must_use]
    pub fn reading(dialect: Dialect, readable: ReadableCalls) -> Self {
        Self {
            body: match dialect {
                Dialect::Ollama => Body::Lines(LineDecoder::default()),
                _ => Body::Undecided,
            },
            events: EventReader {
                draft: ReplyDraft::new(readable),
                decoder: Decoder::new(dialect),
                dialect,
                first: None,
                half: None,
            },
            opening: Vec::new(),
        }
    }

    /// Take more bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        const OPENING_BYTES: usize = 400;
        let missing = OPENING_BYTES.saturating_sub(self.opening.len());
        self.opening
            .extend_from_slice(&bytes[..missing.min(bytes.len())]);
        if matches!(self.body, Body::Undecided) {
            // Blanks before the first word never count, however the body was cut into pieces.
            let start = bytes.trim_ascii_start();
            match start.first() {
                None => return Vec::new(),
                Some(b'{' | b'[') => self.body = Body::Json(Vec::new()),
                Some(_) => self.body = Body::Events(SseDecoder::default()),
            }
            return self.push_decided(start);
        }
        self.push_decided(bytes)
    }

    fn push_decided(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        let events = &mut self.events;
        let result = match &mut self.body {
            Body::Events(stream) => stream.push(bytes, &mut |event| events.take_event(&event)),
            Body::Lines(lines) => lines.push(bytes, &mut |line| events.take_line(line)),
            Body::Undecided => Ok(()),
            Body::Json(document) => {
                document.extend_from_slice(bytes);
                if document.len() > MAX_EVENT_BYTES {
                    Err(SseError::TooLarge {
                        limit: MAX_EVENT_BYTES,
                    })
                } else if has_objects_in_lines(document, bytes.len()) {
                    let document = std::mem::take(document);
                    self.body = Body::Lines(LineDecoder::default());
                    return self.push_decided(&document);
                } else {
                    Ok(())
                }
            }
        };
        if let Err(error) = result {
            self.events.draft.fail(ProviderError::new(
                FailureKind::Garbage,
                RetryAdvice::Never,
                format!("Stopped reading the reply: {error}."),
            ));
        }
        self.events.draft.take_events()
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.events.draft.is_over()
    }

    /// Nothing more has to come, though it may: however the connection ends, nothing is lost.
    #[must_use]
    pub fn may_be_over(&self) -> bool {
        self.events.draft.may_be_over()
    }

    /// How many bytes of the answer have come, of which pings are no part.
    #[must_use]
    pub fn content_bytes(&self) -> usize {
        self.events.draft.content_bytes()
    }

    /// The body ended as bodies do. The second value is what its last, unended event shows.
    pub fn finish(mut self) -> (Result<ModelReply, ProviderError>, Vec<StreamEvent>) {
        let Self { body, events, .. } = &mut self;
        let body = std::mem::replace(body, Body::Undecided);
        let in_lines = matches!(body, Body::Lines(_));
        // Half an event is not garbage, it is a lost connection.
        let whole = |data: &str| {
            is_done(data.trim()) || !data.trim_start().starts_with('{') || is_json(data)
        };
        match body {
            Body::Events(stream) => stream.finish(&mut |event| {
                if whole(&event.data) {
                    events.take_event(&event);
                }
            }),
            Body::Lines(lines) => lines.finish(&mut |line| {
                if whole(line) {
                    events.take_line(line);
                }
            }),
            Body::Json(document) if !events.draft.is_over() => {
                let document = String::from_utf8_lossy(&document);
                events.decoder.take_document(&document, &mut events.draft);
            }
            Body::Json(_) | Body::Undecided => {}
        }
        events.end();
        let shown = events.draft.take_events();
        let result = self.events.draft.finish().map_err(|error| {
            let nothing_read = error.kind == FailureKind::Interrupted && error.partial.is_none();
            let in_order = is_event_stream(&self.opening)
                || in_lines && self.opening.trim_ascii_start().starts_with(b"{");
            let first = self.events.first.as_deref();
            let mistaken = || mistaken(self.events.dialect, first?);
            if error.partial.is_none()
                && matches!(error.kind, FailureKind::Interrupted | FailureKind::Garbage)
                && let Some(mistaken) = mistaken()
            {
                mistaken
            } else if nothing_read && !in_order {
                let opening = String::from_utf8_lossy(&self.opening);
                unreadable("", &excerpt(&opening))
            } else {
                error
            }
        });
        (result, shown)
    }

    /// What has come, if anything of the answer has.
    #[must_use]
    pub fn partial(self) -> Option<ModelReply> {
        self.events.draft.partial()
    }

    /// The body did not end, it failed with ERROR. The second value is what was held back until its end.
    #[must_use]
    pub fn interrupt(mut self, error: ProviderError) -> (ProviderError, Vec<StreamEvent>) {
        self.events.end();
        let shown = self.events.draft.take_events();
        (self.events.draft.interrupt(error), shown)
    }
}

/// Hands the decoder one event after the other. One that can't be read costs nothing but itself.
#[derive(Debug)]
struct EventReader {
    decoder: Decoder,
    dialect: Dialect,
    draft: ReplyDraft,
    /// The first object: it shows whether the server speaks another dialect.
    first: Option<String>,
    /// The name and data of an event that ends in half a character; the next may have the other half.
    half: Option<(String, String)>,
}

impl EventReader {
    fn take_event(&mut self, event: &SseEvent<'_>) {
        match event.source {
            EventSource::StrayLine if !event.data.trim_start().starts_with('{') => {
                self.draft.skip("a line", &event.data);
            }
            _ => self.take(&event.name, &event.data),
        }
    }

    fn take_line(&mut self, line: &str) {
        self.take("", line.strip_prefix("data:").unwrap_or(line));
    }

    fn take(&mut self, name: &str, data: &str) {
        let data = data.trim_ascii();
        if self.draft.is_over() || data.is_empty() {
            return;
        }
        match self.half.take() {
            None => self.read(name, data),
            Some((half_name, half)) => match joined(&half, data) {
                Some((whole, rest)) => {
                    self.read_mended(&half_name, &whole);
                    self.read_mended(name, &rest);
                }
                None => {
                    self.read_mended(&half_name, &half);
                    self.read(name, data);
                }
            },
        }
    }

    fn read(&mut self, name: &str, data: &str) {
        if is_done(data) {
            self.decoder.take_done(&mut self.draft);
        } else if self.decoder.take(name, data, &mut self.draft) == FormReading::Object {
            if self.first.is_none() && !self.draft.has_content() {
                self.first = Some(data.to_owned());
            }
        } else if let Some(error) = reported(name, data) {
            self.draft.fail(error);
        } else if name == "error" {
            self.draft.fail(unreadable(name, data));
        } else if awaits_half(data) {
            self.half = Some((name.to_owned(), data.to_owned()));
        } else {
            self.read_mended(name, data);
        }
    }

    /// Reads what is nearly JSON, or objects in lines.
    fn read_mended(&mut self, name: &str, data: &str) {
        let Self { decoder, draft, .. } = self;
        let mended = mended(data);
        let data = mended.as_deref().unwrap_or(data);
        if decoder.take(name, data, draft) == FormReading::Object {
            return;
        }
        let mut read = 0;
        for line in data.lines().filter(|line| line.starts_with('{')) {
            for object in objects(line) {
                read += usize::from(decoder.take(name, object, draft) == FormReading::Object);
            }
        }
        if read == 0 {
            draft.skip(name, data);
        }
    }

    /// No more comes.
    fn end(&mut self) {
        if let Some((name, data)) = self.half.take() {
            self.read_mended(&name, &data);
        }
        self.draft.settle();
    }
}

/// The objects that LINE has one behind the other; all of it when it is nothing of the kind.
fn objects(line: &str) -> Vec<&str> {
    let mut values = serde_json::Deserializer::from_str(line).into_iter::<serde::de::IgnoredAny>();
    let (mut objects, mut start) = (Vec::new(), 0);
    while let Some(Ok(_)) = values.next() {
        objects.push(line[start..values.byte_offset()].trim());
        start = values.byte_offset();
    }
    objects
}

/// Whether DATA is the mark by which most servers end a stream.
fn is_done(data: &str) -> bool {
    data.eq_ignore_ascii_case("[DONE]")
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Whether DOCUMENT, of which the last NEW bytes have just come, turns out to be an object on each line. That is
/// looked at once, when something comes behind its first line.
fn has_objects_in_lines(document: &[u8], new: usize) -> bool {
    let Some(end) = memchr::memchr(b'\n', document) else {
        return false;
    };
    let behind = |bytes: &[u8]| {
        bytes
            .get(end..)
            .is_some_and(|it| !it.trim_ascii().is_empty())
    };
    let before = &document[..document.len() - new];
    !behind(before)
        && behind(document)
        && std::str::from_utf8(&document[..end])
            .is_ok_and(|line| line.starts_with('{') && is_json(line))
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
