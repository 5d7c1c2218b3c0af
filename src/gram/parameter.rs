// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads what the record of a signature's node, or a map in `fields`, says of one parameter. The
//! keys are few and a misspelt one would silently change a tool, so unknown keys are errors.

use std::collections::HashSet;

use serde_json::{Map, Number, Value as Json};

use super::parser::MAX_NESTING;
use super::syntax::{
    Datum, GramError, GramRecord, Node, Numeral, NumeralKind, Value, describe, quote,
};
use super::types::{
    SignatureParameter, SignaturePresence, Spelling, TypeExpression, ValueType, parse_type,
};

const NODE_KEYS: &[&str] = &[
    "paramName",
    "optional",
    "default",
    "description",
    "enum",
    "minimum",
    "maximum",
    "fields",
    "elementType",
];
const FIELD_KEYS: &[&str] = &[
    "name",
    "type",
    "optional",
    "default",
    "description",
    "enum",
    "minimum",
    "maximum",
    "fields",
    "elementType",
];
pub(super) const RETURN_KEYS: &[&str] = &["paramName", "description", "fields", "elementType"];

/// Where a parameter is described, which decides the keys its record may hold.
#[derive(Clone, Copy)]
pub(super) enum DescribedIn {
    Node,
    Field,
}

pub(super) struct ParameterReader<'a> {
    pub source: &'a str,
}

impl ParameterReader<'_> {
    fn fail(&self, at: usize, expected: impl Into<String>, found: impl Into<String>) -> GramError {
        GramError::at(self.source, at, expected, found)
    }

    /// The type that NODE's one label names.
    pub fn label_type(&self, node: &Node) -> Result<ValueType, GramError> {
        let [label] = node.subject.labels.as_slice() else {
            let (at, found) = match node.subject.labels.get(1) {
                Some(second) => (
                    second.span.start,
                    format!("a second label, `{}`", second.text),
                ),
                None => (node.span.start, "a node without a label".to_owned()),
            };
            return Err(self.fail(at, "one type label, such as `::Text`", found));
        };
        ValueType::named(&label.text)
            .ok_or_else(|| self.unknown_type(&label.text, label.span.start))
    }

    fn unknown_type(&self, name: &str, at: usize) -> GramError {
        self.fail(
            at,
            "a type: Text, String, Int, Integer, Double, Number, Bool, Boolean, Object or Array",
            quote(name),
        )
    }

    /// The name in `paramName`, or else NODE's identifier; both may be there when they agree.
    pub fn node_name(&self, node: &Node) -> Result<Option<String>, GramError> {
        let identifier = node.subject.identifier.as_ref();
        let Some(value) = node.subject.property("paramName") else {
            return match identifier {
                Some(name) => self.name(&name.text, name.span.start).map(Some),
                None => Ok(None),
            };
        };
        let name = self.name(self.text(value, "a name")?, value.span.start)?;
        match identifier {
            Some(other) if other.text != name => {
                let expected = format!("paramName to be `{}`, the node's identifier", other.text);
                Err(self.fail(value.span.start, expected, quote(&name)))
            }
            _ => Ok(Some(name)),
        }
    }

    fn name(&self, name: &str, at: usize) -> Result<String, GramError> {
        if name.trim().is_empty() {
            return Err(self.fail(at, "a name that isn't empty", quote(name)));
        }
        Ok(name.to_owned())
    }

    /// The parameter NAME of type KIND, with what RECORD adds.
    pub fn described(
        &self,
        name: String,
        kind: ValueType,
        record: Option<&GramRecord>,
        place: DescribedIn,
    ) -> Result<SignatureParameter, GramError> {
        let mut parameter = SignatureParameter::new(name, kind);
        let Some(record) = record else {
            return Ok(parameter);
        };
        match place {
            DescribedIn::Node => self.only_known_keys(record, NODE_KEYS, "a parameter")?,
            DescribedIn::Field => self.only_known_keys(record, FIELD_KEYS, "a field")?,
        }
        self.complete_type(&mut parameter, record)?;
        if let Some(value) = record.get("description") {
            parameter.description = Some(self.text(value, "a description")?.to_owned());
        }
        if let Some(value) = record.get("optional") {
            parameter.presence = self.optional(value)?;
        }
        self.limits(&mut parameter, record)?;
        if let Some(value) = record.get("default") {
            let default = DefaultReader {
                source: self.source,
            }
            .read(value, &parameter)?;
            parameter.presence = SignaturePresence::Default(default);
        }
        Ok(parameter)
    }

    pub fn only_known_keys(
        &self,
        record: &GramRecord,
        known: &[&str],
        whose: &str,
    ) -> Result<(), GramError> {
        for (key, property) in &record.properties {
            if !known.contains(&key.as_str()) {
                let expected = format!("a property of {whose}: {}", known.join(", "));
                return Err(self.fail(property.key_span.start, expected, quote(key)));
            }
        }
        Ok(())
    }

    /// A text, which may be written as a symbol.
    fn text<'v>(&self, value: &'v Value, what: &str) -> Result<&'v str, GramError> {
        match &value.datum {
            Datum::Text(text) | Datum::Symbol(text) | Datum::Tagged { text, .. } => Ok(text),
            other => Err(self.fail(
                value.span.start,
                format!("{what}, a string"),
                describe(other),
            )),
        }
    }

    fn optional(&self, value: &Value) -> Result<SignaturePresence, GramError> {
        match &value.datum {
            Datum::Boolean(true) => Ok(SignaturePresence::Optional),
            Datum::Boolean(false) => Ok(SignaturePresence::Required),
            other => Err(self.fail(value.span.start, "true or false", describe(other))),
        }
    }

    /// Puts what `elementType` and `fields` say into the type of PARAMETER.
    fn complete_type(
        &self,
        parameter: &mut SignatureParameter,
        record: &GramRecord,
    ) -> Result<(), GramError> {
        let kind = &mut parameter.kind;
        if let Some(value) = record.get("elementType") {
            let ValueType::Array(element @ None) = kind else {
                let expected = "elementType only with the bare type Array";
                return Err(self.fail(value.span.start, expected, kind.name()));
            };
            let (inner, word) = self.element_type(value)?;
            *element = Some(Box::new(inner));
            parameter.spelling = Spelling(word);
        }
        let Some(value) = record.get("fields") else {
            return Ok(());
        };
        let Some(fields) = bare_object(kind) else {
            let expected = "fields only with the bare type Object, or an Array of it";
            return Err(self.fail(value.span.start, expected, kind.name()));
        };
        *fields = Some(self.fields(value)?);
        if kind.nesting() > MAX_NESTING {
            let expected = format!("at most {MAX_NESTING} levels of types");
            return Err(self.fail(value.span.start, expected, "more"));
        }
        Ok(())
    }

    /// The type that VALUE writes, and how its innermost part is spelt.
    fn type_expression(
        &self,
        value: &Value,
    ) -> Result<(TypeExpression, Option<String>), GramError> {
        let text = self.text(value, "a type")?;
        parse_type(text).map_err(|mut error| {
            error.offset += value.span.start + usize::from(matches!(value.datum, Datum::Text(_)));
            // Only when the text stands in the source as it is, its places are places there.
            let verbatim = value.span.len() - text.len() <= 2;
            let at = if verbatim {
                error.offset
            } else {
                value.span.start
            };
            self.fail(at, error.expected, error.found)
        })
    }

    fn element_type(&self, value: &Value) -> Result<(ValueType, Option<String>), GramError> {
        match self.type_expression(value)? {
            (TypeExpression::Plain(kind), word) => Ok((kind, word)),
            (TypeExpression::Maybe(_), _) => {
                let expected = "the type of every element; only fields can be Maybe";
                Err(self.fail(value.span.start, expected, "a Maybe"))
            }
        }
    }

    fn fields(&self, value: &Value) -> Result<Vec<SignatureParameter>, GramError> {
        let Datum::Array(values) = &value.datum else {
            let expected = "an array of fields, such as `[{name:\"age\", type:\"Int\"}]`";
            return Err(self.fail(value.span.start, expected, describe(&value.datum)));
        };
        let mut fields: Vec<SignatureParameter> = Vec::with_capacity(values.len());
        let mut names = HashSet::new();
        for value in values {
            let field = self.field(value)?;
            if !names.insert(field.name.clone()) {
                let found = format!("a second `{}`", field.name);
                return Err(self.fail(value.span.start, "field names that are unique", found));
            }
            fields.push(field);
        }
        Ok(fields)
    }

    fn field(&self, value: &Value) -> Result<SignatureParameter, GramError> {
        let Datum::Map(record) = &value.datum else {
            let expected = "a field, such as `{name:\"age\", type:\"Int\"}`";
            return Err(self.fail(value.span.start, expected, describe(&value.datum)));
        };
        let required = |key: &str| {
            let missing = || {
                self.fail(
                    value.span.start,
                    format!("a field with `{key}`"),
                    "one without it",
                )
            };
            record.get(key).ok_or_else(missing)
        };
        let name = required("name")?;
        let name = self.name(self.text(name, "a name")?, name.span.start)?;
        let (expression, word) = self.type_expression(required("type")?)?;
        let (kind, maybe) = match expression {
            TypeExpression::Plain(kind) => (kind, SignaturePresence::Required),
            TypeExpression::Maybe(kind) => (kind, SignaturePresence::Optional),
        };
        let field = self.described(name, kind, Some(record), DescribedIn::Field)?;
        let mut field = field.or_spelt(word);
        if field.presence == SignaturePresence::Required {
            field.presence = maybe;
        }
        Ok(field)
    }

    /// Reads `enum`, `minimum` and `maximum`.
    fn limits(
        &self,
        parameter: &mut SignatureParameter,
        record: &GramRecord,
    ) -> Result<(), GramError> {
        parameter.minimum = self.limit(parameter, record, "minimum")?;
        parameter.maximum = self.limit(parameter, record, "maximum")?;
        let limits = (
            &parameter.minimum,
            &parameter.maximum,
            record.get("maximum"),
        );
        if let (Some(minimum), Some(maximum), Some(value)) = limits
            && is_less(maximum, minimum)
        {
            let expected = format!("a maximum that isn't below the minimum {minimum}");
            return Err(self.fail(value.span.start, expected, maximum.to_string()));
        }
        if let Some(value) = record.get("enum") {
            parameter.choices = self.choices(value, &parameter.kind)?;
        }
        Ok(())
    }

    fn limit(
        &self,
        parameter: &SignatureParameter,
        record: &GramRecord,
        key: &str,
    ) -> Result<Option<Number>, GramError> {
        let Some(value) = record.get(key) else {
            return Ok(None);
        };
        if !matches!(parameter.kind, ValueType::Integer | ValueType::Number) {
            let expected = format!("{key} only with a number type");
            return Err(self.fail(value.span.start, expected, parameter.kind.name()));
        }
        let limit = match &value.datum {
            Datum::Number(numeral) => number(numeral),
            _ => None,
        };
        let missing = || {
            let expected = expected_for(&value.datum, "a number");
            self.fail(value.span.start, expected, describe(&value.datum))
        };
        limit.ok_or_else(missing).map(Some)
    }

    fn choices(&self, value: &Value, kind: &ValueType) -> Result<Vec<Json>, GramError> {
        let reader = DefaultReader {
            source: self.source,
        };
        match &value.datum {
            Datum::Array(values) if !values.is_empty() => values
                .iter()
                .map(|choice| reader.typed(choice, kind))
                .collect(),
            other => {
                let expected = "an array of the values allowed, at least one";
                Err(self.fail(value.span.start, expected, describe(other)))
            }
        }
    }
}

/// The place for the fields in the object that KIND is, or that its elements are.
fn bare_object(kind: &mut ValueType) -> Option<&mut Option<Vec<SignatureParameter>>> {
    match kind {
        ValueType::Object(fields @ None) => Some(fields),
        ValueType::Array(Some(element)) => bare_object(element),
        _ => None,
    }
}

// Reads a value that must fit a type: a parameter's default, or one of the values it may have. A default
// that doesn't fit would only show when a call leaves the parameter out.

struct DefaultReader<'a> {
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

// Gram values as JSON. What JSON has no form for (ranges, measurements) is returned as an error that holds
// the value, so that the caller can say where it is.

/// VALUE as JSON: a symbol is its text, but `null` is null; of a tagged text the text counts.
///
/// # Errors
///
/// The first value inside that JSON cannot hold: a range, a measurement, an integer beyond 64 bits, a
/// decimal beyond all floating-point numbers.
pub fn to_json(value: &Value) -> Result<Json, &Value> {
    Ok(match &value.datum {
        Datum::Boolean(truth) => Json::Bool(*truth),
        Datum::Number(numeral) => Json::Number(number(numeral).ok_or(value)?),
        Datum::Range { .. } => return Err(value),
        Datum::Symbol(name) if name == "null" => Json::Null,
        Datum::Symbol(text) | Datum::Text(text) | Datum::Tagged { text, .. } => text.clone().into(),
        Datum::Array(values) => values.iter().map(to_json).collect::<Result<_, _>>()?,
        Datum::Map(record) => Json::Object(record_to_json(record)?),
    })
}

/// RECORD as a JSON object.
///
/// # Errors
///
/// As [`to_json`].
fn record_to_json(record: &GramRecord) -> Result<Map<String, Json>, &Value> {
    let properties = record.properties.iter();
    properties
        .map(|(key, property)| Ok((key.clone(), to_json(&property.value)?)))
        .collect()
}

/// The number that NUMERAL writes; none for a measurement, or where it would be another number: an
/// integer that 64 bits can't hold, a decimal that is too large.
#[must_use]
pub fn number(numeral: &Numeral) -> Option<Number> {
    let text = numeral.text.as_str();
    match numeral.kind {
        NumeralKind::Measurement => None,
        NumeralKind::Decimal => Number::from_f64(text.parse().ok()?),
        NumeralKind::Integer => integer(text),
        NumeralKind::Hexadecimal => digits(text.trim_start_matches("0x"), 16),
        NumeralKind::Octal => digits(text, 8),
    }
}

fn integer(text: &str) -> Option<Number> {
    let signed = text.parse::<i64>().map(Number::from);
    signed
        .or_else(|_| text.parse::<u64>().map(Number::from))
        .ok()
}

fn digits(text: &str, radix: u32) -> Option<Number> {
    u64::from_str_radix(text, radix).map(Number::from).ok()
}

/// What could stand in place of DATUM, which [`number`] or [`to_json`] can't take: OTHERWISE, unless
/// it is an integer with too many digits.
fn expected_for(datum: &Datum, otherwise: impl Into<String>) -> String {
    let too_wide = matches!(datum, Datum::Number(numeral)
        if matches!(
            numeral.kind,
            NumeralKind::Integer | NumeralKind::Hexadecimal | NumeralKind::Octal
        ) && number(numeral).is_none());
    match too_wide {
        true => {
            "an integer that fits into 64 bits, or a decimal if its digits do not matter".into()
        }
        false => otherwise.into(),
    }
}

/// Whether ONE is less than OTHER; integers are compared by all their digits.
fn is_less(one: &Number, other: &Number) -> bool {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one < other,
        _ => one.as_f64() < other.as_f64(),
    }
}

/// Whether NUMBER has no fraction; `1.0` hasn't.
pub(super) fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}
