// SPDX-License-Identifier: GPL-3.0-or-later
//! Where a text that was not found almost stands: for telling a model what to look at.

use std::cmp::Reverse;

/// How many places are named.
const MOST: usize = 3;
/// The likeness, of 1, from which lines are worth naming.
const ALIKE: f64 = 0.6;
/// How many lines of a text are looked at.
const MOST_LINES: usize = 200_000;
const LONGEST_LINE: usize = 400;
const SHOWN: usize = 100;

/// A place that is almost what was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// The number of its first line, from 1.
    pub line: usize,
    /// That line.
    pub text: String,
    pub difference: Mismatch,
}

/// How a place differs from what was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    WhiteSpace,
    Words,
}

/// The places in TEXT that are most like WANTED, the best first.
#[must_use]
pub fn near_matches(text: &str, wanted: &str) -> Vec<Near> {
    let lines: Vec<&str> = text.lines().take(MOST_LINES).collect();
    let wanted: Vec<String> = wanted.lines().map(squeezed).collect();
    let blank_start = wanted.iter().take_while(|line| line.is_empty()).count();
    let wanted = &wanted[blank_start..];
    let length = wanted.len()
        - wanted
            .iter()
            .rev()
            .take_while(|line| line.is_empty())
            .count();
    let wanted = &wanted[..length];
    if wanted.is_empty() {
        return Vec::new();
    }
    let squeezed_lines: Vec<String> = lines.iter().map(|line| squeezed(line)).collect();
    let same: Vec<usize> = squeezed_lines
        .windows(length)
        .enumerate()
        .filter(|(_, window)| *window == wanted)
        .map(|(index, _)| index)
        .take(MOST)
        .collect();
    let (places, difference) = if same.is_empty() {
        (alike(&squeezed_lines, wanted), Mismatch::Words)
    } else {
        (same, Mismatch::WhiteSpace)
    };
    let near = |index: usize| Near {
        line: index + 1,
        text: lines[index].trim().chars().take(SHOWN).collect(),
        difference,
    };
    places.into_iter().map(near).collect()
}

/// The places where the lines are most like WANTED, found by its most telling line.
fn alike(lines: &[String], wanted: &[String]) -> Vec<usize> {
    let Some((offset, anchor)) = wanted
        .iter()
        .enumerate()
        .max_by_key(|(index, line)| (line.len().min(LONGEST_LINE), Reverse(*index)))
    else {
        return Vec::new();
    };
    let mut places: Vec<(f64, usize)> = lines
        .iter()
        .enumerate()
        .filter(|(index, line)| *index >= offset && likeness(line, anchor) >= ALIKE)
        .map(|(index, _)| {
            let start = index - offset;
            let here = lines[start..].iter().zip(wanted);
            let sum: f64 = here.map(|(line, wanted)| likeness(line, wanted)).sum();
            (sum / wanted.len() as f64, start)
        })
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    places.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    places.truncate(MOST);
    places.into_iter().map(|(_, place)| place).collect()
}

fn likeness(line: &str, wanted: &str) -> f64 {
    if line == wanted {
        return 1.0;
    }
    let (short, long) = (line.len().min(wanted.len()), line.len().max(wanted.len()));
    // Two texts can't be more alike than their lengths allow.
    if long > LONGEST_LINE || (2 * short) as f64 / ((short + long) as f64) < ALIKE {
        return 0.0;
    }
    strsim::sorensen_dice(line, wanted)
}

/// LINE with each run of white space as one space, and none around it.
fn squeezed(line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut text = words.next().unwrap_or_default().to_owned();
    for word in words {
        text.push(' ');
        text.push_str(word);
    }
    text
}

/// NEAR as the end of a sentence, or nothing.
pub(super) fn listed(near: &[Near]) -> String {
    let Some(first) = near.first() else {
        return String::new();
    };
    let places: Vec<String> = near
        .iter()
        .map(|near| format!("line {}: {}", near.line, near.text))
        .collect();
    let how = match first.difference {
        Mismatch::WhiteSpace => "the same but for white space",
        Mismatch::Words => "most like it",
    };
    format!("; {how}: {}", places.join(" | "))
}
