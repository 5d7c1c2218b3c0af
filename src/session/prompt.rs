// SPDX-License-Identifier: GPL-3.0-or-later
//! The system prompt: base text, how to read what comes later, what the user adds. It stays the same
//! to the byte within a chat, for the provider's cache; what changes is in `context`.

use std::fmt::Write;

use crate::trust::fence::MEANING;

use super::context;

const BASE: &str = include_str!("system_prompt.md");

/// Whether a request offers tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tools {
    Some,
    None,
}

/// The whole system prompt for a request with TOOLS, which ends with SECTIONS, as `guidance` makes them.
/// An agent's own INSTRUCTION takes the place of our base text.
#[must_use]
pub fn compose(instruction: Option<&str>, tools: Tools, sections: Option<&str>) -> String {
    let mut prompt = instruction.unwrap_or(BASE).trim().to_owned();
    // Writing to a String cannot fail.
    let _ = write!(prompt, "\n\n## What you read\n{}\n", context::MEANING);
    prompt.push_str(MEANING);
    if tools == Tools::None {
        prompt.push_str(
            "\n\nNo tools are offered in this chat; answer from what you know and what is in the chat.",
        );
    }
    prompt.push_str(sections.unwrap_or_default());
    prompt
}

#[cfg(test)]
mod tests {
    use super::super::guidance;
    use super::*;

    #[test]
    fn explains_what_is_read_and_ends_with_the_users_words() {
        let sections = guidance::sections(Some("Use LOOP. "), &[], "");
        let prompt = compose(None, Tools::Some, sections.as_deref());
        assert!(prompt.starts_with("You are agent-q, "));
        assert!(prompt.contains(MEANING) && prompt.contains(context::MEANING));
        assert!(prompt.ends_with("## The user's instructions\nUse LOOP."));
    }

    #[test]
    fn an_agents_instruction_takes_the_place_of_the_base_text() {
        let prompt = compose(Some("You greet people."), Tools::Some, None);
        assert!(prompt.starts_with("You greet people.\n\n## What you read\n"));
    }

    #[test]
    fn admits_that_there_are_no_tools() {
        let prompt = compose(None, Tools::None, None);
        assert!(prompt.contains(MEANING));
        assert!(prompt.ends_with(
            "No tools are offered in this chat; answer from what you know and what is in the chat."
        ));
    }
}
