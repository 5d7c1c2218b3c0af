// SPDX-License-Identifier: GPL-3.0-or-later
//! What a server writes. Its messages have limits: one that is too long, or too many of them, end the
//! connection, where reading on would cost memory or a processor. Of its error output the end is kept, with
//! what became of it, in memory: a server that floods its log fills no disk.

use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, ReadBuf};

use crate::runtime::held;

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

/// The most that is kept, in bytes.
const MOST_KEPT: usize = 64 * 1024;

/// How much of it a failure tells.
const TOLD: usize = 600;

#[derive(Debug, Default)]
pub(super) struct ServerLog(Mutex<String>);

impl ServerLog {
    /// Adds TEXT as the server wrote it.
    pub(super) fn add(&self, text: &str) {
        let log = &mut *held(&self.0);
        log.push_str(text);
        if log.len() > MOST_KEPT {
            let cut = (log.len() - MOST_KEPT / 2..=log.len()).find(|&it| log.is_char_boundary(it));
            log.drain(..cut.unwrap_or(0));
        }
    }

    /// Adds a line of agent-q's own.
    pub(super) fn note(&self, what: &str) {
        let ends = held(&self.0).is_empty() || held(&self.0).ends_with('\n');
        let start = if ends { "" } else { "\n" };
        self.add(&format!("{start}[agent-q] {what}\n"));
    }

    pub(super) fn text(&self) -> String {
        held(&self.0).clone()
    }

    /// The last lines that the server wrote itself, or nothing.
    pub(super) fn last_words(&self) -> String {
        let log = held(&self.0);
        let own: Vec<&str> = log
            .lines()
            .filter(|line| !line.starts_with("[agent-q]") && !line.trim().is_empty())
            .collect();
        let mut length = 0;
        let fits = |line: &&&str| {
            length += line.len() + 1;
            length <= TOLD
        };
        let mut last: Vec<&str> = own.iter().rev().take_while(fits).copied().collect();
        last.reverse();
        last.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_flood_is_kept() {
        let log = ServerLog::default();
        for line in 0..20_000 {
            log.add(&format!("liné {line}\n"));
        }
        log.note("ended");
        let text = log.text();
        assert!(text.len() <= MOST_KEPT);
        assert!(text.ends_with("liné 19999\n[agent-q] ended\n"));
        assert!(log.last_words().ends_with("liné 19999"));
        assert!(log.last_words().len() <= TOLD);
    }
}
