// SPDX-License-Identifier: GPL-3.0-or-later
//! Finding files by a glob, the first ones by their paths, side by side in many folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

pub use super::walk::Hidden;

use super::path::{PathPolicy, Resolved};
use super::patterns::{FileGlob, globs};
use super::walk::{Ground, Walk, WalkedEntry};
use super::{FileError, Stop, cancelled, count};

/// How many files are named when nobody says.
pub const DEFAULT_FILES: usize = 200;

/// What files to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSearch {
    pub pattern: String,
    pub excludes: Vec<String>,
    pub hidden: Hidden,
    /// The most files to name.
    pub limit: usize,
}

impl FileSearch {
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self {
            pattern: pattern.to_owned(),
            excludes: Vec::new(),
            hidden: Hidden::LeaveOut,
            limit: DEFAULT_FILES,
        }
    }
}

/// The files that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFiles {
    pub pattern: String,
    /// The first ones in the order of their paths, relative to the project inside it.
    pub paths: Vec<PathBuf>,
    /// How many more there are.
    pub more: u64,
    /// How many private files were left out.
    pub private: u64,
}

impl FoundFiles {
    /// The answer for a model.
    #[must_use]
    pub fn text(&self) -> String {
        let found = self.paths.len() as u64 + self.more;
        let mut text = match found {
            0 => format!("No files found matching pattern '{}'.\n", self.pattern),
            _ => format!(
                "Found {} matching '{}':\n\n",
                count(found, "file"),
                self.pattern
            ),
        };
        for path in &self.paths {
            text.push_str(&format!("  {}\n", path.display()));
        }
        if self.more > 0 {
            let more = count(self.more, "more file");
            text.push_str(&format!(
                "  … {more}; use a narrower pattern to see them.\n"
            ));
        }
        text.push_str(&private_note(self.private));
        text
    }
}

/// What a model reads about private files that were passed over.
pub(super) fn private_note(private: u64) -> String {
    match private {
        0 => String::new(),
        _ => format!(
            "\n({} left out: keys, passwords, .env.)\n",
            count(private, "private file")
        ),
    }
}

/// Adds PATH to KEPT, of which the LIMIT first stay.
fn keep_first(kept: &mut BTreeSet<PathBuf>, path: &Path, limit: usize) {
    if kept.len() >= limit {
        if kept.last().is_none_or(|last| path >= last.as_path()) {
            return;
        }
        kept.pop_last();
    }
    kept.insert(path.to_owned());
}

/// What compilers write, and copies that Emacs keeps beside a file: nobody reads them.
const NOT_READ: [&str; 6] = ["*.fasl", "*.fas", "*.*fsl", "*.abcl", "#*#", "*~"];

impl FileSearch {
    /// All files that people may want to read.
    #[must_use]
    pub fn readable(limit: usize) -> Self {
        Self {
            excludes: NOT_READ.map(str::to_owned).to_vec(),
            limit,
            ..Self::new("*")
        }
    }
}

/// How many files are looked at for their times.
const MOST_TIMES: usize = 20_000;

/// The files of the project at ROOT that were written after SINCE, the latest first, but for
/// those that nobody reads and those that are hidden, private or ignored.
///
/// # Errors
///
/// There is no folder, or STOP said so.
pub fn changed_since(
    root: &Path,
    since: SystemTime,
    stop: Stop<'_>,
) -> Result<Vec<PathBuf>, FileError> {
    let policy = PathPolicy::new(root, None)?;
    let folder = policy.judge(".").resolved()?;
    let search = FileSearch::readable(MOST_TIMES);
    let mut changed = Vec::new();
    for path in search_files(&policy, &folder, &search, stop)?.paths {
        let metadata = policy.root().join(&path).symlink_metadata();
        if let Ok(time) = metadata.and_then(|it| it.modified())
            && time > since
        {
            changed.push((time, path));
        }
    }
    changed.sort_by(|one, other| other.cmp(one));
    Ok(changed.into_iter().map(|(_, path)| path).collect())
}

/// Finds the files below FOLDER that SEARCH describes.
///
/// # Errors
///
/// A bad glob, no folder, or STOP said so.
pub fn search_files(
    policy: &PathPolicy,
    folder: &Resolved,
    search: &FileSearch,
    stop: Stop<'_>,
) -> Result<FoundFiles, FileError> {
    let glob = FileGlob::new(&search.pattern)?;
    let ground = Ground::new(policy, folder, search.hidden, globs(&search.excludes)?)?;
    let kept = Mutex::new(BTreeSet::new());
    let found = AtomicU64::new(0);
    let visitor = || {
        |entry: &WalkedEntry<'_>| {
            if glob.matches(entry.relative) {
                found.fetch_add(1, Ordering::Relaxed);
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                keep_first(&mut kept, entry.relative, search.limit);
            }
            Walk::On
        }
    };
    ground.files_side_by_side(visitor, stop);
    if stop() {
        return Err(cancelled());
    }
    let kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    let prefix = folder.relative.as_ref().unwrap_or(&folder.path);
    Ok(FoundFiles {
        pattern: search.pattern.clone(),
        more: found.into_inner() - kept.len() as u64,
        paths: kept.iter().map(|path| prefix.join(path)).collect(),
        private: ground.private(),
    })
}
