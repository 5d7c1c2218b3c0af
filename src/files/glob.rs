// SPDX-License-Identifier: GPL-3.0-or-later
//! Globs of files: `*` and `?` stay within a name, `**` crosses folders, and a pattern without a slash is
//! about names in any folder. Searches take them, and walks leave out what they exclude.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::{FileError, Trouble};

/// The longest glob, and how many braces may be open in it: the parser is recursive.
const LONGEST_GLOB: usize = 1000;
const MOST_BRACES: usize = 20;

/// A compiled glob.
#[derive(Debug, Clone)]
pub struct FileGlob {
    matcher: GlobMatcher,
    about: About,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    Names,
    Paths,
}

impl FileGlob {
    /// Compiles PATTERN.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong with it.
    pub fn new(pattern: &str) -> Result<Self, FileError> {
        if pattern.len() > LONGEST_GLOB {
            let message = format!(
                "The glob has {} bytes; at most {LONGEST_GLOB} can be used.",
                pattern.len()
            );
            return Err(FileError::new(Trouble::BadRequest, message));
        }
        let bad = |why: String| {
            FileError::new(
                Trouble::BadRequest,
                format!("The glob '{pattern}' can't be used: {why}."),
            )
        };
        let trimmed = pattern.trim_start_matches("./");
        let anchored = trimmed.trim_start_matches('/');
        let whole = anchored.trim_end_matches('/');
        if whole.is_empty() {
            return Err(bad("it is empty".into()));
        }
        if whole.split('/').any(|name| name == "..") {
            return Err(bad("'..' leads out of the searched directory".into()));
        }
        if open_braces(whole) > MOST_BRACES {
            return Err(bad(format!(
                "its braces are nested more than {MOST_BRACES} deep"
            )));
        }
        let names = whole == trimmed.trim_end_matches('/') && !whole.contains('/');
        let matcher = GlobBuilder::new(whole)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| bad(error.kind().to_string()))?
            .compile_matcher();
        let about = if names { About::Names } else { About::Paths };
        Ok(Self { matcher, about })
    }

    /// Whether RELATIVE, a path below the folder that is searched, is meant.
    #[must_use]
    pub fn matches(&self, relative: &Path) -> bool {
        match self.about {
            About::Names => relative
                .file_name()
                .is_some_and(|name| self.matcher.is_match(name)),
            About::Paths => self.matcher.is_match(relative),
        }
    }
}

/// How many braces are open in GLOB where most are.
fn open_braces(glob: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in glob.bytes() {
        match byte {
            b'{' => open += 1,
            b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Compiles PATTERNS.
///
/// # Errors
///
/// The first that can't be used.
pub fn globs(patterns: &[String]) -> Result<Vec<FileGlob>, FileError> {
    patterns
        .iter()
        .map(|pattern| FileGlob::new(pattern))
        .collect()
}
