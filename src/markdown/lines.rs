// SPDX-License-Identifier: GPL-3.0-or-later
//! The lines of a text: made ready for the parser, byte for byte as long as they were; the look of line
//! beginnings; and fences of code at the outermost level, inside which nothing is read as Markdown.

use std::ops::Range;

use super::style::Style;

/// How many quotes and lists within each other are read; what is deeper is text. Each line is read
/// once for each of them.
const DEEPEST: usize = 64;

/// TEXT with what the parser shall not see replaced by as many other bytes. Each line is changed by
/// itself, so it doesn't matter how the text is cut.
#[must_use]
pub fn readable(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for byte in &mut bytes {
        // Line ends are "\n" alone, as they are in Emacs.
        if *byte == b'\r' {
            *byte = b' ';
        }
    }
    let mut start = 0;
    while start < bytes.len() {
        let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |it| start + it);
        flatten(&mut bytes[start..end]);
        start = end + 1;
    }
    // Only ASCII was replaced, by ASCII.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Makes text of the marks of quotes and lists in LINE that are too deep.
fn flatten(line: &mut [u8]) {
    let mut depth = 0;
    let mut at = 0;
    while at < line.len() {
        let digits = line[at..]
            .iter()
            .take_while(|it| it.is_ascii_digit())
            .count();
        let mark = at + digits;
        let spaced = || matches!(line.get(mark + 1), None | Some(b' ' | b'\t'));
        match line.get(mark) {
            Some(b' ' | b'\t') if digits == 0 => {}
            Some(b'>') if digits == 0 => depth += 1,
            Some(b'-' | b'*' | b'+') if digits == 0 && spaced() => depth += 1,
            Some(b'.' | b')') if digits > 0 && spaced() => depth += 1,
            _ => return,
        }
        if depth > DEEPEST {
            line[mark] = b'x';
            return;
        }
        at = mark + 1;
    }
}

/// Whether LINE, a line of prose, looks as the lines do that Emacs draws for requests and tool calls
/// (`agent-q-approval-display.el`, `agent-q-call.el`). Such a line of a model's is marked, so that
/// nobody takes it for one. A test in Emacs Lisp has real lines of these go through here.
#[must_use]
pub fn disguised(line: &str) -> bool {
    let bare =
        line.trim_start_matches(|it: char| it.is_whitespace() || "*_~`#>|-+\\▌".contains(it));
    let mut characters = bare.chars();
    let begins = match characters.next() {
        Some('?') => matches!(characters.next(), None | Some(' ' | '*' | '_' | '`')),
        Some('▸' | '▾' | '▹' | '▿' | '►' | '▶' | '▼' | '⏵' | '⏷' | '？' | '﹖') => {
            true
        }
        // A button: one character in brackets.
        Some('[') => match (characters.next(), characters.next()) {
            (Some(key), Some(']')) => {
                // A link, or what one refers to, is none.
                !matches!(key, ' ' | 'x' | 'X')
                    && !key.is_ascii_digit()
                    && !matches!(characters.next(), Some('(' | ':'))
            }
            _ => false,
        },
        _ => false,
    };
    begins || asks(bare.trim_end()) || folded_call(line.trim())
}

/// Whether LINE has the words of a request, wherever its sign went.
fn asks(line: &str) -> bool {
    let asked = |word: &str| line.strip_prefix(word).and_then(|it| it.strip_suffix('?'));
    asked("Run ").is_some_and(|it| !it.contains(' '))
        || asked("Apply ").is_some_and(|it| it.contains(": "))
        || line.starts_with("The running code wants to ")
        || line.contains("waits for your answer")
        || line.contains("Press a key here")
        || line.starts_with("Queued: ")
        || (line.starts_with("Press ") && line.contains(" again to add this rule"))
}

/// Whether LINE is like that of a tool call in a terminal that has no better signs than + and -.
fn folded_call(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("+ ").or(line.strip_prefix("- ")) else {
        return false;
    };
    let name = rest.split(' ').next().unwrap_or_default();
    let tool = name.contains('_')
        && name
            .bytes()
            .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_');
    let ends = [" ms", " s", "ok", "...", "denied", "cancelled", "running"];
    (tool && (ends.iter().any(|it| rest.ends_with(it)) || rest.contains(" failed: ")))
        || rest.starts_with("Thought for ")
        || rest.starts_with("Thinking for ")
}

/// Whether the ticks around RANGE of TEXT, code within a line, are rather two backquotes of Lisp: "`(a ,b) and `(c ,d)".
#[must_use]
pub fn are_backquotes(text: &str, range: &Range<usize>) -> bool {
    let last = text[..range.end - 1].chars().next_back();
    let next = text[range.end..].chars().next();
    last.is_some_and(char::is_whitespace)
        && next.is_some_and(|it| it.is_alphanumeric() || "(,#'".contains(it))
}

// Fences of code at the outermost level.

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

/// The looks of LINE, the first one of a fence: its signs may be hidden, what is said of the code stays.
#[must_use]
pub fn opening_looks(line: &str, around: Style) -> [(usize, Style); 2] {
    let words = line.trim_start_matches([' ', '\t', '\r', '`', '~']);
    let fence = around.only(Style::FENCE);
    [
        // With SIGN it is told from the last line, before which no label stands.
        (
            line.len() - words.len(),
            fence.with(Style::MARKUP | Style::SIGN),
        ),
        (words.len(), fence.with(Style::SIGN)),
    ]
}

/// The look of the last line of a fence, its end included: all of it may be hidden.
#[must_use]
pub fn closing_look(around: Style) -> Style {
    around.only(Style::FENCE | Style::MARKUP)
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
