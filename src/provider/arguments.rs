// SPDX-License-Identifier: GPL-3.0-or-later
//! What the text of a call's arguments means. Models and servers send it in some disguises, of which those
//! that can mean only one thing are read; what is ambiguous stays an error, which the model is told. Pure.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::de::StrRead;
use serde_json::{Map, StreamDeserializer, Value};

use crate::exact;
use crate::json_schema::kind_of;
use crate::protocol::CallArguments;

/// What the text of a complete call's arguments means.
#[must_use]
pub fn parse_arguments(text: &str) -> CallArguments {
    understood(text.to_owned()).0
}

/// The same, with the text that says so without any disguise: what goes back to models.
#[must_use]
pub fn understood(text: String) -> (CallArguments, String) {
    if let Ok(Value::Object(arguments)) = serde_json::from_str(&text) {
        return (exactly(arguments, &text), text);
    }
    let object = match object_of(&text) {
        Ok(object) => object.into_owned(),
        Err(reason) => return (CallArguments::Malformed(reason), text),
    };
    match serde_json::from_str(&object) {
        // What says that there are none goes back as it came.
        Ok(Value::Object(none)) if none.is_empty() => (CallArguments::Object(none), text),
        Ok(Value::Object(arguments)) => {
            tracing::info!("arguments of a call came in a disguise and were read");
            (exactly(arguments, &object), object)
        }
        _ => (
            CallArguments::Malformed("the arguments are not a JSON object".to_owned()),
            text,
        ),
    }
}

/// ARGUMENTS as OBJECT says them, if it does so exactly.
fn exactly(arguments: Map<String, Value>, object: &str) -> CallArguments {
    match exact::problems(object) {
        Some(problems) => CallArguments::Inexact(problems.to_string()),
        None => CallArguments::Object(arguments),
    }
}

/// The JSON object that TEXT means: TEXT itself unless it came in a disguise.
///
/// # Errors
///
/// Why it means none.
fn object_of(text: &str) -> Result<Cow<'_, str>, String> {
    let plain = without_wrapping(text.trim());
    // What tools without parameters are called with.
    if matches!(plain, "" | "null" | "None" | "[]" | "\"\"") {
        return Ok("{}".into());
    }
    let problem = match serde_json::from_str::<Value>(plain) {
        Ok(Value::Object(_)) if plain == text => return Ok(text.into()),
        Ok(Value::Object(_)) => return Ok(plain.to_owned().into()),
        Ok(Value::String(inner)) if inner.trim_start().starts_with('{') => {
            // It was encoded twice.
            return object_of(&inner).map(|object| object.into_owned().into());
        }
        Ok(other) => {
            return Err(format!(
                "the arguments must be a JSON object, not {}",
                kind_of(&other)
            ));
        }
        Err(error) => format!("the arguments are not valid JSON: {error}"),
    };
    let mended = mended(plain);
    let plain = mended.as_deref().unwrap_or(plain);
    only_object(plain)
        .map(|object| object.to_owned().into())
        .ok_or(problem)
}

/// TEXT without the fence and the tags around it, of which one side may be missing.
fn without_wrapping(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(rest) = text
        .strip_prefix("```")
        .or_else(|| text.strip_prefix("json").filter(|it| it.contains('{')))
        .or_else(|| after_tag(text))
    {
        text = rest.trim_start();
    }
    while let Some(rest) = text.strip_suffix("```").or_else(|| before_tag(text)) {
        text = rest.trim_end();
    }
    text
}

/// What is behind the tag that an object in TEXT has before it.
fn after_tag(text: &str) -> Option<&str> {
    let (tag, rest) = text.strip_prefix('<')?.split_once('>')?;
    (is_tag(tag) && rest.contains('{')).then_some(rest)
}

/// What is before the tag that an object in TEXT has behind it.
fn before_tag(text: &str) -> Option<&str> {
    let (before, tag) = text.strip_suffix('>')?.rsplit_once('<')?;
    let ends = before.trim_end().ends_with(['}', '>', '`']);
    (is_tag(tag) && ends).then_some(before)
}

/// Whether TAG is what stands between the signs of a tag.
fn is_tag(tag: &str) -> bool {
    let name = tag.trim_matches(['/', '|']);
    !name.is_empty() && name.chars().all(|it| it.is_alphanumeric() || it == '_')
}

/// The only object that TEXT, one or more JSON values, says: behind an empty one, or the same twice.
fn only_object(text: &str) -> Option<&str> {
    let mut values = StreamDeserializer::<_, Value>::new(StrRead::new(text));
    let mut said: Option<(Map<String, Value>, &str)> = None;
    let mut start = 0;
    while let Some(value) = values.next() {
        let Ok(Value::Object(object)) = value else {
            return None;
        };
        let end = values.byte_offset();
        match &said {
            _ if object.is_empty() && said.is_some() => return None,
            Some((before, _)) if before.is_empty() || *before == object => {}
            Some(_) => return None,
            None => {}
        }
        said = Some((object, text[start..end].trim()));
        start = end;
    }
    said.map(|(_, object)| object)
}

/// NAME, as a model calls a tool, without what some put around names: `functions.look:0`, `<|call|>look` and
/// `look<|channel|>commentary` are `look`. No tool's name has such signs.
#[must_use]
pub fn plain_name(name: &str) -> &str {
    const PREFIXES: [&str; 6] = [
        "functions",
        "function",
        "default_api",
        "tools",
        "tool",
        "call",
    ];
    let mut plain = name.trim();
    while let Some((_, rest)) = plain
        .strip_prefix("<|")
        .and_then(|mark| mark.split_once("|>"))
    {
        plain = rest.trim_start();
    }
    plain = plain.split("<|").next().unwrap_or(plain);
    plain = plain.rsplit_once("to=").map_or(plain, |(_, rest)| rest);
    plain = plain.trim_matches(['"', '\'', '`', ' ']);
    plain = plain.strip_suffix("()").unwrap_or(plain);
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| {
        let rest = plain.strip_prefix(prefix)?;
        let bare = rest.trim_start_matches(['.', ':', '/']);
        (bare != rest).then_some(bare)
    }) {
        plain = rest;
    }
    let numbered = plain.split_once(':');
    let is_number = |it: &str| it.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((bare, _)) = numbered.filter(|(_, number)| is_number(number)) {
        plain = bare;
    }
    if plain.is_empty() { name.trim() } else { plain }
}

// JSON that servers and models nearly write: numbers that are none, line ends in strings, and halves of a
// pair of surrogates, which a server that cuts its text into UTF-16 units sends one by one.

/// How a half of a pair is spelled, without its digits.
const ESCAPE: &str = "\\u";

/// The character for a half without its other half.
const REPLACEMENT: &str = "\\ufffd";

/// TEXT with what JSON does not know put right; none when there is nothing of the kind in it. It may be
/// invalid in other ways.
#[must_use]
pub fn mended(text: &str) -> Option<String> {
    let halves = halves(text);
    let mut mended = String::with_capacity(text.len());
    let mut changed = !halves.is_empty();
    let mut halves = halves.into_iter().peekable();
    let mut characters = text.char_indices();
    let mut in_string = false;
    while let Some((place, character)) = characters.next() {
        let rest = &text[place..];
        if in_string {
            if halves.next_if(|half| half.place.start == place).is_some() {
                mended.push_str(REPLACEMENT);
                characters.nth(LONE_ESCAPE - 2);
            } else if character == '\\' {
                mended.push(character);
                mended.extend(characters.next().map(|(_, escaped)| escaped));
            } else if character < ' ' {
                changed = true;
                mended.push_str(&format!("\\u{:04x}", u32::from(character)));
            } else {
                in_string = character != '"';
                mended.push(character);
            }
        } else if let Some(word) = NO_NUMBERS.iter().find(|word| rest.starts_with(**word)) {
            changed = true;
            mended.push_str("null");
            characters.nth(word.len() - 2);
        } else {
            in_string = character == '"';
            mended.push(character);
        }
    }
    changed.then_some(mended)
}

/// What JavaScript and Python write for numbers that JSON has not.
const NO_NUMBERS: [&str; 3] = ["NaN", "-Infinity", "Infinity"];

/// How long the escape of a half is.
const LONE_ESCAPE: usize = "\\ud83d".len();

/// A half of a pair that stands alone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Half {
    place: Range<usize>,
    which: Which,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    Second,
}

/// Two texts that follow each other, with the character of which the first has one half and the second the
/// other in the first; none when it isn't so.
#[must_use]
pub fn joined(first: &str, second: &str) -> Option<(String, String)> {
    let before = halves(first).pop().filter(|it| it.which == Which::First)?;
    let after = halves(second)
        .into_iter()
        .next()
        .filter(|it| it.which == Which::Second)?;
    let (mut first, mut second) = (first.to_owned(), second.to_owned());
    first.insert_str(before.place.end, &second[after.place.clone()]);
    second.replace_range(after.place, "");
    Some((first, second))
}

/// Whether TEXT ends a string with the first half of a pair, of which the second may follow in the next text.
#[must_use]
pub fn awaits_half(text: &str) -> bool {
    let last = halves(text).pop();
    last.is_some_and(|half| half.which == Which::First && text[half.place.end..].starts_with('"'))
}

/// The halves of pairs in TEXT that stand alone.
fn halves(text: &str) -> Vec<Half> {
    let mut halves: Vec<Half> = Vec::new();
    let mut from = 0;
    while let Some(found) = text[from..].find('\\') {
        let start = from + found;
        let digits = text[start..]
            .strip_prefix(ESCAPE)
            .and_then(|it| it.get(..4));
        let unit = digits.and_then(|it| u16::from_str_radix(it, 16).ok());
        let Some(unit) = unit else {
            // Another escape, of which the second character may be a backslash.
            from = start + 1 + text[start + 1..].chars().next().map_or(0, char::len_utf8);
            continue;
        };
        let place = start..start + LONE_ESCAPE;
        from = place.end;
        match unit {
            0xD800..=0xDBFF => halves.push(Half {
                place,
                which: Which::First,
            }),
            0xDC00..=0xDFFF => match halves.last() {
                Some(last) if last.which == Which::First && last.place.end == start => {
                    halves.pop();
                }
                _ => halves.push(Half {
                    place,
                    which: Which::Second,
                }),
            },
            _ => {}
        }
    }
    halves
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn disguises_that_mean_one_thing_are_read() {
        for (text, object) in [
            ("", "{}"),
            (" null ", "{}"),
            ("[]", "{}"),
            ("\"\"", "{}"),
            ("None", "{}"),
            ("{}", "{}"),
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("{}{\"a\": 1}", "{\"a\": 1}"),
            ("{} {\"a\": 1} ", "{\"a\": 1}"),
            ("{\"a\": 1}{\"a\":1}", "{\"a\":1}"),
            (r#""{\"a\": 1}""#, "{\"a\": 1}"),
            (r#""\"{\\\"a\\\": 1}\"""#, "\"{\\\"a\\\": 1}\""),
            ("```json\n{\"a\": 1}\n```", "{\"a\": 1}"),
            ("{\"a\": 1}</tool_call>", "{\"a\": 1}"),
            ("{\"a\": 1}</function>\n</tool_call>", "{\"a\": 1}"),
            ("{\"a\": 1}<|im_end|>", "{\"a\": 1}"),
            ("{\"a\": 1}\n```", "{\"a\": 1}"),
            ("```{\"a\": 1}```", "{\"a\": 1}"),
            ("<tool_call>\n{\"a\": 1}\n</tool_call>", "{\"a\": 1}"),
            ("json{\"a\": 1}", "{\"a\": 1}"),
            ("{\"a\": \"x\ny\"}", "{\"a\": \"x\\u000ay\"}"),
        ] {
            let expected = match object {
                // Three times is no disguise that anything is known to send.
                it if it.starts_with('"') => None,
                it => Some(it),
            };
            assert_eq!(object_of(text).ok().as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_ambiguous_stays_an_error() {
        for text in [
            "{\"a\": 1}{\"a\": 2}",
            "{\"a\": 1}{}",
            "{\"a\": 1",
            "{\"a\": 1} and more",
            "[{\"a\": 1}]",
            "[1]",
            "\"x\"",
            "3",
            "Here: ```json\n{\"a\": 1}\n```",
            "(car x)",
        ] {
            assert!(object_of(text).is_err(), "{text:?}");
            assert!(matches!(parse_arguments(text), CallArguments::Malformed(_)));
        }
    }

    #[test]
    fn names_lose_what_no_name_has() {
        for (name, plain) in [
            ("look", "look"),
            ("functions.look", "look"),
            ("default_api.look", "look"),
            ("look<|channel|>commentary", "look"),
            (" functions.look<|constrain|>json", "look"),
            ("functions.look:0", "look"),
            ("function:look", "look"),
            ("functions::look", "look"),
            ("functions/look", "look"),
            ("<|constrain|>look", "look"),
            ("commentary to=functions.look", "look"),
            ("\"look\"", "look"),
            ("look()", "look"),
            ("tool_look", "tool_look"),
            ("functions.", "functions."),
            ("my.look", "my.look"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_an_object(text in "(\\{|\\}|\"|a|:|1|,| |\\[|\\]|<|/|>|`|\n|\\\\|NaN){0,24}") {
            if let Ok(object) = object_of(&text) {
                prop_assert!(serde_json::from_str::<Map<String, Value>>(&object).is_ok());
            }
        }
    }

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn what_json_does_not_know_is_put_right() {
        for (text, expected) in [
            (
                r#"{"a": NaN, "b": [-Infinity, Infinity]}"#,
                r#"{"a":null,"b":[null,null]}"#,
            ),
            ("{\"a\": \"x\ny\tz\"}", "{\"a\":\"x\\ny\\tz\"}"),
            (r#"{"a": "NaN \" NaN"}"#, r#"{"a":"NaN \" NaN"}"#),
            (r#"{"a": "x\ud83d"}"#, "{\"a\":\"x\u{fffd}\"}"),
            (
                r#"{"a": "\ude00x\\ud83d"}"#,
                "{\"a\":\"\u{fffd}x\\\\ud83d\"}",
            ),
            (r#"{"a": "\ud83d\ude00\ud83d"}"#, "{\"a\":\"😀\u{fffd}\"}"),
        ] {
            let mended = mended(text).unwrap_or_else(|| text.to_owned());
            assert_eq!(read(&mended).to_string(), expected, "{text}");
        }
        assert_eq!(mended(r#"{"a": "\ud83d\ude00\n"}"#), None);
    }

    #[test]
    fn halves_in_two_texts_become_one_character() {
        let (first, second) = (r#"{"a": "A \ud83d"}"#, r#"{"a": "\ude00 end"}"#);
        assert!(awaits_half(first) && !awaits_half(second));
        let (first, second) = joined(first, second).unwrap();
        assert_eq!(read(&first)["a"], "A 😀");
        assert_eq!(read(&second)["a"], " end");
        assert_eq!(joined(r#"["\ud83d"]"#, r#"["x"]"#), None);
    }

    proptest! {
        #[test]
        fn valid_json_stays_as_it_is(text in ".*") {
            prop_assert_eq!(mended(&Value::from(text).to_string()), None);
        }

        #[test]
        fn no_text_breaks_it(text in "(\\\\|u|d|8|3|e|0|\"|N|a|\n|é){0,40}") {
            let _ = (mended(&text), awaits_half(&text), joined(&text, &text));
        }
    }
}
