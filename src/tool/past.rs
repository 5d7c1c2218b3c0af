// SPDX-License-Identifier: GPL-3.0-or-later
//! Results of a chat's calls of which its model has only the beginning any more, for a tool by which it
//! reads one again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::provider::ChatMessage;
use crate::runtime::held;

/// The results by their numbers.
#[derive(Debug, Default)]
pub struct PastResults(Mutex<BTreeMap<u64, Arc<ChatMessage>>>);

impl PastResults {
    /// Keeps RESULT as the one with NUMBER.
    pub fn keep(&self, number: u64, result: &Arc<ChatMessage>) {
        held(&self.0).insert(number, Arc::clone(result));
    }

    /// The text of the result with NUMBER, as the model had it.
    #[must_use]
    pub fn text(&self, number: u64) -> Option<String> {
        match held(&self.0).get(&number)?.as_ref() {
            ChatMessage::Tool { content, .. } => Some(content.clone()),
            _ => None,
        }
    }

    /// The numbers that there are.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        held(&self.0).keys().copied().collect()
    }
}
