// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a change leaves a text readable as Lisp, for all tools that edit files. Emacs finds what is
//! wrong. It knows no reader macros, so a file that it can't read may be fine: then the forms around
//! the change alone are judged, and the change may not make them worse.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::nesting::{OneCharacter, Repair, apply, repair};
use crate::builtin::more::calling;
use crate::diff::difference;
use crate::tool::ToolFailure;
use crate::tool::work::{WorkContext, read_reply};

/// The tool that repairs a text.
pub const REPAIR: &str = "repair_parens";

/// Files whose text has to be Lisp that can be read, by the end of their names.
const LISP_FILES: [&str; 9] = [
    "lisp", "lsp", "cl", "asd", "ros", "el", "scm", "sexp", "clisp",
];

/// Those of them with another Lisp than Common Lisp.
const OTHER_LISPS: [&str; 2] = ["el", "scm"];

/// How much of a text a change gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewritten {
    Part,
    /// All of it is new, so that it has to be right by itself.
    Whole,
}

/// What keeps a text from being read as Lisp.
#[derive(Debug, Deserialize)]
pub struct Imbalance {
    /// A sentence about the first place.
    pub problem: String,
    /// How many parentheses and quotes have no partner in all.
    excess: usize,
}

impl Imbalance {
    /// Whether this seems to be what was wrong with the text before: there may be reader macros in it.
    fn is_as(&self, was: &Self) -> bool {
        let sentence = |of: &Self| of.problem.replace(|it: char| it.is_ascii_digit(), "");
        self.excess <= was.excess && sentence(self) == sentence(was)
    }
}

/// Whether the file at PATH has Lisp code.
#[must_use]
pub fn is_lisp(path: &Path) -> bool {
    let extension = path.extension().and_then(|it| it.to_str());
    extension.is_some_and(|it| LISP_FILES.iter().any(|lisp| it.eq_ignore_ascii_case(lisp)))
}

/// Why a change may not be made.
#[derive(Debug)]
pub struct Refused {
    pub failure: ToolFailure,
    /// What can be made instead.
    pub mended: Option<Mended>,
}

impl From<ToolFailure> for Refused {
    fn from(failure: ToolFailure) -> Self {
        Self {
            failure,
            mended: None,
        }
    }
}

/// A repair of a text's parentheses or quotes.
#[derive(Debug)]
pub struct Mended {
    pub text: String,
    /// A clause that says what is to be done.
    pub told: String,
}

/// The one repair of TEXT, of the file at PATH, in the bytes WITHIN, if Emacs can read what comes of it.
///
/// # Errors
///
/// Emacs does not reply, or the call was cancelled.
pub async fn mended(
    context: &WorkContext,
    path: &Path,
    text: &str,
    within: Range<usize>,
) -> Result<Option<Mended>, ToolFailure> {
    let extension = path.extension().and_then(|it| it.to_str());
    if extension.is_some_and(|it| OTHER_LISPS.contains(&it)) {
        return Ok(None);
    }
    let broken = text.to_owned();
    let found = context
        .on_a_thread(move |_| Ok(repair(&broken, within)))
        .await?;
    let Repair::One(edits) = found else {
        return Ok(None);
    };
    let after = apply(text, &edits);
    let shown = path.file_name().unwrap_or_default().to_string_lossy();
    let fits = imbalance(context, &after, &shown, 1).await?.is_none();
    Ok(fits.then(|| Mended {
        told: told(text, &edits),
        text: after,
    }))
}

/// What EDITS do to TEXT, as a clause.
fn told(text: &str, edits: &[OneCharacter]) -> String {
    let clauses: Vec<String> = edits
        .iter()
        .map(|edit| {
            let before = &text[..edit.place()];
            let line = before.matches('\n').count() + 1;
            let start = before.rfind('\n').map_or(0, |it| it + 1);
            let end = text[start..].find('\n').map_or(text.len(), |it| start + it);
            let after = &text[edit.place()..end];
            match edit {
                OneCharacter::Insert(_, character) => format!(
                    "put {character} into line {line}, which becomes: {}",
                    format!("{}{character}{after}", &text[start..edit.place()]).trim()
                ),
                OneCharacter::Delete(_) => format!(
                    "take one ) out of line {line}, which becomes: {}",
                    format!("{}{}", &text[start..edit.place()], &after[1..]).trim()
                ),
            }
        })
        .collect();
    clauses.join("; ")
}

/// Makes sure that the change of BEFORE, the text of the file at PATH, called SHOWN, if it is there, to AFTER leaves Lisp
/// that can be read, or at least nothing worse than before. Gives a word on what was wrong already.
///
/// # Errors
///
/// Where AFTER can't be read because of the change.
pub async fn check_change(
    context: &WorkContext,
    extent: Rewritten,
    before: Option<&str>,
    after: &str,
    (path, shown): (&Path, &str),
) -> Result<Option<String>, Refused> {
    let whole = imbalance(context, after, shown, 1).await?;
    let around = around(before.unwrap_or_default(), after);
    let part = imbalance(context, around.after, shown, around.line).await?;
    if whole.is_none() && part.is_none() {
        let had = doubt(context, around.before, shown, around.line).await?;
        return match had {
            Some(_) => Ok(None),
            None => {
                let doubt = doubt(context, around.after, shown, around.line).await?;
                let mended = mended(context, path, after, around.within()).await?;
                Ok(odd(context, doubt, mended))
            }
        };
    }
    let was = match before {
        Some(before) => imbalance(context, before, shown, 1).await?,
        None => None,
    };
    let Some(was) = was else {
        return match whole {
            Some(found) => {
                let mended = mended(context, path, after, around.within()).await?;
                Err(refused(context, shown, &found, mended))
            }
            None => Ok(None),
        };
    };
    if let (Rewritten::Whole, Some(found)) = (extent, &whole)
        && !found.is_as(&was)
    {
        return Err(refused(context, shown, found, None));
    }
    // A file that seems to be mended as a whole can be so by what the change breaks.
    if let Some(found) = part {
        let was = imbalance(context, around.before, shown, around.line).await?;
        if was.is_none_or(|was| found.excess > was.excess) {
            return Err(refused(context, shown, &found, None));
        }
    }
    Ok(Some(format!(
        "'{shown}' was already unbalanced before the change, perhaps only because of reader macros: {} Only the forms around the change were checked.",
        was.problem
    )))
}

fn refused(
    context: &WorkContext,
    shown: &str,
    found: &Imbalance,
    mended: Option<Mended>,
) -> Refused {
    let advice = match &mended {
        Some(mended) => format!(
            "Nothing was changed. Exactly one repair fits the indentation: {}\n{} with this path makes the change with it; or send it again with balanced parentheses.",
            mended.told,
            calling(REPAIR, &context.offer)
        ),
        None => "Nothing was changed; send it again with balanced parentheses.".to_owned(),
    };
    let failure = ToolFailure::quoting(format!(
        "The change would leave '{shown}' unbalanced: {} {advice}",
        found.problem
    ));
    Refused { failure, mended }
}

/// What is said of a text that is balanced, by what hardly is as it was meant in it, and its repair.
#[must_use]
pub fn odd(context: &WorkContext, doubt: Option<String>, mended: Option<Mended>) -> Option<String> {
    let Some(Mended { told, .. }) = mended else {
        return doubt;
    };
    let odd = doubt.unwrap_or_else(|| {
        "It is balanced; but the indentation says that a parenthesis is in the wrong place."
            .to_owned()
    });
    Some(format!("{odd} {}", offered(context, &told)))
}

/// How a repair that is TOLD is offered.
#[must_use]
pub fn offered(context: &WorkContext, told: &str) -> String {
    format!(
        "Exactly one repair fits the indentation: {told}\n{} does that.",
        calling(REPAIR, &context.offer)
    )
}

/// What keeps TEXT, which starts at LINE of the file SHOWN, from being read as Lisp.
///
/// # Errors
///
/// Emacs does not reply.
pub async fn imbalance(
    context: &WorkContext,
    text: &str,
    shown: &str,
    line: usize,
) -> Result<Option<Imbalance>, ToolFailure> {
    ask_of_source(context, "check-source", text, shown, line).await
}

/// What of TEXT, which starts at LINE of the file SHOWN and is balanced, hardly is as it was meant.
///
/// # Errors
///
/// Emacs does not reply.
pub async fn doubt(
    context: &WorkContext,
    text: &str,
    shown: &str,
    line: usize,
) -> Result<Option<String>, ToolFailure> {
    ask_of_source(context, "doubt-source", text, shown, line).await
}

/// What Emacs replies to OPERATION about TEXT, which starts at LINE of the file SHOWN.
async fn ask_of_source<T: DeserializeOwned>(
    context: &WorkContext,
    operation: &'static str,
    text: &str,
    shown: &str,
    line: usize,
) -> Result<T, ToolFailure> {
    let arguments = json!({"text": text, "name": shown, "line": line});
    read_reply(&context.ask_emacs(operation, arguments).await?)
}

/// The top-level forms around a change.
#[derive(Debug, PartialEq, Eq)]
struct Around<'t> {
    before: &'t str,
    after: &'t str,
    /// The byte and the line at which they start.
    start: usize,
    line: usize,
}

impl Around<'_> {
    /// The bytes of the changed text where they are.
    fn within(&self) -> Range<usize> {
        self.start..self.start + self.after.len()
    }
}

/// The top-level forms that the change of BEFORE to AFTER touches. Such forms start in the first
/// column, whatever is wrong with those before them.
fn around<'t>(before: &'t str, after: &'t str) -> Around<'t> {
    let middle = difference(before, after);
    let head = before
        .char_indices()
        .nth(middle.start)
        .map_or(before.len(), |(byte, _)| byte);
    // A form of which the change takes the very first parenthesis has the one before it untouched.
    let at_line = head == 0 || before[..head].ends_with('\n');
    let start = match at_line && before[head..].starts_with('(') {
        true => head,
        false => before[..head].rfind("\n(").map_or(0, |byte| byte + 1),
    };
    let rest = &before[head + middle.old.len()..];
    let end = rest.find("\n(").map_or(rest.len(), |byte| byte + 1);
    let untouched = rest.len() - end;
    Around {
        before: &before[start..before.len() - untouched],
        after: &after[start..after.len() - untouched],
        start,
        line: before[..start].matches('\n').count() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_with_the_forms_that_it_touches() {
        let before = "(a\n (é))\n(b 1)\n\n(c)\n";
        assert_eq!(
            around(before, "(a\n (é))\n(b 22)\n\n(c)\n"),
            Around {
                before: "(b 1)\n\n",
                after: "(b 22)\n\n",
                start: 10,
                line: 3
            }
        );
        assert_eq!(
            around(before, "(a\n (é))\n(b 1)\n\n(c) d"),
            Around {
                before: "(c)\n",
                after: "(c) d",
                start: 17,
                line: 5
            }
        );
        // What breaks the start of a form is not made up for by what is odd before it.
        assert_eq!(around(before, "(a\n (é))\nb 1)\n\n(c)\n").after, "b 1)\n\n");
    }
}
