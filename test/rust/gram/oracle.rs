// SPDX-License-Identifier: GPL-3.0-or-later
//! Our reader and the reference grammar over generated texts: what the grammar can make, both
//! accept; what mutation makes of it, both accept or both reject.

use crate::reference::{reference_accepts, uses_extension};
use agent_q_core::gram::{agent_from_gram, parse, parse_type_signature};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

fn one_of(texts: &'static [&'static str]) -> BoxedStrategy<String> {
    proptest::sample::select(texts)
        .prop_map(str::to_owned)
        .boxed()
}

fn blank() -> BoxedStrategy<String> {
    one_of(&[
        "", "", "", "", " ", "\n", "\t", "\r\n", " // c\n", "/** d */", "/***/",
    ])
}

/// The parts, with blanks between them.
fn spaced(parts: Vec<BoxedStrategy<String>>) -> BoxedStrategy<String> {
    parts
        .into_iter()
        .fold(Just(String::new()).boxed(), |text, part| {
            (text, blank(), part)
                .prop_map(|(text, blank, part)| text + &blank + &part)
                .boxed()
        })
}

fn token(text: &'static str) -> BoxedStrategy<String> {
    Just(text.to_owned()).boxed()
}

fn maybe(part: BoxedStrategy<String>) -> BoxedStrategy<String> {
    Union::new([token(""), part]).boxed()
}

fn either(parts: Vec<BoxedStrategy<String>>) -> BoxedStrategy<String> {
    Union::new(parts).boxed()
}

/// OPEN, then items with commas between them, then CLOSE.
fn listed(
    open: &'static str,
    item: BoxedStrategy<String>,
    count: std::ops::Range<usize>,
    close: &'static str,
) -> BoxedStrategy<String> {
    (vec((blank(), item, blank()), count), blank())
        .prop_map(move |(items, last)| {
            let items: Vec<String> = items.into_iter().map(|(a, b, c)| a + &b + &c).collect();
            format!("{open}{}{last}{close}", items.join(","))
        })
        .boxed()
}

fn symbol() -> BoxedStrategy<String> {
    either(vec![
        "[a-zA-Z_][0-9a-zA-Z_.@-]{0,6}".boxed(),
        one_of(&["a", "true", "false", "null", "trueish", "Maybe", "x1"]),
    ])
}

fn backtick() -> BoxedStrategy<String> {
    r#"`([a-z ø"'/]|\\[`bfnrt/\\]){0,6}`"#.prop_map(mended).boxed()
}

fn double() -> BoxedStrategy<String> {
    r#""([a-z ø`'{\[(]|\\["bfnrt/\\]){0,6}(\n *)?""#.prop_map(mended).boxed()
}

fn single() -> BoxedStrategy<String> {
    r#"'([a-z ø`"/]|\\['bfnrt/\\]){0,6}'"#.prop_map(mended).boxed()
}

/// The reference misreads strings that begin with `//`; a blank doesn't help, a letter does.
fn mended(text: String) -> String {
    let quote = &text[..1];
    if text[1..].trim_start().starts_with("//") {
        format!("{quote}x{}", &text[1..])
    } else {
        text
    }
}

fn fence() -> BoxedStrategy<String> {
    "```( |//c)?(md ?)?\n([a-z ø\"'\n]|`[a-z]|``[a-z]){0,12}```".boxed()
}

fn integer() -> BoxedStrategy<String> {
    one_of(&["0", "1", "-1", "42", "-0", "1200345"])
}

fn number() -> BoxedStrategy<String> {
    let others = [
        "0.5", "-3.25", "0xCAFE", "0xG", "0x", "042", "00", "168cm", "-5kg", "1e",
    ];
    either(vec![
        integer(),
        proptest::sample::select(others.to_vec())
            .prop_map(str::to_owned)
            .boxed(),
    ])
}

fn range() -> BoxedStrategy<String> {
    either(vec![
        spaced(vec![number(), token(".."), number()]),
        spaced(vec![number(), token("...")]),
        spaced(vec![token("..."), number()]),
    ])
}

fn scalar() -> BoxedStrategy<String> {
    let tag = one_of(&["md", "date", "truex"]);
    either(vec![
        symbol(),
        number(),
        range(),
        double(),
        single(),
        backtick(),
        fence(),
        spaced(vec![tag, backtick()]),
    ])
}

fn key() -> BoxedStrategy<String> {
    either(vec![symbol(), backtick(), double()])
}

fn value() -> BoxedStrategy<String> {
    let entry = spaced(vec![key(), token(":"), scalar()]);
    either(vec![
        scalar(),
        scalar(),
        listed("[", scalar(), 1..4, "]"),
        listed("{", entry, 0..3, "}"),
    ])
}

fn record() -> BoxedStrategy<String> {
    let property = spaced(vec![key(), one_of(&[":", "::"]), value()]);
    listed("{", property, 0..4, "}")
}

fn identifier() -> BoxedStrategy<String> {
    either(vec![symbol(), symbol(), backtick(), integer()])
}

fn labels() -> BoxedStrategy<String> {
    let label = spaced(vec![
        one_of(&[":", "::"]),
        either(vec![symbol(), backtick()]),
    ]);
    vec(label, 1..3).prop_map(|labels| labels.join(" ")).boxed()
}

fn subject() -> BoxedStrategy<String> {
    spaced(vec![maybe(identifier()), maybe(labels()), maybe(record())])
}

fn node() -> BoxedStrategy<String> {
    spaced(vec![token("("), subject(), token(")")])
}

fn arrow() -> BoxedStrategy<String> {
    let inner = maybe(spaced(vec![token("["), subject(), token("]")]));
    (
        one_of(&["-", "=", "~"]),
        one_of(&["", "<"]),
        one_of(&["", ">"]),
        blank(),
        inner,
        blank(),
    )
        .prop_map(|(stroke, left, right, before, inner, after)| {
            format!("{left}{stroke}{before}{inner}{after}{stroke}{right}")
        })
        .boxed()
}

fn path() -> BoxedStrategy<String> {
    (node(), vec(spaced(vec![arrow(), node()]), 0..3))
        .prop_map(|(node, steps)| node + &steps.concat())
        .boxed()
}

fn bracket() -> BoxedStrategy<String> {
    let leaf = spaced(vec![token("["), subject(), token("]")]);
    leaf.prop_recursive(3, 12, 3, |inner| {
        let element = either(vec![inner.boxed(), path(), identifier()]);
        (subject(), listed("|", element, 1..4, "]"))
            .prop_map(|(subject, elements)| format!("[{subject}{elements}"))
    })
    .boxed()
}

fn annotations() -> BoxedStrategy<String> {
    let name = either(vec![
        identifier(),
        labels(),
        spaced(vec![identifier(), labels()]),
    ]);
    let identity = name.prop_map(|name| format!("@@{name} ")).boxed();
    let property = spaced(vec![token("@"), symbol(), token("("), value(), token(")")]);
    (maybe(identity), vec(property, 0..3))
        .prop_map(|(a, b)| a + &b.concat())
        .boxed()
}

fn document() -> BoxedStrategy<String> {
    let pattern = spaced(vec![annotations(), either(vec![path(), bracket()])]);
    (maybe(record()), vec(pattern, 0..4), blank())
        .prop_map(|(header, patterns, end)| header + &patterns.concat() + &end)
        .boxed()
}

/// TEXT with some of its characters taken away, doubled or replaced.
fn mutated(text: &str, changes: &[(usize, String)]) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for (place, replacement) in changes {
        let place = place % (characters.len() + 1);
        let taken = usize::from(replacement.len() != 1).min(characters.len() - place);
        characters.splice(place..place + taken, replacement.chars());
    }
    characters.into_iter().collect()
}

fn changes() -> impl Strategy<Value = Vec<(usize, String)>> {
    let pieces = [
        "", "", "(", ")", "[", "]", "{", "}", "|", ",", ":", "::", "-", "->", "<-", "=", "~", "\"",
        "'", "`", "```", "\\", "\n", " ", "@", "@@", ".", "..", "...", "0", "1", "x", "a", "/",
        "//", "/**", "*/", "true", "ø", "\u{a0}", "\r", "\u{b}",
    ];
    vec(
        (
            any::<usize>(),
            proptest::sample::select(pieces.to_vec()).prop_map(str::to_owned),
        ),
        1..4,
    )
}

/// Whether TEXT may hold a string that the reference's lexer takes for a comment: one whose content
/// begins with `//` or `/**`. Comments don't begin inside strings, so our reader doesn't follow it.
fn reference_misreads(text: &str) -> bool {
    let begins_like_a_comment = |content: &str| {
        let content = content.trim_start();
        content.starts_with("//") || content.starts_with("/**")
    };
    let quotes = text
        .match_indices(['"', '\'', '`'])
        .map(|(at, quote)| at + quote.len());
    let fences = text.match_indices("```").filter_map(|(at, _)| {
        let line_end = text[at..].find('\n')?;
        Some(at + line_end + 1)
    });
    quotes
        .chain(fences)
        .any(|at| begins_like_a_comment(&text[at..]))
}

/// Whether we and the reference agree on TEXT, or are known not to.
fn agree(text: &str) -> bool {
    let agreed = match parse(text) {
        Ok(document) => uses_extension(&document) || reference_accepts(text),
        Err(_) => !reference_accepts(text),
    };
    agreed || reference_misreads(text)
}

fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(default),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn both_accept_what_the_grammar_makes(text in document()) {
        prop_assert!(reference_accepts(&text), "the generator left the grammar: {text:?}");
        if let Err(error) = parse(&text) {
            prop_assert!(false, "{error} in {text:?}");
        }
    }

    #[test]
    fn both_say_the_same_of_mutations(text in document(), changes in changes()) {
        let text = mutated(&text, &changes);
        prop_assert!(agree(&text), "ours: {:?}, text: {text:?}", parse(&text));
    }

    #[test]
    fn both_say_the_same_of_pieces(changes in changes(), more in changes()) {
        let pieces: String = changes.into_iter().chain(more).map(|(_, piece)| piece).collect();
        prop_assert!(agree(&pieces), "ours: {:?}, text: {pieces:?}", parse(&pieces));
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in any::<String>(), gram in document(), changes in changes()) {
        for text in [text, mutated(&gram, &changes)] {
            if let Err(error) = parse(&text) {
                prop_assert!(error.line >= 1 && error.column >= 1);
            }
            let _ = parse_type_signature(&text);
            let _ = agent_from_gram(&text);
        }
    }
}
