// SPDX-License-Identifier: GPL-3.0-or-later
//! What each request of a chat begins with: the system prompt (base text, how to read what comes later,
//! what the user adds) and tools. Providers cache what begins like the request before, so it stays the
//! same to the byte, and what changes is in `context`; where it can't, the user is told what it cost.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::context;
use crate::provider::{ChatMessage, ChatRequest, ModelOrigin};
use crate::tool::registry::Registry;
use crate::trust::MEANING;

const BASE: &str = include_str!("system_prompt.md");

/// The whole system prompt for a request with TOOLS, which ends with SECTIONS, as `guidance` makes them.
/// An agent's own INSTRUCTION takes the place of our base text.
#[must_use]
pub fn compose(instruction: Option<&str>, tools: &Registry, sections: Option<&str>) -> String {
    let mut prompt = match instruction {
        Some(instruction) => instruction.trim().to_owned(),
        None => base(tools),
    };
    // Writing to a String cannot fail.
    let _ = write!(prompt, "\n\n## What you read\n{}\n", context::MEANING);
    prompt.push_str(MEANING);
    if tools.is_empty() {
        prompt.push_str(
            "\n\nNo tools are offered in this chat; answer from what you know and what is in the chat.",
        );
    }
    prompt.push_str(sections.unwrap_or_default());
    prompt
}

/// Our base text, as far as it is about TOOLS. In the file, `[[a b/c|words]]` are words for where the tool a
/// and one of b and c are offered; `*` is any tool. `#.` is the next number.
fn base(tools: &Registry) -> String {
    let offered = |name: &str| match name {
        "*" => !tools.is_empty(),
        name => tools.get(name).is_some(),
    };
    let mut text = String::new();
    for (index, piece) in BASE.split("[[").enumerate() {
        let (guarded, rest) = match piece.split_once("]]") {
            Some(both) if index > 0 => both,
            _ => ("", piece),
        };
        if let Some((names, words)) = guarded.split_once('|')
            && names.split(' ').all(|any| any.split('/').any(offered))
        {
            text.push_str(words);
        }
        text.push_str(rest);
    }
    let mut numbered = String::new();
    for (number, piece) in text.trim().split("#.").enumerate() {
        if number > 0 {
            // Writing to a String cannot fail.
            let _ = write!(numbered, "{number}.");
        }
        numbered.push_str(piece);
    }
    // Where a paragraph was left out, its blank line goes, too.
    let paragraphs = numbered.split("\n\n").map(str::trim);
    let paragraphs: Vec<&str> = paragraphs.filter(|text| !text.is_empty()).collect();
    paragraphs.join("\n\n")
}

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
    use super::super::guidance;
    use super::super::selection::USUAL;
    use super::*;
    use crate::builtin;

    fn offering(wanted: impl Fn(&str) -> bool) -> Registry {
        let all = Registry::default();
        builtin::register(&all);
        Registry::of(all.all().into_iter().filter(|tool| wanted(&tool.name)))
    }

    /// The names of tools in TEXT.
    fn named(text: &str) -> Vec<&str> {
        text.split(|character: char| !character.is_ascii_lowercase() && character != '_')
            .filter(|word| word.contains('_') && !["on_error", "old_text"].contains(word))
            .collect()
    }

    #[test]
    fn explains_what_is_read_and_ends_with_the_users_words() {
        let sections = guidance::sections(Some("Use LOOP. "), &[], "");
        let prompt = compose(None, &offering(|_| true), sections.as_deref());
        assert!(prompt.starts_with("You are agent-q, "));
        assert!(prompt.contains(MEANING) && prompt.contains(context::MEANING));
        assert!(prompt.ends_with("## The user's instructions\nUse LOOP."));
    }

    #[test]
    fn names_only_tools_that_are_offered() {
        let usual = offering(|name| USUAL.contains(&name));
        let prompt = base(&usual);
        assert!(prompt.contains("\n4. Try it: eval_form, with edge cases. 5. Test it: run_tests, which loads changed files first; affected: true runs what your change reaches. 6. At the end, once: verify_system.\nTo experiment"));
        assert!(named(&prompt).len() > 20);
        for left_out in USUAL {
            let tools = offering(|name| USUAL.contains(&name) && name != *left_out);
            let prompt = base(&tools);
            assert!(!named(&prompt).contains(left_out), "{left_out}: {prompt}");
            assert!(!prompt.contains(['[', ']', '|', '#']), "{prompt}");
        }
        for only in USUAL {
            let prompt = base(&offering(|name| name == *only));
            assert!(named(&prompt).iter().all(|name| name == only), "{prompt}");
            assert!(!prompt.contains("\n\n\n"), "{prompt}");
        }
        let prompt = base(&offering(|name| {
            ["read_file", "grep_project"].contains(&name)
        }));
        assert!(
            !prompt.contains("To make a change") && !prompt.contains("1."),
            "{prompt}"
        );
    }

    #[test]
    fn an_agents_instruction_takes_the_place_of_the_base_text() {
        let prompt = compose(Some("You greet people."), &offering(|_| true), None);
        assert!(prompt.starts_with("You greet people.\n\n## What you read\n"));
    }

    #[test]
    fn admits_that_there_are_no_tools() {
        let prompt = compose(None, &Registry::default(), None);
        assert!(prompt.contains(MEANING));
        assert!(!prompt.contains("calls"), "{prompt}");
        assert!(prompt.ends_with(
            "No tools are offered in this chat; answer from what you know and what is in the chat."
        ));
    }

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
