// SPDX-License-Identifier: GPL-3.0-or-later
//! The JSON schema of a type signature: what a model is told of a tool's parameters, and what a
//! call's arguments are checked against. The return type is not in it.

use serde_json::{Map, Value as Json, json};

use super::error::GramError;
use super::signature::parse_type_signature;
use super::types::{SignatureParameter, SignaturePresence, TypeSignature, ValueType};

/// The JSON schema of the signature that TEXT writes.
///
/// # Errors
///
/// As [`parse_type_signature`].
pub fn type_signature_to_json_schema(text: &str) -> Result<Json, GramError> {
    parse_type_signature(text).map(|signature| signature.json_schema())
}

impl TypeSignature {
    /// `{"type": "object", "properties": {…}, "required": […]}`, in the order of the parameters;
    /// `required` is there even when it is empty.
    #[must_use]
    pub fn json_schema(&self) -> Json {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        insert_fields(&mut schema, &self.parameters);
        Json::Object(schema)
    }
}

fn insert_fields(schema: &mut Map<String, Json>, fields: &[SignatureParameter]) {
    let properties: Map<String, Json> = fields
        .iter()
        .map(|field| (field.name.clone(), parameter_schema(field)))
        .collect();
    let required: Vec<&str> = fields
        .iter()
        .filter(|field| field.presence == SignaturePresence::Required)
        .map(|field| field.name.as_str())
        .collect();
    schema.insert("properties".to_owned(), Json::Object(properties));
    schema.insert("required".to_owned(), json!(required));
}

fn parameter_schema(parameter: &SignatureParameter) -> Json {
    let mut schema = Map::new();
    insert_type(&mut schema, &parameter.kind);
    if let Some(description) = &parameter.description {
        schema.insert("description".to_owned(), description.as_str().into());
    }
    if !parameter.choices.is_empty() {
        schema.insert("enum".to_owned(), parameter.choices.clone().into());
    }
    if let SignaturePresence::Default(value) = &parameter.presence {
        schema.insert("default".to_owned(), value.clone());
    }
    let limits = [
        ("minimum", &parameter.minimum),
        ("maximum", &parameter.maximum),
    ];
    for (key, limit) in limits {
        if let Some(limit) = limit {
            schema.insert(key.to_owned(), limit.clone().into());
        }
    }
    Json::Object(schema)
}

fn insert_type(schema: &mut Map<String, Json>, kind: &ValueType) {
    let name = match kind {
        ValueType::Text => "string",
        ValueType::Integer => "integer",
        ValueType::Number => "number",
        ValueType::Boolean => "boolean",
        ValueType::Object(_) => "object",
        ValueType::Array(_) => "array",
    };
    schema.insert("type".to_owned(), name.into());
    match kind {
        ValueType::Object(Some(fields)) => insert_fields(schema, fields),
        ValueType::Array(Some(element)) => {
            let mut items = Map::new();
            insert_type(&mut items, element);
            schema.insert("items".to_owned(), Json::Object(items));
        }
        _ => {}
    }
}
