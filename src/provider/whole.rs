// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a text that comes in pieces is one whole JSON object by now. It is read once, however
//! often that is asked.

/// What is known of the text.
#[derive(Debug, Clone, Copy, Default)]
pub struct WholeObject {
    place: ReadState,
    /// How many brackets are open.
    depth: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ReadState {
    #[default]
    Before,
    Inside,
    InString,
    Escaped,
    /// Behind its last bracket; nobody has looked whether it is valid.
    Behind,
    /// Behind its last bracket, and it is valid.
    Whole,
    /// It is no object, whatever follows.
    Never,
}

impl WholeObject {
    /// Takes in MORE of the text.
    pub fn read(&mut self, more: &str) {
        for byte in more.bytes() {
            self.place = match (self.place, byte) {
                (ReadState::Never, _) => return,
                (ReadState::Escaped, _) | (ReadState::InString, ..=b'!' | b'#'..=b'[' | b']'..) => {
                    ReadState::InString
                }
                (ReadState::InString, b'\\') => ReadState::Escaped,
                (ReadState::InString, b'"') => ReadState::Inside,
                (ReadState::Inside, b'"') => ReadState::InString,
                (place, b' ' | b'\t' | b'\n' | b'\r') => place,
                (ReadState::Before, b'{') | (ReadState::Inside, b'{' | b'[') => {
                    self.depth += 1;
                    ReadState::Inside
                }
                (ReadState::Inside, b'}' | b']') => {
                    self.depth -= 1;
                    match self.depth {
                        0 => ReadState::Behind,
                        _ => ReadState::Inside,
                    }
                }
                (ReadState::Inside, _) => ReadState::Inside,
                (ReadState::Before | ReadState::Behind | ReadState::Whole, _) => ReadState::Never,
            };
        }
    }

    /// Whether TEXT, all of what was read, is an object.
    pub fn is(&mut self, text: &str) -> bool {
        if self.place == ReadState::Behind {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            self.place = if valid {
                ReadState::Whole
            } else {
                ReadState::Never
            };
        }
        self.place == ReadState::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_an_object_in_any_pieces() {
        for (text, whole) in [
            ("{}", true),
            (" {\"a\": [1, {\"b\": \"}\\\"]\"}]}\n", true),
            ("{\"a\": \"\\\\\"}", true),
            ("", false),
            ("[]", false),
            ("{\"a\"", false),
            ("{\"a\": \"}", false),
            ("{} {}", false),
            ("{}x", false),
            ("{x}", false),
            ("{]", false),
            ("}", false),
        ] {
            let mut object = WholeObject::default();
            for (place, character) in text.char_indices() {
                object.read(&text[place..place + character.len_utf8()]);
            }
            assert_eq!(object.is(text), whole, "{text}");
            assert_eq!(object.is(text), whole, "{text}, asked again");
        }
    }
}
