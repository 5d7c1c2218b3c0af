// SPDX-License-Identifier: GPL-3.0-or-later
//! A type signature as JSON: the schema, which tells a model the parameters of a tool and which a call's
//! arguments are checked against (without the return type), and an outline of its parts.

use serde_json::{Map, Value as Json, json};

use super::signature::parse_type_signature;
use super::syntax::GramError;
use super::types::{SignatureParameter, SignaturePresence, Spelling, TypeSignature, ValueType};

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

// The outline, for programs that look at the parts of a signature: names, types, what is optional.

impl TypeSignature {
    /// `{"parameters": [{"name", "type", "optional", …}], "return": TYPE}`, each type under the
    /// name that the author wrote.
    #[must_use]
    pub fn outline(&self) -> Json {
        let parameters: Vec<Json> = self.parameters.iter().map(parameter).collect();
        let result = self.result.spelling.name_of(&self.result.kind);
        json!({"parameters": parameters, "return": result})
    }
}

fn parameter(parameter: &SignatureParameter) -> Json {
    let mut outline = Map::new();
    outline.insert("name".into(), parameter.name.clone().into());
    let kind = parameter.spelling.name_of(&parameter.kind);
    outline.insert("type".into(), kind.into());
    outline.insert(
        "optional".into(),
        (parameter.presence != SignaturePresence::Required).into(),
    );
    if let SignaturePresence::Default(default) = &parameter.presence {
        outline.insert("default".into(), default.clone());
    }
    if let Some(description) = &parameter.description {
        outline.insert("description".into(), description.clone().into());
    }
    if !parameter.choices.is_empty() {
        outline.insert("enum".into(), parameter.choices.clone().into());
    }
    for (key, limit) in [
        ("minimum", &parameter.minimum),
        ("maximum", &parameter.maximum),
    ] {
        if let Some(limit) = limit {
            outline.insert(key.into(), Json::Number(limit.clone()));
        }
    }
    inner_parts(&parameter.kind, &parameter.spelling, &mut outline);
    Json::Object(outline)
}

/// The fields of an object and the elements of an array. Types nest no deeper than gram does.
fn inner_parts(kind: &ValueType, spelling: &Spelling, outline: &mut Map<String, Json>) {
    match kind {
        ValueType::Object(Some(fields)) => {
            let fields: Vec<Json> = fields.iter().map(parameter).collect();
            outline.insert("fields".into(), fields.into());
        }
        ValueType::Array(Some(element)) => {
            let mut inner = Map::new();
            inner.insert("type".into(), spelling.name_of(element).into());
            inner_parts(element, spelling, &mut inner);
            outline.insert("element".into(), Json::Object(inner));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gram::parse_type_signature;

    #[test]
    fn shows_the_parts_of_a_signature() {
        let signature = parse_type_signature(
            r#"(::Text {paramName:"name", description:"Who"})==>(::Array {paramName:"tags", elementType:"Text", optional:true})==>(::String)"#,
        )
        .unwrap();
        assert_eq!(
            signature.outline(),
            json!({
                "parameters": [
                    {"name": "name", "type": "Text", "optional": false, "description": "Who"},
                    {"name": "tags", "type": "Array", "optional": true, "element": {"type": "Text"}},
                ],
                "return": "String",
            })
        );
    }

    #[test]
    fn types_have_the_names_that_the_author_wrote() {
        let outline = |text: &str| parse_type_signature(text).unwrap().outline();
        for name in [
            "Text", "String", "Int", "Integer", "Double", "Number", "Bool", "Boolean",
        ] {
            let outline = outline(&format!(
                r#"(a::{name})==>(::Array {{paramName:"b", elementType:"[{name}]"}})==>(::Object {{paramName:"c", fields:[{{name:"d", type:"Maybe {name}"}}, {{name:"e", type:"{{f: {name}}}"}}]}})==>(::{name})"#
            ));
            let parameters = &outline["parameters"];
            assert_eq!(parameters[0]["type"], name);
            assert_eq!(parameters[1]["type"], "Array");
            assert_eq!(parameters[1]["element"]["type"], "Array");
            assert_eq!(parameters[1]["element"]["element"]["type"], name);
            assert_eq!(parameters[2]["type"], "Object");
            assert_eq!(parameters[2]["fields"][0]["type"], name);
            assert_eq!(parameters[2]["fields"][1]["type"], "Object");
            assert_eq!(parameters[2]["fields"][1]["fields"][0]["type"], name);
            assert_eq!(outline["return"], name);
        }
        // Gram's own cases B1 and C1.
        assert_eq!(outline("()==>(::String)")["return"], "String");
        let hello = outline(r#"(personName::String {default:"world"})==>(::String)"#);
        assert_eq!(hello["parameters"][0]["type"], "String");
    }
}
