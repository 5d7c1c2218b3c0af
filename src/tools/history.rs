// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that tell what the user and the agent did in the image. Emacs answers them from what
//! it saw pass by, without a word to the image (`lisp/agent-q-history.el`).

use crate::tool::{Answers, OperationTool, Parameter, ParameterType, Runner, SafetyLevel, Tool};

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
        "Tell the last error in the user's image, whoever met it: the user, at the REPL or by a command, or a tool call of yours. Gives the condition, the form that was being evaluated, the restarts and the backtrace, also after the debugger was left.",
        SafetyLevel::Safe,
        vec![],
        "get-last-error",
    )
    .filed_under(&["execution"])
}

fn get_repl_history() -> Tool {
    tool(
        "get_repl_history",
        "List what was evaluated in the image and the values that came of it, oldest first: the user's inputs at the REPL and from source buffers, and your own. The last 100 are kept.",
        SafetyLevel::Safe,
        vec![Parameter::optional(
            "limit",
            ParameterType::Integer,
            "How many of the latest to tell; 20 when left out",
        )],
        "get-repl-history",
    )
    .filed_under(&["execution"])
}

fn get_compilation_notes() -> Tool {
    tool(
        "get_compilation_notes",
        "List what the compiler said about the last thing that was compiled, by the user (a definition or a file) or by you: severity, place and message of every warning and note.",
        SafetyLevel::Safe,
        vec![],
        "get-compilation-notes",
    )
    .filed_under(&["execution"])
}

fn form_at_point() -> Tool {
    tool(
        "form_at_point",
        "Give the top-level form around the user's cursor with its file, line and package: what the user means by \"this function\".",
        SafetyLevel::Safe,
        vec![],
        "form-at-point",
    )
}

fn stage_at_repl() -> Tool {
    let mut tool = tool(
        "stage_at_repl",
        "Put a form at the prompt of the user's REPL without running it, for the user to look at, change and run.",
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
