// SPDX-License-Identifier: GPL-3.0-or-later
//! The arguments of one tool call, checked against the tool's schema and read by name. Those that models
//! write in another way than the schema has are made into that where nothing is lost.

use serde_json::{Map, Value};

use super::schema::{DEEPEST, of_elements, with_references};
use crate::exact;

/// Arguments that fit their tool's schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Only for arguments that have been checked; see `Tool::check`.
    #[must_use]
    pub fn new(checked: Map<String, Value>) -> Self {
        Self(checked)
    }

    /// The text of a string parameter.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// The text of a required string parameter; the check has made sure that it is there.
    #[must_use]
    pub fn required_text(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// Whether a boolean parameter is given and true.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// JSON Schema counts 1.0 as an integer, and models write it.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i64> {
        let number = self.0.get(name)?.as_number()?;
        number.as_i64().or_else(|| {
            number
                .as_f64()
                .filter(|value| value.fract() == 0.0 && value.abs() < 9e15)
                .map(|value| value as i64)
        })
    }

    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(Value::as_f64)
    }

    /// The same with TEXT for the parameter NAME.
    #[must_use]
    pub fn with_text(&self, name: &str, text: &str) -> Self {
        let mut arguments = self.clone();
        arguments.0.insert(name.to_owned(), text.into());
        arguments
    }

    /// The arguments as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

// Conversions: "5" and 5.0 are 5 where an integer is wanted, a list may come as JSON text, and `all-matches`
// is `all_matches`.

/// The whole numbers that a float holds exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// ARGUMENTS with the names that SCHEMA has. What is no parameter in kebab-case, but one in snake_case,
/// is that one, unless it is given as well; the check complains of the rest. Only for schemas that
/// refuse what they don't name: elsewhere, what looks like another name can be something of its own.
pub fn rename(schema: &Value, arguments: Map<String, Value>) -> Map<String, Value> {
    let known = schema.get("properties").and_then(Value::as_object);
    let meant = |name: &str, given: &Map<String, Value>| {
        let snake = name.replace('-', "_");
        let known = known?;
        let is_alias =
            !known.contains_key(name) && known.contains_key(&snake) && !given.contains_key(&snake);
        is_alias.then_some(snake)
    };
    if !arguments.keys().any(|name| name.contains('-')) {
        return arguments;
    }
    let mut renamed = Map::new();
    for (name, value) in &arguments {
        let name = match meant(name, &arguments) {
            // Of two ways to write one name, the second is refused as the stranger that it is.
            Some(snake) if !renamed.contains_key(&snake) => snake,
            _ => name.clone(),
        };
        renamed.insert(name, value.clone());
    }
    renamed
}

/// Converts what is of another type in ARGUMENTS than SCHEMA has. What can't be converted stays as it
/// is, for the check to complain of.
pub fn convert(schema: &Value, arguments: &mut Value) {
    within(schema, schema, arguments, 0);
}

fn within(root: &Value, schema: &Value, value: &mut Value, depth: usize) {
    if depth == DEEPEST {
        return;
    }
    for schema in with_references(root, schema) {
        if let Some(converted) = converted(schema, value) {
            *value = converted;
        }
        match value {
            Value::Object(members) => {
                let schemas = schema.get("properties").and_then(Value::as_object);
                for (name, schema) in schemas.into_iter().flatten() {
                    if let Some(member) = members.get_mut(name) {
                        within(root, schema, member, depth + 1);
                    }
                }
            }
            Value::Array(elements) => {
                let (first, others) = of_elements(schema);
                for (index, element) in elements.iter_mut().enumerate() {
                    if let Some(schema) = first.get(index).or(others) {
                        within(root, schema, element, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }
}

/// VALUE in a type that SCHEMA has, if it is not of one and can be made so.
fn converted(schema: &Value, value: &Value) -> Option<Value> {
    let types = types(schema)?;
    match value {
        Value::String(text) if !types.contains(&"string") => {
            let found = read(text)?;
            let found = whole(&types, &found).unwrap_or(found);
            types
                .iter()
                .any(|kind| is_of(&found, kind))
                .then_some(found)
        }
        Value::Number(_) => whole(&types, value),
        _ => None,
    }
}

/// The types that SCHEMA names; nothing where it doesn't say, or lists the values themselves.
fn types(schema: &Value) -> Option<Vec<&str>> {
    if schema.get("enum").is_some() || schema.get("const").is_some() {
        return None;
    }
    match schema.get("type") {
        Some(Value::String(kind)) => Some(vec![kind]),
        Some(Value::Array(kinds)) => kinds.iter().map(Value::as_str).collect(),
        Some(_) => None,
        None => {
            let choices = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
            let types: Option<Vec<_>> = choices.as_array()?.iter().map(types).collect();
            Some(types?.concat())
        }
    }
}

/// What TEXT holds as JSON. A boolean may be in any case, as in Python.
fn read(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
        return Some(Value::Bool(text.eq_ignore_ascii_case("true")));
    }
    let found = serde_json::from_str(text).ok()?;
    exact::problems(text).is_none().then_some(found)
}

/// VALUE, a whole number that is written as a float, as an integer, where TYPES want that.
fn whole(types: &[&str], value: &Value) -> Option<Value> {
    if !types.contains(&"integer") || types.contains(&"number") || !value.is_f64() {
        return None;
    }
    let number = value.as_f64()?;
    (number.fract() == 0.0 && number.abs() < EXACT).then(|| Value::from(number as i64))
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_whole_number_is_an_integer_however_it_is_written() {
        let Value::Object(given) = json!({"a": 2.0, "b": 3, "c": 1.5}) else {
            unreachable!()
        };
        let arguments = Arguments::new(given);
        assert_eq!(arguments.integer("a"), Some(2));
        assert_eq!(arguments.integer("b"), Some(3));
        assert_eq!(arguments.integer("c"), None);
    }

    fn converted(schema: Value, value: Value) -> Value {
        let mut arguments = json!({"it": value});
        convert(&json!({"properties": {"it": schema}}), &mut arguments);
        arguments["it"].take()
    }

    fn of(kind: &str) -> Value {
        json!({"type": kind})
    }

    #[test]
    fn names_in_kebab_case_are_those_in_snake_case() {
        let schema = json!({"properties": {
            "all_matches": {}, "a_b_c": {}, "own-name": {}, "both-ways": {}, "both_ways": {},
        }});
        let renamed = |given: Value| match given {
            Value::Object(given) => Value::Object(rename(&schema, given)).to_string(),
            other => panic!("{other}"),
        };
        assert_eq!(
            renamed(json!({"a-b-c": 1, "x": 2, "all-matches": 3})),
            r#"{"a_b_c":1,"x":2,"all_matches":3}"#
        );
        for unchanged in [
            json!({"own-name": 1, "no-such": 2}),
            json!({"own_name": 1}),
            json!({"both-ways": 1}),
            json!({"both-ways": 1, "both_ways": 2}),
            json!({"all-matches": 1, "all_matches": 2}),
            json!({"a_b-c": 1, "a_b_c": 2}),
        ] {
            assert_eq!(renamed(unchanged.clone()), unchanged.to_string());
        }
        assert_eq!(
            renamed(json!({"a-b_c": 1, "a_b-c": 2})),
            r#"{"a_b_c":1,"a_b-c":2}"#
        );
    }

    #[test]
    fn numbers_and_booleans_may_be_texts() {
        assert_eq!(converted(of("integer"), json!(" 5 ")), json!(5));
        assert_eq!(converted(of("integer"), json!("5.0")), json!(5));
        assert_eq!(converted(of("integer"), json!(5.0)).to_string(), "5");
        assert_eq!(converted(of("number"), json!("-1.5e2")), json!(-150.0));
        assert_eq!(converted(of("boolean"), json!("true")), json!(true));
        assert_eq!(converted(of("boolean"), json!("False")), json!(false));
    }

    #[test]
    fn lists_and_objects_may_be_texts_with_texts_in_them() {
        let numbers = json!({"type": "array", "items": {"type": "integer"}});
        assert_eq!(
            converted(numbers, json!("[1, \"2\", 3.0]")),
            json!([1, 2, 3])
        );
        let page = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        assert_eq!(
            converted(page, json!("{\"size\": \"7\"}")),
            json!({"size": 7})
        );
    }

    #[test]
    fn what_would_lose_anything_stays() {
        for (schema, value) in [
            (of("integer"), json!("five")),
            (of("integer"), json!("1.5")),
            (of("integer"), json!(1.5)),
            (of("integer"), json!("99999999999999999999")),
            (of("integer"), json!(1e300)),
            (of("integer"), json!("")),
            (of("number"), json!("0x10")),
            (of("number"), json!("NaN")),
            (of("boolean"), json!("yes")),
            (of("boolean"), json!(1)),
            (of("array"), json!("a, b")),
            (of("array"), json!("{}")),
            (of("object"), json!("[1]")),
            (of("string"), json!("5")),
            (of("string"), json!(5)),
            (json!({"type": ["integer", "string"]}), json!("5")),
            (json!({"enum": ["1", 1]}), json!("1")),
            (json!({}), json!("5")),
        ] {
            assert_eq!(converted(schema.clone(), value.clone()), value, "{schema}");
        }
        assert_eq!(converted(of("number"), json!(5.0)).to_string(), "5.0");
    }

    #[test]
    fn a_choice_of_types_and_references_count() {
        let optional = json!({"anyOf": [{"type": "integer"}, {"type": "null"}]});
        assert_eq!(converted(optional, json!("5")), json!(5));
        let schema = json!({
            "$defs": {"size": {"type": "integer"}},
            "properties": {"it": {"$ref": "#/$defs/size"}},
        });
        let mut arguments = json!({"it": "5"});
        convert(&schema, &mut arguments);
        assert_eq!(arguments, json!({"it": 5}));
    }
}
