// SPDX-License-Identifier: GPL-3.0-or-later
//! The systems of a project, read from its .asd files: which files are looked at, and which names
//! are found in them.

use std::path::Path;

use agent_q_core::files::systems::{project_systems, system_names};

use crate::project::Project;

/// The names and files of the systems of a project with FILES.
fn found(files: &[(&str, &str)]) -> Vec<(String, String)> {
    project_systems(&Project::with(files).policy, &|| false)
        .unwrap()
        .into_iter()
        .map(|it| (it.name, it.relative.display().to_string()))
        .collect()
}

#[test]
fn systems_are_found_in_the_root_and_two_folders_below_it() {
    let systems = found(&[
        (
            "bank.asd",
            "(defsystem \"bank\")\n(defsystem \"bank/tests\")",
        ),
        ("lib/coins/coins.asd", "(asdf:defsystem :coins)"),
        ("lib/coins/deep/far.asd", "(defsystem \"far\")"),
        (".gitignore", "vendor/\n"),
        ("vendor/other.asd", "(defsystem \"other\")"),
        (".hidden/secret.asd", "(defsystem \"secret\")"),
        ("bank.lisp", "(defsystem \"not-here\")"),
    ]);
    let expected = [
        ("bank", "bank.asd"),
        ("bank/tests", "bank.asd"),
        ("coins", "lib/coins/coins.asd"),
    ];
    assert_eq!(
        systems,
        expected.map(|(name, file)| (name.to_owned(), file.to_owned()))
    );
}

#[test]
fn names_are_as_asdf_takes_them() {
    let names = |text: &str| system_names(Path::new("/p/own.asd"), text);
    assert_eq!(names("(defsystem \"Mixed\")"), ["Mixed"]);
    assert_eq!(names("(asdf:defsystem #:FOO-Bar)"), ["foo-bar"]);
    assert_eq!(names("(ASDF/DEFSYSTEM::DEFSYSTEM foo\n)"), ["foo"]);
    assert_eq!(names("  (defsystem\n  :two)\n(defsystem :two)"), ["two"]);
    // Comments define nothing, and a macro of the program's may define what can't be seen.
    assert_eq!(names("; (defsystem \"old\")\n(my-system)"), ["own"]);
    assert_eq!(names(";; about\n(defsystem-connection a)"), ["own"]);
}
