// SPDX-License-Identifier: GPL-3.0-or-later
//! Gram values as JSON. What JSON has no form for (ranges, measurements) comes back as an error
//! that holds the value, so that the caller can say where it stands.

use serde_json::{Map, Number, Value as Json};

use super::syntax::{Datum, GramRecord, Numeral, NumeralKind, Value};

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
pub fn record_to_json(record: &GramRecord) -> Result<Map<String, Json>, &Value> {
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
pub(super) fn expected_for(datum: &Datum, otherwise: impl Into<String>) -> String {
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
pub(super) fn is_less(one: &Number, other: &Number) -> bool {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one < other,
        _ => one.as_f64() < other.as_f64(),
    }
}

/// Whether NUMBER has no fraction; `1.0` hasn't.
pub(super) fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}
