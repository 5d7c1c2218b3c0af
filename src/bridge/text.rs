// SPDX-License-Identifier: GPL-3.0-or-later
//! Strings of Emacs as texts of the core. Emacs's may hold raw bytes, surrogates and characters
//! beyond Unicode, which Rust's can't: a string that has some is cleaned on the way, here and
//! nowhere else, so that none can keep a call from its result.

use std::fmt;
use std::ops::Deref;

use emacs::{FromLisp, Result, Value};

/// A text from Emacs. Every string makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(String);

impl FromLisp<'_> for Text {
    fn from_lisp(value: Value<'_>) -> Result<Self> {
        // Nearly all strings are fine as they are, and then nothing is looked at twice.
        let text = value.into_rust::<String>().or_else(|error| {
            match value.env.call("stringp", (value,))?.is_not_nil() {
                true => value.env.call("agent-q-text-clean", (value,))?.into_rust(),
                false => Err(error),
            }
        });
        text.map(Self)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self)
    }
}
