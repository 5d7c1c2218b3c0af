// SPDX-License-Identifier: GPL-3.0-or-later
//! Pages of a text file, by lines. A file is streamed up to the end of the page, never held whole;
//! UTF-16, where lines can't be told by bytes, is the exception and has a limit.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use memchr::{memchr, memchr_iter};

use super::encoding::{self, Encoding, Extent, LineEnds, Mark, SAMPLE};
use super::fingerprint::Fingerprint;
use super::path::Resolved;
use super::verified::open_for_read;
use super::{FileError, Trouble, count, human_size};

/// How many lines a page has when nobody says.
pub const DEFAULT_LINES: u64 = 500;
/// The most lines of one page.
pub const MOST_LINES: u64 = 5000;
/// The most bytes of one line that are shown.
pub const LONGEST_LINE: usize = 2000;
/// A page ends with the line that takes it past this many bytes, so that it goes to a model whole.
pub const LARGEST_PAGE: usize = 13 * 1024;
/// The largest file that is read whole: for editing it, and for UTF-16.
pub const LARGEST_WHOLE: u64 = 32 * 1024 * 1024;
/// Up to this size the rest is read too, to say how many lines there are.
const COUNTED: u64 = 8 * 1024 * 1024;
const CHUNK: usize = 256 * 1024;

/// Which lines are wanted; the first line is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    first: u64,
    lines: u64,
}

impl Window {
    /// The window that a model asked for, the default where it said nothing.
    ///
    /// # Errors
    ///
    /// A line number below 1.
    pub fn new(offset: Option<i64>, limit: Option<i64>) -> Result<Self, FileError> {
        let check = |number: i64, name: &str| {
            u64::try_from(number)
                .ok()
                .filter(|&number| number > 0)
                .ok_or_else(|| {
                    FileError::new(
                        Trouble::BadRequest,
                        format!("{name} is {number}, but has to be 1 or more."),
                    )
                })
        };
        let first = check(offset.unwrap_or(1), "offset (a line number)")?;
        let lines = check(
            limit.unwrap_or(DEFAULT_LINES as i64),
            "limit (a number of lines)",
        )?;
        Ok(Self {
            first,
            lines: lines.min(MOST_LINES),
        })
    }
}

/// What a model reads for a NUL character, which not every provider takes.
const NUL_PICTURE: &str = "␀";

/// One line of a page, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLine {
    pub text: String,
    /// How many bytes of it were left out.
    pub cut: u64,
}

/// Some lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The number of the first line.
    pub first: u64,
    pub lines: Vec<PageLine>,
    /// How many lines the file has, when that is known.
    pub total: Option<u64>,
    /// The line that the next page starts with, when there is one.
    pub next: Option<u64>,
    pub encoding: Encoding,
    pub line_ends: LineEnds,
    pub size: u64,
    pub fingerprint: Fingerprint,
    shown: String,
}

impl Page {
    /// The lines as a text. A line that was cut says so; for a NUL stands its picture.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(&line.text.replace('\0', NUL_PICTURE));
            if line.cut > 0 {
                text.push_str(&format!(" [… {} bytes of this line left out]", line.cut));
            }
            text.push('\n');
        }
        text
    }

    /// One sentence on what this is of: which lines, how many there are, what is unusual.
    #[must_use]
    pub fn note(&self) -> String {
        let last = self.first + self.lines.len() as u64 - 1;
        let of = match self.total {
            Some(total) => format!(" of {total}"),
            None => String::new(),
        };
        let mut note = match self.lines.len() {
            0 => format!("'{}' is empty", self.shown),
            _ => format!(
                "Lines {}–{last}{of} of '{}' ({})",
                self.first,
                self.shown,
                human_size(self.size)
            ),
        };
        if self.encoding != Encoding::Utf8(Mark::None) {
            note.push_str(&format!("; {}", self.encoding));
        }
        match self.line_ends {
            LineEnds::Lf => {}
            LineEnds::CrLf => note.push_str("; line ends are CRLF"),
            LineEnds::Mixed => note.push_str("; line ends are mixed, LF and CRLF"),
        }
        if self.lines.iter().any(|line| line.text.contains('\u{fffd}')) {
            note.push_str("; � stands for bytes that are not UTF-8");
        }
        if self.lines.iter().any(|line| line.text.contains('\0')) {
            note.push_str("; ␀ stands for NUL characters");
        }
        if let Some(next) = self.next {
            note.push_str(&format!("; more with offset={next}"));
        }
        note.push('.');
        note
    }
}

/// Reads WINDOW of the file at TARGET.
///
/// # Errors
///
/// The file is missing, no file, binary, unreadable, or ends before the window starts.
pub fn read_page(target: &Resolved, window: Window) -> Result<Page, FileError> {
    let file = open_for_read(target)?;
    let shown = target.shown();
    let in_words = |error: io::Error| FileError::system(&shown, &error);
    let size = file.metadata().map_err(in_words)?.len();
    let mut sample = vec![0; SAMPLE.min(usize::try_from(size).unwrap_or(SAMPLE))];
    file.read_exact_at(&mut sample, 0).map_err(in_words)?;
    let extent = if sample.len() as u64 == size {
        Extent::Whole
    } else {
        Extent::Start
    };
    let Some(encoding) = encoding::detect(&sample, extent) else {
        let message = format!(
            "'{shown}' is a binary file ({}), not text.",
            human_size(size)
        );
        return Err(FileError::new(Trouble::WrongKind, message));
    };
    let fingerprint = Fingerprint::of_file(&file).map_err(in_words)?;
    let mut scan = Scan::new(window, encoding);
    match encoding {
        Encoding::Utf16Little(_) | Encoding::Utf16Big(_) => {
            let (text, _) = read_whole(&file, size, &shown)?;
            scan.feed(text.as_bytes());
            scan.reached_end = true;
        }
        Encoding::Utf8(_) | Encoding::Latin1 => {
            if encoding == Encoding::Utf8(Mark::Present) {
                (&file).read_exact(&mut [0; 3]).map_err(in_words)?;
            }
            scan.run(&file, size).map_err(in_words)?;
        }
    }
    scan.finish(shown, size, fingerprint)
}

/// A text file read whole, for changing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeText {
    pub text: String,
    pub encoding: Encoding,
    pub line_ends: LineEnds,
    pub fingerprint: Fingerprint,
}

/// Reads all of the text file at TARGET.
///
/// # Errors
///
/// As [`read_page`]; also when it is too large.
pub fn read_text(target: &Resolved) -> Result<WholeText, FileError> {
    let file = open_for_read(target)?;
    let shown = target.shown();
    let in_words = |error: io::Error| FileError::system(&shown, &error);
    let size = file.metadata().map_err(in_words)?.len();
    let fingerprint = Fingerprint::of_file(&file).map_err(in_words)?;
    let (text, encoding) = read_whole(&file, size, &shown)?;
    Ok(WholeText {
        line_ends: LineEnds::of(text.as_bytes()),
        text,
        encoding,
        fingerprint,
    })
}

/// What the file at TARGET is now.
///
/// # Errors
///
/// It can't be read.
pub fn fingerprint(target: &Resolved) -> Result<Fingerprint, FileError> {
    let file = open_for_read(target)?;
    Fingerprint::of_file(&file).map_err(|error| FileError::system(target.shown(), &error))
}

fn read_whole(file: &File, size: u64, shown: &str) -> Result<(String, Encoding), FileError> {
    if size > LARGEST_WHOLE {
        let message = format!(
            "'{shown}' has {}; only files up to {} can be used as a whole.",
            human_size(size),
            human_size(LARGEST_WHOLE)
        );
        return Err(FileError::new(Trouble::WrongKind, message));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let mut limited = file.take(LARGEST_WHOLE);
    limited
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::system(shown, &error))?;
    let (text, encoding) = encoding::decode(&bytes, shown)?;
    Ok((text.into_owned(), encoding))
}

/// Finds a window in bytes that come piece by piece.
struct Scan {
    window: Window,
    encoding: Encoding,
    /// Lines whose end was seen.
    ended: u64,
    /// The line that is being collected, and how much of it did not fit.
    line: Vec<u8>,
    cut: u64,
    lines: Vec<PageLine>,
    collected: usize,
    plain_ends: bool,
    return_ends: bool,
    /// Something follows the last line end.
    open: bool,
    reached_end: bool,
}

impl Scan {
    fn new(window: Window, encoding: Encoding) -> Self {
        Self {
            window,
            encoding,
            ended: 0,
            line: Vec::new(),
            cut: 0,
            lines: Vec::new(),
            collected: 0,
            plain_ends: false,
            return_ends: false,
            open: false,
            reached_end: false,
        }
    }

    fn run(&mut self, mut file: &File, size: u64) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => {
                    self.reached_end = true;
                    return Ok(());
                }
                Ok(read) => self.feed(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.full() && size > COUNTED {
                return Ok(());
            }
        }
    }

    fn full(&self) -> bool {
        self.lines.len() as u64 >= self.window.lines || self.collected >= LARGEST_PAGE
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.ended + 1 < self.window.first {
            rest = self.skip(rest);
        }
        while !rest.is_empty() && !self.full() && self.ended + 1 >= self.window.first {
            let end = memchr(b'\n', rest);
            self.collect(&rest[..end.unwrap_or(rest.len())]);
            match end {
                Some(end) => {
                    self.end_line();
                    self.ended += 1;
                    rest = &rest[end + 1..];
                }
                None => rest = &[],
            }
        }
        self.ended += memchr_iter(b'\n', rest).count() as u64;
        if let Some(&last) = bytes.last() {
            self.open = last != b'\n';
        }
    }

    /// Passes over lines before the window; returns what is left then.
    fn skip<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let wanted = self.window.first - 1 - self.ended;
        let ends = memchr_iter(b'\n', bytes).count() as u64;
        if ends < wanted {
            self.ended += ends;
            return &[];
        }
        let last = usize::try_from(wanted - 1).unwrap_or(usize::MAX);
        let end = memchr_iter(b'\n', bytes).nth(last).unwrap_or(bytes.len());
        self.ended += wanted;
        &bytes[end + 1..]
    }

    fn collect(&mut self, part: &[u8]) {
        // One byte more, for a carriage return that is not shown.
        let room = (LONGEST_LINE + 1)
            .saturating_sub(self.line.len())
            .min(part.len());
        self.line.extend_from_slice(&part[..room]);
        self.cut += (part.len() - room) as u64;
        self.open = true;
    }

    fn end_line(&mut self) {
        if self.cut == 0 && self.line.last() == Some(&b'\r') {
            self.line.pop();
            self.return_ends = true;
        } else {
            self.plain_ends = true;
        }
        self.keep_line();
    }

    fn keep_line(&mut self) {
        let whole = self.line.len();
        if whole > LONGEST_LINE {
            let end = match std::str::from_utf8(&self.line[..LONGEST_LINE]) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => LONGEST_LINE,
            };
            self.line.truncate(end);
            self.cut += (whole - end) as u64;
        }
        let text = match self.encoding {
            Encoding::Latin1 => encoding::latin1(&self.line),
            _ => match std::str::from_utf8(&self.line) {
                Ok(text) => text.to_owned(),
                Err(_) => String::from_utf8_lossy(&self.line).into_owned(),
            },
        };
        self.collected += text.len();
        self.lines.push(PageLine {
            text,
            cut: std::mem::take(&mut self.cut),
        });
        self.line.clear();
    }

    fn finish(
        mut self,
        shown: String,
        size: u64,
        fingerprint: Fingerprint,
    ) -> Result<Page, FileError> {
        let in_window = self.ended + 1 >= self.window.first && !self.full();
        if self.open && in_window && (!self.line.is_empty() || self.cut > 0) {
            self.keep_line();
        }
        let total = self.reached_end.then(|| self.ended + u64::from(self.open));
        if self.lines.is_empty() && self.window.first > 1 {
            let lines = count(total.unwrap_or(self.ended), "line");
            let message = format!(
                "'{shown}' has {lines}; line {} does not exist.",
                self.window.first
            );
            return Err(FileError::new(Trouble::BadRequest, message));
        }
        let after = self.window.first + self.lines.len() as u64;
        Ok(Page {
            first: self.window.first,
            next: total.is_none_or(|total| after <= total).then_some(after),
            total,
            encoding: self.encoding,
            line_ends: match (self.plain_ends, self.return_ends) {
                (true, true) => LineEnds::Mixed,
                (false, true) => LineEnds::CrLf,
                _ => LineEnds::Lf,
            },
            lines: self.lines,
            size,
            fingerprint,
            shown,
        })
    }
}
