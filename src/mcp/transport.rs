// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages on a stream, one a line: read within a limit and written within a time, so that no client
//! can fill the memory by what it sends or doesn't read. A client also has a share of the memory, for its
//! requests from when they are read until their answers are.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// The longest message that is read, in bytes.
pub const LONGEST: usize = 8 * 1024 * 1024;

/// How many messages wait for a client that is slow to read.
pub const WAITING: usize = 64;

/// How long a client may take to read what fills its buffer.
const READING_TIME: Duration = Duration::from_secs(30);

/// A message on its way to a client, as text, which takes far less than its tree.
pub struct Outgoing {
    line: Vec<u8>,
    /// Held until the client has read it.
    _room: Option<OwnedSemaphorePermit>,
}

impl Outgoing {
    #[must_use]
    pub fn new(message: &Value) -> Self {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        Self { line, _room: None }
    }

    /// MESSAGE, an answer that keeps ROOM until the client has read it.
    #[must_use]
    pub fn keeping(room: OwnedSemaphorePermit, message: &Value) -> Self {
        Self {
            _room: Some(room),
            ..Self::new(message)
        }
    }
}

/// What came from a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Whole(Vec<u8>),
    /// A line longer than the limit, which was left out.
    TooLong,
    End,
}

/// Reads the next line of READER, of at most LONGEST bytes.
///
/// # Errors
///
/// Those of the stream.
pub async fn read(reader: &mut (impl AsyncBufRead + Unpin), longest: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            // What has no end was cut off, and nobody waits for an answer to it.
            return Ok(Line::End);
        }
        let end = memchr::memchr(b'\n', available);
        let taken = end.unwrap_or(available.len());
        too_long |= line.len() + taken > longest;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(&available[..taken]);
        }
        reader.consume(end.map_or(taken, |end| end + 1));
        match (end, too_long) {
            (None, _) => {}
            (Some(_), true) => return Ok(Line::TooLong),
            (Some(_), false) => {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                if !line.is_empty() {
                    return Ok(Line::Whole(line));
                }
            }
        }
    }
}

/// Writes MESSAGES to WRITER, a line each, until there are none any more, GONE is cancelled, or the
/// client doesn't read.
pub async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Outgoing>,
    gone: CancellationToken,
) {
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            () = gone.cancelled() => None,
        };
        let Some(message) = message else { break };
        let written = tokio::time::timeout(READING_TIME, writer.write_all(&message.line)).await;
        if !matches!(written, Ok(Ok(()))) {
            tracing::info!("a client doesn't read what it is sent; its connection is closed");
            break;
        }
    }
    gone.cancel();
}

// The share of the memory. A client that sends more than that, or doesn't read, is not read from meanwhile.

/// How many bytes the requests of a client, or the arguments of its calls, may hold.
pub const SHARE: usize = 2 * LONGEST;

/// As how long each large request counts at least.
const LEAST: usize = SHARE / 64;

/// The longest request that is small. Those have room of their own, so that what is large can be waited for
/// and cancelled.
const SMALL: usize = 64 * 1024;

/// How many small requests are worked on at once.
const MOST_SMALL: usize = 64;

/// One client's share.
pub struct Share {
    /// The bytes of large requests.
    large: Arc<Semaphore>,
    /// The number of small ones.
    small: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            large: Arc::new(Semaphore::new(SHARE)),
            small: Arc::new(Semaphore::new(MOST_SMALL)),
        }
    }
}

impl Share {
    /// Waits for the room that a request of LENGTH bytes takes, and gives it; none when the client is GONE.
    pub async fn take(
        &self,
        length: usize,
        gone: &CancellationToken,
    ) -> Option<OwnedSemaphorePermit> {
        let (room, size) = match length <= SMALL {
            true => (&self.small, 1),
            false => (&self.large, length.clamp(LEAST, SHARE)),
        };
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        tokio::select! {
            room = Arc::clone(room).acquire_many_owned(size) => room.ok(),
            () = gone.cancelled() => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, BufReader};

    use super::*;

    fn lines(text: &[u8], longest: usize, piece: usize) -> Vec<Line> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut reader = BufReader::with_capacity(piece, text);
            let mut lines = Vec::new();
            loop {
                match read(&mut reader, longest).await.unwrap() {
                    Line::End => return lines,
                    line => lines.push(line),
                }
            }
        })
    }

    #[test]
    fn lines_are_told_apart_and_long_ones_left_out() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        assert_eq!(
            lines(b"a\n\nbcd\r\ntoo long\n\xc3\xa9\nrest", 4, 3),
            [whole("a"), whole("bcd"), Line::TooLong, whole("\u{e9}")]
        );
    }

    #[test]
    fn a_hundred_megabytes_without_an_end_are_no_trouble() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let long = tokio::io::repeat(b'x').take(100_000_000);
            let mut reader = BufReader::new(long.chain(&b"\nnext\n"[..]));
            let first = read(&mut reader, LONGEST).await.unwrap();
            assert_eq!(first, Line::TooLong);
            let next = read(&mut reader, LONGEST).await.unwrap();
            assert_eq!(next, Line::Whole(b"next".to_vec()));
        });
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(text in proptest::collection::vec(any::<u8>(), 0..200), piece in 1_usize..20) {
            prop_assert_eq!(lines(&text, 10, piece), lines(&text, 10, 4096));
        }
    }
}
