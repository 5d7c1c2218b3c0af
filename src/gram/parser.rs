// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads a gram text into its document: the reference grammar, and beyond it values that nest
//! (arrays and maps inside each other, empty arrays), which tool signatures need.

use std::collections::HashSet;

use super::lexer::{Cursor, starts_symbol};
use super::syntax::{
    Annotations, Arrow, Bracket, Datum, Direction, Document, Element, GramError, GramPath,
    GramPattern, GramRecord, Name, Node, Numeral, PathStep, Property, Span, Stroke, Subject, Value,
};

/// How deep brackets, arrays and maps may nest. A parser that calls itself needs a limit, or a
/// hostile text chooses the depth of its stack; nothing a person writes comes near this one.
pub const MAX_NESTING: usize = 100;

/// Reads TEXT as a gram document.
///
/// # Errors
///
/// Where the text first stops being gram, and what could have stood there.
pub fn parse(text: &str) -> Result<Document, GramError> {
    if let Some(offset) = text.find('\0') {
        return Err(GramError::at(text, offset, "text", "a NUL character"));
    }
    Parser {
        cursor: Cursor::new(text),
        depth: 0,
    }
    .document()
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    depth: usize,
}

impl Parser<'_> {
    fn document(mut self) -> Result<Document, GramError> {
        self.cursor.take("\u{feff}");
        self.cursor.skip_blank();
        let header = if self.cursor.peek() == b'{' {
            Some(self.record()?)
        } else {
            None
        };
        let mut patterns = Vec::new();
        loop {
            self.cursor.skip_blank();
            if self.cursor.at_end() {
                return Ok(Document { header, patterns });
            }
            patterns.push(self.pattern()?);
        }
    }

    fn pattern(&mut self) -> Result<GramPattern, GramError> {
        let annotations = self.annotations()?;
        let element = match self.cursor.peek() {
            b'[' => Element::Bracket(self.bracket()?),
            b'(' => Element::Path(self.path()?),
            _ if annotations == Annotations::default() => {
                return Err(self
                    .cursor
                    .error("a pattern, which begins with `(`, `[` or `@`"));
            }
            _ => return Err(self.cursor.error("the annotated pattern, `(` or `[`")),
        };
        Ok(GramPattern {
            annotations,
            element,
        })
    }

    fn annotations(&mut self) -> Result<Annotations, GramError> {
        let mut annotations = Annotations::default();
        if self.cursor.take("@@") {
            annotations.identity = Some(self.annotation_identity()?);
            self.cursor.skip_blank();
        }
        while self.cursor.peek() == b'@' {
            self.cursor.take("@");
            self.cursor.skip_blank();
            let Some(key) = self.cursor.symbol() else {
                return Err(self
                    .cursor
                    .error("the name of an annotation, as in `@name(value)`"));
            };
            self.expect("(", "`(` and the annotation's value")?;
            self.cursor.skip_blank();
            let value = self.value()?;
            self.expect(")", "`)` after the annotation's value")?;
            annotations.properties.insert(key.text, value);
            self.cursor.skip_blank();
        }
        Ok(annotations)
    }

    fn annotation_identity(&mut self) -> Result<Subject, GramError> {
        self.cursor.skip_blank();
        let identifier = self.cursor.identifier()?;
        self.cursor.skip_blank();
        let labels = self.labels()?;
        if identifier.is_none() && labels.is_empty() {
            return Err(self.cursor.error("an identifier or a label after `@@`"));
        }
        Ok(Subject {
            identifier,
            labels,
            record: None,
        })
    }

    fn bracket(&mut self) -> Result<Bracket, GramError> {
        let start = self.open("[")?;
        let subject = self.subject()?;
        let mut elements = Vec::new();
        if self.cursor.take("|") {
            elements.push(self.element()?);
            while self.take_next(",") {
                elements.push(self.element()?);
            }
            self.expect("]", "`,` and another element, or `]`")?;
        } else {
            self.expect("]", &missing(&subject, "`|` or `]`"))?;
        }
        Ok(Bracket {
            subject,
            elements,
            span: self.close(start),
        })
    }

    fn element(&mut self) -> Result<Element, GramError> {
        self.cursor.skip_blank();
        match self.cursor.peek() {
            b'[' => self.bracket().map(Element::Bracket),
            b'(' => self.path().map(Element::Path),
            _ => match self.cursor.identifier()? {
                Some(name) => Ok(Element::Reference(name)),
                None => Err(self.cursor.error("an element: `[`, `(` or a name")),
            },
        }
    }

    /// A path is read in a loop and kept flat, so that a long one costs no depth.
    fn path(&mut self) -> Result<GramPath, GramError> {
        let start = self.cursor.position();
        let first = self.node()?;
        let mut steps = Vec::new();
        loop {
            let end = self.cursor.position();
            self.cursor.skip_blank();
            let Some(arrow) = self.arrow()? else {
                return Ok(GramPath {
                    first,
                    steps,
                    span: start..end,
                });
            };
            self.cursor.skip_blank();
            if self.cursor.peek() != b'(' {
                return Err(self.cursor.error("the node behind the arrow, `(`"));
            }
            let node = self.node()?;
            steps.push(PathStep { arrow, node });
        }
    }

    fn node(&mut self) -> Result<Node, GramError> {
        let start = self.cursor.position();
        self.cursor.take("(");
        let subject = self.subject()?;
        self.expect(")", &missing(&subject, "`)`"))?;
        Ok(Node {
            subject,
            span: self.cursor.span(start),
        })
    }

    fn arrow(&mut self) -> Result<Option<Arrow>, GramError> {
        let start = self.cursor.position();
        let left = self.cursor.take("<");
        let (stroke, line) = match self.cursor.peek() {
            b'-' => (Stroke::Single, "-"),
            b'=' => (Stroke::Double, "="),
            b'~' => (Stroke::Squiggle, "~"),
            _ if left => return Err(self.cursor.error("`-`, `=` or `~` after `<`")),
            _ => return Ok(None),
        };
        self.cursor.take(line);
        self.cursor.skip_blank();
        let mut subject = Subject::default();
        if self.cursor.take("[") {
            subject = self.subject()?;
            self.expect("]", &missing(&subject, "`]`"))?;
        }
        self.expect(line, &format!("`{line}`, the arrow's other half"))?;
        let direction = match (left, self.cursor.take(">")) {
            (true, true) => Direction::Both,
            (true, false) => Direction::Left,
            (false, true) => Direction::Right,
            (false, false) => Direction::Neither,
        };
        Ok(Some(Arrow {
            stroke,
            direction,
            subject,
            span: self.cursor.span(start),
        }))
    }

    /// What may stand in a node, an arrow or a bracket; leaves the cursor at what follows.
    fn subject(&mut self) -> Result<Subject, GramError> {
        self.cursor.skip_blank();
        let identifier = self.cursor.identifier()?;
        self.cursor.skip_blank();
        let labels = self.labels()?;
        let record = if self.cursor.peek() == b'{' {
            Some(self.record()?)
        } else {
            None
        };
        self.cursor.skip_blank();
        Ok(Subject {
            identifier,
            labels,
            record,
        })
    }

    fn labels(&mut self) -> Result<Vec<Name>, GramError> {
        let mut labels: Vec<Name> = Vec::new();
        while self.cursor.take("::") || self.cursor.take(":") {
            self.cursor.skip_blank();
            let label = match self.cursor.symbol() {
                Some(label) => label,
                None => match self.cursor.backtick_name()? {
                    Some(label) => label,
                    None => return Err(self.cursor.error("a label, a word or a `quoted name`")),
                },
            };
            labels.push(label);
            self.cursor.skip_blank();
        }
        if labels.len() > 1 {
            let mut seen = HashSet::new();
            labels.retain(|label| seen.insert(label.text.clone()));
        }
        Ok(labels)
    }

    fn record(&mut self) -> Result<GramRecord, GramError> {
        self.map(&["::", ":"])
    }

    /// `{key SEPARATOR value, …}`: a record takes either separator, a map among the values one.
    fn map(&mut self, separators: &[&str]) -> Result<GramRecord, GramError> {
        let start = self.open("{")?;
        let mut record = GramRecord::default();
        self.cursor.skip_blank();
        if !self.cursor.take("}") {
            loop {
                self.property(separators, &mut record)?;
                if !self.take_next(",") {
                    break;
                }
            }
            self.expect("}", "`,` and another property, or `}`")?;
        }
        record.span = self.close(start);
        Ok(record)
    }

    fn property(&mut self, separators: &[&str], record: &mut GramRecord) -> Result<(), GramError> {
        self.cursor.skip_blank();
        let Some(key) = self.key()? else {
            return Err(self
                .cursor
                .error("a key: a word, a `quoted name` or a \"quoted name\""));
        };
        self.cursor.skip_blank();
        if !separators
            .iter()
            .any(|separator| self.cursor.take(separator))
        {
            return Err(self
                .cursor
                .error(format!("`:` and the value of `{}`", key.text)));
        }
        self.cursor.skip_blank();
        let value = self.value()?;
        record.properties.insert(
            key.text,
            Property {
                key_span: key.span,
                value,
            },
        );
        Ok(())
    }

    fn key(&mut self) -> Result<Option<Name>, GramError> {
        if let Some(key) = self.cursor.symbol() {
            return Ok(Some(key));
        }
        match self.cursor.backtick_name()? {
            Some(key) => Ok(Some(key)),
            None => self.cursor.quoted_name(b'"'),
        }
    }

    fn value(&mut self) -> Result<Value, GramError> {
        let start = self.cursor.position();
        let (datum, end) = match self.cursor.peek() {
            b'[' => self.array()?,
            b'{' => {
                let map = self.map(&[":"])?;
                let end = map.span.end;
                (Datum::Map(map), end)
            }
            b'`' if self.cursor.at_fence() => self.fence()?,
            b'"' | b'\'' | b'`' => {
                let text = self.cursor.string()?;
                (Datum::Text(text), self.cursor.position())
            }
            byte if starts_symbol(byte) => self.word()?,
            _ => self.number_or_range()?,
        };
        Ok(Value {
            datum,
            span: start..end,
        })
    }

    fn array(&mut self) -> Result<(Datum, usize), GramError> {
        let start = self.open("[")?;
        let mut values = Vec::new();
        self.cursor.skip_blank();
        if !self.cursor.take("]") {
            loop {
                self.cursor.skip_blank();
                values.push(self.value()?);
                if !self.take_next(",") {
                    break;
                }
            }
            self.expect("]", "`,` and another value, or `]`")?;
        }
        Ok((Datum::Array(values), self.close(start).end))
    }

    fn fence(&mut self) -> Result<(Datum, usize), GramError> {
        let fenced = self.cursor.fence()?;
        let datum = match fenced.tag {
            Some(tag) => Datum::Tagged {
                tag,
                text: fenced.text,
            },
            None => Datum::Text(fenced.text),
        };
        Ok((datum, self.cursor.position()))
    }

    /// `true`, `false`, a symbol, or the tag of a tagged string.
    fn word(&mut self) -> Result<(Datum, usize), GramError> {
        let Some(word) = self.cursor.symbol() else {
            return Err(self.cursor.error("a word"));
        };
        let end = word.span.end;
        match word.text.as_str() {
            "true" => return Ok((Datum::Boolean(true), end)),
            "false" => return Ok((Datum::Boolean(false), end)),
            _ => self.cursor.skip_blank(),
        }
        if self.cursor.peek() == b'`' {
            let text = self.cursor.string()?;
            return Ok((
                Datum::Tagged {
                    tag: word.text,
                    text,
                },
                self.cursor.position(),
            ));
        }
        Ok((Datum::Symbol(word.text), end))
    }

    fn number_or_range(&mut self) -> Result<(Datum, usize), GramError> {
        let lower = self.cursor.numeral();
        let end = self.cursor.position();
        self.cursor.skip_blank();
        let datum = match lower {
            Some(lower) if self.cursor.take("...") => Datum::Range {
                lower: Some(lower),
                upper: None,
            },
            Some(lower) if self.cursor.take("..") => Datum::Range {
                lower: Some(lower),
                upper: Some(self.range_end()?),
            },
            Some(number) => return Ok((Datum::Number(number), end)),
            None if self.cursor.take("...") => Datum::Range {
                lower: None,
                upper: Some(self.range_end()?),
            },
            None => {
                return Err(self
                    .cursor
                    .error("a value: a string, number, word, array or map"));
            }
        };
        Ok((datum, self.cursor.position()))
    }

    fn range_end(&mut self) -> Result<Numeral, GramError> {
        self.cursor.skip_blank();
        self.cursor
            .numeral()
            .ok_or_else(|| self.cursor.error("the number that ends the range"))
    }

    /// Moves over blanks and TOKEN, when it is next.
    fn take_next(&mut self, token: &str) -> bool {
        self.cursor.skip_blank();
        self.cursor.take(token)
    }

    fn expect(&mut self, token: &str, expected: &str) -> Result<(), GramError> {
        if self.take_next(token) {
            Ok(())
        } else {
            Err(self.cursor.error(expected))
        }
    }

    /// Moves over the opening TOKEN, one level deeper; gives back where it stands.
    fn open(&mut self, token: &str) -> Result<usize, GramError> {
        let start = self.cursor.position();
        if self.depth == MAX_NESTING {
            let expected = format!("at most {MAX_NESTING} levels of brackets, arrays and maps");
            let found = format!("one more `{token}`");
            return Err(GramError::at(self.cursor.source(), start, expected, found));
        }
        self.depth += 1;
        self.cursor.take(token);
        Ok(start)
    }

    fn close(&mut self, start: usize) -> Span {
        self.depth -= 1;
        self.cursor.span(start)
    }
}

/// What could have come after SUBJECT, before or instead of CLOSING.
fn missing(subject: &Subject, closing: &str) -> String {
    if subject.record.is_some() {
        closing.to_owned()
    } else if !subject.labels.is_empty() {
        format!("a label, a record or {closing}")
    } else if subject.identifier.is_some() {
        format!("`:` and a label, a record or {closing}")
    } else {
        format!("a name, a label, a record or {closing}")
    }
}
