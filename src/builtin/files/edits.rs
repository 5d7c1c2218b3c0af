// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that change files: by text, by line, by definition, and as a whole. Each plans its
//! change before anyone is asked and again when it runs; `change` makes it.

use serde_json::json;

use super::balance::Rewritten;
use super::change::{Basis, Current, Home, Made, Plan, load};
use super::reading::path_parameter;
use crate::diff::{insert_at_line, merge, replace_unique};
use crate::files::encoding::LineEnds;
use crate::files::path::{PathKind, Resolved, missing};
use crate::files::verified::Parents;
use crate::tool::work::{Precheck, Proposal, Reviewed, Task, WorkContext, to_the_end};
use crate::tool::{Arguments, Assessment, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        edit_file(),
        insert(),
        write_file(),
        create_file(),
        propose_file_edit(),
    ]
}

/// A tool that changes the file of its parameter `path`.
pub(super) fn tool(
    name: &str,
    description: &str,
    parameters: Vec<Parameter>,
    task: Task,
    precheck: Precheck,
) -> Tool {
    Tool {
        paths: &["path"],
        precheck: Some(precheck),
        assess: |level, arguments| Assessment {
            level,
            reason: format!("It changes '{}'.", arguments.required_text("path")),
        },
        ..Tool::new(
            name,
            description,
            SafetyLevel::Dangerous,
            &["filesystem", "editing"],
            parameters,
            Runner::Task(task),
        )
    }
}

/// The task and the check of a tool, made from what plans its change.
macro_rules! by_plan {
    ($plan:path, $verb:expr) => {
        (
            (|arguments, context| -> $crate::tool::work::Running {
                Box::pin(to_the_end(async move {
                    let plan = match &context.reviewed {
                        Some(reviewed) => plan_reviewed(&arguments, reviewed, &context).await?,
                        None => $plan(&arguments, &context).await?,
                    };
                    let remark = plan.check(&context).await?;
                    context.go_on()?;
                    let unseen = plan.unseen(&context);
                    let made = plan.commit(&context).await?;
                    let mut report = report($verb, &plan, &made, &context);
                    for remark in plan.remark.iter().chain(&remark) {
                        report.push('\n');
                        report.push_str(remark);
                    }
                    if unseen {
                        report.push_str(UNSEEN);
                    }
                    report.push_str(&plan.compile(&arguments, &made, &context).await?);
                    Ok(report)
                }))
            }) as Task,
            (|arguments, context| -> $crate::tool::work::Running<$crate::tool::work::Preview> {
                Box::pin(async move {
                    let plan = match &context.reviewed {
                        Some(reviewed) => plan_merged(&arguments, reviewed, &context).await?,
                        None => $plan(&arguments, &context).await?,
                    };
                    if context.proposal == Proposal::New {
                        plan.propose(&context);
                    }
                    plan.check(&context).await?;
                    plan.propose(&context);
                    Ok(plan.preview())
                })
            }) as Precheck,
        )
    };
}
pub(super) use by_plan;

/// What is said of a new file.
const CREATED: &str = "Created file";

/// What is said of a change of a text that the model does not know as a whole.
pub(super) const UNSEEN: &str =
    "\nThe file had changed since it was last read. Read it again before you change more of it.";

/// What the user made of the change in a review, which was of the whole file.
pub(super) async fn plan_reviewed(
    arguments: &Arguments,
    reviewed: &Reviewed,
    context: &WorkContext,
) -> Result<Plan, ToolFailure> {
    let (target, current) = target(arguments, context).await?;
    if current.text != reviewed.original {
        return Err(ToolFailure::new(format!(
            "'{}' was changed while the user reviewed the edit; nothing was changed. Read it again.",
            target.shown()
        )));
    }
    Ok(Plan {
        parents: parents(arguments),
        ..Plan::new(target, current, reviewed.modified.clone())
    })
}

/// The same to show it to the user: where the file was changed meanwhile, what they reviewed goes into what
/// it has become.
pub(super) async fn plan_merged(
    arguments: &Arguments,
    reviewed: &Reviewed,
    context: &WorkContext,
) -> Result<Plan, ToolFailure> {
    let (target, current) = target(arguments, context).await?;
    not_deleted(&target, &current)?;
    let gone = matches!(current.home, Home::Nowhere) && !reviewed.original.is_empty();
    let merged = merge(&reviewed.original, &reviewed.modified, &current.text);
    if gone || !merged.clashes.is_empty() {
        return Err(ToolFailure::new(format!(
            "'{}' was changed where the edit would change it; nothing was done. Read it again.",
            target.shown()
        )));
    }
    Ok(Plan {
        parents: parents(arguments),
        ..Plan::new(target, current, merged.text)
    })
}

/// What is told of the change PLAN, which was MADE. The model knows the text of a new file, and what it has
/// changed, unless the user or their Emacs made something else of it.
pub(super) fn report(verb: &str, plan: &Plan, made: &Made, context: &WorkContext) -> String {
    let verb = match plan.target.kind {
        PathKind::File if verb == CREATED => "Replaced file",
        _ => verb,
    };
    let (shown, note) = (plan.target.shown(), made.note());
    if plan.current.text.is_empty() && made.saved_as().is_none() {
        let lines = plan.after.lines().count();
        let plural = if lines == 1 { "" } else { "s" };
        return format!("{verb} {shown}{note}: {lines} line{plural}.");
    }
    let diff = format!("\n\n{}", plan.diff(made));
    if context.reviewed.is_none() && made.saved_as().is_none() {
        context.echo.set(diff.clone());
    }
    format!("{verb} {shown}{}{note}.{diff}", plan.extent_of(made))
}

pub(super) fn text(name: &str, description: &str) -> Parameter {
    Parameter::required(name, ParameterType::String, description)
}

fn flag(name: &str, description: &str, default: serde_json::Value) -> Parameter {
    let mut parameter = Parameter::optional(name, ParameterType::Boolean, description);
    parameter.constraints.insert("default".into(), default);
    parameter
}

pub(super) fn overwrite_parameter() -> Parameter {
    flag(
        "allow_overwrite",
        "Allow replacing an existing file",
        json!(false),
    )
}

pub(super) fn parents_parameter() -> Parameter {
    flag("create_parents", "Create missing directories", json!(true))
}

/// What becomes of missing directories; only a tool with that parameter may be told to make none.
pub(super) fn parents(arguments: &Arguments) -> Parents {
    match arguments.to_json()["create_parents"] {
        serde_json::Value::Bool(false) => Parents::MustExist,
        _ => Parents::Make,
    }
}

pub(super) fn compile_parameter() -> Parameter {
    Parameter::optional(
        "compile",
        ParameterType::Boolean,
        "default: if the file is loaded",
    )
}

pub(super) fn description_parameter() -> Parameter {
    Parameter::optional(
        "description",
        ParameterType::String,
        "Why, in a few words, for the user",
    )
}

/// The file of the parameter `path` and what stands there.
async fn target(
    arguments: &Arguments,
    context: &WorkContext,
) -> Result<(Resolved, Current), ToolFailure> {
    let target = context.resolve(arguments.required_text("path")).await?;
    let current = load(context, &target).await?;
    Ok((target, current))
}

/// The same for a file that has to exist.
pub(super) async fn existing(
    arguments: &Arguments,
    context: &WorkContext,
) -> Result<(Resolved, Current), ToolFailure> {
    let (target, current) = target(arguments, context).await?;
    match current.home {
        Home::Nowhere => Err(missing(&target).into()),
        Home::Disk(..) | Home::Buffer(_) => {
            not_deleted(&target, &current)?;
            Ok((target, current))
        }
    }
}

/// Makes sure that no edit brings a file back that was deleted while its buffer was open.
fn not_deleted(target: &Resolved, current: &Current) -> Result<(), ToolFailure> {
    match &current.home {
        Home::Buffer(live) if live.gone => Err(ToolFailure::new(format!(
            "'{}' was deleted; only the buffer {} still has its text. Nothing was changed. call_tool create_file creates it again.",
            target.shown(),
            live.buffer
        ))),
        _ => Ok(()),
    }
}

/// GIVEN, which the model wrote, with the line ends that a text in CURRENT's place has.
pub(super) fn adapted(given: &str, current: &Current) -> String {
    match LineEnds::of(current.text.as_bytes()) {
        LineEnds::CrLf => LineEnds::CrLf.adapt(given).into_owned(),
        _ if matches!(current.home, Home::Buffer(_)) => given.replace("\r\n", "\n"),
        _ => given.to_owned(),
    }
}

fn edit_file() -> Tool {
    let (task, precheck) = by_plan!(plan_edit, "Edit applied to");
    tool(
        "edit_file",
        "Replace one exact, unique piece of text in a file. In Lisp files prefer edit_definition.",
        vec![
            path_parameter(""),
            text("old_str", "Exactly as in the file; enough to be unique"),
            text("new_str", ""),
            description_parameter(),
            compile_parameter(),
        ],
        task,
        precheck,
    )
}

async fn plan_edit(arguments: &Arguments, context: &WorkContext) -> Result<Plan, ToolFailure> {
    replacing(arguments, context, ["old_str", "new_str"]).await
}

/// Replaces the text of the parameter OLD in an existing file by that of NEW.
async fn replacing(
    arguments: &Arguments,
    context: &WorkContext,
    [old, new]: [&str; 2],
) -> Result<Plan, ToolFailure> {
    let (target, current) = existing(arguments, context).await?;
    let old = adapted(arguments.required_text(old), &current);
    let new = adapted(arguments.required_text(new), &current);
    match replace_unique(&current.text, &old, &new) {
        Ok(edited) => Ok(Plan {
            basis: Basis::Quote,
            ..Plan::new(target, current, edited.text)
        }),
        // It shows what stands near.
        Err(error) => Err(ToolFailure::quoting(format!("{}: {error}", target.shown()))),
    }
}

fn insert() -> Tool {
    let (task, precheck) = by_plan!(plan_insert, "Inserted into");
    tool(
        "insert_at_line",
        "Insert lines into a file by line number. For a whole Lisp definition use insert_definition.",
        vec![
            path_parameter(""),
            text("content", "The lines to insert"),
            Parameter::required(
                "line",
                ParameterType::Integer,
                "Insert after this line; 0: at the top, -1: at the end",
            ),
        ],
        task,
        precheck,
    )
}

async fn plan_insert(arguments: &Arguments, context: &WorkContext) -> Result<Plan, ToolFailure> {
    let (target, current) = existing(arguments, context).await?;
    let line = arguments.integer("line").unwrap_or(-1);
    let content = adapted(arguments.required_text("content"), &current);
    let edited = insert_at_line(&current.text, &content, line)
        .map_err(|error| ToolFailure::new(format!("{}: {error}", target.shown())))?;
    Ok(Plan::new(target, current, edited.text))
}

fn write_file() -> Tool {
    let (task, precheck) = by_plan!(plan_write, "Wrote");
    tool(
        "write_file",
        "Create or overwrite a whole file, creating its directories. To change part of it use edit_definition or edit_file.",
        vec![
            path_parameter(""),
            text("content", ""),
        ],
        task,
        precheck,
    )
    .filed_under(&["buffer"])
}

async fn plan_write(arguments: &Arguments, context: &WorkContext) -> Result<Plan, ToolFailure> {
    let (target, current) = target(arguments, context).await?;
    let after = adapted(arguments.required_text("content"), &current);
    Ok(Plan {
        parents: parents(arguments),
        extent: Rewritten::Whole,
        ..Plan::new(target, current, after)
    })
}

fn create_file() -> Tool {
    let (task, precheck) = by_plan!(plan_create, CREATED);
    tool(
        "create_file",
        "Create a new file. Unlike write_file, it does not replace an existing file unless allow_overwrite is true.",
        vec![
            path_parameter(""),
            text("content", ""),
            overwrite_parameter(),
            parents_parameter(),
            description_parameter(),
        ],
        task,
        precheck,
    )
}

async fn plan_create(arguments: &Arguments, context: &WorkContext) -> Result<Plan, ToolFailure> {
    let plan = plan_write(arguments, context).await?;
    let taken = match &plan.current.home {
        Home::Nowhere => false,
        Home::Disk(..) => true,
        Home::Buffer(live) => plan.target.kind == PathKind::File || live.modified,
    };
    if taken && !arguments.flag("allow_overwrite") {
        return Err(ToolFailure::new(format!(
            "'{}' already exists. Use allow_overwrite: true to replace it.",
            plan.target.shown()
        )));
    }
    Ok(plan)
}

fn propose_file_edit() -> Tool {
    let (task, precheck) = by_plan!(plan_proposal, "Changes applied to");
    tool(
        "propose_file_edit",
        "Propose a change to a file as a diff, for the user to review. Prefer edit_file, which asks the user too and needs less text.",
        vec![
            path_parameter(""),
            text("original", "The text now: the whole file, or a part that occurs once; empty for a new file"),
            text("modified", "The text as it should be"),
            text("description", "The purpose of the change, for the user"),
        ],
        task,
        precheck,
    )
    .filed_under(&["diff"])
}

async fn plan_proposal(arguments: &Arguments, context: &WorkContext) -> Result<Plan, ToolFailure> {
    let (target, current) = target(arguments, context).await?;
    if adapted(arguments.required_text("original"), &current) != current.text {
        return replacing(arguments, context, ["original", "modified"]).await;
    }
    not_deleted(&target, &current)?;
    let modified = adapted(arguments.required_text("modified"), &current);
    Ok(Plan {
        extent: Rewritten::Whole,
        basis: Basis::Quote,
        ..Plan::new(target, current, modified)
    })
}
