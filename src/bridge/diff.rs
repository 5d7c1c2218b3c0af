// SPDX-License-Identifier: GPL-3.0-or-later
//! Diffs as Lisp values: a hunk is the list (OLD-START NEW-START HEADER BODY ADDED REMOVED HEADING).

use emacs::{Env, IntoLisp, Result, Value};
use serde::Deserialize;

use super::signal;
use crate::diff::{Change, Diff, Hunk, apply, apply_onto};
use crate::tool::work::{Divisible, Preview};

/// A hunk as Lisp writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HunkJson {
    old_start: usize,
    new_start: usize,
    body: String,
}

/// PREVIEW as a list, or nil.
pub fn preview<'e>(env: &'e Env, preview: Option<&Preview>) -> Result<Value<'e>> {
    let Some(preview) = preview else {
        return ().into_lisp(env);
    };
    env.list([
        (&*preview.shown).into_lisp(env)?,
        preview.file.to_string_lossy().into_lisp(env)?,
        preview.original.as_deref().into_lisp(env)?,
        (&*preview.modified).into_lisp(env)?,
        (preview.divisible == Divisible::Yes).into_lisp(env)?,
        (&*preview.note).into_lisp(env)?,
        preview.moves.as_deref().into_lisp(env)?,
    ])
}

/// The hunks that lead from ORIGINAL to MODIFIED.
pub fn hunks<'e>(env: &'e Env, original: &str, modified: &str, context: i64) -> Result<Value<'e>> {
    let context = usize::try_from(context).unwrap_or(0);
    let hunks: Vec<Value<'e>> = Diff::between(original, modified, context)
        .hunks
        .iter()
        .map(|it| hunk(env, it))
        .collect::<Result<_>>()?;
    env.list(&hunks)
}

/// The hunk in OLD, JSON text, with BODY, which the user wrote, for its lines.
pub fn edited<'e>(env: &'e Env, old: &str, body: &str) -> Result<Value<'e>> {
    let mut old = parse(env, &format!("[{old}]"))?;
    match old.pop().map(|old| old.edited(body)) {
        Some(Ok(new)) => hunk(env, &new),
        Some(Err(error)) => signal(env, error),
        None => signal(env, "There is no hunk."),
    }
}

/// ORIGINAL with HUNKS, JSON text, applied.
pub fn applied(env: &Env, original: &str, hunks: &str) -> Result<String> {
    let hunks = parse(env, hunks)?;
    apply(original, &hunks)
        .or_else(|(index, why)| signal(env, format!("Hunk {} does not fit: {why}.", index + 1)))
}

/// CURRENT, which has changed since, with HUNKS applied: the list of the text and, for each hunk,
/// the line it starts with or why it was left out.
pub fn applied_onto<'e>(env: &'e Env, current: &str, hunks: &str) -> Result<Value<'e>> {
    let patched = apply_onto(current, &parse(env, hunks)?);
    let mut values = vec![patched.text.into_lisp(env)?];
    for outcome in patched.outcomes {
        values.push(match outcome {
            Ok(line) => i64::try_from(line).unwrap_or(i64::MAX).into_lisp(env)?,
            Err(why) => why.to_string().into_lisp(env)?,
        });
    }
    env.list(&values)
}

fn parse(env: &Env, hunks: &str) -> Result<Vec<Hunk>> {
    let hunks: Vec<HunkJson> = match serde_json::from_str(hunks) {
        Ok(hunks) => hunks,
        Err(error) => return signal(env, format!("The hunks are not understood: {error}")),
    };
    let hunks = hunks
        .iter()
        .map(|it| Hunk::parse(it.old_start, it.new_start, &it.body));
    hunks
        .collect::<std::result::Result<_, _>>()
        .or_else(|error| signal(env, error))
}

fn hunk<'e>(env: &'e Env, hunk: &Hunk) -> Result<Value<'e>> {
    let count = |change: Change| {
        let lines = hunk.lines.iter();
        lines.filter(|line| line.change == change).count() as i64
    };
    env.list([
        (hunk.old_start as i64).into_lisp(env)?,
        (hunk.new_start as i64).into_lisp(env)?,
        hunk.header().into_lisp(env)?,
        hunk.body().into_lisp(env)?,
        count(Change::Added).into_lisp(env)?,
        count(Change::Removed).into_lisp(env)?,
        hunk.heading.as_str().into_lisp(env)?,
    ])
}
