// SPDX-License-Identifier: GPL-3.0-or-later
//! The framing of streamed replies: server-sent events and lines of JSON. Bytes in any chunking in, events
//! or lines out. Pure; `reply` feeds it what `http` receives.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::accumulator::WholeObject;

/// The most bytes that one event, or one line, may have. A reply's largest event is a few
/// kilobytes; this only keeps a mad server from filling the memory.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Why decoding stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("the server sent one event of more than {limit} bytes")]
    TooLarge { limit: usize },
}

/// One event. `name` is empty unless an `event:` line gave one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent<'a> {
    pub name: Cow<'a, str>,
    pub data: Cow<'a, str>,
    pub source: EventSource,
}

/// Where an event's data stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSource {
    DataLines,
    /// In a line that is no field of an event, as when a gateway writes what went wrong into the stream.
    StrayLine,
}

impl SseEvent<'_> {
    /// The same event with text of its own.
    #[must_use]
    pub fn into_owned(self) -> SseEvent<'static> {
        SseEvent {
            name: Cow::Owned(self.name.into_owned()),
            data: Cow::Owned(self.data.into_owned()),
            source: self.source,
        }
    }
}

/// The decoder. Time is linear in the bytes, however they are cut into chunks; only a line that
/// spans chunks is copied before it is understood.
#[derive(Debug)]
pub struct SseDecoder {
    /// The start of a line whose end has not arrived.
    line: Vec<u8>,
    /// The data lines of the event so far, each followed by LF.
    data: Vec<u8>,
    name: Vec<u8>,
    position: Position,
    limit: usize,
    /// Whether the data so far is a JSON object, as far as it was read.
    whole: WholeObject,
    read: usize,
}

/// Where in the stream the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Before the end of the first line, which may begin with a byte order mark.
    FirstLine,
    /// Anywhere else.
    Inside,
    /// Behind a CR that ended a chunk: an LF here belongs to it.
    AfterCarriageReturn,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl SseDecoder {
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            name: Vec::new(),
            position: Position::FirstLine,
            limit,
            whole: WholeObject::default(),
            read: 0,
        }
    }

    /// Take more bytes; `sink` gets each event that they complete.
    pub fn push(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(SseEvent<'_>),
    ) -> Result<(), SseError> {
        let mut rest = bytes;
        if self.position == Position::AfterCarriageReturn && !rest.is_empty() {
            self.position = Position::Inside;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr2(b'\r', b'\n', rest) {
            let (line, tail) = rest.split_at(end);
            self.check_size(line.len())?;
            if let Some(after) = self.take_whole_event(line, tail, sink) {
                rest = after;
                continue;
            }
            self.finish_line(line, sink);
            rest = match tail {
                [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
                [] => tail,
            };
            self.position = match tail {
                [b'\r'] => Position::AfterCarriageReturn,
                _ => Position::Inside,
            };
        }
        self.check_size(rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// The stream is over: what it left behind counts as an event even without its blank line.
    pub fn finish(mut self, sink: &mut dyn FnMut(SseEvent<'_>)) {
        if !self.line.is_empty() {
            self.finish_line(&[], sink);
        }
        self.dispatch(sink);
    }

    fn check_size(&self, more: usize) -> Result<(), SseError> {
        if self.line.len() + self.data.len() + more > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }

    /// Hands on the event whose only data is LINE, if that is so, without a copy of it. TAIL is what follows
    /// the line: when a blank line does, the event ends there. Gives what is behind it.
    fn take_whole_event<'b>(
        &mut self,
        line: &[u8],
        tail: &'b [u8],
        sink: &mut dyn FnMut(SseEvent<'_>),
    ) -> Option<&'b [u8]> {
        let ([b'\n', b'\n', after @ ..] | [b'\r', b'\n', b'\r', b'\n', after @ ..]) = tail else {
            return None;
        };
        if !self.line.is_empty() || !self.data.is_empty() {
            return None;
        }
        let value = line.strip_prefix(b"data:")?;
        self.position = Position::Inside;
        sink(SseEvent {
            name: text_of(&self.name),
            data: text_of(value.strip_prefix(b" ").unwrap_or(value)),
            source: EventSource::DataLines,
        });
        self.name.clear();
        Some(after)
    }

    /// The line that began in earlier chunks, if any, ends with `tail`.
    fn finish_line(&mut self, tail: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) {
        if self.line.is_empty() {
            self.take_line(tail, sink);
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(tail);
            self.take_line(&line, sink);
            line.clear();
            self.line = line;
        }
    }

    fn take_line(&mut self, line: &[u8], sink: &mut dyn FnMut(SseEvent<'_>)) {
        let line = match self.position {
            Position::FirstLine => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            _ => line,
        };
        if line.is_empty() {
            self.dispatch(sink);
            return;
        }
        let (field, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        // An empty field is a comment; `id` and `retry` serve reconnection, which must never
        // happen: a request that is sent twice is billed twice.
        match field {
            b"data" => {
                self.end_whole_event(sink);
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => {
                self.end_whole_event(sink);
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            b"" | b"id" | b"retry" => {}
            _ => sink(SseEvent {
                name: "".into(),
                data: text_of(line),
                source: EventSource::StrayLine,
            }),
        }
    }

    /// Some servers leave out the blank lines: an event whose data is a whole object ends before another line.
    fn end_whole_event(&mut self, sink: &mut dyn FnMut(SseEvent<'_>)) {
        if self.data.is_empty() {
            return;
        }
        self.whole.read(&text_of(&self.data[self.read..]));
        self.read = self.data.len();
        if self.whole.is(&text_of(&self.data)) {
            self.dispatch(sink);
        }
    }

    fn dispatch(&mut self, sink: &mut dyn FnMut(SseEvent<'_>)) {
        if let Some((_, data)) = self.data.split_last() {
            sink(SseEvent {
                name: text_of(&self.name),
                data: text_of(data),
                source: EventSource::DataLines,
            });
        }
        self.whole = WholeObject::default();
        self.read = 0;
        self.data.clear();
        self.name.clear();
    }
}

/// BYTES as text. Those that are none, as hardly any are, become replacement characters.
pub(super) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

// Lines of JSON.

/// The decoder. Time is linear in the bytes, however they are cut into chunks.
#[derive(Debug, Default)]
pub struct LineDecoder {
    /// The start of a line whose end has not arrived.
    line: Vec<u8>,
}

impl LineDecoder {
    /// Take more bytes; `sink` gets each line that they complete and that has something in it.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(&str)) -> Result<(), SseError> {
        let mut rest = bytes;
        while let Some(end) = memchr2(b'\r', b'\n', rest) {
            let line = &rest[..end];
            if self.line.is_empty() && end <= MAX_EVENT_BYTES {
                // It is here as a whole, so it needs no copy.
                dispatch(line, sink);
            } else {
                self.take(line)?;
                self.end_line(sink);
            }
            rest = &rest[end + 1..];
        }
        self.take(rest)
    }

    /// The stream is over: what it left behind counts as a line even without its end.
    pub fn finish(mut self, sink: &mut dyn FnMut(&str)) {
        self.end_line(sink);
    }

    fn take(&mut self, more: &[u8]) -> Result<(), SseError> {
        if self.line.len() + more.len() > MAX_EVENT_BYTES {
            return Err(SseError::TooLarge {
                limit: MAX_EVENT_BYTES,
            });
        }
        self.line.extend_from_slice(more);
        Ok(())
    }

    fn end_line(&mut self, sink: &mut dyn FnMut(&str)) {
        dispatch(&self.line, sink);
        self.line.clear();
    }
}

fn dispatch(line: &[u8], sink: &mut dyn FnMut(&str)) {
    if !line.trim_ascii().is_empty() {
        sink(&text_of(line));
    }
}
