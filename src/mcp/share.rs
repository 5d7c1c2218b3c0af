// SPDX-License-Identifier: GPL-3.0-or-later
//! A client's share of the memory: what its requests hold, from when they are read until their answers
//! are. Who sends more than that, or doesn't read, is not read from meanwhile.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::lines::LONGEST;

/// How many bytes the requests of a client, or the arguments of its calls, may hold.
pub const SHARE: usize = 2 * LONGEST;

/// As how long each large request counts at least.
const LEAST: usize = SHARE / 64;

/// The longest request that is small. Those have room of their own, so that what is large can be waited for
/// and cancelled.
const SMALL: usize = 64 * 1024;

/// How many small requests are worked on at once.
const MOST_SMALL: usize = 64;

/// One client's share.
pub struct Share {
    /// The bytes of large requests.
    large: Arc<Semaphore>,
    /// The number of small ones.
    small: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            large: Arc::new(Semaphore::new(SHARE)),
            small: Arc::new(Semaphore::new(MOST_SMALL)),
        }
    }
}

impl Share {
    /// Waits for the room that a request of LENGTH bytes takes, and gives it; none when the client is GONE.
    pub async fn take(
        &self,
        length: usize,
        gone: &CancellationToken,
    ) -> Option<OwnedSemaphorePermit> {
        let (room, size) = match length <= SMALL {
            true => (&self.small, 1),
            false => (&self.large, length.clamp(LEAST, SHARE)),
        };
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        tokio::select! {
            room = Arc::clone(room).acquire_many_owned(size) => room.ok(),
            () = gone.cancelled() => None,
        }
    }
}
