// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that run code in the Lisp image.

use super::common::{counted, package_parameter, text};
use super::outcome::{self, said_once};
use super::timeouts::{timeout, timeout_parameter};
use crate::image::{ImageReply, Plist, property_list};
use crate::tool::{
    Arguments, Assessment, BACKGROUND, Code, IMAGE, ImageTool, OperationTool, Parameter,
    ParameterType, Runner, SCRATCH, Tool, ToolFailure, Treatment,
};
use crate::trust::SafetyLevel;

pub const END_SCRATCH: &str = "end_scratch";

/// The forms of a tool that runs them one after the other.
pub(super) const FORMS: Code = Code {
    parameters: &["form"],
    treatment: Treatment::RunInSteps,
};

/// The same, and forms for the values of a restart.
pub(super) const EVALUATED: Code = Code {
    parameters: &["form", "restart"],
    treatment: Treatment::RunInSteps,
};

/// What frames return and restarts are given.
pub(super) const VALUES: Code = Code {
    parameters: &["values"],
    treatment: Treatment::RunInSteps,
};

/// Code that is somewhere else: in files, or in the image.
pub(super) const NAMED: Code = Code {
    parameters: &[],
    treatment: Treatment::RunAtOnce,
};

/// Evaluating forms.
const EVALUATION: ImageTool = ImageTool {
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
};

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![eval_form(), eval_in_package(), end_scratch()]
}

fn eval_form() -> Tool {
    let mut tool = Tool::new(
        "eval_form",
        "Evaluate Lisp forms in the running image and return all values and output, or an error with restarts and backtrace. Use it to test, query and experiment; for defun, defmethod and defmacro use compile_form. Standard input is empty. Open values marked [v7] with inspect_value.",
        SafetyLevel::Cautious,
        &["execution"],
        vec![
            evaluated_parameter(),
            package_parameter(),
            timeout_parameter(),
            Parameter::optional(
                BACKGROUND,
                ParameterType::Boolean,
                "Go on at once; the result says how to await or stop it",
            ),
            Parameter::optional(
                "restart",
                ParameterType::String,
                "Restart to choose if an error occurs, e.g. \"continue\" or \"use-value 0\"",
            ),
            Parameter::optional(
                "on_error",
                ParameterType::String,
                "park keeps the failed stack for debugger_frames",
            )
            .one_of(&["report", "park"]),
            Parameter::optional(
                IMAGE,
                ParameterType::String,
                "scratch: a second Lisp, empty at first, for what may loop or break it; ends with the turn",
            )
            .one_of(&[SCRATCH]),
        ],
        Runner::Image(EVALUATION),
    );
    tool.code = Some(EVALUATED);
    tool.assess = assess_restart_values;
    tool
}

fn eval_in_package() -> Tool {
    let mut tool = Tool::new(
        "eval_in_package",
        "Evaluate Lisp forms in a package. Prefer eval_form, which does the same and has more parameters.",
        SafetyLevel::Cautious,
        &["execution"],
        vec![
            evaluated_parameter(),
            Parameter::required(
                "package",
                ParameterType::String,
                "Package to read the forms in",
            ),
        ],
        Runner::Image(EVALUATION),
    );
    tool.code = Some(FORMS);
    tool
}

fn end_scratch() -> Tool {
    Tool::new(
        END_SCRATCH,
        "End the scratch image; the next call with image \"scratch\" starts a new one.",
        SafetyLevel::Safe,
        &["execution"],
        vec![],
        Runner::Operation(OperationTool::plain("end-lisp")),
    )
}

pub(super) fn form_parameter() -> Parameter {
    Parameter::required("form", ParameterType::String, "One or more complete forms")
}

/// Forms in which objects that were shown can be named.
pub(super) fn evaluated_parameter() -> Parameter {
    Parameter::required(
        "form",
        ParameterType::String,
        "One or more complete forms. $v7 in them is the object shown as [v7], * your last value",
    )
}

/// The restart to choose, where `eval_form` has said how to write it.
pub(super) fn restart_parameter() -> Parameter {
    Parameter::optional("restart", ParameterType::String, "")
}

/// Values for a restart run only if an error happens, behind forms that may not be readable yet;
/// so the user is asked about them, whatever the image says.
pub(super) fn assess_restart_values(level: SafetyLevel, arguments: &Arguments) -> Assessment {
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

/// What evaluating forms gave, or the failure that it ended in.
///
/// # Errors
///
/// When it did not come to its end.
fn render_evaluation(arguments: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let mut lines = evaluation(reply)?;
    let data = outcome::returned(reply)?;
    lines.extend(package_note(arguments, data));
    lines.extend(parked_note(data));
    Ok(lines.join("\n"))
}

/// What came of an evaluation that goes on. What package it ended in is nothing to the next call.
///
/// # Errors
///
/// When it did not come to its end.
pub(super) fn render_resumed(reply: &ImageReply) -> Result<String, ToolFailure> {
    let mut lines = evaluation(reply)?;
    lines.extend(parked_note(outcome::returned(reply)?));
    Ok(lines.join("\n"))
}

/// What evaluating forms gave, a line or more for each.
pub(super) fn evaluation(reply: &ImageReply) -> Result<Vec<String>, ToolFailure> {
    let data = outcome::returned(reply)?;
    let forms: Vec<Plist<'_>> = data.plists("forms").collect();
    let mut lines = match forms.as_slice() {
        [form] => vec![outcome::values(*form)],
        _ => outcome::forms(&forms),
    };
    let output = said_once(data.text("output").unwrap_or_default(), None);
    lines.extend(outcome::printed(&output));
    let notes = data.integer("compiler-notes").unwrap_or_default();
    lines.extend(
        (notes > 0).then(|| format!("({} not shown.)", counted(notes, "optimization note"))),
    );
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
            "(Still parked: {}. call_tool invoke_restart continues it; restart ABORT abandons it.)",
            parked.join("; ").trim_end_matches('.')
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
