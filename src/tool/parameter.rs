// SPDX-License-Identifier: GPL-3.0-or-later
//! The parameters of a tool, from which the schema of its arguments is made.

use serde_json::{Map, Value};

/// The JSON type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    String,
    Boolean,
    Number,
    Integer,
    Object,
    Array,
}

impl ParameterType {
    /// The type's name in JSON Schema.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Object => "object",
            Self::Array => "array",
        }
    }
}

/// Whether a call must give a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Required,
    Optional,
}

/// One parameter of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub kind: ParameterType,
    pub description: String,
    pub presence: Presence,
    /// What else its schema says: `enum`, `items`, `properties`, `default`, `minimum`, `maximum`.
    pub constraints: Map<String, Value>,
}

impl Parameter {
    #[must_use]
    pub fn required(name: &str, kind: ParameterType, description: &str) -> Self {
        Self::new(name, kind, description, Presence::Required)
    }

    #[must_use]
    pub fn optional(name: &str, kind: ParameterType, description: &str) -> Self {
        Self::new(name, kind, description, Presence::Optional)
    }

    fn new(name: &str, kind: ParameterType, description: &str, presence: Presence) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            description: description.to_owned(),
            presence,
            constraints: Map::new(),
        }
    }

    /// The same parameter, limited to these texts.
    #[must_use]
    pub fn one_of(mut self, choices: &[&str]) -> Self {
        let choices: Vec<Value> = choices.iter().map(|&choice| choice.into()).collect();
        self.constraints.insert("enum".into(), choices.into());
        self
    }

    /// The values allowed, when there are only some.
    #[must_use]
    pub fn choices(&self) -> &[Value] {
        self.constraints
            .get("enum")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    pub(super) fn schema(&self) -> Value {
        let mut schema = Map::new();
        schema.insert("type".into(), self.kind.name().into());
        if !self.description.is_empty() {
            schema.insert("description".into(), self.description.clone().into());
        }
        schema.extend(self.constraints.clone());
        Value::Object(schema)
    }
}
