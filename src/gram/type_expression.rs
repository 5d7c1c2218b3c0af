// SPDX-License-Identifier: GPL-3.0-or-later
//! The types that are written inside strings, in `type:` and `elementType:`: a type name, `[T]`,
//! `{field: T}`, and `Maybe T` for a field that may be missing. Gram itself has no place for them.

use std::collections::HashSet;

use super::error::{describe, quote};
use super::lexer::Cursor;
use super::parser::MAX_NESTING;
use super::types::{SignatureParameter, SignaturePresence, ValueType};

const A_TYPE: &str = "a type: Text, Int, Double, Bool, Object, Array, [T], {field: T} or Maybe T";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TypeExpression {
    Plain(ValueType),
    Maybe(ValueType),
}

/// What is wrong with a type expression, and at which byte of it.
#[derive(Debug)]
pub(super) struct TypeError {
    pub offset: usize,
    pub expected: String,
    pub found: String,
}

/// The type that TEXT writes, and how its innermost part is spelt.
pub(super) fn parse_type(text: &str) -> Result<(TypeExpression, Option<String>), TypeError> {
    let mut reader = TypeReader {
        cursor: Cursor::new(text),
        depth: 0,
        word: None,
    };
    let expression = reader.expression()?;
    reader.cursor.skip_blank();
    if !reader.cursor.at_end() {
        return Err(reader.error("the end of the type"));
    }
    Ok((expression, reader.word))
}

struct TypeReader<'a> {
    cursor: Cursor<'a>,
    depth: usize,
    /// The last type name that was read.
    word: Option<String>,
}

impl TypeReader<'_> {
    fn error(&self, expected: &str) -> TypeError {
        self.error_at(
            self.cursor.position(),
            expected,
            describe(self.cursor.rest()),
        )
    }

    fn error_at(&self, offset: usize, expected: &str, found: String) -> TypeError {
        TypeError {
            offset,
            expected: expected.to_owned(),
            found,
        }
    }

    fn expression(&mut self) -> Result<TypeExpression, TypeError> {
        self.cursor.skip_blank();
        let start = self.cursor.position();
        if let Some(word) = self.cursor.symbol() {
            if word.text == "Maybe" {
                return self
                    .plain("the type that may be missing")
                    .map(TypeExpression::Maybe);
            }
            let Some(kind) = ValueType::named(&word.text) else {
                return Err(self.error_at(start, A_TYPE, quote(&word.text)));
            };
            self.word = Some(word.text);
            return Ok(TypeExpression::Plain(kind));
        }
        if self.depth == MAX_NESTING {
            return Err(self.error(&format!("at most {MAX_NESTING} levels of types")));
        }
        self.depth += 1;
        let kind = match self.cursor.peek() {
            b'[' => self.array()?,
            b'{' => self.object()?,
            _ => return Err(self.error(A_TYPE)),
        };
        self.depth -= 1;
        Ok(TypeExpression::Plain(kind))
    }

    /// A type that isn't Maybe; WHAT it is for.
    fn plain(&mut self, what: &str) -> Result<ValueType, TypeError> {
        self.cursor.skip_blank();
        let start = self.cursor.position();
        match self.expression()? {
            TypeExpression::Plain(kind) => Ok(kind),
            TypeExpression::Maybe(_) => Err(self.error_at(
                start,
                &format!("{what}, without Maybe"),
                "a Maybe".to_owned(),
            )),
        }
    }

    fn array(&mut self) -> Result<ValueType, TypeError> {
        self.cursor.take("[");
        let element = self.plain("the type of every element")?;
        self.expect("]")?;
        Ok(ValueType::array_of(element))
    }

    fn object(&mut self) -> Result<ValueType, TypeError> {
        self.cursor.take("{");
        let mut fields: Vec<SignatureParameter> = Vec::new();
        let mut names = HashSet::new();
        self.cursor.skip_blank();
        if self.cursor.take("}") {
            return Ok(ValueType::Object(Some(fields)));
        }
        loop {
            self.cursor.skip_blank();
            let Some(name) = self.cursor.symbol() else {
                return Err(self.error("the name of a field"));
            };
            if !names.insert(name.text.clone()) {
                let found = format!("a second `{}`", name.text);
                return Err(self.error_at(name.span.start, "field names that are unique", found));
            }
            self.expect(":")?;
            fields.push(self.field(name.text)?);
            self.cursor.skip_blank();
            if !self.cursor.take(",") {
                break;
            }
        }
        self.expect("}")?;
        Ok(ValueType::Object(Some(fields)))
    }

    fn field(&mut self, name: String) -> Result<SignatureParameter, TypeError> {
        let (kind, presence) = match self.expression()? {
            TypeExpression::Plain(kind) => (kind, SignaturePresence::Required),
            TypeExpression::Maybe(kind) => (kind, SignaturePresence::Optional),
        };
        let field = SignatureParameter {
            presence,
            ..SignatureParameter::new(name, kind)
        };
        Ok(field.or_spelt(self.word.take()))
    }

    fn expect(&mut self, token: &str) -> Result<(), TypeError> {
        self.cursor.skip_blank();
        if self.cursor.take(token) {
            Ok(())
        } else {
            Err(self.error(&format!("`{token}`")))
        }
    }
}
