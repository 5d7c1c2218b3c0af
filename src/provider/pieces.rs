// SPDX-License-Identifier: GPL-3.0-or-later
//! What there is to show of a reply since somebody last looked: neighbouring pieces of the same thing
//! are one. Pure.

use super::StreamEvent;
use super::model_text::Shown;

#[derive(Debug, Default)]
pub struct Pieces(Vec<StreamEvent>);

impl Pieces {
    /// A piece of text is to be shown.
    pub fn shown(&mut self, shown: Shown<'_>) {
        match shown {
            Shown::Answer(text) => self.text(text),
            Shown::Thinking(text) => self.reasoning(text),
        }
    }

    /// MORE of the text came.
    fn text(&mut self, more: &str) {
        match self.0.last_mut() {
            Some(StreamEvent::Text(shown)) => shown.push_str(more),
            _ => self.0.push(StreamEvent::Text(more.to_owned())),
        }
    }

    /// MORE of the thinking came.
    pub fn reasoning(&mut self, more: &str) {
        match self.0.last_mut() {
            Some(StreamEvent::Reasoning(shown)) => shown.push_str(more),
            _ => self.0.push(StreamEvent::Reasoning(more.to_owned())),
        }
    }

    /// MORE of the arguments of the call of the number NUMBER, to TOOL, came.
    pub fn arguments(&mut self, number: usize, tool: &str, more: &str) {
        match self.0.last_mut() {
            Some(StreamEvent::Arguments {
                call, more: shown, ..
            }) if *call == number => shown.push_str(more),
            _ => self.0.push(StreamEvent::Arguments {
                call: number,
                tool: tool.to_owned(),
                more: more.to_owned(),
            }),
        }
    }

    pub fn take(&mut self) -> Vec<StreamEvent> {
        std::mem::take(&mut self.0)
    }
}
