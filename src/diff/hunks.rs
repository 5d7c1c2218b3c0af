// SPDX-License-Identifier: GPL-3.0-or-later
//! Hunks as unified diff text, and back from text that a user edited; and chosen hunks applied: to the text
//! they were made from, or to one that has changed since.

use std::borrow::Cow;
use std::fmt::Write;

use super::fuzzy::{Near, listed, near_matches};
use super::{Change, Diff, DiffLine, Hunk};

const NO_NEWLINE: &str = "\\ No newline at end of file";

/// Why an edited hunk can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HunkError {
    #[error(
        "Line {line} of the hunk starts with '{start}'; it must start with a space, '-' or '+'."
    )]
    Prefix { line: usize, start: char },
    #[error(
        "The hunk's lines with ' ' and '-' must stay as they are in the file (line {line} of the hunk); edit the '+' lines only, or turn '-' into ' ' to keep a line."
    )]
    Original { line: usize },
}

/// The name of the file SHOWN on SIDE of a diff, `a` or `b`; an absolute one is as it is.
#[must_use]
pub fn label(side: &str, shown: &str) -> String {
    match shown.starts_with('/') {
        true => shown.to_owned(),
        false => format!("{side}/{shown}"),
    }
}

impl Diff {
    /// The diff as text, as `diff -u` writes it; nothing when there is no difference.
    #[must_use]
    pub fn unified(&self, old_label: &str, new_label: &str) -> String {
        if self.hunks.is_empty() {
            return String::new();
        }
        let mut text = format!("--- {old_label}\n+++ {new_label}\n");
        for hunk in &self.hunks {
            text.push_str(&hunk.header());
            if !hunk.heading.is_empty() {
                let _ = write!(text, " {}", hunk.heading);
            }
            text.push('\n');
            text.push_str(&hunk.body());
        }
        text
    }
}

impl Hunk {
    /// The line that starts the hunk: `@@ -1,4 +1,5 @@`.
    #[must_use]
    pub fn header(&self) -> String {
        let old = range(self.old_start, self.old_lines().count());
        let new = range(self.new_start, self.new_lines().count());
        format!("@@ -{old} +{new} @@")
    }

    /// The hunk's lines as they stand in a diff.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push(match line.change {
                Change::Kept => ' ',
                Change::Removed => '-',
                Change::Added => '+',
            });
            text.push_str(&line.text);
            if !line.text.ends_with('\n') {
                text.push('\n');
                text.push_str(NO_NEWLINE);
                text.push('\n');
            }
        }
        text
    }

    /// The hunk at these places whose lines are BODY, as [`Hunk::body`] writes them.
    ///
    /// # Errors
    ///
    /// A line has no sign.
    pub fn parse(old_start: usize, new_start: usize, body: &str) -> Result<Self, HunkError> {
        let mut lines: Vec<DiffLine> = Vec::new();
        for (index, line) in body.split_inclusive('\n').enumerate() {
            if line.trim_end_matches('\n') == NO_NEWLINE {
                if let Some(last) = lines.last_mut() {
                    last.text.truncate(last.text.trim_end_matches('\n').len());
                }
                continue;
            }
            lines.push(parse(line, index + 1)?);
        }
        Ok(Self {
            old_start,
            new_start,
            lines,
            heading: String::new(),
        })
    }

    /// The hunk with a line less around its changes, as long as it has lines to be recognized by.
    fn inner(&self) -> Option<Self> {
        let kept = |line: Option<&DiffLine>| line.is_some_and(|it| it.change == Change::Kept);
        let (before, after) = (
            usize::from(kept(self.lines.first())),
            usize::from(kept(self.lines.last())),
        );
        let lines = self.lines.get(before..self.lines.len() - after)?;
        let removes = lines.iter().any(|it| it.change == Change::Removed);
        (before + after > 0 && removes).then(|| Self {
            old_start: self.old_start + before,
            new_start: self.new_start + before,
            lines: lines.to_vec(),
            heading: self.heading.clone(),
        })
    }

    /// This hunk with BODY, which a user made from its own, for its lines.
    ///
    /// # Errors
    ///
    /// A line has no sign, or the original's lines are not what they were.
    pub fn edited(&self, body: &str) -> Result<Self, HunkError> {
        let edited = Self::parse(self.old_start, self.new_start, body)?;
        let same = edited.old_lines().zip(self.old_lines());
        let first_change = same.take_while(|(now, then)| now == then).count();
        let kept = edited.old_lines().count() == self.old_lines().count();
        if !kept || first_change < self.old_lines().count() {
            let originals = edited.lines.iter().enumerate();
            let mut originals = originals.filter(|(_, line)| line.change != Change::Added);
            let line = originals
                .nth(first_change)
                .map_or(edited.lines.len(), |(index, _)| index + 1);
            return Err(HunkError::Original { line });
        }
        Ok(Self {
            heading: self.heading.clone(),
            ..edited
        })
    }
}

fn parse(line: &str, number: usize) -> Result<DiffLine, HunkError> {
    let mut text = line.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let change = match text.chars().next() {
        Some('+') => Change::Added,
        Some('-') => Change::Removed,
        Some(' ') => Change::Kept,
        // Editors drop the space of an empty line.
        Some('\n' | '\r') | None => {
            return Ok(DiffLine {
                change: Change::Kept,
                text,
            });
        }
        Some(start) => {
            return Err(HunkError::Prefix {
                line: number,
                start,
            });
        }
    };
    text.remove(0);
    Ok(DiffLine { change, text })
}

/// Lines as a diff's header names them: none are named by the line before.
fn range(start: usize, lines: usize) -> String {
    let mut text = String::new();
    let first = if lines == 0 { start } else { start + 1 };
    let _ = write!(text, "{first}");
    if lines != 1 {
        let _ = write!(text, ",{lines}");
    }
    text
}

// Applying chosen hunks.

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
/// Where lines around what it changes are other ones now, those stay.
#[must_use]
pub fn apply_onto<'h>(current: &str, hunks: impl IntoIterator<Item = &'h Hunk>) -> Patched {
    let lines: Vec<&str> = current.split_inclusive('\n').collect();
    let mut text = String::with_capacity(current.len());
    let mut outcomes = Vec::new();
    let (mut done, mut shift, mut written) = (0, 0, 0);
    for hunk in hunks {
        let found = find_without_context(current, &lines, hunk, done, shift);
        outcomes.push(found.map(|(hunk, place)| {
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

/// HUNK, or as much of it as is there, and its place as of `find`: with less around its changes if need be.
fn find_without_context<'h>(
    current: &str,
    lines: &[&str],
    hunk: &'h Hunk,
    done: usize,
    shift: isize,
) -> Result<(Cow<'h, Hunk>, usize), Misplaced> {
    let whole = find(current, lines, hunk, done, shift);
    let absent = match whole {
        Err(absent @ Misplaced::Absent { .. }) => absent,
        whole => return whole.map(|place| (Cow::Borrowed(hunk), place)),
    };
    let mut smaller = Cow::Borrowed(hunk);
    while let Some(inner) = smaller.inner() {
        match find(current, lines, &inner, done, shift) {
            Ok(place) => return Ok((Cow::Owned(inner), place)),
            Err(Misplaced::Absent { .. }) => smaller = Cow::Owned(inner),
            Err(other) => return Err(other),
        }
    }
    Err(absent)
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
