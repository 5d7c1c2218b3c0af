// SPDX-License-Identifier: GPL-3.0-or-later
//! Where a text that agent-q did not write comes from, as the head of its fence names it.

use std::fmt;

use super::Provenance;

/// Where a text that agent-q did not write comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Such as "file src/parse.lisp".
    pub what: String,
    pub provenance: Provenance,
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
