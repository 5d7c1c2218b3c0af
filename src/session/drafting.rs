// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls as the model writes them: the pieces of their arguments in, what the user can be shown of
//! them out. Nothing runs by this, and nothing is checked yet.

use crate::protocol::{Event, SessionId};
use crate::provider::fields::TextFields;

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

#[cfg(test)]
mod tests {
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
}
