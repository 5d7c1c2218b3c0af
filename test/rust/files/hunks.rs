// SPDX-License-Identifier: GPL-3.0-or-later
//! Diffs of two texts: their hunks as text, edited, chosen and applied, byte for byte.

use agent_q_core::diff::{CONTEXT, Change, Diff, HunkError, Misplaced, Size, apply, apply_onto};
use proptest::prelude::*;

fn numbered(lines: std::ops::Range<u32>) -> String {
    lines.map(|line| format!("line {line}\n")).collect()
}

/// Three changes far enough from each other for three hunks.
fn three_hunks() -> (String, String) {
    let original = numbered(0..40);
    let modified = original
        .replace("line 2\n", "LINE 2\n")
        .replace("line 20\n", "line 20\nline 20 and a half\n")
        .replace("line 38\n", "");
    (original, modified)
}

#[test]
fn unified_text_is_what_diff_writes() {
    let diff = Diff::between("a\nb\nc\n", "a\nB\nc\nd", CONTEXT);
    assert_eq!(
        diff.unified("a/f", "b/f"),
        "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n\\ No newline at end of file\n"
    );
    assert_eq!(
        diff.size(),
        Size {
            added: 2,
            removed: 1
        }
    );
    let new = Diff::between("", "x\n", CONTEXT);
    assert_eq!(
        new.unified("/dev/null", "b/f"),
        "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n"
    );
    let gone = Diff::between("x\ny\n", "", CONTEXT);
    assert_eq!(gone.hunks[0].header(), "@@ -1,2 +0,0 @@");
    let middle = Diff::between("a\nb\n", "a\nnew\nb\n", 0);
    assert_eq!(middle.hunks[0].header(), "@@ -1,0 +2 @@");
    assert_eq!(
        Diff::between("same\n", "same\n", CONTEXT).unified("a", "b"),
        ""
    );
}

#[test]
fn a_hunk_is_headed_by_the_form_that_it_changes() {
    let text = "(in-package :a)\n\n(defun a ()\n  1)\n\n(defun b ()\n  2)\n";
    let heading = |old: &str, new: &str| {
        let diff = Diff::between(text, &text.replacen(old, new, 1), 0);
        diff.hunks[0].heading.clone()
    };
    assert_eq!(heading("  2", "  3"), "(defun b ()");
    assert_eq!(heading("(defun a ()", "(defun a (x)"), "(defun a ()");
    assert_eq!(
        heading("\n(defun b", "\n;; New.\n(defun c ())\n\n(defun b"),
        "(defun c ())"
    );
    assert_eq!(heading("(in-package :a)", ";; Top.\n\n(in-package :a)"), "");
    let diff = Diff::between(text, &text.replace("  2", "  3"), 0).unified("a", "b");
    assert!(diff.contains("\n@@ -7 +7 @@ (defun b ()\n-  2)"), "{diff}");
}

#[test]
fn patch_takes_our_diffs() {
    let (original, modified) = three_hunks();
    let modified = format!("{modified}tab\there \\ #\\newline\r\nend");
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("f");
    std::fs::write(&file, &original).unwrap();
    let diff = Diff::between(&original, &modified, CONTEXT).unified("a/f", "b/f");
    std::fs::write(folder.path().join("d"), diff).unwrap();
    let patch = std::process::Command::new("patch")
        .args(["--binary", "-p1", "-i", "d"])
        .current_dir(&folder)
        .output();
    // Not every machine has it.
    let Ok(patch) = patch else { return };
    assert!(patch.status.success(), "{patch:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), modified);
}

#[test]
fn chosen_hunks_change_only_their_lines() {
    let (original, modified) = three_hunks();
    let diff = Diff::between(&original, &modified, CONTEXT);
    assert_eq!(diff.hunks.len(), 3);
    let some = apply(&original, [&diff.hunks[0], &diff.hunks[2]]).unwrap();
    assert_eq!(
        some,
        original
            .replace("line 2\n", "LINE 2\n")
            .replace("line 38\n", "")
    );
    assert_eq!(apply(&original, &diff.hunks).unwrap(), modified);
    assert_eq!(apply(&original, []).unwrap(), original);
}

#[test]
fn scattered_changes_stay_small_among_repeated_lines() {
    let original: Vec<String> = (0..4_000u32)
        .map(|line| format!("line {}\n", line.wrapping_mul(7) % 1003))
        .collect();
    let mut modified = original.clone();
    for index in (0..4_000).step_by(40) {
        modified[index] = format!("changed {index}\n");
    }
    let diff = Diff::between(&original.concat(), &modified.concat(), CONTEXT);
    assert_eq!(diff.hunks.len(), 100);
    assert_eq!(
        diff.size(),
        Size {
            added: 100,
            removed: 100
        }
    );
}

#[test]
fn what_is_not_plain_text_survives() {
    let original = "#\\newline\r\n\\\\ \"\\n\"\t\u{c}\rx\r\nlast";
    let modified = "#\\tab\r\n\\\\ \"\\n\"\t\u{c}\rx\r\nlast\r\n";
    let diff = Diff::between(original, modified, CONTEXT);
    assert_eq!(apply(original, &diff.hunks).unwrap(), modified);
    let same = diff.hunks[0].edited(&diff.hunks[0].body()).unwrap();
    assert_eq!(same, diff.hunks[0]);
}

#[test]
fn an_edited_hunk_gives_what_the_user_wrote() {
    let diff = Diff::between("a\nb\nc\n", "a\nB\nc\n", CONTEXT);
    let hunk = &diff.hunks[0];
    assert_eq!(hunk.body(), " a\n-b\n+B\n c\n");
    let edited = hunk.edited(" a\n-b\n+β\n+more\n c\n").unwrap();
    assert_eq!(apply("a\nb\nc\n", [&edited]).unwrap(), "a\nβ\nmore\nc\n");
    let kept = hunk.edited(" a\n b\n+B\n c").unwrap();
    assert_eq!(apply("a\nb\nc\n", [&kept]).unwrap(), "a\nb\nB\nc\n");
    let open = hunk
        .edited(" a\n-b\n c\n+d\n\\ No newline at end of file\n")
        .unwrap();
    assert_eq!(apply("a\nb\nc\n", [&open]).unwrap(), "a\nc\nd");
    assert_eq!(
        hunk.edited(" a\n-x\n+B\n c\n"),
        Err(HunkError::Original { line: 2 })
    );
    assert_eq!(
        hunk.edited(" a\n-b\n+B\n"),
        Err(HunkError::Original { line: 3 })
    );
    assert_eq!(
        hunk.edited(" a\n-b\n+B\n c\n d\n"),
        Err(HunkError::Original { line: 5 })
    );
    assert_eq!(
        hunk.edited(" a\nb\n"),
        Err(HunkError::Prefix {
            line: 2,
            start: 'b'
        })
    );
    let blank = Diff::between("\nb\n", "\nc\n", CONTEXT);
    assert!(blank.hunks[0].edited("\n-b\n+d\n").is_ok());
}

#[test]
fn hunks_find_their_lines_in_a_text_that_moved() {
    let (original, modified) = three_hunks();
    let diff = Diff::between(&original, &modified, CONTEXT);
    let moved = format!("new\nlines\n{original}").replace("line 38\n", "line 38 changed\n");
    let patched = apply_onto(&moved, &diff.hunks);
    let expected = moved
        .replace("line 2\n", "LINE 2\n")
        .replace("line 20\n", "line 20\nline 20 and a half\n");
    assert_eq!(patched.text, expected);
    assert_eq!(patched.outcomes[..2], [Ok(3), Ok(21)]);
    let Err(Misplaced::Absent { near }) = &patched.outcomes[2] else {
        panic!("{:?}", patched.outcomes)
    };
    // Where the hunk's first line stands now: two new lines and one added by a hunk before it.
    assert_eq!((near[0].line, near[0].text.as_str()), (38, "line 35"));
    let reason = patched.outcomes[2].as_ref().unwrap_err().to_string();
    assert!(reason.starts_with("the lines it changes are no longer there; most like it: line 38"));
}

#[test]
fn a_hunk_goes_where_only_the_lines_around_it_changed() {
    let diff = Diff::between("1\n2\n3\na\n4\n5\n6\n", "1\n2\n3\nb\n4\n5\n6\n", CONTEXT);
    for (now, then) in [
        ("1\n2\ntres\na\n4\n5\n6\n", "1\n2\ntres\nb\n4\n5\n6\n"),
        ("1\n2\n3\na\n4\n5\nseis\n", "1\n2\n3\nb\n4\n5\nseis\n"),
        ("0\n1\n2\na\nfour\n5\n", "0\n1\n2\nb\nfour\n5\n"),
    ] {
        let patched = apply_onto(now, &diff.hunks);
        assert_eq!((patched.text.as_str(), patched.outcomes.len()), (then, 1));
        assert!(patched.outcomes[0].is_ok());
    }
    // What it changes is gone, or there twice.
    assert!(apply_onto("1\n2\n3\nc\n4\n5\n6\n", &diff.hunks).outcomes[0].is_err());
    assert!(apply_onto("x\na\ny\n1\n2\na\n", &diff.hunks).outcomes[0].is_err());
    // Nothing tells where a new line would go.
    let new = Diff::between("1\n2\n", "1\nb\n2\n", 1);
    assert!(apply_onto("x\n2\n", &new.hunks).outcomes[0].is_err());
}

#[test]
fn a_hunk_that_could_go_to_two_places_goes_to_none() {
    let diff = Diff::between("x\na\ny\n", "x\nb\ny\n", 1);
    let current = "0\nx\na\ny\n1\nx\na\ny\n";
    let patched = apply_onto(current, &diff.hunks);
    assert_eq!(patched.text, current);
    assert_eq!(
        patched.outcomes,
        [Err(Misplaced::Ambiguous { lines: vec![2, 6] })]
    );
    let new = Diff::between("", "x\n", 3);
    assert_eq!(apply_onto("", &new.hunks).text, "x\n");
    assert!(apply_onto("y\n", &new.hunks).outcomes[0].is_err());
    let (index, reason) = apply("x\nz\ny\n", &diff.hunks).unwrap_err();
    assert!(index == 0 && matches!(reason, Misplaced::Absent { .. }));
}

/// Texts of few different lines, so that they have much in common and much moved, with all kinds
/// of line ends.
fn a_text() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec!["a\n", "b\n", "b\r\n", "\n", "(c)\n", "d\re\n", "λ\n"]);
    let last = prop::sample::select(vec!["", "", "a", "b\r", "end"]);
    (prop::collection::vec(line, 0..40), last)
        .prop_map(|(lines, last)| format!("{}{last}", lines.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn all_hunks_give_the_modified_text_and_none_the_original(
        original in a_text(), modified in a_text(), context in 0usize..4,
    ) {
        let diff = Diff::between(&original, &modified, context);
        prop_assert_eq!(&apply(&original, &diff.hunks).unwrap(), &modified);
        prop_assert_eq!(apply(&original, []).unwrap(), original.clone());
        prop_assert_eq!(diff.hunks.is_empty(), original == modified);
        if context > 0 || original.is_empty() {
            let patched = apply_onto(&original, &diff.hunks);
            prop_assert_eq!(patched.text, modified);
            prop_assert!(patched.outcomes.iter().all(Result::is_ok));
        }
        for hunk in &diff.hunks {
            prop_assert_eq!(&hunk.edited(&hunk.body()).unwrap(), hunk);
        }
    }

    /// A choice of hunks changes the chosen places and leaves the others.
    #[test]
    fn a_choice_of_hunks_keeps_the_rest(
        original in a_text(), modified in a_text(), choice in prop::collection::vec(any::<bool>(), 40),
    ) {
        let diff = Diff::between(&original, &modified, 0);
        let chosen: Vec<_> = diff.hunks.iter().zip(&choice).filter(|it| *it.1).map(|it| it.0).collect();
        let left: Vec<_> = diff.hunks.iter().zip(&choice).filter(|it| !*it.1).map(|it| it.0).collect();
        let text = apply(&original, chosen.iter().copied()).unwrap();
        let count = |change: Change, text: &str| {
            let lines = left.iter().flat_map(|hunk| &hunk.lines).filter(|it| it.change == change);
            (text.split_inclusive('\n').count(), lines.count())
        };
        let (lines, removed) = count(Change::Removed, &text);
        let (whole, added) = count(Change::Added, &modified);
        // A last line without an end joins with what would follow it, so lines may be fewer by one.
        prop_assert!((lines + added).abs_diff(whole + removed) <= 1);
        if left.is_empty() { prop_assert_eq!(text, modified); }
    }
}
