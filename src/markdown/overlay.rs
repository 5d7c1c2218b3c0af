// SPDX-License-Identifier: GPL-3.0-or-later
//! Looks that are laid over those of the parser's elements: the marks of quotes, whole lines.

use std::collections::HashMap;
use std::ops::Range;

use super::lines::disguised;
use super::style::{Run, Style, push};

/// Changes the look of RANGES, which are in order and apart, by CHANGE.
fn overlay(runs: &mut Vec<Run>, ranges: &[Range<usize>], change: impl Fn(Style) -> Style) {
    if ranges.is_empty() {
        return;
    }
    let mut made = Vec::with_capacity(runs.len() + 2 * ranges.len());
    let mut ranges = ranges.iter().peekable();
    let mut at = 0;
    for run in runs.iter() {
        let end = at + run.length;
        while at < end {
            while ranges.peek().is_some_and(|it| it.end <= at) {
                ranges.next();
            }
            let (to, style) = match ranges.peek() {
                Some(range) if range.start <= at => (range.end.min(end), change(run.style)),
                Some(range) => (range.start.min(end), run.style),
                None => (end, run.style),
            };
            push(&mut made, to - at, style);
            at = to;
        }
    }
    *runs = made;
}

/// Adds FLAGS to the look of RANGES, which are in order and apart.
pub fn add_flags(runs: &mut Vec<Run>, ranges: &[Range<usize>], flags: u32) {
    overlay(runs, ranges, |style| style.with(flags));
}

/// Marks the signs of QUOTES, the outer ones first, at the beginning of each of their lines in TEXT.
pub fn mark_quotes(text: &str, quotes: &[Range<usize>], runs: &mut Vec<Run>) {
    let bytes = text.as_bytes();
    let mut seen: HashMap<usize, usize> = HashMap::new();
    let mut marks = Vec::new();
    for quote in quotes {
        let mut line = memchr::memrchr(b'\n', &bytes[..quote.start]).map_or(0, |it| it + 1);
        let mut from = quote.start;
        while line < quote.end {
            let start = seen.get(&line).copied().unwrap_or(line).max(from);
            let blanks = bytes[start..]
                .iter()
                .take_while(|it| matches!(it, b' ' | b'\t'))
                .count();
            let mark = start + blanks;
            if bytes.get(mark) == Some(&b'>') {
                marks.push(mark..mark + 1);
                seen.insert(line, mark + 1);
            }
            let Some(length) = memchr::memchr(b'\n', &bytes[line..]) else {
                break;
            };
            line += length + 1;
            from = line;
        }
    }
    marks.sort_by_key(|it| it.start);
    overlay(runs, &marks, |style| style.only(Style::QUOTE_MARK));
}

/// The lines of TEXT that begin like those of a request, but for lines of code.
#[must_use]
pub fn masks(text: &str, runs: &[Run]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut run, mut passed) = (0, 0);
    let mut start = 0;
    for line in text.split('\n') {
        let end = start + line.len();
        if disguised(line) {
            while run < runs.len() && passed + runs[run].length < end {
                passed += runs[run].length;
                run += 1;
            }
            let code = runs
                .get(run)
                .is_some_and(|it| it.style.has(Style::BLOCK) || it.style.has(Style::FENCE));
            if !code {
                found.push(start..end);
            }
        }
        start = end + 1;
    }
    found
}
