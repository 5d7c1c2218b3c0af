// SPDX-License-Identifier: GPL-3.0-or-later
//! A signature as plain JSON, for those who want to look at its parts: names, types, what is
//! optional. The schema (`schema`) says what arguments must look like.

use serde_json::{Map, Value as Json, json};

use super::types::{SignatureParameter, SignaturePresence, Spelling, TypeSignature, ValueType};

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
