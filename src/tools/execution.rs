// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that run code in the Lisp image.

use std::time::Duration;

use crate::image::{Plist, Reply, property_list};
use crate::tool::{
    Arguments, Code, ImageTool, Parameter, ParameterType, Runner, SafetyLevel, Tool, ToolFailure,
    Treatment,
};

use super::introspection::{package_parameter, text};
use super::outcome;

/// The longest that a call may ask for; whoever needs more can start a thread.
const LONGEST: f64 = 3600.0;

/// The forms of a tool that runs them one after the other.
const FORMS: Code = Code {
    parameters: &["form"],
    treatment: Treatment::RunInSteps,
};

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![eval_form()]
}

fn eval_form() -> Tool {
    let mut tool = Tool::new(
        "eval_form",
        "Evaluate Common Lisp forms in the user's running image, one after the other, and return the values of each with everything printed. An error comes back with its type, message, restarts and backtrace; the forms before it stay evaluated. Input is empty: code that reads from the user gets END-OF-FILE.",
        SafetyLevel::Cautious,
        &["execution"],
        vec![
            Parameter::required(
                "form",
                ParameterType::String,
                "One or more complete forms, such as (defun f (x) (* x x)) (f 3)",
            ),
            package_parameter(),
            Parameter::optional(
                "timeout",
                ParameterType::Number,
                "Seconds after which evaluation is stopped; 30 unless the user chose otherwise",
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
            render: |arguments, reply| render_evaluation(arguments, reply),
            deadline: timeout,
        }),
    );
    tool.code = Some(FORMS);
    tool
}

fn timeout(arguments: &Arguments, default: Duration) -> Duration {
    arguments
        .number("timeout")
        .filter(|seconds| *seconds > 0.0)
        .map_or(default, |seconds| {
            Duration::from_secs_f64(seconds.min(LONGEST))
        })
}

fn render_evaluation(arguments: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let forms: Vec<Plist<'_>> = data.plists("forms").collect();
    let mut lines = match forms.as_slice() {
        [form] => vec![outcome::values(*form)],
        _ => outcome::forms(&forms),
    };
    lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
    lines.extend(package_note(arguments, data));
    Ok(lines.join("\n"))
}

/// A word on an `in-package` among the forms: the next call does not remember it.
fn package_note(arguments: &Arguments, data: Plist<'_>) -> Option<String> {
    let package = data.text("package")?;
    (arguments.text("package").is_none() && package != "COMMON-LISP-USER").then(|| {
        format!("(Ended in package {package}; the next call needs package \"{package}\" again.)")
    })
}
