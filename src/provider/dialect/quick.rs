// SPDX-License-Identifier: GPL-3.0-or-later
//! The usual event of a long answer, a little more text, read without copying: each decoder tries this
//! form first, and reads whatever has anything else in it in full. Pure.

use std::borrow::Cow;
use std::fmt;

use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// A text of the payload, borrowed where nothing in it is escaped.
#[derive(Debug, Default)]
pub struct DeltaText<'a>(Cow<'a, str>);

impl DeltaText<'_> {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for DeltaText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DeltaTextVisitor)
    }
}

struct DeltaTextVisitor;

impl<'de> Visitor<'de> for DeltaTextVisitor {
    type Value = DeltaText<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(DeltaText(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(DeltaText(Cow::Owned(text.to_owned())))
    }
}

/// A list of one element, or of none.
#[derive(Debug)]
pub struct AtMostOne<T>(pub Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for AtMostOne<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(AtMostOneVisitor(PhantomData))
    }
}

struct AtMostOneVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMostOneVisitor<T> {
    type Value = AtMostOne<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of at most one element")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let first = elements.next_element()?;
        match first.is_some() && elements.next_element::<T>()?.is_some() {
            true => Err(Error::custom("there are more")),
            false => Ok(AtMostOne(first)),
        }
    }
}

/// The `type` of the payload DATA, where it is the first of its fields, as most servers write it. Says
/// nothing about the rest, which may not even be JSON.
pub fn kind_at_start(data: &str) -> Option<&str> {
    let rest = data.strip_prefix("{\"type\":")?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest).strip_prefix('"')?;
    let (kind, _) = rest.split_once('"')?;
    (!kind.contains('\\')).then_some(kind)
}

/// TEXT as `&str`; empty when there is none.
pub fn or_empty<'t>(text: &'t Option<DeltaText<'_>>) -> &'t str {
    text.as_ref().map_or("", DeltaText::as_str)
}
