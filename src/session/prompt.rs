// SPDX-License-Identifier: GPL-3.0-or-later
//! The system prompt: base text, what can really be called, what the image is, what the user adds.

use std::fmt::Write;

use crate::tool::Tool;
use crate::tool::fence::MEANING;

const BASE: &str = include_str!("system_prompt.md");

/// The whole system prompt for a request that offers TOOLS. An agent's own INSTRUCTION takes the
/// place of our base text.
pub fn compose<'t>(
    instruction: Option<&str>,
    tools: impl IntoIterator<Item = &'t Tool>,
    image: Option<&str>,
    instructions: Option<&str>,
) -> String {
    let mut prompt = instruction.unwrap_or(BASE).trim().to_owned();
    prompt.push_str("\n\n## The image\n");
    prompt.push_str(image.unwrap_or(
        "No Lisp image is connected. Say so when a question needs one; M-x sly or M-x slime starts it.",
    ));
    prompt.push_str("\n\n## Tools\n");
    let mut any = false;
    for tool in tools {
        any = true;
        // Writing to a String cannot fail.
        let _ = writeln!(
            prompt,
            "- {} ({}): {}",
            tool.name,
            tool.level,
            tool.first_sentence()
        );
    }
    if any {
        let _ = writeln!(prompt, "\n## Results of tools\n{MEANING}");
    } else {
        prompt.push_str("None is offered in this chat; answer from what you were told.\n");
    }
    if let Some(instructions) = instructions.filter(|text| !text.trim().is_empty()) {
        let _ = write!(
            prompt,
            "\n## The user's instructions\n{}",
            instructions.trim()
        );
    }
    prompt.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tool::{Runner, SafetyLevel};

    #[test]
    fn names_the_tools_the_image_and_the_users_words() {
        let tool = Tool::new(
            "describe_symbol",
            "Describe a symbol. Use it first.",
            SafetyLevel::Safe,
            &[],
            vec![],
            Runner::Worker(Arc::new(|_| Ok(String::new()))),
        );
        let prompt = compose(
            None,
            [&tool],
            Some("SBCL 2.2.9 through SLY"),
            Some("Use LOOP."),
        );
        assert!(prompt.contains("- describe_symbol (safe): Describe a symbol.\n"));
        assert!(prompt.contains("## The image\nSBCL 2.2.9 through SLY\n"));
        assert!(prompt.contains(MEANING));
        assert!(prompt.ends_with("## The user's instructions\nUse LOOP."));
    }

    #[test]
    fn an_agents_instruction_takes_the_place_of_the_base_text() {
        let prompt = compose(Some("You greet people."), [], None, None);
        assert!(prompt.starts_with("You greet people.\n\n## The image"));
    }

    #[test]
    fn admits_that_nothing_is_there() {
        let prompt = compose(None, [], None, Some("  "));
        assert!(prompt.contains("No Lisp image is connected"));
        assert!(prompt.ends_with("None is offered in this chat; answer from what you were told."));
    }
}
