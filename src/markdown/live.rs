// SPDX-License-Identifier: GPL-3.0-or-later
//! A text of Markdown that grows. What is told of it doesn't depend on the pieces in which it came, but
//! for the block that is still open; and what it costs is in proportion to the text, whatever it holds.

use std::ops::Range;

use super::lines::{Fence, closing_look, opening_looks, readable};
use super::paint::{Definitions, Painted, paint};
use super::style::{Offsets, Part, PartKind, Run, Style, characters, in_characters, push};

/// A block is cut after so many bytes, so that none takes long to be read.
const LONGEST_BLOCK: usize = 64 * 1024;
/// Where a line alone is as long as that, the rest of it is plain text.
const LONGEST_LINE: usize = 2 * LONGEST_BLOCK;
/// A longer block is read again only when it has grown by this part of it, ...
const GROWTH: usize = 16;
/// ... and a shorter one with each piece.
const SHORT: usize = 2 * 1024;

/// What a piece of text changes, in characters of the buffer from the beginning of the document.
#[derive(Debug, Default)]
pub struct Update {
    /// The characters of the piece before which a line end is put in.
    pub breaks: Vec<usize>,
    /// Where the runs begin; what is before keeps its look.
    pub from: usize,
    pub runs: Vec<Run>,
    pub parts: Vec<Part>,
}

/// A fence that is open.
#[derive(Debug)]
struct OpenFence {
    fence: Fence,
    /// Where its code begins, in the buffer.
    from: usize,
    /// Whether the beginning of a line was taken, which can't be that of the line that closes.
    within_line: bool,
}

/// A text of Markdown that grows.
#[derive(Debug)]
pub struct LiveText {
    /// The text from the beginning of the open block on.
    text: String,
    /// Where that is in the buffer.
    base: usize,
    /// The bytes of the text before which a line end was put in.
    breaks: Vec<usize>,
    /// Where lines are broken, and how many characters the last one has.
    width: usize,
    column: usize,
    /// The look of the text as it was told, in bytes.
    shown: Vec<Run>,
    /// How many bytes of it were read for that.
    read: usize,
    /// How many bytes of whole lines hold no end of a block.
    searched: usize,
    fence: Option<OpenFence>,
    /// Whether the rest of the line is plain text.
    plain_line: bool,
    definitions: Definitions,
}

/// Whether more of a text may come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

/// What is found out in the course of one update: looks and parts of the text, in bytes.
#[derive(Default)]
struct Found {
    /// How many bytes at the beginning are settled for good.
    settled: usize,
    runs: Vec<Run>,
    parts: Vec<Part>,
    /// Parts in characters of the buffer.
    placed: Vec<Part>,
}

impl Found {
    fn take(&mut self, length: usize, style: Style) {
        push(&mut self.runs, length, style);
        self.settled += length;
    }

    fn take_painted(&mut self, painted: Painted, length: usize) {
        let mut left = length;
        for run in painted.runs {
            let taken = run.length.min(left);
            push(&mut self.runs, taken, run.style);
            left -= taken;
        }
        let from = self.settled;
        let parts = painted.parts.into_iter();
        self.parts.extend(
            parts
                .filter(|it| it.range.start < length)
                .map(|it| shifted(it, from)),
        );
        self.settled += length;
    }
}

impl LiveText {
    /// A document whose lines are broken after WIDTH characters.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self {
            text: String::new(),
            base: 0,
            breaks: Vec::new(),
            width: width.max(1),
            column: 0,
            shown: Vec::new(),
            read: 0,
            searched: 0,
            fence: None,
            plain_line: false,
            definitions: Definitions::default(),
        }
    }

    /// Adds MORE at the end.
    pub fn feed(&mut self, more: &str) -> Update {
        let breaks = self.append(more);
        Update {
            breaks,
            ..self.advance(Last::No)
        }
    }

    /// Says that nothing more comes.
    pub fn finish(&mut self) -> Update {
        self.advance(Last::Yes)
    }

    /// Appends MORE, and gives the characters of it before which a line is broken.
    fn append(&mut self, more: &str) -> Vec<usize> {
        let mut breaks = Vec::new();
        let start = self.text.len();
        let (mut byte, mut passed) = (0, 0);
        for line in more.split_inclusive('\n') {
            let ends = line.ends_with('\n');
            let mut long = characters(line.as_bytes()) - usize::from(ends);
            let mut counted = passed;
            let mut rest = line;
            while self.column + long > self.width {
                let room = self.width - self.column;
                let at = rest.char_indices().nth(room).map_or(rest.len(), |it| it.0);
                counted += room;
                rest = &rest[at..];
                breaks.push(counted);
                self.breaks.push(start + byte + line.len() - rest.len());
                long -= room;
                self.column = 0;
            }
            self.column = if ends { 0 } else { self.column + long };
            passed = counted + long + usize::from(ends);
            byte += line.len();
        }
        self.text.push_str(more);
        breaks
    }

    fn advance(&mut self, last: Last) -> Update {
        let mut found = Found::default();
        while self.settle(&mut found) {}
        let open = self.look_of_open(&mut found, last);
        let mut runs = std::mem::take(&mut found.runs);
        for run in &open {
            push(&mut runs, run.length, run.style);
        }
        let from = first_difference(&self.shown, &runs);
        let offsets = Offsets::new(&self.text, &self.breaks, self.base);
        let parts = std::mem::take(&mut found.parts)
            .into_iter()
            .filter(|it| match it.kind {
                // Its runs were not told of again, so it is still there.
                PartKind::Link { .. } | PartKind::Formula { .. } => it.range.end > from,
                PartKind::Code { .. } => true,
                PartKind::Table { .. } => {
                    it.range.end > from || it.range.start < found.settled || last == Last::Yes
                }
            })
            .map(|it| placed(it, &offsets))
            .chain(std::mem::take(&mut found.placed))
            .collect();
        let update = Update {
            breaks: Vec::new(),
            from: offsets.end(from),
            runs: in_characters(&runs, from, &offsets, &self.breaks),
            parts,
        };
        self.shown = open;
        self.drop_settled(found.settled);
        update
    }

    /// Forgets the first LENGTH bytes of the text.
    fn drop_settled(&mut self, length: usize) {
        if length == 0 {
            return;
        }
        self.base = Offsets::new(&self.text, &self.breaks, self.base).end(length);
        self.text.drain(..length);
        self.breaks.retain_mut(|it| {
            let stays = *it >= length;
            *it = it.saturating_sub(length);
            stays
        });
    }

    /// Settles the look of some text behind what is settled, if more text can't change it.
    fn settle(&mut self, found: &mut Found) -> bool {
        let rest = &self.text[found.settled..];
        if rest.is_empty() {
            return false;
        }
        if self.plain_line {
            let end = memchr::memchr(b'\n', rest.as_bytes());
            self.plain_line = end.is_none();
            found.take(end.map_or(rest.len(), |it| it + 1), Style::default());
            return true;
        }
        if self.fence.is_some() {
            return self.settle_code(found);
        }
        if let Some(line) = first_line(rest)
            && let Some(fence) = Fence::opened_by(line)
        {
            let line = &rest[..=line.len()];
            for (length, style) in opening_looks(line, Style::default()) {
                found.take(length, style);
            }
            let from = self.place(found.settled);
            self.fence = Some(OpenFence {
                fence,
                from,
                within_line: false,
            });
            self.forget_open();
            return true;
        }
        self.settle_blocks(found)
    }

    fn forget_open(&mut self) {
        self.searched = 0;
        self.read = 0;
    }

    fn place(&self, byte: usize) -> usize {
        Offsets::new(&self.text, &self.breaks, self.base).end(byte)
    }

    /// Settles a line of code in the open fence, or the line that closes it.
    fn settle_code(&mut self, found: &mut Found) -> bool {
        let rest = &self.text[found.settled..];
        let Some(open) = &mut self.fence else {
            return false;
        };
        let line = first_line(rest);
        if let Some(line) = line
            && !open.within_line
            && open.fence.closed_by(line)
        {
            let length = line.len();
            let kind = PartKind::Code {
                language: std::mem::take(&mut open.fence.language),
            };
            let range = open.from..self.place(found.settled);
            found.placed.push(Part { range, kind });
            found.take(length + 1, closing_look(Style::default()));
            self.fence = None;
            return true;
        }
        let (text, ends) = match line {
            Some(line) => (&rest[..=line.len()], true),
            None if open.within_line || may_not_close(rest) => (rest, false),
            None => return false,
        };
        for (length, style) in code_looks(text, open) {
            found.take(length, style);
        }
        open.within_line = !ends;
        true
    }

    /// Settles the blocks before the last one that begins in whole lines, or what is too long.
    fn settle_blocks(&mut self, found: &mut Found) -> bool {
        let rest = &self.text[found.settled..];
        let whole = whole_lines(rest);
        let endless = rest.len() >= LONGEST_LINE && whole <= LONGEST_BLOCK;
        let new = whole.saturating_sub(self.searched);
        let enough = new > 0 && (self.searched < SHORT || new >= self.searched / GROWTH);
        if !enough && whole <= LONGEST_BLOCK && !endless {
            return false;
        }
        let painted = paint(&readable(&rest[..whole]), &self.definitions);
        let last = painted.blocks.last().copied().unwrap_or(0);
        if last > 0 {
            // What comes from there on was seen as well: it holds no end of a block.
            self.settle_painted(found, painted, last);
            self.searched = whole - last;
            return true;
        }
        if whole > LONGEST_BLOCK {
            let item = painted.items.last().copied().unwrap_or(0);
            let length = if item > 0 { item } else { whole };
            self.settle_part(found, length);
            return true;
        }
        if endless {
            let length = boundary(rest, LONGEST_LINE);
            self.settle_part(found, length);
            self.plain_line = true;
            return true;
        }
        self.searched = whole;
        false
    }

    fn settle_part(&mut self, found: &mut Found, length: usize) {
        let text = readable(&self.text[found.settled..found.settled + length]);
        let painted = paint(&text, &self.definitions);
        self.settle_painted(found, painted, length);
    }

    fn settle_painted(&mut self, found: &mut Found, mut painted: Painted, length: usize) {
        self.definitions
            .add(std::mem::take(&mut painted.definitions));
        found.take_painted(painted, length);
        self.forget_open();
    }

    /// The look of what is not settled.
    fn look_of_open(&mut self, found: &mut Found, last: Last) -> Vec<Run> {
        let rest = &self.text[found.settled..];
        let mut runs = Vec::new();
        if let Some(open) = &mut self.fence {
            // The line that closes it may be the last one, without an end.
            let closed = !open.within_line && open.fence.closed_by(rest);
            if closed {
                push(&mut runs, rest.len(), closing_look(Style::default()));
            } else {
                for (length, style) in code_looks(rest, open) {
                    push(&mut runs, length, style);
                }
            }
            if last == Last::Yes {
                let end = if closed {
                    found.settled
                } else {
                    self.text.len()
                };
                let kind = PartKind::Code {
                    language: open.fence.language.clone(),
                };
                let range = open.from..self.place(end);
                found.placed.push(Part { range, kind });
            }
            return runs;
        }
        let unread = rest.len().saturating_sub(self.read);
        if last == Last::No && self.read > SHORT && unread < self.read / GROWTH {
            // Until the block is read again, what is new is plain.
            runs.clone_from(&self.shown);
            let known: usize = runs.iter().map(|it| it.length).sum();
            push(
                &mut runs,
                rest.len().saturating_sub(known),
                Style::default(),
            );
            return runs;
        }
        let painted = paint(&readable(rest), &self.definitions);
        self.read = rest.len();
        let from = found.settled;
        let open_parts = painted.parts.into_iter().filter(|it| {
            // Code is told of when it is whole.
            last == Last::Yes || !matches!(it.kind, PartKind::Code { .. })
        });
        found.parts.extend(open_parts.map(|it| shifted(it, from)));
        painted.runs
    }
}

/// The bytes of the whole lines in TEXT, no more than may be one block.
fn whole_lines(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.len() > LONGEST_BLOCK {
        let window = &bytes[LONGEST_BLOCK..bytes.len().min(LONGEST_LINE)];
        if let Some(end) = memchr::memchr(b'\n', window) {
            return LONGEST_BLOCK + end + 1;
        }
    }
    let most = bytes.len().min(LONGEST_BLOCK);
    memchr::memrchr(b'\n', &bytes[..most]).map_or(0, |it| it + 1)
}

/// The first line of TEXT without its end, if it is whole.
fn first_line(text: &str) -> Option<&str> {
    memchr::memchr(b'\n', text.as_bytes()).map(|end| &text[..end])
}

/// Whether TEXT, the beginning of a line, can't be that of one that closes a fence.
fn may_not_close(text: &str) -> bool {
    let bare = text.trim_start_matches(' ');
    text.len() - bare.len() > 3 || bare.starts_with(|it: char| it != '`' && it != '~')
}

/// The looks of TEXT, (the rest of) a line in the fence OPEN.
fn code_looks(text: &str, open: &OpenFence) -> [(usize, Style); 2] {
    let gutter = if open.within_line {
        0
    } else {
        open.fence.gutter(text)
    };
    let code = Style::default().only(Style::BLOCK);
    [
        (gutter, code.with(Style::GUTTER)),
        (text.len() - gutter, code),
    ]
}

fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn shifted(part: Part, by: usize) -> Part {
    moved(part, |it| it.start + by..it.end + by)
}

/// PART in characters of the buffer.
fn placed(part: Part, offsets: &Offsets<'_>) -> Part {
    moved(part, |it| {
        offsets.start(it.start)..offsets.end(it.end).max(offsets.start(it.start))
    })
}

fn moved(part: Part, to: impl Fn(Range<usize>) -> Range<usize>) -> Part {
    let kind = match part.kind {
        PartKind::Table {
            columns,
            rows,
            dashes,
        } => PartKind::Table {
            columns,
            rows: rows
                .into_iter()
                .map(|row| row.into_iter().map(&to).collect())
                .collect(),
            dashes: to(dashes),
        },
        kind => kind,
    };
    Part {
        range: to(part.range),
        kind,
    }
}

/// How many bytes at the beginning look the same by OLD and by NEW.
fn first_difference(old: &[Run], new: &[Run]) -> usize {
    let mut same = 0;
    for (old, new) in old.iter().zip(new) {
        if old.style != new.style {
            break;
        }
        same += old.length.min(new.length);
        if old.length != new.length {
            break;
        }
    }
    same
}
