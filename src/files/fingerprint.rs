// SPDX-License-Identifier: GPL-3.0-or-later
//! Fingerprints of contents: is a text still what the model last saw? For huge files their ends,
//! size and time stand for the whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::path::Resolved;
use super::{FileError, Trouble};

/// Up to this size every byte counts.
const WHOLE: u64 = 16 * 1024 * 1024;
/// What is read of each end of a larger file.
const END: u64 = 64 * 1024;

/// What a content was at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    pub size: u64,
    pub hash: u64,
    /// When the file was last written, in nanoseconds; nothing for a text that is in no file.
    pub modified: Option<i128>,
}

impl Fingerprint {
    /// The fingerprint of TEXT, wherever it is.
    #[must_use]
    pub fn of_bytes(text: &[u8]) -> Self {
        Self {
            size: text.len() as u64,
            hash: xxh3_64(text),
            modified: None,
        }
    }

    /// The fingerprint of what FILE holds now; leaves its position alone.
    ///
    /// # Errors
    ///
    /// The file can't be read.
    pub fn of_file(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let size = metadata.len();
        let mut hash = Xxh3::new();
        if size <= WHOLE {
            hash_range(file, 0, size, &mut hash)?;
        } else {
            hash_range(file, 0, END, &mut hash)?;
            hash_range(file, size - END, size, &mut hash)?;
        }
        let nanoseconds = i128::from(metadata.mtime()) * 1_000_000_000;
        Ok(Self {
            size,
            hash: hash.digest(),
            modified: Some(nanoseconds + i128::from(metadata.mtime_nsec())),
        })
    }

    /// Whether this and OTHER are of the same content; a file that was only touched counts as
    /// unchanged, as far as all of it was looked at.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        let same = self.size == other.size && self.hash == other.hash;
        same && (self.size <= WHOLE || self.modified == other.modified)
    }

    /// Makes sure that FILE, which is at TARGET, holds what this is of.
    ///
    /// # Errors
    ///
    /// It was changed, or can't be read.
    pub fn must_be_of(&self, file: &File, target: &Resolved) -> Result<(), FileError> {
        let shown = target.shown();
        let now = Self::of_file(file).map_err(|error| FileError::system(&shown, &error))?;
        if self.same_content(&now) {
            return Ok(());
        }
        let message = format!(
            "'{shown}' was changed since it was last read; read it again before changing it."
        );
        Err(FileError::new(Trouble::Changed, message))
    }
}

fn hash_range(file: &File, from: u64, to: u64, hash: &mut Xxh3) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut at = from;
    while at < to {
        let want = usize::try_from(to - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        let got = file.read_at(&mut buffer[..want], at)?;
        if got == 0 {
            break;
        }
        hash.update(&buffer[..got]);
        at += got as u64;
    }
    Ok(())
}

/// A number for TEXT that does not depend on its line ends, which Emacs hides in its buffers.
#[must_use]
pub fn text_hash(text: &str) -> u64 {
    let plain = if text.contains('\r') {
        Fingerprint::of_bytes(text.replace("\r\n", "\n").as_bytes())
    } else {
        Fingerprint::of_bytes(text.as_bytes())
    };
    plain.hash
}
