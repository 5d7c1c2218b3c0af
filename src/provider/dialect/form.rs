// SPDX-License-Identifier: GPL-3.0-or-later
//! Forms of payloads: structs whose fields are filled where they stand, in one pass, without a tree of values
//! and without copies of texts in which nothing is escaped. Servers may send anything: a value that a field
//! has no use for leaves it as it was. Pure.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

/// A place for a value, which takes what it has a use for.
pub trait Slot<'de> {
    fn text(&mut self, _: Cow<'de, str>) {}

    fn count(&mut self, _: u64) {}

    /// A truth value, or a number that is no count.
    fn scalar(&mut self, _: Value) {}

    fn object<O: MapAccess<'de>>(&mut self, object: O) -> Result<(), O::Error> {
        IgnoredAny.visit_map(object).map(drop)
    }

    fn list<L: SeqAccess<'de>>(&mut self, list: L) -> Result<(), L::Error> {
        IgnoredAny.visit_seq(list).map(drop)
    }
}

/// Defines forms: structs with a slot for each name in the JSON. Of a name that comes twice, the last value counts.
macro_rules! form {
    ($($(#[$about:meta])* $seen:vis struct $form:ident$(<$life:lifetime>)? {
        $($(#[$meaning:meta])* $name:literal => $field:ident: $slot:ty,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Debug, Default)]
        $seen struct $form$(<$life>)? {
            $($(#[$meaning])* $field: $slot,)*
        }

        impl<'de $(: $life, $life)?> $crate::provider::dialect::form::Slot<'de> for $form$(<$life>)? {
            fn object<O: serde::de::MapAccess<'de>>(&mut self, mut object: O) -> Result<(), O::Error> {
                use $crate::provider::dialect::form::{Filling, NameReader};
                #[allow(non_camel_case_types, reason = "they are the names of the fields")]
                enum Field {
                    $($field,)*
                }
                let known = |name: &str| match name {
                    $($name => Some(Field::$field),)*
                    _ => None,
                };
                $(let mut $field = false;)*
                while let Some(field) = object.next_key_seed(NameReader(known))? {
                    match field {
                        $(Some(Field::$field) => {
                            if std::mem::replace(&mut $field, true) {
                                self.$field = Default::default();
                            }
                            object.next_value_seed(Filling(&mut self.$field))?;
                        })*
                        None => object.next_value::<serde::de::IgnoredAny>().map(drop)?,
                    }
                }
                Ok(())
            }
        }
    )*};
}
pub(super) use form;

/// What DATA turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormReading {
    Object,
    /// JSON, but no object.
    Other,
    NoJson,
}

/// Reads DATA into FORM.
fn read_into<'de>(data: &'de str, form: &mut impl Slot<'de>) -> FormReading {
    let mut deserializer = serde_json::Deserializer::from_str(data);
    let read = Filling(form)
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    match read {
        Ok(()) if data.starts_with('{') => FormReading::Object,
        Ok(()) => FormReading::Other,
        Err(_) => FormReading::NoJson,
    }
}

/// Hands the form in DATA to TAKE, if DATA is an object.
pub fn take_object<'de, F: Slot<'de> + Default>(
    data: &'de str,
    take: impl FnOnce(F),
) -> FormReading {
    let mut form = F::default();
    let reading = read_into(data, &mut form);
    if reading == FormReading::Object {
        take(form);
    }
    reading
}

/// The form in DATA, as far as that has it.
pub fn form_of<'de, F: Slot<'de> + Default>(data: &'de str) -> F {
    let mut form = F::default();
    read_into(data, &mut form);
    form
}

/// Hands a slot the value that comes.
pub struct Filling<'s, S>(pub &'s mut S);

impl<'de, S: Slot<'de>> DeserializeSeed<'de> for Filling<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Slot<'de>> Visitor<'de> for Filling<'_, S> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.0.text(Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.text(Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<(), E> {
        self.0.count(count);
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.0.scalar(number.into());
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.0.scalar(number.into());
        Ok(())
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<(), E> {
        self.0.scalar(truth.into());
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<O: MapAccess<'de>>(self, object: O) -> Result<(), O::Error> {
        self.0.object(object)
    }

    fn visit_seq<L: SeqAccess<'de>>(self, list: L) -> Result<(), L::Error> {
        self.0.list(list)
    }
}

/// Reads the name of a field, and gives what its function makes of it.
pub struct NameReader<F>(pub F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for NameReader<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for NameReader<F> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
        Ok((self.0)(name))
    }
}

/// A text, if there is one.
#[derive(Debug, Default)]
pub struct SaidText<'a>(pub Option<Cow<'a, str>>);

impl SaidText<'_> {
    /// The text; empty when there is none.
    pub fn get(&self) -> &str {
        self.some().unwrap_or_default()
    }

    pub fn some(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl<'de: 'a, 'a> Slot<'de> for SaidText<'a> {
    fn text(&mut self, text: Cow<'de, str>) {
        self.0 = Some(text);
    }
}

/// A count, if there is one.
#[derive(Debug, Clone, Copy, Default)]
pub struct SaidCount(pub Option<u64>);

impl SaidCount {
    pub fn or_zero(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

impl Slot<'_> for SaidCount {
    fn count(&mut self, count: u64) {
        self.0 = Some(count);
    }
}

/// Whether it is said to be so.
#[derive(Debug, Clone, Copy, Default)]
pub struct SaidTrue(pub bool);

impl Slot<'_> for SaidTrue {
    fn scalar(&mut self, value: Value) {
        self.0 = matches!(value, Value::Bool(true));
    }
}

/// Any value, if there is one. Boxed, as it seldom is there, and large.
#[derive(Debug, Default)]
pub struct Anything(pub Option<Box<Value>>);

impl Anything {
    fn set(&mut self, value: Value) {
        self.0 = Some(Box::new(value));
    }

    /// Its elements, if it is a list.
    pub fn elements(&self) -> &[Value] {
        match self.0.as_deref() {
            Some(Value::Array(elements)) => elements,
            _ => &[],
        }
    }

    /// The same, to be kept.
    pub fn take_elements(&mut self) -> Vec<Value> {
        match self.0.take().map(|value| *value) {
            Some(Value::Array(elements)) => elements,
            _ => Vec::new(),
        }
    }
}

impl<'de> Slot<'de> for Anything {
    fn text(&mut self, text: Cow<'de, str>) {
        self.set(text.into());
    }

    fn count(&mut self, count: u64) {
        self.set(count.into());
    }

    fn scalar(&mut self, value: Value) {
        self.set(value);
    }

    fn object<O: MapAccess<'de>>(&mut self, object: O) -> Result<(), O::Error> {
        self.set(Value::deserialize(MapAccessDeserializer::new(object))?);
        Ok(())
    }

    fn list<L: SeqAccess<'de>>(&mut self, list: L) -> Result<(), L::Error> {
        self.set(Value::deserialize(SeqAccessDeserializer::new(list))?);
        Ok(())
    }
}

/// What is a text most often, and may be anything else.
#[derive(Debug, Default)]
pub struct Mixed<'a> {
    pub text: SaidText<'a>,
    pub other: Anything,
}

impl Mixed<'_> {
    /// Whether nothing was said, not even an empty text.
    pub fn is_missing(&self) -> bool {
        self.text.some().is_none() && self.other.0.is_none()
    }

    /// The text, or anything else as JSON; empty when there is neither.
    pub fn text_or_json(&self) -> Cow<'_, str> {
        match (self.text.some(), &self.other.0) {
            (Some(text), _) => text.into(),
            (None, Some(value)) => value.to_string().into(),
            (None, None) => "".into(),
        }
    }
}

impl<'de: 'a, 'a> Slot<'de> for Mixed<'a> {
    fn text(&mut self, text: Cow<'de, str>) {
        self.text.text(text);
    }

    fn count(&mut self, count: u64) {
        self.other.count(count);
    }

    fn scalar(&mut self, value: Value) {
        self.other.scalar(value);
    }

    fn object<O: MapAccess<'de>>(&mut self, object: O) -> Result<(), O::Error> {
        self.other.object(object)
    }

    fn list<L: SeqAccess<'de>>(&mut self, list: L) -> Result<(), L::Error> {
        self.other.list(list)
    }
}

/// Whether there is a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mention {
    #[default]
    Nothing,
    Something,
}

impl<'de> Slot<'de> for Mention {
    fn text(&mut self, _: Cow<'de, str>) {
        *self = Self::Something;
    }

    fn count(&mut self, _: u64) {
        *self = Self::Something;
    }

    fn scalar(&mut self, _: Value) {
        *self = Self::Something;
    }

    fn object<O: MapAccess<'de>>(&mut self, object: O) -> Result<(), O::Error> {
        *self = Self::Something;
        IgnoredAny.visit_map(object).map(drop)
    }

    fn list<L: SeqAccess<'de>>(&mut self, list: L) -> Result<(), L::Error> {
        *self = Self::Something;
        IgnoredAny.visit_seq(list).map(drop)
    }
}

/// An object, or a list, that may be missing.
impl<'de, F: Slot<'de> + Default> Slot<'de> for Option<F> {
    fn object<O: MapAccess<'de>>(&mut self, object: O) -> Result<(), O::Error> {
        self.get_or_insert_default().object(object)
    }

    fn list<L: SeqAccess<'de>>(&mut self, list: L) -> Result<(), L::Error> {
        self.get_or_insert_default().list(list)
    }
}

/// A list of forms. Most have one, for which there is room without a vector. Some servers leave the list
/// around it out.
#[derive(Debug)]
pub struct ListOf<F> {
    first: Option<F>,
    others: Vec<F>,
}

impl<F> Default for ListOf<F> {
    fn default() -> Self {
        Self {
            first: None,
            others: Vec::new(),
        }
    }
}

impl<F> ListOf<F> {
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut F> {
        self.first.iter_mut().chain(&mut self.others)
    }

    pub fn iter(&self) -> impl Iterator<Item = &F> {
        self.first.iter().chain(&self.others)
    }
}

impl<'de, F: Slot<'de> + Default> Slot<'de> for ListOf<F> {
    fn object<O: MapAccess<'de>>(&mut self, object: O) -> Result<(), O::Error> {
        self.first.get_or_insert_default().object(object)
    }

    fn list<L: SeqAccess<'de>>(&mut self, mut list: L) -> Result<(), L::Error> {
        if list.next_element_seed(Filling(&mut self.first))?.is_none() {
            return Ok(());
        }
        let mut next = None;
        while list.next_element_seed(Filling(&mut next))?.is_some() {
            self.others.extend(next.take());
        }
        Ok(())
    }
}
