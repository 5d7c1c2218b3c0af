// SPDX-License-Identifier: GPL-3.0-or-later
//! Markdown as it is being written: which parts of an answer are headings, code, links, tables. The
//! text itself stays as it is; only how its characters look is told, in runs of characters. Only the
//! block that is still open is read again when more text comes. Knows nothing of Emacs.

mod drawing;
mod formulas;
mod lines;
mod live;
mod paint;
mod style;

pub use live::{LiveText, Update};
pub use style::{Alignment, Part, PartKind, Run, Style};

/// Reads TEXT as one, without cutting it into blocks that are read by themselves. This is what a
/// [`LiveText`] is measured by; a chat has no use for it.
#[must_use]
pub fn read_whole(text: &str) -> Vec<Run> {
    paint::paint(&lines::readable(text), &paint::Definitions::default()).runs
}
