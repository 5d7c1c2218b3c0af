// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages that the user puts into a running turn. They wait here until the calls that run have their
//! results; what no turn took becomes a turn of its own.

use std::sync::Mutex;

use crate::protocol::UserMessage;
use crate::runtime::held;

/// What waits to be put into the running turn, first one first.
#[derive(Debug, Default)]
pub struct Steering(Mutex<Vec<UserMessage>>);

impl Steering {
    pub fn add(&self, message: UserMessage) {
        held(&self.0).push(message);
    }

    /// Takes back the message TEXT; whether it still waited.
    #[must_use]
    pub fn take_back(&self, text: &str) -> bool {
        let mut messages = held(&self.0);
        let found = messages.iter().rposition(|message| message.text == text);
        found.map(|index| messages.remove(index)).is_some()
    }

    /// All that waits, which doesn't wait any more.
    #[must_use]
    pub fn take(&self) -> Vec<UserMessage> {
        std::mem::take(&mut held(&self.0))
    }
}
