// SPDX-License-Identifier: GPL-3.0-or-later
//! Walking a project's files the way ripgrep does: ignore files honoured, hidden files left out
//! unless asked for, private files and `.git` always. Every folder is opened below the one that was
//! judged and never through a link, so that nothing outside is seen, whatever is moved meanwhile.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ignore::Match;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::FileError;
use super::path::{PathPolicy, Resolved};
use super::patterns::{FileGlob, Ignored, Own, Thing};
use super::private::PrivateFiles;
use super::verified::open_directory;

/// Whether files whose name starts with a dot are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hidden {
    Show,
    #[default]
    LeaveOut,
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkedKind {
    File,
    Folder,
    Link,
    /// A device, pipe or socket.
    Special,
}

/// Whether a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walk {
    On,
    Ends,
}

/// A folder that is going to be walked.
pub(super) struct Ground {
    /// Held open: all that is walked is below it.
    folder: OwnedFd,
    root: PathBuf,
    hidden: Hidden,
    excludes: Vec<FileGlob>,
    secrets: PrivateFiles,
    pub(super) ignored: Ignored,
    private: AtomicU64,
}

/// What a walk comes to.
pub(super) struct WalkedEntry<'w> {
    /// From the folder that is walked.
    pub relative: &'w Path,
    pub kind: WalkedKind,
    folder: &'w OwnedFd,
    name: &'w CStr,
}

/// What is in a folder.
pub(super) struct FolderContents {
    pub names: Vec<(CString, WalkedKind)>,
    pub own: Own,
}

impl Ground {
    /// Prepares walking FOLDER without what EXCLUDES match.
    pub fn new(
        policy: &PathPolicy,
        folder: &Resolved,
        hidden: Hidden,
        excludes: Vec<FileGlob>,
    ) -> Result<Self, FileError> {
        Ok(Self {
            folder: open_directory(folder)?,
            ignored: Ignored::above(&folder.path),
            secrets: policy.private_files().below(&folder.path)?,
            root: folder.path.clone(),
            hidden,
            excludes,
            private: AtomicU64::new(0),
        })
    }

    /// The folder that is walked, without symbolic links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How many private files and folders were passed over.
    pub fn private(&self) -> u64 {
        self.private.load(Ordering::Relaxed)
    }

    /// Calls VISIT with what is in the folder, and in those DEPTH - 1 below it, each folder before what
    /// is in it and all in the order of their names, until it says that the walk ends.
    pub fn in_order(&self, depth: usize, visit: &mut dyn FnMut(&WalkedEntry<'_>) -> Walk) {
        if let Ok(folder) = self.open_folder(Path::new("")) {
            let mut path = self.root.clone();
            self.descend(&folder, &mut path, depth, &self.ignored, visit);
        }
    }

    fn descend(
        &self,
        folder: &OwnedFd,
        path: &mut PathBuf,
        depth: usize,
        ignored: &Ignored,
        visit: &mut dyn FnMut(&WalkedEntry<'_>) -> Walk,
    ) -> Walk {
        let mut listing = list(folder);
        listing.names.sort_by(|one, other| one.0.cmp(&other.0));
        let ignored = ignored.within(path, folder, Path::new(""), listing.own);
        for (name, kind) in &listing.names {
            path.push(OsStr::from_bytes(name.to_bytes()));
            if self.wants(path, *kind, &ignored) {
                let entry = WalkedEntry {
                    relative: self.relative(path),
                    kind: *kind,
                    folder,
                    name,
                };
                if visit(&entry) == Walk::Ends {
                    return Walk::Ends;
                }
                if *kind == WalkedKind::Folder
                    && depth > 1
                    && let Ok(below) = rustix::fs::openat(folder, name, FOLDER, Mode::empty())
                    && self.descend(&below, path, depth - 1, &ignored, visit) == Walk::Ends
                {
                    return Walk::Ends;
                }
            }
            path.pop();
        }
        Walk::On
    }

    /// Calls VISIT with those of the files NAMES in FOLDER, which is at PATH, that are not left out.
    pub(super) fn visit_files(
        &self,
        (folder, path): (&OwnedFd, &Path),
        names: &[CString],
        ignored: &Ignored,
        visit: &mut dyn FnMut(&WalkedEntry<'_>) -> Walk,
    ) -> Walk {
        let mut path = path.to_owned();
        for name in names {
            path.push(OsStr::from_bytes(name.to_bytes()));
            if self.wants(&path, WalkedKind::File, ignored) {
                let entry = WalkedEntry {
                    relative: self.relative(&path),
                    kind: WalkedKind::File,
                    folder,
                    name,
                };
                if visit(&entry) == Walk::Ends {
                    return Walk::Ends;
                }
            }
            path.pop();
        }
        Walk::On
    }

    /// Whether what is at PATH, of KIND, is not left out.
    pub(super) fn wants(&self, path: &Path, kind: WalkedKind, ignored: &Ignored) -> bool {
        let thing = match kind {
            WalkedKind::Folder => Thing::Folder,
            WalkedKind::File | WalkedKind::Link | WalkedKind::Special => Thing::Other,
        };
        let name = path.file_name().unwrap_or_default();
        match ignored.decides(path, thing) {
            Match::Ignore(()) => return false,
            Match::None if self.hidden == Hidden::LeaveOut => {
                if name.as_bytes().starts_with(b".") {
                    return false;
                }
            }
            Match::None | Match::Whitelist(()) => {}
        }
        if name.eq_ignore_ascii_case(".git") {
            return false;
        }
        if self.secrets.matching_last(path).is_some() {
            self.private.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let relative = self.relative(path);
        !self.excludes.iter().any(|glob| glob.matches(relative))
    }

    /// PATH, which is below the folder that is walked, from there.
    pub(super) fn relative<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }

    /// Opens the folder at RELATIVE, in which no name may be a symbolic link.
    pub(super) fn open_folder(&self, relative: &Path) -> io::Result<OwnedFd> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{ResolveFlags, openat2};
            use rustix::io::Errno;
            let never = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
            let path = match relative.as_os_str().is_empty() {
                true => Path::new("."),
                false => relative,
            };
            match openat2(&self.folder, path, FOLDER, Mode::empty(), never) {
                Ok(folder) => return Ok(folder),
                // Kernels before 5.6, and sandboxes that don't know the call.
                Err(Errno::NOSYS | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut folder = rustix::fs::openat(&self.folder, ".", FOLDER, Mode::empty())?;
        for name in relative {
            folder = rustix::fs::openat(&folder, name, FOLDER, Mode::empty())?;
        }
        Ok(folder)
    }
}

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What is in FOLDER, as far as it can be read.
pub(super) fn list(folder: &OwnedFd) -> FolderContents {
    let mut listing = FolderContents {
        names: Vec::new(),
        own: Own::default(),
    };
    let entries = Dir::read_from(folder).into_iter().flatten();
    for entry in entries.map_while(Result::ok) {
        let name = entry.file_name();
        match name.to_bytes() {
            b"." | b".." => continue,
            b".ignore" => listing.own.ignore = true,
            b".gitignore" => listing.own.git_ignore = true,
            b".git" => listing.own.git = true,
            _ => {}
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                }
            }
            known => known,
        };
        let kind = match kind {
            FileType::RegularFile => WalkedKind::File,
            FileType::Directory => WalkedKind::Folder,
            FileType::Symlink => WalkedKind::Link,
            _ => WalkedKind::Special,
        };
        listing.names.push((name.to_owned(), kind));
    }
    listing
}

impl WalkedEntry<'_> {
    /// Opens it, which must be no symbolic link, without waiting for anything.
    pub fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.folder, self.name, flags, Mode::empty())?;
        Ok(File::from(file))
    }

    /// What is known about it; nothing when it is gone.
    pub fn stat(&self) -> Option<Stat> {
        rustix::fs::statat(self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// What is written in it, a symbolic link.
    pub fn target(&self) -> Option<String> {
        let target = rustix::fs::readlinkat(self.folder, self.name, Vec::new()).ok()?;
        Some(target.to_string_lossy().into_owned())
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
