// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that run code in the Lisp image.

use std::time::Duration;

use crate::image::{Plist, Reply, property_list};
use crate::tool::{
    Arguments, Assessment, Code, ImageTool, Parameter, ParameterType, Runner, SafetyLevel, Tool,
    ToolFailure, Treatment,
};

use super::common::{package_parameter, text};
use super::outcome;

/// The longest that a call may ask for; whoever needs more can start a thread.
const LONGEST: f64 = 3600.0;

/// The forms of a tool that runs them one after the other.
pub(super) const FORMS: Code = Code {
    parameters: &["form"],
    treatment: Treatment::RunInSteps,
};

/// The same, and forms for the values of a restart.
const EVALUATED: Code = Code {
    parameters: &["form", "restart"],
    treatment: Treatment::RunInSteps,
};

/// Code that is somewhere else: in files, or in the image.
pub(super) const NAMED: Code = Code {
    parameters: &[],
    treatment: Treatment::RunAtOnce,
};

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![eval_form(), eval_in_package()]
}

fn eval_form() -> Tool {
    let mut tool = Tool::new(
        "eval_form",
        "Evaluate Common Lisp forms in the user's running image, one after the other, and return the values of each with everything printed. An error comes back with its type, message, restarts and backtrace; the forms before it stay evaluated. Input is empty: code that reads from the user gets END-OF-FILE.",
        SafetyLevel::Cautious,
        &["execution"],
        vec![
            form_parameter(),
            package_parameter(),
            timeout_parameter(),
            Parameter::optional(
                "restart",
                ParameterType::String,
                "Restart to invoke whenever an error happens, such as continue or use-value 0: its name, then forms whose values it gets",
            ),
            Parameter::optional(
                "on_error",
                ParameterType::String,
                "report an error (the default), or park it: its stack stays alive for debugger_frames, eval_in_frame and invoke_restart",
            )
            .one_of(&["report", "park"]),
        ],
        Runner::Image(ImageTool {
            operation: "eval-form",
            arguments: |arguments| {
                property_list([
                    ("form", text(arguments, "form")),
                    ("package", text(arguments, "package")),
                    ("restart", text(arguments, "restart")),
                    ("on-error", text(arguments, "on_error")),
                ])
            },
            render: render_evaluation,
            deadline: timeout,
        }),
    );
    tool.code = Some(EVALUATED);
    tool.assess = assess_restart_values;
    tool
}

fn eval_in_package() -> Tool {
    let mut tool = Tool::new(
        "eval_in_package",
        "Evaluate Common Lisp forms as eval_form does, in the package that you name.",
        SafetyLevel::Cautious,
        &["execution"],
        vec![
            form_parameter(),
            Parameter::required(
                "package",
                ParameterType::String,
                "Package to read the forms in, in any case",
            ),
        ],
        Runner::Image(ImageTool {
            operation: "eval-form",
            arguments: |arguments| {
                property_list([
                    ("form", text(arguments, "form")),
                    ("package", text(arguments, "package")),
                ])
            },
            render: render_evaluation,
            deadline: timeout,
        }),
    );
    tool.code = Some(FORMS);
    tool
}

pub(super) fn form_parameter() -> Parameter {
    Parameter::required(
        "form",
        ParameterType::String,
        "One or more complete forms, such as (defun f (x) (* x x)) (f 3)",
    )
}

pub(super) fn timeout_parameter() -> Parameter {
    Parameter::optional(
        "timeout",
        ParameterType::Number,
        "Seconds after which evaluation is stopped; 30 unless the user chose otherwise",
    )
}

/// Values for a restart run only if an error happens, behind forms that may not be readable yet;
/// so the user is asked about them, whatever the image says.
fn assess_restart_values(level: SafetyLevel, arguments: &Arguments) -> Assessment {
    let restart = arguments.text("restart").unwrap_or_default();
    if restart.trim().contains(char::is_whitespace) {
        return Assessment {
            level: level.max(SafetyLevel::Dangerous),
            reason: "evaluates values for a restart".to_owned(),
        };
    }
    Assessment {
        level,
        reason: String::new(),
    }
}

/// How long a call may run, given the DEFAULT.
pub(super) fn timeout(arguments: &Arguments, default: Duration) -> Duration {
    arguments
        .number("timeout")
        .filter(|seconds| *seconds > 0.0)
        .map_or(default, |seconds| {
            Duration::from_secs_f64(seconds.min(LONGEST))
        })
}

/// What evaluating forms gave, or the failure that it ended in.
///
/// # Errors
///
/// When it did not come to its end.
pub(super) fn render_evaluation(
    arguments: &Arguments,
    reply: &Reply,
) -> Result<String, ToolFailure> {
    let mut lines = evaluation(reply)?;
    let data = outcome::returned(reply)?;
    lines.extend(package_note(arguments, data));
    lines.extend(parked_note(data));
    Ok(lines.join("\n"))
}

/// What evaluating forms gave, a line or more for each.
pub(super) fn evaluation(reply: &Reply) -> Result<Vec<String>, ToolFailure> {
    let data = outcome::returned(reply)?;
    let forms: Vec<Plist<'_>> = data.plists("forms").collect();
    let mut lines = match forms.as_slice() {
        [form] => vec![outcome::values(*form)],
        _ => outcome::forms(&forms),
    };
    lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
    lines.extend(outcome::recoveries(data));
    Ok(lines)
}

/// A word on the errors that are still parked: they hold a thread and its stack.
fn parked_note(data: Plist<'_>) -> Option<String> {
    let parked: Vec<String> = data
        .list("parked")
        .filter_map(|entry| {
            let pair = entry.to_ref_vec()?;
            let texts: Vec<&str> = pair.into_iter().filter_map(lexpr::Value::as_str).collect();
            Some(texts.join(", "))
        })
        .collect();
    (!parked.is_empty()).then(|| {
        format!(
            "(Still parked: {}. invoke_restart gets out of it, with restart ABORT to give it up.)",
            parked.join("; ")
        )
    })
}

/// A word on an `in-package` among the forms: the next call does not remember it.
fn package_note(arguments: &Arguments, data: Plist<'_>) -> Option<String> {
    let package = data.text("package")?;
    (arguments.text("package").is_none() && package != "COMMON-LISP-USER").then(|| {
        format!("(Ended in package {package}; the next call needs package \"{package}\" again.)")
    })
}
