// SPDX-License-Identifier: GPL-3.0-or-later
//! The parts of a text that somebody can act on: links, code, tables.

use std::ops::Range;

/// A part of a text that is more than its look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub range: Range<usize>,
    pub kind: PartKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartKind {
    Link {
        target: String,
    },
    /// The lines within a fence that is closed.
    Code {
        language: String,
    },
    /// A table: its columns, the cells of each row, the head's first, and the row of dashes.
    Table {
        columns: Vec<Alignment>,
        rows: Vec<Vec<Range<usize>>>,
        dashes: Range<usize>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    Left,
    Center,
    Right,
}

impl From<pulldown_cmark::Alignment> for Alignment {
    fn from(given: pulldown_cmark::Alignment) -> Self {
        match given {
            pulldown_cmark::Alignment::Center => Alignment::Center,
            pulldown_cmark::Alignment::Right => Alignment::Right,
            pulldown_cmark::Alignment::None | pulldown_cmark::Alignment::Left => Alignment::Left,
        }
    }
}
