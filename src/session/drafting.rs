// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls as the model writes them: the pieces of their arguments in, what the user can be shown of
//! them out. Nothing runs by this, and nothing is checked yet.

use crate::protocol::{Event, SessionId};

/// No shorter call is told of before it is complete: it is written in no time.
const WORTH_TELLING: usize = 40;

/// The calls of one reply that are being written.
#[derive(Debug)]
pub struct Drafts {
    session: SessionId,
    /// At their numbers in the reply.
    calls: Vec<DraftedCall>,
}

#[derive(Debug, Default)]
struct DraftedCall {
    fields: TextFields,
    /// How many bytes of its texts have come.
    bytes: usize,
    /// What has not been told yet.
    held: Vec<(String, String)>,
}

impl Drafts {
    #[must_use]
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            calls: Vec::new(),
        }
    }

    /// Takes in MORE of the arguments of the call of the number NUMBER, to TOOL; gives what there is to
    /// tell.
    pub fn take(&mut self, number: usize, tool: &str, more: &str) -> Vec<Event> {
        while self.calls.len() <= number {
            self.calls.push(DraftedCall::default());
        }
        let DraftedCall {
            fields,
            bytes,
            held,
        } = &mut self.calls[number];
        fields.read(more, &mut |name, text| {
            *bytes += text.len();
            match held.last_mut() {
                Some((last, before)) if last == name => before.push_str(text),
                _ => held.push((name.to_owned(), text.to_owned())),
            }
        });
        if *bytes < WORTH_TELLING || tool.is_empty() {
            return Vec::new();
        }
        let told = std::mem::take(held).into_iter();
        told.map(|(parameter, text)| Event::CallDrafted {
            session: self.session,
            number: number as u64,
            tool: tool.to_owned(),
            parameter,
            text,
        })
        .collect()
    }
}

// The texts in a JSON object that is still being written: its pieces in, what each adds to which text out. Pure.

/// No escape sequence in a JSON string is longer: a pair of surrogates.
const LONGEST_ESCAPE: usize = "\\ud83d\\ude00".len();

/// An object as far as it has come. Only strings right in it count; what is not JSON ends them.
#[derive(Debug, Default)]
struct TextFields {
    place: FieldPlace,
    /// How many brackets are open.
    depth: usize,
    /// What has come of the string at hand, as it is spelled, without what was told of it already.
    spelled: String,
    /// The name of the field at hand.
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum FieldPlace {
    #[default]
    Before,
    /// In the object, where the name of a field or its end comes next.
    Between,
    Name(StringState),
    /// Behind a name.
    Value,
    Text(StringState),
    /// In a value other than a string.
    Other,
    OtherString(StringState),
    /// Behind the object, or in what is none.
    Over,
}

/// Whether the next character of a string stands for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringState {
    Plain,
    Escaped,
}

impl TextFields {
    /// Takes in MORE of the object, and tells of each text that grew: the name of its field and what
    /// came.
    pub fn read(&mut self, more: &str, tell: &mut dyn FnMut(&str, &str)) {
        let mut start = 0;
        for (place, byte) in more.bytes().enumerate() {
            let before = self.place;
            self.place = self.after(byte);
            match (before, self.place) {
                (FieldPlace::Name(_), FieldPlace::Value) => {
                    self.spelled.push_str(&more[start..place]);
                    self.end_name();
                }
                (FieldPlace::Text(_), FieldPlace::Between) => {
                    self.spelled.push_str(&more[start..place]);
                    self.tell_all(tell);
                }
                (FieldPlace::Between, FieldPlace::Name(_))
                | (FieldPlace::Value, FieldPlace::Text(_)) => {
                    start = place + 1;
                }
                _ => {}
            }
        }
        match self.place {
            FieldPlace::Name(_) => self.spelled.push_str(&more[start..]),
            FieldPlace::Text(_) => {
                self.spelled.push_str(&more[start..]);
                self.tell_readable(tell);
            }
            _ => {}
        }
    }

    /// The place behind BYTE.
    fn after(&mut self, byte: u8) -> FieldPlace {
        use FieldPlace::{Before, Between, Name, Other, OtherString, Over, Text, Value};
        match (self.place, byte) {
            (Name(state), _) => in_string(state, byte).map_or(Value, Name),
            (Text(state), _) => in_string(state, byte).map_or(Between, Text),
            (OtherString(state), _) => in_string(state, byte).map_or(Other, OtherString),
            (Before, b'{') => Between,
            (place, b' ' | b'\t' | b'\n' | b'\r') => place,
            (Between, b'"') => Name(StringState::Plain),
            (Between, b',') => Between,
            (Value, b':') => Value,
            (Value, b'"') => Text(StringState::Plain),
            (Other, b'"') => OtherString(StringState::Plain),
            (Value | Other, b'{' | b'[') => {
                self.depth += 1;
                Other
            }
            (Other, b'}' | b']') if self.depth > 0 => {
                self.depth -= 1;
                Other
            }
            (Other, b',') if self.depth == 0 => Between,
            (Value | Other, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.')
            | (Other, b',' | b':') => Other,
            _ => Over,
        }
    }

    fn end_name(&mut self) {
        match unescaped(&self.spelled) {
            Some(name) => self.name = name,
            None => self.place = FieldPlace::Over,
        }
        self.spelled.clear();
    }

    /// Tells of the rest of the text at hand, which is complete.
    fn tell_all(&mut self, tell: &mut dyn FnMut(&str, &str)) {
        match unescaped(&self.spelled) {
            Some(text) if text.is_empty() => {}
            Some(text) => tell(&self.name, &text),
            None => self.place = FieldPlace::Over,
        }
        self.spelled.clear();
    }

    /// Tells of the text at hand up to an escape sequence that is not complete.
    fn tell_readable(&mut self, tell: &mut dyn FnMut(&str, &str)) {
        let earliest = self.spelled.len().saturating_sub(LONGEST_ESCAPE);
        let mut end = self.spelled.len();
        loop {
            if let Some(text) = unescaped(&self.spelled[..end]) {
                if !text.is_empty() {
                    tell(&self.name, &text);
                }
                self.spelled.drain(..end);
                return;
            }
            match self.spelled[..end].rfind('\\') {
                Some(escape) if escape >= earliest => end = escape,
                _ => break,
            }
        }
        self.place = FieldPlace::Over;
    }
}

/// How a string goes on behind BYTE; none when that ends it.
fn in_string(state: StringState, byte: u8) -> Option<StringState> {
    match (state, byte) {
        (StringState::Plain, b'"') => None,
        (StringState::Plain, b'\\') => Some(StringState::Escaped),
        _ => Some(StringState::Plain),
    }
}

/// What SPELLED, the inside of a JSON string, says; none when it is not one, or not all of it.
fn unescaped(spelled: &str) -> Option<String> {
    match spelled.contains('\\') {
        true => serde_json::from_str(&format!("\"{spelled}\"")).ok(),
        false => Some(spelled.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn drafted(parameter: &str, text: &str) -> Event {
        Event::CallDrafted {
            session: SessionId(1),
            number: 1,
            tool: "write_file".to_owned(),
            parameter: parameter.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_long_call_is_told_of_from_its_beginning() {
        let mut drafts = Drafts::new(SessionId(1));
        let mut take = |more: &str| drafts.take(1, "write_file", more);
        assert_eq!(take("{\"path\": \"a.li"), []);
        assert_eq!(take("sp\", \"content\": \"(short"), []);
        let long = "x".repeat(40);
        assert_eq!(
            take(&long),
            [
                drafted("path", "a.lisp"),
                drafted("content", &format!("(short{long}"))
            ]
        );
        assert_eq!(take("\\ny"), [drafted("content", "\ny")]);
    }

    #[test]
    fn each_call_is_read_by_itself() {
        let mut drafts = Drafts::new(SessionId(1));
        let long = "x".repeat(100);
        assert_eq!(drafts.take(0, "eval_form", "{\"form\": \"(a"), []);
        let told = drafts.take(1, "write_file", &format!("{{\"content\": \"{long}"));
        assert_eq!(told, [drafted("content", &long)]);
    }

    /// What TEXT, in PIECES, tells of its fields, all of each together.
    fn told<'t>(pieces: impl IntoIterator<Item = &'t str>) -> Vec<(String, String)> {
        let mut fields = TextFields::default();
        let mut told: Vec<(String, String)> = Vec::new();
        for piece in pieces {
            fields.read(piece, &mut |name, more| match told.last_mut() {
                Some((last, text)) if last == name => text.push_str(more),
                _ => told.push((name.to_owned(), more.to_owned())),
            });
        }
        told
    }

    fn by_characters(text: &str) -> Vec<(String, String)> {
        let ends = text.char_indices().skip(1).map(|(place, _)| place);
        let mut start = 0;
        told(ends.chain([text.len()]).map(|end| {
            let piece = &text[start..end];
            start = end;
            piece
        }))
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn texts_grow_as_they_come() {
        let mut fields = TextFields::default();
        let mut told = Vec::new();
        for piece in [
            "{\"pa",
            "th\": \"a.",
            "lisp\", \"new\":\"(a\\",
            "nb",
            ")\\u00",
        ] {
            fields.read(piece, &mut |name, more| {
                told.push(format!("{name}: {more}"));
            });
        }
        assert_eq!(
            told,
            ["path: a.", "path: lisp", "new: (a", "new: \nb", "new: )"]
        );
    }

    #[test]
    fn other_values_are_passed_over() {
        let text = r#" { "a" : [1, {"b": "}\""}, "x"], "n": -1.5E+3, "c": "yes", "t": true,
            "o": {"d": "no"}, "e": "", "f": "last" } {"g": "behind"}"#;
        let expected = pairs(&[("c", "yes"), ("f", "last")]);
        assert_eq!(told([text]), expected);
        assert_eq!(by_characters(text), expected);
    }

    #[test]
    fn what_is_no_object_tells_nothing_more() {
        for (text, expected) in [
            ("", pairs(&[])),
            ("[\"a\"]", pairs(&[])),
            ("\"a\": \"b\"", pairs(&[])),
            ("{\"a\": \"b\"} \"c\": \"d\"", pairs(&[("a", "b")])),
            ("{\"a\": \"b\\x\", \"c\": \"d\"}", pairs(&[])),
            ("{\"a\": \"\\ud83d\", \"c\": \"d\"}", pairs(&[])),
            ("{\"a\\x\": \"b\"}", pairs(&[])),
            ("{\"a\": ]\"b\"}", pairs(&[])),
        ] {
            assert_eq!(told([text]), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_pieces_tell_what_a_parser_reads(
            fields in proptest::collection::btree_map("\\PC{0,6}", "(?s).{0,40}", 0..5),
            number in any::<i32>(),
        ) {
            let mut object: Map<String, Value> =
                fields.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
            object.insert("a number".to_owned(), json!(number));
            object.insert("a list".to_owned(), json!([fields]));
            let plain = Value::from(object).to_string();
            let ascii: String = plain
                .encode_utf16()
                .map(|unit| match u8::try_from(unit) {
                    Ok(byte @ b' '..=b'~') => char::from(byte).to_string(),
                    _ => format!("\\u{unit:04X}"),
                })
                .collect();
            let mut expected: Vec<_> =
                fields.into_iter().filter(|(_, text)| !text.is_empty()).collect();
            expected.sort();
            for text in [plain, ascii] {
                let mut whole = told([text.as_str()]);
                whole.sort();
                prop_assert_eq!(&whole, &expected);
                let mut pieces = by_characters(&text);
                pieces.sort();
                prop_assert_eq!(&pieces, &expected);
            }
        }
    }
}
