// SPDX-License-Identifier: GPL-3.0-or-later
//! The gram grammar, rule by rule: own examples of each, checked against the reference grammar too,
//! and the reference's own corpus where it is at hand.

use std::fs;
use std::path::{Path, PathBuf};

use agent_q_core::gram::syntax::{Datum, Direction, Element, NumeralKind, Stroke, Value};
use agent_q_core::gram::{GramError, MAX_NESTING, parameter, parse};
use serde_json::json;

use crate::reference::{reference_accepts, uses_extension};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("test/fixtures/gram")
}

#[test]
fn every_rule_has_an_accepted_example() {
    for entry in fs::read_dir(fixtures().join("accepted")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        match parse(&text) {
            Ok(document) => assert!(!uses_extension(&document), "{}", path.display()),
            Err(error) => panic!("{}: {error}", path.display()),
        }
        assert!(
            reference_accepts(&text),
            "the reference rejects {}",
            path.display()
        );
    }
}

#[test]
fn the_extension_is_ours_alone() {
    let text = fs::read_to_string(fixtures().join("extension.gram")).unwrap();
    assert!(uses_extension(&parse(&text).unwrap()));
    for line in text.lines().filter(|line| !line.starts_with("//")) {
        assert!(uses_extension(&parse(line).unwrap()), "{line}");
        assert!(
            !reference_accepts(line),
            "the reference has learnt to read {line}"
        );
    }
}

#[test]
fn what_is_not_gram_is_rejected_with_its_place() {
    let text = fs::read_to_string(fixtures().join("rejected.txt")).unwrap();
    let cases: Vec<&str> = text.split("=== ").skip(1).collect();
    assert!(cases.len() > 40);
    for case in cases {
        let (name, rest) = case.split_once('\n').unwrap();
        let (source, expected) = rest.rsplit_once("\n--- ").unwrap();
        let error = parse(source).expect_err(name);
        let found = format!("{}:{} {}", error.line, error.column, error.expected);
        assert_eq!(found, expected.trim_end(), "{name}");
        assert!(!reference_accepts(source), "the reference accepts: {name}");
    }
}

#[test]
fn what_stands_in_the_wrong_place_is_shown() {
    let error = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(
        error("(a) x1"),
        "line 1, column 5: expected a pattern, which begins with `(`, `[` or `@`, found `x1`"
    );
    assert!(error("(a").ends_with("found the end of the text"));
    assert!(error("()\n(a\n\0").ends_with("found a NUL character"));
}

struct CorpusCase {
    name: String,
    must_fail: bool,
    source: String,
}

/// The cases of one file of the corpus: a name and attributes between lines of `=`, the source, a
/// line of `-`, and the reference's tree.
fn corpus_cases(text: &str) -> Vec<CorpusCase> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &str, of: char| line.len() >= 3 && line.chars().all(|c| c == of);
    let rules: Vec<usize> = (0..lines.len())
        .filter(|&at| is_rule(lines[at], '='))
        .collect();
    let bounds = rules.chunks(2).map(|pair| (pair[0], pair[1]));
    bounds
        .enumerate()
        .map(|(index, (opening, closing))| {
            let end = rules.get(index * 2 + 2).copied().unwrap_or(lines.len());
            let body = &lines[closing + 1..end];
            let divider = body.iter().position(|line| is_rule(line, '-')).unwrap();
            CorpusCase {
                name: lines[opening + 1].to_owned(),
                must_fail: lines[opening + 1..closing]
                    .iter()
                    .any(|line| line.trim() == ":error"),
                source: body[..divider].join("\n"),
            }
        })
        .collect()
}

fn corpus_folder() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/gram-corpus");
    std::env::var_os("AGENT_Q_GRAM_CORPUS").map_or(beside, PathBuf::from)
}

#[test]
fn the_corpus_is_read_as_its_files_say() {
    let Ok(entries) = fs::read_dir(corpus_folder()) else {
        eprintln!("skipped: no gram corpus in {}", corpus_folder().display());
        return;
    };
    let (mut accepted, mut rejected, mut extension) = (0, 0, 0);
    for entry in entries {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        for case in corpus_cases(&fs::read_to_string(&path).unwrap()) {
            let place = format!("{}: {}", path.display(), case.name);
            match parse(&case.source) {
                Ok(document) if case.must_fail => {
                    assert!(uses_extension(&document), "{place} must be rejected");
                    extension += 1;
                }
                Ok(_) => accepted += 1,
                Err(_) if case.must_fail => rejected += 1,
                Err(error) => panic!("{place}: {error}"),
            }
        }
    }
    eprintln!("corpus: {accepted} accepted, {rejected} rejected, {extension} of the extension");
    assert!(accepted > 0 && rejected > 0, "the folder holds no corpus");
}

/// The value of the property k of the one node in TEXT.
fn value(text: &str) -> Value {
    let document = parse(&format!("({{k: {text}}})")).unwrap();
    let Element::Path(path) = &document.patterns[0].element else {
        panic!("no path")
    };
    path.first.subject.property("k").unwrap().clone()
}

#[test]
fn strings_mean_what_they_say() {
    let cases = [
        (r#""a \"b\" \\ \/""#, "a \"b\" \\ /"),
        (r"'\b\f\n\r\t'", "\u{8}\u{c}\n\r\t"),
        (r"`it's \`so\``", "it's `so`"),
        ("\"// no comment\"", "// no comment"),
        ("\"/** nor this */ x\"", "/** nor this */ x"),
        (
            "\"up to the line's end\n // not this\n\"",
            "up to the line's end",
        ),
        ("```\none\ntwo\n```", "one\ntwo"),
        ("```\none\n\n```", "one\n"),
        ("```\n  one\n  ```", "  one"),
        ("```\none```", "one"),
        ("```\n```", ""),
        ("```\r\none\r\n```", "one"),
        ("md`# x`", "# x"),
        ("```md\n# x\n```", "# x"),
    ];
    for (text, expected) in cases {
        match value(text).datum {
            Datum::Text(found) | Datum::Tagged { text: found, .. } => {
                assert_eq!(found, expected, "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(value("md `x`").datum, Datum::Tagged { tag, .. } if tag == "md"));
    assert!(matches!(value("```md\nx\n```").datum, Datum::Tagged { tag, .. } if tag == "md"));
}

#[test]
fn numbers_are_told_apart() {
    let cases = [
        ("-12", NumeralKind::Integer, Some(json!(-12))),
        ("-0.50", NumeralKind::Decimal, Some(json!(-0.5))),
        ("0xCAFE", NumeralKind::Hexadecimal, Some(json!(0xCAFE))),
        ("0xCOFFEE", NumeralKind::Measurement, None),
        ("042", NumeralKind::Octal, Some(json!(0o42))),
        ("168cm", NumeralKind::Measurement, None),
        (
            "18446744073709551615",
            NumeralKind::Integer,
            Some(json!(u64::MAX)),
        ),
        // 64 bits can't hold it, and another number would be wrong.
        ("100000000000000000000", NumeralKind::Integer, None),
    ];
    for (text, kind, expected) in cases {
        let value = value(text);
        assert!(
            matches!(&value.datum, Datum::Number(number) if number.kind == kind),
            "{text}"
        );
        assert_eq!(parameter::to_json(&value).ok(), expected, "{text}");
    }
}

#[test]
fn ranges_have_one_end_or_two() {
    let ends = |text: &str| match value(text).datum {
        Datum::Range { lower, upper } => (lower.map(|n| n.text), upper.map(|n| n.text)),
        other => panic!("{text}: {other:?}"),
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(ends("1..10"), (some("1"), some("10")));
    assert_eq!(ends("1.5 ..."), (some("1.5"), None));
    assert_eq!(ends("...-3"), (None, some("-3")));
}

#[test]
fn values_as_json_keep_order_and_the_last_of_equal_keys() {
    let value = value("{b: [x, null, true], a: {}, b: [1..2]}");
    let at = parameter::to_json(&value).unwrap_err();
    assert!(matches!(at.datum, Datum::Range { .. }));
    let value = self::value("{b: 1, a: [x, null, true, date`2024-04-05`], b: 2}");
    let expected = r#"{"b":2,"a":["x",null,true,"2024-04-05"]}"#;
    assert_eq!(parameter::to_json(&value).unwrap().to_string(), expected);
}

#[test]
fn a_path_keeps_its_arrows() {
    let document = parse("(a)<=[r:L {k: 1}]=(b)~~>(c)<-->(d)--(e)").unwrap();
    let Element::Path(path) = &document.patterns[0].element else {
        panic!("no path")
    };
    let arrows: Vec<_> = path
        .steps
        .iter()
        .map(|step| (step.arrow.stroke, step.arrow.direction))
        .collect();
    let expected = [
        (Stroke::Double, Direction::Left),
        (Stroke::Squiggle, Direction::Right),
        (Stroke::Single, Direction::Both),
        (Stroke::Single, Direction::Neither),
    ];
    assert_eq!(arrows, expected);
    let relation = &path.steps[0].arrow.subject;
    assert_eq!(relation.identifier.as_ref().unwrap().text, "r");
    assert_eq!(relation.labels[0].text, "L");
    assert!(relation.property("k").is_some());
}

#[test]
fn labels_are_a_set_and_annotations_are_kept() {
    let document = parse("@@p:Q @a(1) @a(2) [x:A:B::A | y, (z)]").unwrap();
    let pattern = &document.patterns[0];
    assert_eq!(
        pattern.annotations.identity.as_ref().unwrap().labels[0].text,
        "Q"
    );
    assert_eq!(
        parameter::to_json(&pattern.annotations.properties["a"]).unwrap(),
        json!(2)
    );
    let Element::Bracket(bracket) = &pattern.element else {
        panic!("no bracket")
    };
    let labels: Vec<&str> = bracket
        .subject
        .labels
        .iter()
        .map(|name| name.text.as_str())
        .collect();
    assert_eq!(labels, ["A", "B"]);
    assert!(matches!(&bracket.elements[0], Element::Reference(name) if name.text == "y"));
}

#[test]
fn the_nesting_is_capped() {
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        parse(&format!(
            "{}{middle}{}",
            open.repeat(depth),
            close.repeat(depth)
        ))
    };
    for depth in [MAX_NESTING, MAX_NESTING + 1, 100_000] {
        let results = [
            nested("[a|", "b", "]", depth),
            nested("[|", "()", "]", depth),
            nested("{k:", "1", "}", depth),
        ];
        for result in results {
            match result {
                Ok(_) => assert_eq!(depth, MAX_NESTING),
                Err(GramError { expected, .. }) => {
                    assert!(
                        depth > MAX_NESTING && expected.contains("levels"),
                        "{expected}"
                    );
                }
            }
        }
    }
    let arrays = format!("@k({}1{}) ()", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(&arrays).unwrap_err().expected.contains("levels"));
}

#[test]
fn hostile_nesting_needs_no_stack() {
    let read = || {
        ["[", "[a|", "{k:", "{k:[", "@k([", "[|()-[{k:"].map(|open| {
            let text = open.repeat((1 << 20) / open.len());
            parse(&text).unwrap_err().expected
        })
    };
    let small = std::thread::Builder::new()
        .stack_size(1536 * 1024)
        .spawn(read);
    for expected in small.unwrap().join().unwrap() {
        assert!(!expected.is_empty());
    }
}

#[test]
fn a_long_path_has_no_depth() {
    let text = format!("(){}", "-->()".repeat(100_000));
    let document = parse(&text).unwrap();
    let Element::Path(path) = &document.patterns[0].element else {
        panic!("no path")
    };
    assert_eq!(path.steps.len(), 100_000);
}

#[test]
fn the_references_misreading_of_slashes_is_not_ours() {
    // When the reference mends this, the oracle test can do without `reference_misreads`.
    assert!(parse("{k: \"//x\"}").is_ok());
    assert!(!reference_accepts("{k: \"//x\"}"));
}
