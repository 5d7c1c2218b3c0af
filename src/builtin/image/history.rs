// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that tell what the user and the agent did in the image, and the one that undoes it. Emacs answers
//! the former from what it saw pass by, without asking the image (`lisp/agent-q-activity.el`).

use super::common::{SYMBOL_SYNTAX, package_parameter, page_parameters, text};
use super::execution::NAMED;
use super::outcome;
use super::timeouts::look_up;
use crate::image::{ImageReply, property_list};
use crate::tool::{
    Arguments, ImageTool, OperationTool, Parameter, ParameterType, Returns, Runner, Tool,
    ToolFailure,
};
use crate::trust::SafetyLevel;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        get_last_error(),
        get_repl_history(),
        get_compilation_notes(),
        form_at_point(),
        stage_at_repl(),
    ]
}

fn tool(
    name: &str,
    description: &str,
    level: SafetyLevel,
    parameters: Vec<Parameter>,
    operation: &'static str,
) -> Tool {
    Tool::new(
        name,
        description,
        level,
        &["history"],
        parameters,
        Runner::Operation(OperationTool::plain(operation)),
    )
}

fn get_last_error() -> Tool {
    tool(
        "get_last_error",
        "Show the most recent error in the image (the user's, yours or a thread's), even if its debugger is closed: condition, form, restarts, backtrace.",
        SafetyLevel::Safe,
        vec![],
        "get-last-error",
    )
    .filed_under(&["execution"])
}

fn get_repl_history() -> Tool {
    tool(
        "get_repl_history",
        "List the forms evaluated by the user (at the REPL or from source buffers) and by you, with their values, oldest first.",
        SafetyLevel::Safe,
        vec![Parameter::optional(
            "limit",
            ParameterType::Integer,
            "Default 20, max 100",
        )],
        "get-repl-history",
    )
    .filed_under(&["execution"])
}

fn get_compilation_notes() -> Tool {
    tool(
        "get_compilation_notes",
        "List the compiler's warnings and notes from the latest compilation, the user's or yours.",
        SafetyLevel::Safe,
        page_parameters(50, 200).into(),
        "get-compilation-notes",
    )
    .filed_under(&["execution"])
}

fn form_at_point() -> Tool {
    Tool {
        // There is no such parameter: it is always about the user's latest buffer.
        buffer: Some("buffer"),
        ..tool(
            "form_at_point",
            "Return the top-level form at the user's cursor with file, line and package. Use it when the user says \"this function\".",
            SafetyLevel::Safe,
            vec![],
            "form-at-point",
        )
    }
}

fn stage_at_repl() -> Tool {
    let mut tool = tool(
        "stage_at_repl",
        "Put a form at the prompt of the user's REPL without running it, for the user to check, change and run. To run it yourself use eval_form.",
        SafetyLevel::Cautious,
        vec![Parameter::required(
            "form",
            ParameterType::String,
            "The form to put there",
        )],
        "stage-at-repl",
    );
    tool.returns = Returns::Words;
    tool
}

// The tool that undoes what a call changed in the image.

#[must_use]
pub fn undo_tools() -> Vec<Tool> {
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
            deadline: look_up,
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
