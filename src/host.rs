// SPDX-License-Identifier: GPL-3.0-or-later
//! What the core needs of the program around it: a place for events, and somebody who does what
//! only Emacs can do. `bridge::host` is Emacs; the tests bring their own.

use std::collections::HashMap;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::protocol::{CallKey, Decision, Event, HostReply, HostRequest, SessionId};
use crate::runtime::held;

/// The program around the core.
pub trait Host: Send + Sync {
    /// Tells Emacs what happened. Never blocks.
    fn emit(&self, event: Event);

    /// Asks Emacs to do something. Dropping the future takes the request back.
    fn request(&self, session: SessionId, body: HostRequest) -> BoxFuture<'static, HostReply>;
}

/// The approval requests that wait for the user's answer.
#[derive(Debug, Default)]
pub struct Approvals {
    waiting: Mutex<HashMap<CallKey, oneshot::Sender<Decision>>>,
}

impl Approvals {
    /// Opens a request. Do this before the user is told, so that no answer comes too early.
    pub fn open(&self, call: CallKey) -> oneshot::Receiver<Decision> {
        let (sender, receiver) = oneshot::channel();
        held(&self.waiting).insert(call, sender);
        receiver
    }

    /// Hands the user's answer to the call that waits for it; false when none does.
    pub fn answer(&self, call: CallKey, decision: Decision) -> bool {
        held(&self.waiting)
            .remove(&call)
            .is_some_and(|sender| sender.send(decision).is_ok())
    }

    /// Forgets a request that nobody waits for any more.
    pub fn close(&self, call: CallKey) {
        held(&self.waiting).remove(&call);
    }

    /// How many requests wait.
    #[must_use]
    pub fn count(&self) -> usize {
        held(&self.waiting).len()
    }
}
