// SPDX-License-Identifier: GPL-3.0-or-later
//! The error for a file that is not there: it names what is there and looks like it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Dir, Mode, OFlags};

use super::identity::{PASS, identity};
use super::path::Resolved;
use super::{FileError, Trouble};

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
