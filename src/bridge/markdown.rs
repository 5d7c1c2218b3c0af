// SPDX-License-Identifier: GPL-3.0-or-later
//! Documents of Markdown as Lisp objects. Emacs Lisp owns them, as it knows when an answer begins and
//! ends: one for each text that grows in a log.

use emacs::{Env, IntoLisp, Result, Value, defun};

use super::text::Text;
use crate::markdown::{Alignment, LiveText, Part, PartKind, Update};

/// Return a new document of Markdown, whose lines are broken after WIDTH characters.
#[defun(user_ptr)]
fn markdown_document(width: i64) -> Result<LiveText> {
    Ok(LiveText::new(usize::try_from(width).unwrap_or(usize::MAX)))
}

/// Add TEXT to DOCUMENT; return the list (BREAKS FROM RUNS PARTS).
/// BREAKS are places in TEXT before which a line end is to be put in. RUNS is a vector of lengths
/// and styles, in turns, that begins at FROM. Places are counted from the document's beginning. PARTS
/// are (link START END TARGET), (code START END LANGUAGE), (formula START END DRAWN) and
/// (table START END ALIGNMENTS ROWS DASHES-START DASHES-END).
#[defun]
fn markdown_feed<'e>(env: &'e Env, document: &mut LiveText, text: Text) -> Result<Value<'e>> {
    update(env, document.feed(&text))
}

/// Return what changes as nothing more comes to DOCUMENT, like `agent-q-core-markdown-feed'.
#[defun]
fn markdown_finish<'e>(env: &'e Env, document: &mut LiveText) -> Result<Value<'e>> {
    update(env, document.finish())
}

fn update(env: &Env, update: Update) -> Result<Value<'_>> {
    let breaks: Vec<Value<'_>> = numbers(env, update.breaks)?;
    let runs = numbers(
        env,
        update
            .runs
            .iter()
            .flat_map(|it| [it.length, it.style.number() as usize]),
    )?;
    let parts: Vec<Value<'_>> = update
        .parts
        .iter()
        .map(|it| part(env, it))
        .collect::<Result<_>>()?;
    env.list([
        env.list(&breaks)?,
        (update.from as i64).into_lisp(env)?,
        env.vector(&runs)?,
        env.list(&parts)?,
    ])
}

fn numbers(env: &Env, numbers: impl IntoIterator<Item = usize>) -> Result<Vec<Value<'_>>> {
    numbers
        .into_iter()
        .map(|it| (it as i64).into_lisp(env))
        .collect()
}

fn part<'e>(env: &'e Env, part: &Part) -> Result<Value<'e>> {
    let kind = match part.kind {
        PartKind::Link { .. } => "link",
        PartKind::Code { .. } => "code",
        PartKind::Formula { .. } => "formula",
        PartKind::Table { .. } => "table",
    };
    let mut items = vec![env.intern(kind)?];
    items.extend(numbers(env, [part.range.start, part.range.end])?);
    match &part.kind {
        PartKind::Link { target: text }
        | PartKind::Code { language: text }
        | PartKind::Formula { drawn: text } => {
            items.push(text.into_lisp(env)?);
        }
        PartKind::Table {
            columns,
            rows,
            dashes,
        } => {
            let columns: Vec<Value<'e>> = columns
                .iter()
                .map(|it| env.intern(alignment(*it)))
                .collect::<Result<_>>()?;
            let mut lines = Vec::with_capacity(rows.len());
            for row in rows {
                let places = numbers(env, row.iter().flat_map(|it| [it.start, it.end]))?;
                lines.push(env.list(&places)?);
            }
            items.push(env.list(&columns)?);
            items.push(env.list(&lines)?);
            items.extend(numbers(env, [dashes.start, dashes.end])?);
        }
    }
    env.list(&items)
}

fn alignment(alignment: Alignment) -> &'static str {
    match alignment {
        Alignment::Left => "left",
        Alignment::Center => "center",
        Alignment::Right => "right",
    }
}
