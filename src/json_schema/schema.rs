// SPDX-License-Identifier: GPL-3.0-or-later
//! A compiled schema as data: each node is a schema, its keywords refer to others by number, so that
//! schemas may refer to themselves. And what can be wrong with a schema or with a value.

use std::collections::HashMap;

use serde_json::Value;

use super::decimal::Decimal;
use super::pattern::SchemaPattern;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(pub(super) usize);

/// The number of a part of the schema that has an identifier of its own, or of the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ResourceId(pub(super) usize);

/// One schema. The keywords that ask what the others looked at are last.
#[derive(Debug)]
pub(super) struct SchemaNode {
    pub(super) resource: ResourceId,
    pub(super) keywords: Vec<Keyword>,
}

/// What a resource has to offer to references that are resolved while a value is checked.
#[derive(Debug, Default)]
pub(super) struct Resource {
    pub(super) dynamic_anchors: HashMap<String, NodeId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Number,
    Integer,
    String,
    Array,
    Object,
}

/// A value that others are compared with.
#[derive(Debug)]
pub(super) struct Constant {
    pub(super) shown: String,
    pub(super) canonical: String,
}

/// Where a number, a length or a count has to be.
#[derive(Debug)]
pub(super) enum Bound<T> {
    AtLeast(T),
    AtMost(T),
    Above(T),
    Below(T),
}

/// A schema for other members or elements than those that were named.
#[derive(Debug, Clone, Copy)]
pub(super) enum Others {
    Forbidden,
    Fit(NodeId),
}

#[derive(Debug)]
pub(super) enum Keyword {
    /// The schema `false`.
    Never,
    Types(Vec<Type>),
    /// `enum`, or `const` with one.
    OneOfConstants(Vec<Constant>),
    Number(Bound<Decimal>),
    MultipleOf(Decimal),
    Length(Bound<u64>),
    Pattern(SchemaPattern),
    ElementCount(Bound<u64>),
    DifferentElements,
    Elements {
        first: Vec<NodeId>,
        others: Option<Others>,
    },
    Contains {
        element: NodeId,
        at_least: u64,
        at_most: Option<u64>,
    },
    MemberCount(Bound<u64>),
    Required(Vec<String>),
    Members {
        named: Vec<(String, NodeId)>,
        patterns: Vec<(SchemaPattern, NodeId)>,
        others: Option<Others>,
    },
    MemberNames(NodeId),
    /// Where there is such a member, these have to be there, too.
    RequiredWith(String, Vec<String>),
    /// Where there is such a member, this has to fit.
    FitWith(String, NodeId),
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf(Vec<NodeId>),
    Not(NodeId),
    Conditional {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    Reference(NodeId),
    /// To the outermost schema that was entered and has ANCHOR; FALLBACK has it.
    DynamicReference {
        anchor: String,
        fallback: NodeId,
    },
    /// To the schema of schemas: the value has to be one.
    SchemaItself,
    OtherElements(Others),
    OtherMembers(Others),
}

impl Type {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "number" => Self::Number,
            "integer" => Self::Integer,
            "string" => Self::String,
            "array" => Self::Array,
            "object" => Self::Object,
            _ => return None,
        })
    }

    pub(super) fn with_article(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Integer => "an integer",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) resources: Vec<Resource>,
    pub(super) root: NodeId,
    pub(super) evaluated: Evaluated,
}

/// Whether anything asks which members and elements other keywords have looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evaluated {
    Asked,
    Unasked,
}

/// Why something is no usable schema, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(pointer))]
pub struct SchemaError {
    /// A JSON pointer into the schema; empty for all of it.
    pub pointer: String,
    pub message: String,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() {
        String::new()
    } else {
        format!("at {pointer}: ")
    }
}

// What can be wrong with a value, in sentences that a model can act on.

/// One thing that is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueProblem {
    /// Where, such as `address.city` or `items[2]`; empty for the value as a whole.
    pub path: String,
    pub fault: Fault,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("Missing required field: {0}")]
    Missing(String),
    /// Members that the schema does not allow, and those that it knows.
    #[error("{}", unexpected(names, known))]
    Unexpected {
        names: Vec<String>,
        known: Vec<String>,
    },
    #[error("Field must be {expected}, but it is {found}")]
    Type {
        expected: String,
        found: &'static str,
    },
    /// It fits none of several schemas; why not, of each.
    #[error("Field must fit one of {}: {}", .0.len(), alternatives(.0))]
    NoAlternative(Vec<Vec<ValueProblem>>),
    /// Anything else, in a sentence.
    #[error("{0}")]
    Other(String),
}

impl std::fmt::Display for ValueProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        self.fault.fmt(formatter)
    }
}

/// The type of VALUE as it is said in a sentence.
#[must_use]
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn unexpected(names: &[String], known: &[String]) -> String {
    let names = names.join(", ");
    if known.is_empty() {
        format!("{names}: not allowed here")
    } else {
        format!("{names}: not allowed here, only {}", known.join(", "))
    }
}

fn alternatives(alternatives: &[Vec<ValueProblem>]) -> String {
    let first: Vec<String> = alternatives
        .iter()
        .enumerate()
        .filter_map(|(index, problems)| Some(format!("({}) {}", index + 1, problems.first()?)))
        .collect();
    first.join("; ")
}
