// SPDX-License-Identifier: GPL-3.0-or-later
//! A text that is half rewritten: new lines at its beginning, old ones behind them. Pure.

use similar::DiffTag;

use super::operations;

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
