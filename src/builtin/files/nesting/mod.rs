// SPDX-License-Identifier: GPL-3.0-or-later
//! Repairing parentheses and string quotes of Common Lisp code by its indentation: what is missing is put in,
//! what is too much is left out, what is misplaced is moved, but only where exactly one such repair makes
//! the code agree with its indentation as strictly as [`fit`] asks.

mod edit;
mod fit;
mod operators;
mod quotes;
mod search;
mod tokens;

use std::ops::Range;

pub use edit::{OneCharacter, apply};
use fit::{Words, walk};
use quotes::{lacks_quote, quoted};
use search::Search;
use tokens::{Kind, LeftOpen, Lexed, Token, tokens};

/// What becomes of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// The parentheses agree with the indentation, or nothing says that they don't.
    Nothing,
    /// The one repair, in the order of the places.
    One(Vec<OneCharacter>),
    /// There are several, or none.
    Unclear,
}

/// How many forms that are balanced are looked at.
const MOST_ODD: usize = 40;

/// The repair of TEXT, all of a file; what it changes is in the bytes WITHIN.
#[must_use]
pub fn repair(text: &str, within: Range<usize>) -> Repair {
    if changes_reader(text) {
        return Repair::Unclear;
    }
    let all = tokens(text);
    let file = (text, all.all.as_slice());
    let Pieces { broken, mut odd } = pieces(text);
    let mut edits = Vec::new();
    for region in &broken {
        match repaired(&text[region.clone()], file) {
            Some(found) => edits.extend(found.into_iter().map(|it| it.moved(region.start))),
            None => return Repair::Unclear,
        }
    }
    odd.retain(|it| it.start < within.end && within.start < it.end);
    odd.truncate(MOST_ODD);
    if broken.is_empty() {
        edits = odd
            .into_iter()
            .find_map(|region| {
                let found = moved(&text[region.clone()], file)?;
                Some(found.into_iter().map(|it| it.moved(region.start)).collect())
            })
            .unwrap_or_default();
    }
    let inside = |edit: &OneCharacter| within.start <= edit.place() && edit.place() <= within.end;
    match edits.is_empty() {
        true => Repair::Nothing,
        false if edits.iter().all(inside) => Repair::One(edits),
        false => Repair::Unclear,
    }
}

/// Whether TEXT seems to change how it is read: only the program's own reader knows it then.
#[must_use]
pub fn changes_reader(text: &str) -> bool {
    let text = text.to_lowercase();
    let names = [
        "in-readtable",
        "set-macro-character",
        "set-dispatch-macro-character",
    ];
    let enables = text
        .lines()
        .any(|line| line.starts_with('(') && line.contains("enable-") && line.contains("-syntax"));
    enables || names.iter().any(|name| text.contains(name))
}

/// Whether each parenthesis of TOKENS has its partner.
fn balanced(tokens: &Lexed) -> bool {
    let mut depth = 0_i64;
    for token in &tokens.all {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0 && tokens.end == LeftOpen::Code
}

/// How many pieces may belong together, as what seems to start a form is in a string or a comment.
const MOST_PIECES: usize = 12;

/// The parts of a text that may have to be repaired.
struct Pieces {
    /// Those that are not balanced: forms, two where one seems to have swallowed the other.
    broken: Vec<Range<usize>>,
    /// Forms that are balanced and don't agree with their indentation.
    odd: Vec<Range<usize>>,
}

/// The parts of TEXT that may have to be repaired.
fn pieces(text: &str) -> Pieces {
    let mut starts: Vec<usize> = vec![0];
    starts.extend(text.match_indices("\n(").map(|(place, _)| place + 1));
    starts.dedup();
    starts.push(text.len());
    let mut regions: Vec<Range<usize>> = Vec::new();
    let mut piece = 0;
    let mut odd = Vec::new();
    while piece + 1 < starts.len() {
        let most = (piece + MOST_PIECES).min(starts.len() - 1);
        let first = tokens(&text[starts[piece]..starts[piece + 1]]);
        let mut end = piece + 1;
        if !balanced(&first) {
            let goes_on = first.end != LeftOpen::Code || wraps(&text[starts[piece]..]);
            let more = (piece + 2..=most)
                .filter(|_| goes_on)
                .find(|end| balanced(&tokens(&text[starts[piece]..starts[*end]])));
            match more {
                Some(more) => end = more,
                None => match regions.last_mut() {
                    Some(last) if last.end == starts[piece] => last.end = starts[end],
                    _ => regions.push(starts[piece]..starts[end]),
                },
            }
        } else if walk(
            &text[starts[piece]..starts[end]],
            &first.all,
            &Words::default(),
        )
        .is_err()
        {
            odd.push(starts[piece]..starts[end]);
        }
        piece = end;
    }
    Pieces {
        broken: regions,
        odd,
    }
}

/// Whether TEXT starts with a form that may be around definitions in the first column: one that is no
/// definition itself.
fn wraps(text: &str) -> bool {
    let name = text.trim_start_matches('(');
    let name = name
        .split(|it: char| it.is_whitespace() || matches!(it, '(' | ')'))
        .next()
        .unwrap_or_default();
    let bare = name.rsplit(':').next().unwrap_or_default();
    text.starts_with('(') && !bare.starts_with("def") && !bare.starts_with("test")
}

/// The one repair of TEXT, one or two forms.
fn repaired(text: &str, file: (&str, &[Token])) -> Option<Vec<OneCharacter>> {
    if wraps(text) {
        return None;
    }
    let tokens = tokens(text);
    if tokens.strange {
        return None;
    }
    if lacks_quote(text) {
        return quoted(text, file);
    }
    if tokens.end != LeftOpen::Code {
        return None;
    }
    let words = Words::of((text, &tokens.all), file);
    let mut search = Search::new(text, &tokens, &words);
    for edits in 1..=2 {
        let found = search.run(edits)?;
        match found.len() {
            0 => {}
            1 => return found.into_iter().next().flatten(),
            _ => return None,
        }
    }
    None
}

/// The one closing parenthesis of TEXT, a form whose parentheses are balanced, that can be moved so that it fits.
fn moved(text: &str, file: (&str, &[Token])) -> Option<Vec<OneCharacter>> {
    let tokens = tokens(text);
    if tokens.strange || wraps(text) {
        return None;
    }
    let words = Words::of((text, &tokens.all), file);
    let misfit = walk(text, &tokens.all, &words).err()?;
    // Other things are not what parentheses tell.
    if !tokens
        .all
        .get(misfit.token)
        .is_some_and(|it| it.leads && it.kind == Kind::Open)
    {
        return None;
    }
    let mut search = Search::new(text, &tokens, &words);
    search.moves = true;
    let found = search.run(2)?;
    match found.len() {
        1 => found.into_iter().next().flatten(),
        _ => None,
    }
}
