// SPDX-License-Identifier: GPL-3.0-or-later
//! A client's turn while calls may be added to it: those with little time between them, or those that the
//! client marks as one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::client::ClientTurn;

/// A turn that its client marks lasts until the next mark, or this many times the pause that ends others.
const MARKED_PAUSES: u32 = 10;

/// The turn that a client's calls are made in.
pub struct OpenTurn {
    pub turn: Arc<ClientTurn>,
    /// What the client marks the calls of the turn with, if it does.
    pub mark: Option<String>,
    pub running: usize,
    pub resting_since: Instant,
    /// Why tools of the image can't be called.
    pub no_image: Option<String>,
}

impl OpenTurn {
    /// Whether a call marked with MARK is one of it. Where a turn is not marked, that depends on how
    /// long nothing was called, with PAUSE as the longest time.
    pub fn takes(&self, mark: Option<&str>, pause: Duration) -> bool {
        // Two turns at once can't be told apart in Emacs.
        self.running > 0
            || match (&self.mark, mark) {
                (Some(mine), Some(mark)) => mine == mark,
                _ => self.resting_since.elapsed() < pause,
            }
    }

    /// Takes a call with MARK.
    pub fn take(&mut self, mark: Option<&str>) {
        self.running += 1;
        if self.mark.is_none() {
            self.mark = mark.map(str::to_owned);
        }
    }

    /// How long nothing has to be called until it is over, where PAUSE is the time for one that is not
    /// marked.
    pub fn pause(&self, pause: Duration) -> Duration {
        match self.mark {
            Some(_) => pause * MARKED_PAUSES,
            None => pause,
        }
    }
}
