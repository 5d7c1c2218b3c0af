// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether a text is of the user's own, or from somewhere that nobody vouches for.

use std::path::{Path, PathBuf};

/// Where the texts of a turn came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// The user, their project, their image and the libraries that it knows.
    Own,
    /// Some of it from elsewhere: a foreign server, a file outside the project, a web page.
    Foreign,
}

impl Provenance {
    /// That of texts from FILES, which are followed to their ends, for PROJECT, if there is one.
    #[must_use]
    pub fn of_files(files: &[PathBuf], project: Option<&Path>) -> Self {
        let inside = |file: &PathBuf| project.is_some_and(|root| file.starts_with(root));
        match files.iter().all(inside) {
            true => Self::Own,
            false => Self::Foreign,
        }
    }
}
