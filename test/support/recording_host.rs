// SPDX-License-Identifier: GPL-3.0-or-later
//! A program around the core for tests: it keeps every event and answers requests as it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use agent_q_core::host::Host;
use agent_q_core::protocol::{Event, HostReply, HostRequest, SessionId};
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

/// Keeps events in order, and hands out prepared replies to requests.
#[derive(Default)]
pub struct RecordingHost {
    pub events: Mutex<Vec<Event>>,
    /// Replies for the requests to come; without one a request is never answered.
    pub replies: Mutex<VecDeque<HostReply>>,
    changed: Notify,
}

impl RecordingHost {
    /// Waits until an event satisfies WANTED, and gives what it made of it.
    pub async fn wait_for<T>(&self, wanted: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = self.events.lock().unwrap().iter().find_map(&wanted) {
                return found;
            }
            changed.await;
        }
    }

    /// What WANTED makes of each event, in order.
    pub fn collect<T>(&self, wanted: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.events
            .lock()
            .unwrap()
            .iter()
            .filter_map(wanted)
            .collect()
    }
}

impl Host for RecordingHost {
    fn emit(&self, event: Event) {
        self.events.lock().unwrap().push(event);
        self.changed.notify_waiters();
    }

    fn request(&self, _: SessionId, _: HostRequest) -> BoxFuture<'static, HostReply> {
        match self.replies.lock().unwrap().pop_front() {
            Some(reply) => Box::pin(async move { reply }),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// A host that is shared with the code under test.
pub fn recording_host() -> Arc<RecordingHost> {
    Arc::new(RecordingHost::default())
}
