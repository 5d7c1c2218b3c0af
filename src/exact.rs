// SPDX-License-Identifier: GPL-3.0-or-later
//! Finds the integers of a JSON text that 64 bits can't hold. Reading them would silently make
//! other numbers of them, so what has them is refused.

use serde_json::Value;

/// An integer that does not fit into 64 bits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}{number} does not fit into 64 bits and would change; give it as a string, or as a decimal if its digits do not matter",
    prefix(path)
)]
pub struct Unfit {
    /// Where, such as `address.city` or `items[2]`; empty for the text as a whole.
    pub path: String,
    /// As it is written.
    pub number: String,
}

/// The first integers of a text that do not fit; prints one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct Unfits(pub Vec<Unfit>);

/// How many integers are named. A text with more of them is mended by what it is told of these.
const MOST_NAMED: usize = 20;

/// How much of a number, or of a key in its path, is shown.
const LONGEST_SHOWN: usize = 80;

/// Where the reader is: in an array, or in an object once its key is known.
enum Container {
    Element(usize),
    Member(Option<String>),
}

/// What is wrong with the numbers of the JSON text, which is known to be valid; none if nothing.
#[must_use]
pub fn problems(json: &str) -> Option<Unfits> {
    // Most texts have no number that is long enough.
    const FEWEST_DIGITS: usize = 19;
    let mut digits = 0;
    let suspicious = json.bytes().any(|byte| {
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        digits >= FEWEST_DIGITS
    });
    if !suspicious {
        return None;
    }
    let found = search(json);
    (!found.is_empty()).then_some(Unfits(found))
}

/// The schema that the JSON text is, with its numbers as they are written.
///
/// # Errors
///
/// When it is no JSON, or has integers that would change.
pub fn schema(json: &str) -> Result<Value, String> {
    let schema =
        serde_json::from_str(json).map_err(|error| format!("The schema is not JSON: {error}"))?;
    match problems(json) {
        Some(problems) => Err(format!("The schema can't be kept as it is: {problems}")),
        None => Ok(schema),
    }
}

fn search(json: &str) -> Vec<Unfit> {
    let mut found = Vec::new();
    let mut places: Vec<Container> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = json.as_bytes().get(at)
        && found.len() < MOST_NAMED
    {
        let start = at;
        at += 1;
        match byte {
            b'{' => places.push(Container::Member(None)),
            b'[' => places.push(Container::Element(0)),
            b'}' | b']' => {
                places.pop();
            }
            b',' => match places.last_mut() {
                Some(Container::Element(index)) => *index += 1,
                Some(Container::Member(key)) => *key = None,
                None => {}
            },
            b'"' => {
                at = end_of_string(json, at);
                if let Some(Container::Member(key @ None)) = places.last_mut() {
                    let text: Option<String> = serde_json::from_str(&json[start..at]).ok();
                    *key = text.map(|text| shown(&text));
                }
            }
            b'-' | b'0'..=b'9' => {
                at = end_of_number(json, at);
                let number = &json[start..at];
                if !fits(number) {
                    found.push(Unfit {
                        path: path(&places),
                        number: shown(number),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

/// Behind the quote that ends the string with its first character at START.
fn end_of_string(json: &str, start: usize) -> usize {
    let mut escaped = false;
    for (offset, byte) in json.bytes().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return offset + 1,
            _ => {}
        }
    }
    json.len()
}

fn end_of_number(json: &str, start: usize) -> usize {
    json[start..]
        .find(|character: char| !matches!(character, '0'..='9' | '.' | 'e' | 'E' | '+' | '-'))
        .map_or(json.len(), |length| start + length)
}

/// TEXT, or its beginning.
fn shown(text: &str) -> String {
    match text.char_indices().nth(LONGEST_SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Decimals are the nearest floating-point number, here as in Emacs; integers are exact.
fn fits(number: &str) -> bool {
    number.contains(['.', 'e', 'E'])
        || number.parse::<i64>().is_ok()
        || number.parse::<u64>().is_ok()
}

fn path(places: &[Container]) -> String {
    let mut path = String::new();
    for place in places {
        match place {
            Container::Element(index) => path.push_str(&format!("[{index}]")),
            Container::Member(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key.as_deref().unwrap_or_default());
            }
        }
    }
    path
}

fn prefix(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("{path}: ")
    }
}

fn lines(unfits: &[Unfit]) -> String {
    let lines: Vec<String> = unfits.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(json: &str) -> Vec<String> {
        problems(json)
            .map(|problems| problems.0.into_iter().map(|it| it.path).collect())
            .unwrap_or_default()
    }

    #[test]
    fn what_64_bits_hold_is_let_be() {
        for json in [
            "{}",
            r#"{"a": 18446744073709551615, "b": -9223372036854775808, "c": 1e300}"#,
            r#"{"a": 123456789012345678901234567890.5}"#,
            r#"{"a": "123456789012345678901234567890", "\\": "\"123456789012345678901234567890"}"#,
        ] {
            assert!(problems(json).is_none(), "{json}");
        }
    }

    #[test]
    fn a_schema_keeps_its_digits_or_is_refused() {
        let of_default = |number: &str| {
            schema(&format!(
                r#"{{"properties": {{"n": {{"default": {number}}}}}}}"#
            ))
        };
        let kept = of_default("18446744073709551615").unwrap();
        assert_eq!(kept["properties"]["n"]["default"], u64::MAX);
        let problem = of_default("123456789012345678901234").unwrap_err();
        assert!(
            problem.contains("properties.n.default: 123456789012345678901234 does not fit"),
            "{problem}"
        );
        assert!(schema("{").unwrap_err().contains("not JSON"));
    }

    #[test]
    fn each_integer_beyond_is_named_with_its_path() {
        let big = "18446744073709551616";
        assert_eq!(paths(big), [""]);
        let json = format!(
            r#"{{"a": [1, {{"b \"c": -{big}}}, [{big}]], "d": 1, "{big}": {{}}, "e": {big}}}"#
        );
        assert_eq!(paths(&json), ["a[1].b \"c", "a[2][0]", "e"]);
        let many = format!(
            r#"{{"{}": [{}]}}"#,
            "k".repeat(100_000),
            vec![big.repeat(10); 1000].join(",")
        );
        assert!(problems(&many).unwrap().to_string().len() < 10_000);
        let sentence = problems(r#"{"n": 18446744073709551616}"#)
            .unwrap()
            .to_string();
        assert!(sentence.starts_with("n: 18446744073709551616 does not fit"));
    }
}
