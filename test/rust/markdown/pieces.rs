// SPDX-License-Identifier: GPL-3.0-or-later
//! Property tests: the pieces in which a text comes don't matter, and neither does where it is cut.

use agent_q_core::markdown::{LiveText, Style, Update, read_whole};
use proptest::prelude::*;

/// The looks of the characters of a buffer, soft line ends included.
#[derive(Debug, Default)]
struct Buffer {
    looks: Vec<Style>,
}

impl Buffer {
    fn apply(&mut self, piece: &str, update: &Update) {
        let grown = self.looks.len() + piece.chars().count() + update.breaks.len();
        let told: usize = update.runs.iter().map(|it| it.length).sum();
        assert!(update.from <= self.looks.len(), "a gap");
        assert_eq!(update.from + told, grown, "the runs reach to the end");
        self.looks.truncate(update.from);
        for run in &update.runs {
            self.looks
                .extend(std::iter::repeat_n(run.style, run.length));
        }
        for part in &update.parts {
            assert!(part.range.start <= part.range.end && part.range.end <= grown);
        }
    }
}

/// TEXT in pieces that end at CUTS.
fn fed(text: &str, cuts: &[usize], width: usize) -> Vec<Style> {
    let mut document = LiveText::new(width);
    let mut buffer = Buffer::default();
    let places: Vec<usize> = text.char_indices().map(|it| it.0).collect();
    let mut ends: Vec<usize> = cuts
        .iter()
        .filter_map(|it| places.get(it % places.len().max(1)).copied())
        .collect();
    ends.push(text.len());
    ends.sort_unstable();
    let mut from = 0;
    for end in ends {
        let piece = &text[from..end];
        let update = document.feed(piece);
        buffer.apply(piece, &update);
        from = end;
    }
    let update = document.finish();
    buffer.apply("", &update);
    buffer.looks
}

fn whole(text: &str) -> Vec<Style> {
    let mut at = 0;
    let mut looks = Vec::new();
    for run in read_whole(text) {
        let piece = &text[at..at + run.length];
        looks.extend(piece.chars().map(|_| run.style));
        at += run.length;
    }
    looks
}

/// Without the looks of line ends and of blanks at the very end, which nobody sees.
fn seen(text: &str, looks: &[Style]) -> Vec<(char, Option<Style>)> {
    text.trim_end()
        .chars()
        .zip(looks)
        .map(|(it, look)| (it, (it != '\n').then_some(*look)))
        .collect()
}

fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n".to_owned()),
        Just("\n\n".to_owned()),
        prop::sample::select(vec![
            "# ",
            "## ",
            "- ",
            "* ",
            "1. ",
            "> ",
            "    ",
            "  ",
            "```",
            "```lisp\n",
            "~~~",
            "`",
            "``",
            "*",
            "**",
            "_",
            "~~",
            "[",
            "](",
            ")",
            "<http://a.b>",
            "https://a.b/c.",
            "|",
            "| a | b |\n",
            "|---|:-:|\n",
            "---",
            "===",
            "***",
            "\\",
            "&amp;",
            "<div>",
            "<!--",
            "-->",
            "\t",
            "\r\n",
            "[ ] ",
            "*earmuffs*",
            "$",
            "$$",
            "\\[",
            "\\]",
            "\\(",
            "\\)",
            "$x^2$",
            "\\alpha ",
            "\\[\nx = 1\n\\]",
            "= 1",
            "(funcall *fn* *x*)",
            "foo_bar",
            "`(a ,b)",
            "? eval_form waits",
            "é",
            "名前",
            "👍",
            "shop.lisp:12",
            " ",
            "word",
            "word and more",
        ])
        .prop_map(str::to_owned),
        "[a-z ]{1,12}",
        "\\PC{0,6}",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn pieces_do_not_matter(
        text in markdown(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        width in prop_oneof![Just(4000_usize), 1..20_usize],
    ) {
        prop_assert_eq!(fed(&text, &cuts, width), fed(&text, &[], width));
    }

    #[test]
    fn blocks_are_read_as_in_the_whole(
        text in markdown(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        // A definition counts for the whole text where it is known, and for the rest of it here.
        prop_assume!(!text.contains("]:"));
        let looks = fed(&text, &cuts, 4000);
        prop_assert_eq!(seen(&text, &looks), seen(&text, &whole(&text)));
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert_eq!(fed(&text, &[7, 30, 31], 40), fed(&text, &[], 40));
    }
}

#[test]
fn a_tab_in_place_of_a_fences_indentation_is_code() {
    for text in [" ```lisp\n\ta", "  ```\n \ta\n\tb\n  ```\n"] {
        let looks = fed(text, &[], 4000);
        assert_eq!(seen(text, &looks), seen(text, &whole(text)), "{text:?}");
        let tab = text.find('\t').unwrap();
        assert!(!looks[tab].has(Style::GUTTER), "{text:?}");
    }
}

#[test]
fn fences_have_the_blanks_that_the_parser_sees() {
    for text in [
        " ```lisp\n\r\na",
        "~~~\n\n~~~\t\n",
        "~~~\n\n~~~ \r\nx",
        "```\r\na\r\n```\r\n*b*",
    ] {
        let looks = fed(text, &[], 4000);
        assert_eq!(seen(text, &looks), seen(text, &whole(text)), "{text:?}");
    }
}

#[test]
fn long_blocks_are_cut_at_the_same_places() {
    for text in [
        "word *and* more\n".repeat(20_000),
        "word *and* more ".repeat(20_000),
        "- item\n  more\n".repeat(12_000),
        format!("```lisp\n{}```\nend", "(code)\n".repeat(30_000)),
        "> quote\n".repeat(20_000),
        ">".repeat(10_000),
    ] {
        let cuts: Vec<usize> = (0..40).map(|it| it * 7_919).collect();
        assert_eq!(fed(&text, &cuts, 4000), fed(&text, &[], 4000));
    }
}
