// SPDX-License-Identifier: GPL-3.0-or-later
//! What type signatures say, as data. Readers make it, `schema` and `print` go by it, and none of them has
//! to know another.

use serde_json::{Number, Value as Json};

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
