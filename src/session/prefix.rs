// SPDX-License-Identifier: GPL-3.0-or-later
//! What each request of a chat begins with: system prompt and tools. Providers cache what begins like
//! the request before, so it stays the same to the byte; where it can't, the user is told what it cost.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use crate::provider::{ChatMessage, ChatRequest, ModelOrigin};

/// The beginning of a chat's requests.
#[derive(Debug, Default)]
pub struct Prefix {
    instructions: Instructions,
    last: Option<Head>,
}

/// The instructions of the user and the project, as far as this chat's model has read any.
#[derive(Debug, Default)]
enum Instructions {
    #[default]
    Unread,
    Read(Option<String>),
    /// Its user was told that there are others now.
    Outdated {
        read: Option<String>,
        now: Option<String>,
    },
}

/// What two requests have to share for the cache's sake.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    origin: ModelOrigin,
    system: u64,
    tools: u64,
}

impl Prefix {
    /// The sections of instructions that the next request has, where they would be NOW: those that the
    /// model read first.
    #[must_use]
    pub fn sections(&self, now: Option<&str>) -> Option<String> {
        match &self.instructions {
            Instructions::Unread => now.map(str::to_owned),
            Instructions::Read(read) | Instructions::Outdated { read, .. } => read.clone(),
        }
    }

    /// Takes in that a message is sent while the instructions are NOW. Says what the user has to be told.
    pub fn begin(&mut self, now: Option<&str>) -> Reading {
        let now = now.map(str::to_owned);
        let (read, told) = match std::mem::take(&mut self.instructions) {
            Instructions::Unread => {
                self.instructions = Instructions::Read(now);
                return Reading::First;
            }
            Instructions::Read(read) => (read, None),
            Instructions::Outdated { read, now } => (read, Some(now)),
        };
        if read == now {
            self.instructions = Instructions::Read(read);
            return Reading::Settled;
        }
        let reading = match told {
            Some(told) if told == now => Reading::Settled,
            _ => Reading::Outdated,
        };
        self.instructions = Instructions::Outdated { read, now };
        reading
    }

    /// Has the next request take over the instructions as they are then.
    pub fn sync(&mut self) {
        self.instructions = Instructions::Unread;
    }

    /// Takes in REQUEST, which goes to ORIGIN. Says what of its beginning is not as it was in the one
    /// before.
    pub fn note(&mut self, request: &ChatRequest, origin: ModelOrigin) -> Option<&'static str> {
        let system: Vec<&str> = request
            .messages
            .iter()
            .filter_map(|message| match message {
                ChatMessage::System(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let head = Head {
            origin,
            system: hash(&system),
            tools: hash(
                &request
                    .tools
                    .iter()
                    .map(Value::to_string)
                    .collect::<Vec<_>>(),
            ),
        };
        let changed = match &self.last {
            None => None,
            Some(last) if last.origin != head.origin => Some("another model"),
            Some(last) if last.tools != head.tools => Some("tools changed"),
            Some(last) if last.system != head.system => Some("system prompt changed"),
            Some(_) => None,
        };
        self.last = Some(head);
        changed
    }
}

/// Whether a chat's model reads the instructions as they are.
#[derive(Debug, PartialEq, Eq)]
pub enum Reading {
    /// It reads them for the first time.
    First,
    /// It does, or its user knows that it doesn't.
    Settled,
    Outdated,
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_keeps_the_instructions_that_its_model_read() {
        let mut prefix = Prefix::default();
        assert_eq!(prefix.sections(Some("a")).as_deref(), Some("a"));
        assert_eq!(prefix.begin(Some("a")), Reading::First);
        assert_eq!(prefix.begin(Some("b")), Reading::Outdated);
        assert_eq!(prefix.begin(Some("b")), Reading::Settled, "told once");
        assert_eq!(prefix.begin(None), Reading::Outdated);
        assert_eq!(prefix.sections(None).as_deref(), Some("a"));
        assert_eq!(prefix.begin(Some("a")), Reading::Settled);
        prefix.sync();
        assert_eq!(prefix.sections(Some("b")).as_deref(), Some("b"));
        assert_eq!(prefix.begin(Some("b")), Reading::First);
        assert_eq!(prefix.begin(Some("b")), Reading::Settled);
    }
}
