// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool that takes back what a call changed in the image.

use std::time::Duration;

use crate::image::{ImageReply, property_list};
use crate::tool::{Arguments, ImageTool, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

use super::common::{SYMBOL_SYNTAX, package_parameter, text};
use super::execution::NAMED;
use super::outcome;

/// How long putting a definition back may take.
const DEADLINE: Duration = Duration::from_secs(15);

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![undo_definition()]
}

fn undo_definition() -> Tool {
    let mut tool = Tool::new(
        "undo_definition",
        "Restore the previous definition of a name that you redefined in the image (function, macro, method, type, variable's value, options of a class), or remove it if it was new. Files are not changed, and definitions loaded from a file are not undone. Class slots, packages, declarations, documentation of functions and the contents of objects cannot be restored.",
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
    );
    tool.code = Some(NAMED);
    tool
}

fn render(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let results = data.texts("results").join("\n");
    match data.flag("undone") {
        true => Ok(results),
        false => Err(ToolFailure::new(results)),
    }
}
