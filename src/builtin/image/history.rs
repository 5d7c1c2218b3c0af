// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that tell what the user and the agent did in the image. Emacs answers them from what
//! it saw pass by, without a word to the image (`lisp/agent-q-history.el`).

use super::common::page_parameters;
use crate::tool::{Answers, OperationTool, Parameter, ParameterType, Runner, Tool};
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
    tool.answers = Answers::Words;
    tool
}
