// SPDX-License-Identifier: GPL-3.0-or-later
//! Searching the text of a project's files with a regular expression, on all cores, in an order
//! that doesn't depend on them: the first matches by path and line, and a count of the rest.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::path::{PathKind, PathPolicy, Resolved};
use super::patterns::FileGlob;
use super::search::{Hidden, private_note};
use super::walk::{Ground, Walk, WalkedEntry, WalkedKind};
use super::{FileError, Stop, Trouble, cancelled, count};

/// How many matching lines are shown when nobody says.
pub const DEFAULT_MATCHES: usize = 100;
/// The most lines around a match.
pub const MOST_CONTEXT: usize = 10;
/// The most bytes of a line that are shown.
const LONGEST_LINE: usize = 300;

/// Whether letter case counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    Sensitive,
    Insensitive,
    /// Counts when the pattern has a capital letter.
    #[default]
    Smart,
}

/// How far a search is: how many files were searched, and how many there are, if they were counted.
#[derive(Debug, Default)]
pub struct SearchProgress {
    searched: AtomicU64,
    all: AtomicU64,
}

impl SearchProgress {
    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        let searched = grouped(self.searched.load(Ordering::Relaxed));
        match self.all.load(Ordering::Relaxed) {
            0 => format!("{searched} files"),
            all => format!("{searched} of {} files", grouped(all)),
        }
    }
}

/// NUMBER with commas, such as 1,200.
fn grouped(number: u64) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), number % 1000),
    }
}

/// What to look for.
#[derive(Debug, Clone)]
pub struct Grep {
    pub pattern: String,
    /// Only files that this glob matches.
    pub glob: Option<String>,
    pub case: Case,
    /// How many lines before and after each match are shown.
    pub context: usize,
    /// The most matching lines to show.
    pub limit: usize,
    pub hidden: Hidden,
    pub progress: Arc<SearchProgress>,
}

impl Grep {
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self {
            pattern: pattern.to_owned(),
            glob: None,
            case: Case::Smart,
            context: 0,
            limit: DEFAULT_MATCHES,
            hidden: Hidden::LeaveOut,
            progress: Arc::default(),
        }
    }
}

/// Why a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Match,
    Context,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLine {
    pub number: u64,
    pub role: Role,
    pub text: String,
}

/// The matches in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundIn {
    pub path: PathBuf,
    pub lines: Vec<FoundLine>,
}

/// All that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLines {
    pub pattern: String,
    pub files: Vec<FoundIn>,
    /// Matching lines that are shown, and all of them.
    pub shown: u64,
    pub matches: u64,
    /// Files with a match, shown or not.
    pub matching_files: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    pub private: u64,
}

impl FoundLines {
    /// The answer for a model: `path:line:text`, and `path-line-text` around it, so that a copied line is one of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = match self.matches {
            0 => format!("No matches for '{}'.\n", self.pattern),
            _ => format!(
                "Found {} for '{}' in {}:\n\n",
                count(self.matches, "match"),
                self.pattern,
                count(self.matching_files, "file")
            ),
        };
        text.push_str(&self.lines());
        text
    }

    /// The lines alone, and what is left out.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            let path = file.path.display();
            let mut last = None;
            for line in &file.lines {
                let around = file.lines.iter().any(|it| it.role == Role::Context);
                if around && last.is_some_and(|last| last + 1 < line.number) {
                    text.push_str("--\n");
                }
                last = Some(line.number);
                let sign = if line.role == Role::Match { ':' } else { '-' };
                text.push_str(&format!("{path}{sign}{}{sign}{}\n", line.number, line.text));
            }
        }
        if self.matches > self.shown {
            text.push_str(&format!(
                "\n… {} more; use a narrower pattern or a glob to see them.\n",
                count(self.matches - self.shown, "match")
            ));
        }
        if self.unreadable > 0 {
            let files = count(self.unreadable, "file");
            text.push_str(&format!("\n({files} could not be read.)\n"));
        }
        text.push_str(&private_note(self.private));
        text
    }
}

/// Searches TARGET, a folder or one file, as GREP says.
///
/// # Errors
///
/// A bad pattern or glob, nothing there, or STOP said so.
pub fn grep(
    policy: &PathPolicy,
    target: &Resolved,
    grep: &Grep,
    stop: Stop<'_>,
) -> Result<FoundLines, FileError> {
    let matcher = matcher(grep)?;
    let glob = grep.glob.as_deref().map(FileGlob::new).transpose()?;
    let collector = Collector::new(grep);
    let private = if target.kind == PathKind::File {
        let file = super::verified::open_for_read(target)?;
        Worker::new(&matcher, grep, &collector, stop).search(Path::new(""), file);
        0
    } else {
        let ground = Ground::new(policy, target, grep.hidden, Vec::new())?;
        let visitor = || {
            let mut worker = Worker::new(&matcher, grep, &collector, stop);
            let glob = glob.as_ref();
            move |entry: &WalkedEntry<'_>| {
                grep.progress.searched.fetch_add(1, Ordering::Relaxed);
                worker.visit(glob, entry);
                Walk::On
            }
        };
        ground.files_side_by_side(visitor, stop);
        ground.private()
    };
    if stop() {
        return Err(cancelled());
    }
    Ok(collector.finish(target, private))
}

/// Counts the files of TARGET for the progress of GREP, unless STOP says so before. That takes longer than a
/// search of few.
///
/// # Errors
///
/// TARGET isn't a folder any more.
pub fn count_files(
    policy: &PathPolicy,
    target: &Resolved,
    grep: &Grep,
    stop: Stop<'_>,
) -> Result<(), FileError> {
    let ground = Ground::new(policy, target, grep.hidden, Vec::new())?;
    let mut all = 0;
    ground.in_order(usize::MAX, &mut |entry| {
        all += u64::from(entry.kind == WalkedKind::File);
        if stop() { Walk::Ends } else { Walk::On }
    });
    if !stop() {
        grep.progress.all.store(all, Ordering::Relaxed);
    }
    Ok(())
}

fn matcher(grep: &Grep) -> Result<RegexMatcher, FileError> {
    if grep.pattern.is_empty() {
        return Err(FileError::new(Trouble::BadRequest, "The pattern is empty."));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        // Or each line that `^` is asked about would be taken on its own.
        .multi_line(true)
        .case_insensitive(grep.case == Case::Insensitive)
        .case_smart(grep.case == Case::Smart)
        .line_terminator(Some(b'\n'));
    builder.build(&grep.pattern).map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        FileError::new(
            Trouble::BadRequest,
            format!(
                "The regular expression '{}' can't be used: {}. Escape literal ( ) [ ] {{ }} . * + ? | ^ $ \\ with a backslash.",
                grep.pattern,
                why.trim_end_matches('.')
            ),
        )
    })
}

/// What one thread needs to search files.
struct Worker<'g> {
    matcher: &'g RegexMatcher,
    searcher: Searcher,
    collector: &'g Collector,
    stop: Stop<'g>,
}

impl<'g> Worker<'g> {
    fn new(
        matcher: &'g RegexMatcher,
        grep: &Grep,
        collector: &'g Collector,
        stop: Stop<'g>,
    ) -> Self {
        let context = grep.context.min(MOST_CONTEXT);
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .build();
        Self {
            matcher,
            searcher,
            collector,
            stop,
        }
    }

    fn visit(&mut self, glob: Option<&FileGlob>, entry: &WalkedEntry<'_>) {
        if glob.is_some_and(|glob| !glob.matches(entry.relative)) {
            return;
        }
        match entry.open() {
            Ok(file) => self.search(entry.relative, file),
            Err(_) => self.collector.unreadable(),
        }
    }

    fn search(&mut self, relative: &Path, file: std::fs::File) {
        let mut sink = FileSink {
            relative,
            collector: self.collector,
            lines: Vec::new(),
            kept: 0,
            matches: 0,
            room: None,
            binary: false,
        };
        let reader = Stoppable {
            file,
            stop: self.stop,
        };
        let searched = self.searcher.search_reader(self.matcher, reader, &mut sink);
        match searched {
            // A file that turns out binary is no text, whatever was found in it before.
            Ok(()) if sink.matches > 0 && !sink.binary => {
                self.collector
                    .add(relative, sink.lines, sink.kept, sink.matches);
            }
            Ok(()) => {}
            Err(_) => self.collector.unreadable(),
        }
    }
}

/// A file that ends early when the search is cancelled.
struct Stoppable<'s> {
    file: std::fs::File,
    stop: Stop<'s>,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() {
            Ok(0)
        } else {
            self.file.read(buffer)
        }
    }
}

/// Takes what the searcher finds in one file.
struct FileSink<'c> {
    relative: &'c Path,
    collector: &'c Collector,
    lines: Vec<FoundLine>,
    kept: usize,
    matches: u64,
    /// How many matches of this file can be shown; asked for at the first.
    room: Option<usize>,
    binary: bool,
}

impl FileSink<'_> {
    fn keep(&mut self, number: Option<u64>, role: Role, bytes: &[u8]) {
        self.lines.push(FoundLine {
            number: number.unwrap_or(0),
            role,
            text: shorten(bytes),
        });
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        let room = *self
            .room
            .get_or_insert_with(|| self.collector.room(self.relative));
        if room == 0 {
            // What came before the first match belongs to nothing that is shown.
            self.lines.clear();
        } else if self.kept < room {
            self.kept += 1;
            self.keep(found.line_number(), Role::Match, found.bytes());
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.room.is_none_or(|room| self.kept < room) {
            self.keep(found.line_number(), Role::Context, found.bytes());
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

fn shorten(bytes: &[u8]) -> String {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= LONGEST_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = String::from_utf8_lossy(&line[..LONGEST_LINE]).into_owned();
    format!(
        "{} [… {} more bytes]",
        start.trim_end_matches('\u{fffd}'),
        line.len() - LONGEST_LINE
    )
}

/// Gathers what all threads find, and keeps the matches that come first.
struct Collector {
    limit: usize,
    /// By path from the folder that is searched.
    kept: Mutex<Kept>,
    matches: AtomicU64,
    matching_files: AtomicU64,
    unreadable: AtomicU64,
    pattern: String,
}

#[derive(Default)]
struct Kept {
    files: BTreeMap<PathBuf, (Vec<FoundLine>, usize)>,
    matches: usize,
}

impl Collector {
    fn new(grep: &Grep) -> Self {
        Self {
            limit: grep.limit,
            kept: Mutex::default(),
            matches: AtomicU64::new(0),
            matching_files: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
            pattern: grep.pattern.clone(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    /// How many matches of the file at PATH can still be among the first.
    fn room(&self, path: &Path) -> usize {
        let kept = self.kept();
        let full = kept.matches >= self.limit;
        match kept.files.last_key_value() {
            Some((last, _)) if full && path > last.as_path() => 0,
            _ => self.limit,
        }
    }

    fn add(&self, path: &Path, lines: Vec<FoundLine>, matches: usize, all: u64) {
        self.matches.fetch_add(all, Ordering::Relaxed);
        self.matching_files.fetch_add(1, Ordering::Relaxed);
        if matches == 0 {
            return;
        }
        let mut kept = self.kept();
        kept.matches += matches;
        kept.files.insert(path.to_owned(), (lines, matches));
        // A file goes when those before it fill the limit on their own.
        while let Some(last) = kept.files.last_entry() {
            let of_last = last.get().1;
            if kept.matches - of_last < self.limit {
                break;
            }
            kept.files.pop_last();
            kept.matches -= of_last;
        }
    }

    fn finish(self, target: &Resolved, private: u64) -> FoundLines {
        let kept = self
            .kept
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let prefix = target.relative.as_ref().unwrap_or(&target.path);
        let mut left = self.limit;
        let mut files = Vec::new();
        for (path, (mut lines, _)) in kept.files {
            let is_match = |line: &FoundLine| line.role == Role::Match;
            let past = lines
                .iter()
                .enumerate()
                .filter(|(_, line)| is_match(line))
                .nth(left);
            if let Some((past, _)) = past {
                lines.truncate(past);
            }
            left -= lines.iter().filter(|line| is_match(line)).count();
            let path = if path.as_os_str().is_empty() {
                prefix.clone()
            } else {
                prefix.join(path)
            };
            files.push(FoundIn { path, lines });
        }
        FoundLines {
            pattern: self.pattern,
            shown: (self.limit - left) as u64,
            files,
            matches: self.matches.into_inner(),
            matching_files: self.matching_files.into_inner(),
            unreadable: self.unreadable.into_inner(),
            private,
        }
    }
}
