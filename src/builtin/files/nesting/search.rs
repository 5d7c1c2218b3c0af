// SPDX-License-Identifier: GPL-3.0-or-later
//! The search for edits that make a text fit its indentation.

use std::collections::HashSet;

use super::edit::OneCharacter;
use super::fit::{Looked, MadeBy, Misfit, Nesting, Words};
use super::operators::Seat;
use super::tokens::{Kind, Lexed, Token};

/// How many steps a search may take.
pub const MOST_STEPS: usize = 200_000;
/// How many repairs are looked at before it is said that there are several.
pub const ENOUGH: usize = 2;

/// A search for the repairs of a text.
pub struct Search<'t> {
    text: Looked<'t>,
    /// For each token, how many more forms are opened than closed from it on.
    rest: Vec<i64>,
    steps: usize,
    /// Whether closing parentheses may only be moved.
    pub moves: bool,
    /// What the repaired texts are when read, and the repairs.
    found: Vec<Option<Vec<OneCharacter>>>,
    shapes: HashSet<Vec<usize>>,
}

/// Where a search is.
#[derive(Clone)]
struct Place {
    token: usize,
    nesting: Nesting,
    edits: Vec<OneCharacter>,
    shape: Vec<usize>,
    left: usize,
    /// Whether an edit is one that fits and yet is hardly what was meant.
    doubtful: bool,
}

impl<'t> Search<'t> {
    #[must_use]
    pub fn new(text: &'t str, tokens: &'t Lexed, words: &'t Words) -> Self {
        let mut rest = vec![0; tokens.all.len() + 1];
        for (index, token) in tokens.all.iter().enumerate().rev() {
            rest[index] = rest[index + 1]
                + match token.kind {
                    Kind::Open => 1,
                    Kind::Close => -1,
                    _ => 0,
                };
        }
        Self {
            text: Looked {
                text,
                tokens: &tokens.all,
                words,
            },
            rest,
            steps: 0,
            moves: false,
            found: Vec::new(),
            shapes: HashSet::new(),
        }
    }

    /// The repairs of as many EDITS, at most [`ENOUGH`]; nothing where it takes too long.
    pub fn run(&mut self, edits: usize) -> Option<Vec<Option<Vec<OneCharacter>>>> {
        self.found.clear();
        self.shapes.clear();
        self.go(Place {
            token: 0,
            nesting: Nesting::default(),
            edits: Vec::new(),
            shape: Vec::new(),
            left: edits,
            doubtful: false,
        });
        (self.steps < MOST_STEPS).then(|| std::mem::take(&mut self.found))
    }

    /// Follows PLACE to the end of the text, and each way that leaves it by an edit.
    fn go(&mut self, mut place: Place) {
        let tokens = self.text.tokens;
        loop {
            self.steps += 1;
            if self.steps >= MOST_STEPS || self.found.len() >= ENOUGH {
                return;
            }
            let off = place.nesting.depth() as i64 + self.rest[place.token];
            if off.unsigned_abs() as usize > place.left
                || (off.unsigned_abs() as usize + place.left) % 2 == 1
            {
                return;
            }
            let Some(token) = tokens.get(place.token) else {
                if place.left > 0 && place.nesting.depth() > 0 {
                    self.closing(&place);
                }
                if place.left == 0 && place.nesting.depth() == 0 && self.shapes.insert(place.shape)
                {
                    self.found.push((!place.doubtful).then_some(place.edits));
                }
                return;
            };
            place.nesting.arrive(token);
            if place.left > 0 {
                self.branch(&place);
            }
            if self.take(&mut place, *token).is_err() {
                return;
            }
        }
    }

    /// Takes the token at PLACE as it is, and in its way closes what an edit closes behind it.
    fn take(&self, place: &mut Place, token: Token) -> Result<(), Misfit> {
        let index = place.token;
        match token.kind {
            Kind::Open => place
                .nesting
                .open(index, token, self.text, MadeBy::Text)
                .map(|_| ())?,
            Kind::Close => place.nesting.close(index)?,
            Kind::Atom | Kind::Feature => place.nesting.atom(index, token, self.text)?,
        }
        place.shape.push(match token.kind {
            Kind::Open if token.start == token.bare => 0,
            Kind::Close => 1,
            _ => index + 2,
        });
        place.token += 1;
        Ok(())
    }

    /// Tries what can be done at PLACE.
    fn branch(&mut self, place: &Place) {
        let index = place.token;
        let tokens = self.text.tokens;
        let token = &tokens[index];
        // A closing parenthesis, behind the token before.
        if index > 0 && token.kind != Kind::Close {
            self.closing(place);
        }
        match token.kind {
            Kind::Close => {
                if !self.moves {
                    self.empty(place);
                }
                // Of several, the last one.
                if tokens
                    .get(index + 1)
                    .is_none_or(|it| it.kind != Kind::Close)
                {
                    let mut other = place.clone();
                    other.edits.push(OneCharacter::Delete(token.start));
                    other.token += 1;
                    other.left -= 1;
                    other.nesting.shift(-1);
                    self.go(other);
                }
            }
            Kind::Open | Kind::Atom if !self.moves => {
                self.opening(place, token.start);
                if token.bare > token.start {
                    self.opening(place, token.bare);
                }
            }
            _ => {}
        }
    }

    /// Tries an opening parenthesis right before the closing one at PLACE.
    fn empty(&mut self, place: &Place) {
        let token = self.text.tokens[place.token];
        let before = self.text.text[..token.start].chars().next_back();
        if !before.is_some_and(|it| it.is_whitespace() || it == '(') {
            return;
        }
        let mut other = place.clone();
        other.edits.push(OneCharacter::Insert(token.start, '('));
        other.left -= 1;
        let opening = Token {
            kind: Kind::Open,
            ..token
        };
        if let Ok(role) = other
            .nesting
            .open(place.token, opening, self.text, MadeBy::Edit)
        {
            other.doubtful |= !matches!(role, Seat::List | Seat::Bindings | Seat::Functions);
            other.nesting.shift(1);
            other.shape.push(0);
            if self.take(&mut other, token).is_ok() {
                self.go(other);
            }
        }
    }

    /// Tries an opening parenthesis at the byte START, before the token at PLACE or behind the signs before it.
    fn opening(&mut self, place: &Place, start: usize) {
        let token = self.text.tokens[place.token];
        let mut other = place.clone();
        other.edits.push(OneCharacter::Insert(start, '('));
        other.left -= 1;
        let (opening, inner) = match start == token.start {
            true => (
                Token {
                    bare: start,
                    bare_column: token.column,
                    kind: Kind::Open,
                    ..token
                },
                Token {
                    leads: false,
                    ..token
                },
            ),
            false => (
                Token {
                    kind: Kind::Open,
                    ..token
                },
                Token {
                    start,
                    column: token.bare_column,
                    leads: false,
                    ..token
                },
            ),
        };
        let nesting = &mut other.nesting;
        let is_operator = |it: &Token| {
            it.kind == Kind::Atom
                && it.start == it.bare
                && self.text.words.is_operator(it.text(self.text.text))
        };
        if nesting.starts_unknown() && is_operator(&inner) {
            return;
        }
        if let Ok(role) = nesting.open(place.token, opening, self.text, MadeBy::Edit) {
            if !self.is_start(&inner, start, role) {
                return;
            }
            let next = self.text.tokens.get(place.token + 1);
            if role == Seat::Unknown
                && inner.kind == Kind::Open
                && next
                    .is_some_and(|it| is_operator(it) || it.text(self.text.text).starts_with(':'))
            {
                return;
            }
            other.doubtful |= match role {
                Seat::Form | Seat::Unknown => {
                    !is_operator(&inner)
                        || role == Seat::Unknown && Words::is_loop_word(inner.text(self.text.text))
                }
                Seat::Data | Seat::Name => true,
                _ => false,
            };
            other.nesting.shift(1);
            other.shape.push(match start == token.start {
                true => 0,
                false => place.token + 2,
            });
            if self.take(&mut other, inner).is_ok() {
                self.go(other);
            }
        }
    }

    /// Whether a form with ROLE may start at the byte START before TOKEN.
    fn is_start(&self, token: &Token, start: usize, role: Seat) -> bool {
        let prefix = token.prefix(self.text.text);
        let word = token.text(self.text.text);
        let code = matches!(role, Seat::Form | Seat::Unknown);
        match token.kind {
            Kind::Open => !prefix.ends_with('\'') && !self.text.text[..start].ends_with("#'"),
            _ => {
                let special = word.len() > 1 && word.starts_with('*') && word.ends_with('*');
                let literal = word.starts_with(['"', '#']) && role != Seat::Unknown;
                !literal && !(code && (special || prefix.ends_with('\'')))
            }
        }
    }

    /// Tries a closing parenthesis before the token at PLACE.
    fn closing(&mut self, place: &Place) {
        let before = &self.text.tokens[place.token - 1];
        let next = self.text.text[before.end..].chars().next();
        if before.kind == Kind::Open
            && !next.is_some_and(|it| it.is_whitespace() || matches!(it, ')' | '('))
        {
            return;
        }
        let after = self.text.tokens.get(place.token);
        let word = before.text(self.text.text);
        // (:documentation "...")
        if word.starts_with(':')
            && self.text.tokens[place.token.saturating_sub(2)].kind == Kind::Open
            && after.is_some_and(|it| it.text(self.text.text).starts_with('"'))
        {
            return;
        }
        let mut other = place.clone();
        let heads = self.text.tokens[place.token.saturating_sub(2)].kind == Kind::Open;
        other.doubtful |=
            self.moves && before.kind == Kind::Atom && (heads || word.starts_with([':', '&']));
        other.edits.push(OneCharacter::Insert(before.end, ')'));
        other.left -= 1;
        if other.nesting.close(place.token).is_err() {
            return;
        }
        other.shape.push(1);
        if self
            .text
            .tokens
            .get(place.token)
            .is_some_and(|it| it.line == before.line)
        {
            other.nesting.shift(1);
        }
        self.go(other);
    }
}
