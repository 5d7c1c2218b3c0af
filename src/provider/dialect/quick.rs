// SPDX-License-Identifier: GPL-3.0-or-later
//! Events of a long answer, read without copying and without a tree of values. A [`DeltaText`] must be a
//! text: decoders try such a form first, and read whatever has anything else in it in full. A [`Loose`]
//! field may be anything, so that a form of these reads every event. Pure.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::provider::draft::ReplyDraft;
use crate::provider::report::unreadable;

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

/// A field of which only a text or a count is of use; servers may send anything else in it.
#[derive(Debug, Default)]
pub enum Loose<'a> {
    Text(Cow<'a, str>),
    Count(u64),
    #[default]
    Neither,
}

impl Loose<'_> {
    /// The text; empty when it is none.
    pub fn text(&self) -> &str {
        self.some_text().unwrap_or_default()
    }

    pub fn some_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Count(_) | Self::Neither => None,
        }
    }

    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(*count),
            Self::Text(_) | Self::Neither => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Loose::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Loose::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Self::Value, E> {
        Ok(Loose::Count(count))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Loose::Neither)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Loose::Neither)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Loose::Neither)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Loose::Neither)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_seq(elements)?;
        Ok(Loose::Neither)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_map(fields)?;
        Ok(Loose::Neither)
    }
}

/// PART of a payload as a `T`; an empty one where there is none or it has another form.
pub fn read_part<'a, T: Deserialize<'a> + Default>(part: Option<&'a RawValue>) -> T {
    part.and_then(|part| serde_json::from_str(part.get()).ok())
        .unwrap_or_default()
}

/// The event in DATA, called NAME; none at the end mark, and where nothing is to be had of it. DRAFT is told
/// of one that can't be read, but for a value that isn't an object, which is harmless.
pub fn read_event<'a, T: Deserialize<'a>>(
    name: &str,
    data: &'a str,
    draft: &mut ReplyDraft,
) -> Option<T> {
    if data == "[DONE]" {
        return None;
    }
    let event = serde_json::from_str(data).ok();
    let harmless = || serde_json::from_str::<Value>(data).is_ok_and(|value| !value.is_object());
    if event.is_none() && !harmless() {
        draft.fail(unreadable(name, data));
    }
    event
}

/// TEXT as `&str`; empty when there is none.
pub fn or_empty<'t>(text: &'t Option<DeltaText<'_>>) -> &'t str {
    text.as_ref().map_or("", DeltaText::as_str)
}
