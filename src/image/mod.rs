// SPDX-License-Identifier: GPL-3.0-or-later
//! The Lisp image as the core sees it: property lists that go out as text for Emacs's `read`, and
//! replies of the Common Lisp half that come back as text. No sockets: Emacs has the connection.

mod reply;

use lexpr::Value;

pub use reply::{MalformedReply, parse, parse_added, parse_reply, quoted_files};

/// What the Common Lisp half replied.
#[derive(Debug, Clone, PartialEq)]
pub enum ImageReply {
    /// The operation's own data, a property list.
    Returned(Value),
    /// An expected miss: one sentence that says what to try.
    Missed(String),
    /// A condition that nobody handled.
    Error(ConditionReport),
    /// The call was stopped.
    Cancelled(Stopped),
}

impl ImageReply {
    /// The same for a tool that can choose no restart: they would only be tried in vain.
    #[must_use]
    pub fn without_restarts(mut self) -> Self {
        if let Self::Error(report) = &mut self {
            report.restarts.clear();
        }
        self
    }
}

/// A call that was stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Stopped {
    /// Why and after how long, as Emacs or the image says.
    pub because: Option<String>,
    /// How much was allocated while it ran, such as `650 MB`.
    pub allocated: Option<String>,
    /// Where it was, innermost frame first.
    pub frames: Vec<Frame>,
    /// What it had printed.
    pub output: String,
    /// What it had done.
    pub value: Value,
}

/// A frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What was called, such as `(FOO 1)`.
    pub text: String,
    /// Where in the source it stopped, such as `/src/foo.lisp:9`.
    pub place: Option<String>,
}

/// A condition as the image saw it, before the stack was unwound.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionReport {
    /// The condition's type, such as `DIVISION-BY-ZERO`.
    pub condition_type: String,
    pub message: String,
    /// Names and descriptions of the restarts that were open.
    pub restarts: Vec<(String, String)>,
    /// The backtrace, innermost frame first, cut at our own frames.
    pub frames: Vec<Frame>,
    /// What had been printed.
    pub output: String,
    /// What the operation had done before it failed.
    pub value: Value,
    /// The name of the debugger that keeps its stack alive, when it is parked.
    pub debugger: Option<String>,
}

// Forms for the image: arguments as property lists, printed.

/// A property list of the arguments that have a value; `Value::Null` stands for none.
#[must_use]
pub fn property_list<const N: usize>(properties: [(&str, Value); N]) -> Value {
    Value::list(
        properties
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .flat_map(|(name, value)| [Value::keyword(name), value])
            .collect::<Vec<_>>(),
    )
}

/// The elements of the list FIRST, then those of SECOND.
#[must_use]
pub fn joined_lists(first: Value, second: &Value) -> Value {
    match first.to_vec() {
        Some(elements) => Value::append(elements, second.clone()),
        None => first,
    }
}

/// VALUE as text for Emacs's `read`.
///
/// Only what the image protocol knows has a spelling of its own; other kinds of value are printed
/// as strings.
#[must_use]
pub fn print_arguments(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Nil | Value::Null | Value::Bool(false) => text.push_str("nil"),
        Value::Bool(true) => text.push('t'),
        Value::Keyword(name) => {
            text.push(':');
            text.push_str(name);
        }
        Value::Number(number) if number.is_i64() || number.is_u64() => {
            text.push_str(&number.to_string());
        }
        Value::String(string) => write_string(string, text),
        Value::Cons(cons) => {
            text.push('(');
            for (index, pair) in cons.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                write(pair.car(), text);
                if !matches!(pair.cdr(), Value::Cons(_) | Value::Null | Value::Nil) {
                    text.push_str(" . ");
                    write(pair.cdr(), text);
                }
            }
            text.push(')');
        }
        other => write_string(&other.to_string(), text),
    }
}

/// In a string Emacs's reader takes every character as it is but these two.
fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push('"');
}

// Property lists from the image, read by key.

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
