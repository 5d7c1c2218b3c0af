// SPDX-License-Identifier: GPL-3.0-or-later
//! Applying chosen hunks: to the text they were made from, or to one that has changed since.

use super::Hunk;
use super::near::{Near, listed, near_matches};

/// Why a hunk does not fit a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    #[error("the lines it changes are no longer there{}", listed(near))]
    Absent { near: Vec<Near> },
    #[error("the lines it changes are there {} times (lines {}) and none is where they were",
        lines.len(), join(lines))]
    Ambiguous { lines: Vec<usize> },
    #[error("it changes lines that the hunk before it changes too")]
    Overlap,
}

pub(super) fn join(lines: &[usize]) -> String {
    let texts: Vec<String> = lines.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// A text to which hunks were applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patched {
    pub text: String,
    /// For each hunk the line, from 1, that it now starts with, or why it was not applied.
    pub outcomes: Vec<Result<usize, Misplaced>>,
}

/// Applies HUNKS, in the order of their places, to ORIGINAL, the text they were made from.
///
/// # Errors
///
/// The number of the first hunk that doesn't fit, from 0, and why.
pub fn apply<'h>(
    original: &str,
    hunks: impl IntoIterator<Item = &'h Hunk>,
) -> Result<String, (usize, Misplaced)> {
    let old: Vec<&str> = original.split_inclusive('\n').collect();
    let mut text = String::with_capacity(original.len());
    let mut done = 0;
    for (index, hunk) in hunks.into_iter().enumerate() {
        if hunk.old_start < done {
            return Err((index, Misplaced::Overlap));
        }
        if !fits(&old, hunk, hunk.old_start) {
            return Err((index, absent(original, hunk)));
        }
        text.extend(old[done..hunk.old_start].iter().copied());
        text.extend(hunk.new_lines());
        done = hunk.old_start + hunk.old_lines().count();
    }
    text.extend(old[done..].iter().copied());
    Ok(text)
}

/// Applies HUNKS to CURRENT, which may have changed since they were made. A hunk goes where its
/// old lines are: at its place, moved as far as the hunk before it, or where they stand only once.
#[must_use]
pub fn apply_onto<'h>(current: &str, hunks: impl IntoIterator<Item = &'h Hunk>) -> Patched {
    let lines: Vec<&str> = current.split_inclusive('\n').collect();
    let mut text = String::with_capacity(current.len());
    let mut outcomes = Vec::new();
    let (mut done, mut shift, mut written) = (0, 0, 0);
    for hunk in hunks {
        let place = find(current, &lines, hunk, done, shift);
        outcomes.push(place.map(|place| {
            text.extend(lines[done..place].iter().copied());
            text.extend(hunk.new_lines());
            written += place - done;
            let starts = written + 1;
            written += hunk.new_lines().count();
            done = place + hunk.old_lines().count();
            shift = place as isize - hunk.old_start as isize;
            starts
        }));
    }
    text.extend(lines[done..].iter().copied());
    Patched { text, outcomes }
}

/// Where in LINES, not before DONE, HUNK's old lines stand.
fn find(
    current: &str,
    lines: &[&str],
    hunk: &Hunk,
    done: usize,
    shift: isize,
) -> Result<usize, Misplaced> {
    let expected = hunk.old_start.checked_add_signed(shift);
    if hunk.old_lines().next().is_none() {
        // Nothing to recognize the place by, unless the text is still empty.
        return match lines {
            [] => Ok(0),
            _ => Err(Misplaced::Absent { near: Vec::new() }),
        };
    }
    if let Some(place) = expected
        && place >= done
        && fits(lines, hunk, place)
    {
        return Ok(place);
    }
    let places: Vec<usize> = (done..lines.len())
        .filter(|&place| fits(lines, hunk, place))
        .collect();
    match places.as_slice() {
        [] => Err(absent(current, hunk)),
        [place] => Ok(*place),
        _ => Err(Misplaced::Ambiguous {
            lines: places.iter().map(|place| place + 1).collect(),
        }),
    }
}

fn fits(lines: &[&str], hunk: &Hunk, place: usize) -> bool {
    let mut left = lines.get(place..).unwrap_or_default().iter();
    place <= lines.len() && hunk.old_lines().all(|line| left.next() == Some(&line))
}

fn absent(text: &str, hunk: &Hunk) -> Misplaced {
    let wanted: String = hunk.old_lines().collect();
    Misplaced::Absent {
        near: near_matches(text, &wanted),
    }
}
