// SPDX-License-Identifier: GPL-3.0-or-later
//! From bytes of a text to characters of the buffer, where long lines are broken.

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
