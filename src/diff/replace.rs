// SPDX-License-Identifier: GPL-3.0-or-later
//! The two plain edits: replacing a text that stands exactly once, and inserting at a line.

use std::borrow::Cow;

use super::fuzzy::{Near, listed, near_matches};
use super::hunks::join;
use crate::files::encoding::LineEnds;

/// Why an edit makes no sense for a text: one sentence that a model can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("The text to replace is empty; give the exact text from the file.")]
    Empty,
    #[error("The new text is the same as the old one; nothing would change.")]
    Same,
    #[error(
        "The text to replace was not found{}. Read the file again and give the text exactly, including white space.",
        listed(near)
    )]
    NotFound { near: Vec<Near> },
    #[error(
        "Found {count} matches for the text to replace (lines {}); include more of the lines around the one that is meant.",
        shown(lines, *count)
    )]
    Several { count: usize, lines: Vec<usize> },
    #[error(
        "Line {line} does not exist: there are {lines}; use 0 for the top, -1 for the end, or the line to insert after."
    )]
    NoSuchLine { line: i64, lines: usize },
}

/// How many places of several are named.
const MOST_PLACES: usize = 10;

fn shown(lines: &[usize], count: usize) -> String {
    let more = if count > lines.len() { ", …" } else { "" };
    format!("{}{more}", join(lines))
}

/// A text that was edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub text: String,
    /// The line, from 1, where the change starts.
    pub line: usize,
}

/// Puts NEW in the place of OLD, which has to stand in TEXT exactly once. Plain line ends in OLD
/// and NEW stand for those that TEXT has.
///
/// # Errors
///
/// OLD is empty, the same as NEW, not there, or there more than once.
pub fn replace_unique(text: &str, old: &str, new: &str) -> Result<Edited, EditError> {
    if old.is_empty() {
        return Err(EditError::Empty);
    }
    if old == new {
        return Err(EditError::Same);
    }
    let places_of = |old: &str| -> Vec<usize> {
        let places = text.match_indices(old);
        places.map(|(place, _)| place).collect()
    };
    let (mut old, mut ends) = (Cow::Borrowed(old), LineEnds::of(text.as_bytes()));
    let mut places = places_of(&old);
    if places.is_empty() {
        let adapted = LineEnds::CrLf.adapt(&old).into_owned();
        places = places_of(&adapted);
        if !places.is_empty() {
            (old, ends) = (adapted.into(), LineEnds::CrLf);
        }
    }
    if places.is_empty() && ends == LineEnds::Mixed && old.contains('\n') {
        return replace_across_ends(text, &old, new);
    }
    let [place] = places.as_slice() else {
        return Err(no_single_place(text, &old, &places));
    };
    let new = ends.adapt(new);
    Ok(Edited {
        text: [&text[..*place], &new, &text[place + old.len()..]].concat(),
        line: line_of(text, *place),
    })
}

/// The same in a TEXT with line ends of both kinds, which nobody sees: those of OLD stand for any,
/// and NEW gets the first that it replaces.
fn replace_across_ends(text: &str, old: &str, new: &str) -> Result<Edited, EditError> {
    let plain = text.replace("\r\n", "\n");
    let old = old.replace("\r\n", "\n");
    let places: Vec<usize> = plain.match_indices(&old).map(|(place, _)| place).collect();
    let [place] = places.as_slice() else {
        return Err(no_single_place(&plain, &old, &places));
    };
    let (start, end) = (
        with_returns(text, *place),
        with_returns(text, place + old.len()),
    );
    let first_end = text[start..end].find('\n').unwrap_or_default();
    let new = match text[start..end][..first_end].ends_with('\r') {
        true => LineEnds::CrLf.adapt(new),
        false => Cow::Borrowed(new),
    };
    Ok(Edited {
        text: [&text[..start], &new, &text[end..]].concat(),
        line: line_of(text, start),
    })
}

/// The place in TEXT of what is at PLACE when its line ends are plain.
fn with_returns(text: &str, place: usize) -> usize {
    let mut left = place;
    let mut lines = text.split_inclusive('\n');
    let mut start = 0;
    loop {
        let Some(line) = lines.next() else {
            return text.len();
        };
        let plain = line.len() - usize::from(line.ends_with("\r\n"));
        if left < plain {
            return start + left;
        }
        left -= plain;
        start += line.len();
    }
}

fn no_single_place(text: &str, old: &str, places: &[usize]) -> EditError {
    if places.is_empty() {
        return EditError::NotFound {
            near: near_matches(text, old),
        };
    }
    EditError::Several {
        count: places.len(),
        lines: places
            .iter()
            .take(MOST_PLACES)
            .map(|&place| line_of(text, place))
            .collect(),
    }
}

fn line_of(text: &str, place: usize) -> usize {
    text[..place].matches('\n').count() + 1
}

/// Puts CONTENT on lines of its own into TEXT: before the first for 0, at the end for -1, else
/// after LINE.
///
/// # Errors
///
/// There is no such line.
pub fn insert_at_line(text: &str, content: &str, line: i64) -> Result<Edited, EditError> {
    let starts: Vec<usize> = text
        .split_inclusive('\n')
        .scan(0, |end, line| {
            *end += line.len();
            Some(*end)
        })
        .collect();
    let lines = starts.len();
    let after = match line {
        -1 => Some(lines),
        _ => usize::try_from(line).ok().filter(|&after| after <= lines),
    };
    let Some(after) = after else {
        return Err(EditError::NoSuchLine { line, lines });
    };
    let place = if after == 0 { 0 } else { starts[after - 1] };
    let (before, rest) = text.split_at(place);
    let ends = LineEnds::of(text.as_bytes());
    let line_end = if ends == LineEnds::CrLf { "\r\n" } else { "\n" };
    let content = ends.adapt(content);
    let mut result = String::with_capacity(text.len() + content.len() + 4);
    result.push_str(before);
    let unfinished = !before.is_empty() && !before.ends_with('\n');
    if unfinished {
        result.push_str(line_end);
    }
    result.push_str(&content);
    // A text whose last line has no end keeps it that way.
    if !content.ends_with('\n') && !unfinished {
        result.push_str(line_end);
    }
    result.push_str(rest);
    Ok(Edited {
        text: result,
        line: after + 1,
    })
}
