// SPDX-License-Identifier: GPL-3.0-or-later
//! The system prompt: base text, how to read what comes later, what the user adds. It stays the same
//! to the byte within a chat, for the provider's cache; what changes is in `context`.

use std::fmt::Write;

use super::context;
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
        assert!(prompt.contains("\n4. Try it: eval_form, with edge cases. 5. Test it: run_tests, which loads changed files first.\nTo experiment"));
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
}
