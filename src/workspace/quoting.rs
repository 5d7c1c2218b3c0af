// SPDX-License-Identifier: GPL-3.0-or-later
//! Files that a Lisp image names as the place of something. Nobody has asked for these by name, and an
//! image can name any: what of them may be shown unasked, and reading it.

use std::io::Read;
use std::path::{Component, Path};

use super::{ProjectSettings, make_policy};
use crate::files::path::{PathPolicy, PathVerdict, Resolved};
use crate::files::verified::open_for_read;
use crate::files::{FileError, Trouble};

/// The largest file that is read.
const LARGEST: u64 = 5_000_000;

/// What the sources of libraries and of Lisp implementations are called. Elsewhere than in the project
/// only these are shown.
const SOURCES: &[&str] = &[
    "lisp",
    "lsp",
    "cl",
    "l",
    "asd",
    "ros",
    "el",
    "lisp-expr",
    "d",
    "c",
    "h",
    "java",
];

/// By what files that an image names are judged.
#[derive(Debug)]
pub struct Quoting {
    policy: PathPolicy,
    /// Whether there is a project that files can be inside of.
    project: bool,
}

impl Quoting {
    /// For the files of GROUND.
    ///
    /// # Errors
    ///
    /// The root or a pattern can't be used.
    pub fn new(ground: &ProjectSettings) -> Result<Self, FileError> {
        let root = ground.root.as_deref();
        let policy = make_policy(root.unwrap_or("/"), ground.private.as_deref())?;
        Ok(Self {
            policy: (*policy).clone(),
            project: root.is_some(),
        })
    }

    /// The file at PATH, whose text may be shown.
    ///
    /// # Errors
    ///
    /// Why it may not, or not without asking.
    pub fn judge(&self, path: &str) -> Result<Resolved, FileError> {
        let verdict = self.policy.judge(path);
        let unasked = match &verdict {
            PathVerdict::Inside(_) if self.project => true,
            PathVerdict::Inside(file) | PathVerdict::Outside(file) => is_source(&file.path),
            PathVerdict::Private { .. } | PathVerdict::Refused(_) => false,
        };
        match verdict.concern() {
            _ if unasked => verdict.resolved(),
            Some(concern) => Err(FileError::new(Trouble::WrongKind, concern)),
            None => Err(match verdict.resolved() {
                Ok(file) => no_source(&file.path),
                Err(error) => error,
            }),
        }
    }

    /// Judges PATH on another machine, where no link can be followed from here.
    ///
    /// # Errors
    ///
    /// As [`Quoting::judge`].
    pub fn judge_elsewhere(&self, path: &str) -> Result<(), FileError> {
        let path = Path::new(path);
        let upwards = path.components().any(|it| it == Component::ParentDir);
        match self.policy.private_files().matching(path) {
            Some(pattern) => Err(FileError::new(
                Trouble::WrongKind,
                format!(
                    "'{}' may hold secrets (private files: {pattern}).",
                    path.display()
                ),
            )),
            None if is_source(path) && !upwards => Ok(()),
            None => Err(no_source(path)),
        }
    }

    /// What the file at PATH holds, if it may be shown.
    ///
    /// # Errors
    ///
    /// It may not, is too large, or can't be read.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let judged = self.judge(path)?;
        let in_words = |error: std::io::Error| FileError::system(judged.shown(), &error);
        let file = open_for_read(&judged)?;
        if file.metadata().map_err(in_words)?.len() > LARGEST {
            let message = format!("'{}' is too large to be quoted.", judged.shown());
            return Err(FileError::new(Trouble::WrongKind, message));
        }
        let mut bytes = Vec::new();
        file.take(LARGEST)
            .read_to_end(&mut bytes)
            .map_err(in_words)?;
        Ok(bytes)
    }
}

fn is_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|it| it.to_str());
    ending.is_some_and(|ending| SOURCES.iter().any(|it| ending.eq_ignore_ascii_case(it)))
}

fn no_source(path: &Path) -> FileError {
    FileError::new(
        Trouble::WrongKind,
        format!(
            "'{}' is outside the project, and its name is not that of a source file.",
            path.display()
        ),
    )
}
