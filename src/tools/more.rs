// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool by which the model has its chat offer it further tools. A chat offers few at first,
//! because each costs tokens in every request and makes choosing harder.

use crate::tool::work::WorkContext;
use crate::tool::{
    Answers, Arguments, Parameter, ParameterType, Runner, SafetyLevel, Tool, ToolFailure,
};

/// The tool's name.
pub const NAME: &str = "more_tools";

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![more_tools()]
}

fn more_tools() -> Tool {
    let mut tool = Tool::new(
        NAME,
        "Add a group of tools to those you can call, for the rest of the chat. Groups: navigation (list, find and grep the project's files), editing (whole Lisp definitions, new lines, creating, moving and deleting files), execution (load systems, run tests, trace functions, take a definition back, recall errors, evaluations and compiler notes), debugger (look into parked errors and invoke restarts), introspection (other kinds of xref, disassembly, inspecting values, state of the image), history (the user's form at point, staging a form at the REPL), buffer (list and outline buffers, read and write whole files), diff (propose a change of a file as a diff). The user's own tools have groups of their own.",
        SafetyLevel::Safe,
        &["tools"],
        vec![Parameter::required(
            "group",
            ParameterType::String,
            "Name of the group",
        )],
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
                    tool.first_sentence()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::registry::{Filter, Registry};

    #[test]
    fn the_groups_that_are_named_have_tools() {
        let registry = Registry::default();
        crate::tools::register(&registry);
        let description = registry.get(NAME).unwrap().description.clone();
        let list = description.split("Groups: ").nth(1).unwrap();
        let groups: Vec<&str> = list
            .split('(')
            .filter_map(|before| before.trim().rsplit([' ', ',']).next())
            .filter(|word| !word.ends_with('.'))
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
