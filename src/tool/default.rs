// SPDX-License-Identifier: GPL-3.0-or-later
//! Fills in the defaults that a schema has for what arguments may leave out: in objects, in the
//! elements of arrays, through references inside the schema, and in defaults themselves. What is
//! required has to be given, whatever default it has.

use serde_json::Value;

use super::references::{DEEPEST, of_elements, with_references};

/// Puts the defaults of absent properties that are not required in place. What is there is left as it is, even where it
/// is wrong: the check comes after.
pub fn fill(schema: &Value, arguments: &mut Value) {
    Filler {
        root: schema,
        inserted: Vec::new(),
    }
    .fill(schema, arguments, 0);
}

struct Filler<'s> {
    root: &'s Value,
    /// The schemas in whose defaults the work is. One that comes again would go on for ever.
    inserted: Vec<&'s Value>,
}

impl<'s> Filler<'s> {
    fn fill(&mut self, schema: &'s Value, value: &mut Value, depth: usize) {
        if depth == DEEPEST || !matches!(value, Value::Object(_) | Value::Array(_)) {
            return;
        }
        for schema in with_references(self.root, schema) {
            self.fill_properties(schema, value, depth);
            self.fill_elements(schema, value, depth);
        }
    }

    fn fill_properties(&mut self, schema: &'s Value, value: &mut Value, depth: usize) {
        let (Some(properties), Some(object)) = (
            schema.get("properties").and_then(Value::as_object),
            value.as_object_mut(),
        ) else {
            return;
        };
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &String| required.is_some_and(|it| it.iter().any(|it| it == name));
        for (name, schema) in properties {
            if let Some(member) = object.get_mut(name) {
                self.fill(schema, member, depth + 1);
            } else if is_required(name) {
                continue;
            } else if let Some(default) = self.default_of(schema) {
                object.insert(name.clone(), default);
            }
        }
    }

    fn fill_elements(&mut self, schema: &'s Value, value: &mut Value, depth: usize) {
        let Value::Array(elements) = value else {
            return;
        };
        let (first, others) = of_elements(schema);
        for (index, element) in elements.iter_mut().enumerate() {
            if let Some(schema) = first.get(index).or(others) {
                self.fill(schema, element, depth + 1);
            }
        }
    }

    /// SCHEMA's default, if it has one, with the defaults inside it.
    fn default_of(&mut self, schema: &'s Value) -> Option<Value> {
        let schemas = with_references(self.root, schema);
        let mut default = schemas
            .iter()
            .find_map(|schema| schema.get("default"))?
            .clone();
        let innermost = *schemas.last()?;
        let again = self.inserted.iter().any(|it| std::ptr::eq(*it, innermost));
        if !again && self.inserted.len() < DEEPEST {
            self.inserted.push(innermost);
            self.fill(schema, &mut default, self.inserted.len());
            self.inserted.pop();
        }
        Some(default)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(schema: Value, mut arguments: Value) -> Value {
        fill(&schema, &mut arguments);
        arguments
    }

    #[test]
    fn elements_of_arrays_get_theirs() {
        let unit = json!({"type": "object", "properties": {"unit": {"default": "cm"}}});
        let list = json!({"properties": {"sizes": {"type": "array", "items": unit}}});
        assert_eq!(
            filled(list, json!({"sizes": [{}, {"unit": "m"}, 3]})),
            json!({"sizes": [{"unit": "cm"}, {"unit": "m"}, 3]})
        );
        let pair = |keyword: &str| json!({"properties": {"pair": {keyword: [{}, unit]}}});
        for keyword in ["items", "prefixItems"] {
            assert_eq!(
                filled(pair(keyword), json!({"pair": [{}, {}, {}]})),
                json!({"pair": [{}, {"unit": "cm"}, {}]})
            );
        }
    }

    #[test]
    fn what_is_required_is_not_filled_in() {
        let page = json!({"properties": {"size": {"default": 20}}, "required": ["size"]});
        let schema = json!({
            "properties": {"n": {"default": 1}, "m": {"default": 2}, "page": page},
            "required": ["n"],
        });
        assert_eq!(
            filled(schema, json!({"page": {}})),
            json!({"page": {}, "m": 2})
        );
    }

    #[test]
    fn references_inside_the_schema_are_followed() {
        let schema = json!({
            "$defs": {
                "a/b %": {"properties": {"city": {"default": "Pune"}}},
                "again": {"$ref": "#/$defs/a~1b%20%25"},
            },
            "properties": {
                "home": {"$ref": "#/$defs/again"},
                "work": {"$ref": "#/$defs/again", "default": {}},
                "away": {"$ref": "https://example.com/x"},
                "none": {"$ref": "#/$defs/none"},
            },
        });
        assert_eq!(
            filled(schema, json!({"home": {}, "away": {}, "none": {}})),
            json!({
                "home": {"city": "Pune"},
                "away": {},
                "none": {},
                "work": {"city": "Pune"},
            })
        );
    }

    #[test]
    fn a_default_gets_the_defaults_inside_it() {
        let schema = json!({"properties": {"page": {
            "type": "object",
            "default": {"number": 2},
            "properties": {"number": {"default": 1}, "size": {"default": 20}},
        }}});
        assert_eq!(
            filled(schema, json!({})),
            json!({"page": {"number": 2, "size": 20}})
        );
    }

    #[test]
    fn what_refers_to_itself_comes_to_an_end() {
        let looping = json!({
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            "properties": {"x": {"$ref": "#/$defs/a"}},
        });
        assert_eq!(filled(looping, json!({"x": {}})), json!({"x": {}}));
        let tree = json!({
            "$defs": {"node": {"properties": {
                "kind": {"default": "leaf"},
                "child": {"$ref": "#/$defs/node", "default": {}},
            }}},
            "$ref": "#/$defs/node",
        });
        assert_eq!(
            filled(tree, json!({})),
            json!({"kind": "leaf", "child": {"kind": "leaf", "child": {}}})
        );
        let mut deep = json!({});
        for _ in 0..1000 {
            deep = json!({"child": deep});
        }
        let endless = json!({"properties": {"child": {"$ref": "#"}, "n": {"default": 1}}});
        assert_eq!(filled(endless, deep)["child"]["child"]["n"], 1);
    }
}
