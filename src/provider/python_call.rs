// SPDX-License-Identifier: GPL-3.0-or-later
//! Arguments as in a call of Python, `text="a", count=3`, which some models write. Pure; `written_calls` finds
//! where they begin.

use serde_json::{Map, Value};

/// How deep lists in lists are read.
const DEEPEST: usize = 20;

/// The arguments at the beginning of TEXT, which is behind a call's open parenthesis, and what is behind the
/// closing one.
#[must_use]
pub fn arguments(text: &str) -> Option<(Value, &str)> {
    let mut arguments = Map::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(behind) = rest.strip_prefix(')') {
            return Some((arguments.into(), behind));
        }
        let (name, after) = rest.split_once('=')?;
        let name = name.trim();
        let is_name = |it: char| it.is_alphanumeric() || it == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let (value, after) = value(after, DEEPEST)?;
        if arguments.insert(name.to_owned(), value).is_some() {
            return None;
        }
        rest = next(after, ')')?;
    }
}

/// The value at the beginning of TEXT, and what is behind it.
fn value(text: &str, depth: usize) -> Option<(Value, &str)> {
    let text = text.trim_start();
    match text.chars().next()? {
        '"' | '\'' => string(text),
        '[' if depth > 0 => {
            let (mut list, mut rest) = (Vec::new(), text[1..].trim_start());
            while !rest.starts_with(']') {
                let (element, after) = value(rest, depth - 1)?;
                list.push(element);
                rest = next(after, ']')?;
            }
            Some((list.into(), &rest[1..]))
        }
        '{' if depth > 0 => {
            let (mut object, mut rest) = (Map::new(), text[1..].trim_start());
            while !rest.starts_with('}') {
                let (name, after) = string(rest)?;
                let (element, after) = value(after.trim_start().strip_prefix(':')?, depth - 1)?;
                object.insert(name.as_str()?.to_owned(), element);
                rest = next(after, '}')?;
            }
            Some((object.into(), &rest[1..]))
        }
        _ => {
            let end = text.find([',', ')', ']', '}'])?;
            let word = match text[..end].trim_end() {
                "None" => "null",
                "True" => "true",
                "False" => "false",
                word => word,
            };
            Some((serde_json::from_str(word).ok()?, &text[end..]))
        }
    }
}

/// What is behind the comma that separates a value from another; TEXT itself where CLOSE comes.
fn next(text: &str, close: char) -> Option<&str> {
    let text = text.trim_start();
    match text.strip_prefix(',') {
        Some(rest) => Some(rest.trim_start()),
        None => text.starts_with(close).then_some(text),
    }
}

/// The string at the beginning of TEXT, and what is behind it.
fn string(text: &str) -> Option<(Value, &str)> {
    let quote = text.chars().next().filter(|it| matches!(it, '"' | '\''))?;
    let mut said = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((place, character)) = characters.next() {
        match character {
            _ if character == quote => return Some((said.into(), &text[place + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => said.push('\n'),
                't' => said.push('\t'),
                'r' => said.push('\r'),
                escaped @ ('\\' | '\'' | '"') => said.push(escaped),
                // Others are too seldom to be guessed at.
                _ => return None,
            },
            other => said.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn arguments_of_python_are_read() {
        for (text, expected) in [
            (")", json!({})),
            ("text=\"a\")", json!({"text": "a"})),
            (
                "text='it\\'s', n=-3, b=True)",
                json!({"text": "it's", "n": -3, "b": true}),
            ),
            (
                "l=['a', None], o={'k': [1.5,],})",
                json!({"l": ["a", null], "o": {"k": [1.5]}}),
            ),
        ] {
            assert_eq!(arguments(text), Some((expected, "")), "{text}");
        }
        assert_eq!(arguments("a=1) more"), Some((json!({"a": 1}), " more")));
    }

    #[test]
    fn what_is_cut_or_computed_is_none() {
        for text in [
            "",
            "text=\"a",
            "text=\"a\"",
            "\"a\")",
            "a=b)",
            "a=1, a=2)",
            "a=f(x))",
            "a=[1)",
            "a=\"\\x41\")",
        ] {
            assert_eq!(arguments(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "(a|=|'|\"|\\[|\\{|\\}|\\]|,|:|\\)|1| |\\\\|é){0,24}") {
            let _ = arguments(&text);
        }
    }
}
