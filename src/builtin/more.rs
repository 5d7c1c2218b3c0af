// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool by which the model has its chat offer it further tools. A chat offers few at first,
//! because each costs tokens in every request and makes choosing harder.

use crate::tool::work::WorkContext;
use crate::tool::{Answers, Arguments, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

/// The tool's name.
pub const NAME: &str = "more_tools";

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![more_tools(&[])]
}

/// TOOL, which is `more_tools`, with GROUPS as the ones to choose from.
#[must_use]
pub fn choosing(tool: &Tool, groups: &[&str]) -> Tool {
    Tool {
        level: tool.level,
        ..more_tools(groups)
    }
}

fn more_tools(groups: &[&str]) -> Tool {
    let mut group = Parameter::required("group", ParameterType::String, "");
    if !groups.is_empty() {
        group = group.one_of(groups);
    }
    let mut tool = Tool::new(
        NAME,
        "Add a group of tools for the rest of the chat. Groups: navigation (directories, trees), editing (insert lines; create, move, delete files), execution (trace, undo_definition, REPL history), debugger (frames, restarts), introspection (classes, packages, disassembly, image state), history (put a form at the REPL), buffer (list, outline, search), diff (propose a diff); the user's own tools have their own groups.",
        SafetyLevel::Safe,
        &["tools"],
        vec![group],
        Runner::Task(|arguments, context| Box::pin(async move { add(&arguments, &context) })),
    );
    tool.answers = Answers::Words;
    tool
}

fn add(arguments: &Arguments, context: &WorkContext) -> Result<String, ToolFailure> {
    let group = arguments.text("group").unwrap_or_default().trim();
    let group = group.trim_start_matches(':').to_lowercase();
    let added = context.offer.add(&group, &context.tools);
    if !added.is_empty() {
        let lines: Vec<String> = added
            .iter()
            .map(|tool| {
                format!(
                    "- {} ({}): {}",
                    tool.name,
                    tool.level,
                    first_sentence(&tool.description)
                )
            })
            .collect();
        return Ok(format!("You can call these now:\n{}", lines.join("\n")));
    }
    let others: Vec<String> = context
        .offer
        .groups_beyond(&context.tools)
        .into_iter()
        .map(|(name, count)| format!("{name} ({count})"))
        .collect();
    if others.is_empty() {
        return Ok("You can call all tools already.".to_owned());
    }
    Err(ToolFailure::new(format!(
        "The group {group} has no tools besides those you can call. Groups with more: {}.",
        others.join(", ")
    )))
}

/// The first sentence of TEXT. A dot ends one only before a capital letter: "e.g. this" goes on, and
/// so does "a function, a macro... of the image".
fn first_sentence(text: &str) -> &str {
    let ends = |&(dot, _): &(usize, &str)| {
        let next = text[dot + 1..].trim_start().chars().next();
        !text[..dot].ends_with('.') && next.is_some_and(char::is_uppercase)
    };
    let end = text.match_indices(". ").find(ends);
    end.map_or(text, |(dot, _)| &text[..=dot])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::registry::{Filter, Registry};

    #[test]
    fn a_sentence_ends_where_the_next_one_begins() {
        for (text, first) in [
            ("One. Two.", "One."),
            (
                "A macro, a class... of the image. Two.",
                "A macro, a class... of the image.",
            ),
            ("With e.g. this. Two.", "With e.g. this."),
            ("Only one.", "Only one."),
        ] {
            assert_eq!(first_sentence(text), first);
        }
    }

    #[test]
    fn the_groups_that_are_named_have_tools() {
        let registry = Registry::default();
        crate::builtin::register(&registry);
        let description = registry.get(NAME).unwrap().description.clone();
        let list = description.split("Groups: ").nth(1).unwrap();
        let list = list.split("; the user").next().unwrap();
        let groups: Vec<&str> = list
            .split("), ")
            .map(|group| group.split(' ').next().unwrap())
            .collect();
        assert!(groups.contains(&"diff") && groups.contains(&"navigation"));
        for group in groups {
            let filter = Filter {
                max_level: None,
                categories: vec![group.to_owned()],
            };
            assert!(!registry.filtered(&filter).is_empty(), "{group}");
        }
    }
}
