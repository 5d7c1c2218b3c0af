// SPDX-License-Identifier: GPL-3.0-or-later
//! Patterns of file names: globs, and what a project's ignore files leave out.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use super::{FileError, Trouble};

// Globs: `*` and `?` stay within a name, `**` crosses folders, and a pattern without a slash is about names in
// any folder. Searches take them, and walks leave out what they exclude.

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

// What a project's ignore files leave out, as git and ripgrep take them. They are read as plain files
// only, and never waited for: anything may have their names.

/// How much of an ignore file counts.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// Which files with rules a folder has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Own {
    pub ignore: bool,
    pub git_ignore: bool,
    pub git: bool,
}

/// What is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    Folder,
    Other,
}

/// The rules of one folder and of those above it.
#[derive(Debug)]
struct Rules {
    above: Option<Arc<Rules>>,
    ignore: Gitignore,
    git_ignore: Gitignore,
    exclude: Gitignore,
}

/// What is left out in one folder.
#[derive(Debug, Clone)]
pub(super) struct Ignored {
    rules: Option<Arc<Rules>>,
    /// The user's own list, for all repositories.
    of_user: Arc<Gitignore>,
}

impl Ignored {
    /// By the user's own list, and by what is in the folders above FOLDER.
    pub fn above(folder: &Path) -> Self {
        let of_user = gitconfig_excludes_path().and_then(|file| read(CWD, &file));
        let mut ignored = Self {
            rules: None,
            of_user: Arc::new(rules(folder, of_user)),
        };
        let all = Own {
            ignore: true,
            git_ignore: true,
            git: true,
        };
        let above: Vec<&Path> = folder.ancestors().skip(1).collect();
        for folder in above.into_iter().rev() {
            ignored = ignored.within(folder, CWD, folder, all);
        }
        ignored
    }

    /// The same in FOLDER, which is at NEAR from the folder that is held open, and has OWN rules.
    pub fn within(&self, folder: &Path, held: impl AsFd, near: &Path, own: Own) -> Self {
        let held = held.as_fd();
        let of = |name: &str, there: bool| {
            let text = there.then(|| read(held, &near.join(name))).flatten();
            rules(folder, text)
        };
        let found = Rules {
            above: self.rules.clone(),
            ignore: of(".ignore", own.ignore),
            git_ignore: of(".gitignore", own.git_ignore),
            exclude: rules(
                folder,
                own.git.then(|| exclude(held, near, folder)).flatten(),
            ),
        };
        let mut within = self.clone();
        if ![&found.ignore, &found.git_ignore, &found.exclude]
            .iter()
            .all(|it| it.is_empty())
        {
            within.rules = Some(Arc::new(found));
        }
        within
    }

    /// Whether the THING at PATH is left out, or expressly not.
    pub fn decides(&self, path: &Path, thing: Thing) -> Match<()> {
        let is_folder = thing == Thing::Folder;
        let kinds: [fn(&Rules) -> &Gitignore; 3] =
            [|it| &it.ignore, |it| &it.git_ignore, |it| &it.exclude];
        for kind in kinds {
            let mut next = self.rules.as_ref();
            while let Some(rules) = next {
                let found = kind(rules).matched(path, is_folder);
                if !found.is_none() {
                    return found.map(drop);
                }
                next = rules.above.as_ref();
            }
        }
        self.of_user.matched(path, is_folder).map(drop)
    }
}

/// The rules that TEXT, of a file for FOLDER, has. Lines that are no globs are passed over.
fn rules(folder: &Path, text: Option<String>) -> Gitignore {
    let Some(text) = text else {
        return Gitignore::empty();
    };
    let mut rules = GitignoreBuilder::new(folder);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = rules.add_line(None, line);
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}

/// What the repository in FOLDER leaves out without telling others.
fn exclude(held: impl AsFd, near: &Path, folder: &Path) -> Option<String> {
    let git = near.join(".git");
    let held = held.as_fd();
    let stat = rustix::fs::statat(held, &git, AtFlags::empty()).ok()?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return read(held, &git.join("info/exclude"));
    }
    // A worktree's or a submodule's says where the repository is.
    let first_line = |text: String| text.lines().next().map(str::to_owned);
    let told = first_line(read(held, &git)?)?;
    let own: PathBuf = folder.join(told.strip_prefix("gitdir: ")?);
    let common = match read(CWD, &own.join("commondir")).and_then(first_line) {
        Some(common) => own.join(common),
        None => own,
    };
    read(CWD, &common.join("info/exclude"))
}

/// The text of the plain file at PATH from the folder HELD open.
fn read(held: impl AsFd, path: &Path) -> Option<String> {
    let is_plain =
        |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    // Opening a device can act, so what is there is looked at before and after.
    let there = rustix::fs::statat(&held, path, AtFlags::empty()).ok()?;
    if !is_plain(there) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&held, path, flags, Mode::empty()).ok()?;
    if !is_plain(rustix::fs::fstat(&file).ok()?) {
        return None;
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::from(file);
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
