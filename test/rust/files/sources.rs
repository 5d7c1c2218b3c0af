// SPDX-License-Identifier: GPL-3.0-or-later
//! Folders of sources outside the project: what an image says counts only where the disk bears it out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use agent_q_core::files::systems::source_folders;
use tempfile::TempDir;

/// A folder with FILES in it, without links in its name.
fn with_files(files: &[&str]) -> (TempDir, PathBuf) {
    let base = TempDir::new().unwrap();
    let root = base.path().canonicalize().unwrap();
    for file in files {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    (base, root)
}

fn folders(root: &Path, files: &[&str], trees: &[&str]) -> Vec<PathBuf> {
    let there = |names: &[&str]| -> Vec<String> {
        names
            .iter()
            .map(|it| root.join(it).to_string_lossy().into_owned())
            .collect()
    };
    let (files, trees) = (there(files), there(trees));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let trees: Vec<&str> = trees.iter().map(String::as_str).collect();
    source_folders(&files, &trees, Some(&root.join("home/me")))
}

#[test]
fn the_folder_of_a_definition_counts_and_trees_that_have_one() {
    let (_base, root) = with_files(&[
        "lib/a/a.asd",
        "lib/a/src/a.lisp",
        "lisp/src/code/cold-init.lisp",
        "papers/tax.txt",
    ]);
    symlink(root.join("lib/a/a.asd"), root.join("papers/a.asd")).unwrap();
    let files = ["papers/a.asd", "lisp/src/code/cold-init.lisp"];
    assert_eq!(
        folders(&root, &files, &["lib", "papers", "none"]),
        ["lib/a", "lisp", "lib"].map(|it| root.join(it))
    );
}

#[test]
fn what_is_not_there_or_no_definition_shows_nothing() {
    let (_base, root) = with_files(&["papers/tax.txt", "code/cold-init.lisp", "home/me/x"]);
    fs::create_dir(root.join("papers/folder.asd")).unwrap();
    for file in [
        "papers/tax.txt",
        "papers/gone.asd",
        "papers/folder.asd",
        "code/cold-init.lisp",
    ] {
        assert!(folders(&root, &[file], &["papers"]).is_empty(), "{file}");
    }
}

#[test]
fn a_folder_with_more_than_sources_never_counts() {
    let (_base, root) = with_files(&["home/me/a.asd", "home/b.asd", "home/me/lisp/c/c.asd"]);
    let files = ["home/me/a.asd", "home/b.asd", "home/me/lisp/c/c.asd"];
    assert_eq!(
        folders(&root, &files, &["home/me", "home", "", "home/me/lisp"]),
        ["home/me/lisp/c", "home/me/lisp"].map(|it| root.join(it))
    );
    assert!(source_folders(&["/"], &["/", "/usr", "/usr/share"], None).is_empty());
}
