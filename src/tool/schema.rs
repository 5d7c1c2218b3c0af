// SPDX-License-Identifier: GPL-3.0-or-later
//! JSON Schemas of arguments: compiled once, their defaults filled in, their problems told in the
//! words of tool calls. The schemas themselves are `json_schema`'s business.

use serde_json::{Map, Value, json};

use super::{Parameter, Presence, default};
use crate::json_schema::{Fault, Schema};
use crate::{exact, json_schema};

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
        default::fill(&self.json, &mut arguments);
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
    let names = names.join(", ");
    if known.is_empty() {
        format!("{names}: this tool takes no parameters")
    } else {
        format!("{names}: no such parameter; it takes {}", known.join(", "))
    }
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
    fn strangers_pass_or_are_refused() {
        let strict = ArgumentSchema::compile(person(), Strangers::Refused).unwrap();
        let problems = strict
            .check(json!({"name": "A", "nmae": 1}))
            .unwrap_err()
            .to_string();
        assert_eq!(
            problems,
            "nmae: no such parameter; it takes name, age, address, tags"
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
}
