// SPDX-License-Identifier: GPL-3.0-or-later
//! JSON that servers and models nearly write: numbers that are none, line ends in strings, and halves of a
//! pair of surrogates, which a server that cuts its text into UTF-16 units sends one by one. Pure.

use std::ops::Range;

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
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

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
