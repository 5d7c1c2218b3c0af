// SPDX-License-Identifier: GPL-3.0-or-later
//! Stored chats: one append-only file of JSON lines each. A line is an event of the chat ([`record`]);
//! one that can't be read is left out and stays in the file. Nothing that is read is evaluated.

pub mod changes;
pub mod export;
pub mod folder;
pub mod reader;
pub mod record;
pub mod recorder;
pub mod search;
pub mod signature;
pub mod summary;
pub mod writer;

use std::io;
use std::path::PathBuf;

/// Why a stored chat can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    #[error("{0:?} can't be the id of a chat, so no file was looked for.")]
    Id(String),
    #[error("There is no chat {0} any more; its file may have been moved or deleted.")]
    Missing(String),
    #[error("{} is a symbolic link or no plain file, so it is not read as a chat.", .0.display())]
    NoFile(PathBuf),
    #[error("{} does not begin as a chat of agent-q does.", .0.display())]
    NoChat(PathBuf),
    #[error("Nothing was said in this chat yet, so nothing of it is saved.")]
    Blank,
    #[error("Chat {0} is open in another Emacs. It can be read here, and forked to go on.")]
    Busy(String),
    #[error("{} can't be read or written: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl ChatError {
    fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            path: path.into(),
            source,
        }
    }
}
