// SPDX-License-Identifier: GPL-3.0-or-later
//! A program that runs for a call: its processes, which are a group of their own that ends with the call, and
//! what it prints, of which the beginning and the end are kept.
//!
//! The group is stopped when the call is cancelled, takes too long or ends, and when Emacs exits. An Emacs that
//! is killed outright can't stop it; the program then ends at its next line of output.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process_group, test_kill_process_group, waitpid,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::visible::is_hidden;

/// What to run.
#[derive(Debug)]
pub(super) struct CommandLine {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) directory: PathBuf,
    pub(super) environment: Vec<(OsString, OsString)>,
    /// How long it may take.
    pub(super) limit: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramEnd {
    Status(i32),
    Signal(i32),
    /// It took longer than it may, and was stopped.
    TimedOut,
    Cancelled,
    /// It wanted to read from a terminal, and was stopped.
    AskedTerminal,
}

/// What became of processes that the program started and left running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    Stopped,
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: ProgramEnd,
    pub(super) left: Left,
    pub(super) printed: Printed,
}

/// How long a program that is stopped may take to clean up.
const CLEANING_UP: Duration = Duration::from_secs(1);
/// How long the output of what the program left running is read.
const DRAINING: Duration = Duration::from_millis(200);
/// How often it is looked whether the program has ended.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const SLOWEST_LOOK: Duration = Duration::from_millis(50);
/// How often what was printed is shown.
const SHOWING: Duration = Duration::from_millis(200);

/// Runs COMMAND until it ends or STOP says so. SHOW gets what was printed so far, from time to time.
///
/// # Errors
///
/// It can't be started.
pub(super) async fn run(
    command: CommandLine,
    stop: CancellationToken,
    show: impl Fn(&Printed),
) -> io::Result<Ended> {
    let limit = command.limit;
    let spawned = tokio::task::spawn_blocking(move || spawn(&command));
    let (mut group, output) = spawned.await.map_err(io::Error::other)??;
    let mut output = pipe::Receiver::from_owned_fd(output)?;
    let deadline = Instant::now() + limit;
    let mut printed = Printed::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut is_open = true;
    let mut look = FIRST_LOOK;
    let mut showing = Instant::now() + SHOWING;
    let mut shown = 0;
    let end = loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break ProgramEnd::Cancelled,
            () = sleep_until(deadline) => break ProgramEnd::TimedOut,
            () = sleep_until(showing) => {
                if printed.total != shown {
                    shown = printed.total;
                    show(&printed);
                }
                showing = Instant::now() + SHOWING;
            }
            count = output.read(&mut buffer), if is_open => match count {
                Ok(count) if count > 0 => printed.take(&buffer[..count]),
                // A program mostly ends as it closes its output.
                Ok(_) | Err(_) => {
                    is_open = false;
                    look = FIRST_LOOK;
                    if let Some(end) = group.look()? {
                        break end;
                    }
                }
            },
            () = sleep(look) => {
                if let Some(end) = group.look()? {
                    break end;
                }
                look = (look * 2).min(SLOWEST_LOOK);
            }
        }
    };
    let has_ended = matches!(end, ProgramEnd::Status(_) | ProgramEnd::Signal(_));
    if is_open && has_ended {
        let drain = async {
            while let Ok(count @ 1..) = output.read(&mut buffer).await {
                printed.take(&buffer[..count]);
            }
        };
        // Those that hold the output open may be servers.
        let _ = timeout(DRAINING, drain).await;
    }
    let left = match has_ended && !group.is_alive() {
        true => Left::Nothing,
        false => {
            group.end().await;
            Left::Stopped
        }
    };
    // What it printed while it was cleaning up. What left the group may print on without end.
    let until = Instant::now() + DRAINING;
    while Instant::now() < until
        && let Ok(count @ 1..) = output.try_read(&mut buffer)
    {
        printed.take(&buffer[..count]);
    }
    Ok(Ended { end, left, printed })
}

/// PROGRAM, to be started in DIRECTORY with just this ENVIRONMENT, in a process group of its own.
pub fn in_own_group<N: AsRef<OsStr>, V: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    directory: &Path,
    environment: &[(N, V)],
) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .process_group(0);
    command
}

/// Starts COMMAND; its group, and where its output and its errors come out, in their order.
fn spawn(command: &CommandLine) -> io::Result<(Group, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    let child = in_own_group(&command.program, &command.directory, &command.environment)
        .args(&command.arguments)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let leader = Pid::from_child(&child);
    let group = Group { leader, end: None };
    Ok((group, reader.into()))
}

/// The processes of a program. They end with this.
#[derive(Debug)]
struct Group {
    leader: Pid,
    end: Option<ProgramEnd>,
}

impl Group {
    /// How the program ended, if it has.
    fn look(&mut self) -> io::Result<Option<ProgramEnd>> {
        if self.end.is_none() {
            let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
            if let Some((_, status)) = waitpid(Some(self.leader), options)? {
                self.end = end_of(status);
                if self.end.is_none() && status.stopped() {
                    return Ok(Some(ProgramEnd::AskedTerminal));
                }
            }
        }
        Ok(self.end)
    }

    /// Whether any process is left.
    fn is_alive(&self) -> bool {
        test_kill_process_group(self.leader).is_ok()
    }

    /// Asks all that is left to end, and then makes it.
    async fn end(&mut self) {
        for signal in [Signal::TERM, Signal::CONT, Signal::KILL] {
            // What is stopped gets the signal to end when it goes on.
            let _ = kill_process_group(self.leader, signal);
            let until = Instant::now() + CLEANING_UP;
            while signal != Signal::TERM && Instant::now() < until {
                if matches!(
                    self.look(),
                    Err(_) | Ok(Some(ProgramEnd::Status(_) | ProgramEnd::Signal(_)))
                ) && !self.is_alive()
                {
                    return;
                }
                sleep(FIRST_LOOK * 5).await;
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.end.is_none() || self.is_alive() {
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
    }
}

fn end_of(status: WaitStatus) -> Option<ProgramEnd> {
    let exited = status.exit_status().map(ProgramEnd::Status);
    exited.or_else(|| status.terminating_signal().map(ProgramEnd::Signal))
}

// What was printed.

/// How many bytes are kept of the beginning and of the end: what a model is given of a result at most.
const HEAD: usize = 6 * 1024;
const TAIL: usize = 9 * 1024;

/// What a program has printed: its beginning and its end.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) total: u64,
    lines: u64,
    head: Vec<u8>,
    /// What comes after that, twice as much as is kept of it at most.
    tail: Vec<u8>,
}

impl Printed {
    fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }

    /// Its end of at most LIMIT bytes, from the beginning of a line on where there is one.
    pub(super) fn end(&self, limit: usize) -> String {
        let both = [self.head.as_slice(), &self.tail].concat();
        let both = match self.is_cut() {
            true => &self.tail,
            false => &both,
        };
        let start = both.len().saturating_sub(limit);
        let end = &both[start..];
        let line = match (start, memchr::memchr(b'\n', end)) {
            (1.., Some(newline)) if newline + 1 < end.len() => newline + 1,
            _ => 0,
        };
        readable(&end[line..])
    }

    fn is_cut(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// All of it that is kept, the gap named; none where it isn't text.
    pub(super) fn text(&self) -> Option<String> {
        let has_nul = |bytes: &[u8]| memchr::memchr(0, bytes).is_some();
        if has_nul(&self.head) || has_nul(&self.tail) {
            return None;
        }
        let mut tail = &self.tail[self.tail.len().saturating_sub(TAIL)..];
        let mut head = self.head.as_slice();
        if self.total == (head.len() + tail.len()) as u64 {
            return Some(readable(&[head, tail].concat()));
        }
        // Whole lines, unless one is longer than all of that.
        if let Some(newline) = memchr::memrchr(b'\n', head) {
            head = &head[..newline];
        }
        if let Some(newline) = memchr::memchr(b'\n', tail).filter(|it| it + 1 < tail.len()) {
            tail = &tail[newline + 1..];
        }
        Some(format!(
            "{}\n[… {} of {} bytes left out; it printed {} lines …]\n{}",
            readable(head),
            self.total - (head.len() + tail.len()) as u64,
            self.total,
            self.lines,
            readable(tail)
        ))
    }
}

/// BYTES as people read them: without colours, with the last state of lines that were written over, and
/// with what can't be seen spelled out.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            shown.push('\n');
        }
        let line = line.strip_suffix('\r').unwrap_or(line);
        let last = line.rsplit('\r').find(|it| !it.is_empty());
        let mut rest = last.unwrap_or_default().chars().peekable();
        while let Some(it) = rest.next() {
            match it {
                '\u{1b}' if rest.next_if_eq(&'[').is_some() => {
                    let _ = rest.by_ref().find(|it| matches!(it, '@'..='~'));
                }
                '\t' => shown.push(it),
                it if is_hidden(it) => shown.extend(it.escape_default()),
                it => shown.push(it),
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(pieces: &[&[u8]]) -> Printed {
        let mut printed = Printed::default();
        for piece in pieces {
            printed.take(piece);
        }
        printed
    }

    #[test]
    fn what_is_printed_is_kept_at_both_ends_and_counted() {
        let mut all = printed(&[b"first\n"]);
        for number in 0..200_000 {
            all.take(format!("line {number}\n").as_bytes());
        }
        assert!(all.head.len() == HEAD && all.tail.len() <= 2 * TAIL);
        let text = all.text().unwrap();
        assert!(text.starts_with("first\nline 0\n") && text.ends_with("line 199999\n"));
        let total: usize = 6
            + (0..200_000)
                .map(|it| format!("line {it}\n").len())
                .sum::<usize>();
        let gap = format!(" of {total} bytes left out; it printed 200001 lines ");
        assert!(text.contains(&gap) && text.len() < 16 * 1024, "{text}");
        let end = all.end(100);
        assert!(
            end.starts_with("line 19999") && end.ends_with("line 199999\n"),
            "{end}"
        );
        assert_eq!(printed(&[b"ab", b"c"]).end(100), "abc");
        assert_eq!(printed(&[b"ab", b"c"]).text().unwrap(), "abc");
    }

    #[test]
    fn what_a_terminal_would_do_is_not_shown() {
        let text = |bytes| printed(&[bytes]).text().unwrap();
        assert_eq!(text(b"\x1b[31mred\x1b[0m\r\n"), "red\n");
        assert_eq!(text(b" 10%\r 20%\rdone\n"), "done\n");
        assert_eq!(text(b"a\x07\tb \xff"), "a\\u{7}\tb \u{fffd}");
        assert_eq!(text("a\u{202e}b".as_bytes()), "a\\u{202e}b");
        assert_eq!(printed(&[b"\x7fELF\0\0"]).text(), None);
    }
}
