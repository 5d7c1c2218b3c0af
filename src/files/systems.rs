// SPDX-License-Identifier: GPL-3.0-or-later
//! The ASDF systems that a project defines: names and files, read from its .asd files without evaluating
//! anything in them. And the folders of systems outside the project that a Lisp image knows.

use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::path::PathPolicy;
use super::search::Hidden;
use super::walk::{Ground, Walk, WalkedEntry, WalkedKind};
use super::{FileError, Stop, cancelled};

/// How deep below the root they are looked for: `lib/bank/bank.asd` is found.
const DEPTH: usize = 3;
/// How much of a file is read.
const MOST_BYTES: u64 = 500_000;
/// How many systems are named.
const MOST_SYSTEMS: usize = 300;

/// A system and the file that defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectSystem {
    pub name: String,
    /// Absolute.
    pub file: PathBuf,
    /// From the project's root.
    pub relative: PathBuf,
}

/// The systems of the project, in the order of their files' paths.
///
/// # Errors
///
/// The root can't be read, or the call was cancelled.
pub fn project_systems(
    policy: &PathPolicy,
    stop: Stop<'_>,
) -> Result<Vec<ProjectSystem>, FileError> {
    let root = policy.judge(".").resolved()?;
    let ground = Ground::new(policy, &root, Hidden::LeaveOut, Vec::new())?;
    let mut systems = Vec::new();
    ground.in_order(DEPTH, &mut |entry| {
        if entry.kind == WalkedKind::File && is_definition(entry.relative) {
            add_systems(&ground, entry, &mut systems);
        }
        match stop() || systems.len() >= MOST_SYSTEMS {
            true => Walk::Ends,
            false => Walk::On,
        }
    });
    if stop() {
        return Err(cancelled());
    }
    systems.truncate(MOST_SYSTEMS);
    Ok(systems)
}

/// Adds what the file ENTRY of GROUND defines to SYSTEMS. What can't be read can't be loaded either.
fn add_systems(ground: &Ground, entry: &WalkedEntry<'_>, systems: &mut Vec<ProjectSystem>) {
    let file = ground.root().join(entry.relative);
    let mut text = Vec::new();
    let read = entry
        .open()
        .and_then(|opened| opened.take(MOST_BYTES).read_to_end(&mut text));
    if read.is_err() {
        return;
    }
    for name in system_names(&file, &String::from_utf8_lossy(&text)) {
        systems.push(ProjectSystem {
            name,
            file: file.clone(),
            relative: entry.relative.to_owned(),
        });
    }
}

/// Whether PATH has the name of a file that defines systems.
#[must_use]
pub fn is_definition(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "asd")
}

/// The names of the systems that TEXT, what is in FILE, defines; the file's own when none is seen.
#[must_use]
pub fn system_names(file: &Path, text: &str) -> Vec<String> {
    static DEFINITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r#"(?im)^[ \t]*\((?:[a-z/]+::?)?defsystem\s+(?:"([^"\n]+)"|(?:#?:)?\|?([^\s"|()]+))"#,
        )
        .ok()
    });
    let mut names: Vec<String> = Vec::new();
    for found in DEFINITION.iter().flat_map(|it| it.captures_iter(text)) {
        // ASDF takes a string as it is, and a symbol in small letters.
        let name = match (found.get(1), found.get(2)) {
            (Some(string), _) => string.as_str().to_owned(),
            (_, Some(symbol)) => symbol.as_str().to_lowercase(),
            _ => continue,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        names.extend(file.file_stem().map(|it| it.to_string_lossy().into_owned()));
    }
    names
}

// Folders of Lisp sources outside the project: those of systems that a Lisp image knows, and of the
// Lisp itself. An image can be made to say anything, so what is on the disk has to bear it out.

/// Files in the sources of Lisp implementations (SBCL, CCL), from the folder of these.
const OF_IMPLEMENTATIONS: [&str; 2] = ["src/code/cold-init.lisp", "level-1/l1-init.lisp"];
/// Folders in which each folder has much that is no Lisp.
const WIDE: [&str; 4] = ["/usr", "/var", "/home", "/Users"];

/// The folders of sources that are shown by FILES, definitions of systems and sources of an
/// implementation, and those of TREES that have any of these in them. HOME is the user's.
#[must_use]
pub fn source_folders(files: &[&str], trees: &[&str], home: Option<&Path>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = files
        .iter()
        .filter_map(|file| shown_by(file))
        .filter(|folder| !is_wide(folder, home))
        .collect();
    let trees: Vec<PathBuf> = trees
        .iter()
        .filter_map(|tree| Path::new(tree).canonicalize().ok())
        .filter(|tree| !is_wide(tree, home) && folders.iter().any(|it| it.starts_with(tree)))
        .collect();
    folders.extend(trees);
    folders
}

/// The folder, without links in it, whose sources FILE is a part of, if it is there.
fn shown_by(file: &str) -> Option<PathBuf> {
    let file = Path::new(file).canonicalize().ok()?;
    if !file.is_file() {
        return None;
    }
    if is_definition(&file) {
        return file.parent().map(Path::to_owned);
    }
    let inner = OF_IMPLEMENTATIONS.iter().find(|it| file.ends_with(it))?;
    let above = Path::new(inner).components().count();
    file.ancestors().nth(above).map(Path::to_owned)
}

/// Whether FOLDER has more in it than sources: the user's HOME, what is above it, or what every
/// machine has.
fn is_wide(folder: &Path, home: Option<&Path>) -> bool {
    let depth = folder
        .components()
        .filter(|it| matches!(it, Component::Normal(_)))
        .count();
    let above = folder.parent().unwrap_or(folder);
    depth < 2
        || WIDE.iter().any(|wide| above == Path::new(wide))
        || home.is_some_and(|home| home.starts_with(folder))
}
