// SPDX-License-Identifier: GPL-3.0-or-later
//! Where the quote of a string is missing.

use super::edit::{OneCharacter, apply};
use super::fit::{Words, walk};
use super::search::{ENOUGH, MOST_STEPS};
use super::tokens::{Kind, LeftOpen, Token, tokens};

/// Whether STRING, if it is one, has a line in it that looks like code.
fn hides_code(string: &str) -> bool {
    string.starts_with('"')
        && string
            .lines()
            .skip(1)
            .any(|line| line.trim_start().starts_with('('))
}

/// Whether the quote at PLACE of TEXT has a word next to it, inside of the string.
fn at_words(text: &str, place: usize) -> bool {
    let around = [
        text[..place].chars().next_back(),
        text[place + 1..].chars().next(),
    ];
    around.iter().flatten().any(|it| {
        it.is_alphanumeric()
            || matches!(
                it,
                '.' | '!' | '?' | ':' | '~' | '%' | ',' | ';' | '/' | ')' | '*' | '-'
            )
    })
}

/// Whether a string of TOKENS, those of TEXT, touches an atom.
fn touching(text: &str, tokens: &[Token]) -> bool {
    tokens.windows(2).any(|pair| {
        let atoms = pair.iter().all(|it| it.kind == Kind::Atom);
        let strings = pair.iter().any(|it| it.text(text).starts_with('"'));
        atoms && strings && pair[0].end == pair[1].start
    })
}

/// The places of TEXT where a string may start or end.
fn edges(text: &str) -> Vec<usize> {
    let outside = |it: char| it.is_whitespace() || matches!(it, '(' | ')' | '"' | ';' | '\'' | '`');
    let sign = |it: char| outside(it) && !it.is_whitespace();
    let mut edges = Vec::new();
    let mut before = ' ';
    let mut indentation = true;
    for (place, character) in text.char_indices().chain([(text.len(), '\n')]) {
        let gap = before == ' ' && character == ' ' && !indentation;
        let is_edge =
            gap || outside(before) != outside(character) || sign(before) || sign(character);
        if is_edge && before != '\\' {
            edges.push(place);
        }
        indentation = character == '\n' || indentation && character.is_whitespace();
        before = character;
    }
    edges
}

/// Whether a quote is missing in TEXT.
#[must_use]
pub fn lacks_quote(text: &str) -> bool {
    let plain = text.replace("\\\\", "").replace("\\\"", "");
    plain.matches('"').count() % 2 == 1
}

/// The one place where a quote makes TEXT fit.
pub fn quoted(text: &str, file: (&str, &[Token])) -> Option<Vec<OneCharacter>> {
    let mut found: Vec<(usize, Vec<String>)> = Vec::new();
    let mut steps = 0;
    for place in edges(text) {
        let made = apply(text, &[OneCharacter::Insert(place, '"')]);
        let tokens = tokens(&made);
        steps += tokens.all.len();
        if steps > MOST_STEPS {
            return None;
        }
        if tokens.end != LeftOpen::Code
            || tokens.strange
            || tokens.all.iter().any(|it| hides_code(it.text(&made)))
            || touching(&made, &tokens.all)
            || walk(&made, &tokens.all, &Words::of((&made, &tokens.all), file)).is_err()
        {
            continue;
        }
        let read: Vec<String> = tokens
            .all
            .iter()
            .map(|it| made[it.start..it.end].to_owned())
            .collect();
        if !found.iter().any(|(_, other)| *other == read) {
            found.push((place, read));
        }
        if found.len() >= ENOUGH {
            return None;
        }
    }
    let (place, _) = found.into_iter().next()?;
    let name = tokens(text).all.get(2).map_or(0, |it| it.end);
    if place < name || !at_words(&apply(text, &[OneCharacter::Insert(place, '"')]), place) {
        return None;
    }
    Some(vec![OneCharacter::Insert(place, '"')])
}
