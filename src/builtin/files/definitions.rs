// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that change a file by its definitions. Emacs finds them, and judges the new text.

use std::ops::Range;

use serde::Deserialize;
use serde_json::json;

use super::change::{Basis, Current, Plan};
use super::edits::{
    UNSEEN, adapted, by_plan, compile_parameter, existing, plan_merged, plan_reviewed, report,
    text, tool,
};
use super::reading::path_parameter;
use crate::diff::{EditError, replace_unique};
use crate::files::encoding::LineEnds;
use crate::files::path::Resolved;
use crate::tool::code::unfenced;
use crate::tool::work::{Precheck, Proposal, Task, WorkContext, read_reply, to_the_end};
use crate::tool::{Arguments, Parameter, ParameterType, Tool, ToolFailure};

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![edit_definition(), insert_definition()]
}

fn edit_definition() -> Tool {
    let (task, precheck) = by_plan!(plan_definition, "Definition replaced in");
    tool(
        "edit_definition",
        "Replace one definition (defun, defmethod, defclass, test...) of a Lisp file by name, or a part of it. Refuses unbalanced code.",
        vec![
            path_parameter(""),
            text(
                "name",
                "E.g. \"parse-line\", \"defun parse-line\", \"(setf name)\", \"area :around (square)\" for a method",
            ),
            Parameter::optional(
                "old_text",
                ParameterType::String,
                "Replace only this unique text of it",
            ),
            text("new_source", ""),
            compile_parameter(),
        ],
        task,
        precheck,
    )
}

/// Where a definition is, in characters from the start, and what Emacs says of the new text.
#[derive(Deserialize)]
struct Placed {
    start: Option<usize>,
    end: Option<usize>,
    /// The column of the definition.
    column: usize,
    /// The new text as it stands at that column, where it was written for the first one.
    source: Option<String>,
    /// Whether the new text ends in a comment.
    comment: bool,
    /// Whether the new text has no definition in it.
    nothing: bool,
    /// What there is to say when it takes the place of the definition.
    replacing: Option<String>,
    /// The same when it is inserted.
    inserting: Option<String>,
}

impl Placed {
    /// The bytes of TEXT where the definition is, if one was asked for.
    fn range(&self, text: &str) -> Option<Range<usize>> {
        let place = |characters: usize| {
            let mut places = text.char_indices().map(|(place, _)| place);
            places.nth(characters).unwrap_or(text.len())
        };
        Some(place(self.start?)..place(self.end?))
    }
}

/// The definition NAME of TARGET, if Emacs finds one.
pub(crate) async fn definition(
    target: &Resolved,
    current: &Current,
    name: &str,
    context: &WorkContext,
) -> Option<String> {
    let placed = placed((target, current), Some(name), None, context).await;
    let range = placed.ok()?.range(&current.text)?;
    Some(current.text[range].to_owned())
}

/// What becomes of SOURCE at the definition NAME of TARGET.
async fn placed(
    (target, current): (&Resolved, &Current),
    name: Option<&str>,
    source: Option<&str>,
    context: &WorkContext,
) -> Result<Placed, ToolFailure> {
    let arguments = json!({
        "text": current.text, "name": name, "file": target.shown(), "source": source,
    });
    let reply = context.ask_emacs("place-definition", arguments).await?;
    read_reply(&reply)
}

/// The FORM of TEXT with NEW in the place of OLD, which it has once.
fn replaced_in(text: &str, form: Range<usize>, old: &str, new: &str) -> Result<String, EditError> {
    // The lines before it count for who is told of a place.
    let is_end = |character: &char| matches!(character, '\r' | '\n');
    let lines: String = text[..form.start].chars().filter(is_end).collect();
    let edited = replace_unique(&format!("{lines}{}", &text[form]), old, new)?;
    Ok(edited
        .text
        .get(lines.len()..)
        .unwrap_or_default()
        .to_owned())
}

/// What has to stand between a text that ends in a comment and REST, which would become part of it:
/// a line break, with the blanks of BEFORE's last line. Gives REST without its own blanks, too.
fn below_comment<'t>(before: &str, rest: &'t str) -> (String, &'t str) {
    let kept = rest.trim_start_matches([' ', '\t']);
    if kept.is_empty() || kept.starts_with(['\n', '\r']) {
        return (String::new(), rest);
    }
    let line = before.rsplit('\n').next().unwrap_or_default();
    (format!("\n{}", " ".repeat(line.chars().count())), kept)
}

async fn plan_definition(
    arguments: &Arguments,
    context: &WorkContext,
) -> Result<Plan, ToolFailure> {
    let (target, current) = existing(arguments, context).await?;
    let name = arguments.required_text("name");
    let new = arguments.required_text("new_source");
    let patched;
    let old = arguments.text("old_text");
    let source = match old {
        None => unfenced(new).trim(),
        Some(old) => {
            let placed = placed((&target, &current), Some(name), None, context).await?;
            let form = placed.range(&current.text).unwrap_or_default();
            patched = replaced_in(&current.text, form, old, new)
                .map_err(|error| ToolFailure::quoting(format!("{name}: {error}")))?;
            &patched
        }
    };
    let placed = placed((&target, &current), Some(name), Some(source), context).await?;
    if placed.nothing {
        return Err(ToolFailure::new(format!(
            "The new text has no definition in it, so it can't take the place of {name}; nothing was changed. Edit other forms as text."
        )));
    }
    let text = &current.text;
    let form = placed.range(text).unwrap_or_default();
    let (before, rest) = (&text[..form.start], &text[form.end..]);
    let (gap, rest) = match placed.comment {
        true => below_comment(before, rest),
        false => (String::new(), rest),
    };
    let source = placed.source.as_deref().unwrap_or(source);
    let source = adapted(&format!("{source}{gap}"), &current);
    let after = [before, &source, rest].concat();
    Ok(Plan {
        remark: placed.replacing,
        basis: match old {
            Some(_) => Basis::Quote,
            None => Basis::File,
        },
        ..Plan::new(target, current, after)
    })
}

fn insert_definition() -> Tool {
    let (task, precheck) = by_plan!(plan_insertion, "Definition inserted into");
    tool(
        "insert_definition",
        "Insert a new definition into a Lisp file, after a named one or at the end.",
        vec![
            path_parameter(""),
            text("source", ""),
            Parameter::optional(
                "after",
                ParameterType::String,
                "Name as in edit_definition; default: end of file",
            ),
            compile_parameter(),
        ],
        task,
        precheck,
    )
}

async fn plan_insertion(arguments: &Arguments, context: &WorkContext) -> Result<Plan, ToolFailure> {
    let (target, current) = existing(arguments, context).await?;
    let ends = LineEnds::of(current.text.as_bytes());
    let source = unfenced(arguments.required_text("source")).trim();
    let placed = placed(
        (&target, &current),
        arguments.text("after"),
        Some(source),
        context,
    )
    .await?;
    let source = format!("{}\n", placed.source.as_deref().unwrap_or(source));
    let text = &current.text;
    let after = match placed.range(text) {
        Some(form) => {
            let rest = &text[form.end..];
            // A comment behind the form stays with it; what else follows on the line is not its own.
            let line_end = match rest.trim_start_matches([' ', '\t', '\r']) {
                own if own.is_empty() || own.starts_with(['\n', ';']) => {
                    rest.find('\n').map_or(rest.len(), |end| end + 1)
                }
                _ => 0,
            };
            let (tail, rest) = rest.split_at(line_end);
            let gap = if tail.ends_with('\n') { "\n" } else { "\n\n" };
            // A comment below is about what comes next, and stands apart like that.
            let next = rest.trim_start_matches([' ', '\t']);
            let source = match next.starts_with(')') && !placed.comment {
                true => source.trim_end(),
                false => &source,
            };
            let below = match next.starts_with(['\n', '\r', ')']) || next.is_empty() {
                true => "",
                false => "\n",
            };
            let indent = " ".repeat(placed.column);
            let inserted = format!("{gap}{indent}{source}{below}");
            let inserted = ends.adapt(&inserted);
            [&text[..form.end], tail, &inserted, rest].concat()
        }
        None => {
            let kept = text.trim_end_matches(['\n', '\r', ' ', '\t']);
            let gap = if kept.is_empty() { "" } else { "\n\n" };
            format!("{kept}{}", ends.adapt(&format!("{gap}{source}")))
        }
    };
    Ok(Plan {
        remark: placed.inserting,
        ..Plan::new(target, current, after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_a_comment_goes_below_it() {
        assert_eq!(
            below_comment("x\n (progn ", " (defun b ())"),
            ("\n        ".to_owned(), "(defun b ())")
        );
        assert_eq!(below_comment("", "\n(b)"), (String::new(), "\n(b)"));
        assert_eq!(below_comment("", ")"), ("\n".to_owned(), ")"));
    }
}
