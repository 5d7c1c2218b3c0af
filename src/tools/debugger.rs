// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools for errors whose stack is alive: the model's own parked ones and those that the user
//! has in the debugger. Emacs knows which there are and calls the image in their threads.

use crate::image::{Plist, parse_reply};
use crate::tool::{
    Arguments, Assessment, Code, OperationTool, Parameter, ParameterType, Runner, SafetyLevel,
    Tool, ToolFailure, Treatment,
};

use super::execution::{FORMS, evaluation, render_evaluation};
use super::outcome;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        list_debuggers(),
        debugger_frames(),
        eval_in_frame(),
        invoke_restart(),
    ]
}

fn tool(
    name: &str,
    description: &str,
    level: SafetyLevel,
    parameters: Vec<Parameter>,
    operation: OperationTool,
) -> Tool {
    Tool::new(
        name,
        description,
        level,
        &["debugger"],
        parameters,
        Runner::Operation(operation),
    )
}

fn debugger_parameter() -> Parameter {
    Parameter::required(
        "debugger",
        ParameterType::String,
        "Its name, from list_debuggers or the report of the error, such as d1 (yours) or u3 (the user's)",
    )
}

fn list_debuggers() -> Tool {
    tool(
        "list_debuggers",
        "List the errors whose stack is alive: those you parked with eval_form's on_error, and those open in the user's debugger.",
        SafetyLevel::Safe,
        vec![],
        OperationTool::plain("list-debuggers"),
    )
}

fn debugger_frames() -> Tool {
    tool(
        "debugger_frames",
        "Tell the condition, the restarts and the program's frames of an open debugger, innermost first, each with its number for eval_in_frame and, on request, its local variables.",
        SafetyLevel::Safe,
        vec![
            debugger_parameter(),
            Parameter::optional(
                "limit",
                ParameterType::Integer,
                "How many frames; 10 when left out, at most 50",
            ),
            Parameter::optional(
                "locals",
                ParameterType::Boolean,
                "Tell the local variables of each frame, too",
            ),
        ],
        OperationTool {
            operation: "debugger-frames",
            render: render_frames,
        },
    )
}

fn eval_in_frame() -> Tool {
    let mut tool = tool(
        "eval_in_frame",
        "Evaluate forms where a frame of an open debugger stopped: its local variables can be read and set.",
        SafetyLevel::Cautious,
        vec![
            debugger_parameter(),
            Parameter::required("form", ParameterType::String, "One or more complete forms"),
            Parameter::optional(
                "frame",
                ParameterType::Integer,
                "The frame's number, from debugger_frames; the innermost of the program when left out",
            ),
            Parameter::optional(
                "package",
                ParameterType::String,
                "Package to read names in; the frame's own when left out",
            ),
        ],
        OperationTool {
            operation: "eval-in-frame",
            // Without a word on packages: the next call reads in its frame's again.
            render: |_, text| Ok(evaluation(&reply(&text)?)?.join("\n")),
        },
    );
    tool.code = Some(FORMS);
    tool
}

fn invoke_restart() -> Tool {
    let mut tool = tool(
        "invoke_restart",
        "Leave an open debugger by one of its restarts. Evaluation goes on from there; what comes of it is the answer. ABORT gives the evaluation up.",
        SafetyLevel::Cautious,
        vec![
            debugger_parameter(),
            Parameter::required(
                "restart",
                ParameterType::String,
                "The restart's name, such as CONTINUE, or its number",
            ),
            Parameter::optional(
                "values",
                ParameterType::String,
                "Forms whose values the restart gets, such as 0 for USE-VALUE",
            ),
            super::common::package_parameter(),
        ],
        OperationTool {
            operation: "invoke-restart",
            render: render_restart,
        },
    );
    tool.assess = assess_restart;
    tool.code = Some(Code {
        parameters: &["values"],
        treatment: Treatment::RunAtOnce,
    });
    tool
}

/// The user's own stack is the user's to unwind.
fn assess_restart(level: SafetyLevel, arguments: &Arguments) -> Assessment {
    if !arguments.required_text("debugger").starts_with('d') {
        return Assessment {
            level: level.max(SafetyLevel::Dangerous),
            reason: "leaves a debugger that you have open".to_owned(),
        };
    }
    Assessment {
        level,
        reason: String::new(),
    }
}

fn reply(text: &str) -> Result<crate::image::Reply, ToolFailure> {
    parse_reply(text).map_err(|error| ToolFailure::new(error.to_string()))
}

fn render_restart(arguments: &Arguments, text: String) -> Result<String, ToolFailure> {
    let reply = reply(&text)?;
    let data = outcome::returned(&reply)?;
    if data.keyword("left") == Some("user") {
        return Ok("The user's debugger was left by that restart, and what the user evaluates went on from there, unless it was ABORT. get_repl_history tells what came of it.".to_owned());
    }
    if data.flag("left") {
        return Ok("The debugger was left; the evaluation was aborted there.".to_owned());
    }
    render_evaluation(arguments, &reply)
}

fn render_frames(_: &Arguments, text: String) -> Result<String, ToolFailure> {
    let reply = reply(&text)?;
    let data = outcome::returned(&reply)?;
    let mut lines = vec![format!(
        "{}: {}",
        data.text("type").unwrap_or("ERROR"),
        data.text("message").unwrap_or_default().trim_end()
    )];
    let restarts: Vec<String> = data
        .list("restarts")
        .filter_map(|restart| {
            let pair = restart.to_ref_vec()?;
            let mut texts = pair.into_iter().filter_map(lexpr::Value::as_str);
            Some((texts.next()?, texts.next().unwrap_or_default()))
        })
        .enumerate()
        .map(|(number, (name, description))| format!("{number} {name} ({description})"))
        .collect();
    if !restarts.is_empty() {
        lines.push(format!("Restarts: {}", restarts.join(", ")));
    }
    lines.push("Frames, innermost first:".to_owned());
    let frames: Vec<Plist<'_>> = data.plists("frames").collect();
    lines.extend(frames.iter().flat_map(|frame| render_frame(*frame)));
    let total = data.integer("total").unwrap_or_default();
    let more = total - i64::try_from(frames.len()).unwrap_or(total);
    if more > 0 {
        lines.push(format!("({more} more; ask with a larger limit.)"));
    }
    Ok(lines.join("\n"))
}

fn render_frame(frame: Plist<'_>) -> Vec<String> {
    let number = frame.integer("number").unwrap_or_default();
    let text = frame.text("text").unwrap_or_default();
    let place = frame
        .text("place")
        .map(|place| format!("  [{place}]"))
        .unwrap_or_default();
    let mut lines = vec![format!("  {number}: {text}{place}")];
    lines.extend(frame.list("locals").filter_map(|local| {
        let pair = local.to_ref_vec()?;
        let mut texts = pair.into_iter().filter_map(lexpr::Value::as_str);
        Some(format!(
            "       {} = {}",
            texts.next()?,
            texts.next().unwrap_or_default()
        ))
    }));
    lines
}
