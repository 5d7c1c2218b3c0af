// SPDX-License-Identifier: GPL-3.0-or-later
//! Arguments as the audit log has them: long ones are cut, with a mark of how much is missing. The
//! log is read long after, and one call must not fill it.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The most bytes of one text.
const LONGEST_TEXT: usize = 4 * 1024;

/// About how many bytes the arguments of a call take.
const ROOM: usize = 16 * 1024;

/// ARGUMENTS, cut where they are longer than the log takes.
pub fn shortened(arguments: &Value) -> Cow<'_, Value> {
    // What can't be told without writing it all is told by a writer that only counts.
    if written_length(arguments) <= LONGEST_TEXT {
        return Cow::Borrowed(arguments);
    }
    let mut room = ROOM;
    Cow::Owned(cut(arguments, &mut room))
}

/// VALUE within ROOM bytes, which get less by what it takes.
fn cut(value: &Value, room: &mut usize) -> Value {
    *room = room.saturating_sub(3);
    match value {
        Value::String(text) => Value::String(cut_text(text, room)),
        Value::Array(elements) => {
            let mut kept = Vec::new();
            for element in elements {
                if *room == 0 {
                    kept.push(Value::String(missing(
                        elements.len() - kept.len(),
                        "elements",
                    )));
                    break;
                }
                kept.push(cut(element, room));
            }
            Value::Array(kept)
        }
        Value::Object(members) => {
            let mut kept = Map::new();
            for (name, member) in members {
                if *room == 0 {
                    let left_out = members.len() - kept.len();
                    kept.insert("…".to_owned(), missing(left_out, "members").into());
                    break;
                }
                let name = cut_text(name, room);
                kept.insert(name, cut(member, room));
            }
            Value::Object(kept)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            *room = room.saturating_sub(8);
            value.clone()
        }
    }
}

/// TEXT, or its beginning and how much there is.
fn cut_text(text: &str, room: &mut usize) -> String {
    let longest = LONGEST_TEXT.min(*room);
    // Its quotes, too.
    *room = room.saturating_sub(text.len().min(longest) + 3);
    if text.len() <= longest {
        return text.to_owned();
    }
    let end = (0..=longest)
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    format!("{}{}", &text[..end], missing(text.len() - end, "bytes"))
}

fn missing(count: usize, of_what: &str) -> String {
    format!("[… {count} more {of_what} left out …]")
}

/// How many bytes VALUE takes as JSON.
fn written_length(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // What can't be written is long for our purpose.
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_short_stays_as_it_is() {
        let given = json!({"form": "(+ 1 2)", "seconds": 3, "all": [true, null]});
        assert_eq!(*shortened(&given), given);
    }

    #[test]
    fn a_long_text_says_how_much_is_missing() {
        let given = json!({"path": "a.lisp", "content": "ä".repeat(3_000_000), "last": 1});
        let short = shortened(&given);
        assert!(written_length(&short) < 2 * LONGEST_TEXT);
        assert_eq!(short["path"], "a.lisp");
        assert_eq!(short["last"], 1);
        let content = short["content"].as_str().unwrap();
        assert!(content.starts_with("ää"), "{content}");
        assert!(
            content.ends_with("[… 5995904 more bytes left out …]"),
            "{content}"
        );
    }

    #[test]
    fn many_short_parts_are_bounded_too() {
        let members: Map<String, Value> = (0..100_000)
            .map(|it| (format!("name {it}"), json!([it, {"deep": "x".repeat(100)}])))
            .collect();
        for given in [
            Value::Object(members),
            json!({"list": vec!["some text"; 100_000]}),
            json!({"list": vec![json!([]); 1_000_000]}),
            json!({"list": vec![1; 1_000_000]}),
        ] {
            let text = shortened(&given).to_string();
            assert!(text.len() < 3 * ROOM, "{} bytes", text.len());
            assert!(text.contains("left out"), "{}", &text[..200]);
        }
    }
}
