// SPDX-License-Identifier: GPL-3.0-or-later
//! What looks how.

use agent_q_core::markdown::{LiveText, Part, PartKind, Style};

/// The text of TEXT's characters that have FLAG, in pieces.
fn with(flag: u32, text: &str) -> Vec<String> {
    let mut document = LiveText::new(4000);
    let mut runs = document.feed(text).runs;
    let rest = document.finish();
    assert!(rest.runs.is_empty(), "one piece is read at once");
    runs.reverse();
    let mut pieces: Vec<String> = Vec::new();
    let mut within = false;
    let mut characters = text.chars();
    while let Some(run) = runs.pop() {
        let piece: String = characters.by_ref().take(run.length).collect();
        match (run.style.has(flag), within) {
            (true, true) => pieces.last_mut().unwrap().push_str(&piece),
            (true, false) => pieces.push(piece),
            (false, _) => {}
        }
        within = run.style.has(flag);
    }
    pieces
}

fn parts(text: &str) -> Vec<Part> {
    let mut document = LiveText::new(4000);
    let mut parts = document.feed(text).parts;
    parts.extend(document.finish().parts);
    parts
}

fn targets(text: &str) -> Vec<String> {
    parts(text)
        .into_iter()
        .filter_map(|it| match it.kind {
            PartKind::Link { target } => Some(target),
            PartKind::Code { .. } | PartKind::Table { .. } => None,
        })
        .collect()
}

const NONE: [&str; 0] = [];

#[test]
fn lisp_in_prose_is_left_alone() {
    for text in [
        "Bind *earmuffs* and *print-base*, not +constants+.",
        "(funcall *fn* *x*)",
        "foo_bar, a*b*c and 2*3 or 4*5",
        "`(a ,b) and `(c ,d)",
        "(let ((*x* 1) (*y* 2)) *x*)",
        "'(quote) #'function #\\* ~a~%",
        "Python's __init__ and __all__ are names",
    ] {
        for flag in [
            Style::EMPHASIS,
            Style::STRONG,
            Style::STRIKE,
            Style::MARKUP,
            Style::CODE,
        ] {
            assert_eq!(with(flag, text), NONE, "{text}");
        }
    }
}

#[test]
fn emphasis_is_told_with_its_signs() {
    assert_eq!(with(Style::EMPHASIS, "so *very much* so"), ["*very much*"]);
    assert_eq!(with(Style::EMPHASIS, "so _very_ so"), ["_very_"]);
    assert_eq!(with(Style::STRONG, "a **b** c"), ["**b**"]);
    assert_eq!(
        with(Style::STRONG, "so __very much__ so"),
        ["__very much__"]
    );
    assert_eq!(with(Style::MARKUP, "a **b** c"), ["**", "**"]);
    assert_eq!(with(Style::STRIKE, "a ~~b~~ ~c~"), ["~~b~~"]);
    assert_eq!(with(Style::CODE, "a `b c` d"), ["`b c`"]);
}

#[test]
fn code_is_told_without_its_gutter() {
    let text = "1. one\n   ```c\n   x\n   ```\n";
    assert_eq!(with(Style::GUTTER, text), ["   "]);
    assert_eq!(with(Style::FENCE | Style::SIGN, text), ["```c\n"]);
    assert_eq!(
        with(Style::FENCE | Style::MARKUP, text),
        ["```", "   ```\n"],
        "what may be hidden"
    );
    let code = parts(text);
    assert_eq!(
        code[0].kind,
        PartKind::Code {
            language: "c".to_owned()
        }
    );
    assert_eq!(code[0].range, 15..20);
    assert_eq!(
        parts("```lisp\n(+ 1 2)\n")[0].range,
        8..16,
        "an unclosed fence"
    );
}

#[test]
fn links_are_found_wherever_they_lead() {
    let mut found = targets("[a](b) <http://c.d> https://e.f/g_h_i. `x.lisp:3`");
    found.sort();
    assert_eq!(found, ["b", "http://c.d", "https://e.f/g_h_i", "x.lisp:3"]);
    assert_eq!(targets("[b]: /early\n\ntext\n\n[a][b]\n"), ["/early"]);
}

/// The byte four before `://` is inside a character here.
#[test]
fn a_mark_of_four_bytes_before_a_colon_is_no_address() {
    for text in ["é𑜥$://x", "名://x", "é://x", "𑜥http://a.b"] {
        let found = targets(text);
        assert_eq!(found, Vec::<String>::new(), "{text}");
    }
    assert_eq!(targets("𝄞http://a.b"), ["http://a.b"]);
}

#[test]
fn tables_have_rows_of_cells() {
    let found = parts("| a | bc |\n|---|---:|\n| `d` | e |\n");
    let PartKind::Table { rows, dashes, .. } = &found[0].kind else {
        panic!("{found:?}");
    };
    assert_eq!(rows, &[vec![2..3, 6..8], vec![24..27, 30..31]]);
    assert_eq!(dashes, &(11..21));
}

#[test]
fn what_imitates_a_request_is_marked() {
    for text in [
        "? eval_form waits for your answer: C-c C-a, then a key",
        "**? eval_form waits",
        "▸ eval_form (+ 1 2) ✓ 3 ms",
        "  [y] run  [n] deny",
        "# ▾ eval_form",
        "> ? eval_form",
        "Queued: evil",
    ] {
        assert_eq!(with(Style::DISGUISE, text), [text]);
    }
    for text in [
        "Really? Yes.",
        "- [ ] to do",
        "[link](x)",
        "[r]: http://example.org",
        "a [y] b",
        "```\n? x\n```",
    ] {
        assert_eq!(with(Style::DISGUISE, text), NONE, "{text}");
    }
}

#[test]
fn quotes_and_lists_hang() {
    assert_eq!(
        with(Style::QUOTE_MARK, "> a\n> > b\nlazy\n"),
        [">", ">", ">"]
    );
    assert_eq!(
        with(Style::LIST_MARK, "- a\n  1. b\n- [x] c\n"),
        ["-", "1.", "-", "[x]"]
    );
    let mut document = LiveText::new(4000);
    let runs = document.feed("- a\n  1. b\n").runs;
    assert_eq!(runs.iter().map(|it| it.style.indent).max(), Some(5));
}
