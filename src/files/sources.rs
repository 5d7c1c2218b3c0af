// SPDX-License-Identifier: GPL-3.0-or-later
//! Folders of Lisp sources outside the project: those of systems that a Lisp image knows, and of the
//! Lisp itself. An image can be made to say anything, so what is on the disk has to bear it out.

use std::path::{Component, Path, PathBuf};

use super::systems::is_definition;

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
