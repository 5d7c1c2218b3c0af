// SPDX-License-Identifier: GPL-3.0-or-later
//! Fences of code at the outermost level. What is inside of one is never read as Markdown.

/// A fence that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    sign: u8,
    length: usize,
    pub indent: usize,
    /// The first word behind the opening signs, the language by custom.
    pub language: String,
}

impl Fence {
    /// The fence that LINE, which has no line end, opens.
    #[must_use]
    pub fn opened_by(line: &str) -> Option<Self> {
        let (indent, rest) = indented(line)?;
        let sign = *rest.as_bytes().first()?;
        if sign != b'`' && sign != b'~' {
            return None;
        }
        let length = run_of(sign, rest);
        let words = &rest[length..];
        if length < 3 || (sign == b'`' && words.contains('`')) {
            return None;
        }
        let language = language(words);
        Some(Self {
            sign,
            length,
            indent,
            language,
        })
    }

    /// Whether LINE closes it. The parser takes no tab behind the signs.
    #[must_use]
    pub fn closed_by(&self, line: &str) -> bool {
        indented(line).is_some_and(|(_, rest)| {
            let length = run_of(self.sign, rest);
            length >= self.length && rest[length..].trim_matches([' ', '\r']).is_empty()
        })
    }

    /// How many bytes at the beginning of LINE are indentation of the fence and not code.
    #[must_use]
    pub fn gutter(&self, line: &str) -> usize {
        line.bytes()
            .take(self.indent)
            // The parser gets a blank for each carriage return.
            .take_while(|it| matches!(it, b' ' | b'\r'))
            .count()
    }
}

/// The language in WORDS, what stands behind the signs of a fence.
#[must_use]
pub fn language(words: &str) -> String {
    let first = words.split_whitespace().next().unwrap_or_default();
    let name = first.trim_start_matches(['{', '.']);
    let end = name.find([',', '{', '}', ':']).unwrap_or(name.len());
    name[..end].chars().take(40).collect()
}

/// The number of blanks before LINE, and the rest, where those are few enough.
fn indented(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches(' ');
    let indent = line.len() - rest.len();
    (indent <= 3).then_some((indent, rest))
}

fn run_of(sign: u8, text: &str) -> usize {
    text.bytes().take_while(|it| *it == sign).count()
}
