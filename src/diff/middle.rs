// SPDX-License-Identifier: GPL-3.0-or-later
//! The one part in which two texts differ, for changing no more than that in a buffer.

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

#[cfg(test)]
mod tests {
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
}
