// SPDX-License-Identifier: GPL-3.0-or-later
//! How characters look: a set of properties, runs of characters that share one, and the parts of a text
//! that somebody can act on: links, code, formulas, tables.

use std::ops::Range;

/// How deep quotes are told apart.
pub const DEEPEST_QUOTE: u8 = 15;
/// How far a line that is wrapped hangs at most.
pub const WIDEST_INDENT: u8 = 60;

/// The look of a character. Emacs gets it as one number, `agent-q-markdown.el` takes it apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Style {
    pub(super) flags: u32,
    /// 0 for what is no heading.
    pub heading: u8,
    /// How many quotes it stands in.
    pub quote: u8,
    /// By how many columns its line hangs when it is wrapped.
    pub indent: u8,
}

impl Style {
    pub const STRONG: u32 = 1;
    pub const EMPHASIS: u32 = 1 << 1;
    pub const STRIKE: u32 = 1 << 2;
    /// Code within a line.
    pub const CODE: u32 = 1 << 3;
    /// Code in lines of its own.
    pub const BLOCK: u32 = 1 << 4;
    /// Indentation and marks of quotes before the lines of such code, which is not part of it.
    pub const GUTTER: u32 = 1 << 5;
    /// The first and the last line of a fence.
    pub const FENCE: u32 = 1 << 6;
    pub const LINK: u32 = 1 << 7;
    /// Signs of Markdown that are no part of what is said, and may be hidden.
    pub const MARKUP: u32 = 1 << 8;
    /// Signs of Markdown without which the text would not be understood.
    pub const SIGN: u32 = 1 << 9;
    /// The mark of a quote at the beginning of a line.
    pub const QUOTE_MARK: u32 = 1 << 10;
    /// The mark of an item of a list.
    pub const LIST_MARK: u32 = 1 << 11;
    pub const RULE: u32 = 1 << 12;
    pub const TABLE: u32 = 1 << 13;
    pub const TABLE_HEAD: u32 = 1 << 14;
    /// A line that begins like one that Emacs draws, a request for example.
    pub const DISGUISE: u32 = 1 << 15;
    /// A line end that was put in because the line is too long for Emacs.
    pub const SOFT: u32 = 1 << 16;
    /// A word between stars, them included: emphasis, or the name of a special variable.
    pub const STARRED: u32 = 1 << 17;
    /// A formula that can be drawn as text.
    pub const FORMULA: u32 = 1 << 18;
    /// A formula that stays as it is written, as some of it isn't known.
    pub const UNDRAWN: u32 = 1 << 19;

    /// This style with FLAGS too.
    #[must_use]
    pub fn with(self, flags: u32) -> Self {
        Self {
            flags: self.flags | flags,
            ..self
        }
    }

    /// This style with nothing but FLAGS, where it is.
    #[must_use]
    pub fn only(self, flags: u32) -> Self {
        Self {
            flags,
            heading: 0,
            ..self
        }
    }

    /// Whether all of FLAGS are there.
    #[must_use]
    pub fn has(self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// The number that Emacs gets: flags, 3 bits of heading from 20 on, 4 of quotes, 6 of indentation.
    #[must_use]
    pub fn number(self) -> i64 {
        i64::from(self.flags)
            | i64::from(self.heading) << 20
            | i64::from(self.quote.min(DEEPEST_QUOTE)) << 23
            | i64::from(self.indent.min(WIDEST_INDENT)) << 27
    }
}

/// So many bytes, or characters where it says so, of one style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub length: usize,
    pub style: Style,
}

/// Appends LENGTH of STYLE to RUNS, which never have two neighbours of one style.
pub fn push(runs: &mut Vec<Run>, length: usize, style: Style) {
    match runs.last_mut() {
        _ if length == 0 => {}
        Some(last) if last.style == style => last.length += length,
        _ => runs.push(Run { length, style }),
    }
}

/// A part of a text that is more than its look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub range: Range<usize>,
    pub kind: PartKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartKind {
    Link {
        target: String,
    },
    /// The lines within a fence that is closed.
    Code {
        language: String,
    },
    /// A formula, and what it looks like as text.
    Formula {
        drawn: String,
    },
    /// A table: its columns, the cells of each row, the head's first, and the row of dashes.
    Table {
        columns: Vec<Alignment>,
        rows: Vec<Vec<Range<usize>>>,
        dashes: Range<usize>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    Left,
    Center,
    Right,
}

impl From<pulldown_cmark::Alignment> for Alignment {
    fn from(given: pulldown_cmark::Alignment) -> Self {
        match given {
            pulldown_cmark::Alignment::Center => Alignment::Center,
            pulldown_cmark::Alignment::Right => Alignment::Right,
            pulldown_cmark::Alignment::None | pulldown_cmark::Alignment::Left => Alignment::Left,
        }
    }
}

// From bytes of a text to characters of the buffer, where long lines are broken.

/// Characters are counted to at most this many bytes before the one that is asked for.
const STEP: usize = 64;

/// The characters of a text that begins at a place of the buffer.
pub struct Offsets<'t> {
    text: &'t str,
    /// The characters before each STEP bytes; none where each byte is one.
    marks: Option<Vec<usize>>,
    /// The bytes before which the buffer has a line end more, in order.
    breaks: &'t [usize],
    /// The place of the buffer at which the text begins.
    base: usize,
}

impl<'t> Offsets<'t> {
    #[must_use]
    pub fn new(text: &'t str, breaks: &'t [usize], base: usize) -> Self {
        let marks = (!text.is_ascii()).then(|| {
            let mut count = 0;
            let mut marks = Vec::with_capacity(text.len() / STEP + 1);
            for piece in text.as_bytes().chunks(STEP) {
                marks.push(count);
                count += characters(piece);
            }
            marks.push(count);
            marks
        });
        Self {
            text,
            marks,
            breaks,
            base,
        }
    }

    /// The characters before BYTE.
    #[must_use]
    pub fn characters(&self, byte: usize) -> usize {
        let Some(marks) = &self.marks else {
            return byte;
        };
        let mark = byte / STEP;
        marks[mark] + characters(&self.text.as_bytes()[mark * STEP..byte])
    }

    /// The place of what begins at BYTE: behind the line end that was put in there.
    #[must_use]
    pub fn start(&self, byte: usize) -> usize {
        self.base + self.characters(byte) + self.breaks.partition_point(|it| *it <= byte)
    }

    /// The place of what ends at BYTE: before such a line end.
    #[must_use]
    pub fn end(&self, byte: usize) -> usize {
        self.base + self.characters(byte) + self.breaks.partition_point(|it| *it < byte)
    }
}

/// How many characters begin in BYTES.
#[must_use]
pub fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|it| (**it as i8) >= -0x40).count()
}

/// RUNS from the byte FROM on in characters, with the line ends that were put in.
#[must_use]
pub fn in_characters(
    runs: &[Run],
    from: usize,
    offsets: &Offsets<'_>,
    breaks: &[usize],
) -> Vec<Run> {
    let mut made = Vec::with_capacity(runs.len());
    let mut breaks = breaks[breaks.partition_point(|it| *it < from)..]
        .iter()
        .peekable();
    let mut start = 0;
    for run in runs {
        let end = start + run.length;
        let mut at = start.max(from);
        while at < end {
            if breaks.next_if(|it| **it <= at).is_some() {
                push(&mut made, 1, run.style.with(Style::SOFT));
            }
            let to = breaks.peek().map_or(end, |it| (**it).min(end));
            let length = offsets.characters(to) - offsets.characters(at);
            push(&mut made, length, run.style);
            at = to;
        }
        start = end;
    }
    made
}
