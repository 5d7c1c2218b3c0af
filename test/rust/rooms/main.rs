// SPDX-License-Identifier: GPL-3.0-or-later
//! The map of src, and what keeps it true: files don't use each other in circles, rooms use only rooms
//! below them, and a name is one thing.

mod graph;
mod paths;

use std::collections::BTreeSet;
use std::path::Path;

use graph::{Graph, circles, room, upward};
use paths::{Sources, read, shared_names, uses};

/// The rooms of src, the lowest first. A room may use those that stand before it here.
const ROOMS: &[(&str, &str)] = &[
    ("visible", "Which characters hide what a text says"),
    (
        "markdown",
        "How the text of an answer looks, while it is being written",
    ),
    ("exact", "Integers that JSON readers would change"),
    ("log", "The log file"),
    (
        "runtime",
        "The core's threads, and tasks that go on on Emacs's",
    ),
    ("json_schema", "JSON Schema: compiled, and checked against"),
    (
        "image",
        "Forms and replies as the Common Lisp half writes them",
    ),
    (
        "gram",
        "Gram notation, and the tool specifications written in it",
    ),
    ("files", "The user's files: judged, read, searched, written"),
    ("diff", "Differences of texts, and edits of them"),
    ("trust", "Safety levels, provenance, the fence"),
    (
        "effect",
        "What code in the image is about to do outside of it",
    ),
    ("protocol", "What passes between Emacs and the core"),
    ("event_queue", "The events that wait for Emacs"),
    ("audit", "The log of what was changed"),
    ("provider", "Model servers: requests, streams, failures"),
    (
        "workspace",
        "What a chat knows of the user's files and changed in them",
    ),
    ("chats", "Stored chats: written, read, searched"),
    ("rules", "The user's rules about calls"),
    ("tool", "What a tool is"),
    ("builtin", "The tools that agent-q brings"),
    (
        "servers",
        "Tools of others: MCP servers, their lives and tools",
    ),
    ("call", "The way of a call to its one result"),
    ("session", "A chat: its history, settings and turns"),
    ("engine", "What one Emacs runs"),
    ("mcp", "The server for other agents"),
    ("bridge", "Emacs itself; the only room with unsafe code"),
    ("lib", "The table of entry points"),
];

/// Circles that are meant, with the reason.
const CIRCLES: &[(&[&str], &str)] = &[(
    &[
        "tool/mod.rs",
        "tool/code.rs",
        "tool/offer.rs",
        "tool/registry.rs",
        "tool/work.rs",
    ],
    "A tool has its work in it, and the work of some may look at the tools that there are.",
)];

/// Names that stand for several types and are meant to, with the reason.
const SHARED_NAMES: &[(&str, &str)] = &[];

fn sources() -> Sources {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

fn names() -> Vec<&'static str> {
    ROOMS.iter().map(|(name, _)| *name).collect()
}

/// The circles of GRAPH that nobody MEANT.
fn unmeant(graph: &Graph, meant: &[(&[&str], &str)]) -> Vec<BTreeSet<String>> {
    let mut found = circles(graph);
    found.retain(|circle| {
        !meant
            .iter()
            .any(|(files, _)| circle.iter().all(|it| files.contains(&it.as_str())))
    });
    found
}

/// The arrows that make CIRCLE one.
fn arrows_within(graph: &Graph, circle: &BTreeSet<String>) -> Vec<String> {
    let mut arrows = Vec::new();
    for file in circle {
        for other in graph[file].intersection(circle) {
            arrows.push(format!("{file} uses {other}"));
        }
    }
    arrows
}

#[test]
fn every_room_is_on_the_map() {
    let sources = sources();
    let there: BTreeSet<&str> = sources.keys().map(|file| room(file)).collect();
    assert_eq!(there, names().into_iter().collect());
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    let graph = uses(&sources());
    let found: Vec<Vec<String>> = unmeant(&graph, CIRCLES)
        .iter()
        .map(|circle| arrows_within(&graph, circle))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn rooms_use_only_rooms_below_them() {
    let found = upward(&uses(&sources()), &names());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_name_is_one_type() {
    let mut found = shared_names(&sources());
    found.retain(|name, _| !SHARED_NAMES.iter().any(|(meant, _)| meant == name));
    assert!(found.is_empty(), "{found:#?}");
}

/// A house that was made up: what its files say.
fn made_up(files: &[(&str, &str)]) -> Sources {
    files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|it| (*it).to_owned()).collect()
}

#[test]
fn a_circle_is_found_however_the_paths_are_written() {
    let house = made_up(&[
        ("lib.rs", "mod low; mod high;"),
        ("low/mod.rs", "mod deep; pub use deep::Deep;"),
        (
            "low/deep.rs",
            "pub struct Deep; fn f() { crate::high::g('\"', \"crate::lib\") }",
        ),
        (
            "high.rs",
            "use super::low::{self, Deep as D}; // crate::lib::x",
        ),
        ("alone.rs", "#[cfg(test)] mod tests { use crate::high::g; }"),
    ]);
    let graph = uses(&house);
    assert_eq!(graph["high.rs"], set(&["low/mod.rs", "low/deep.rs"]));
    assert_eq!(graph["alone.rs"], set(&[]));
    let circle = set(&["high.rs", "low/deep.rs"]);
    assert_eq!(circles(&graph), std::slice::from_ref(&circle));
    assert_eq!(unmeant(&graph, &[]), [circle]);
    assert!(unmeant(&graph, &[(&["high.rs", "low/deep.rs", "x.rs"], "")]).is_empty());
    assert_eq!(unmeant(&graph, &[(&["high.rs"], "")]).len(), 1);
}

#[test]
fn an_arrow_that_leads_up_is_found() {
    let house = made_up(&[
        ("low/mod.rs", "fn f() { crate::high::g() }"),
        ("high.rs", "use crate::low::f;"),
    ]);
    assert_eq!(
        upward(&uses(&house), &["low", "high"]),
        ["low/mod.rs uses high.rs"]
    );
}

#[test]
fn a_name_of_two_types_is_found_unless_both_are_kept_to_themselves() {
    let house = made_up(&[
        (
            "one.rs",
            "pub(crate) struct Place<'p>(&'p str); struct Inner; pub enum Kind { A }",
        ),
        (
            "two.rs",
            "enum Place { Here } struct Inner; // pub struct Kind;",
        ),
    ]);
    let found: Vec<String> = shared_names(&house).into_keys().collect();
    assert_eq!(found, ["Place"]);
}
