// SPDX-License-Identifier: GPL-3.0-or-later
//! Where calls are made: their turn, chat, project and connection, and what the turn has read so far.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::trust::Provenance;

/// The turn in which calls are made, and what is around it.
#[derive(Debug, Clone, Default)]
pub struct TurnPlace {
    pub turn: u64,
    pub chat: u64,
    /// The project's root, without symbolic links.
    pub project: Option<PathBuf>,
    /// The name of the connection to the image.
    pub connection: Option<String>,
    /// The name of the program that calls, where it is not a chat's model.
    pub client: Option<String>,
    foreign: Arc<AtomicBool>,
}

impl TurnPlace {
    /// A place in which nothing was read yet.
    #[must_use]
    pub fn new(turn: u64, chat: u64, project: Option<&Path>, connection: Option<String>) -> Self {
        Self {
            turn,
            chat,
            project: project.and_then(|root| root.canonicalize().ok()),
            connection,
            client: None,
            foreign: Arc::default(),
        }
    }

    /// The same place, in which the program called NAME calls.
    #[must_use]
    pub fn of_client(self, name: &str) -> Self {
        Self {
            client: Some(name.to_owned()),
            ..self
        }
    }

    /// The same place, with another connection.
    #[must_use]
    pub fn on_connection(self, connection: Option<String>) -> Self {
        Self { connection, ..self }
    }

    /// Where the texts that the turn has read so far came from.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        match self.foreign.load(Ordering::Acquire) {
            true => Provenance::Foreign,
            false => Provenance::Own,
        }
    }

    /// Notes that the turn has read text from outside the project.
    pub fn note_foreign(&self) {
        self.foreign.store(true, Ordering::Release);
    }
}
