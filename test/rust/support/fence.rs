// SPDX-License-Identifier: GPL-3.0-or-later
//! Reads the copy of a result that a model gets, as the system prompt tells the model to.

/// A fenced text, and what stands around it.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    pub from: String,
    pub text: String,
    pub behind: String,
}

/// What COPY, which starts with a fence, says; its text ends at the first end with its mark.
pub fn read(copy: &str) -> Option<Read> {
    let (mark, rest) = copy.strip_prefix("<data-")?.split_once(' ')?;
    let (from, rest) = rest.strip_prefix("from=\"")?.split_once("\">\n")?;
    let (text, behind) = rest.split_once(&format!("\n</data-{mark}>"))?;
    Some(Read {
        from: from.to_owned(),
        text: text.to_owned(),
        behind: behind.to_owned(),
    })
}
