// SPDX-License-Identifier: GPL-3.0-or-later
//! What is in one folder, what is known about one file, and a folder as an indented tree: read through the
//! folder that is held open, so that nothing outside it is ever looked at.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, Dir, FileType, Stat};

use super::path::{PathPolicy, Resolved};
use super::patterns::globs;
use super::search::{Hidden, private_note};
use super::verified::{open_directory, stat_judged};
use super::walk::{Ground, Walk, WalkedEntry, WalkedKind};
use super::{FileError, Stop, cancelled, count, human_size};

/// The most entries of a folder that are listed.
const MOST_ENTRIES: usize = 500;

/// In which order a folder is listed; names decide between equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortBy {
    #[default]
    Name,
    /// The largest first.
    Size,
    /// The newest first.
    Modified,
}

/// What an entry of a folder is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    /// A symbolic link and what is written in it.
    Link(String),
    /// A device, pipe or socket.
    Special,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEntry {
    pub name: String,
    pub kind: EntryKind,
    pub size: u64,
    /// Seconds since 1970.
    pub modified: i64,
}

/// What is in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderListing {
    pub folder: PathBuf,
    /// The first entries in the order that was asked for.
    pub entries: Vec<ListedEntry>,
    pub files: u64,
    pub folders: u64,
    /// Entries that start with a dot and are not counted elsewhere.
    pub hidden: u64,
    /// How many entries are not shown.
    pub more: u64,
}

impl FolderListing {
    /// The answer for a model.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "Directory: {}\nTotal: {}, {}\n\n",
            self.folder.display(),
            count(self.files, "file"),
            count(self.folders, "directory")
        );
        for entry in &self.entries {
            match &entry.kind {
                EntryKind::Directory => text.push_str(&format!("[DIR]  {}\n", entry.name)),
                EntryKind::Link(target) => {
                    text.push_str(&format!("[LINK] {} -> {target}\n", entry.name));
                }
                EntryKind::Special => text.push_str(&format!("[SPECIAL] {}\n", entry.name)),
                EntryKind::File => {
                    let size = human_size(entry.size);
                    text.push_str(&format!("[FILE] {:<40} ({size})\n", entry.name));
                }
            }
        }
        if self.more > 0 {
            let more = count(self.more, "more entry");
            text.push_str(&format!("… {more}; search for what you need.\n"));
        }
        if self.hidden > 0 {
            let hidden = count(self.hidden, "hidden entry");
            text.push_str(&format!("({hidden} not shown.)\n"));
        }
        text
    }
}

/// Lists FOLDER.
///
/// # Errors
///
/// It is missing, a file, or not readable.
pub fn list_directory(
    folder: &Resolved,
    hidden: Hidden,
    sort: SortBy,
) -> Result<FolderListing, FileError> {
    let opened = open_directory(folder)?;
    let in_words = |error: rustix::io::Errno| FileError::system(folder.shown(), &error.into());
    let mut listing = FolderListing {
        folder: folder.path.clone(),
        entries: Vec::new(),
        files: 0,
        folders: 0,
        hidden: 0,
        more: 0,
    };
    for found in Dir::read_from(&opened).map_err(in_words)? {
        let name = found.map_err(in_words)?.file_name().to_owned();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if hidden == Hidden::LeaveOut && name.to_bytes().starts_with(b".") {
            listing.hidden += 1;
            continue;
        }
        // What was deleted meanwhile is not there.
        if let Some(entry) = entry(&opened, &name) {
            match entry.kind {
                EntryKind::Directory => listing.folders += 1,
                _ => listing.files += 1,
            }
            listing.entries.push(entry);
        }
    }
    sort_entries(&mut listing.entries, sort);
    listing.more = listing.entries.len().saturating_sub(MOST_ENTRIES) as u64;
    listing.entries.truncate(MOST_ENTRIES);
    Ok(listing)
}

fn sort_entries(entries: &mut [ListedEntry], sort: SortBy) {
    entries.sort_by(|a, b| {
        let first = match sort {
            SortBy::Name => std::cmp::Ordering::Equal,
            SortBy::Size => b.size.cmp(&a.size),
            SortBy::Modified => b.modified.cmp(&a.modified),
        };
        first.then_with(|| a.name.cmp(&b.name))
    });
}

fn entry(folder: &OwnedFd, name: &std::ffi::CStr) -> Option<ListedEntry> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(folder, name, Vec::new()).ok()?;
            EntryKind::Link(target.to_string_lossy().into_owned())
        }
        _ => EntryKind::Special,
    };
    Some(ListedEntry {
        name: name.to_string_lossy().into_owned(),
        kind,
        size: size(&stat),
        modified: modified(&stat),
    })
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "its type differs by system"
)]
fn modified(stat: &Stat) -> i64 {
    stat.st_mtime as i64
}

#[allow(clippy::useless_conversion, reason = "its type differs by system")]
fn mode(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & 0o7777
}

/// What is known about one file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    pub path: PathBuf,
    pub kind: EntryKind,
    pub size: u64,
    /// Seconds since 1970.
    pub modified: i64,
    pub mode: u32,
    pub readable: Possible,
    pub writable: Possible,
}

/// Whether something can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Possible {
    Yes,
    No,
}

impl Possible {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "Yes",
            Self::No => "No",
        }
    }
}

impl FileInfo {
    /// The answer for a model.
    #[must_use]
    pub fn text(&self) -> String {
        let kind = match self.kind {
            EntryKind::Directory => "DIRECTORY",
            _ => "FILE",
        };
        format!(
            "File: {}\n\nType: {kind}\nSize: {}\nModified: {}\nPermissions: {:o}\nReadable: {}\nWritable: {}\n",
            self.path.display(),
            human_size(self.size),
            utc(self.modified),
            self.mode,
            self.readable.word(),
            self.writable.word()
        )
    }
}

/// Tells about the file or folder at TARGET.
///
/// # Errors
///
/// It is missing or not what was judged.
pub fn file_info(target: &Resolved) -> Result<FileInfo, FileError> {
    let (folder, stat) = stat_judged(target)?;
    let name = target.path.file_name().map_or(Path::new("."), Path::new);
    let can =
        |access: Access| match rustix::fs::accessat(folder.as_fd(), name, access, AtFlags::EACCESS)
        {
            Ok(()) => Possible::Yes,
            Err(_) => Possible::No,
        };
    Ok(FileInfo {
        path: target.path.clone(),
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => EntryKind::Directory,
            _ => EntryKind::File,
        },
        size: size(&stat),
        modified: modified(&stat),
        mode: mode(&stat),
        readable: can(Access::READ_OK),
        writable: can(Access::WRITE_OK),
    })
}

/// The project's root as a model reads it.
#[must_use]
pub fn project_root_text(policy: &PathPolicy) -> String {
    format!("Project root: {}\n", policy.root().display())
}

/// SECONDS since 1970 as a date and time; days are counted in years that start in March, so that
/// leap days come last.
#[must_use]
pub fn utc(seconds: i64) -> String {
    let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

// A folder as an indented tree. When there is too much of it, what is near the top stays and each folder
// says how much it omits.

/// How deep a tree goes when nobody says.
pub const DEFAULT_DEPTH: usize = 8;
/// The most entries of a tree that are shown.
const MOST_TREE_ENTRIES: usize = 300;
/// The most entries that are looked at.
const MOST_VISITED: usize = 200_000;

/// What of a folder to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeOptions {
    pub excludes: Vec<String>,
    pub depth: usize,
    pub hidden: Hidden,
    pub limit: usize,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            excludes: Vec::new(),
            depth: DEFAULT_DEPTH,
            hidden: Hidden::LeaveOut,
            limit: MOST_TREE_ENTRIES,
        }
    }
}

/// One entry, with its path from the tree's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Branch {
    path: PathBuf,
    kind: EntryKind,
    size: u64,
}

impl Branch {
    fn depth(&self) -> usize {
        self.path.iter().count()
    }
}

/// Shows FOLDER as a tree, as a text for a model.
///
/// # Errors
///
/// A bad glob, no folder, or STOP said so.
pub fn directory_tree(
    policy: &PathPolicy,
    folder: &Resolved,
    options: &TreeOptions,
    stop: Stop<'_>,
) -> Result<String, FileError> {
    let ground = Ground::new(policy, folder, options.hidden, globs(&options.excludes)?)?;
    let mut branches = Vec::new();
    ground.in_order(options.depth.max(1), &mut |entry| {
        branches.extend(branch(entry));
        match stop() || branches.len() >= MOST_VISITED {
            true => Walk::Ends,
            false => Walk::On,
        }
    });
    if stop() {
        return Err(cancelled());
    }
    let mut text = format!("Directory tree: {}\n", folder.path.display());
    if !options.excludes.is_empty() {
        text.push_str(&format!("Excluding: {}\n", options.excludes.join(", ")));
    }
    text.push('\n');
    text.push_str(&draw(branches, options.limit));
    text.push_str(&private_note(ground.private()));
    Ok(text)
}

/// What is shown of ENTRY; nothing when it is gone.
fn branch(entry: &WalkedEntry<'_>) -> Option<Branch> {
    let kind = match entry.kind {
        WalkedKind::File => EntryKind::File,
        WalkedKind::Folder => EntryKind::Directory,
        WalkedKind::Link => EntryKind::Link(entry.target()?),
        WalkedKind::Special => EntryKind::Special,
    };
    let size = match kind {
        EntryKind::File => u64::try_from(entry.stat()?.st_size).unwrap_or(0),
        EntryKind::Directory | EntryKind::Link(_) | EntryKind::Special => 0,
    };
    Some(Branch {
        path: entry.relative.to_owned(),
        kind,
        size,
    })
}

/// Draws BRANCHES, which come in the order of a walk; keeps the LIMIT that are nearest the top.
fn draw(branches: Vec<Branch>, limit: usize) -> String {
    let mut by_depth: Vec<usize> = (0..branches.len()).collect();
    by_depth.sort_by_key(|&index| branches[index].depth());
    let mut keep = vec![false; branches.len()];
    for &index in by_depth.iter().take(limit) {
        keep[index] = true;
    }
    let mut left_out: BTreeMap<&Path, u64> = BTreeMap::new();
    for (branch, _) in branches.iter().zip(&keep).filter(|(_, keep)| !**keep) {
        *left_out.entry(parent(&branch.path)).or_default() += 1;
    }
    let mut text = String::new();
    let mut open: Vec<&Path> = vec![Path::new("")];
    for (branch, _) in branches.iter().zip(&keep).filter(|(_, keep)| **keep) {
        while open
            .last()
            .is_some_and(|last| *last != parent(&branch.path))
        {
            close(open.pop(), &left_out, &mut text);
        }
        let indent = "  ".repeat(branch.depth() - 1);
        let name = branch
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let line = match &branch.kind {
            EntryKind::File => format!("[FILE] {name} ({})", human_size(branch.size)),
            EntryKind::Link(target) => format!("[LINK] {name} -> {target}"),
            EntryKind::Special => format!("[SPECIAL] {name}"),
            EntryKind::Directory => {
                open.push(&branch.path);
                format!("[DIR] {name}")
            }
        };
        text.push_str(&format!("{indent}{line}\n"));
    }
    while let Some(folder) = open.pop() {
        close(Some(folder), &left_out, &mut text);
    }
    text
}

/// Says at the end of FOLDER how much of it is not shown.
fn close(folder: Option<&Path>, left_out: &BTreeMap<&Path, u64>, text: &mut String) {
    let Some(folder) = folder else { return };
    if let Some(&more) = left_out.get(folder) {
        let indent = "  ".repeat(folder.iter().count());
        text.push_str(&format!("{indent}… {}\n", count(more, "more entry")));
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
