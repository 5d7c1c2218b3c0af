// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool by which a model reads an old result of which it has only the beginning, or what was left out of one.

use crate::tool::work::WorkContext;
use crate::tool::{Answers, Arguments, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

pub const NAME: &str = "read_result";

#[must_use]
pub fn tools() -> Vec<Tool> {
    let mut tool = Tool::new(
        NAME,
        "Show all of an old result that was shortened.",
        SafetyLevel::Safe,
        &["tools"],
        vec![Parameter::required("number", ParameterType::Integer, "")],
        Runner::Task(|arguments, context| Box::pin(async move { read(&arguments, &context) })),
    );
    // It was fenced when it was told first.
    tool.answers = Answers::Words;
    vec![tool]
}

fn read(arguments: &Arguments, context: &WorkContext) -> Result<String, ToolFailure> {
    let number = arguments
        .integer("number")
        .and_then(|it| u64::try_from(it).ok());
    number
        .and_then(|number| context.past.text(number))
        .ok_or_else(|| {
            let numbers: Vec<String> = context
                .past
                .numbers()
                .iter()
                .map(ToString::to_string)
                .collect();
            ToolFailure::new(match numbers.is_empty() {
                true => "No result of this chat was shortened; make the call again.".to_owned(),
                false => format!(
                    "No result with this number was shortened; there are {}.",
                    numbers.join(", ")
                ),
            })
        })
}
