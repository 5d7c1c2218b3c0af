// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server writes, with limits: a message that is too long, or too many of them, end the connection,
//! where reading on would cost memory or a processor.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, ReadBuf};

/// The longest message, in bytes.
pub(super) const LONGEST_MESSAGE: usize = 16 * 1024 * 1024;

/// So many messages within [`WINDOW`] are a flood.
const FLOOD: usize = 20_000;
const WINDOW: Duration = Duration::from_secs(10);

/// A stream of lines within limits. What ended it is told by TROUBLE.
pub(super) struct Limited<R> {
    stream: R,
    /// Bytes since the last line ended.
    line: usize,
    lines: usize,
    since: Instant,
    trouble: Box<dyn Fn(&str) + Send + Sync>,
}

impl<R> Limited<R> {
    pub(super) fn new(stream: R, trouble: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            stream,
            line: 0,
            lines: 0,
            since: Instant::now(),
            trouble: Box::new(trouble),
        }
    }

    /// Counts BYTES; says what is too much.
    fn count(&mut self, bytes: &[u8]) -> Option<String> {
        let ends = memchr::memchr_iter(b'\n', bytes).count();
        match memchr::memrchr(b'\n', bytes) {
            Some(last) => self.line = bytes.len() - last - 1,
            None => self.line += bytes.len(),
        }
        if self.line > LONGEST_MESSAGE {
            let most = LONGEST_MESSAGE / 1024 / 1024;
            return Some(format!("it sent a message of more than {most} MB"));
        }
        if self.since.elapsed() > WINDOW {
            (self.lines, self.since) = (0, Instant::now());
        }
        self.lines += ends;
        (self.lines > FLOOD).then(|| "it sent messages without end".to_owned())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Limited<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = read
            && let Some(trouble) = self.count(&buffer.filled()[before..])
        {
            (self.trouble)(&trouble);
            return Poll::Ready(Err(io::Error::other(trouble)));
        }
        read
    }
}
