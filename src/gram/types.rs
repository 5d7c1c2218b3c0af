// SPDX-License-Identifier: GPL-3.0-or-later
//! What type signatures say, as data, and the types that are written inside strings. Readers make it,
//! `schema` and `print` go by it, and none of them has to know another.

use std::collections::HashSet;

use serde_json::{Number, Value as Json};

use super::lexer::Cursor;
use super::parser::MAX_NESTING;
use super::syntax::{describe_rest, quote};

/// The parameters a tool takes, in order, and what it gives back.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeSignature {
    pub parameters: Vec<SignatureParameter>,
    pub result: SignatureResult,
}

/// How the author wrote a type that has two names, such as `String` for `Text`; of an array, the
/// innermost type. Both names mean the same, so it makes no difference between two signatures.
#[derive(Debug, Clone, Default)]
pub struct Spelling(pub(super) Option<String>);

impl PartialEq for Spelling {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Spelling {
    /// KIND's name as the author wrote it, or its own where nobody did.
    #[must_use]
    pub fn name_of(&self, kind: &ValueType) -> &str {
        match &self.0 {
            Some(word) if ValueType::named(word).as_ref() == Some(kind) => word,
            _ => kind.name(),
        }
    }
}

/// A parameter, or a field of a parameter that is an object.
#[derive(Debug, Clone, PartialEq)]
pub struct SignatureParameter {
    pub name: String,
    pub kind: ValueType,
    pub spelling: Spelling,
    pub presence: SignaturePresence,
    pub description: Option<String>,
    /// The values allowed, when there are only some.
    pub choices: Vec<Json>,
    pub minimum: Option<Number>,
    pub maximum: Option<Number>,
}

impl SignatureParameter {
    /// A required parameter of which only name and type are known.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: ValueType) -> Self {
        Self {
            name: name.into(),
            kind,
            spelling: Spelling::default(),
            presence: SignaturePresence::Required,
            description: None,
            choices: Vec::new(),
            minimum: None,
            maximum: None,
        }
    }
}

impl SignatureParameter {
    /// The same, with its type spelt WORD unless its spelling is known.
    pub(super) fn or_spelt(mut self, word: Option<String>) -> Self {
        self.spelling.0 = self.spelling.0.or(word);
        self
    }
}

/// Whether a call must give a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum SignaturePresence {
    Required,
    Optional,
    /// Optional, and this value when it isn't given.
    Default(Json),
}

/// The type of a value. `Text` and `String` are one type here, and so are `Int` and `Integer`,
/// `Double` and `Number`, `Bool` and `Boolean`.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueType {
    Text,
    Integer,
    Number,
    Boolean,
    /// An object, with its fields when they are known.
    Object(Option<Vec<SignatureParameter>>),
    /// An array, with the type of its elements when it is known.
    Array(Option<Box<ValueType>>),
}

impl ValueType {
    /// An array of ELEMENTs.
    #[must_use]
    pub fn array_of(element: Self) -> Self {
        Self::Array(Some(Box::new(element)))
    }

    /// The type that the label or type name NAME stands for.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "Text" | "String" => Self::Text,
            "Int" | "Integer" => Self::Integer,
            "Double" | "Number" => Self::Number,
            "Bool" | "Boolean" => Self::Boolean,
            "Object" => Self::Object(None),
            "Array" => Self::Array(None),
            _ => return None,
        })
    }

    /// How many levels of objects and arrays the type has.
    pub(super) fn nesting(&self) -> usize {
        match self {
            Self::Object(Some(fields)) => {
                1 + fields
                    .iter()
                    .map(|field| field.kind.nesting())
                    .max()
                    .unwrap_or(0)
            }
            Self::Array(Some(element)) => 1 + element.nesting(),
            _ => 0,
        }
    }

    /// The type's own name, the contract's where there are two.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Text => "Text",
            Self::Integer => "Int",
            Self::Number => "Double",
            Self::Boolean => "Bool",
            Self::Object(_) => "Object",
            Self::Array(_) => "Array",
        }
    }
}

/// What a tool gives back. It never reaches the tool's schema.
#[derive(Debug, Clone, PartialEq)]
pub struct SignatureResult {
    pub kind: ValueType,
    pub spelling: Spelling,
    pub name: Option<String>,
    pub description: Option<String>,
}

// The types that are written inside strings, in `type:` and `elementType:`: a type name, `[T]`,
// `{field: T}`, and `Maybe T` for a field that may be missing. Gram itself has no place for them.

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
            describe_rest(self.cursor.rest()),
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
