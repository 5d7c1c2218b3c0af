// SPDX-License-Identifier: GPL-3.0-or-later
//! Using a path that was judged: every folder on the way is opened by name from the one above,
//! never through a symbolic link, and what is found must be what was judged. Writes are atomic.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::fingerprint::Fingerprint;
use super::path::{PathKind, Resolved, missing};
use super::{FileError, PASS, Trouble, identity};

const FOLDER_MODE: u32 = 0o777;
const FILE_MODE: u32 = 0o666;

/// Whether missing folders above a new file are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parents {
    Make,
    MustExist,
}

/// What happens to a file that is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    Refuse,
    Replace,
}

/// A folder that is held open, and the name of a file in it.
struct HeldPlace {
    folder: OwnedFd,
    name: OsString,
    shown: String,
    /// The folders that were made on the way, the deepest last.
    made: Vec<(OwnedFd, OsString)>,
}

/// Opens the file at TARGET for reading.
///
/// # Errors
///
/// It is missing, no plain file, not readable, or not what was judged.
pub fn open_for_read(target: &Resolved) -> Result<File, FileError> {
    must_be_file(target)?;
    let place = reach(target, Parents::MustExist)?;
    Ok(File::from(place.open_judged(target)?))
}

/// Opens the folder at TARGET, for listing it.
///
/// # Errors
///
/// It is missing, no folder, not readable, or not what was judged.
pub fn open_directory(target: &Resolved) -> Result<OwnedFd, FileError> {
    match target.kind {
        PathKind::Directory => {}
        PathKind::File => {
            let message = format!("'{}' is a file, not a directory.", target.shown());
            return Err(FileError::new(Trouble::WrongKind, message));
        }
        PathKind::Missing => return Err(missing(target)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = if target.path.parent().is_some() {
        let place = reach(target, Parents::MustExist)?;
        rustix::fs::openat(&place.folder, &place.name, flags, Mode::empty())
    } else {
        rustix::fs::open("/", flags, Mode::empty())
    };
    let folder = folder.map_err(|error| on_the_way(error, &target.shown()))?;
    same_identity(&folder, target)?;
    Ok(folder)
}

/// Makes sure that a file may be made at TARGET, as far as that can be told beforehand.
///
/// # Errors
///
/// TARGET is written as a folder, or the folder above is missing and PARENTS says that it must not.
pub fn can_create(target: &Resolved, parents: Parents) -> Result<(), FileError> {
    if target.given.ends_with('/') {
        let message = format!(
            "'{}' ends in '/', which is for a directory; name the file.",
            target.given
        );
        return Err(FileError::new(Trouble::WrongKind, message));
    }
    match parents {
        Parents::MustExist if target.missing_folders() > 0 => Err(no_folder(target)),
        Parents::MustExist | Parents::Make => Ok(()),
    }
}

fn no_folder(target: &Resolved) -> FileError {
    let folder = target.path.parent().unwrap_or(&target.path).display();
    FileError::new(
        Trouble::Missing,
        format!("The directory '{folder}' does not exist."),
    )
}

/// Makes a new file with CONTENT at TARGET, all of it or nothing.
///
/// # Errors
///
/// Something is there, a folder is missing, or the system refuses; then nothing is left behind.
pub fn create(target: &Resolved, content: &[u8], parents: Parents) -> Result<(), FileError> {
    if target.kind != PathKind::Missing {
        return Err(exists(&target.shown()));
    }
    let place = reach(target, parents)?;
    let made = place
        .write_beside(content, None)
        .and_then(|temporary| place.settle(&temporary, Overwrite::Refuse));
    if made.is_err() {
        place.take_back();
    }
    made
}

/// Replaces what the file at TARGET holds with CONTENT, all of it or nothing; keeps its mode.
/// EXPECTED is what it must hold.
///
/// # Errors
///
/// It is missing, not what was judged or expected, or the system refuses; then it is as it was.
pub fn replace(
    target: &Resolved,
    content: &[u8],
    expected: Option<&Fingerprint>,
) -> Result<(), FileError> {
    must_be_file(target)?;
    let place = reach(target, Parents::MustExist)?;
    let file = File::from(place.open_judged(target)?);
    let in_words = |error: &io::Error| FileError::system(target.shown(), error);
    if let Some(expected) = expected {
        expected.must_be_of(&file, target)?;
    }
    let stat = rustix::fs::fstat(&file).map_err(|error| in_words(&error.into()))?;
    // A file that forbids writing is left alone, although its folder would let it be replaced.
    rustix::fs::accessat(
        &place.folder,
        &place.name,
        rustix::fs::Access::WRITE_OK,
        AtFlags::EACCESS,
    )
    .map_err(|error| in_words(&error.into()))?;
    let temporary = place.write_beside(content, Some(&stat))?;
    let judged_still = place.open_judged(target).map(drop);
    if let Err(error) = judged_still {
        place.discard(&temporary);
        return Err(error);
    }
    place.settle(&temporary, Overwrite::Replace)
}

/// Deletes the file at TARGET. EXPECTED is what it must hold.
///
/// # Errors
///
/// It is missing, a folder, not what was judged or expected, or the system refuses.
pub fn remove(target: &Resolved, expected: Option<&Fingerprint>) -> Result<(), FileError> {
    if target.kind == PathKind::Directory {
        let message = format!(
            "'{}' is a directory; only files can be deleted.",
            target.shown()
        );
        return Err(FileError::new(Trouble::WrongKind, message));
    }
    must_be_file(target)?;
    let place = reach(target, Parents::MustExist)?;
    if let Some(expected) = expected {
        expected.must_be_of(&File::from(place.open_judged(target)?), target)?;
    }
    place.still_judged(target)?;
    rustix::fs::unlinkat(&place.folder, &place.name, AtFlags::empty())
        .map_err(|error| FileError::system(target.shown(), &error.into()))
}

/// Moves the file at SOURCE to DESTINATION. EXPECTED is what the file that goes there must hold.
///
/// # Errors
///
/// The source is no file, the destination is taken, either is not what was judged, they are on
/// different file systems, or the system refuses; then nothing was moved.
pub fn rename(
    source: &Resolved,
    destination: &Resolved,
    parents: Parents,
    overwrite: Overwrite,
    expected: Option<&Fingerprint>,
) -> Result<(), FileError> {
    must_be_file(source)?;
    match (destination.kind, overwrite) {
        (PathKind::Missing, _) | (PathKind::File, Overwrite::Replace) => {}
        (PathKind::Directory, _) => {
            let message = format!(
                "'{}' is a directory; give the new path of the file itself.",
                destination.shown()
            );
            return Err(FileError::new(Trouble::WrongKind, message));
        }
        (PathKind::File, Overwrite::Refuse) => return Err(exists(&destination.shown())),
    }
    let from = reach(source, Parents::MustExist)?;
    from.still_judged(source)?;
    let to = reach(destination, parents)?;
    if destination.kind == PathKind::File {
        if let Some(expected) = expected {
            expected.must_be_of(&File::from(to.open_judged(destination)?), destination)?;
        }
        to.still_judged(destination)?;
    }
    let moved = move_entry(
        &from.folder,
        &from.name,
        &to.folder,
        &to.name,
        match destination.kind {
            PathKind::File => Overwrite::Replace,
            _ => Overwrite::Refuse,
        },
    );
    moved.map_err(|error| {
        to.take_back();
        match error {
            Errno::XDEV => FileError::new(
                Trouble::System,
                format!(
                    "'{}' and '{}' are on different file systems; create the new file, then delete the old one.",
                    source.shown(),
                    destination.shown()
                ),
            ),
            Errno::EXIST => exists(&destination.shown()),
            _ => FileError::system(source.shown(), &error.into()),
        }
    })
}

/// The folder that holds TARGET, held open, and what is known about TARGET.
///
/// # Errors
///
/// It is missing or not what was judged.
pub(super) fn stat_judged(target: &Resolved) -> Result<(OwnedFd, Stat), FileError> {
    if target.kind == PathKind::Missing {
        return Err(missing(target));
    }
    if target.path.parent().is_none() {
        let root = open_directory(target)?;
        let stat = same_identity(&root, target)?;
        return Ok((root, stat));
    }
    let place = reach(target, Parents::MustExist)?;
    let stat = place.still_judged(target)?;
    Ok((place.folder, stat))
}

impl HeldPlace {
    /// Opens the file, which must be the one that TARGET was judged as.
    fn open_judged(&self, target: &Resolved) -> Result<OwnedFd, FileError> {
        // NONBLOCK: a pipe put in the file's place must not hang the reader.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())
            .map_err(|error| on_the_way(error, &self.shown))?;
        let stat = same_identity(&file, target)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(changed(&self.shown));
        }
        Ok(file)
    }

    /// The same check without opening, for files that may not be read.
    fn still_judged(&self, target: &Resolved) -> Result<Stat, FileError> {
        let stat = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| on_the_way(error, &self.shown))?;
        if identity(&stat) == target.anchor {
            Ok(stat)
        } else {
            Err(changed(&self.shown))
        }
    }

    /// Writes CONTENT to a new file in the same folder, down to the disk, and returns its name.
    fn write_beside(&self, content: &[u8], like: Option<&Stat>) -> Result<OsString, FileError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = OsString::from(format!(".agent-q-{}-{number}.tmp", std::process::id()));
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A file that replaces another must not be readable by more people at any time.
        let mode = if like.is_some() { 0o600 } else { FILE_MODE };
        let in_words = |error: &io::Error| FileError::system(&self.shown, error);
        let opened = rustix::fs::openat(&self.folder, &temporary, flags, Mode::from_raw_mode(mode))
            .map_err(|error| in_words(&error.into()))?;
        let mut file = File::from(opened);
        let written = file
            .write_all(content)
            .and_then(|()| like.map_or(Ok(()), |stat| look_like(&file, stat)))
            .and_then(|()| file.sync_all());
        match written {
            Ok(()) => Ok(temporary),
            Err(error) => {
                self.discard(&temporary);
                Err(in_words(&error))
            }
        }
    }

    /// Gives TEMPORARY the file's name.
    fn settle(&self, temporary: &OsStr, overwrite: Overwrite) -> Result<(), FileError> {
        let moved = move_entry(&self.folder, temporary, &self.folder, &self.name, overwrite);
        moved.map_err(|error| {
            self.discard(temporary);
            match error {
                Errno::EXIST => exists(&self.shown),
                _ => FileError::system(&self.shown, &error.into()),
            }
        })?;
        self.sync_folder();
        Ok(())
    }

    /// So that the new name survives a power cut; the file itself is safe already.
    fn sync_folder(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(folder) = rustix::fs::openat(&self.folder, ".", flags, Mode::empty()) {
            let _ = rustix::fs::fsync(folder);
        }
    }

    fn discard(&self, temporary: &OsStr) {
        let _ = rustix::fs::unlinkat(&self.folder, temporary, AtFlags::empty());
    }

    /// Removes the folders that were made for nothing.
    fn take_back(&self) {
        for (above, name) in self.made.iter().rev() {
            let _ = rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR);
        }
    }
}

/// Opens the folder that holds TARGET, name by name, making the missing ones when asked.
fn reach(target: &Resolved, parents: Parents) -> Result<HeldPlace, FileError> {
    let shown = target.shown();
    let mut names: Vec<OsString> = target.path.iter().skip(1).map(OsStr::to_owned).collect();
    let Some(name) = names.pop() else {
        let message = format!("'{shown}' is a directory, not a file.");
        return Err(FileError::new(Trouble::WrongKind, message));
    };
    let to_make = target.missing_folders();
    if to_make > 0 && parents == Parents::MustExist {
        return Err(no_folder(target));
    }
    let flags = PASS | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let existing = names.len() - to_make;
    let mut folder =
        rustix::fs::open("/", flags, Mode::empty()).map_err(|error| on_the_way(error, &shown))?;
    for name in &names[..existing] {
        folder = rustix::fs::openat(&folder, name, flags, Mode::empty())
            .map_err(|error| on_the_way(error, &shown))?;
    }
    if target.kind == PathKind::Missing {
        same_identity(&folder, target)?;
    }
    let mut place = HeldPlace {
        folder,
        name,
        shown,
        made: Vec::new(),
    };
    for name in &names[existing..] {
        if let Err(error) = place.make_folder(name, flags) {
            place.take_back();
            return Err(error);
        }
    }
    Ok(place)
}

impl HeldPlace {
    fn make_folder(&mut self, name: &OsStr, flags: OFlags) -> Result<(), FileError> {
        rustix::fs::mkdirat(&self.folder, name, Mode::from_raw_mode(FOLDER_MODE)).map_err(
            |error| match error {
                Errno::EXIST => changed(&self.shown),
                _ => FileError::system(&self.shown, &error.into()),
            },
        )?;
        let below = rustix::fs::openat(&self.folder, name, flags, Mode::empty())
            .map_err(|error| on_the_way(error, &self.shown))?;
        let above = std::mem::replace(&mut self.folder, below);
        self.made.push((above, name.to_owned()));
        Ok(())
    }
}

/// Renames without ever replacing what must not be.
fn move_entry(
    from: &OwnedFd,
    old: &OsStr,
    to: &OwnedFd,
    new: &OsStr,
    overwrite: Overwrite,
) -> Result<(), Errno> {
    if overwrite == Overwrite::Replace {
        return rustix::fs::renameat(from, old, to, new);
    }
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // Not every file system can do that; a second name fails in the same way when one is taken.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            rustix::fs::linkat(from, old, to, new, AtFlags::empty())?;
            rustix::fs::unlinkat(from, old, AtFlags::empty())
        }
        result => result,
    }
}

/// Gives FILE the mode of STAT, and its owners as far as the system lets us.
fn look_like(file: &File, stat: &Stat) -> io::Result<()> {
    let now = rustix::fs::fstat(file)?;
    if (now.st_uid, now.st_gid) != (stat.st_uid, stat.st_gid) {
        let owner = rustix::fs::Uid::from_raw(stat.st_uid);
        let group = rustix::fs::Gid::from_raw(stat.st_gid);
        if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(group));
        }
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    Ok(())
}

fn must_be_file(target: &Resolved) -> Result<(), FileError> {
    match target.kind {
        PathKind::File => Ok(()),
        PathKind::Missing => Err(missing(target)),
        PathKind::Directory => Err(FileError::new(
            Trouble::WrongKind,
            format!("'{}' is a directory, not a file.", target.shown()),
        )),
    }
}

fn same_identity(file: impl AsFd, target: &Resolved) -> Result<Stat, FileError> {
    let stat = rustix::fs::fstat(file)
        .map_err(|error| FileError::system(target.shown(), &error.into()))?;
    if identity(&stat) == target.anchor {
        Ok(stat)
    } else {
        Err(changed(&target.shown()))
    }
}

/// An error from opening one name without following links.
fn on_the_way(error: Errno, shown: &str) -> FileError {
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::NOENT | Errno::NXIO => changed(shown),
        _ => FileError::system(shown, &error.into()),
    }
}

fn changed(shown: &str) -> FileError {
    let message = format!(
        "'{shown}' was moved, deleted or replaced after it was checked; nothing was done. Try again."
    );
    FileError::new(Trouble::Changed, message)
}

fn exists(shown: &str) -> FileError {
    let message = format!("'{shown}' already exists; allow overwriting it, or use another name.");
    FileError::new(Trouble::Exists, message)
}
