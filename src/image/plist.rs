// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading property lists that come from an image. What is missing or of another kind reads as
//! nothing: a newer or older Common Lisp half must not make the core fail.

use lexpr::Value;

/// A view of a property list.
#[derive(Debug, Clone, Copy)]
pub struct Plist<'a>(&'a Value);

impl<'a> Plist<'a> {
    #[must_use]
    pub fn new(value: &'a Value) -> Self {
        Self(value)
    }

    /// The value of the keyword NAME.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a Value> {
        let mut elements = elements(self.0);
        while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
            if key.as_keyword() == Some(name) {
                return Some(value);
            }
        }
        None
    }

    /// The string NAME, unless it is empty.
    #[must_use]
    pub fn text(self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    #[must_use]
    pub fn integer(self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64()
    }

    /// The name of the keyword that is the value of NAME.
    #[must_use]
    pub fn keyword(self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_keyword()
    }

    /// Whether NAME is anything but nil.
    #[must_use]
    pub fn flag(self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| !matches!(value, Value::Nil | Value::Null | Value::Bool(false)))
    }

    /// The elements of the list NAME.
    pub fn list(self, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.get(name).into_iter().flat_map(elements)
    }

    /// The property lists in the list NAME.
    pub fn plists(self, name: &str) -> impl Iterator<Item = Plist<'a>> + use<'a> {
        self.list(name).map(Plist)
    }

    /// The strings in the list NAME.
    #[must_use]
    pub fn texts(self, name: &str) -> Vec<&'a str> {
        self.list(name).filter_map(Value::as_str).collect()
    }
}

/// The elements of a list; none of what is no list.
fn elements(value: &Value) -> impl Iterator<Item = &Value> + use<'_> {
    value
        .as_cons()
        .into_iter()
        .flat_map(|cons| cons.iter().map(lexpr::Cons::car))
}
