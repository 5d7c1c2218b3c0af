// SPDX-License-Identifier: GPL-3.0-or-later
//! A place in a gram text that moves on over white space, names, numbers and strings. What may
//! stand where is the parser's knowledge; here is only how each piece is spelled.

use super::syntax::{GramError, Name, Numeral, NumeralKind, Span, describe_rest};

const FENCE: &str = "```";

/// What a fence is: a text, or a text with a tag.
pub(super) struct Fenced {
    pub tag: Option<String>,
    pub text: String,
}

pub(super) struct Cursor<'a> {
    source: &'a str,
    position: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(source: &'a str) -> Self {
        Self {
            source,
            position: 0,
        }
    }

    pub fn source(&self) -> &'a str {
        self.source
    }

    pub fn position(&self) -> usize {
        self.position
    }

    pub fn rest(&self) -> &'a str {
        &self.source[self.position..]
    }

    /// The next byte; 0 at the end, which no text holds.
    pub fn peek(&self) -> u8 {
        self.byte(0)
    }

    /// The byte AHEAD of the next one.
    pub fn byte(&self, ahead: usize) -> u8 {
        self.source
            .as_bytes()
            .get(self.position + ahead)
            .copied()
            .unwrap_or(0)
    }

    pub fn at_end(&self) -> bool {
        self.position == self.source.len()
    }

    /// Moves over TOKEN when it is next.
    pub fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.position += token.len();
        }
        found
    }

    /// That EXPECTED should have stood here.
    pub fn error(&self, expected: impl Into<String>) -> GramError {
        let comment = "a comment as in `// …` or `/** … */`";
        if self.rest().starts_with("/*") {
            return GramError::at(self.source, self.position, comment, "an unfinished comment");
        }
        GramError::at(
            self.source,
            self.position,
            expected,
            describe_rest(self.rest()),
        )
    }

    /// Moves over white space and comments.
    pub fn skip_blank(&mut self) {
        loop {
            self.skip_while(|byte| byte == b' ' || (b'\t'..=b'\r').contains(&byte));
            if !self.skip_comment() {
                return;
            }
        }
    }

    /// Moves over white space and comments up to the end of the line.
    fn skip_blank_in_line(&mut self) {
        loop {
            self.skip_while(|byte| {
                byte != b'\n' && (byte == b' ' || (b'\t'..=b'\r').contains(&byte))
            });
            if !self.skip_comment() {
                return;
            }
        }
    }

    fn skip_comment(&mut self) -> bool {
        let rest = self.rest();
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(body) = rest.strip_prefix("/**") {
            let Some(end) = body.find("*/") else {
                return false;
            };
            rest.len() - body.len() + end + 2
        } else {
            return false;
        };
        self.position += length;
        true
    }

    fn skip_while(&mut self, belongs: impl Fn(u8) -> bool) -> usize {
        let rest = &self.source.as_bytes()[self.position..];
        let length = rest
            .iter()
            .position(|&byte| !belongs(byte))
            .unwrap_or(rest.len());
        self.position += length;
        length
    }

    fn slice(&self, start: usize) -> &'a str {
        &self.source[start..self.position]
    }

    /// `[A-Za-z_][0-9A-Za-z_.@-]*`, when one is next.
    pub fn symbol(&mut self) -> Option<Name> {
        let start = self.position;
        if !starts_symbol(self.peek()) {
            return None;
        }
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || b"_.-@".contains(&byte));
        Some(self.name(start, self.slice(start).to_owned()))
    }

    /// A `` `quoted name` ``, when one is next.
    pub fn backtick_name(&mut self) -> Result<Option<Name>, GramError> {
        self.quoted_name(b'`')
    }

    /// A name between two QUOTEs, when one is next.
    pub fn quoted_name(&mut self, quote: u8) -> Result<Option<Name>, GramError> {
        let start = self.position;
        if self.peek() != quote {
            return Ok(None);
        }
        let text = self.string()?;
        Ok(Some(self.name(start, text)))
    }

    fn name(&self, start: usize, text: String) -> Name {
        Name {
            text,
            span: start..self.position,
        }
    }

    /// A symbol, a `` `quoted name` `` or an integer, when one is next.
    pub fn identifier(&mut self) -> Result<Option<Name>, GramError> {
        if let Some(name) = self.symbol() {
            return Ok(Some(name));
        }
        if let Some(name) = self.backtick_name()? {
            return Ok(Some(name));
        }
        let start = self.position;
        if self.integer() {
            return Ok(Some(self.name(start, self.slice(start).to_owned())));
        }
        Ok(None)
    }

    /// Moves over `-?(0|[1-9][0-9]*)`, when one is next.
    fn integer(&mut self) -> bool {
        let sign = usize::from(self.peek() == b'-');
        if !self.byte(sign).is_ascii_digit() {
            return false;
        }
        self.position += sign;
        if self.peek() == b'0' {
            self.position += 1;
        } else {
            self.skip_while(|byte| byte.is_ascii_digit());
        }
        true
    }

    /// A number of any spelling, when one is next. The longest spelling that fits is taken, so
    /// `0xCAFE` is hexadecimal and `0xCOFFEE` a measurement.
    pub fn numeral(&mut self) -> Option<Numeral> {
        let start = self.position;
        if !self.integer() {
            return None;
        }
        let zero = self.slice(start) == "0";
        let kind = if self.peek() == b'.' && self.byte(1).is_ascii_digit() {
            self.position += 1;
            self.skip_while(|byte| byte.is_ascii_digit());
            NumeralKind::Decimal
        } else if self.peek().is_ascii_alphabetic() {
            self.hexadecimal_or_measurement(zero)
        } else if zero && self.skip_while(|byte| (b'0'..=b'7').contains(&byte)) > 0 {
            NumeralKind::Octal
        } else {
            NumeralKind::Integer
        };
        Some(Numeral {
            kind,
            text: self.slice(start).to_owned(),
        })
    }

    fn hexadecimal_or_measurement(&mut self, after_zero: bool) -> NumeralKind {
        let start = self.position;
        let unit = self.skip_while(|byte| byte.is_ascii_alphabetic());
        if after_zero && self.source.as_bytes()[start] == b'x' {
            self.position = start + 1;
            let digits = self.skip_while(|byte| byte.is_ascii_hexdigit());
            if digits > 0 && digits + 1 >= unit {
                return NumeralKind::Hexadecimal;
            }
        }
        self.position = start + unit;
        NumeralKind::Measurement
    }

    /// The content of the string that begins here with `"`, `'` or `` ` ``.
    ///
    /// White space and comments may stand between the end of a line and the closing quote; they
    /// don't belong to the content. The reference grammar reads it so.
    pub fn string(&mut self) -> Result<String, GramError> {
        let start = self.position;
        let quote = self.peek();
        self.position += 1;
        let mut text = String::new();
        loop {
            let piece = self.position;
            self.skip_while(|byte| byte != quote && byte != b'\\' && byte != b'\n');
            text.push_str(self.slice(piece));
            if self.peek() != b'\\' {
                break;
            }
            text.push(self.escape(quote)?);
        }
        self.skip_blank();
        if self.peek() != quote {
            self.position = start;
            let expected = format!("a string that ends in `{}` on its line", char::from(quote));
            return Err(GramError::at(
                self.source,
                start,
                expected,
                "one without an end",
            ));
        }
        self.position += 1;
        Ok(text)
    }

    fn escape(&mut self, quote: u8) -> Result<char, GramError> {
        let escaped = match self.byte(1) {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'/' => '/',
            b'\\' => '\\',
            byte if byte == quote => char::from(quote),
            _ => {
                let expected = format!(
                    "one of the escapes \\\\ \\{} \\b \\f \\n \\r \\t \\/",
                    char::from(quote)
                );
                let found: String = self.rest().chars().take(2).collect();
                let found = format!("`{}`", found.escape_debug());
                return Err(GramError::at(self.source, self.position, expected, found));
            }
        };
        self.position += 2;
        Ok(escaped)
    }

    pub fn at_fence(&self) -> bool {
        self.rest().starts_with(FENCE)
    }

    /// The fence that begins here: three backticks, perhaps a tag, and the lines up to the next
    /// three backticks. The last newline, and the closing fence's indentation, are not content.
    pub fn fence(&mut self) -> Result<Fenced, GramError> {
        let start = self.position;
        self.position += FENCE.len();
        self.skip_blank_in_line();
        let tag = self.symbol();
        self.skip_blank_in_line();
        if !self.take("\n") {
            return Err(self.error("the end of the line that opens a fence"));
        }
        let Some(end) = self.rest().find(FENCE) else {
            let expected = "a fence that ends in ```";
            return Err(GramError::at(
                self.source,
                start,
                expected,
                "one without an end",
            ));
        };
        let content = &self.rest()[..end];
        self.position += end + FENCE.len();
        let (lines, last) = content.rsplit_once('\n').unwrap_or(("", content));
        let closing = last.bytes().all(|byte| byte == b' ' || byte == b'\t');
        let text = if closing {
            lines.strip_suffix('\r').unwrap_or(lines)
        } else {
            content
        };
        Ok(Fenced {
            tag: tag.map(|name| name.text),
            text: text.to_owned(),
        })
    }

    /// The span from START to the last piece that was read; blanks after it don't count when the
    /// caller hasn't moved over them yet.
    pub fn span(&self, start: usize) -> Span {
        start..self.position
    }
}

pub(super) fn starts_symbol(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}
