// SPDX-License-Identifier: GPL-3.0-or-later
//! Files of the user's project, for tools: which paths may be touched ([`path`]), and reading,
//! writing, listing and searching them. Knows nothing of Emacs, tools or sessions.

pub mod commit;
mod copies;
pub mod encoding;
pub mod fingerprint;
pub mod grep;
pub mod listing;
mod parallel;
pub mod path;
pub mod patterns;
pub mod private;
pub mod read;
pub mod search;
pub mod systems;
pub mod verified;
pub mod walk;

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::{fmt, io};

use rustix::fs::{OFlags, Stat};

/// What went wrong with a file, for callers that go on differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing is there.
    Missing,
    /// Something is there already.
    Exists,
    /// It is not what it was when the path was judged, or when the model last saw it.
    Changed,
    /// It is another kind of thing: a directory, a binary, a device.
    WrongKind,
    /// The arguments make no sense: a pattern, a line number.
    BadRequest,
    /// The caller said stop.
    Cancelled,
    /// The system refused: permissions, space, input and output.
    System,
}

/// Why a file could not be used: a sentence that a model can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FileError {
    pub trouble: Trouble,
    pub message: String,
}

impl FileError {
    pub fn new(trouble: Trouble, message: impl Into<String>) -> Self {
        Self {
            trouble,
            message: message.into(),
        }
    }

    /// What the system says about SHOWN, the name that the user knows the file by.
    #[must_use]
    pub fn system(shown: impl fmt::Display, error: &io::Error) -> Self {
        let (trouble, what) = match error.kind() {
            io::ErrorKind::NotFound => (Trouble::Missing, "does not exist"),
            io::ErrorKind::PermissionDenied => (Trouble::System, "can't be used: no permission"),
            io::ErrorKind::AlreadyExists => (Trouble::Exists, "exists already"),
            io::ErrorKind::StorageFull => (
                Trouble::System,
                "can't be written: no space is left on its device; nothing was changed",
            ),
            io::ErrorKind::QuotaExceeded => (
                Trouble::System,
                "can't be written: the disk quota is used up; nothing was changed",
            ),
            io::ErrorKind::ReadOnlyFilesystem => (
                Trouble::System,
                "can't be written: it is on a read-only file system",
            ),
            io::ErrorKind::IsADirectory => (Trouble::WrongKind, "is a directory, not a file"),
            io::ErrorKind::NotADirectory => {
                (Trouble::WrongKind, "has a file where a directory should be")
            }
            _ => {
                return Self::new(
                    Trouble::System,
                    format!("'{shown}' can't be used: {error}."),
                );
            }
        };
        Self::new(trouble, format!("'{shown}' {what}."))
    }
}

/// Asked often during long work; true means stop.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// The error of work that was stopped.
#[must_use]
pub fn cancelled() -> FileError {
    FileError::new(Trouble::Cancelled, "The search was cancelled.")
}

/// A size as people read it: `0 B`, `1023 B`, `1.0 KB`.
#[must_use]
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// "1 line", "2 lines".
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let ending = if number == 1 {
        ""
    } else if noun.ends_with("ch") {
        "es"
    } else {
        "s"
    };
    let stem = match noun.strip_suffix("ry") {
        Some(stem) if number != 1 => return format!("{number} {stem}ries"),
        _ => noun,
    };
    format!("{number} {stem}{ending}")
}

// What tells one file from all others, and how a folder on the way to one is opened.

/// What opening a folder on the way needs: the right to pass, not to list it.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::RDONLY;

/// What tells one file from all others, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
}

impl Identity {
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "their types differ by system"
)]
fn identity(stat: &Stat) -> Identity {
    Identity {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
    }
}
