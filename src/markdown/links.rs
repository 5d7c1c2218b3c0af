// SPDX-License-Identifier: GPL-3.0-or-later
//! Where links lead, also those that are not written as links: plain addresses and `file.lisp:12`.

use std::collections::HashMap;
use std::ops::Range;

use pulldown_cmark::{BrokenLink, CowStr, RefDefs};

/// Definitions such as `[here]: https://…` that came before the text at hand.
#[derive(Debug, Default, Clone)]
pub struct Definitions(HashMap<String, String>);

/// More definitions than anybody writes.
const MOST: usize = 1000;
/// Longer addresses are cut.
const LONGEST: usize = 2000;

impl Definitions {
    /// Where NAME leads.
    #[must_use]
    pub fn find<'t>(&self, link: &BrokenLink<'_>) -> Option<(CowStr<'t>, CowStr<'t>)> {
        if self.0.is_empty() {
            return None;
        }
        let target = self.0.get(&folded(&link.reference))?;
        Some((target.clone().into(), CowStr::Borrowed("")))
    }

    /// Remembers those of MORE, too; the first one of a name counts.
    pub fn add(&mut self, more: Self) {
        for (name, target) in more.0 {
            if self.0.len() < MOST {
                self.0.entry(name).or_insert(target);
            }
        }
    }

    /// Remembers those in FOUND; the first one of a name counts.
    pub fn note(&mut self, found: &RefDefs<'_>) {
        for (name, definition) in found.iter() {
            if self.0.len() < MOST {
                self.0
                    .entry(folded(name))
                    .or_insert_with(|| definition.dest.to_string());
            }
        }
    }
}

fn folded(name: &str) -> String {
    name.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

/// The plain addresses in TEXT.
pub fn addresses(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let colon = from + text.get(from..)?.find("://")?;
            let start = ["https", "http"].into_iter().find_map(|scheme| {
                let before = text[..colon].strip_suffix(scheme)?;
                (!before.ends_with(char::is_alphanumeric)).then_some(before.len())
            });
            let after = colon + 3;
            let ends =
                |it: char| it.is_whitespace() || it.is_control() || "<>\"`|\\^{}".contains(it);
            let end = text[after..]
                .char_indices()
                .find(|(at, it)| ends(*it) || *at > LONGEST)
                .map_or(text.len(), |(at, _)| after + at);
            from = end;
            let end = trimmed(&text[..end], after);
            if let Some(start) = start
                && end > after
            {
                return Some(start..end);
            }
        }
    })
}

/// The end of TEXT without the signs of the sentence that it stands in.
fn trimmed(text: &str, least: usize) -> usize {
    let mut end = text.len();
    while end > least {
        let rest = &text[..end];
        let open = rest[least..].matches('(').count();
        let close = rest[least..].matches(')').count();
        if rest.ends_with(['.', ',', ';', ':', '!', '?', '\'', '*', '_', ']'])
            || (rest.ends_with(')') && close > open)
        {
            end -= 1;
        } else {
            break;
        }
    }
    end
}

/// Whether CODE names a line of a file, as `src/shop.lisp:12` does.
#[must_use]
pub fn names_file_line(code: &str) -> bool {
    let Some((file, place)) = code.split_once(':') else {
        return false;
    };
    let numbers =
        |it: &str| !it.is_empty() && it.len() < 8 && it.bytes().all(|it| it.is_ascii_digit());
    let kind = file.rsplit_once('.').is_some_and(|(stem, kind)| {
        !stem.is_empty() && !kind.is_empty() && kind.bytes().all(|it| it.is_ascii_alphanumeric())
    });
    kind && code.len() < 300 && !file.contains(char::is_whitespace) && place.split(':').all(numbers)
}
