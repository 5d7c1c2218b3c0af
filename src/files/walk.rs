// SPDX-License-Identifier: GPL-3.0-or-later
//! Walking a project's files the way ripgrep does: ignore files honoured, hidden files left out
//! unless asked for, private files and `.git` always; and opening what was found without links.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ignore::{DirEntry, WalkBuilder};
use rustix::fs::{Mode, OFlags};

use super::FileError;
use super::path::{PathPolicy, Resolved};
use super::search::FileGlob;
use super::verified::open_directory;

/// Whether files whose name starts with a dot are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hidden {
    Show,
    #[default]
    LeaveOut,
}

/// A folder that is going to be walked.
pub(super) struct Ground {
    /// Held open, so that files are opened below it and nowhere else.
    folder: OwnedFd,
    pub builder: WalkBuilder,
    /// How many private files and folders were passed over.
    pub private: Arc<AtomicU64>,
}

impl Ground {
    /// Prepares walking FOLDER without what EXCLUDES match.
    pub fn new(
        policy: &PathPolicy,
        folder: &Resolved,
        hidden: Hidden,
        excludes: Vec<FileGlob>,
    ) -> Result<Self, FileError> {
        let opened = open_directory(folder)?;
        let private = Arc::new(AtomicU64::new(0));
        let mut builder = WalkBuilder::new(&folder.path);
        builder
            .hidden(hidden == Hidden::LeaveOut)
            .require_git(false)
            .follow_links(false);
        let (root, passed) = (folder.path.clone(), Arc::clone(&private));
        let secrets = policy.private_files().below(&folder.path)?;
        builder.filter_entry(move |entry| {
            if entry.depth() == 0 {
                return true;
            }
            if entry.file_name().eq_ignore_ascii_case(".git") {
                return false;
            }
            if secrets.matching_last(entry.path()).is_some() {
                passed.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            excludes.is_empty() || {
                let relative = entry.path().strip_prefix(&root).unwrap_or(entry.path());
                !excludes.iter().any(|glob| glob.matches(relative))
            }
        });
        Ok(Self {
            folder: opened,
            builder,
            private,
        })
    }

    /// Opens the file at RELATIVE, in which no name may be a symbolic link.
    pub fn open(&self, relative: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{ResolveFlags, openat2};
            use rustix::io::Errno;
            let never = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
            match openat2(&self.folder, relative, flags, Mode::empty(), never) {
                Ok(file) => return Ok(File::from(file)),
                // Kernels before 5.6, and sandboxes that don't know the call.
                Err(Errno::NOSYS | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut names: Vec<_> = relative.iter().collect();
        let name = names.pop().unwrap_or_default();
        let through = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = rustix::io::dup(&self.folder)?;
        for name in names {
            folder = rustix::fs::openat(&folder, name, through, Mode::empty())?;
        }
        Ok(File::from(rustix::fs::openat(
            &folder,
            name,
            flags,
            Mode::empty(),
        )?))
    }
}

/// Lets the thread that calls this, which only walks, give way to Emacs's own where both want a
/// processor. Elsewhere than on Linux that would be about the whole process.
pub(super) fn give_way() {
    #[cfg(target_os = "linux")]
    {
        const NICE: i32 = 5;
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

/// Whether ENTRY is a plain file.
pub(super) fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_file())
}
