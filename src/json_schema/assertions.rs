// SPDX-License-Identifier: GPL-3.0-or-later
//! The keywords that look at a value by itself: types, constants, bounds, patterns.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Fault;
use super::decimal::{Decimal, canonical};
use super::fault::kind_of;
use super::keyword::{Bound, Constant, Keyword, Type};
use super::pattern::{Match, SchemaPattern};
use super::verdict::{SchemaVerdict, ValuePath};

pub(super) fn of_types<'v>(
    types: &[Type],
    value: &Value,
    path: &ValuePath<'_>,
) -> SchemaVerdict<'v> {
    let fits = |kind: &Type| match (kind, value) {
        (Type::Null, Value::Null)
        | (Type::Boolean, Value::Bool(_))
        | (Type::Number, Value::Number(_))
        | (Type::String, Value::String(_))
        | (Type::Array, Value::Array(_))
        | (Type::Object, Value::Object(_)) => true,
        (Type::Integer, Value::Number(number)) => Decimal::of(number).is_integer(),
        _ => false,
    };
    if types.iter().any(fits) {
        return SchemaVerdict::default();
    }
    let expected: Vec<&str> = types.iter().map(|kind| kind.with_article()).collect();
    let fault = Fault::Type {
        expected: expected.join(" or "),
        found: kind_of(value),
    };
    SchemaVerdict::fault(path, fault)
}

pub(super) fn among<'v>(
    constants: &[Constant],
    value: &Value,
    path: &ValuePath<'_>,
) -> SchemaVerdict<'v> {
    let own = canonical(value);
    if constants.iter().any(|constant| constant.canonical == own) {
        return SchemaVerdict::default();
    }
    let shown: Vec<&str> = constants
        .iter()
        .map(|constant| constant.shown.as_str())
        .collect();
    SchemaVerdict::other(path, format!("{value} is not one of {}", shown.join(", ")))
}

pub(super) fn number_problem(keyword: &Keyword, number: &Decimal, shown: &Value) -> Option<String> {
    let (holds, expected) = match keyword {
        Keyword::Number(Bound::AtLeast(bound)) => (number >= bound, format!("at least {bound}")),
        Keyword::Number(Bound::AtMost(bound)) => (number <= bound, format!("at most {bound}")),
        Keyword::Number(Bound::Above(bound)) => (number > bound, format!("more than {bound}")),
        Keyword::Number(Bound::Below(bound)) => (number < bound, format!("less than {bound}")),
        Keyword::MultipleOf(divisor) => (
            number.is_multiple_of(divisor),
            format!("a multiple of {divisor}"),
        ),
        _ => return None,
    };
    (!holds).then(|| format!("Field must be {expected}, but it is {shown}"))
}

pub(super) fn counted<'v>(
    bound: &Bound<u64>,
    count: usize,
    what: &str,
    path: &ValuePath<'_>,
) -> SchemaVerdict<'v> {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let (holds, expected) = match bound {
        Bound::AtLeast(least) => (count >= *least, format!("at least {least}")),
        Bound::AtMost(most) => (count <= *most, format!("at most {most}")),
        Bound::Above(bound) => (count > *bound, format!("more than {bound}")),
        Bound::Below(bound) => (count < *bound, format!("less than {bound}")),
    };
    if holds {
        return SchemaVerdict::default();
    }
    SchemaVerdict::other(
        path,
        format!("Field must have {expected} {what}, but it has {count}"),
    )
}

pub(super) fn shaped<'v>(
    pattern: &SchemaPattern,
    text: &str,
    path: &ValuePath<'_>,
) -> SchemaVerdict<'v> {
    match pattern.find_in(text) {
        Match::Found => SchemaVerdict::default(),
        Match::Absent => SchemaVerdict::other(
            path,
            format!("Field must match the pattern {}", pattern.source),
        ),
        Match::GaveUp => SchemaVerdict::other(
            path,
            format!("the pattern {} takes too long to match", pattern.source),
        ),
    }
}

pub(super) fn different<'v>(elements: &[Value], path: &ValuePath<'_>) -> SchemaVerdict<'v> {
    let mut seen = HashSet::new();
    match elements
        .iter()
        .find(|element| !seen.insert(canonical(element)))
    {
        None => SchemaVerdict::default(),
        Some(twice) => SchemaVerdict::other(
            path,
            format!("Field must have different elements, but it has {twice} twice"),
        ),
    }
}

pub(super) fn missing<'v>(
    names: &[String],
    members: &Map<String, Value>,
    path: &ValuePath<'_>,
) -> SchemaVerdict<'v> {
    let mut verdict = SchemaVerdict::default();
    for name in names.iter().filter(|name| !members.contains_key(*name)) {
        verdict.absorb(SchemaVerdict::fault(path, Fault::Missing(name.clone())));
    }
    verdict
}
