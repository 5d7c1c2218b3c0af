// SPDX-License-Identifier: GPL-3.0-or-later
//! What a project's ignore files leave out, as git and ripgrep take them. They are read as plain files
//! only, and never waited for: anything may have their names.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

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
