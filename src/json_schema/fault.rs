// SPDX-License-Identifier: GPL-3.0-or-later
//! What can be wrong with a value, in sentences that a model can act on.

use serde_json::Value;

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
