// SPDX-License-Identifier: GPL-3.0-or-later
//! Repairs of parentheses, measured: definitions of the installed libraries are broken in ten ways, and what a
//! repair makes of them is read and compared with what they were. None may come out wrong.
//! `AGENT_Q_PARENS=400 cargo test --release --test builtin nesting -- --nocapture` shows the table for 400.

use std::fs;
use std::path::{Path, PathBuf};

use agent_q_core::builtin::files::nesting::{Repair, apply, repair};

const LIBRARIES: &str = "/usr/share/common-lisp/source";

const WAYS: [&str; 10] = [
    "closing lost at the end",
    "closing lost in the middle",
    "one too many at the end",
    "one too many in the middle",
    "two lost",
    "moved past the next form",
    "moved before the last form",
    "opening lost",
    "quote lost",
    "next definition swallowed",
];

/// A part of a text: a parenthesis, a quote sign, a string, or an atom, by its first character.
#[derive(Debug, Clone, Copy)]
struct Part {
    kind: char,
    start: usize,
    end: usize,
}

/// A reader that knows only what the libraries need, and nothing of the one that is tested.
fn parts(text: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, character)) = rest.next() {
        let next = rest.peek().map(|it| it.1);
        let kind = match character {
            _ if character.is_whitespace() => continue,
            ';' => {
                while rest.next_if(|it| it.1 != '\n').is_some() {}
                continue;
            }
            '#' if next == Some('|') => {
                let (mut depth, mut before) = (1, ' ');
                rest.next();
                while depth > 0 {
                    let (_, now) = rest.next()?;
                    match (before, now) {
                        ('|', '#') => depth -= 1,
                        ('#', '|') => depth += 1,
                        _ => {
                            before = now;
                            continue;
                        }
                    }
                    before = ' ';
                }
                continue;
            }
            '(' | ')' => character,
            '\'' | '`' => '\'',
            ',' => {
                rest.next_if(|it| matches!(it.1, '@' | '.'));
                '\''
            }
            '#' if matches!(next, Some('\'' | '(' | '"')) => '\'',
            '"' => {
                loop {
                    match rest.next()?.1 {
                        '\\' => rest.next().map(drop)?,
                        '"' => break,
                        _ => {}
                    }
                }
                '"'
            }
            _ => {
                let mut now = character;
                if character == '#' && next == Some('\\') {
                    rest.next();
                    rest.next();
                } else if character == '#' && matches!(next, Some('+' | '-')) {
                    rest.next();
                    parts.push(Part {
                        kind: 'a',
                        start,
                        end: start + 2,
                    });
                    continue;
                }
                loop {
                    match now {
                        '\\' => rest.next().map(drop)?,
                        '|' => while rest.next()?.1 != '|' {},
                        _ => {}
                    }
                    let ends = |it: char| it.is_whitespace() || "()\"';`,".contains(it);
                    match rest.next_if(|it| !ends(it.1)) {
                        Some((_, it)) => now = it,
                        None => break,
                    }
                }
                'a'
            }
        };
        let end = rest.peek().map_or(text.len(), |it| it.0);
        parts.push(Part { kind, start, end });
    }
    Some(parts)
}

/// TEXT as it is read, if it can be.
fn read(text: &str) -> Option<Vec<String>> {
    let parts = parts(text)?;
    let mut depth = 0;
    for part in &parts {
        match part.kind {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return None;
        }
    }
    let texts = parts.iter().map(|it| text[it.start..it.end].to_owned());
    (depth == 0).then(|| texts.collect())
}

/// The part with which the form of PARTS ends that starts at START.
fn end_of(parts: &[Part], start: usize) -> usize {
    let mut at = start;
    while parts[at].kind == '\'' {
        at += 1;
    }
    let mut depth = 0;
    loop {
        match parts[at].kind {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
        at += 1;
    }
}

/// Numbers by chance, always the same ones.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len())])
    }
}

/// A definition, and the text around it.
struct Sample {
    before: String,
    definition: String,
    next: String,
    after: String,
}

impl Sample {
    /// The text with the definition broken in the way with the number WAY, if that can be.
    fn broken(&self, way: usize, chance: &mut Chance) -> Option<String> {
        let both = format!("{}{}", self.definition, self.next);
        let parts = parts(&self.definition)?;
        let of_kind = |kind: char| -> Vec<usize> {
            let all = 0..parts.len();
            all.filter(|at| parts[*at].kind == kind).collect()
        };
        let closes = of_kind(')');
        let tail = parts.iter().rposition(|it| it.kind != ')')? + 1;
        let inner: Vec<usize> = closes.iter().copied().filter(|at| *at < tail).collect();
        let without = |places: &[usize]| {
            let mut text = both.clone();
            let mut places = places.to_vec();
            places.sort_unstable();
            for place in places.into_iter().rev() {
                text.remove(place);
            }
            text
        };
        let with = |place: usize| {
            let mut text = both.clone();
            text.insert(place, ')');
            text
        };
        let last = *parts.last()?;
        let made = match way {
            0 => without(&[last.start]),
            1 => without(&[parts[chance.one_of(&inner)?].start]),
            2 => with(last.end),
            3 => with(parts[1 + chance.below(tail.checked_sub(2)?.max(1))].end),
            4 => {
                let first = chance.one_of(&closes)?;
                let others: Vec<usize> = closes.into_iter().filter(|it| *it != first).collect();
                without(&[parts[first].start, parts[chance.one_of(&others)?].start])
            }
            5 => {
                let movable = closes
                    .into_iter()
                    .filter(|at| parts.get(at + 1).is_some_and(|it| it.kind != ')'));
                let close = chance.one_of(&movable.collect::<Vec<_>>())?;
                let mut text = with(parts[end_of(&parts, close + 1)].end);
                text.remove(parts[close].start);
                text
            }
            6 => {
                let open = chance.one_of(&of_kind('('))?;
                let close = end_of(&parts, open);
                let (mut at, mut starts) = (open + 1, Vec::new());
                while at < close {
                    starts.push(at);
                    at = end_of(&parts, at) + 1;
                }
                let [_, .., form] = starts[..] else {
                    return None;
                };
                let mut text = both.clone();
                text.remove(parts[close].start);
                text.insert(parts[form - 1].end, ')');
                text
            }
            7 => without(&[parts[chance.one_of(&of_kind('('))?].start]),
            8 => {
                let string = parts[chance.one_of(&of_kind('"'))?];
                without(&[[string.start, string.end - 1][chance.below(2)]])
            }
            _ => {
                if self.next.trim().is_empty() {
                    return None;
                }
                let mut text = with(both.trim_end().len());
                text.remove(last.start);
                text
            }
        };
        Some(format!("{}{made}{}", self.before, self.after))
    }

    fn whole(&self) -> String {
        [&*self.before, &self.definition, &self.next, &self.after].concat()
    }
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|it| it.path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => files_below(&path, files),
            false if path.extension().is_some_and(|it| it == "lisp") => files.push(path),
            false => {}
        }
    }
}

/// How much text is left around a definition, so that a test is quick.
const AROUND: usize = 3_000;

/// The definitions of TEXT that start in the first column.
fn samples(text: &str) -> Vec<Sample> {
    let Some(parts) = read(text).and_then(|_| parts(text)) else {
        return Vec::new();
    };
    let mut forms = Vec::new();
    let mut at = 0;
    while at < parts.len() {
        let end = end_of(&parts, at);
        forms.push((parts[at].start, parts[end].end));
        at = end + 1;
    }
    let from = |place: usize| {
        let near = forms.iter().find(|it| it.0 + AROUND >= place);
        near.map_or(0, |it| it.0.min(place))
    };
    let to = |place: usize| {
        let near = forms.iter().rfind(|it| it.1 <= place + AROUND);
        near.map_or(text.len(), |it| it.1.max(place))
    };
    let mut samples = Vec::new();
    for (index, (start, end)) in forms.iter().copied().enumerate() {
        let leads = start == 0 || text[..start].ends_with('\n');
        if !leads || !text[start..].starts_with("(def") {
            continue;
        }
        let next = forms.get(index + 1).map_or(end, |it| it.1);
        samples.push(Sample {
            before: text[from(start)..start].to_owned(),
            definition: text[start..end].to_owned(),
            next: text[end..next].to_owned(),
            after: text[next..to(next)].to_owned(),
        });
    }
    samples
}

#[test]
fn no_repair_of_definitions_from_installed_libraries_is_wrong() {
    let mut files = Vec::new();
    files_below(Path::new(LIBRARIES), &mut files);
    let texts = files.iter().flat_map(fs::read_to_string);
    let mut samples: Vec<Sample> = texts.flat_map(|text| samples(&text)).collect();
    let wanted = std::env::var("AGENT_Q_PARENS").ok();
    let wanted = wanted.and_then(|it| it.parse().ok()).unwrap_or(25);
    let mut chance = Chance(36);
    let mut table = [[0; 4]; WAYS.len()];
    let mut wrong = Vec::new();
    for _ in 0..wanted.min(samples.len()) {
        let sample = samples.swap_remove(chance.below(samples.len()));
        let was = read(&sample.whole());
        for (way, counts) in table.iter_mut().enumerate() {
            let Some(text) = sample.broken(way, &mut chance) else {
                continue;
            };
            if read(&text) == was {
                continue;
            }
            counts[match repair(&text, 0..text.len()) {
                Repair::One(edits) if read(&apply(&text, &edits)) == was => 0,
                Repair::Unclear => 1,
                Repair::Nothing => 2,
                Repair::One(edits) => {
                    wrong.push(format!("{}: {edits:?}\n{text}", WAYS[way]));
                    3
                }
            }] += 1;
        }
    }
    println!("{:28} right refused unnoticed wrong", "");
    for (way, counts) in WAYS.iter().zip(table) {
        let [right, refused, unnoticed, wrong] = counts;
        println!("{way:28} {right:5} {refused:7} {unnoticed:9} {wrong:5}");
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// What REPAIR makes of TEXT, if there is one.
fn mended(text: &str) -> Option<String> {
    match repair(text, 0..text.len()) {
        Repair::One(edits) => Some(apply(text, &edits)),
        Repair::Nothing | Repair::Unclear => None,
    }
}

#[test]
fn what_indentation_tells_is_repaired() {
    let good = "(defun f (x)\n  \"A doc.\"\n  (when x\n    (let ((y (car x)))\n      (print y)))\n  (list x))\n";
    for (from, to) in [
        ("(print y)))", "(print y))"),
        ("(print y)))", "(print y)"),
        ("(car x)))", "(car x))"),
        ("\"A doc.\"", "\"A doc."),
        ("(when x", "when x"),
        ("(defun f", "defun f"),
        ("(list x))", "(list x)))"),
        ("(print y)))\n  (list x))", "(print y))\n  (list x)))"),
    ] {
        let broken = good.replacen(from, to, 1);
        assert_eq!(mended(&broken).as_deref(), Some(good), "{broken}");
    }
}

#[test]
fn what_it_does_not_tell_is_left() {
    for text in [
        "(defun f (x y)\n  (foo (bar x y))\n",
        "(defun f (x)\n  #?\"(\" (list x)\n",
        "(progn\n(defun f (x)\n  (list x))\n",
        "(defun f (x)\n(list x)\n",
        "(in-readtable :own)\n\n(defun f (x)\n  (when x\n    (car x)\n  (list x))\n",
    ] {
        assert_eq!(mended(text), None, "{text}");
    }
    // What is right already, or only odd.
    for text in [
        "(defun f (x)\n  (list x))\n",
        "(defun f (x)\n      (list x))\n",
        "(progn\n(defun f (x) x)\n)\n",
        "#+nil (foo)\n(defun g ())\n",
    ] {
        assert_eq!(repair(text, 0..text.len()), Repair::Nothing, "{text}");
    }
}
