// SPDX-License-Identifier: GPL-3.0-or-later
//! Writes the text of a page: blanks and ends of lines as a browser would show them, code as it stands.

/// A text that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    /// The line ends, or the blank, that come before what is written next.
    lines: usize,
    blank: Blank,
    indent: usize,
    /// What the next words begin with.
    mark: Option<ItemSign>,
    /// How many elements with code as it stands are open, and what is in them so far.
    depth: usize,
    code: String,
    /// The place to be found again.
    marked: Marked,
}

/// The sign before words, such as that of an item in a list.
#[derive(Debug)]
struct ItemSign {
    sign: String,
    /// By how many columns its line begins before the others.
    outdent: usize,
}

/// Whether a blank comes before what is written next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Blank {
    #[default]
    Needless,
    Due,
    /// None may come, whatever the page has.
    Unfit,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Marked {
    #[default]
    No,
    Next,
    At(usize),
}

impl Writer {
    /// Writes TEXT, in which any white space is one blank unless it is code.
    pub(super) fn words(&mut self, text: &str) {
        if self.depth > 0 {
            self.code.push_str(text);
            return;
        }
        // A blank that doesn't break is one to look at.
        let is_space = |it: char| it.is_ascii_whitespace() || it == '\u{a0}';
        for (position, word) in text.split(is_space).enumerate() {
            if position > 0 && self.blank != Blank::Unfit {
                self.blank = Blank::Due;
            }
            if !word.is_empty() {
                self.put(word);
            }
        }
    }

    /// Writes TEXT behind what is due before it.
    pub(super) fn put(&mut self, text: &str) {
        self.catch_up();
        self.text.push_str(text);
    }

    /// Writes what is due.
    fn catch_up(&mut self) {
        let is_new_line = self.lines > 0 || self.text.is_empty();
        if self.lines > 0 && !self.text.is_empty() {
            self.text.extend(std::iter::repeat_n('\n', self.lines));
        } else if self.blank == Blank::Due && !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push(' ');
        }
        if self.marked == Marked::Next {
            self.marked = Marked::At(self.text.len());
        }
        let mark = self.mark.take();
        if is_new_line {
            let outdent = mark.as_ref().map_or(0, |it| it.outdent);
            let columns = self.indent.saturating_sub(outdent);
            self.text.extend(std::iter::repeat_n(' ', columns));
        }
        if let Some(mark) = mark {
            self.text.push_str(&mark.sign);
        }
        (self.lines, self.blank) = (0, Blank::Needless);
    }

    /// Has at least LINES line ends come before what is written next.
    pub(super) fn block(&mut self, lines: usize) {
        if self.depth > 0 {
            if !self.code.is_empty() && !self.code.ends_with('\n') {
                self.code.push('\n');
            }
            return;
        }
        // What belongs to the mark of an item stands beside it.
        if self.mark.is_none() {
            self.lines = self.lines.max(lines);
        }
        self.blank = Blank::Needless;
    }

    /// Ends a line within a paragraph.
    pub(super) fn line(&mut self) {
        match self.depth {
            0 => self.block(1),
            _ => self.code.push('\n'),
        }
    }

    /// Has SIGN come before the next words, whose line begins OUTDENT columns before others.
    pub(super) fn open_mark(&mut self, sign: &str, outdent: usize) {
        if self.depth == 0 {
            self.mark = Some(ItemSign {
                sign: sign.to_owned(),
                outdent,
            });
        }
    }

    /// Ends what the last mark began, also where nothing followed it.
    pub(super) fn end_item(&mut self) {
        self.mark = None;
        self.block(1);
    }

    pub(super) fn indent(&mut self, columns: usize) {
        self.indent = columns;
    }

    /// Begins another cell of a row.
    pub(super) fn cell(&mut self) {
        if self.depth == 0 {
            (self.lines, self.blank) = (0, Blank::Needless);
            self.put(" | ");
            self.blank = Blank::Unfit;
        }
    }

    /// Writes TEXT right behind the last word.
    pub(super) fn glue(&mut self, text: &str) {
        match self.depth {
            0 => self.text.push_str(text),
            _ => self.code.push_str(text),
        }
    }

    /// Begins a name or code within a line.
    pub(super) fn begin_code(&mut self) {
        if self.depth == 0 {
            self.put("`");
            self.blank = Blank::Unfit;
        }
    }

    pub(super) fn end_code(&mut self) {
        if self.depth > 0 {
            return;
        }
        // Nothing was in it.
        if self.text.ends_with('`') && self.blank == Blank::Unfit {
            self.text.pop();
            self.blank = Blank::Needless;
            return;
        }
        self.text.push('`');
    }

    /// Begins code that stands as it is.
    pub(super) fn begin_pre(&mut self) {
        if self.depth == 0 {
            self.block(2);
        }
        self.depth += 1;
    }

    pub(super) fn end_pre(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth > 0 || self.code.trim().is_empty() {
            return;
        }
        let code = std::mem::take(&mut self.code);
        let longest = code.split(|it| it != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        // The first line end in it is not shown.
        let code = code.strip_prefix('\n').unwrap_or(&code).trim_end();
        let line_end = format!("\n{}", " ".repeat(self.indent));
        let code = code.replace('\n', &line_end);
        self.put(&format!("{fence}{line_end}{code}{line_end}{fence}"));
        self.block(2);
    }

    pub(super) fn is_in_pre(&self) -> bool {
        self.depth > 0
    }

    /// How far the text is.
    pub(super) fn place(&self) -> usize {
        self.text.len() + self.code.len()
    }

    /// Where what is written next will begin.
    pub(super) fn next_place(&self) -> usize {
        match self.text.is_empty() {
            true => 0,
            false => self.text.len() + self.lines,
        }
    }

    /// Marks the place of what is written next, unless there is one already.
    pub(super) fn mark_next(&mut self) {
        if self.marked == Marked::No {
            self.marked = Marked::Next;
        }
    }

    /// Whether the words that were written since PLACE are one of SIGNS, which is then gone.
    pub(super) fn drop_since(&mut self, place: usize, signs: &[&str]) -> bool {
        let Some(written) = self.text.get(place..).filter(|_| self.depth == 0) else {
            return false;
        };
        let (before, word) = match written.rfind(char::is_whitespace) {
            Some(blank) => written.split_at(blank + 1),
            None => ("", written),
        };
        // What was due before it may be there, such as the sign of a heading.
        if !signs.contains(&word) || before.contains(char::is_alphanumeric) {
            return false;
        }
        match before.trim().is_empty() {
            true => {
                // The line ends are due again.
                self.lines = before.matches('\n').count();
                self.text.truncate(place);
            }
            false => {
                self.text.truncate(place + before.len());
                self.blank = Blank::Unfit;
            }
        }
        true
    }

    /// The text, and the place that was marked.
    pub(super) fn finish(self) -> (String, Option<usize>) {
        let start = match self.marked {
            Marked::At(place) => Some(place),
            Marked::No | Marked::Next => None,
        };
        (self.text, start)
    }
}
