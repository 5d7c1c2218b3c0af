// SPDX-License-Identifier: GPL-3.0-or-later
//! Which files of src a file names, read from its paths: `crate::…`, `super::…`, `self::…`, and those
//! that start with a module declared in it. Tests don't count. Text is enough for that, no compiler needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The text of the files of src, by their paths there.
pub type Sources = BTreeMap<String, String>;

/// All files below FOLDER that end with `.rs`.
pub fn read(folder: &Path) -> Sources {
    let mut sources = Sources::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source is text");
                let name = path.strip_prefix(folder).expect("it is in there");
                sources.insert(name.to_string_lossy().into_owned(), text);
            }
        }
    }
    sources
}

/// Words and marks of TEXT, without comments, the insides of literals, and what is only for tests.
pub fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest) {
            found.push("\"\"".to_owned());
            length
        } else if first.is_alphanumeric() || first == '_' {
            let word = |it: char| it.is_alphanumeric() || it == '_';
            let length = rest.find(|it| !word(it)).unwrap_or(rest.len());
            found.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            found.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    without_tests(found)
}

/// How long the string or character is that REST starts with, if it starts with one.
fn literal(rest: &str) -> Option<usize> {
    let raw = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'));
    if let Some(raw) = raw {
        let hashes = raw.bytes().take_while(|&it| it == b'#').count();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = rest.len() - raw.len() + hashes + 1;
            let found = rest[start..].find(&end)?;
            return Some(start + found + end.len());
        }
    }
    let quote = rest.chars().next().filter(|&it| it == '"' || it == '\'')?;
    let mut escaped = false;
    for (at, it) in rest.char_indices().skip(1) {
        match it {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if it == quote => return Some(at + 1),
            // A lifetime, such as 'static, or a character that is longer than one.
            _ if quote == '\'' && at > 1 && !rest[1..].starts_with('\\') => return None,
            _ => {}
        }
    }
    None
}

/// TOKENS without the items that stand behind `#[cfg(test)]`.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].iter().take(mark.len()).eq(mark) {
            at = end_of_item(&tokens, at + mark.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

fn end_of_item(tokens: &[String], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token == "}" {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// What one file says about others.
#[derive(Debug, Default)]
struct Said {
    /// The paths that it uses, from the crate's root.
    used: Vec<Vec<String>>,
    /// What names stand for that it brings in or passes on: others may reach things through it.
    names: BTreeMap<String, Vec<String>>,
}

/// The module that the file NAME is: `call/mod.rs` is call, `lib.rs` the root.
fn module(name: &str) -> Vec<String> {
    let path = name.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" => Vec::new(),
        _ => path.split('/').map(str::to_owned).collect(),
    }
}

fn said(module: &[String], tokens: &[String]) -> Said {
    let children: BTreeSet<&str> = tokens
        .windows(3)
        .filter(|it| it[0] == "mod" && it[2] == ";")
        .map(|it| it[1].as_str())
        .collect();
    let mut said = Said::default();
    let (mut at, mut in_use, mut passed_on) = (0, false, false);
    // The modules inside the file that are open, and how many braces were before each.
    let (mut depth, mut inner): (usize, Vec<(usize, String)>) = (0, Vec::new());
    while at < tokens.len() {
        let token = tokens[at].as_str();
        match token {
            "use" => {
                in_use = true;
                passed_on = at > 0 && ["pub", ")"].contains(&tokens[at - 1].as_str());
            }
            ";" => in_use = false,
            "mod" if tokens.get(at + 2).is_some_and(|it| it == "{") => {
                inner.push((depth, tokens[at + 1].clone()));
            }
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                inner.retain(|(before, _)| *before < depth);
            }
            _ => {}
        }
        let before = at.checked_sub(1).map(|it| tokens[it].as_str());
        let starts = tokens.get(at + 1).is_some_and(|it| it == "::")
            && !matches!(before, Some("::" | "."))
            && (["crate", "super", "self"].contains(&token) || children.contains(token));
        if starts {
            let mut leaves = Vec::new();
            at = leaves_of_tree(tokens, at, &[], &mut leaves);
            for (path, name) in leaves {
                let inside = inner.iter().map(|(_, name)| name.clone());
                let here: Vec<String> = module.iter().cloned().chain(inside).collect();
                let path = absolute(&here, path);
                if in_use && inner.is_empty() {
                    said.names.insert(name, path.clone());
                }
                // What is passed on is a shop window; the one who takes it there uses it.
                if !(in_use && passed_on) {
                    said.used.push(path);
                }
            }
        } else {
            at += 1;
        }
    }
    said
}

type Leaf = (Vec<String>, String);

/// Reads the tree of paths at AT, below PREFIX; returns where it ends.
fn leaves_of_tree(
    tokens: &[String],
    mut at: usize,
    prefix: &[String],
    leaves: &mut Vec<Leaf>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        let token = tokens.get(at).map_or("", String::as_str);
        if token == "{" {
            at += 1;
            while tokens.get(at).is_some_and(|it| it != "}") {
                match tokens[at].as_str() {
                    "," => at += 1,
                    _ => at = leaves_of_tree(tokens, at, &path, leaves),
                }
            }
            return at + 1;
        }
        if !token.starts_with(|it: char| it.is_alphanumeric() || it == '_' || it == '*') {
            // Such as the generics of `crate::a::f::<T>`.
            leaves.push((path.clone(), path.last().cloned().unwrap_or_default()));
            return at.max(1);
        }
        if token != "self" || path.is_empty() {
            path.push(token.to_owned());
        }
        at += 1;
        if tokens.get(at).is_some_and(|it| it == "::") {
            at += 1;
            continue;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if tokens.get(at).is_some_and(|it| it == "as") {
            name = tokens.get(at + 1).cloned().unwrap_or_default();
            at += 2;
        }
        leaves.push((path, name));
        return at;
    }
}

/// PATH, written in MODULE, from the crate's root.
fn absolute(module: &[String], path: Vec<String>) -> Vec<String> {
    let mut base = module.to_vec();
    let mut rest = path.as_slice();
    match rest.first().map(String::as_str) {
        Some("crate") => {
            base.clear();
            rest = &rest[1..];
        }
        Some("self") => rest = &rest[1..],
        _ => {}
    }
    while rest.first().is_some_and(|it| it == "super") {
        base.pop();
        rest = &rest[1..];
    }
    base.extend(rest.iter().cloned());
    base
}

/// Which files of SOURCES each of them uses.
pub fn uses(sources: &Sources) -> BTreeMap<String, BTreeSet<String>> {
    let modules: BTreeMap<Vec<String>, &String> =
        sources.keys().map(|name| (module(name), name)).collect();
    let said: BTreeMap<&String, Said> = sources
        .iter()
        .map(|(name, text)| (name, said(&module(name), &tokens(text))))
        .collect();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, it) in &said {
        let own = uses.entry((*name).clone()).or_default();
        for path in &it.used {
            let file = file_of(path, &modules, &said, 0);
            if let Some(file) = file.filter(|file| file != name) {
                own.insert(file.clone());
            }
        }
    }
    uses
}

/// The file in which PATH is defined, found through those that pass it on.
fn file_of<'s>(
    path: &[String],
    modules: &BTreeMap<Vec<String>, &'s String>,
    said: &BTreeMap<&String, Said>,
    depth: usize,
) -> Option<&'s String> {
    const DEEPEST: usize = 10;
    let inside = (0..=path.len())
        .rev()
        .find(|&it| modules.contains_key(&path[..it]))?;
    let file = modules[&path[..inside]];
    let Some(next) = path.get(inside) else {
        return Some(file);
    };
    match said[file].names.get(next) {
        Some(target) if depth < DEEPEST && target.as_slice() != path => {
            let mut target = target.clone();
            target.extend(path[inside + 1..].iter().cloned());
            file_of(&target, modules, said, depth + 1).or(Some(file))
        }
        _ => Some(file),
    }
}
/// The names that files of SOURCES give to more than one type, if one of these is offered to other files;
/// each name with the files.
pub fn shared_names(sources: &Sources) -> BTreeMap<String, Vec<String>> {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut offered = BTreeSet::new();
    for (file, text) in sources {
        let tokens = tokens(text);
        for (at, kind) in tokens.iter().enumerate() {
            if !["struct", "enum", "trait"].contains(&kind.as_str()) {
                continue;
            }
            let name = &tokens[at + 1];
            // A macro's, which whoever uses it names.
            if name == "$" {
                continue;
            }
            named.entry(name.clone()).or_default().push(file.clone());
            // `pub struct` and `pub(crate) struct`.
            if at > 0 && ["pub", ")"].contains(&tokens[at - 1].as_str()) {
                offered.insert(name.clone());
            }
        }
    }
    named.retain(|name, files| files.len() > 1 && offered.contains(name));
    named
}
