// SPDX-License-Identifier: GPL-3.0-or-later
//! The ids of stored chats, which are also the names of their files: so only what is no path counts.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::SystemTime;

use super::ChatError;

/// What a chat's file is called behind its id.
pub const EXTENSION: &str = "jsonl";

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
