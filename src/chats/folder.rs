// SPDX-License-Identifier: GPL-3.0-or-later
//! The folder of the stored chats: what is in it, and opening a file of it. It and they are the
//! user's alone; a symbolic link is never followed.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::ChatError;
use super::id::ChatId;

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
