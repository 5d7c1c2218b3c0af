// SPDX-License-Identifier: GPL-3.0-or-later
//! What is wrong with a gram text: where, what was expected there, and what stood there instead.
//! Every reader of this module fails with it, the grammar's and the meaning's alike.

/// The longest piece of the text that a message quotes, in characters.
const LONGEST_QUOTE: usize = 24;

/// A gram text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct GramError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What could have stood there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

impl GramError {
    /// The error at the byte OFFSET of SOURCE.
    #[must_use]
    pub fn at(
        source: &str,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// The beginning of REST as a message shows it: a word, a character, or the end of the text.
pub(super) fn describe(rest: &str) -> String {
    let Some(first) = rest.chars().next() else {
        return "the end of the text".to_owned();
    };
    if first == '\n' {
        return "the end of the line".to_owned();
    }
    let word: String = rest
        .chars()
        .take_while(|&c| c.is_alphanumeric() || matches!(c, '_' | '.'))
        .take(LONGEST_QUOTE)
        .collect();
    if word.is_empty() {
        format!("`{}`", first.escape_debug())
    } else {
        format!("`{word}`")
    }
}

/// TEXT as a message quotes it, shortened.
pub(super) fn quote(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST_QUOTE).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
