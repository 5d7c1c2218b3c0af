// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool by which a model has a question looked into: a conversation of its own reads, and its answer
//! alone comes back. `session/research.rs` has that conversation.

use crate::tool::{Arguments, BACKGROUND, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

pub const NAME: &str = "research";

/// The longest question, with its scope, in bytes.
const LONGEST: usize = 8 * 1024;

#[must_use]
pub fn tools() -> Vec<Tool> {
    // It is safe, as all that it does is: what it costs is a part of the turn's limits, and where it sends
    // what it reads is the user's choice.
    vec![Tool::new(
        NAME,
        "Have a question about code looked into by a helper with a conversation of its own, which reads files and the image, changes nothing, and returns its answer alone. For a search of many steps whose details you don't need. The helper knows nothing of this chat: say all that it has to know, and what to answer. Several calls in one message run side by side.",
        SafetyLevel::Safe,
        &["navigation", "research"],
        vec![
            Parameter::required("question", ParameterType::String, ""),
            Parameter::optional(
                "scope",
                ParameterType::String,
                "Where to look: files, packages, systems",
            ),
            Parameter::optional(
                BACKGROUND,
                ParameterType::Boolean,
                "Go on without its answer",
            ),
        ],
        Runner::Research,
    )]
}

/// What is to be found out, as the model that does reads it.
///
/// # Errors
///
/// Nothing is asked, or too much.
pub fn question(arguments: &Arguments) -> Result<String, ToolFailure> {
    let given = |name| arguments.text(name).map(str::trim).unwrap_or_default();
    let question = match (given("question"), given("scope")) {
        ("", _) => return Err(ToolFailure::new("The question is empty.")),
        (question, "") => question.to_owned(),
        (question, scope) => format!("{question}\n\nLook at: {scope}"),
    };
    match question.len() > LONGEST {
        true => Err(ToolFailure::new(format!(
            "Question and scope have {} bytes; {LONGEST} are possible. Name files instead of quoting them.",
            question.len()
        ))),
        false => Ok(question),
    }
}
