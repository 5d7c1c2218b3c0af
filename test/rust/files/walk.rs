// SPDX-License-Identifier: GPL-3.0-or-later
//! Walking a project's files: what ignore files leave out, what is never waited for, and that
//! nothing gets lost among the threads.

use std::fs;
use std::path::Path;

use agent_q_core::files::grep::{Grep, grep};
use agent_q_core::files::listing::{TreeOptions, directory_tree};
use agent_q_core::files::path::PathPolicy;
use agent_q_core::files::search::{FileSearch, search_files};

use crate::project::Project;

fn pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn pipes_are_never_waited_for() {
    let project = Project::of_sources();
    for name in [
        ".ignore",
        "src/.gitignore",
        "src/.ignore",
        "src/deep/.git/info/exclude",
        "lib/.git",
        "src/pipe.lisp",
    ] {
        pipe(&project.path(name));
    }
    let inner = PathPolicy::new(&project.path("src"), None).unwrap();
    fs::remove_file(project.path(".gitignore")).unwrap();
    pipe(&project.path(".gitignore"));
    for policy in [&project.policy, &inner] {
        let root = policy.judge("").resolved().unwrap();
        let never = || false;
        let found = grep(policy, &root, &Grep::new("top"), &never).unwrap();
        assert!(found.matches >= 3);
        assert_eq!(found.unreadable, 0);
        let names = search_files(policy, &root, &FileSearch::new("*"), &never).unwrap();
        assert!(!names.paths.iter().any(|it| it.ends_with("pipe.lisp")));
        let tree = directory_tree(policy, &root, &TreeOptions::default(), &never).unwrap();
        assert!(tree.contains("[SPECIAL] pipe.lisp\n"), "{tree}");
    }
}

#[test]
fn ignore_files_decide_as_in_git() {
    let project = Project::with(&[
        ("a.log", ""),
        ("keep.log", ""),
        ("sub/a.log", ""),
        ("sub/keep.log", ""),
        ("sub/own.txt", ""),
        ("sub/inner/own.txt", ""),
        ("sub/dot/.shown", ""),
        ("only/folder/x.txt", ""),
        ("private.txt", ""),
        (".gitignore", "*.log\n!keep.log\n/only/folder/\n"),
        ("sub/.gitignore", "!a.log\nown.txt\n"),
        ("sub/inner/.ignore", "!own.txt\n"),
        ("sub/dot/.gitignore", "!.shown\n"),
        (".git/info/exclude", "private.txt\n"),
    ]);
    let shown = [
        "keep.log",
        "sub/a.log",
        "sub/dot/.shown",
        "sub/inner/own.txt",
        "sub/keep.log",
    ];
    assert_eq!(project.names("*"), shown);
    let inner = PathPolicy::new(&project.path("sub"), None).unwrap();
    let root = inner.judge("").resolved().unwrap();
    let found = search_files(&inner, &root, &FileSearch::new("*"), &|| false).unwrap();
    let below: Vec<_> = shown
        .iter()
        .filter_map(|it| it.strip_prefix("sub/"))
        .map(std::path::PathBuf::from)
        .collect();
    assert_eq!(found.paths, below);
}

#[test]
fn a_folder_with_many_files_is_shared_out() {
    let names: Vec<String> = (0..500).map(|it| format!("many/f{it:03}.txt")).collect();
    let files: Vec<_> = names.iter().map(|it| (it.as_str(), "here\n")).collect();
    let project = Project::with(&files);
    let found = project.grep(&Grep::new("here")).unwrap();
    assert_eq!((found.matches, found.matching_files), (500, 500));
    assert!(found.files[99].path.ends_with("many/f099.txt"));
    let all = project.find(&FileSearch {
        limit: 1000,
        ..FileSearch::new("*")
    });
    assert_eq!(all.unwrap().paths.len(), 500);
}
