// SPDX-License-Identifier: GPL-3.0-or-later
//! Where formulas of TeX are in a text, between `$` and `$`, `$$` and `$$`, `\(` and `\)`, `\[` and `\]`.
//! Prices, variables of shells and regular expressions aren't. A formula never reaches over what begins a
//! block for the parser, so whether it is seen doesn't change what the blocks are.

use std::borrow::Cow;
use std::ops::Range;

use super::drawing::draw;

/// More bytes than a formula has.
const LONGEST: usize = 4000;

/// A formula with its delimiters, and what it looks like where all of it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formula {
    pub range: Range<usize>,
    pub drawn: Option<String>,
}

/// The formulas of TEXT, in order.
#[must_use]
pub fn formulas(text: &str) -> Vec<Formula> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'$', b'\\', &text.as_bytes()[from..]) {
        let start = from + at;
        if let Some(formula) = begun_at(text, start) {
            from = formula.range.end;
            found.push(formula);
        } else {
            // What is behind a backslash begins nothing, and neither does the second of two dollars.
            from = start
                + match &text.as_bytes()[start..] {
                    [b'\\', next, ..] if next.is_ascii() => 2,
                    [b'$', b'$', ..] => 2,
                    _ => 1,
                };
        }
    }
    found
}

/// TEXT in which FORMULAS are words for the parser, each as long as it was.
#[must_use]
pub fn masked<'t>(text: &'t str, formulas: &[Formula]) -> Cow<'t, str> {
    if formulas.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut bytes = text.as_bytes().to_vec();
    for formula in formulas {
        for byte in &mut bytes[formula.range.clone()] {
            if byte.is_ascii_graphic() {
                *byte = b'x';
            }
        }
    }
    // Only ASCII was replaced, by ASCII.
    Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned()))
}

fn begun_at(text: &str, start: usize) -> Option<Formula> {
    let rest = &text[start..];
    let (open, close) = [("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$")]
        .into_iter()
        .find(|it| rest.starts_with(it.0))?;
    if !may_precede(&text[..start]) {
        return None;
    }
    let inside = start + open.len();
    let content = content(&text[inside..], close)?;
    let end = inside + content.len() + close.len();
    let next = text[end..].chars().next();
    let meant = match open {
        "$" => {
            !next.is_some_and(|it| it.is_ascii_alphanumeric() || it == '$')
                && is_between_dollars(content)
        }
        _ => is_between_pairs(content, open),
    };
    meant.then(|| Formula {
        range: start..end,
        drawn: draw(content),
    })
}

/// Whether a formula may begin behind BEFORE: not within a word, an address or what was escaped.
fn may_precede(before: &str) -> bool {
    before
        .chars()
        .next_back()
        .is_none_or(|it| it.is_whitespace() || !it.is_ascii() || "\"'([{*_|>-,;:".contains(it))
        && !before.ends_with("](")
}

/// The part of REST before CLOSE, if no block can begin in it.
fn content<'t>(rest: &'t str, close: &str) -> Option<&'t str> {
    let mut end = LONGEST.min(rest.len());
    while !rest.is_char_boundary(end) {
        end -= 1;
    }
    let window = &rest[..end];
    let mut from = 0;
    loop {
        let at = from + window[from..].find(close)?;
        if close != "$" || !is_escaped(&window[..at]) {
            let content = &window[..at];
            return (!content.contains('`') && lines_are_inside(content)).then_some(content);
        }
        from = at + 1;
    }
}

fn is_escaped(before: &str) -> bool {
    let backslashes = before.bytes().rev().take_while(|it| *it == b'\\').count();
    backslashes % 2 == 1
}

/// Whether each line of CONTENT behind the first one continues a paragraph.
fn lines_are_inside(content: &str) -> bool {
    let mut lines = content.split('\n').skip(1).peekable();
    while let Some(line) = lines.next() {
        // Behind the last line end, the closing delimiter follows.
        let closes = lines.peek().is_none() && line.trim().is_empty();
        if !closes && begins_block(line.trim()) {
            return false;
        }
    }
    true
}

/// Whether BARE, a line without blanks around it, may begin or end a block.
fn begins_block(bare: &str) -> bool {
    let mark = bare.trim_start_matches(|it: char| it.is_ascii_digit());
    let item = if mark.len() < bare.len() {
        mark.starts_with(['.', ')'])
    } else {
        mark.starts_with(['-', '+', '*'])
    };
    let spaced = mark
        .get(1..)
        .is_none_or(|it| it.is_empty() || it.starts_with([' ', '\t']));
    (item && spaced)
        || bare.starts_with(['#', '>', '<', '|', '~'])
        || bare.chars().all(|it| "-_*=:| \t".contains(it))
}

/// Whether CONTENT, what stands between two single dollars, is meant as a formula.
fn is_between_dollars(content: &str) -> bool {
    let tight =
        !content.starts_with(char::is_whitespace) && !content.ends_with(char::is_whitespace);
    if content.is_empty() || !tight || content.contains('\n') {
        return false;
    }
    if has_command(content) {
        return true;
    }
    let letters = longest_word(content);
    // "$(pwd)" is of a shell.
    if content.starts_with('(') && letters > 1 {
        return false;
    }
    let loose = content.starts_with([')', ']', ',']) || content.ends_with(['(', '[', ',']);
    if loose || content.contains('"') || !content.contains(char::is_alphanumeric) {
        return false;
    }
    let equation = is_equation(content);
    if content.starts_with(|it: char| it.is_ascii_digit()) {
        return letters < 3 && equation;
    }
    let sign = content.contains(['+', '-', '(', ',', '|']) && !content.contains('_');
    letters < 4 && (equation || sign || letters > 0 && content.chars().count() <= 2)
}

/// Whether CONTENT, what stands between the delimiters OPEN and its counterpart, is meant as a formula.
/// In Markdown, they may also be brackets that are shown.
fn is_between_pairs(content: &str, open: &str) -> bool {
    let alternatives = content.matches("\\|").count() % 2 == 1;
    let regexp = [".*", ".+", "]*", "]+", "[^"];
    if !content.contains(char::is_alphanumeric)
        || alternatives
        || regexp.iter().any(|it| content.contains(it))
        || (open == "\\(" && content.contains('\n'))
    {
        return false;
    }
    let bracket = open == "\\[" && !content.contains('\n');
    let sign = content.contains(['+', '(', '/', '|']) || content.trim().chars().count() == 1;
    has_command(content) || longest_word(content) < 4 && (is_equation(content) || sign && !bracket)
}

/// Whether CONTENT has relations or scripts, of which none is a word, as in `foo_bar`: TeX would take its
/// first letter.
fn is_equation(content: &str) -> bool {
    let long = |(at, _): (usize, &str)| {
        let letters = content.as_bytes()[at + 1..].iter();
        letters.take_while(|it| it.is_ascii_alphabetic()).count() > 1
    };
    let scripts = ['^', '_'];
    content.contains(['=', '<', '>']) && !content.contains('_')
        || content.contains(scripts) && !content.match_indices(scripts).any(long)
}

/// Whether CONTENT has a command such as `\alpha`; those of one letter are of strings.
fn has_command(content: &str) -> bool {
    content.match_indices('\\').any(|(at, _)| {
        let rest = &content.as_bytes()[at + 1..];
        rest.first().is_some_and(|it| b"{,;|".contains(it))
            || rest
                .iter()
                .take_while(|it| it.is_ascii_alphabetic())
                .count()
                > 1
    })
}

fn longest_word(content: &str) -> usize {
    content
        .split(|it: char| !it.is_alphabetic())
        .map(|it| it.chars().count())
        .max()
        .unwrap_or(0)
}
