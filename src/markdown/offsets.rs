// SPDX-License-Identifier: GPL-3.0-or-later
//! From bytes of a text to characters of the buffer, where long lines are broken.

use super::style::{Run, Style, push};

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
