// SPDX-License-Identifier: GPL-3.0-or-later
//! The arguments of one tool call, checked against the tool's schema and read by name.

use serde_json::{Map, Value};

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
}
