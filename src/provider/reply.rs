// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads the body of a successful answer: bytes in any chunking in, what there is to show out, and in
//! the end one [`ModelReply`]. The dialect's decoder understands what the framing brings. Pure;
//! `http` feeds it.

use super::dialect::Decoder;
use super::draft::ReplyDraft;
use super::failure::{FailureKind, ProviderError, excerpt};
use super::history::Dialect;
use super::ndjson::LineDecoder;
use super::report::unreadable;
use super::retry::RetryAdvice;
use super::sse::{MAX_EVENT_BYTES, SseDecoder, SseError};
use super::{ModelReply, StreamEvent};

/// Reads the body of a successful answer: a stream of events, or, from servers that do not stream
/// and from those that report errors so, one JSON document.
#[derive(Debug)]
pub struct ReplyReader {
    body: Body,
    decoder: Decoder,
    draft: ReplyDraft,
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
        let decoder = Decoder::new(dialect);
        Self {
            body: match dialect {
                Dialect::Ollama => Body::Lines(LineDecoder::default()),
                _ => Body::Undecided,
            },
            draft: ReplyDraft::new(decoder.end_rule()),
            decoder,
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
        let Self { decoder, draft, .. } = self;
        let result = match &mut self.body {
            Body::Events(events) => events.push(bytes, &mut |event| {
                take(decoder, draft, &event.name, &event.data);
            }),
            Body::Lines(lines) => lines.push(bytes, &mut |line| take(decoder, draft, "", line)),
            Body::Undecided => Ok(()),
            Body::Json(document) => {
                document.extend_from_slice(bytes);
                if document.len() > MAX_EVENT_BYTES {
                    Err(SseError::TooLarge {
                        limit: MAX_EVENT_BYTES,
                    })
                } else {
                    Ok(())
                }
            }
        };
        if let Err(error) = result {
            self.draft.fail(ProviderError::new(
                FailureKind::Garbage,
                RetryAdvice::Never,
                format!("The reply was given up: {error}."),
            ));
        }
        self.draft.take_events()
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.draft.is_over()
    }

    /// How many bytes of the answer have come, of which pings are no part.
    #[must_use]
    pub fn content_bytes(&self) -> usize {
        self.draft.content_bytes()
    }

    /// The body ended as bodies do. The second value is what its last, unended event shows.
    pub fn finish(mut self) -> (Result<ModelReply, ProviderError>, Vec<StreamEvent>) {
        let Self {
            body,
            decoder,
            draft,
            ..
        } = &mut self;
        let body = std::mem::replace(body, Body::Undecided);
        let in_lines = matches!(body, Body::Lines(_));
        match body {
            Body::Events(events) => events.finish(&mut |event| {
                // Half an event is not garbage, it is a lost connection.
                if event.data.trim() == "[DONE]" || is_json(&event.data) {
                    take(decoder, draft, &event.name, &event.data);
                }
            }),
            Body::Lines(lines) => lines.finish(&mut |line| {
                if is_json(line) {
                    take(decoder, draft, "", line);
                }
            }),
            Body::Json(document) if !draft.is_over() => {
                decoder.take_document(&String::from_utf8_lossy(&document), draft);
            }
            Body::Json(_) | Body::Undecided => {}
        }
        let events = draft.take_events();
        let result = self.draft.finish().map_err(|error| {
            let nothing_read = error.kind == FailureKind::Interrupted && error.partial.is_none();
            let in_order = is_event_stream(&self.opening)
                || in_lines && self.opening.trim_ascii_start().starts_with(b"{");
            if nothing_read && !in_order {
                let opening = String::from_utf8_lossy(&self.opening);
                unreadable("", &excerpt(&opening))
            } else {
                error
            }
        });
        (result, events)
    }

    /// What has come, if anything of the answer has.
    #[must_use]
    pub fn partial(self) -> Option<ModelReply> {
        self.draft.partial()
    }

    /// The body did not end, it failed.
    #[must_use]
    pub fn interrupt(self, error: ProviderError) -> ProviderError {
        self.draft.interrupt(error)
    }
}

/// Hands one event's name and data to DECODER.
fn take(decoder: &mut Decoder, draft: &mut ReplyDraft, name: &str, data: &str) {
    let data = data.trim_ascii();
    if !draft.is_over() && !data.is_empty() {
        decoder.take(name, data, draft);
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
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
