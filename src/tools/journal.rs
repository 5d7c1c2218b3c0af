// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool that takes back what a call changed in the image.

use std::time::Duration;

use crate::image::{Reply, property_list};
use crate::tool::{
    Arguments, ImageTool, Parameter, ParameterType, Runner, SafetyLevel, Tool, ToolFailure,
};

use super::common::{SYMBOL_SYNTAX, package_parameter, text};
use super::outcome;

/// How long putting a definition back may take.
const DEADLINE: Duration = Duration::from_secs(15);

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![undo_definition()]
}

fn undo_definition() -> Tool {
    Tool::new(
        "undo_definition",
        "Take back the last change that you made to a definition in the user's image: the function, macro, methods, variable's value or type that was there before is put back, and what was new is removed. Slots of classes, packages, declarations, documentation and what objects contain can't be put back.",
        SafetyLevel::Cautious,
        &["execution"],
        vec![
            Parameter::required("name", ParameterType::String, SYMBOL_SYNTAX),
            package_parameter(),
        ],
        Runner::Image(ImageTool {
            operation: "journal-undo",
            arguments: |arguments| {
                property_list([
                    ("name", text(arguments, "name")),
                    ("package", text(arguments, "package")),
                ])
            },
            render,
            deadline: |_, _| DEADLINE,
        }),
    )
}

fn render(_: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    Ok(outcome::returned(reply)?.texts("results").join("\n"))
}
