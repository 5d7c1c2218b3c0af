// SPDX-License-Identifier: GPL-3.0-or-later
//! A graph of files: its circles, and its arrows that lead up. Knows nothing of Rust.

use std::collections::{BTreeMap, BTreeSet};

/// Which files each file uses.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// The largest sets of files of GRAPH each of which leads to all others of its set.
pub fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = graph
        .keys()
        .map(|file| (file, reachable(graph, file)))
        .collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (file, others) in &reached {
        if !others.contains(file) || circles.iter().any(|it| it.contains(*file)) {
            continue;
        }
        let back = |other: &&&String| reached.get(**other).is_some_and(|it| it.contains(file));
        circles.push(others.iter().filter(back).map(|it| (*it).clone()).collect());
    }
    circles
}

fn reachable<'g>(graph: &'g Graph, start: &String) -> BTreeSet<&'g String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = graph.get(start).into_iter().flatten().collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(graph.get(file).into_iter().flatten());
        }
    }
    reached
}

/// The room that FILE is in: its folder in src, or its own name there.
pub fn room(file: &str) -> &str {
    let end = file.find('/').or_else(|| file.rfind('.'));
    &file[..end.unwrap_or(file.len())]
}

/// The arrows of GRAPH from a room of ROOMS, lowest first, to one above it.
pub fn upward(graph: &Graph, rooms: &[&str]) -> Vec<String> {
    let floor = |file: &str| rooms.iter().position(|it| *it == room(file));
    let mut found = Vec::new();
    for (file, used) in graph {
        for other in used {
            if floor(file) < floor(other) {
                found.push(format!("{file} uses {other}"));
            }
        }
    }
    found
}
