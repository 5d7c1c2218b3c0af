// SPDX-License-Identifier: GPL-3.0-or-later
//! The arguments of one tool call: validated against the tool's parameters, then read by name.
//! Validation says everything that is wrong at once, so that a model can mend it in one go.

use serde_json::{Map, Number, Value};

use super::{Parameter, ParameterType, Presence, ToolFailure};

/// Arguments that fit their tool's parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Checks ARGUMENTS against PARAMETERS.
    ///
    /// A `null` for an optional parameter counts as absent, which is how several models spell it.
    ///
    /// # Errors
    ///
    /// Every problem, one sentence each: a missing required parameter, an unknown one, a value of
    /// the wrong type or outside the choices.
    pub fn check(
        parameters: &[Parameter],
        arguments: Map<String, Value>,
    ) -> Result<Self, ToolFailure> {
        let mut problems: Vec<String> = parameters
            .iter()
            .filter_map(|parameter| problem(parameter, arguments.get(&parameter.name)))
            .collect();
        for name in arguments.keys() {
            if !parameters.iter().any(|parameter| parameter.name == *name) {
                problems.push(unknown(name, parameters));
            }
        }
        if !problems.is_empty() {
            return Err(ToolFailure(problems.join("\n")));
        }
        let given = arguments.into_iter().filter(|(_, value)| !value.is_null());
        Ok(Self(given.collect()))
    }

    /// The text of a string parameter.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// The text of a required string parameter; validation has made sure that it is there.
    #[must_use]
    pub fn required_text(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// Whether a boolean parameter is given and true.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i64> {
        self.0.get(name).and_then(|value| match value {
            Value::Number(number) => whole(number),
            _ => None,
        })
    }

    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(Value::as_f64)
    }

    /// The arguments as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

fn problem(parameter: &Parameter, value: Option<&Value>) -> Option<String> {
    let name = &parameter.name;
    match (value, parameter.presence) {
        (None, Presence::Optional) | (Some(Value::Null), Presence::Optional) => None,
        (None | Some(Value::Null), Presence::Required) => Some(format!(
            "Missing required field: {name} (required parameter '{name}' missing)"
        )),
        (Some(value), _) if !fits(parameter.kind, value) => Some(format!(
            "{name}: Field must be {}, but it is {}",
            with_article(parameter.kind),
            kind_of(value)
        )),
        (Some(value), _)
            if !parameter.choices.is_empty() && !parameter.choices.contains(value) =>
        {
            let choices: Vec<String> = parameter.choices.iter().map(Value::to_string).collect();
            Some(format!(
                "{name}: {value} is not one of {}",
                choices.join(", ")
            ))
        }
        _ => None,
    }
}

fn fits(kind: ParameterType, value: &Value) -> bool {
    match kind {
        ParameterType::String => value.is_string(),
        ParameterType::Boolean => value.is_boolean(),
        ParameterType::Number => value.is_number(),
        ParameterType::Integer => value
            .as_number()
            .is_some_and(|number| whole(number).is_some()),
        ParameterType::Object => value.is_object(),
        ParameterType::Array => value.is_array(),
    }
}

/// JSON Schema counts 1.0 as an integer, and models write it.
fn whole(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        number
            .as_f64()
            .filter(|value| value.fract() == 0.0 && value.abs() < 9e15)
            .map(|value| value as i64)
    })
}

fn unknown(name: &str, parameters: &[Parameter]) -> String {
    let names: Vec<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
    if names.is_empty() {
        format!("{name}: this tool takes no parameters")
    } else {
        format!("{name}: no such parameter; it takes {}", names.join(", "))
    }
}

fn with_article(kind: ParameterType) -> &'static str {
    match kind {
        ParameterType::String => "a string",
        ParameterType::Boolean => "a boolean",
        ParameterType::Number => "a number",
        ParameterType::Integer => "an integer",
        ParameterType::Object => "an object",
        ParameterType::Array => "an array",
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(arguments: Value) -> Result<Arguments, String> {
        let parameters = [
            Parameter::required("symbol", ParameterType::String, "a symbol"),
            Parameter::optional("limit", ParameterType::Integer, "how many"),
            Parameter::optional("mode", ParameterType::String, "how").one_of(&["once", "all"]),
        ];
        let Value::Object(arguments) = arguments else {
            panic!("not an object")
        };
        Arguments::check(&parameters, arguments).map_err(|failure| failure.0)
    }

    #[test]
    fn takes_what_fits() {
        let arguments = check(json!({"symbol": "car", "limit": 2.0, "mode": null})).unwrap();
        assert_eq!(arguments.text("symbol"), Some("car"));
        assert_eq!(arguments.integer("limit"), Some(2));
        assert_eq!(arguments.text("mode"), None);
    }

    #[test]
    fn names_every_problem() {
        let problems = check(json!({"limit": 1.5, "mode": "twice", "colour": 1})).unwrap_err();
        assert_eq!(
            problems,
            "Missing required field: symbol (required parameter 'symbol' missing)\n\
             limit: Field must be an integer, but it is a number\n\
             mode: \"twice\" is not one of \"once\", \"all\"\n\
             colour: no such parameter; it takes symbol, limit, mode"
        );
    }
}
