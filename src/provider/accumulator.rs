// SPDX-License-Identifier: GPL-3.0-or-later
//! Puts streamed tool calls together again, whatever a server does with ids, indexes and names, and knows
//! how much of a reply is taken. Pure; dialects feed it the `tool_calls` of each delta.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::arguments::{plain_name, understood};
use crate::protocol::{CallArguments, ToolCall};

// How much of a reply is taken. No honest model comes near; a mad or hostile server must not fill
// the memory, the chat or the logs.

/// The most bytes of text in a reply, and the most of reasoning.
pub const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// The most bytes of all tool calls of a reply: their arguments, names and ids. The longest replies
/// that models can give are a quarter of it.
pub const MAX_CALL_BYTES: usize = 2 * 1024 * 1024;

/// The most tool calls that a reply may have. Far fewer of them are run.
pub const MAX_CALLS: usize = 1024;

/// The most parts that a reply may have, whatever is in them.
pub const MAX_PARTS: usize = 65_536;

/// What there is too much of in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    #[error("its text is longer than {} MB", MAX_TEXT_BYTES >> 20)]
    Text,
    #[error("its reasoning is longer than {} MB", MAX_TEXT_BYTES >> 20)]
    Reasoning,
    #[error(
        "the arguments of its tool calls are longer than {} MB, so no call was run",
        MAX_CALL_BYTES >> 20
    )]
    Arguments,
    #[error("it has more than {MAX_CALLS} tool calls, so no call was run")]
    Calls,
    #[error("it has more than {MAX_PARTS} parts")]
    Parts,
}

/// About how many bytes VALUE has as JSON.
#[must_use]
pub fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => 2 + values.iter().map(|it| size_of(it) + 1).sum::<usize>(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| name.len() + 4 + size_of(value);
            2 + fields.iter().map(field).sum::<usize>()
        }
    }
}

/// How the reply that carried the calls ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEnd {
    /// The provider said that it was complete.
    Complete,
    /// It met a limit, a filter or an error, or the connection was lost. No call of it runs: the
    /// wire has no mark for the end of a call, so even one that was followed by another is only
    /// likely to be whole.
    Cut,
}

impl ReplyEnd {
    /// The call with ID, of the tool NAME with the text ARGUMENTS, in a reply that ended so.
    pub(super) fn call(self, id: String, name: &str, arguments: String) -> ToolCall {
        let (arguments, mut raw_arguments) = match self {
            Self::Complete => understood(arguments),
            Self::Cut => (CallArguments::Truncated, arguments),
        };
        // A history keeps it, but not the room in which it grew.
        raw_arguments.shrink_to_fit();
        ToolCall {
            id,
            name: plain_name(name).to_owned(),
            arguments,
            raw_arguments,
        }
    }
}

/// The calls of one reply.
#[derive(Debug, Default)]
pub struct CallAccumulator {
    calls: Vec<OpenCall>,
    by_id: HashMap<String, usize>,
    /// The call last seen at each index. Indexes may be sparse, repeated or absent.
    by_index: BTreeMap<i64, usize>,
    /// How many bytes all this has.
    bytes: usize,
}

#[derive(Debug, Default)]
struct OpenCall {
    id: String,
    name: String,
    arguments: String,
    whole: WholeObject,
}

impl OpenCall {
    /// Most servers say the name once; some repeat it, and some send it in pieces.
    fn add_name(&mut self, name: &str) {
        if name.starts_with(&self.name) {
            self.name = name.to_owned();
        } else if self.arguments.is_empty() {
            self.name.push_str(name);
        }
    }
}

/// One element of a delta's `tool_calls`.
#[derive(Debug)]
pub struct CallFragment<'a> {
    pub id: &'a str,
    pub index: Option<i64>,
    /// Some routers send the word "null" for none.
    pub name: &'a str,
    pub arguments: Cow<'a, str>,
}

impl<'a> CallFragment<'a> {
    fn name(&self) -> &'a str {
        match self.name.trim() {
            "null" => "",
            name => name,
        }
    }
}

impl CallAccumulator {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// How many bytes of calls have come.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Take one element of a delta's `tool_calls`; give which call it is of, from 0, and the tool's name
    /// as far as that is known.
    ///
    /// # Errors
    ///
    /// When there are more calls than any reply may have, or more of them.
    pub fn push(&mut self, fragment: &CallFragment<'_>) -> Result<(usize, &str), TooMuch> {
        let name = fragment.name();
        self.bytes += fragment.id.len() + name.len() + fragment.arguments.len();
        if self.bytes > MAX_CALL_BYTES {
            return Err(TooMuch::Arguments);
        }
        let position = match self.find(fragment) {
            Some(position) => position,
            None if self.calls.len() == MAX_CALLS => return Err(TooMuch::Calls),
            None => {
                self.calls.push(OpenCall::default());
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[position];
        if call.id.is_empty() && !fragment.id.is_empty() {
            call.id = fragment.id.to_owned();
            self.by_id.insert(call.id.clone(), position);
        }
        call.add_name(name);
        call.arguments.push_str(&fragment.arguments);
        call.whole.read(&fragment.arguments);
        if let Some(index) = fragment.index {
            self.by_index.insert(index, position);
        }
        Ok((position, &self.calls[position].name))
    }

    /// The call that a fragment continues; none when it starts one. Its id decides, then its
    /// index, then what came last.
    fn find(&mut self, fragment: &CallFragment<'_>) -> Option<usize> {
        let at_index = fragment
            .index
            .and_then(|index| self.by_index.get(&index).copied());
        if !fragment.id.is_empty() {
            let by_id = at_index
                .filter(|&position| self.calls[position].id == fragment.id)
                .or_else(|| self.by_id.get(fragment.id).copied());
            if by_id.is_some_and(|position| self.repeats_id(position, at_index, fragment)) {
                return None;
            }
            // A known index with a new id is a new call (some servers number every call 0),
            // unless the id of a call that has none comes late.
            let late_id = || {
                at_index.filter(|&position| {
                    fragment.name().is_empty() && self.calls[position].id.is_empty()
                })
            };
            return by_id.or_else(late_id);
        }
        let position = match (at_index, fragment.index) {
            (Some(position), _) => position,
            (None, Some(_)) => return self.new_index(fragment),
            (None, None) => self.calls.len().checked_sub(1)?,
        };
        if fragment.name().is_empty() {
            return Some(position);
        }
        let target = &mut self.calls[position];
        // A server that gives ids gives one to each call: without one, this is more of the name.
        if !target.id.is_empty() && target.arguments.is_empty() {
            return Some(position);
        }
        let renamed = fragment.name() != target.name;
        // A whole object behind a whole object can't continue it.
        let starts = is_object(&fragment.arguments)
            && (renamed || target.whole.is(&target.arguments))
            || at_index.is_none() && renamed && target.whole.is(&target.arguments);
        (!starts).then_some(position)
    }

    /// Whether FRAGMENT, with the id of the call at POSITION, starts another call, as servers that give one id
    /// to all their calls have it: at another index, or by a whole object behind a whole object.
    fn repeats_id(
        &mut self,
        position: usize,
        at_index: Option<usize>,
        fragment: &CallFragment<'_>,
    ) -> bool {
        let elsewhere = fragment.index.is_some() && at_index != Some(position);
        let call = &mut self.calls[position];
        !fragment.name().is_empty()
            && (elsewhere || is_object(&fragment.arguments) && call.whole.is(&call.arguments))
    }

    /// An index that was not seen before starts a call, unless the fragment has nothing that a
    /// start has: then it continues the latest call.
    fn new_index(&self, fragment: &CallFragment<'_>) -> Option<usize> {
        fragment
            .name()
            .is_empty()
            .then(|| self.calls.len().checked_sub(1))
            .flatten()
    }

    /// The calls in the order in which they began.
    #[must_use]
    pub fn finish(self, ending: ReplyEnd) -> Vec<ToolCall> {
        let calls = self.calls.into_iter();
        calls
            .map(|call| ending.call(call.id, &call.name, call.arguments))
            .collect()
    }
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// An id for a call that came without one: nine letters and digits, which every provider takes
/// back, and not used before in this process.
#[must_use]
pub fn new_call_id() -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    const LENGTH: usize = 9;
    static NEXT: LazyLock<AtomicU64> =
        LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one("call") % 36_u64.pow(8)));
    let mut number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut id = String::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        id.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
    }
    id
}

// Whether a text that comes in pieces is one whole JSON object by now. It is read once, however often
// that is asked.

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
