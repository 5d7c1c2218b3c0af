// SPDX-License-Identifier: GPL-3.0-or-later
//! Two changes of one text put together: ours goes where theirs left the lines alone.

use std::ops::Range;

use super::{Diff, Hunk};

/// A text with two changes in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    pub text: String,
    /// The base with only those changes of ours that are in the text.
    pub ours: String,
    /// How many hunks of ours are in the text that theirs doesn't have.
    pub added: usize,
    /// The first and last line of the text, from 1, for each hunk of ours that is not in it.
    pub clashes: Vec<(usize, usize)>,
}

/// BASE with what leads from it to THEIRS, and with those hunks of what leads to OURS that don't meet it.
#[must_use]
pub fn merge(base: &str, ours: &str, theirs: &str) -> Merged {
    let (ours, theirs) = (edits(base, ours), edits(base, theirs));
    let (mut fitting, mut added) = (Vec::new(), Vec::new());
    let mut clashing: Vec<Range<usize>> = Vec::new();
    for edit in &ours {
        let met = theirs.iter().filter(|other| edit.meets(other));
        let met: Vec<&Edit> = met.collect();
        match met.as_slice() {
            [] => {
                fitting.push(edit);
                added.push(edit);
            }
            [same] if *same == edit => fitting.push(edit),
            _ => {
                let all = || met.iter().copied().chain([edit]);
                let start = all().map(|it| it.lines.start).min();
                let end = all().map(|it| it.lines.end).max();
                clashing.push(start.unwrap_or_default()..end.unwrap_or_default());
            }
        }
    }
    let mut both: Vec<&Edit> = theirs.iter().chain(added.iter().copied()).collect();
    both.sort_by_key(|edit| (edit.lines.start, edit.lines.end));
    Merged {
        text: applied(base, &both),
        ours: applied(base, &fitting),
        added: added.len(),
        clashes: clashing.iter().map(|it| place(it, &both)).collect(),
    }
}

/// What takes the place of some lines.
#[derive(Debug, PartialEq, Eq)]
struct Edit {
    lines: Range<usize>,
    new: Vec<String>,
}

impl Edit {
    /// Whether it can't be told how both go together.
    fn meets(&self, other: &Self) -> bool {
        let (one, two) = (&self.lines, &other.lines);
        let apart = one.end < two.start || two.end < one.start;
        let touching = one.end == two.start || two.end == one.start;
        let whole = |edit: &Self| edit.new.iter().all(|line| line.ends_with('\n'));
        match (apart, touching) {
            (true, _) => false,
            // Of two insertions at one place, and of lines that go on, none comes first.
            (_, true) => one == two || !whole(self) || !whole(other),
            _ => true,
        }
    }
}

fn edits(base: &str, text: &str) -> Vec<Edit> {
    let edit = |hunk: &Hunk| Edit {
        lines: hunk.old_start..hunk.old_start + hunk.old_lines().count(),
        new: hunk.new_lines().map(str::to_owned).collect(),
    };
    Diff::between(base, text, 0)
        .hunks
        .iter()
        .map(edit)
        .collect()
}

/// BASE with EDITS, in the order of their places.
fn applied(base: &str, edits: &[&Edit]) -> String {
    let lines: Vec<&str> = base.split_inclusive('\n').collect();
    let (mut text, mut done) = (String::with_capacity(base.len()), 0);
    for edit in edits {
        text.extend(lines[done..edit.lines.start].iter().copied());
        text.extend(edit.new.iter().map(String::as_str));
        done = edit.lines.end;
    }
    text.extend(lines[done..].iter().copied());
    text
}

/// The first and last line, from 1, of what EDITS made of LINES.
fn place(lines: &Range<usize>, edits: &[&Edit]) -> (usize, usize) {
    let (mut start, mut count) = (lines.start, lines.len());
    for edit in edits {
        let (removed, added) = (edit.lines.len(), edit.new.len());
        if edit.lines.end <= lines.start && !(edit.lines.is_empty() && *lines == edit.lines) {
            start = start + added - removed;
        } else if edit.lines.start >= lines.start && edit.lines.end <= lines.end {
            count = count + added - removed;
        }
    }
    (start + 1, start + count.max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASE: &str = "a\nb\nc\nd\n";

    fn merged(ours: &str, theirs: &str) -> (String, usize, Vec<(usize, usize)>) {
        let merged = merge(BASE, ours, theirs);
        (merged.text, merged.added, merged.clashes)
    }

    #[test]
    fn what_the_other_left_alone_is_changed() {
        for (ours, theirs, both) in [
            ("A\nb\nc\nd\n", "a\nb\nc\nD\n", "A\nb\nc\nD\n"),
            ("A\nb\nc\nd\n", "a\nB\nc\nd\n", "A\nB\nc\nd\n"),
            ("a\nb\nd\n", "x\na\nb\nc\nd\ny\n", "x\na\nb\nd\ny\n"),
            ("a\nb\nc\nd\nnew\n", "b\nc\nd\n", "b\nc\nd\nnew\n"),
            // Of two that are next to each other, the insertion keeps its side.
            ("a\nB\nc\nd\n", "a\nb\nx\nc\nd\n", "a\nB\nx\nc\nd\n"),
        ] {
            assert_eq!(merged(ours, theirs), (both.to_owned(), 1, Vec::new()));
            assert_eq!(merge(BASE, theirs, ours).text, both);
        }
    }

    #[test]
    fn what_both_changed_stays_and_is_named() {
        let (text, added, clashes) = merged("A\nb\nC\nd\n", "0\na\nb\nx\ny\nd\n");
        assert_eq!(text, "0\nA\nb\nx\ny\nd\n");
        assert_eq!((added, clashes), (1, vec![(4, 5)]));
        assert_eq!(
            merge(BASE, "A\nb\nC\nd\n", "0\na\nb\nx\nd\n").ours,
            "A\nb\nc\nd\n"
        );
        let (text, added, clashes) = merged("a\nours\nb\nc\nd\n", "a\ntheirs\nb\nc\nd\n");
        assert_eq!(text, "a\ntheirs\nb\nc\nd\n");
        assert_eq!((added, clashes), (0, vec![(2, 2)]));
        let (text, added, clashes) = merged("a\nb\nc\nD\n", "a\nb\nc\n");
        assert_eq!((text.as_str(), added, clashes.len()), ("a\nb\nc\n", 0, 1));
        // A line without an end can't go on with another one.
        assert_eq!(merged("a\nb\nc\nd\nx\n", "a\nb\nc\nd").2.len(), 1);
    }

    #[test]
    fn what_both_did_is_done_once() {
        let (text, added, clashes) = merged("A\nb\nc\nD\n", "A\nb\nc\nd\n");
        assert_eq!((text.as_str(), added, clashes), ("A\nb\nc\nD\n", 1, vec![]));
        assert_eq!(
            merge(BASE, "A\nb\nc\nD\n", "A\nb\nc\nd\n").ours,
            "A\nb\nc\nD\n"
        );
    }

    proptest! {
        #[test]
        fn a_change_alone_is_that_change(base in "[ab\n]{0,20}", other in "[abc\n]{0,20}") {
            let merged = merge(&base, &other, &base);
            prop_assert_eq!(&merged.text, &other);
            prop_assert_eq!(&merged.ours, &other);
            prop_assert!(merged.clashes.is_empty());
            prop_assert_eq!(merge(&base, &base, &other).text, other.clone());
            let same = merge(&base, &other, &other);
            prop_assert_eq!((same.text, same.added, same.clashes.len()), (other, 0, 0));
        }

        #[test]
        fn clashes_are_in_the_text(base in "[ab\n]{0,20}", ours in "[abc\n]{0,20}", theirs in "[abd\n]{0,20}") {
            let merged = merge(&base, &ours, &theirs);
            let lines = merged.text.lines().count().max(1);
            for (start, end) in merged.clashes {
                prop_assert!(1 <= start && start <= end && end <= lines + 1);
            }
        }
    }
}
