// SPDX-License-Identifier: GPL-3.0-or-later
//! Where the text of a result comes from. It is kept with the text, by what the call was about and
//! never by what the text says, so that the model's copy can be marked as data.

use std::fmt;

use super::{Arguments, Origin, Runner, Tool};
use crate::rules::{Place, Provenance};

/// What a tool's answer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Text of files, buffers, the image or other programs, or what looks like it.
    Text,
    /// agent-q's own words and nothing else, such as "saved".
    Words,
}

/// What a call returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub text: String,
    /// Where it comes from, when that is not what its tool is about.
    pub from: Option<&'static str>,
    /// What only the text shows, such as a definition whose file is not of the project.
    pub provenance: Provenance,
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self {
            text,
            from: None,
            provenance: Provenance::Own,
        }
    }
}

/// Where a text that agent-q did not write comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Such as "file src/parse.lisp".
    pub what: String,
    pub provenance: Provenance,
}

impl Source {
    /// The source of what a call of TOOL with ARGUMENTS in PLACE returns; PROVENANCE is what the
    /// rules make of it.
    #[must_use]
    pub fn of(tool: &Tool, arguments: &Arguments, place: &Place, provenance: Provenance) -> Self {
        let about = |category: &str| tool.categories.iter().any(|it| it == category);
        let mut paths = tool.paths.iter().filter_map(|name| arguments.text(name));
        let what = match (&tool.origin, &tool.runner) {
            (Origin::Image(program), _) => format!("the program in {program}"),
            (Origin::EmacsLisp | Origin::Library(_), _) => format!("the tool {}", tool.name),
            (Origin::BuiltIn, runner) => match (paths.next(), runner) {
                (Some(path), _) => format!("file {path}"),
                _ if about("buffer") => {
                    let name = arguments.text("buffer");
                    name.map_or("the user's buffer".into(), |name| format!("buffer {name}"))
                }
                (None, Runner::Image(_) | Runner::Operation(_)) => {
                    let name = place.connection.as_deref();
                    name.map_or("the image".into(), |name| format!("image {name}"))
                }
                _ if about("filesystem") => "the project".into(),
                _ => format!("the tool {}", tool.name),
            },
        };
        Self { what, provenance }
    }

    /// The source of CONTENT, a text of what this is the source of otherwise.
    #[must_use]
    pub fn of_content(self, content: &Content) -> Self {
        Self {
            what: content.from.map_or(self.what, str::to_owned),
            provenance: match content.provenance {
                Provenance::Foreign => Provenance::Foreign,
                Provenance::Own => self.provenance,
            },
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match self.provenance {
            Provenance::Own => Ok(()),
            Provenance::Foreign => f.write_str(", from outside the project"),
        }
    }
}
