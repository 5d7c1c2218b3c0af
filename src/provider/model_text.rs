// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of an answer as it comes, and what a server left in it that it should have parsed: thinking in
//! tags, which is told apart, and calls written as text, which are held back until `written_calls` has read
//! them. Line ends become plain ones. Pure; `draft` has one for each part of text.

use memchr::memchr3;

use super::written_calls::{CallStart, call_start};

/// What thinking stands between, at the beginning of a text.
const THINKING_TAGS: [(&str, &str); 6] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
];

/// What a template wrote into the prompt's end, so that a text has only the end of its thinking.
const LONE_END: &str = "</think>";

/// Signs of a template at the beginning of a text, which say nothing.
const EMPTY_SIGNS: [&str; 2] = ["<|start|>assistant", "<|channel|>final<|message|>"];

/// Whether calls that are written as text are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Holding {
    #[default]
    Nothing,
    WrittenCalls,
}

/// A piece of text to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown<'a> {
    Answer(&'a str),
    Thinking(&'a str),
}

/// A text as far as it has come.
#[derive(Debug, Default)]
pub struct ModelText {
    thinking: String,
    answer: String,
    /// What has come, and is not yet known to be one or the other.
    undecided: String,
    place: Place,
    /// Where in the answer a call may begin. What is there is not shown yet.
    held: Option<usize>,
    fences: Fences,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// Only blanks have come, or thinking.
    #[default]
    Start,
    /// In thinking, which ends by this.
    Thinking(&'static str),
    Answer,
}

impl ModelText {
    /// Takes in MORE of the text, and tells SHOW what there is to show of it.
    pub fn push(&mut self, more: &str, holding: Holding, show: &mut dyn FnMut(Shown<'_>)) {
        let plain = self.place == Place::Answer
            && self.undecided.is_empty()
            && self.held.is_none()
            && memchr3(b'<', b'[', b'\r', more.as_bytes()).is_none()
            && !more.contains('{');
        if plain {
            self.answer.push_str(more);
            show(Shown::Answer(more));
            return;
        }
        let mut text = std::mem::take(&mut self.undecided);
        text.push_str(more);
        loop {
            let before = (self.place, text.len());
            text = match self.place {
                Place::Start => self.begin(text, holding),
                Place::Thinking(end) => self.think(text, end, show),
                Place::Answer => self.answer(text, holding, show),
            };
            // What is left waits for more, unless a place was left in which it was nothing.
            if text.is_empty()
                || before == (self.place, text.len())
                || self.place == Place::Answer && before.0 == Place::Answer
            {
                break;
            }
        }
        self.undecided = text;
    }

    /// Takes what begins with TEXT out of it; gives what is left.
    fn begin(&mut self, text: String, holding: Holding) -> String {
        let said = text.trim_start();
        if let Some((open, end)) = THINKING_TAGS
            .iter()
            .find(|(open, _)| said.starts_with(open))
        {
            self.place = Place::Thinking(end);
            return said[open.len()..].to_owned();
        }
        if let Some(sign) = EMPTY_SIGNS.iter().find(|sign| said.starts_with(**sign)) {
            return said[sign.len()..].to_owned();
        }
        let tags = THINKING_TAGS.iter().map(|(open, _)| *open);
        let may_begin = |tag: &str| tag.starts_with(said);
        let call = holding == Holding::WrittenCalls && call_start(said) == CallStart::Unclear;
        if said.is_empty() || tags.chain(EMPTY_SIGNS).any(may_begin) || call {
            return text;
        }
        self.place = Place::Answer;
        // Behind thinking, blanks only set the answer apart.
        if self.thinking.is_empty() {
            text
        } else {
            said.to_owned()
        }
    }

    /// Takes the thinking in TEXT, up to END; gives what is left.
    fn think(&mut self, mut text: String, end: &str, show: &mut dyn FnMut(Shown<'_>)) -> String {
        let (thought, rest) = match text.find(end) {
            Some(place) => {
                self.place = Place::Start;
                (place, text.split_off(place)[end.len()..].to_owned())
            }
            None => {
                let open = open_end(&text, end);
                let open = open - usize::from(text[..open].ends_with('\r'));
                (open, text.split_off(open))
            }
        };
        let thought = text[..thought].replace("\r\n", "\n");
        let thought = match self.thinking.is_empty() {
            true => thought.trim_start(),
            false => &thought,
        };
        if !thought.is_empty() {
            self.thinking.push_str(thought);
            show(Shown::Thinking(thought));
        }
        rest
    }

    /// Takes TEXT of the answer; gives what has to wait for more.
    fn answer(
        &mut self,
        text: String,
        holding: Holding,
        show: &mut dyn FnMut(Shown<'_>),
    ) -> String {
        let (mut taken, mut from) = (0, 0);
        while let Some(place) = text[from..].find(['<', '[', '{', '\r']).map(|it| from + it) {
            let rest = &text[place..];
            from = place + 1;
            if rest == "\r" || LONE_END.starts_with(rest) {
                self.add(&text[taken..place], show);
                return rest.to_owned();
            }
            if rest.starts_with("\r\n") {
                self.add(&text[taken..place], show);
                taken = place + 1;
                continue;
            }
            if rest.starts_with(LONE_END) && self.thinking.is_empty() && self.held.is_none() {
                self.add(&text[taken..place], show);
                taken = place;
                let after = &rest[LONE_END.len()..];
                if after.is_empty() {
                    return rest.to_owned();
                }
                if after.starts_with(['\n', '\r']) && !self.in_fence() {
                    self.thinking = std::mem::take(&mut self.answer);
                    self.fences = Fences::default();
                    self.place = Place::Start;
                    show(Shown::Answer("\n\n"));
                    return after.to_owned();
                }
                continue;
            }
            if holding == Holding::Nothing || self.held.is_some() {
                continue;
            }
            let at_line_start = self.ends_line(&text[..place]);
            if rest.starts_with('{') && !at_line_start {
                continue;
            }
            match call_start(rest) {
                CallStart::No => {}
                CallStart::Unclear => {
                    self.add(&text[taken..place], show);
                    return rest.to_owned();
                }
                CallStart::Yes => {
                    self.add(&text[taken..place], show);
                    taken = place;
                    if !self.in_fence() {
                        self.held = Some(self.answer.len());
                    }
                }
            }
        }
        self.add(&text[taken..], show);
        String::new()
    }

    /// Whether the answer and MORE end with the end of a line, but for blanks.
    fn ends_line(&self, more: &str) -> bool {
        let blank = |it: char| matches!(it, ' ' | '\t' | '\r');
        match more.trim_end_matches(blank) {
            "" => {
                let before = self.answer.trim_end_matches(blank);
                before.is_empty() || before.ends_with('\n')
            }
            more => more.ends_with('\n'),
        }
    }

    fn add(&mut self, text: &str, show: &mut dyn FnMut(Shown<'_>)) {
        if text.is_empty() {
            return;
        }
        self.answer.push_str(text);
        if self.held.is_none() {
            show(Shown::Answer(text));
        }
    }

    fn in_fence(&mut self) -> bool {
        self.fences.open_in(&self.answer)
    }

    /// What may be a call at the end of the answer.
    #[must_use]
    pub fn held(&self) -> Option<&str> {
        self.held.map(|start| &self.answer[start..])
    }

    /// What is held is a call: it is no part of the answer.
    pub fn drop_held(&mut self) {
        if let Some(start) = self.held.take() {
            let length = self.answer[..start].trim_end().len();
            self.answer.truncate(length);
        }
    }

    /// No more comes: shows what was held back, or was undecided.
    pub fn release(&mut self, show: &mut dyn FnMut(Shown<'_>)) {
        if let Some(start) = self.held.take() {
            show(Shown::Answer(&self.answer[start..]));
        }
        let text = std::mem::take(&mut self.undecided);
        match self.place {
            _ if text.is_empty() => {}
            Place::Thinking(_) => {
                self.thinking.push_str(&text);
                show(Shown::Thinking(&text));
            }
            Place::Start if !self.thinking.is_empty() && text.trim().is_empty() => {}
            Place::Start | Place::Answer => self.add(&text, show),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.answer.is_empty() && self.thinking.is_empty() && self.undecided.is_empty()
    }

    /// Its thinking and its answer.
    #[must_use]
    pub fn into_parts(mut self) -> (String, String) {
        self.release(&mut |_| {});
        self.thinking.shrink_to_fit();
        self.answer.shrink_to_fit();
        (self.thinking, self.answer)
    }
}

/// Where in TEXT the last bytes begin that may be the beginning of TAG.
fn open_end(text: &str, tag: &str) -> usize {
    let earliest = text.len().saturating_sub(tag.len() - 1);
    let open = (earliest..text.len())
        .find(|&place| text.is_char_boundary(place) && tag.starts_with(&text[place..]));
    open.unwrap_or(text.len())
}

/// Fences of code in a text that grows; each line is looked at once.
#[derive(Debug, Default)]
struct Fences {
    looked_at: usize,
    /// The signs that opened the fence.
    open: Option<String>,
}

impl Fences {
    /// Whether TEXT ends within a fence.
    fn open_in(&mut self, text: &str) -> bool {
        while let Some(length) = text[self.looked_at..].find('\n') {
            let line = text[self.looked_at..][..length].trim();
            self.looked_at += length + 1;
            let signs = line.len() - line.trim_start_matches(['`', '~']).len();
            match &self.open {
                Some(open) if signs == line.len() && line.starts_with(open.as_str()) => {
                    self.open = None;
                }
                None if line.starts_with("```") || line.starts_with("~~~") => {
                    self.open = Some(line[..signs].to_owned());
                }
                _ => {}
            }
        }
        self.open.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What TEXT in pieces of SIZE characters becomes: thinking, answer, and what was shown of each.
    fn taken(text: &str, size: usize) -> (String, String, String, String, Option<String>) {
        let mut it = ModelText::default();
        let (mut thoughts, mut answers) = (String::new(), String::new());
        let mut show = |shown: Shown<'_>| match shown {
            Shown::Answer(text) => answers.push_str(text),
            Shown::Thinking(text) => thoughts.push_str(text),
        };
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(size) {
            let piece: String = piece.iter().collect();
            it.push(&piece, Holding::WrittenCalls, &mut show);
        }
        let held = it.held().map(str::to_owned);
        it.release(&mut show);
        let (thinking, answer) = it.into_parts();
        (thinking, answer, thoughts, answers, held)
    }

    #[test]
    fn thinking_in_tags_is_told_apart_in_any_pieces() {
        for (text, thinking, answer) in [
            ("<think>Hm.</think>\n\nYes.", "Hm.", "Yes."),
            ("\n<think>\nHm.\n</think>\nYes.", "Hm.\n", "Yes."),
            ("[THINK]Hm.[/THINK]Yes.", "Hm.", "Yes."),
            ("<think>a</think><think>b</think>c", "ab", "c"),
            ("<think></think>\n\nYes.", "", "\n\nYes."),
            ("Yes: <think> is a tag.", "", "Yes: <think> is a tag."),
            ("<thin", "", "<thin"),
            ("<think>Hm", "Hm", ""),
            (
                "The tag `</think>` ends it.",
                "",
                "The tag `</think>` ends it.",
            ),
            ("a < b\r\nc [1]\r\n", "", "a < b\nc [1]\n"),
            (
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
                "Hm.",
                "Yes.",
            ),
        ] {
            for size in 1..=text.len() {
                let (thought, said, shown_thoughts, shown, _) = taken(text, size);
                assert_eq!(
                    (thought.as_str(), said.as_str()),
                    (thinking, answer),
                    "{text:?} by {size}"
                );
                assert_eq!(
                    (shown_thoughts, shown),
                    (thought, said),
                    "{text:?} by {size}"
                );
            }
        }
    }

    #[test]
    fn a_lone_end_makes_thinking_of_what_came_before() {
        for size in [1, 3, 100] {
            let (thinking, answer, ..) = taken("Let me weigh.\n</think>\n\nYes.", size);
            assert_eq!(
                (thinking.as_str(), answer.as_str()),
                ("Let me weigh.\n", "Yes.")
            );
        }
    }

    #[test]
    fn what_may_be_a_call_is_held_back_outside_of_fences() {
        for (text, held) in [
            ("I will.\n<tool_call>\n{}", Some("<tool_call>\n{}")),
            ("{\"name\": \"look\"}", Some("{\"name\": \"look\"}")),
            ("a {\"name\": 1}", None),
            ("```\n<tool_call>\n```\n", None),
            (
                "```\n<tool_call>\n```\n[TOOL_CALLS]x",
                Some("[TOOL_CALLS]x"),
            ),
            ("a <b> [c] {d}", None),
        ] {
            for size in 1..=text.len() {
                let (_, answer, _, shown, was_held) = taken(text, size);
                assert_eq!(was_held.as_deref(), held, "{text:?} by {size}");
                assert_eq!(
                    (answer.as_str(), shown.as_str()),
                    (text, text),
                    "{text:?} by {size}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_the_same_in_any_pieces(
            text in "(<think>|</think>|<tool_call>|\\[TOOL_CALLS\\]|```|\n|\r|a|<|\\{|\"name\"|é| ){0,16}",
            size in 1_usize..9,
        ) {
            let (thinking, answer, ..) = taken(&text, text.len().max(1));
            let (other_thinking, other_answer, thoughts, shown, _) = taken(&text, size);
            prop_assert_eq!((&thinking, &answer), (&other_thinking, &other_answer));
            // All that is kept was shown; a lone end of thinking comes after what it ends.
            prop_assert!(text.contains("</think>") || (thoughts, shown) == (thinking, answer));
        }
    }
}
