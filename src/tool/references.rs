// SPDX-License-Identifier: GPL-3.0-or-later
//! Ways through a JSON Schema, for what goes through arguments beside their schema: references inside
//! the schema, and the schemas of an array's elements.

use serde_json::Value;

/// How deep arguments are gone into, and how many references may lead to one another.
pub const DEEPEST: usize = 64;

/// SCHEMA, a part of ROOT, and what it refers to inside of that.
pub fn with_references<'s>(root: &'s Value, mut schema: &'s Value) -> Vec<&'s Value> {
    let mut all = vec![schema];
    while let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
        let target = pointer
            .strip_prefix('#')
            .and_then(|path| root.pointer(&unescaped(path)));
        match target {
            Some(target) if !all.iter().any(|it| std::ptr::eq(*it, target)) => {
                all.push(target);
                schema = target;
            }
            _ => break,
        }
    }
    all
}

/// The schemas that SCHEMA has for the first elements of an array, and the one for the others.
/// Draft 7 has those of the first elements in `items` too, 2020-12 beside it.
pub fn of_elements(schema: &Value) -> (&[Value], Option<&Value>) {
    match (schema.get("prefixItems"), schema.get("items")) {
        (_, Some(Value::Array(first))) => (first.as_slice(), schema.get("additionalItems")),
        (Some(Value::Array(first)), items) => (first.as_slice(), items),
        (_, items) => (&[], items),
    }
}

/// A reference is part of an address, where some characters are written as `%25`.
fn unescaped(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'%')
            .then(|| std::str::from_utf8(after.get(..2)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
