// SPDX-License-Identifier: GPL-3.0-or-later
//! Line diffs of two texts as hunks that can be shown, edited, chosen and applied, byte for byte:
//! a line keeps its end, whatever it is. Pure functions; nothing here knows of files or Emacs.

mod fuzzy;
mod hunks;
mod merge;
mod replace;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

pub use fuzzy::{Near, near_matches};
pub use hunks::{HunkError, Misplaced, Patched, apply, apply_onto, label};
pub use merge::{Merged, merge};
pub use replace::{EditError, Edited, insert_at_line, replace_unique};

/// How many unchanged lines stand around each change.
pub const CONTEXT: usize = 3;
/// After this long a diff is finished coarsely; it is still right, only larger.
const DEADLINE: Duration = Duration::from_millis(200);

/// What happens to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Kept,
    Removed,
    Added,
}

/// A line of a hunk, with its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    pub change: Change,
    pub text: String,
}

/// Changes that stand together, with the lines around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// How many lines of the original and of the modified text come before it.
    pub old_start: usize,
    pub new_start: usize,
    pub lines: Vec<DiffLine>,
    /// The first line of the top-level form in which it changes something first; empty without one.
    pub heading: String,
}

impl Hunk {
    /// The lines that the original has here.
    pub fn old_lines(&self) -> impl Iterator<Item = &str> {
        self.side(Change::Added)
    }

    /// The lines that the modified text has here.
    pub fn new_lines(&self) -> impl Iterator<Item = &str> {
        self.side(Change::Removed)
    }

    fn side(&self, without: Change) -> impl Iterator<Item = &str> {
        self.lines
            .iter()
            .filter(move |line| line.change != without)
            .map(|line| line.text.as_str())
    }
}

/// How many lines a diff adds and removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    pub added: usize,
    pub removed: usize,
}

/// The difference between two texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    pub hunks: Vec<Hunk>,
}

impl Diff {
    /// Compares ORIGINAL with MODIFIED; each hunk has CONTEXT lines around its changes.
    #[must_use]
    pub fn between(original: &str, modified: &str, context: usize) -> Self {
        let old: Vec<&str> = original.split_inclusive('\n').collect();
        let new: Vec<&str> = modified.split_inclusive('\n').collect();
        let hunks = group_diff_ops(operations(&old, &new), context)
            .iter()
            .filter_map(|group| hunk(group, &old, &new))
            .collect();
        Self { hunks }
    }

    /// The first and last line of the modified text that differ, from 1; the line before, where lines
    /// were only removed. It is for a diff without context.
    #[must_use]
    pub fn changed_lines(&self) -> Option<(usize, usize)> {
        let (first, last) = (self.hunks.first()?, self.hunks.last()?);
        let start = first.new_start + first.new_lines().count().min(1);
        let end = last.new_start + last.new_lines().count();
        Some((start.max(1), end.max(start).max(1)))
    }

    #[must_use]
    pub fn size(&self) -> Size {
        let lines = self.hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.fold(Size::default(), |mut size, line| {
            match line.change {
                Change::Kept => {}
                Change::Added => size.added += 1,
                Change::Removed => size.removed += 1,
            }
            size
        })
    }
}

/// What leads from the lines OLD to NEW.
fn operations(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let (old_numbers, new_numbers) = numbered(old, new);
    capture_diff_slices_deadline(
        Algorithm::Patience,
        &old_numbers,
        &new_numbers,
        Instant::now().checked_add(DEADLINE),
    )
}

/// The lines of both texts as numbers, the same for equal lines, which compare faster.
fn numbered<'t>(old: &[&'t str], new: &[&'t str]) -> (Vec<u32>, Vec<u32>) {
    let mut numbers: HashMap<&'t str, u32> = HashMap::new();
    let mut number = |line: &&'t str| {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(line).or_insert(next)
    };
    let old = old.iter().map(&mut number).collect();
    (old, new.iter().map(&mut number).collect())
}

fn hunk(group: &[DiffOp], old: &[&str], new: &[&str]) -> Option<Hunk> {
    let first = group.first()?;
    let mut lines = Vec::new();
    let mut push = |change: Change, texts: &[&str]| {
        lines.extend(texts.iter().map(|&text| DiffLine {
            change,
            text: text.to_owned(),
        }));
    };
    for operation in group {
        match operation {
            DiffOp::Equal { .. } => push(Change::Kept, &old[operation.old_range()]),
            _ => {
                push(Change::Removed, &old[operation.old_range()]);
                push(Change::Added, &new[operation.new_range()]);
            }
        }
    }
    let changed = lines.iter().any(|line| line.change != Change::Kept);
    changed.then(|| Hunk {
        old_start: first.old_range().start,
        new_start: first.new_range().start,
        heading: heading(group, old, new).unwrap_or_default(),
        lines,
    })
}

/// How many characters of a form's first line a heading has.
const HEADING: usize = 80;

/// The first line of the top-level form that the first change of GROUP is in or makes.
fn heading(group: &[DiffOp], old: &[&str], new: &[&str]) -> Option<String> {
    let first = group
        .iter()
        .find(|it| !matches!(it, DiffOp::Equal { .. }))?;
    let (lines, changed) = match first.old_range() {
        range if range.is_empty() => (new, first.new_range()),
        range => (old, range),
    };
    let begins = |line: &&&str| line.starts_with('(');
    let apart = |line: &&&str| line.trim().is_empty() || line.starts_with(';');
    let made = lines[changed.clone()].iter().find(|line| !apart(line));
    let around = lines[..changed.start].iter().rev();
    let found = made
        .filter(begins)
        .or_else(|| around.into_iter().find(begins))?;
    Some(found.trim_end().chars().take(HEADING).collect())
}

// The one part in which two texts differ, for changing no more than that in a buffer.

/// Where two texts differ.
pub struct Middle<'t> {
    /// In characters.
    pub start: usize,
    pub old: &'t str,
    pub new: &'t str,
}

/// The part in which OLD and NEW differ.
#[must_use]
pub fn difference<'t>(old: &'t str, new: &'t str) -> Middle<'t> {
    let same = |pair: &(char, char)| pair.0 == pair.1;
    let start_of = |chars: &mut dyn Iterator<Item = (char, char)>| -> (usize, usize) {
        let common = chars.take_while(same);
        common.fold((0, 0), |(count, bytes), (it, _)| {
            (count + 1, bytes + it.len_utf8())
        })
    };
    let (start, head) = start_of(&mut old.chars().zip(new.chars()));
    let (old, new) = (&old[head..], &new[head..]);
    let (_, tail) = start_of(&mut old.chars().rev().zip(new.chars().rev()));
    Middle {
        start,
        old: &old[..old.len() - tail],
        new: &new[..new.len() - tail],
    }
}

// A text that is half rewritten: new lines at its beginning, old ones after them.

/// OLD as it is when so much of its new text has come as SO_FAR says: the whole lines of that, and behind
/// them the lines of OLD for which nothing has come yet. Where nothing tells which those are, each new
/// line stands for one old line.
#[must_use]
pub fn half_rewritten(old: &str, so_far: &str) -> String {
    let whole = so_far.rfind('\n').map_or("", |end| &so_far[..=end]);
    let old_lines: Vec<&str> = old.lines().collect();
    let new_lines: Vec<&str> = whole.lines().collect();
    let rest = &old_lines[rewritten(&old_lines, &new_lines)..];
    let mut text = whole.replace("\r\n", "\n");
    text.push_str(&rest.join("\n"));
    match old.ends_with('\n') {
        true if !rest.is_empty() => text.push('\n'),
        false if rest.is_empty() && !old.is_empty() => {
            text.pop();
        }
        _ => {}
    }
    text
}

/// How many of OLD the lines of NEW stand for, which are the first ones of what replaces it.
fn rewritten(old: &[&str], new: &[&str]) -> usize {
    let operations = operations(old, new);
    let behind_the_last_kept = operations
        .iter()
        .rev()
        .take_while(|operation| operation.tag() != DiffTag::Equal);
    let (removed, added) = behind_the_last_kept.fold((0, 0), |(removed, added), operation| {
        (
            removed + operation.old_range().len(),
            added + operation.new_range().len(),
        )
    });
    old.len() - removed + added.min(removed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_differs_is_sent_and_characters_are_counted() {
        let middle = difference("λ(a b)é", "λ(a cc b)é");
        assert_eq!((middle.start, middle.old, middle.new), (4, "", "cc "));
        let middle = difference("aaa", "aa");
        assert_eq!((middle.start, middle.old, middle.new), (2, "a", ""));
        let middle = difference("same", "same");
        assert_eq!((middle.start, middle.old, middle.new), (4, "", ""));
    }

    const OLD: &str = "(defun f (x)\n  (print x)\n  (g x)\n  x)";

    #[test]
    fn what_has_not_come_yet_stays() {
        for (so_far, expected) in [
            ("", OLD),
            ("(defun f", OLD),
            ("(defun f (x)\n", OLD),
            (
                "(defun f (x)\n  \"Say F.\"\n",
                "(defun f (x)\n  \"Say F.\"\n  (g x)\n  x)",
            ),
            (
                "(defun f (x)\n  \"Say F.\"\n  (print x)\n  (h",
                "(defun f (x)\n  \"Say F.\"\n  (print x)\n  (g x)\n  x)",
            ),
            ("(defun f (x)\n  (g x)\n", "(defun f (x)\n  (g x)\n  x)"),
            ("(a)\n(b)\n(c)\n(d)\n(e)\n", "(a)\n(b)\n(c)\n(d)\n(e)"),
        ] {
            assert_eq!(half_rewritten(OLD, so_far), expected, "{so_far}");
        }
    }

    #[test]
    fn the_end_of_the_text_stays_as_it_was() {
        assert_eq!(half_rewritten("a\nb\n", "x\n"), "x\nb\n");
        assert_eq!(half_rewritten("a\nb\n", "x\ny\nz\n"), "x\ny\nz\n");
        assert_eq!(half_rewritten("", "x\ny"), "x\n");
        assert_eq!(half_rewritten("a\r\nb", "x\r\n"), "x\nb");
    }

    proptest! {
        #[test]
        fn it_is_new_lines_and_then_old_ones(old in "[abc\n]{0,30}", new in "[abcd\n]{0,30}") {
            let half = half_rewritten(&old, &new);
            let written = new.matches('\n').count();
            let lines: Vec<&str> = half.lines().collect();
            let come: Vec<&str> = new.lines().take(written).collect();
            // A last line that is empty is no line any more without its end.
            let both = come.len().min(lines.len());
            prop_assert!(come.len() <= both + 1);
            prop_assert_eq!(&lines[..both], &come[..both]);
            let rest = &lines[both..];
            let old_lines: Vec<&str> = old.lines().collect();
            prop_assert!(old_lines.ends_with(rest));
        }
    }
}
