// SPDX-License-Identifier: GPL-3.0-or-later
//! Lines of JSON: bytes in any chunking in, lines out. Pure; `reply` feeds it what `http` receives.

use memchr::memchr2;

use super::sse::{MAX_EVENT_BYTES, SseError, text_of};

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
