// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that tell whether a Lisp file is balanced, which edits check by themselves, and that repair
//! one, or the last change that was refused.

use super::balance::{REPAIR, doubt, imbalance, mended, odd, offered};
use super::change::{Basis, Home, Plan, load, look};
use super::edits::{UNSEEN, by_plan, plan_merged, plan_reviewed, report, tool};
use super::nesting::changes_reader;
use super::reading::path_parameter;
use crate::files::path::missing;
use crate::tool::work::{Precheck, Proposal, Running, Task, WorkContext, to_the_end};
use crate::tool::{Arguments, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![check_parens(), repair_parens()]
}

fn check_parens() -> Tool {
    let task: Task = |arguments, context| -> Running {
        Box::pin(async move {
            let target = context.resolve(arguments.required_text("path")).await?;
            let current = look(&context, &target).await?;
            if matches!(current.home, Home::Nowhere) {
                return Err(missing(&target).into());
            }
            let shown = target.shown();
            let (text, path) = (&current.text, &target.path);
            let found = imbalance(&context, text, &shown, 1).await?;
            let mended = mended(&context, path, text, 0..text.len()).await?;
            let Some(found) = found else {
                let doubt = doubt(&context, text, &shown, 1).await?;
                let odd = odd(&context, doubt, mended);
                return Ok(odd.unwrap_or_else(|| format!("'{shown}' is balanced.")));
            };
            let mut told = format!("'{shown}' is unbalanced: {}", found.problem);
            if let Some(mended) = mended {
                told.push(' ');
                told.push_str(&offered(&context, &mended.told));
            }
            Ok(told)
        })
    };
    Tool {
        paths: &["path"],
        ..Tool::new(
            "check_parens",
            "Check that the parentheses, strings and comments of a Lisp file are balanced, and show the line and column where they are not. You need it only for edits made elsewhere: the tools that edit check this themselves.",
            SafetyLevel::Safe,
            &["filesystem", "editing"],
            vec![path_parameter("")],
            Runner::Task(task),
        )
    }
}

fn repair_parens() -> Tool {
    let (task, precheck) = by_plan!(plan_repair, "Repaired");
    tool(
        REPAIR,
        "Repair the parentheses of a Common Lisp file, or of the change to it that was refused last, where exactly one repair fits the indentation. A file that changes the reader is refused.",
        vec![path_parameter("")],
        task,
        precheck,
    )
}

async fn plan_repair(arguments: &Arguments, context: &WorkContext) -> Result<Plan, ToolFailure> {
    let target = context.resolve(arguments.required_text("path")).await?;
    let current = load(context, &target).await?;
    let before = match current.home {
        Home::Nowhere => None,
        Home::Disk(..) | Home::Buffer(_) => Some(current.text.as_str()),
    };
    let refused = context.workspace.last_unbalanced(&target.path, before);
    if let Some(Some(after)) = refused {
        return Ok(Plan::new(target, current, after));
    }
    let lead = match refused {
        Some(_) => {
            "No repair of the change that was refused fits its indentation, or more than one does: send it again with balanced parentheses. "
        }
        None => "",
    };
    if before.is_none() {
        let missing = ToolFailure::from(missing(&target));
        return Err(ToolFailure {
            message: format!("{lead}{}", missing.message),
            ..missing
        });
    }
    let text = &current.text;
    let Some(mended) = mended(context, &target.path, text, 0..text.len()).await? else {
        let problem = unrepaired(context, text, &target.shown()).await?;
        return Err(ToolFailure::quoting(format!(
            "{lead}{problem} Nothing was changed."
        )));
    };
    Ok(Plan {
        basis: Basis::Quote,
        ..Plan::new(target, current, mended.text)
    })
}

/// Why TEXT, of the file SHOWN, is not repaired, as sentences.
async fn unrepaired(context: &WorkContext, text: &str, shown: &str) -> Result<String, ToolFailure> {
    let found = imbalance(context, text, shown, 1).await?;
    let doubt = match found {
        Some(_) => None,
        None => doubt(context, text, shown, 1).await?,
    };
    let Some(problem) = found.map(|it| it.problem).or(doubt) else {
        return Ok(format!("'{shown}' is balanced."));
    };
    Ok(match changes_reader(text) {
        true => format!("'{shown}' changes how it is read, so it isn't repaired: {problem}"),
        false => {
            format!("No repair of '{shown}' fits its indentation, or more than one does: {problem}")
        }
    })
}
