// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of an answer as it comes, and what a server left in it that it should have parsed: thinking in
//! tags, which is told apart, and calls written as text, which are held back until `written_calls` has read
//! them. Line ends become plain ones. Pure; `draft` has one for each part of text.

use memchr::memchr3;

use super::written_calls::{CallStart, ReadableCalls};

/// What thinking stands between, at the beginning of a text.
const THINKING_TAGS: [(&str, &str); 10] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
];

/// What a template wrote into the prompt's end, so that a text has only the end of its thinking.
const LONE_END: &str = "</think>";

/// Signs of a template at the beginning of a text, which say nothing.
const EMPTY_SIGNS: [&str; 4] = [
    "<|start|>assistant",
    "<|channel|>final<|message|>",
    "<|START_RESPONSE|>",
    LONE_END,
];

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
    /// Only blanks have come.
    #[default]
    Start,
    /// Only thinking has come, or signs, and blanks.
    Behind,
    /// In thinking, which ends by this.
    Thinking(&'static str),
    Answer,
}

impl ModelText {
    /// Takes in MORE of the text, and tells SHOW what there is to show of it.
    pub fn push(&mut self, more: &str, readable: &ReadableCalls, show: &mut dyn FnMut(Shown<'_>)) {
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
                Place::Start | Place::Behind => self.begin(text, readable),
                Place::Thinking(end) => self.think(text, end, show),
                Place::Answer => self.answer(text, readable, show),
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
    fn begin(&mut self, text: String, readable: &ReadableCalls) -> String {
        let said = text.trim_start();
        if let Some((open, end)) = THINKING_TAGS
            .iter()
            .find(|(open, _)| said.starts_with(open))
        {
            self.place = Place::Thinking(end);
            return said[open.len()..].to_owned();
        }
        // How a call begins may begin like a sign.
        let call = match readable.is_empty() {
            true => CallStart::No,
            false => readable.start(said),
        };
        let sign = EMPTY_SIGNS.iter().find(|sign| said.starts_with(**sign));
        if let Some(sign) = sign.filter(|_| call == CallStart::No) {
            self.place = Place::Behind;
            return said[sign.len()..].to_owned();
        }
        let tags = THINKING_TAGS.iter().map(|(open, _)| *open);
        let may_begin = |tag: &str| tag.starts_with(said);
        if said.is_empty() || tags.chain(EMPTY_SIGNS).any(may_begin) || call == CallStart::Unclear {
            return text;
        }
        let said = match self.place {
            // Blanks there only set the answer apart.
            Place::Behind => said.to_owned(),
            _ => text,
        };
        self.place = Place::Answer;
        if call == CallStart::Yes {
            self.held = Some(self.answer.len());
        }
        said
    }

    /// Takes the thinking in TEXT, up to END; gives what is left.
    fn think(&mut self, mut text: String, end: &str, show: &mut dyn FnMut(Shown<'_>)) -> String {
        let (thought, rest) = match text.find(end) {
            Some(place) => {
                self.place = Place::Behind;
                (place, text.split_off(place)[end.len()..].to_owned())
            }
            None => {
                let open = open_end(&text, end);
                // A line feed may follow.
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
        readable: &ReadableCalls,
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
                if self.ends_thinking(after) {
                    if !self.answer.trim().is_empty() {
                        show(Shown::Answer("\n\n"));
                    }
                    self.thinking = std::mem::take(&mut self.answer);
                    self.fences = Fences::default();
                    self.place = Place::Behind;
                    return after.to_owned();
                }
                continue;
            }
            if readable.is_empty() || self.held.is_some() {
                continue;
            }
            if !rest.starts_with('<') && needs_line(rest) && !self.ends_line(&text[..place]) {
                continue;
            }
            match readable.start(rest) {
                CallStart::No => {}
                CallStart::Unclear => {
                    self.add(&text[taken..place], show);
                    return rest.to_owned();
                }
                CallStart::Yes => {
                    self.add(&text[taken..place], show);
                    taken = place;
                    if !is_quoted(self.line()) && !self.in_fence() {
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

    /// What stands in the line at whose end the answer ends.
    fn line(&self) -> &str {
        self.answer.rsplit('\n').next().unwrap_or_default()
    }

    /// Whether an end of thinking without a beginning, behind the answer and before AFTER, is one, and not only
    /// spoken of.
    fn ends_thinking(&mut self, after: &str) -> bool {
        let line = self.line();
        let spoken_of = line.matches('`').count() % 2 == 1
            || line.ends_with(['"', '\'', '(', '*', '/'])
            || after.starts_with(['"', '\'', '`', ')', '*', '/'])
            || self.answer.contains("<think>");
        let said = line.trim_end();
        let ends = after.starts_with(['\n', '\r'])
            || said.len() == line.len()
            || said.ends_with(['.', '!', '?', ':', '。']);
        ends && !spoken_of && !self.in_fence()
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

    /// Whether it ends within a fence.
    #[must_use]
    pub fn ends_in_fence(&mut self) -> bool {
        self.held.is_none() && self.in_fence()
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
            self.fences.looked_at = self.fences.looked_at.min(length);
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
            Place::Behind if text.trim().is_empty() => {}
            Place::Start | Place::Behind | Place::Answer => self.add(&text, show),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.answer.is_empty() && self.thinking.is_empty() && self.undecided.is_empty()
    }

    /// Whether there is nothing to read in its answer.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.answer.trim().is_empty() && self.undecided.trim().is_empty()
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

/// Whether a call in the text REST has to begin its line, as one without any sign has.
fn needs_line(rest: &str) -> bool {
    const SIGN: &str = "[TOOL_CALLS]";
    !(rest.starts_with(SIGN) || SIGN.starts_with(rest))
}

/// Whether what follows LINE is a quotation: behind its sign, in backticks, or as far in as code is.
fn is_quoted(line: &str) -> bool {
    let said = line.trim_start();
    said.starts_with('>')
        || said.matches('`').count() % 2 == 1
        || said.is_empty() && (line.len() >= CODE_INDENT || line.contains('\t'))
}

/// How far in a line is code.
const CODE_INDENT: usize = 4;

/// Fences of code in a text that grows; each line is looked at once. A fence as far in as code is one within a
/// list, and only code elsewhere: where that makes a difference, both are so.
#[derive(Debug, Default)]
struct Fences {
    looked_at: usize,
    with_deep: Option<OpenFence>,
    without_deep: Option<OpenFence>,
}

/// What opens a fence, or closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenFence {
    sign: char,
    length: usize,
    indent: usize,
}

impl Fences {
    /// Whether TEXT may end within a fence.
    fn open_in(&mut self, text: &str) -> bool {
        while let Some(length) = text[self.looked_at..].find('\n') {
            let line = &text[self.looked_at..][..length];
            self.looked_at += length + 1;
            if let Some((fence, info)) = OpenFence::of(line) {
                fence.meets(&mut self.with_deep, info);
                if fence.indent < CODE_INDENT {
                    fence.meets(&mut self.without_deep, info);
                }
            }
        }
        self.with_deep.is_some() || self.without_deep.is_some()
    }
}

impl OpenFence {
    /// The fence that LINE is, in a list or a quotation, too, and what is behind its signs.
    fn of(line: &str) -> Option<(Self, &str)> {
        let mut rest = line.trim_start();
        while let Some(inside) = rest
            .strip_prefix(['>', '-', '*', '+'])
            .or_else(|| {
                let digits = rest.trim_start_matches(|it: char| it.is_ascii_digit());
                (digits != rest).then(|| digits.strip_prefix(['.', ')']))?
            })
            .filter(|it| it.starts_with([' ', '>', '`', '~']))
        {
            rest = inside.trim_start();
        }
        let sign = rest.chars().next().filter(|it| matches!(it, '`' | '~'))?;
        let info = rest.trim_start_matches(sign);
        let fence = Self {
            sign,
            length: rest.len() - info.len(),
            indent: line.len() - rest.len(),
        };
        let is_code = sign == '`' && info.contains('`');
        (fence.length >= 3 && !is_code).then_some((fence, info.trim()))
    }

    /// Closes the fence that is OPEN, or opens one; INFO is behind it.
    fn meets(self, open: &mut Option<Self>, info: &str) {
        match *open {
            None => *open = Some(self),
            Some(before) => {
                let closes = self.sign == before.sign
                    && self.length >= before.length
                    && self.indent < before.indent + CODE_INDENT
                    && info.is_empty();
                if closes {
                    *open = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What TEXT in pieces of SIZE characters becomes: thinking, answer, and what was shown of each.
    fn taken(text: &str, size: usize) -> (String, String, String, String, Option<String>) {
        let readable = ReadableCalls::of_names(&["look"]);
        let mut it = ModelText::default();
        let (mut thoughts, mut answers) = (String::new(), String::new());
        let mut show = |shown: Shown<'_>| match shown {
            Shown::Answer(text) => answers.push_str(text),
            Shown::Thinking(text) => thoughts.push_str(text),
        };
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(size) {
            let piece: String = piece.iter().collect();
            it.push(&piece, &readable, &mut show);
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
            ("<think></think>\n\nYes.", "", "Yes."),
            ("</think>\n\nYes.", "", "Yes."),
            ("◁think▷Hm.◁/think▷Yes.", "Hm.", "Yes."),
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
        for (text, expected) in [
            ("Let me weigh.\n</think>\n\nYes.", "Let me weigh.\n"),
            ("Let me weigh.</think>Yes.", "Let me weigh."),
            ("Let me weigh. </think> Yes.", "Let me weigh. "),
        ] {
            for size in [1, 3, 100] {
                let (thinking, answer, ..) = taken(text, size);
                assert_eq!((thinking.as_str(), answer.as_str()), (expected, "Yes."));
            }
        }
        for text in [
            "It is `</think>` that ends it.",
            "The tag </think> ends it.",
            "Between <think> and (</think>).",
            "```\nx\n</think>\n```\n",
            "Write <think>x</think> there.",
        ] {
            for size in [1, 3, 100] {
                assert_eq!(taken(text, size).1, text);
            }
        }
    }

    #[test]
    fn what_may_be_a_call_is_held_back_outside_of_fences() {
        for (text, held) in [
            ("I will.\n<tool_call>\n{}", Some("<tool_call>\n{}")),
            ("{\"name\": \"look\"}", Some("{\"name\": \"look\"}")),
            ("[look(at='a')]", Some("[look(at='a')]")),
            ("[{\"name\": \"look\"}]", Some("[{\"name\": \"look\"}]")),
            ("<tool_call>look\n", Some("<tool_call>look\n")),
            (
                "commentary to=functions.look {}",
                Some("commentary to=functions.look {}"),
            ),
            // Words about calls.
            ("The <tool_call> tag is one.", None),
            ("{\"name\": \"Ann\", \"age\": 3}", None),
            ("[1, 2]\n[a link](there)\n{\"a\": 1}\n", None),
            ("> <tool_call>{}", None),
            ("`<tool_call>{}`", None),
            ("So:\n\n    <tool_call>{}", None),
            // In fences.
            ("~~~xml\n<tool_call>{}\n", None),
            ("```x``` is code.\n```\n<tool_call>{}", None),
            ("````\n```\n<tool_call>{}", None),
            ("```\n    ```\n<tool_call>{}", None),
            ("    ```\n```\n<tool_call>{}", None),
            (
                "~~~\n```\n~~~\n[TOOL_CALLS]look{",
                Some("[TOOL_CALLS]look{"),
            ),
            ("- ```\n  <tool_call>{}\n  ```\n", None),
            ("a {\"name\": 1}", None),
            ("```\n<tool_call>{}\n```\n[TOOL_CALLS]look", None),
            (
                "```\n<tool_call>{}\n```\n[TOOL_CALLS]look{}",
                Some("[TOOL_CALLS]look{}"),
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
