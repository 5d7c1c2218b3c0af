// SPDX-License-Identifier: GPL-3.0-or-later
//! Replacing a text that stands exactly once, and inserting at a line: what changes, and what a
//! model reads when it can't be done.

use agent_q_core::diff::{EditError, insert_at_line, near_matches, replace_unique};
use proptest::prelude::*;

fn replaced(text: &str, old: &str, new: &str) -> Result<String, String> {
    replace_unique(text, old, new)
        .map(|edited| edited.text)
        .map_err(|error| error.to_string())
}

#[test]
fn the_one_place_is_replaced_exactly() {
    assert_eq!(replaced("a foo b", "foo", "bar"), Ok("a bar b".into()));
    assert_eq!(
        replaced("#\\newline \\\\1\t$0", "\\\\1", "$1\\0"),
        Ok("#\\newline $1\\0\t$0".into())
    );
    assert_eq!(replaced("aaa", "aa", "b"), Ok("ba".into()));
    assert_eq!(replace_unique("a\nb\nfoo\n", "foo", "x").unwrap().line, 3);
    assert_eq!(replaced("one\n", "one\n", ""), Ok(String::new()));
}

#[test]
fn plain_line_ends_stand_for_those_of_the_text() {
    let text = "(a\r\n b)\r\nc\r\n";
    assert_eq!(
        replaced(text, "(a\n b)", "(x\n y)"),
        Ok("(x\r\n y)\r\nc\r\n".into())
    );
    assert_eq!(
        replaced(text, "(a\r\n b)", "(x)"),
        Ok("(x)\r\nc\r\n".into())
    );
    assert_eq!(
        replaced(text, "c", "d\ne"),
        Ok("(a\r\n b)\r\nd\r\ne\r\n".into())
    );
    assert_eq!(
        replaced("a\r\nb\r\nc\n", "a\nb", "x\ny"),
        Ok("x\r\ny\r\nc\n".into())
    );
}

#[test]
fn what_can_not_be_replaced_is_explained() {
    assert!(replaced("a", "", "b").unwrap_err().contains("is empty"));
    assert!(
        replaced("a", "a", "a")
            .unwrap_err()
            .contains("nothing would change")
    );
    assert_eq!(
        replaced("foo\nfoo foo\n", "foo", "x").unwrap_err(),
        "Found 3 matches for the text to replace (lines 1, 2, 2); include more of the lines around the one that is meant."
    );
    let many = "x\n".repeat(20);
    assert!(
        replaced(&many, "x", "y")
            .unwrap_err()
            .contains("Found 20 matches")
    );
    assert!(replaced(&many, "x", "y").unwrap_err().contains("9, 10, …)"));
    assert_eq!(
        replaced("", "gone", "x").unwrap_err(),
        "The text to replace was not found. Read the file again and give the text exactly, including white space."
    );
}

#[test]
fn near_places_are_named_with_their_lines() {
    let text = "(defun area (w h)\n  (* w h))\n\n(defun perimeter (w h)\n\t(+ w h))\n";
    let error = replaced(text, "(defun area (w h)\n    (* w h))", "x").unwrap_err();
    assert!(
        error.contains("; the same but for white space: line 1: (defun area (w h)."),
        "{error}"
    );
    let error = replaced(text, "(defun perimetre (w h)", "x").unwrap_err();
    assert!(
        error.contains("; most like it: line 4: (defun perimeter (w h)"),
        "{error}"
    );
    let near = near_matches(text, "\n(defun perimeter (a b)\n  (+ a b))\n");
    assert_eq!(near[0].line, 4);
    assert!(near_matches(text, "something quite different").is_empty());
    assert!(near_matches(text, " \n\n").is_empty());
}

#[test]
fn lines_are_inserted_where_they_are_asked_for() {
    let inserted = |text: &str, content: &str, line: i64| {
        insert_at_line(text, content, line).map(|edited| edited.text)
    };
    let text = "first\nsecond\nthird\n";
    assert_eq!(inserted(text, "X", 0).unwrap(), "X\nfirst\nsecond\nthird\n");
    assert_eq!(
        inserted(text, "X\n", 2).unwrap(),
        "first\nsecond\nX\nthird\n"
    );
    assert_eq!(
        inserted(text, "X", -1).unwrap(),
        "first\nsecond\nthird\nX\n"
    );
    assert_eq!(inserted("a\nb\n", "X", -1).unwrap(), "a\nb\nX\n");
    assert_eq!(inserted("a\nb", "X", -1).unwrap(), "a\nb\nX");
    assert_eq!(inserted("a\nb", "X\n", 2).unwrap(), "a\nb\nX\n");
    assert_eq!(inserted("a\nb", "X", 1).unwrap(), "a\nX\nb");
    assert_eq!(inserted("", "X", 0).unwrap(), "X\n");
    assert_eq!(inserted("", "X", -1).unwrap(), "X\n");
    assert_eq!(
        inserted("a\r\nb\r\n", "X\nY", 1).unwrap(),
        "a\r\nX\r\nY\r\nb\r\n"
    );
    assert_eq!(inserted("a\nb\n", "", 1).unwrap(), "a\n\nb\n");
    for line in [3, 10, -2] {
        let error = insert_at_line("a\nb\n", "X", line).unwrap_err();
        assert_eq!(error, EditError::NoSuchLine { line, lines: 2 });
        assert!(
            error
                .to_string()
                .starts_with(&format!("Line {line} does not exist"))
        );
    }
}

proptest! {
    /// Everything but the one place stays, byte for byte.
    #[test]
    fn the_rest_stays(before in "[a-z\n\\\\]{0,40}", after in "[a-z\n\\\\]{0,40}", new in "[A-Z\n]{0,10}") {
        let text = format!("{before}(OLD){after}");
        prop_assert_eq!(replaced(&text, "(OLD)", &new), Ok(format!("{before}{new}{after}")));
    }

    /// Inserted lines stand as lines of their own, and taking them out gives the text again.
    #[test]
    fn inserted_lines_can_be_taken_out(lines in prop::collection::vec("[a-z]{0,5}", 1..10), at in 0usize..10) {
        let at = at.min(lines.len());
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let edited = insert_at_line(&text, "NEW", i64::try_from(at).unwrap()).unwrap();
        let mut now: Vec<&str> = edited.text.lines().collect();
        prop_assert_eq!(now.remove(edited.line - 1), "NEW");
        prop_assert_eq!(now, lines);
    }
}
