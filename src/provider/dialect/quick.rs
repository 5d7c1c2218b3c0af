// SPDX-License-Identifier: GPL-3.0-or-later
//! Events of a long answer, read without copying and without a tree of values: decoders try a form in which
//! each text must be one first, and read whatever has anything else in it in full. Pure.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

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

/// TEXT as `&str`; empty when there is none.
pub fn or_empty<'t>(text: &'t Option<DeltaText<'_>>) -> &'t str {
    text.as_ref().map_or("", DeltaText::as_str)
}
