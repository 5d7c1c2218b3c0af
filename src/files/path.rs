// SPDX-License-Identifier: GPL-3.0-or-later
//! The one function that decides about a path: [`PathPolicy::judge`]. It follows every symbolic
//! link itself, so what it answers about is what would be opened; `verified` checks it again then.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags};

use super::private::{DEFAULT_PATTERNS, PrivateFiles};
use super::{FileError, Identity, PASS, Trouble, identity};

/// As many symbolic links as the kernel follows.
const MOST_LINKS: usize = 40;
/// The longest path and the longest name that common file systems take.
const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;
/// Trees in which reading can hang, act, or show other processes.
const KERNEL_TREES: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    File,
    Directory,
    Missing,
}

/// Whether a path names a symbolic link, and not only goes through some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Link {
    #[default]
    No,
    Followed,
}

/// A path that was followed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Absolute, without symbolic links, `.` or `..`.
    pub path: PathBuf,
    /// As it was given.
    pub given: String,
    /// From the project's root, when it is inside; empty for the root.
    pub relative: Option<PathBuf>,
    pub kind: PathKind,
    /// The file itself, or the deepest folder above it that exists.
    pub anchor: Identity,
    /// How many names at the end of `path` don't exist yet.
    pub missing: usize,
    /// Whether what was given is itself a link, to `path`.
    pub link: Link,
}

impl Resolved {
    /// Its permissions now; none when it is missing.
    #[must_use]
    pub fn mode(&self) -> Option<u32> {
        let metadata = self.path.symlink_metadata().ok()?;
        Some(metadata.mode() & 0o7777)
    }

    /// How many folders above it don't exist yet.
    #[must_use]
    pub fn missing_folders(&self) -> usize {
        self.missing.saturating_sub(1)
    }

    /// The name that people know it by: relative inside the project.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.relative {
            Some(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
            Some(relative) => relative.to_string_lossy().into_owned(),
            None => self.path.to_string_lossy().into_owned(),
        }
    }
}

/// What was decided about a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathVerdict {
    /// In the project.
    Inside(Resolved),
    /// Elsewhere: everything there asks.
    Outside(Resolved),
    /// Holds secrets by its name, inside or outside: always asks.
    Private {
        resolved: Resolved,
        /// The pattern that says so.
        pattern: String,
    },
    /// Never usable, with the reason as a sentence.
    Refused(FileError),
}

impl PathVerdict {
    /// The path, when it may be used at all.
    ///
    /// # Errors
    ///
    /// The reason why it may not.
    pub fn resolved(self) -> Result<Resolved, FileError> {
        match self {
            Self::Inside(resolved) | Self::Outside(resolved) | Self::Private { resolved, .. } => {
                Ok(resolved)
            }
            Self::Refused(error) => Err(error),
        }
    }

    /// Why the user has to be asked even for reading; none inside the project.
    #[must_use]
    pub fn concern(&self) -> Option<String> {
        match self {
            Self::Inside(_) | Self::Refused(_) => None,
            Self::Outside(resolved) => Some(format!(
                "'{}' is outside the project.",
                resolved.path.display()
            )),
            Self::Private { resolved, pattern } => Some(format!(
                "'{}' may hold secrets (private files: {pattern}).",
                resolved.shown()
            )),
        }
    }
}

/// What paths are judged by: the project, the user's home and the list of private files.
#[derive(Debug, Clone)]
pub struct PathPolicy {
    root: PathBuf,
    root_identity: Identity,
    home: Option<PathBuf>,
    private: PrivateFiles,
}

impl PathPolicy {
    /// A policy for the project at ROOT with the default list of private files.
    ///
    /// # Errors
    ///
    /// As [`PathPolicy::with_private`].
    pub fn new(root: &Path, home: Option<&Path>) -> Result<Self, FileError> {
        Self::with_private(root, home, DEFAULT_PATTERNS)
    }

    /// A policy for the project at ROOT.
    ///
    /// # Errors
    ///
    /// ROOT is remote, missing or no folder, or a pattern is no glob.
    pub fn with_private<S: AsRef<str>>(
        root: &Path,
        home: Option<&Path>,
        patterns: &[S],
    ) -> Result<Self, FileError> {
        if let Some(error) = remote(&root.to_string_lossy()) {
            return Err(error);
        }
        let in_words = |error: &io::Error| FileError::system(root.display(), error);
        let real = root.canonicalize().map_err(|error| in_words(&error))?;
        let metadata = real.metadata().map_err(|error| in_words(&error))?;
        if !metadata.is_dir() {
            let message = format!("The project root '{}' is not a directory.", root.display());
            return Err(FileError::new(Trouble::WrongKind, message));
        }
        let home = home.map(|it| it.canonicalize().unwrap_or_else(|_| it.to_owned()));
        Ok(Self {
            private: PrivateFiles::new(patterns, home.as_deref())?,
            root_identity: Identity::of(&metadata),
            root: real,
            home,
        })
    }

    /// The project's root, without symbolic links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The user's home directory, without symbolic links.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    #[must_use]
    pub fn private_files(&self) -> &PrivateFiles {
        &self.private
    }

    /// Decides about PATH: relative to the root, absolute, or from `~/`.
    #[must_use]
    pub fn judge(&self, path: &str) -> PathVerdict {
        match self.resolve(path) {
            Ok(resolved) => match self.private.matching(&resolved.path) {
                Some(pattern) => PathVerdict::Private {
                    pattern: pattern.to_owned(),
                    resolved,
                },
                None if resolved.relative.is_some() => PathVerdict::Inside(resolved),
                None => PathVerdict::Outside(resolved),
            },
            Err(error) => PathVerdict::Refused(error),
        }
    }

    fn resolve(&self, given: &str) -> Result<Resolved, FileError> {
        let absolute = self.absolute(given)?;
        let walk = self.follow(&absolute, given)?;
        let path: PathBuf = walk.path();
        if let Some(error) = remote(&path.to_string_lossy()) {
            return Err(error);
        }
        check_lengths(&path, given)?;
        let relative = walk
            .trail
            .iter()
            .position(|step| step.identity == Some(self.root_identity))
            .map(|depth| {
                walk.trail[depth + 1..]
                    .iter()
                    .map(|step| &step.name)
                    .collect()
            });
        if relative.is_none() && inside_kernel_tree(&path) {
            return Err(refused(given, "belongs to the kernel, not to a disk"));
        }
        let missing = walk
            .trail
            .iter()
            .filter(|step| step.identity.is_none())
            .count();
        let existing = walk.trail.iter().rev().find_map(|step| step.identity);
        Ok(Resolved {
            kind: match missing {
                0 if walk.at_file => PathKind::File,
                0 => PathKind::Directory,
                _ => PathKind::Missing,
            },
            anchor: existing.unwrap_or(self.root_identity),
            path,
            given: given.to_owned(),
            relative,
            missing,
            link: walk.link,
        })
    }

    /// GIVEN as an absolute path, links and dots still in it.
    fn absolute(&self, given: &str) -> Result<PathBuf, FileError> {
        if given.contains('\0') {
            return Err(refused(
                &given.replace('\0', "\u{fffd}"),
                "contains a NUL character",
            ));
        }
        if let Some(error) = remote(given) {
            return Err(error);
        }
        if given != "~" && !given.starts_with("~/") {
            if given.starts_with('~') {
                let name = given.split('/').next().unwrap_or(given);
                let fix = "write the home directory out, or './' before a name with a tilde";
                return Err(refused(given, &format!("starts with '{name}'; {fix}")));
            }
            return Ok(self.root.join(given));
        }
        match &self.home {
            Some(home) => Ok(home.join(given[1..].trim_start_matches('/'))),
            None => Err(refused(given, "starts in an unknown home directory")),
        }
    }

    /// Follows PATH from the file system's root, one name at a time.
    fn follow(&self, path: &Path, given: &str) -> Result<Following, FileError> {
        let mut walk = Following::default();
        let mut left: VecDeque<OsString> = names(path).collect();
        let mut links = 0;
        walk.start(given)?;
        while let Some(name) = left.pop_front() {
            if walk.at_file && name != *"" {
                let shown = walk.path();
                let what = format!("goes through '{}', which is a file", shown.display());
                return Err(refused(given, &what));
            }
            match name.to_str() {
                // A trailing slash says that a directory is meant.
                Some("" | ".") => {
                    if walk.at_file {
                        return Err(refused(given, "ends in '/', but is a file"));
                    }
                }
                Some("..") => walk.up(),
                _ => {
                    if let Some(target) = walk.step(name, given)? {
                        links += 1;
                        if left.is_empty() {
                            walk.link = Link::Followed;
                        }
                        if links > MOST_LINKS {
                            return Err(refused(given, "is a loop of symbolic links"));
                        }
                        if target.is_absolute() {
                            walk.start(given)?;
                        }
                        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
                            left.push_front(name);
                        }
                    }
                }
            }
            let here = walk.path();
            if is_kernel_tree(&here) && !self.root.starts_with(&here) {
                return Err(refused(given, "belongs to the kernel, not to a disk"));
            }
        }
        Ok(walk)
    }
}

/// One name on the way, with what it is; nothing when it doesn't exist.
#[derive(Debug)]
struct NameStep {
    name: OsString,
    identity: Option<Identity>,
}

/// How far a path was followed.
#[derive(Debug, Default)]
struct Following {
    /// The first is the file system's root.
    trail: Vec<NameStep>,
    at_file: bool,
    link: Link,
}

impl Following {
    fn path(&self) -> PathBuf {
        let mut path = PathBuf::from("/");
        path.extend(self.trail.iter().skip(1).map(|step| &step.name));
        path
    }

    fn start(&mut self, given: &str) -> Result<(), FileError> {
        let metadata = Path::new("/")
            .metadata()
            .map_err(|error| FileError::system(given, &error))?;
        self.at_file = false;
        self.trail = vec![NameStep {
            name: OsString::from("/"),
            identity: Some(Identity::of(&metadata)),
        }];
        Ok(())
    }

    fn up(&mut self) {
        if self.trail.len() > 1 {
            self.trail.pop();
        }
        self.at_file = false;
    }

    /// Goes down to NAME; for a symbolic link stays and returns where it points.
    fn step(&mut self, name: OsString, given: &str) -> Result<Option<PathBuf>, FileError> {
        let here = self.path().join(&name);
        let below_missing = self
            .trail
            .last()
            .is_some_and(|step| step.identity.is_none());
        let metadata = match here.symlink_metadata() {
            _ if below_missing => None,
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NAMETOOLONG.raw_os_error()) =>
            {
                return Err(too_long(given));
            }
            Err(error) => return Err(FileError::system(given, &error)),
        };
        if let Some(metadata) = &metadata {
            let kind = metadata.file_type();
            if kind.is_symlink() {
                let target = here.read_link();
                return target
                    .map(Some)
                    .map_err(|error| FileError::system(given, &error));
            }
            if let Some(what) = special(kind) {
                return Err(refused(given, &format!("is {what}, not a file on a disk")));
            }
            self.at_file = !metadata.is_dir();
        }
        self.trail.push(NameStep {
            name,
            identity: metadata.as_ref().map(Identity::of),
        });
        Ok(None)
    }
}

/// What is neither a file nor a folder.
pub(super) fn special(kind: std::fs::FileType) -> Option<&'static str> {
    if kind.is_block_device() || kind.is_char_device() {
        Some("a device")
    } else if kind.is_fifo() {
        Some("a pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        None
    }
}

/// The names in PATH; an empty one at the end for a trailing slash.
fn names(path: &Path) -> impl Iterator<Item = OsString> + use<> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let bytes = path.as_os_str().as_bytes();
    let trailing = bytes.len() > 1 && bytes.ends_with(b"/");
    let mut names: Vec<OsString> = bytes
        .split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty())
        .map(|name| OsString::from_vec(name.to_vec()))
        .collect();
    if trailing {
        names.push(OsString::new());
    }
    names.into_iter()
}

/// Emacs takes `/method:host:path` for a file on another machine or for another user, and `/:` as
/// quoting; here that would name something else, or nothing.
fn remote(path: &str) -> Option<FileError> {
    let first = path.strip_prefix('/')?.split('/').next()?;
    first.contains(':').then(|| {
        refused(
            path,
            "is a remote (TRAMP) name; only files on this machine can be used",
        )
    })
}

fn check_lengths(path: &Path, given: &str) -> Result<(), FileError> {
    let long = |name: &OsStr| name.len() > LONGEST_NAME;
    if path.as_os_str().len() >= LONGEST_PATH || path.iter().any(long) {
        return Err(too_long(given));
    }
    Ok(())
}

fn too_long(given: &str) -> FileError {
    let start: String = given.chars().take(60).collect();
    refused(&format!("{start}…"), "is longer than a file name can be")
}

fn is_kernel_tree(path: &Path) -> bool {
    KERNEL_TREES.iter().any(|tree| path == Path::new(tree))
}

fn inside_kernel_tree(path: &Path) -> bool {
    KERNEL_TREES.iter().any(|tree| path.starts_with(tree))
}

fn refused(path: &str, why: &str) -> FileError {
    FileError::new(Trouble::WrongKind, format!("Path '{path}' {why}."))
}

// The error for a file that is not there: it names what is there and looks like it.

/// The error for a file that is not there, with names like it that are.
#[must_use]
pub fn missing(target: &Resolved) -> FileError {
    let near = near_names(target);
    let hint = if near.is_empty() {
        String::new()
    } else {
        format!(" Near names: {}.", near.join(", "))
    };
    let message = format!("File not found: '{}' does not exist.{hint}", target.shown());
    FileError::new(Trouble::Missing, message)
}

/// Up to three names that are like the first missing one, in the folder where it would be.
fn near_names(target: &Resolved) -> Vec<String> {
    const ALIKE: f64 = 0.7;
    const MOST_READ: usize = 5000;
    let depth = target.path.iter().count() - target.missing;
    let folder: PathBuf = target.path.iter().take(depth).collect();
    let Some(wanted) = target.path.iter().nth(depth).map(OsStr::to_string_lossy) else {
        return Vec::new();
    };
    let wanted = wanted.to_lowercase();
    let Ok(entries) = open_anchor(target).and_then(|it| Ok(Dir::read_from(it)?)) else {
        return Vec::new();
    };
    let mut near: Vec<(f64, String)> = entries
        .take(MOST_READ)
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .map(|name| {
            (
                strsim::normalized_damerau_levenshtein(&wanted, &name.to_lowercase()),
                name,
            )
        })
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let above = match &target.relative {
        Some(relative) => relative
            .iter()
            .take(relative.iter().count() - target.missing)
            .collect(),
        None => folder,
    };
    let full = |name: String| above.join(name).to_string_lossy().into_owned();
    near.into_iter()
        .take(3)
        .map(|(_, name)| full(name))
        .collect()
}

/// Opens the deepest folder that was there above TARGET, which is missing.
fn open_anchor(target: &Resolved) -> io::Result<OwnedFd> {
    let flags = PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = rustix::fs::open("/", flags, Mode::empty())?;
    let names = target.path.iter().count() - 1 - target.missing;
    for name in target.path.iter().skip(1).take(names) {
        folder = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
    }
    if identity(&rustix::fs::fstat(&folder)?) != target.anchor {
        return Err(io::ErrorKind::NotFound.into());
    }
    let listed = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&folder, ".", listed, Mode::empty())?)
}
