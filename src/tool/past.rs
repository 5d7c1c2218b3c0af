// SPDX-License-Identifier: GPL-3.0-or-later
//! Results of a chat's calls of which its model has only the beginning any more, and parts that were left
//! out of one, for a tool by which it reads them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::provider::ChatMessage;
use crate::runtime::held;

/// The number of the first part; those of results are those of their messages, and never get there.
const FIRST_PART: u64 = 1_000_001;

/// How many parts are kept.
const PARTS: u64 = 20;

/// The results by their numbers, and the parts.
#[derive(Debug, Default)]
pub struct PastResults(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    results: BTreeMap<u64, Arc<ChatMessage>>,
    parts: BTreeMap<u64, String>,
}

impl PastResults {
    /// Keeps RESULT as the one with NUMBER.
    pub fn keep(&self, number: u64, result: &Arc<ChatMessage>) {
        held(&self.0).results.insert(number, Arc::clone(result));
    }

    /// Keeps PART, a text that was left out of a result; its number.
    pub fn keep_part(&self, part: &str) -> u64 {
        let parts = &mut held(&self.0).parts;
        let number = parts
            .last_key_value()
            .map_or(FIRST_PART, |(last, _)| last + 1);
        parts.insert(number, part.to_owned());
        parts.retain(|it, _| it + PARTS > number);
        number
    }

    /// The text of the result with NUMBER, as the model had it.
    #[must_use]
    pub fn text(&self, number: u64) -> Option<String> {
        let kept = held(&self.0);
        match kept.results.get(&number).map(AsRef::as_ref) {
            Some(ChatMessage::Tool { content, .. }) => Some(content.clone()),
            _ => kept.parts.get(&number).cloned(),
        }
    }

    /// The numbers that there are.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        let kept = held(&self.0);
        kept.results
            .keys()
            .chain(kept.parts.keys())
            .copied()
            .collect()
    }
}
