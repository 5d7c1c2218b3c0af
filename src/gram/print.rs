// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes gram: names, strings, JSON values, and signatures that were built in code. A signature
//! that an author wrote is never printed again; its text is kept.

use std::fmt::{self, Display, Write};

use serde_json::{Number, Value as Json};

use super::lexer::Cursor;
use super::types::{
    SignatureParameter, SignaturePresence, SignatureResult, TypeSignature, ValueType,
};

/// The canonical text: `(::Text {paramName:"name"})==>(::String)`. Reading it gives the same
/// signature again, when its defaults and limits fit their types.
impl Display for TypeSignature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parameters.is_empty() {
            out.write_str("()==>")?;
        }
        for parameter in &self.parameters {
            write!(
                out,
                "(::{} {{paramName:{}",
                parameter.kind.name(),
                Quoted(&parameter.name)
            )?;
            write_details(out, parameter)?;
            out.write_str("})==>")?;
        }
        write_result(out, &self.result)
    }
}

/// The contract writes `Text` for what a tool takes and `String` for what it gives back.
fn write_result(out: &mut impl Write, result: &SignatureResult) -> fmt::Result {
    let label = match &result.kind {
        ValueType::Text => "String",
        other => other.name(),
    };
    let mut properties = Properties::default();
    if let Some(name) = &result.name {
        properties.add("paramName", Quoted(name));
    }
    if let Some(description) = &result.description {
        properties.add("description", Quoted(description));
    }
    add_inner_types(&mut properties, &result.kind);
    if properties.0.is_empty() {
        return write!(out, "(::{label})");
    }
    write!(out, "(::{label} {{{}}})", properties.0.join(", "))
}

/// The properties of a record, each with its key.
#[derive(Default)]
struct Properties(Vec<String>);

impl Properties {
    fn add(&mut self, key: &str, value: impl Display) {
        self.0.push(format!("{key}:{value}"));
    }
}

/// Everything but name and type.
fn write_details(out: &mut impl Write, parameter: &SignatureParameter) -> fmt::Result {
    let mut properties = Properties::default();
    match &parameter.presence {
        SignaturePresence::Required => {}
        SignaturePresence::Optional => properties.add("optional", "true"),
        SignaturePresence::Default(value) => properties.add("default", JsonDatum(value)),
    }
    if let Some(description) = &parameter.description {
        properties.add("description", Quoted(description));
    }
    if !parameter.choices.is_empty() {
        properties.add("enum", JsonDatum(&parameter.choices.clone().into()));
    }
    if let Some(minimum) = &parameter.minimum {
        properties.add("minimum", JsonDatum(&minimum.clone().into()));
    }
    if let Some(maximum) = &parameter.maximum {
        properties.add("maximum", JsonDatum(&maximum.clone().into()));
    }
    add_inner_types(&mut properties, &parameter.kind);
    properties
        .0
        .iter()
        .try_for_each(|property| write!(out, ", {property}"))
}

/// `elementType` and `fields`, when KIND has them.
fn add_inner_types(properties: &mut Properties, kind: &ValueType) {
    if let ValueType::Array(Some(element)) = kind {
        properties.add("elementType", Quoted(&type_name(element)));
    }
    if let Some(fields) = innermost_fields(kind) {
        let fields: Vec<String> = fields.iter().map(field).collect();
        properties.add("fields", format_args!("[{}]", fields.join(", ")));
    }
}

fn field(field: &SignatureParameter) -> String {
    let mut text = format!(
        "{{name:{}, type:\"{}\"",
        Quoted(&field.name),
        field.kind.name()
    );
    // Writing to a string cannot fail.
    let _ = write_details(&mut text, field);
    text.push('}');
    text
}

fn innermost_fields(kind: &ValueType) -> Option<&[SignatureParameter]> {
    match kind {
        ValueType::Object(fields) => fields.as_deref(),
        ValueType::Array(Some(element)) => innermost_fields(element),
        _ => None,
    }
}

/// The type as an `elementType` says it; the fields of an object are not in it.
fn type_name(kind: &ValueType) -> String {
    match kind {
        ValueType::Array(Some(element)) => format!("[{}]", type_name(element)),
        other => other.name().to_owned(),
    }
}

/// A text between double quotes.
pub(super) struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_string(out, self.0, '"')
    }
}

/// A name: a symbol where it is one, or else between backticks.
pub(super) struct Identifier<'a>(pub &'a str);

impl Display for Identifier<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cursor = Cursor::new(self.0);
        if cursor.symbol().is_some() && cursor.at_end() {
            return out.write_str(self.0);
        }
        write_string(out, self.0, '`')
    }
}

/// The first slash is escaped too: readers that follow the reference grammar take `"//` for the
/// beginning of a comment.
fn write_string(out: &mut impl Write, text: &str, quote: char) -> fmt::Result {
    out.write_char(quote)?;
    let mut blank_so_far = true;
    for character in text.chars() {
        match character {
            '\u{8}' => out.write_str("\\b")?,
            '\u{c}' => out.write_str("\\f")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\\' => out.write_str("\\\\")?,
            '/' if blank_so_far => out.write_str("\\/")?,
            _ if character == quote => write!(out, "\\{quote}")?,
            _ => out.write_char(character)?,
        }
        blank_so_far &= character.is_whitespace();
    }
    out.write_char(quote)
}

/// A JSON value as a gram value.
struct JsonDatum<'a>(&'a Json);

impl Display for JsonDatum<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Json::Null => out.write_str("null"),
            Json::Bool(truth) => write!(out, "{truth}"),
            Json::Number(number) => write_number(out, number),
            Json::String(text) => write!(out, "{}", Quoted(text)),
            Json::Array(values) => {
                out.write_char('[')?;
                for (index, value) in values.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(out, "{separator}{}", JsonDatum(value))?;
                }
                out.write_char(']')
            }
            Json::Object(object) => {
                out.write_char('{')?;
                for (index, (key, value)) in object.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(out, "{separator}{}:{}", Identifier(key), JsonDatum(value))?;
                }
                out.write_char('}')
            }
        }
    }
}

/// Gram has no exponents, and a number with a fraction must show a digit of it.
fn write_number(out: &mut impl Write, number: &Number) -> fmt::Result {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            let digits = float.to_string();
            let fraction = if digits.contains('.') { "" } else { ".0" };
            write!(out, "{digits}{fraction}")
        }
        _ => write!(out, "{number}"),
    }
}
