// SPDX-License-Identifier: GPL-3.0-or-later
//! Arguments of an image call, printed so that Emacs's `read` gets the same strings, integers,
//! keywords and lists.

use lexpr::Value;

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
