// SPDX-License-Identifier: GPL-3.0-or-later
//! A client's share of the memory: what its requests hold, from when they are read until their answers
//! are. Who sends more than that, or doesn't read, is not read from meanwhile.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::lines::LONGEST;

/// How many bytes the requests of a client, or the arguments of its calls, may hold.
pub const SHARE: usize = 2 * LONGEST;

/// As how long each request counts at least, so that no more than 64 are worked on at once.
const LEAST: usize = SHARE / 64;

/// One client's share.
pub struct Share(Arc<Semaphore>);

impl Default for Share {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SHARE)))
    }
}

impl Share {
    /// Waits for the room that a request of LENGTH bytes takes, and gives it; none when the client is GONE.
    pub async fn take(
        &self,
        length: usize,
        gone: &CancellationToken,
    ) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(length.clamp(LEAST, SHARE)).unwrap_or(u32::MAX);
        tokio::select! {
            room = Arc::clone(&self.0).acquire_many_owned(bytes) => room.ok(),
            () = gone.cancelled() => None,
        }
    }
}
