// SPDX-License-Identifier: GPL-3.0-or-later
//! Listing, globbing and searching a project's files: what is found, what is left out, in which
//! order, and how much of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_q_core::files::Trouble;
use agent_q_core::files::grep::{Case, FoundLines, Grep, Role, count_files, grep};
use agent_q_core::files::listing::{
    EntryKind, Possible, SortBy, TreeOptions, directory_tree, file_info, list_directory, utc,
};
use agent_q_core::files::patterns::FileGlob;
use agent_q_core::files::search::{FileSearch, Hidden, search_files};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::project::Project;

fn places(found: &FoundLines) -> Vec<String> {
    let of_file = |file: &agent_q_core::files::grep::FoundIn| {
        let path = file.path.display().to_string();
        let places = file.lines.iter().map(move |line| {
            let sign = if line.role == Role::Match { ':' } else { '-' };
            format!("{path}{sign}{}", line.number)
        });
        places.collect::<Vec<_>>()
    };
    found.files.iter().flat_map(of_file).collect()
}

#[test]
fn globs_follow_paths() {
    let table: &[(&str, &str, bool)] = &[
        ("*.lisp", "test.lisp", true),
        ("*.lisp", "src/a.lisp", true),
        ("*.lisp", "test.el", false),
        ("*.lisp", "test.lisp.bak", false),
        ("/*.lisp", "test.lisp", true),
        ("/*.lisp", "src/a.lisp", false),
        ("./src/*.lisp", "src/a.lisp", true),
        ("**/*.lisp", "src/a/b.lisp", true),
        ("**/*.lisp", "test.lisp", true),
        ("**/*.lisp", "src/test.el", false),
        ("test-*", "test-a", true),
        ("test-*", "src/test-a", true),
        ("file?.txt", "fileX.txt", true),
        ("file?.txt", "file*.txt", true),
        ("file?.txt", "fileXY.txt", false),
        ("file?.txt", "file.txt", false),
        ("src/*.lisp", "src/a.lisp", true),
        ("src/*.lisp", "src/a/b.lisp", false),
        ("src/*.lisp", "lib/src/a.lisp", false),
        ("**/src/*.lisp", "src/a.lisp", true),
        ("**/src/*.lisp", "lib/src/a.lisp", true),
        ("**/src/*.lisp", "lib/src/a/b.lisp", false),
        ("src/**/*.go", "src/a.go", true),
        ("src/**/*.go", "src/a/b/c.go", true),
        ("src/**/*.go", "lib/src/a.go", false),
        ("src/**", "src/a/b", true),
        ("a*b", "axxb", true),
        ("a*b", "a/b", false),
        ("*.{lisp,asd}", "x.asd", true),
        ("[ab].lisp", "b.lisp", true),
        (".git", ".github", false),
        (".git", ".git", true),
    ];
    for (pattern, path, expected) in table {
        let glob = FileGlob::new(pattern).unwrap();
        assert_eq!(glob.matches(Path::new(path)), *expected, "{pattern} {path}");
    }
    for bad in ["", "/", "src/[a", "../*.lisp", "{a"] {
        let error = FileGlob::new(bad).unwrap_err();
        assert_eq!(error.trouble, Trouble::BadRequest);
        assert!(error.message.starts_with("The glob '"), "{error}");
    }
}

#[test]
fn search_leaves_out_hidden_ignored_and_private_files() {
    let project = Project::of_sources();
    let seen = [
        "lib/src/d.lisp",
        "src/a.lisp",
        "src/ab.lisp",
        "src/b.lisp",
        "src/deep/c.lisp",
        "test.lisp",
    ];
    assert_eq!(project.names("*.lisp"), seen);
    assert_eq!(project.names("src/?.lisp"), ["src/a.lisp", "src/b.lisp"]);
    assert!(project.names("*.pem").is_empty());
    let mut all = FileSearch::new("*");
    all.hidden = Hidden::Show;
    let found = project.find(&all).unwrap();
    let names: Vec<String> = found
        .paths
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    assert!(names.contains(&".hidden.lisp".to_owned()) && names.contains(&".gitignore".to_owned()));
    assert!(
        !names
            .iter()
            .any(|it| it.contains(".git/") || it.contains("env") || it.contains("pem"))
    );
    assert_eq!(found.private, 2);
    all.excludes = vec![
        "*.lisp".into(),
        "lib".into(),
        "src/**".into(),
        "*.el".into(),
    ];
    let found = project.find(&all).unwrap();
    assert_eq!(found.paths, [Path::new(".gitignore")]);
}

#[test]
fn search_counts_what_it_does_not_name_and_keeps_the_first() {
    let project = Project::of_sources();
    let mut search = FileSearch::new("*.lisp");
    search.limit = 2;
    let found = project.find(&search).unwrap();
    assert_eq!(
        found.paths,
        [Path::new("lib/src/d.lisp"), Path::new("src/a.lisp")]
    );
    assert_eq!(found.more, 4);
    assert!(
        found
            .text()
            .starts_with("Found 6 files matching '*.lisp':\n\n  lib/src/d.lisp\n")
    );
    assert!(
        found
            .text()
            .contains("… 4 more files; use a narrower pattern")
    );
    let none = project.find(&FileSearch::new("*.rs")).unwrap();
    assert!(
        none.text()
            .starts_with("No files found matching pattern '*.rs'.")
    );
}

#[test]
fn searching_a_folder_names_files_from_the_project() {
    let project = Project::of_sources();
    let folder = project.policy.judge("src").resolved().unwrap();
    let found = search_files(
        &project.policy,
        &folder,
        &FileSearch::new("deep/*"),
        &|| false,
    )
    .unwrap();
    assert_eq!(found.paths, [Path::new("src/deep/c.lisp")]);
    let file = project.policy.judge("test.el").resolved().unwrap();
    let error = search_files(&project.policy, &file, &FileSearch::new("*"), &|| false).unwrap_err();
    assert_eq!(error.message, "'test.el' is a file, not a directory.");
}

#[test]
fn a_search_says_how_far_it_is() {
    let project = Project::of_sources();
    fs::create_dir(project.path("many")).unwrap();
    for number in 0..1_200 {
        fs::write(project.path(&format!("many/{number}.lisp")), "").unwrap();
    }
    let folder = project.policy.judge("many").resolved().unwrap();
    let search = Grep::new("top");
    assert_eq!(search.progress.text(), "0 files");
    count_files(&project.policy, &folder, &search, &|| true).unwrap();
    assert_eq!(search.progress.text(), "0 files");
    count_files(&project.policy, &folder, &search, &|| false).unwrap();
    assert_eq!(search.progress.text(), "0 of 1,200 files");
    grep(&project.policy, &folder, &search, &|| false).unwrap();
    assert_eq!(search.progress.text(), "1,200 of 1,200 files");
}

#[test]
fn links_are_not_followed() {
    let project = Project::of_sources();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("o.lisp"), "(top)\n").unwrap();
    symlink(outside.path(), project.path("out")).unwrap();
    symlink(outside.path().join("o.lisp"), project.path("o.lisp")).unwrap();
    assert!(project.names("*o.lisp").is_empty());
    let found = project.grep(&Grep::new("top")).unwrap();
    assert!(places(&found).iter().all(|place| !place.starts_with('o')));
    let root = project.policy.judge("").resolved().unwrap();
    let tree = directory_tree(&project.policy, &root, &TreeOptions::default(), &|| false).unwrap();
    for (name, target) in [("out", ""), ("o.lisp", "o.lisp")] {
        let target = outside.path().join(target);
        let target = target.to_string_lossy();
        let line = format!("\n[LINK] {name} -> {}\n", target.trim_end_matches('/'));
        assert!(tree.contains(&line), "{tree}");
    }
}

#[test]
fn grep_finds_lines_in_the_order_of_paths() {
    let project = Project::of_sources();
    let found = project.grep(&Grep::new(r"\btop\b")).unwrap();
    let expected = [
        "src/a.lisp:2",
        "src/ab.lisp:1",
        "src/deep/c.lisp:1",
        "test.el:1",
        "test.lisp:1",
    ];
    assert_eq!(places(&found), expected);
    assert_eq!(
        (found.matches, found.matching_files, found.private),
        (5, 5, 1)
    );
    let mut search = Grep::new("top");
    search.case = Case::Sensitive;
    search.glob = Some("src/**".into());
    assert_eq!(
        places(&project.grep(&search).unwrap()),
        ["src/a.lisp:2", "src/deep/c.lisp:1"]
    );
    let capital = Grep::new("TOP");
    assert_eq!(places(&project.grep(&capital).unwrap()), ["src/ab.lisp:1"]);
    search.case = Case::Insensitive;
    search.pattern = "Top".into();
    assert_eq!(project.grep(&search).unwrap().matches, 3);
    assert_eq!(
        places(&project.grep_in("src/a.lisp", &Grep::new("defun")).unwrap()),
        ["src/a.lisp:1"]
    );
    assert!(
        project
            .grep(&Grep::new("absent"))
            .unwrap()
            .text()
            .starts_with("No matches for 'absent'.")
    );
}

#[test]
fn grep_shows_lines_around_a_match() {
    let project = Project::with(&[("f", "1\n2\nhit\n4\n5\n6\n7\nhit\n9\n")]);
    let mut search = Grep::new("hit");
    search.context = 1;
    let found = project.grep(&search).unwrap();
    assert_eq!(places(&found), ["f-2", "f:3", "f-4", "f-7", "f:8", "f-9"]);
    assert!(
        found.text().contains("f-4-4\n--\nf-7-7\nf:8:hit\n"),
        "{}",
        found.text()
    );
    search.limit = 1;
    let found = project.grep(&search).unwrap();
    assert_eq!((found.shown, found.matches), (1, 2));
    assert!(
        found
            .text()
            .contains("… 1 match more; use a narrower pattern"),
        "{}",
        found.text()
    );
}

#[test]
fn grep_passes_over_binary_files_and_shortens_long_lines() {
    let long = format!("hit {}\n", "λ".repeat(400));
    let project = Project::with(&[
        ("binary", "hit\n\0\0\n"),
        ("long", &long),
        ("crlf", "hit\r\n"),
    ]);
    let found = project.grep(&Grep::new("hit")).unwrap();
    assert_eq!(places(&found), ["crlf:1", "long:1"]);
    assert_eq!(found.files[0].lines[0].text, "hit");
    assert!(
        found.files[1].lines[0]
            .text
            .ends_with(" [… 504 more bytes]")
    );
}

#[test]
fn a_bad_regex_has_one_sentence() {
    let project = Project::of_sources();
    for bad in ["(", "[a", "a{2", "*x", "", "\\"] {
        let error = project.grep(&Grep::new(bad)).unwrap_err();
        assert_eq!(error.trouble, Trouble::BadRequest);
        assert!(
            !error.message.contains('\n') && error.message.ends_with('.'),
            "{error}"
        );
    }
}

#[test]
fn a_search_that_is_cancelled_says_so() {
    let files: Vec<(String, String)> = (0..200)
        .map(|n| (format!("d{}/f{n}", n % 7), "text\n".repeat(50)))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let project = Project::with(&files);
    let root = project.policy.judge("").resolved().unwrap();
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) >= 20;
    let error = grep(&project.policy, &root, &Grep::new("text"), &stop).unwrap_err();
    assert_eq!(error.trouble, Trouble::Cancelled);
    // Each thread asks once more before it ends, not for each of the 200 files.
    assert!(asked.load(Ordering::Relaxed) < 100);
    let error = search_files(&project.policy, &root, &FileSearch::new("*"), &|| true).unwrap_err();
    assert_eq!(error.trouble, Trouble::Cancelled);
}

#[test]
fn folders_are_listed() {
    let project = Project::of_sources();
    fs::write(project.path("src/big"), "x".repeat(2048)).unwrap();
    symlink("a.lisp", project.path("src/link")).unwrap();
    let folder = project.policy.judge("src").resolved().unwrap();
    let listing = list_directory(&folder, Hidden::LeaveOut, SortBy::Size).unwrap();
    assert_eq!((listing.files, listing.folders), (6, 1));
    let big = listing
        .entries
        .iter()
        .find(|it| it.kind == EntryKind::File)
        .unwrap();
    assert_eq!((big.name.as_str(), big.size), ("big", 2048));
    let text = listing.text();
    assert!(text.contains("Total: 6 files, 1 directory\n"), "{text}");
    assert!(
        text.contains("[DIR]  deep\n") && text.contains("[LINK] link -> a.lisp\n"),
        "{text}"
    );
    assert!(text.contains("(2.0 KB)\n"), "{text}");
    let root = project.policy.judge("").resolved().unwrap();
    assert_eq!(
        list_directory(&root, Hidden::LeaveOut, SortBy::Name)
            .unwrap()
            .hidden,
        4
    );
    let all = list_directory(&root, Hidden::Show, SortBy::Name).unwrap();
    assert_eq!(all.entries[0].name, ".env");
    let file = project.policy.judge("test.el").resolved().unwrap();
    let error = list_directory(&file, Hidden::Show, SortBy::Name).unwrap_err();
    assert_eq!(error.message, "'test.el' is a file, not a directory.");
    let missing = project.policy.judge("srcs").resolved().unwrap();
    let error = list_directory(&missing, Hidden::Show, SortBy::Name).unwrap_err();
    assert_eq!(
        error.message,
        "File not found: 'srcs' does not exist. Near names: src."
    );
}

#[test]
fn a_tree_leaves_out_what_is_far_from_the_top() {
    let project = Project::of_sources();
    let root = project.policy.judge("").resolved().unwrap();
    let tree = |options: &TreeOptions| {
        let text = directory_tree(&project.policy, &root, options, &|| false).unwrap();
        text.split_once("\n\n").unwrap().1.to_owned()
    };
    let whole = tree(&TreeOptions::default());
    assert!(
        whole.starts_with(
            "[DIR] lib\n  [DIR] src\n    [FILE] d.lisp (2 B)\n[DIR] src\n  [FILE] a.lisp (21 B)\n"
        ),
        "{whole}"
    );
    assert!(whole.contains("1 private file left out"), "{whole}");
    let options = TreeOptions {
        limit: 5,
        ..TreeOptions::default()
    };
    let few = tree(&options);
    assert!(few.starts_with(
        "[DIR] lib\n  [DIR] src\n    … 1 more entry\n[DIR] src\n  … 5 more entries\n[FILE] test.el (4 B)\n"
    ), "{few}");
    let options = TreeOptions {
        excludes: vec!["src".into(), "*.el".into()],
        depth: 1,
        hidden: Hidden::Show,
        ..TreeOptions::default()
    };
    let some = directory_tree(&project.policy, &root, &options, &|| false).unwrap();
    assert!(some.contains("Excluding: src, *.el\n"), "{some}");
    assert!(
        some.contains("[FILE] .gitignore (13 B)\n") && some.contains("[DIR] lib\n"),
        "{some}"
    );
    assert!(!some.contains("src\n  ") && !some.contains("test.el") && !some.contains(".git\n"));
}

#[test]
fn a_file_is_described() {
    let project = Project::of_sources();
    let file = project.policy.judge("src/a.lisp").resolved().unwrap();
    let info = file_info(&file).unwrap();
    assert_eq!(
        (info.kind.clone(), info.size, info.readable),
        (EntryKind::File, 21, Possible::Yes)
    );
    assert!(
        info.text().contains("Type: FILE\nSize: 21 B\nModified: 2"),
        "{}",
        info.text()
    );
    let missing = project.policy.judge("src/z.lisp").resolved().unwrap();
    assert!(
        file_info(&missing)
            .unwrap_err()
            .message
            .starts_with("File not found: ")
    );
    assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
    assert_eq!(utc(951_827_696), "2000-02-29 12:34:56 UTC");
    assert_eq!(utc(-1), "1969-12-31 23:59:59 UTC");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever the limit, what is shown is the beginning of all there is, and the counts agree.
    #[test]
    fn limits_only_shorten(hits in prop::collection::vec(0usize..5, 1..30), limit in 1usize..40) {
        let files: Vec<(String, String)> = hits
            .iter()
            .enumerate()
            .map(|(n, hits)| (format!("d{}/f{n}", n % 4), "hit\nno\n".repeat(*hits)))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let project = Project::with(&files);
        let all = project.grep(&Grep { limit: 10_000, ..Grep::new("hit") }).unwrap();
        let some = project.grep(&Grep { limit, ..Grep::new("hit") }).unwrap();
        let total: usize = hits.iter().sum();
        prop_assert_eq!(all.matches, total as u64);
        prop_assert_eq!((some.matches, some.matching_files), (all.matches, all.matching_files));
        prop_assert_eq!(some.shown, total.min(limit) as u64);
        prop_assert_eq!(&places(&some)[..], &places(&all)[..total.min(limit)]);
    }
}
