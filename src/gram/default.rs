// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads a value that must fit a type: a parameter's default, or one of the values it may have.
//! A default that doesn't fit would only show when a call leaves the parameter out.

use serde_json::{Map, Value as Json};

use super::error::GramError;
use super::json::{expected_for, is_less, is_whole, number, to_json};
use super::syntax::{Datum, GramRecord, Value, describe};
use super::types::{SignatureParameter, SignaturePresence, ValueType};

pub(super) struct DefaultReader<'a> {
    pub source: &'a str,
}

impl DefaultReader<'_> {
    fn fail(&self, value: &Value, expected: impl Into<String>) -> GramError {
        GramError::at(
            self.source,
            value.span.start,
            expected,
            describe(&value.datum),
        )
    }

    /// VALUE as JSON, when it is one that PARAMETER may have.
    pub fn read(&self, value: &Value, parameter: &SignatureParameter) -> Result<Json, GramError> {
        let json = self.typed(value, &parameter.kind)?;
        if !parameter.choices.is_empty() && !parameter.choices.contains(&json) {
            let choices: Vec<String> = parameter.choices.iter().map(Json::to_string).collect();
            return Err(self.fail(value, format!("one of {}", choices.join(", "))));
        }
        let (minimum, maximum) = (&parameter.minimum, &parameter.maximum);
        if let (Some(minimum), Some(number)) = (minimum, json.as_number())
            && is_less(number, minimum)
        {
            return Err(self.fail(value, format!("a number of at least {minimum}")));
        }
        if let (Some(maximum), Some(number)) = (maximum, json.as_number())
            && is_less(maximum, number)
        {
            return Err(self.fail(value, format!("a number of at most {maximum}")));
        }
        Ok(json)
    }

    /// VALUE as JSON, when its type is KIND.
    pub fn typed(&self, value: &Value, kind: &ValueType) -> Result<Json, GramError> {
        match (kind, &value.datum) {
            (ValueType::Text, Datum::Symbol(name)) if name == "null" => Err(self.null(value)),
            (ValueType::Text, Datum::Text(_) | Datum::Symbol(_) | Datum::Tagged { .. })
            | (ValueType::Boolean, Datum::Boolean(_))
            | (ValueType::Object(None), Datum::Map(_))
            | (ValueType::Array(None), Datum::Array(_)) => self.any(value),
            (ValueType::Integer | ValueType::Number, Datum::Number(numeral)) => {
                let fits =
                    number(numeral).filter(|number| *kind == ValueType::Number || is_whole(number));
                fits.map(Json::Number)
                    .ok_or_else(|| self.mismatch(value, kind))
            }
            (ValueType::Object(Some(fields)), Datum::Map(record)) => {
                self.object(value, record, fields)
            }
            (ValueType::Array(Some(element)), Datum::Array(values)) => values
                .iter()
                .map(|value| self.typed(value, element))
                .collect(),
            (_, Datum::Symbol(name)) if name == "null" => Err(self.null(value)),
            _ => Err(self.mismatch(value, kind)),
        }
    }

    fn object(
        &self,
        value: &Value,
        record: &GramRecord,
        fields: &[SignatureParameter],
    ) -> Result<Json, GramError> {
        let needed = fields
            .iter()
            .filter(|field| field.presence == SignaturePresence::Required);
        for field in needed {
            if record.get(&field.name).is_none() {
                return Err(self.fail(value, format!("an object with the field `{}`", field.name)));
            }
        }
        let mut object = Map::new();
        for (key, property) in &record.properties {
            let json = match fields.iter().find(|field| field.name == *key) {
                Some(field) => self.read(&property.value, field)?,
                None => self.any(&property.value)?,
            };
            object.insert(key.clone(), json);
        }
        Ok(Json::Object(object))
    }

    fn any(&self, value: &Value) -> Result<Json, GramError> {
        to_json(value)
            .map_err(|inner| self.fail(inner, expected_for(&inner.datum, "a value that JSON has")))
    }

    fn mismatch(&self, value: &Value, kind: &ValueType) -> GramError {
        let expected = format!("a value of type {}", kind.name());
        let expected = match kind {
            ValueType::Integer | ValueType::Number => expected_for(&value.datum, expected),
            _ => expected,
        };
        self.fail(value, expected)
    }

    fn null(&self, value: &Value) -> GramError {
        self.fail(
            value,
            "a value; a parameter that may be missing says `optional:true`",
        )
    }
}
