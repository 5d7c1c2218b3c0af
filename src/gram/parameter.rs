// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads what the record of a signature's node, or a map in `fields`, says of one parameter. The
//! keys are few and a misspelt one would silently change a tool, so unknown keys are errors.

use std::collections::HashSet;

use serde_json::{Number, Value as Json};

use super::default::DefaultReader;
use super::error::{GramError, quote};
use super::json::{expected_for, is_less, number};
use super::parser::MAX_NESTING;
use super::syntax::{Datum, GramRecord, Node, Value, describe};
use super::type_expression::{TypeExpression, parse_type};
use super::types::{SignatureParameter, SignaturePresence, Spelling, ValueType};

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
