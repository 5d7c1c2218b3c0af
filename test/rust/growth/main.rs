// SPDX-License-Identifier: GPL-3.0-or-later
//! How the time of reading grows with the text: with its length, never with the square of it.
//! Only ratios are asserted; the figures themselves are `bench_tools`'s.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use agent_q_core::gram::{agent_from_gram, parse, parse_type_signature};
use agent_q_core::markdown::LiveText;

const FEW: usize = 1_000;
const TIMES: usize = 20;
/// Between linear growth (1) and quadratic (20), with room for a busy machine.
const AT_MOST: u32 = 6;

/// COUNT pieces with commas between them.
fn listed(count: usize, piece: impl Fn(usize) -> String) -> String {
    (0..count).map(piece).collect::<Vec<_>>().join(",")
}

fn time(count: usize, text: &str, read: impl Fn(&str) -> bool) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        black_box(read(text));
    }
    start.elapsed()
}

/// Compares many short texts with a long one, which take as long as each other where time grows with the
/// text, so that what else the machine does hits both. Measures in turns, for the best of each.
fn assert_linear(what: &str, make: impl Fn(usize) -> String, read: impl Fn(&str) -> bool) {
    let (few, many) = (make(FEW), make(FEW * TIMES));
    assert_eq!(read(&few), read(&many), "{what}");
    let (mut best_of_few, mut best_of_many) = (Duration::MAX, Duration::MAX);
    for _ in 0..20 {
        best_of_few = best_of_few.min(time(TIMES, &few, &read));
        best_of_many = best_of_many.min(time(1, &many, &read));
        if best_of_many <= best_of_few * AT_MOST {
            return;
        }
    }
    panic!("{what}: {best_of_few:?} for {TIMES} times {FEW}, {best_of_many:?} for all in one");
}

#[test]
fn reading_takes_time_in_proportion_to_the_text() {
    let is_gram = |text: &str| parse(text).is_ok();
    let is_signature = |text: &str| parse_type_signature(text).is_ok();
    let is_agent = |text: &str| agent_from_gram(text).is_ok();
    assert_linear("a path", |n| format!("(){}", "-->()".repeat(n)), is_gram);
    assert_linear(
        "labels",
        |n| format!("({})", (0..n).map(|i| format!(":L{i}")).collect::<String>()),
        is_gram,
    );
    assert_linear(
        "a record",
        |n| format!("{{{}}}", listed(n, |i| format!("k{i}: {i}"))),
        is_gram,
    );
    assert_linear(
        "an array",
        |n| format!("{{k: [{}]}}", listed(n, |i| format!("'{i}'"))),
        is_gram,
    );
    assert_linear("comments", |n| "/** c */ // c\n".repeat(n), is_gram);
    assert_linear(
        "unfinished comments",
        |n| format!("() {}", "/** ".repeat(n)),
        is_gram,
    );
    assert_linear(
        "unfinished strings",
        |n| format!("({{k: {}", "\"\\n ".repeat(n)),
        is_gram,
    );
    assert_linear("nested brackets", |n| "[a|".repeat(n), is_gram);
    let parameters = |n| {
        (0..n)
            .map(|i| format!("(p{i}::Text)==>"))
            .collect::<String>()
            + "(::Text)"
    };
    assert_linear("parameters", parameters, is_signature);
    let fields = |n| {
        let fields = listed(n, |i| format!("{{name: f{i}, type: Text}}"));
        format!("(p::Object {{fields: [{fields}]}})==>(::Text)")
    };
    assert_linear("fields", fields, is_signature);
    let types = |n| {
        let fields = listed(n, |i| format!("f{i}: Text"));
        format!("(p::Array {{elementType: \"{{{fields}}}\"}})==>(::Text)")
    };
    assert_linear("fields in a type", types, is_signature);
    let agent = |n| {
        let tools = listed(n, |i| {
            format!("[t{i}:Tool {{description: d{i}`d`}} | (::Text)]")
        });
        format!("[a:Agent {{instruction: 'i', model: 'm'}} | {tools}]")
    };
    assert_linear("an agent's tools", agent, is_agent);
}

/// Reads TEXT as Markdown in pieces of a size as models send them.
fn read_in_pieces(text: &str) -> bool {
    let mut live = LiveText::new(4000);
    let mut told = 0;
    for piece in text.as_bytes().chunks(100) {
        let update = live.feed(std::str::from_utf8(piece).unwrap());
        told += update.runs.len();
    }
    told + live.finish().runs.len() > 0
}

#[test]
fn reading_markdown_takes_time_in_proportion_to_the_text() {
    for (what, line) in [
        ("items", "- item *with words* and `code`\n"),
        ("a paragraph", "some **words** in a line\n"),
        ("a fence", "    code\n"),
        ("quotes", "> > quote\n"),
        ("blocks", "# Head\n\nword\n\n"),
    ] {
        assert_linear(what, |n| line.repeat(n / 10), read_in_pieces);
    }
    assert_linear(
        "a line",
        |n| "some **words** ".repeat(n / 3),
        read_in_pieces,
    );
    assert_linear("quotes in quotes", |n| ">".repeat(n / 2), read_in_pieces);
    assert_linear(
        "lines that lazily go on",
        |n| format!("{}a\n{}", ">".repeat(n / 10), "a\n".repeat(n / 10)),
        read_in_pieces,
    );
}
