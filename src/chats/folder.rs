// SPDX-License-Identifier: GPL-3.0-or-later
//! The folder of the stored chats: the ids of chats, which are also the names of their files, opening a
//! file, and its lines. All of it is the user's alone; a symbolic link is never followed.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufRead};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::ChatError;

/// A folder of stored chats; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatFolder {
    path: PathBuf,
}

/// Whether a chat's file is for this process alone to write.
#[derive(Debug)]
pub enum Hold {
    Ours(File),
    /// Another Emacs, or another chat here, has it.
    Theirs,
}

impl ChatFolder {
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[must_use]
    pub fn file(&self, id: &ChatId) -> PathBuf {
        self.path.join(id.file_name())
    }

    /// Makes the folder where there is none.
    ///
    /// # Errors
    ///
    /// It can't be made.
    pub fn make(&self) -> Result<(), ChatError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
            .map_err(|source| ChatError::io(&self.path, source))
    }

    /// The ids of all chats in the folder; none where there is no folder.
    ///
    /// # Errors
    ///
    /// The folder can't be read.
    pub fn ids(&self) -> Result<Vec<ChatId>, ChatError> {
        let entries = match std::fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|source| ChatError::io(&self.path, source))?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter_map(|name| ChatId::of_file(&name)).collect())
    }

    /// Opens the file of chat ID for reading.
    ///
    /// # Errors
    ///
    /// There is none, or it is no plain file.
    pub fn open(&self, id: &ChatId) -> Result<File, ChatError> {
        self.open_with(id, OpenOptions::new().read(true))
    }

    /// Makes the file of chat ID, which is new, and holds it.
    ///
    /// # Errors
    ///
    /// It can't be made, or exists.
    pub fn create(&self, id: &ChatId) -> Result<File, ChatError> {
        self.make()?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true).mode(0o600);
        let file = self.open_with(id, &mut options)?;
        // Nobody else knows of it yet.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(file)
    }

    /// Opens the file of chat ID for writing, if nobody else does; it is held as long as it is open.
    ///
    /// # Errors
    ///
    /// There is none, it is no plain file, or it can't be written.
    pub fn hold(&self, id: &ChatId) -> Result<Hold, ChatError> {
        let file = self.open_with(id, OpenOptions::new().read(true).append(true))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(Hold::Theirs),
            // Some file systems have no locks.
            Ok(()) | Err(_) => Ok(Hold::Ours(file)),
        }
    }

    /// Whether nobody writes chat ID now.
    ///
    /// # Errors
    ///
    /// As of [`ChatFolder::hold`].
    pub fn is_free(&self, id: &ChatId) -> Result<bool, ChatError> {
        Ok(matches!(self.hold(id)?, Hold::Ours(_)))
    }

    fn open_with(&self, id: &ChatId, options: &mut OpenOptions) -> Result<File, ChatError> {
        let path = self.file(id);
        // A pipe in the file's place must not make us wait.
        let opened = options
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path);
        let file = opened.map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT) => ChatError::Missing(id.to_string()),
            Some(libc::ELOOP) => ChatError::NoFile(path.clone()),
            _ => ChatError::io(&path, source),
        })?;
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(file),
            Ok(_) => Err(ChatError::NoFile(path)),
            Err(source) => Err(ChatError::io(path, source)),
        }
    }
}

/// What a chat's file is called behind its id.
const EXTENSION: &str = "jsonl";

const LONGEST: usize = 64;

/// The id of a stored chat, such as `session-20261124-213000-0A3F`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChatId(String);

impl ChatId {
    /// An id that this process did not give before, of a chat that begins NOW.
    #[must_use]
    pub fn new(now: SystemTime) -> Self {
        static LAST: LazyLock<AtomicU16> =
            LazyLock::new(|| AtomicU16::new(RandomState::new().hash_one(0) as u16));
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        // 2026-11-24T21:30:00Z
        let time = humantime::format_rfc3339_seconds(now).to_string();
        let digits: String = time.chars().filter(char::is_ascii_digit).collect();
        let (day, time) = digits.split_at(digits.len() - 6);
        Self(format!("session-{day}-{time}-{number:04X}"))
    }

    /// TEXT as an id.
    ///
    /// # Errors
    ///
    /// When it can't be one: it is too long, or has other characters than letters, digits, `-` and `_`.
    pub fn parse(text: &str) -> Result<Self, ChatError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let fits = (1..=LONGEST).contains(&text.len())
            && !text.starts_with('-')
            && text.bytes().all(plain);
        match fits {
            true => Ok(Self(text.to_owned())),
            false => Err(ChatError::Id(text.chars().take(LONGEST).collect())),
        }
    }

    /// The id of the chat whose file is called NAME, if it can be one's.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Self> {
        let (id, extension) = name.split_once('.')?;
        (extension == EXTENSION)
            .then(|| Self::parse(id).ok())
            .flatten()
    }

    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.{EXTENSION}", self.0)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// The lines of a file that may be of any size: none is held that is longer than a limit.

/// The longest line that is read. Results are cut long before.
pub const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// What the next line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRead {
    /// It is in the buffer, without its end. `bytes` counts that, too.
    Line { bytes: u64 },
    /// It is too long, and was passed over.
    TooLong { bytes: u64 },
    /// The file ends.
    End,
}

/// Reads the next line of INPUT into BUFFER, unless it has more than LIMIT bytes.
///
/// # Errors
///
/// INPUT can't be read.
pub fn next_line(
    input: &mut impl BufRead,
    buffer: &mut Vec<u8>,
    limit: usize,
) -> io::Result<LineRead> {
    buffer.clear();
    let mut bytes: u64 = 0;
    let mut kept = true;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(match bytes {
                0 => LineRead::End,
                _ => ended(kept, bytes),
            });
        }
        let end = memchr::memchr(b'\n', available);
        let text = &available[..end.unwrap_or(available.len())];
        kept = kept && buffer.len() + text.len() <= limit;
        match kept {
            true => buffer.extend_from_slice(text),
            false => *buffer = Vec::new(),
        }
        let used = text.len() + usize::from(end.is_some());
        bytes += used as u64;
        input.consume(used);
        if end.is_some() {
            return Ok(ended(kept, bytes));
        }
    }
}

fn ended(kept: bool, bytes: u64) -> LineRead {
    match kept {
        true => LineRead::Line { bytes },
        false => LineRead::TooLong { bytes },
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_counted() {
        let text = b"ab\n0123456789\n\ncd";
        let mut input = BufReader::with_capacity(3, &text[..]);
        let mut buffer = Vec::new();
        let mut all = Vec::new();
        loop {
            match next_line(&mut input, &mut buffer, 4).expect("a slice can be read") {
                LineRead::End => break,
                read => all.push((read, buffer.clone())),
            }
        }
        assert_eq!(
            all,
            [
                (LineRead::Line { bytes: 3 }, b"ab".to_vec()),
                (LineRead::TooLong { bytes: 11 }, Vec::new()),
                (LineRead::Line { bytes: 1 }, Vec::new()),
                (LineRead::Line { bytes: 2 }, b"cd".to_vec()),
            ]
        );
    }
}
