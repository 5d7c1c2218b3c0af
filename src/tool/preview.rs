// SPDX-License-Identifier: GPL-3.0-or-later
//! What a call would make of a file, shown to the user before it runs, and what the user made of
//! that in a review.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

/// A change of a file that waits for the user's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The file as users know it, and in full.
    pub shown: String,
    pub file: PathBuf,
    /// The text that is there; none for a new file.
    pub original: Option<Arc<str>>,
    pub modified: Arc<str>,
    pub divisible: Divisible,
    /// What else happens to it, such as "It is deleted."
    pub note: String,
    /// Which file gets which name, such as "a.lisp to b.lisp", for one that is moved.
    pub moves: Option<String>,
}

/// Whether a part of a change makes sense without the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divisible {
    Yes,
    No,
}

/// What is left of a change after the user's review; it takes the place of what the call planned.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reviewed {
    /// The whole text that was reviewed.
    pub original: String,
    /// The whole text that it is to become.
    pub modified: String,
}
