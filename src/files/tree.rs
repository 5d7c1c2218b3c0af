// SPDX-License-Identifier: GPL-3.0-or-later
//! A folder as an indented tree. When there is too much of it, what is near the top stays and
//! each folder says how much it doesn't show.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::glob::globs;
use super::listing::EntryKind;
use super::path::{PathPolicy, Resolved};
use super::search::{Hidden, private_note};
use super::walk::{Ground, Walk, WalkedEntry, WalkedKind};
use super::{FileError, Stop, cancelled, count, human_size};

/// How deep a tree goes when nobody says.
pub const DEFAULT_DEPTH: usize = 8;
/// The most entries of a tree that are shown.
pub const MOST_ENTRIES: usize = 300;
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
            limit: MOST_ENTRIES,
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
