// SPDX-License-Identifier: GPL-3.0-or-later
//! Code among the arguments of a call, and code that they only name, such as a definition of a file.
//! That is found before it is assessed, and what was assessed is what runs, whatever becomes of the
//! file meanwhile.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use lexpr::Value;
use serde_json::{Map, Value as Json};

use super::work::WorkContext;
use super::{Arguments, ToolFailure};

/// What stands before and behind code in Markdown.
const FENCE: &str = "```";

/// Arguments of a tool that are code for the Lisp image. Such code is assessed in the image, with
/// the macros that it has, before anybody decides whether the call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The parameters with code in them; `package` says in which package it is read. None where a
    /// call only names code that it runs, such as a system.
    pub parameters: &'static [&'static str],
    pub treatment: Treatment,
}

/// What a tool does with code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Reads and runs a form, then the next: what can't be read before the forms above it have run
    /// is assessed by the operation itself, just before it runs.
    RunInSteps,
    /// Runs it all at once.
    RunAtOnce,
    /// Only expands its macros.
    Expand,
}

/// What a call runs in the image in place of what its tool says. Two that run the same are equal.
#[derive(Debug, Clone)]
pub struct Unit {
    pub operation: &'static str,
    /// The text that runs; none where the image finds it by itself.
    pub code: Option<String>,
    /// The arguments of the operation.
    pub arguments: Value,
    /// What the result is to say of the code.
    pub note: Option<String>,
    /// What the result calls the code, if not by its `name` among the call's arguments.
    pub called: Option<String>,
    /// The file that it is from.
    pub file: PathBuf,
    /// The text from there that the image has once this has run; none for all of it.
    pub form: Option<String>,
}

impl PartialEq for Unit {
    fn eq(&self, other: &Self) -> bool {
        let runs = |it: &Self| (it.operation, it.code.clone(), it.arguments.clone());
        runs(self) == runs(other)
    }
}

/// Finds the code that a call's arguments name. Runs none of it.
pub type FindUnit = fn(Arguments, WorkContext) -> BoxFuture<'static, Result<Unit, ToolFailure>>;

/// SOURCE without the one pair of Markdown fences around it, if it has one.
#[must_use]
pub fn unfenced(source: &str) -> &str {
    let trimmed = source.trim();
    let inner = trimmed
        .strip_prefix(FENCE)
        .and_then(|rest| rest.strip_suffix(FENCE))
        .and_then(|rest| rest.split_once('\n'));
    match inner {
        Some((language, inner))
            if !language.contains(['(', '`', ';']) && !inner.contains("\n```") =>
        {
            inner.trim()
        }
        _ if trimmed.starts_with(FENCE) => trimmed,
        _ => source,
    }
}

impl Code {
    /// Leaves out the fences of Markdown around the code in GIVEN: a reader takes them for backquotes.
    ///
    /// # Errors
    ///
    /// When it can't be told what is code.
    pub fn unfence(&self, given: &mut Map<String, Json>) -> Result<(), ToolFailure> {
        for name in self.parameters {
            let Some(Json::String(text)) = given.get_mut(*name) else {
                continue;
            };
            let code = unfenced(text);
            if code.starts_with(FENCE) {
                return Err(ToolFailure::new(format!(
                    "{name}: Leave out the Markdown fences ({FENCE}), and give the code alone; nothing was run."
                )));
            }
            if code.len() < text.len() {
                *text = code.to_owned();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FORM: &str = "(defun a ()\n  1)";
    const TWO: &str = "```lisp\n(a)\n```\n```lisp\n(b)\n```";

    #[test]
    fn one_pair_of_fences_is_no_part_of_code() {
        for fenced in [
            "```lisp\n(defun a ()\n  1)\n```",
            "\n```\n(defun a ()\n  1)```\n",
            FORM,
        ] {
            assert_eq!(unfenced(fenced), FORM);
        }
        assert_eq!(unfenced(TWO), TWO);
        assert_eq!(unfenced(" `(a ,b)\n"), " `(a ,b)\n");
    }

    #[test]
    fn what_has_other_fences_is_refused() {
        let code = Code {
            parameters: &["form"],
            treatment: Treatment::RunInSteps,
        };
        let of = |form: &str| {
            json!({"form": form, "timeout": 1})
                .as_object()
                .cloned()
                .unwrap()
        };
        let mut fenced = of("```common-lisp\n(defun a ()\n  1)\n```");
        code.unfence(&mut fenced).unwrap();
        assert_eq!(fenced, of(FORM));
        let failure = code.unfence(&mut of(TWO)).unwrap_err();
        assert!(failure.message.contains("Leave out the Markdown fences"));
        assert!(code.unfence(&mut of("```(car 3)")).is_err());
        assert!(code.unfence(&mut of("``(a ,,b)")).is_ok());
    }
}
