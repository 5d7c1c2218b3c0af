// SPDX-License-Identifier: GPL-3.0-or-later
//! What can be had of a message that can't be read: its id, under which it is answered. Otherwise its
//! sender would wait for ever. The bridge uses this file, too.

use serde_json::Value;

/// The longest id that is looked for.
const LONGEST_ID: usize = 1000;

/// Looks for the id of a message, whose text comes in pieces of any size.
#[derive(Debug, Default)]
pub struct IdFinder {
    depth: usize,
    escaped: bool,
    in_string: bool,
    /// Whether the next string in the message's object is a key.
    at_key: bool,
    /// The text of the string or value that is being read, where it may matter.
    text: Vec<u8>,
    reading: Member,
    id: Option<Value>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Member {
    #[default]
    Nothing,
    Key,
    /// The value of the key "id".
    Id,
}

impl IdFinder {
    /// The id of the message TEXT, if it has one.
    #[must_use]
    pub fn find(text: &[u8]) -> Option<Value> {
        let mut finder = Self::default();
        finder.feed(text);
        finder.id()
    }

    /// What was found.
    #[must_use]
    pub fn id(self) -> Option<Value> {
        self.id
    }

    /// Goes on with TEXT.
    pub fn feed(&mut self, text: &[u8]) {
        for byte in text {
            if self.id.is_none() {
                self.step(*byte);
            }
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            return self.step_in_string(byte);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 && self.at_key {
                    self.reading = Member::Key;
                    self.text.clear();
                }
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.at_key = self.depth == 1 && byte == b'{';
                self.reading = Member::Nothing;
            }
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.depth == 1 => {
                self.end_value();
                self.at_key = true;
            }
            b':' if self.depth == 1 && self.reading == Member::Key => {
                let is_id = self.text == b"\"id\"";
                self.reading = if is_id { Member::Id } else { Member::Nothing };
                self.at_key = false;
                self.text.clear();
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => self.keep(byte),
        }
    }

    fn step_in_string(&mut self, byte: u8) {
        self.keep(byte);
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.reading == Member::Nothing {
            return;
        }
        if self.text.len() > LONGEST_ID {
            self.reading = Member::Nothing;
            self.text.clear();
            return;
        }
        self.text.push(byte);
    }

    fn end_value(&mut self) {
        if self.depth == 1 && self.reading == Member::Id {
            let id = serde_json::from_slice(&self.text).ok();
            self.id = id.filter(|id: &Value| id.is_string() || id.is_number());
        }
        if self.depth == 1 {
            self.reading = Member::Nothing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_id_is_found_wherever_it_is() {
        for (text, id) in [
            (r#"{"id":7,"method":"m"}"#, json!(7)),
            (r#"{"method":"m","params":{"id":1},"id":"s"}"#, json!("s")),
            (r#"{"a":"\"id\":3,","id" : "x\"y" , "b":"#, json!("x\"y")),
            ("{\"p\":\"\\ud83d\",\"id\":-1.5}", json!(-1.5)),
        ] {
            assert_eq!(IdFinder::find(text.as_bytes()), Some(id.clone()), "{text}");
            let mut finder = IdFinder::default();
            text.bytes().for_each(|byte| finder.feed(&[byte]));
            assert_eq!(finder.id(), Some(id));
        }
        for text in [
            "",
            "[{\"id\":1}]",
            r#"{"params":{"id":1}}"#,
            r#"{"id":null}"#,
            r#"{"id":{"id":1}}"#,
            r#"{"x":["id",1]}"#,
        ] {
            assert_eq!(IdFinder::find(text.as_bytes()), None, "{text}");
        }
        let long = format!("{{\"id\":\"{}\"}}", "x".repeat(5000));
        assert_eq!(IdFinder::find(long.as_bytes()), None);
    }
}
