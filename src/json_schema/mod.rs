// SPDX-License-Identifier: GPL-3.0-or-later
//! JSON Schema, drafts 4 to 2020-12: a schema is compiled once into keywords, and checks values with
//! exact numbers and in bounded time. Nothing is ever fetched, and `format` is taken for a remark.
//!
//! `compile` makes the keywords of a schema (`schema`), with `index` to find what references mean;
//! `check` applies them.

mod check;
mod compile;
mod decimal;
mod index;
mod pattern;
mod schema;

pub use schema::{Fault, Schema, SchemaError, ValueProblem, kind_of};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn problems(schema: &Value, value: &Value) -> Vec<String> {
        let schema = Schema::compile(schema).unwrap();
        let problems = schema.problems(value);
        problems.iter().map(ToString::to_string).collect()
    }

    fn error(schema: &Value) -> String {
        Schema::compile(schema).unwrap_err().to_string()
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let schema = json!({"properties": {
            "n": {"minimum": 1, "maximum": 2.5, "multipleOf": 0.5},
            "s": {"minLength": 2, "pattern": "^a"},
            "a": {"items": {"type": ["string", "null"]}, "maxItems": 1, "uniqueItems": true},
            "o": {"additionalProperties": false, "properties": {"x": {}, "y": {}}},
            "e": {"enum": ["red", 1]},
            "c": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["k"]}]},
        }});
        let value = json!({"n": 3.25, "s": "b", "a": [1, 1], "o": {"z": 1}, "e": "Red", "c": {}});
        assert_eq!(
            problems(&schema, &value),
            [
                "n: Field must be at most 2.5, but it is 3.25",
                "n: Field must be a multiple of 0.5, but it is 3.25",
                "s: Field must have at least 2 characters, but it has 1",
                "s: Field must match the pattern ^a",
                "a: Field must have at most 1 elements, but it has 2",
                "a: Field must have different elements, but it has 1 twice",
                "a[0]: Field must be a string or null, but it is a number",
                "a[1]: Field must be a string or null, but it is a number",
                "o: z: not allowed here, only x, y",
                "e: \"Red\" is not one of \"red\", 1",
                "c: Field must fit one of 2: (1) c: Field must be a string, but it is an object; \
                 (2) c: Missing required field: k",
            ]
        );
    }

    #[test]
    fn names_the_place_of_what_is_no_schema() {
        let wrong = json!({"properties": {"a/b": {"items": {"type": "objekt"}}}});
        let error_of_type = error(&wrong);
        assert!(
            error_of_type.starts_with("at /properties/a~1b/items/type: \"objekt\" is not a type"),
            "{error_of_type}"
        );
        for (schema, place) in [
            (json!({"minLength": -1}), "at /minLength: -1 is not a count"),
            (
                json!({"required": true}),
                "at /required: true is not an array of names",
            ),
            (
                json!({"anyOf": {}}),
                "at /anyOf: {} is not an array of schemas",
            ),
            (
                json!({"$defs": {"unused": {"not": 5}}}),
                "at /$defs/unused/not: 5 is not a schema",
            ),
            (
                json!({"pattern": "("}),
                "at /pattern: \"(\" is not a regular expression",
            ),
            (
                json!({"multipleOf": 0}),
                "at /multipleOf: 0 is not a number above 0",
            ),
            (json!({"$ref": "#/nowhere"}), "#/nowhere leads to nothing"),
            (json!({"$ref": "http://a.example/b"}), "are not fetched"),
        ] {
            let error = error(&schema);
            assert!(error.contains(place), "{error}");
        }
    }

    #[test]
    fn numbers_are_exact() {
        let schema = json!({"maximum": 9_007_199_254_740_992_i64});
        assert_eq!(
            problems(&schema, &json!(9_007_199_254_740_993_i64)).len(),
            1
        );
        assert!(problems(&json!({"multipleOf": 0.01}), &json!(19.99)).is_empty());
        assert!(problems(&json!({"const": 1.0}), &json!(1)).is_empty());
        assert!(problems(&json!({"type": "integer"}), &json!(1e30)).is_empty());
    }

    #[test]
    fn drafts_differ() {
        let pair = json!([{"type": "string"}, {"type": "number"}]);
        let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": pair});
        assert_eq!(problems(&old, &json!(["a", "b"])).len(), 1);
        assert_eq!(
            problems(&json!({"prefixItems": pair}), &json!(["a", "b"])).len(),
            1
        );
        let oldest = json!({
            "$schema": "http://json-schema.org/draft-04/schema#",
            "minimum": 0, "exclusiveMinimum": true,
        });
        assert_eq!(
            problems(&oldest, &json!(0)),
            ["Field must be more than 0, but it is 0"]
        );
    }

    #[test]
    fn work_without_end_is_a_problem() {
        let itself = json!({"$ref": "#"});
        assert_eq!(
            problems(&itself, &json!(1)),
            ["the schema refers to itself without end"]
        );
        let chain: serde_json::Map<String, Value> = (0..2000)
            .map(|n| (n.to_string(), json!({"$ref": format!("#/$defs/{}", n + 1)})))
            .chain([("2000".to_owned(), json!({}))])
            .collect();
        let chain = json!({"$ref": "#/$defs/0", "$defs": chain});
        let said = problems(&chain, &json!(1));
        assert!(said[0].contains("too much work"), "{said:?}");
        let doubling: serde_json::Map<String, Value> = (0..60)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
                (n.to_string(), json!({"allOf": [next, next]}))
            })
            .chain([("60".to_owned(), json!({}))])
            .collect();
        let doubling = json!({"$ref": "#/$defs/0", "$defs": doubling});
        let said = problems(&doubling, &json!(1));
        assert!(said[0].contains("too much work"), "{:?}", &said[..1]);
    }

    #[test]
    fn a_tree_that_refers_to_itself_may_be_deep() {
        let tree = json!({"type": "object", "properties": {"next": {"allOf": [{"$ref": "#"}]}}});
        let mut value = json!({});
        for _ in 0..120 {
            value = json!({"next": value});
        }
        assert!(problems(&tree, &value).is_empty());
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a#/$~^(\\[]{0,4}".prop_map(Value::from),
            prop::sample::select(vec!["object", "string", "#", "#/$defs/a", "a"])
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let keyword = prop::sample::select(vec![
                "type",
                "$ref",
                "$id",
                "$anchor",
                "$dynamicAnchor",
                "$dynamicRef",
                "$defs",
                "a",
                "items",
                "prefixItems",
                "contains",
                "properties",
                "patternProperties",
                "required",
                "additionalProperties",
                "unevaluatedProperties",
                "unevaluatedItems",
                "enum",
                "const",
                "allOf",
                "anyOf",
                "oneOf",
                "not",
                "if",
                "then",
                "minimum",
                "multipleOf",
                "pattern",
                "minLength",
                "uniqueItems",
                "dependentSchemas",
                "propertyNames",
            ]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((keyword, inner), 0..4).prop_map(|members| {
                    let members = members
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value));
                    Value::Object(members.collect())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_panics_and_the_same_is_said_twice(schema in json_value(), value in json_value()) {
            if let Ok(schema) = Schema::compile(&schema) {
                prop_assert_eq!(schema.problems(&value), schema.problems(&value));
            }
        }

        #[test]
        fn not_turns_it_round(schema in json_value(), value in json_value()) {
            // Work without end is a problem either way.
            prop_assume!(!schema.to_string().to_lowercase().contains("ref"));
            let not = json!({"$id": "http://a.example", "not": schema});
            if let (Ok(plain), Ok(not)) = (Schema::compile(&schema), Schema::compile(&not))
            {
                prop_assert_ne!(plain.problems(&value).is_empty(), not.problems(&value).is_empty());
            }
        }
    }
}
