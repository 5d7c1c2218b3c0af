// SPDX-License-Identifier: GPL-3.0-or-later
//! What the text of a call's arguments means. Models and servers send them in some disguises, of which those
//! that can mean only one thing are read; what is ambiguous stays an error, which the model is told. Pure.

use std::borrow::Cow;

use serde_json::de::StrRead;
use serde_json::{Map, StreamDeserializer, Value};

use super::nearly_json::mended;
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
}
