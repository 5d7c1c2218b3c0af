// SPDX-License-Identifier: GPL-3.0-or-later
//! JSON Schemas of arguments: compiled once, their defaults filled in, their problems told in the words of
//! tool calls. The schemas themselves are `json_schema`'s business.

use serde_json::{Map, Value, json};

use super::{Parameter, Presence};
use crate::exact;
use crate::json_schema::{self, Fault, Schema};

/// A schema ready to check arguments against.
#[derive(Debug)]
pub struct ArgumentSchema {
    /// The schema as it was given; this is what providers get.
    pub json: Value,
    compiled: Schema,
}

/// Why something is no usable schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid JSON Schema: {0}")]
pub struct ArgumentSchemaError(String);

/// One thing that is wrong with arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", prefix(path))]
pub struct ArgumentProblem {
    /// Where, such as `address.city` or `items[2]`; empty for the arguments as a whole.
    pub path: String,
    pub message: String,
}

/// Everything that is wrong with arguments; prints one problem a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct ArgumentProblems(pub Vec<ArgumentProblem>);

/// Whether members that a schema does not name may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strangers {
    /// As the schema says; JSON Schema's own rule lets them pass.
    AsTheSchemaSays,
    /// They are mistakes, usually a misspelt parameter.
    Refused,
}

/// The schema of the arguments that PARAMETERS describe.
#[must_use]
pub fn of_parameters(parameters: &[Parameter]) -> Value {
    let properties: Map<String, Value> = parameters
        .iter()
        .map(|parameter| (parameter.name.clone(), parameter.schema()))
        .collect();
    let required: Vec<&str> = parameters
        .iter()
        .filter(|parameter| parameter.presence == Presence::Required)
        .map(|parameter| parameter.name.as_str())
        .collect();
    json!({"type": "object", "properties": properties, "required": required})
}

impl ArgumentSchema {
    /// Compiles JSON, a schema of draft 4, 6, 7, 2019-09 or (without a `$schema`) 2020-12.
    ///
    /// # Errors
    ///
    /// When it is not a valid schema, or refers to something that would have to be fetched.
    pub fn compile(json: Value, strangers: Strangers) -> Result<Self, ArgumentSchemaError> {
        if !json.is_object() {
            return Err(ArgumentSchemaError("Schema must be an object".to_owned()));
        }
        let strict;
        let checked = match strangers {
            Strangers::AsTheSchemaSays => &json,
            Strangers::Refused => {
                strict = without_strangers(&json);
                &strict
            }
        };
        let compiled =
            Schema::compile(checked).map_err(|error| ArgumentSchemaError(error.to_string()))?;
        Ok(Self { json, compiled })
    }

    /// ARGUMENTS with defaults filled in, if they fit.
    ///
    /// # Errors
    ///
    /// Every problem, with its path.
    pub fn check(&self, mut arguments: Value) -> Result<Map<String, Value>, ArgumentProblems> {
        fill_defaults(&self.json, &mut arguments);
        self.check_given(arguments)
    }

    /// ARGUMENTS as they are, if they fit.
    ///
    /// # Errors
    ///
    /// Every problem, with its path.
    pub fn check_given(&self, arguments: Value) -> Result<Map<String, Value>, ArgumentProblems> {
        let found = self.compiled.problems(&arguments).into_iter();
        let problems: Vec<ArgumentProblem> = found.map(problem).collect();
        match arguments {
            Value::Object(arguments) if problems.is_empty() => Ok(arguments),
            Value::Object(_) => Err(ArgumentProblems(problems)),
            _ => Err(ArgumentProblems(vec![ArgumentProblem {
                path: String::new(),
                message: "Arguments must be an object".to_owned(),
            }])),
        }
    }
}

/// Checks ARGUMENTS against SCHEMA, both JSON text, for callers that have no tool.
///
/// # Errors
///
/// Everything that is wrong, a line each.
pub fn check_text(schema: &str, arguments: &str) -> Result<String, String> {
    let schema = exact::schema(schema)?;
    let given = arguments;
    let arguments = serde_json::from_str(given)
        .map_err(|error| format!("The arguments are not JSON: {error}"))?;
    if let Some(problems) = exact::problems(given) {
        return Err(problems.to_string());
    }
    ArgumentSchema::compile(schema, Strangers::AsTheSchemaSays)
        .map_err(|error| error.to_string())?
        .check(arguments)
        .map(|checked| Value::Object(checked).to_string())
        .map_err(|problems| problems.to_string())
}

/// Why the JSON text is no usable schema; none when it is one.
#[must_use]
pub fn problem_of_text(schema: &str) -> Option<String> {
    match exact::schema(schema) {
        Ok(schema) => ArgumentSchema::compile(schema, Strangers::AsTheSchemaSays)
            .err()
            .map(|error| error.to_string()),
        Err(problem) => Some(problem),
    }
}

fn without_strangers(schema: &Value) -> Value {
    let mut strict = schema.clone();
    if let Some(object) = strict.as_object_mut() {
        object
            .entry("additionalProperties")
            .or_insert(Value::Bool(false));
    }
    strict
}

/// PROBLEM in the words of tool calls, whose arguments as a whole are parameters.
fn problem(problem: json_schema::ValueProblem) -> ArgumentProblem {
    let message = match problem.fault {
        Fault::Missing(name) if problem.path.is_empty() => {
            format!("Missing required field: {name} (required parameter '{name}' missing)")
        }
        Fault::Unexpected { names, known } if problem.path.is_empty() => unknown(&names, &known),
        fault => fault.to_string(),
    };
    ArgumentProblem {
        path: problem.path,
        message,
    }
}

fn unknown(names: &[String], known: &[String]) -> String {
    let shown = names.join(", ");
    if known.is_empty() {
        return format!("{shown}: this tool takes no parameters");
    }
    let meant: Vec<&str> = names.iter().filter_map(|it| nearest(it, known)).collect();
    let known = known.join(", ");
    match meant.is_empty() {
        true => format!("{shown}: no such parameter; it takes {known}"),
        false => format!(
            "{shown}: no such parameter. Did you mean {}? It takes {known}",
            meant.join(", ")
        ),
    }
}

/// How alike two names have to be for one to be suggested for the other.
const SUGGESTION_LIKENESS: f64 = 0.85;

/// The one of KNOWN that NAME, which is none of them, seems to mean: it shares a word with it, such as
/// `old_text` for `old_str`, or looks like it.
fn nearest<'k>(name: &str, known: &'k [String]) -> Option<&'k str> {
    let name = name.to_lowercase().replace('-', "_");
    let likeness = |it: &str| {
        let is_shared = |word: &str| word.len() > 2 && it.split('_').any(|other| other == word);
        let shared = f64::from(u8::from(name.split('_').any(is_shared)));
        shared + strsim::jaro_winkler(it, &name)
    };
    known
        .iter()
        .map(|it| (likeness(it), it.as_str()))
        .filter(|(likeness, _)| *likeness >= SUGGESTION_LIKENESS)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, it)| it)
}

fn prefix(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    }
}

fn lines(problems: &[ArgumentProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

// Fills in the defaults that a schema has for arguments that may be left out: in objects, in the elements
// of arrays, through references inside the schema, and in defaults themselves. Required ones have to be
// given, even if they have a default.

/// Puts the defaults of absent properties that are not required in place. What is there is left as it is, even where it
/// is wrong: the check comes after.
fn fill_defaults(schema: &Value, arguments: &mut Value) {
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

// Ways through a JSON Schema beside its arguments: references inside the schema, and the schemas of an
// array's elements.

/// How deep arguments are gone into, and how many references may lead to one another.
pub const DEEPEST: usize = 64;

/// SCHEMA, a part of ROOT, and what it refers to inside of that.
pub fn with_references<'s>(root: &'s Value, mut schema: &'s Value) -> Vec<&'s Value> {
    let mut all = vec![schema];
    while let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
        let target = pointer
            .strip_prefix('#')
            .and_then(|path| root.pointer(&unescaped(path)));
        match target {
            Some(target) if !all.iter().any(|it| std::ptr::eq(*it, target)) => {
                all.push(target);
                schema = target;
            }
            _ => break,
        }
    }
    all
}

/// The schemas that SCHEMA has for the first elements of an array, and the one for the others.
/// Draft 7 has those of the first elements in `items` too, 2020-12 beside it.
pub(super) fn of_elements(schema: &Value) -> (&[Value], Option<&Value>) {
    match (schema.get("prefixItems"), schema.get("items")) {
        (_, Some(Value::Array(first))) => (first.as_slice(), schema.get("additionalItems")),
        (Some(Value::Array(first)), items) => (first.as_slice(), items),
        (_, items) => (&[], items),
    }
}

/// A reference is part of an address, where some characters are written as `%25`.
fn unescaped(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'%')
            .then(|| std::str::from_utf8(after.get(..2)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, arguments: Value) -> Result<Value, String> {
        ArgumentSchema::compile(schema, Strangers::AsTheSchemaSays)
            .unwrap()
            .check(arguments)
            .map(Value::Object)
            .map_err(|problems| problems.to_string())
    }

    fn person() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "age": {"type": "integer", "minimum": 0},
                "address": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string"},
                        "country": {"type": "string", "default": "IN"},
                    },
                    "required": ["city"],
                },
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["name"],
        })
    }

    #[test]
    fn names_every_problem_with_its_path() {
        let wrong = json!({"age": 1.5, "address": {}, "tags": ["a", 2]});
        let problems = check(person(), wrong).unwrap_err();
        let mut lines: Vec<&str> = problems.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "Missing required field: name (required parameter 'name' missing)",
                "address: Missing required field: city",
                "age: Field must be an integer, but it is a number",
                "tags[1]: Field must be a string, but it is a number",
            ]
        );
    }

    #[test]
    fn fills_defaults_and_changes_nothing_else() {
        let given = json!({"name": "A", "age": 1.0, "address": {"city": "P"}, "more": null});
        assert_eq!(
            check(person(), given).unwrap(),
            json!({
                "name": "A",
                "age": 1.0,
                "address": {"city": "P", "country": "IN"},
                "more": null,
            })
        );
    }

    #[test]
    fn a_stranger_is_told_whom_it_resembles() {
        let known = ["path", "name", "old_text", "new_source"].map(str::to_owned);
        for (name, meant) in [
            ("old_str", Some("old_text")),
            ("new_str", Some("new_source")),
            ("file-path", Some("path")),
            ("Nmae", Some("name")),
            ("seconds", None),
        ] {
            assert_eq!(nearest(name, &known), meant, "{name}");
        }
    }

    #[test]
    fn strangers_pass_or_are_refused() {
        let strict = ArgumentSchema::compile(person(), Strangers::Refused).unwrap();
        let problems = strict
            .check(json!({"name": "A", "nmae": 1}))
            .unwrap_err()
            .to_string();
        assert_eq!(
            problems,
            "nmae: no such parameter. Did you mean name? It takes name, age, address, tags"
        );
        assert_eq!(strict.json.get("additionalProperties"), None);
    }

    #[test]
    fn no_reference_is_fetched() {
        let remote = json!({"$ref": "https://example.com/schema.json"});
        let error = ArgumentSchema::compile(remote, Strangers::AsTheSchemaSays).unwrap_err();
        assert!(error.to_string().contains("not fetched"), "{error}");
    }

    #[test]
    fn both_drafts_are_understood() {
        let draft_7 = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]}},
        });
        assert!(check(draft_7, json!({"pair": ["a", "b"]})).is_err());
        let draft_2020 = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}},
        });
        assert!(check(draft_2020, json!({"pair": ["a", "b"]})).is_err());
    }

    #[test]
    fn says_what_is_wrong_with_a_schema() {
        assert_eq!(problem_of_text(r#"{"type": "object"}"#), None);
        let problem = problem_of_text(r#"{"type": "objekt"}"#).unwrap();
        assert!(problem.contains("objekt"), "{problem}");
        assert!(problem_of_text("{").unwrap().contains("not JSON"));
    }

    #[test]
    fn arguments_must_be_an_object() {
        assert_eq!(
            check(json!({}), json!([])).unwrap_err(),
            "Arguments must be an object"
        );
        assert!(ArgumentSchema::compile(json!(true), Strangers::Refused).is_err());
    }

    fn filled(schema: Value, mut arguments: Value) -> Value {
        fill_defaults(&schema, &mut arguments);
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
