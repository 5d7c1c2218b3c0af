// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools for errors whose stack is alive: the model's own parked ones and those that the user
//! has in the debugger. Emacs knows which there are and calls the image in their threads.

use crate::image::{Frame, ImageReply, Plist};
use crate::tool::{
    Arguments, Assessment, OperationTool, Parameter, ParameterType, Runner, Tool, ToolFailure,
};
use crate::trust::SafetyLevel;

use super::building::render_tests;
use super::execution::{FORMS, NAMED, VALUES, evaluated_parameter, evaluation, render_resumed};
use super::outcome;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        list_debuggers(),
        debugger_frames(),
        eval_in_frame(),
        invoke_restart(),
        restart_frame(),
        return_from_frame(),
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

const DEBUGGER_NAME: &str = "d1 is yours, u3 the user's";

fn debugger_parameter() -> Parameter {
    Parameter::required("debugger", ParameterType::String, DEBUGGER_NAME)
}

fn frame_parameter() -> Parameter {
    Parameter::required(
        "frame",
        ParameterType::Integer,
        "Number from debugger_frames",
    )
}

fn list_debuggers() -> Tool {
    tool(
        "list_debuggers",
        "List the errors whose stack is still alive: those you parked with eval_form's on_error, and those open in the user's debugger. Use debugger_frames to look at one.",
        SafetyLevel::Safe,
        vec![],
        OperationTool::plain("list-debuggers"),
    )
}

fn debugger_frames() -> Tool {
    tool(
        "debugger_frames",
        "Show a parked error or the user's open debugger: condition, restarts and the program's frames, innermost first. Go on by call_tool: eval_in_frame, restart_frame, return_from_frame, invoke_restart.",
        SafetyLevel::Safe,
        vec![
            Parameter::optional(
                "debugger",
                ParameterType::String,
                "d1 is yours, u3 the user's; needed if several are open",
            ),
            Parameter::optional("limit", ParameterType::Integer, "Default 10, max 50"),
            Parameter::optional("locals", ParameterType::Boolean, "Show local variables"),
        ],
        OperationTool {
            operation: "debugger-frames",
            render: Some(render_frames),
        },
    )
}

fn eval_in_frame() -> Tool {
    let mut tool = tool(
        "eval_in_frame",
        "Evaluate forms in a frame of an open debugger, where they can read and set its local variables. Outside a debugger use eval_form.",
        SafetyLevel::Cautious,
        vec![
            debugger_parameter(),
            evaluated_parameter(),
            Parameter::optional(
                "frame",
                ParameterType::Integer,
                "Number from debugger_frames; default: innermost of the program",
            ),
            Parameter::optional("package", ParameterType::String, "Default: the frame's own"),
        ],
        OperationTool {
            operation: "eval-in-frame",
            // Without a word on packages: the next call reads in its frame's again.
            render: Some(|_, reply| Ok(evaluation(&reply.clone().without_restarts())?.join("\n"))),
        },
    );
    tool.code = Some(FORMS);
    tool
}

fn invoke_restart() -> Tool {
    let mut tool = tool(
        "invoke_restart",
        "Invoke a restart of a parked error or an open debugger, and return the result of the evaluation. ABORT abandons the evaluation. To continue from a frame: call_tool restart_frame or return_from_frame.",
        SafetyLevel::Cautious,
        vec![
            debugger_parameter(),
            Parameter::required(
                "restart",
                ParameterType::String,
                "Name, e.g. CONTINUE, or number",
            ),
            Parameter::optional(
                "values",
                ParameterType::String,
                "Forms for the restart's values, e.g. 0 for USE-VALUE",
            ),
            super::common::package_parameter(),
        ],
        OperationTool {
            operation: "invoke-restart",
            render: Some(render_restart),
        },
    );
    tool.assess = assess_restart;
    tool.code = Some(VALUES);
    tool
}

fn restart_frame() -> Tool {
    let mut tool = tool(
        "restart_frame",
        "Call the function of a frame in an open debugger again with the same arguments: unwind the stack to it, use the function's current definition, and return the result of the evaluation. Use it after fixing the function; to supply its values instead use return_from_frame.",
        SafetyLevel::Cautious,
        vec![debugger_parameter(), frame_parameter()],
        OperationTool {
            operation: "restart-frame",
            render: Some(render_restart),
        },
    );
    tool.assess = assess_restart;
    tool.code = Some(NAMED);
    tool
}

fn return_from_frame() -> Tool {
    let mut tool = tool(
        "return_from_frame",
        "Return values of your choice from a frame of an open debugger: unwind the stack to it, continue with your values instead of its own, and return the result of the evaluation. To call its function again use restart_frame.",
        SafetyLevel::Cautious,
        vec![
            debugger_parameter(),
            frame_parameter(),
            Parameter::optional(
                "values",
                ParameterType::String,
                "Forms whose values the frame returns, evaluated in it with its variables; default: NIL",
            ),
            Parameter::optional(
                "package",
                ParameterType::String,
                "Package to read the forms in; default: that of the frame's function",
            ),
        ],
        OperationTool {
            operation: "return-from-frame",
            render: Some(render_restart),
        },
    );
    tool.assess = assess_restart;
    // The image assesses them once more in the package of the frame.
    tool.code = Some(VALUES);
    tool
}

/// The user's own stack is the user's to unwind.
fn assess_restart(level: SafetyLevel, arguments: &Arguments) -> Assessment {
    if !arguments.required_text("debugger").starts_with('d') {
        return Assessment {
            level: level.max(SafetyLevel::Dangerous),
            reason: "leaves your open debugger".to_owned(),
        };
    }
    Assessment {
        level,
        reason: String::new(),
    }
}

fn render_restart(arguments: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    if data.keyword("left") == Some("user") {
        return Ok("The user's debugger was left, and unless the restart was ABORT the evaluation continued. call_tool get_repl_history shows its result, debugger_frames whether another debugger opened.".to_owned());
    }
    if data.flag("left") {
        return Ok("Left the debugger; the evaluation was aborted.".to_owned());
    }
    match data.get("frameworks") {
        Some(_) => render_tests(arguments, reply),
        None => render_resumed(reply),
    }
}

fn render_frames(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let name = data.text("debugger").unwrap_or_default();
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
    let frames: Vec<Vec<String>> = data.list("frames").filter_map(render_frame).collect();
    let shown = frames.len();
    lines.extend(frames.into_iter().flatten());
    let total = data.integer("total").unwrap_or_default();
    let more = total - i64::try_from(shown).unwrap_or(total);
    if more > 0 {
        lines.push(format!("({more} more; call again with a larger limit.)"));
    }
    lines.push(match data.flag("leavable") {
        true => format!(
            "Next, with debugger {name}: call_tool eval_in_frame and restart_frame or return_from_frame with a frame's number, or invoke_restart."
        ),
        false => format!(
            "Next, with debugger {name}: call_tool eval_in_frame with a frame's number, or invoke_restart. No frame can be called again or left."
        ),
    });
    Ok(lines.join("\n"))
}

fn render_frame(value: &lexpr::Value) -> Option<Vec<String>> {
    let plist = Plist::new(value);
    let number = plist.integer("number")?;
    let mut lines = vec![format!("  {number}: {}", Frame::of(value)?)];
    lines.extend(plist.list("locals").filter_map(|local| {
        let parts = local.to_ref_vec()?;
        let mut parts = parts.into_iter();
        Some(format!(
            "       {} = {}{}",
            parts.next()?.as_str()?,
            parts.next()?.as_str()?,
            outcome::handle(parts.next())
        ))
    }));
    Some(lines)
}
