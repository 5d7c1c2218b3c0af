// SPDX-License-Identifier: GPL-3.0-or-later
//! The parameters of a tool, the schema of its arguments that is made from them, and the form of schemas
//! and names that every provider takes.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The JSON type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Presence {
    Required,
    #[default]
    Optional,
}

/// One parameter of a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Parameter {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ParameterType,
    #[serde(default)]
    pub description: String,
    #[serde(skip)]
    pub presence: Presence,
    /// What else its schema says: `enum`, `items`, `properties`, `default`, `minimum`, `maximum`.
    #[serde(flatten)]
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

    /// Those that SCHEMA of a tool's arguments has, as far as their types are plain: what the user types is made a
    /// value by them.
    #[must_use]
    pub fn of_schema(schema: &Value) -> Vec<Self> {
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let properties = schema["properties"].as_object().into_iter().flatten();
        let parameter = |(name, property): (&String, &Value)| {
            let kind = ParameterType::deserialize(&property["type"]).ok()?;
            let description = property["description"].as_str().unwrap_or_default();
            let presence = match required.iter().any(|it| it == name.as_str()) {
                true => Presence::Required,
                false => Presence::Optional,
            };
            let mut parameter = Self::new(name, kind, description, presence);
            if let Some(choices @ Value::Array(_)) = property.get("enum") {
                let constraints = &mut parameter.constraints;
                constraints.insert("enum".to_owned(), choices.clone());
            }
            Some(parameter)
        };
        properties.filter_map(parameter).collect()
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

// What every provider takes: schemas in which each array says what its items are and each object what its
// properties are, and names of letters, digits, underscores and hyphens.

/// The longest name of a tool that all providers take.
pub const LONGEST_NAME: usize = 64;

/// Whether all providers take NAME as a tool's.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Whether all providers take NAME as that of a parameter.
#[must_use]
pub fn is_parameter_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// Whether SCHEMA, as far as it says, is one of objects, which arguments are.
#[must_use]
pub fn is_of_objects(schema: &Value) -> bool {
    match schema.get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(|it| it == "object"),
        Some(name) => name == "object",
    }
}

/// SCHEMA, which describes a tool's arguments, with what is missing filled in. It means the same.
#[must_use]
pub fn sendable_schema(schema: &Value) -> Value {
    let mut complete = schema.clone();
    if let Value::Object(object) = &mut complete {
        // Arguments are always an object, whatever else a schema says of them.
        if !object.get("type").is_some_and(Value::is_string) {
            object.insert("type".to_owned(), "object".into());
        }
    }
    fill(&mut complete);
    complete
}

fn fill(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    let (array, record) = (is_of(object, "array"), is_of(object, "object"));
    let empty = || Value::Object(Map::new());
    if array {
        object.entry("items").or_insert_with(empty);
    }
    if record {
        object.entry("properties").or_insert_with(empty);
    }
    for (keyword, inner) in object {
        match keyword.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                if let Value::Object(schemas) = inner {
                    schemas.values_mut().for_each(fill);
                }
            }
            "items"
            | "additionalItems"
            | "additionalProperties"
            | "prefixItems"
            | "contains"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
            | "if"
            | "then"
            | "else" => match inner {
                Value::Array(schemas) => schemas.iter_mut().for_each(fill),
                schema => fill(schema),
            },
            _ => {}
        }
    }
}

/// Whether a value that fits SCHEMA can be of TYPE, as its `type` says.
fn is_of(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_filled_in_at_every_depth() {
        assert_eq!(
            sendable_schema(&json!({})),
            json!({"type": "object", "properties": {}})
        );
        let given = json!({
            "type": "object",
            "properties": {
                "l": {"type": "array"},
                "o": {"type": ["object", "null"]},
                "type": {"type": "array", "items": {"type": "array"}, "default": {"type": "array"}},
                "either": {"anyOf": [{"type": "array"}, {"type": "string"}]},
            },
            "$defs": {"d": {"type": "object", "additionalProperties": {"type": "array"}}},
        });
        assert_eq!(
            sendable_schema(&given),
            json!({
                "type": "object",
                "properties": {
                    "l": {"type": "array", "items": {}},
                    "o": {"type": ["object", "null"], "properties": {}},
                    "type": {
                        "type": "array",
                        "items": {"type": "array", "items": {}},
                        "default": {"type": "array"},
                    },
                    "either": {"anyOf": [{"type": "array", "items": {}}, {"type": "string"}]},
                },
                "$defs": {"d": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "items": {}},
                    "properties": {},
                }},
            })
        );
    }

    #[test]
    fn names_are_of_few_characters() {
        for name in ["sayHello", "say-hello", "say_hello2", &"x".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "sp ace", "a.b", "é", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
