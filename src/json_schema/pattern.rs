// SPDX-License-Identifier: GPL-3.0-or-later
//! Regular expressions as JSON Schema means them, those of ECMAScript, in the syntax of the crate
//! that matches them. Look-around and references back are understood, and give up where they would
//! take for ever.

use fancy_regex::Regex;

/// A compiled `pattern`, or a name of `patternProperties`.
#[derive(Debug)]
pub(super) struct SchemaPattern {
    /// As the schema has it.
    pub(super) source: String,
    regex: Regex,
}

/// How a text and a pattern get on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Found,
    Absent,
    /// It took too many steps to know.
    GaveUp,
}

impl SchemaPattern {
    /// # Errors
    ///
    /// A sentence on what is wrong with SOURCE.
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        let regex = Regex::new(&translated(source))
            .map_err(|error| format!("{source:?} is not a regular expression: {error}"))?;
        Ok(Self {
            source: source.to_owned(),
            regex,
        })
    }

    pub(super) fn find_in(&self, text: &str) -> Match {
        match self.regex.is_match(text) {
            Ok(true) => Match::Found,
            Ok(false) => Match::Absent,
            Err(_) => Match::GaveUp,
        }
    }
}

/// SOURCE with what ECMAScript writes in another way: its classes are of ASCII, and a bracket
/// within brackets is itself.
fn translated(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut inside_class = false;
    let mut rest = source.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => escape(&mut rest, &mut out),
            '[' if inside_class => out.push_str("\\["),
            '[' => {
                inside_class = true;
                out.push('[');
                if rest.as_str().starts_with('^') {
                    rest.next();
                    out.push('^');
                }
                // Nothing, or anything: the brackets of ECMAScript may be empty.
                if rest.as_str().starts_with(']') {
                    let any = out.ends_with('^');
                    out.truncate(out.len() - if any { 2 } else { 1 });
                    out.push_str(if any { "[\\s\\S]" } else { "[^\\s\\S]" });
                    rest.next();
                    inside_class = false;
                }
            }
            ']' if inside_class => {
                inside_class = false;
                out.push(']');
            }
            // Two of them are operators of sets.
            '&' | '~' if inside_class => {
                out.push('\\');
                out.push(character);
            }
            _ => out.push(character),
        }
    }
    out
}

/// Writes to OUT what follows a backslash in REST.
fn escape(rest: &mut std::str::Chars<'_>, out: &mut String) {
    let Some(character) = rest.next() else {
        out.push('\\');
        return;
    };
    match character {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[A-Za-z0-9_]"),
        'W' => out.push_str("[^A-Za-z0-9_]"),
        's' => out.push_str("[\\s\\x{FEFF}]"),
        'S' => out.push_str("[^\\s\\x{FEFF}]"),
        'c' if rest
            .as_str()
            .starts_with(|next: char| next.is_ascii_alphabetic()) =>
        {
            let letter = rest.next().map_or(0, |letter| letter as u32 % 32);
            out.push_str(&format!("\\x{{{letter:X}}}"));
        }
        'u' => unicode(rest, out),
        '0' => out.push_str("\\x{0}"),
        '/' | '-' | '"' | '\'' | ' ' | '@' | '%' | ':' | ';' | ',' | '=' | '!' | '<' | '>'
        | '_' => {
            out.push_str(&regex_literal(character));
        }
        _ => {
            out.push('\\');
            out.push(character);
        }
    }
}

fn regex_literal(character: char) -> String {
    fancy_regex::escape(&character.to_string()).into_owned()
}

/// `\u1F432`'s four digits, or the two halves of a character beyond them.
fn unicode(rest: &mut std::str::Chars<'_>, out: &mut String) {
    fn four(text: &str) -> Option<u32> {
        text.get(..4)
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
    }
    let Some(first) = four(rest.as_str()) else {
        out.push_str("\\u");
        return;
    };
    *rest = rest.as_str()[4..].chars();
    let second = rest.as_str().strip_prefix("\\u").and_then(four);
    let code = match (first, second) {
        (0xD800..=0xDBFF, Some(second @ 0xDC00..=0xDFFF)) => {
            *rest = rest.as_str()[6..].chars();
            0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        }
        _ => first,
    };
    out.push_str(&format!("\\x{{{code:X}}}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        SchemaPattern::compile(pattern).unwrap().find_in(text) == Match::Found
    }

    #[test]
    fn means_what_ecmascript_means() {
        assert!(matches(r"^\d+$", "42") && !matches(r"^\d$", "\u{0967}"));
        assert!(matches(r"^\w$", "_") && !matches(r"^\w$", "é"));
        assert!(matches(r"^[\w-]+$", "a-b") && matches(r"^[^\W]$", "a"));
        assert!(matches(r"^\S$", "é") && matches(r"^\s$", "\u{FEFF}"));
        assert!(matches(r"^\cJ$", "\n") && matches(r"^\u0041$", "A"));
        assert!(matches(r"^\uD83D\uDC32$", "🐲"));
        assert!(matches(r"^[[&&a]+$", "[&a") && matches(r"^\/\-$", "/-"));
        assert!(matches("^[^]$", "\n") && !matches("[]", "a"));
        assert!(!matches("^a$", "a\n"));
    }

    #[test]
    fn looks_around_but_not_for_ever() {
        assert!(matches("^(?!ba).*$", "abc") && !matches("^(?!ba).*$", "bac"));
        let slow = SchemaPattern::compile(r"^(a|a)*(?=b)\1$").unwrap();
        assert_eq!(slow.find_in(&"a".repeat(64)), Match::GaveUp);
    }

    #[test]
    fn says_what_is_no_pattern() {
        let error = SchemaPattern::compile("(").unwrap_err();
        assert!(error.contains("is not a regular expression"), "{error}");
    }
}
