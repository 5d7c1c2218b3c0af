// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool that tells whether a Lisp file is balanced; edits check that by themselves.

use super::balance::{doubt, imbalance, is_lisp};
use super::change::{Home, look};
use super::reading::path_parameter;
use crate::files::path::missing;
use crate::tool::work::{Running, Task};
use crate::tool::{Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

pub(super) fn check_parens() -> Tool {
    let task: Task = |arguments, context| -> Running {
        Box::pin(async move {
            let target = context.resolve(arguments.required_text("path")).await?;
            let current = look(&context, &target).await?;
            if matches!(current.home, Home::Nowhere) {
                return Err(missing(&target).into());
            }
            let shown = target.shown();
            if !is_lisp(&target.path) {
                return Err(ToolFailure::new(format!("'{shown}' is not a Lisp file.")));
            }
            Ok(match imbalance(&context, &current.text, &shown, 1).await? {
                Some(found) => format!("'{shown}' is unbalanced: {}", found.problem),
                None => match doubt(&context, &current.text, &shown, 1).await? {
                    Some(doubt) => doubt,
                    None => format!("'{shown}' is balanced."),
                },
            })
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
