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
            _ => None,
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

/// The formulas of TEXT as they are drawn.
fn drawn(text: &str) -> Vec<String> {
    parts(text)
        .into_iter()
        .filter_map(|it| match it.kind {
            PartKind::Formula { drawn } => Some(drawn),
            _ => None,
        })
        .collect()
}

#[test]
fn formulas_are_drawn_as_text() {
    for (formula, text) in [
        (r"\sigma^2 = \frac{1}{n} \sum x_i", "σ² = (1/n) ∑ xᵢ"),
        (r"E=mc^2", "E = mc²"),
        (r"x_{i+1} - x^{2n}", "xᵢ₊₁ - x²ⁿ"),
        (r"x_{q}, x^{y^2}, x_{i,j}", "x_q, x^(y²), x_(i,j)"),
        (r"\frac{a+b}{c}", "(a+b)/c"),
        (r"\frac{dy}{dx} = 2x", "(dy)/(dx) = 2x"),
        (r"\frac{-b \pm \sqrt{b^2-4ac}}{2a}", "(-b ± √(b²-4ac))/(2a)"),
        (r"2\frac{1}{n}", "2(1/n)"),
        (r"\sqrt{2} \leq \sqrt[3]{x+1}", "√2 ≤ ∛(x+1)"),
        (r"O(n\log n)", "O(n log n)"),
        (r"\sum_{i=1}^{n} i", "∑ᵢ₌₁ⁿ i"),
        (r"\forall x\in\mathbb{R}: x^2\ge 0", "∀ x ∈ ℝ: x² ≥ 0"),
        (r"\text{if } x \to \infty", "if x → ∞"),
        (r"\mathrm{Var}(X)", "Var(X)"),
        (r"\left( \hat{x} \right)", "( x\u{302} )"),
        (r"90^\circ", "90°"),
        (r"f'(x)", "f′(x)"),
        (r"\{a, b\}", "{a, b}"),
    ] {
        assert_eq!(drawn(&format!("So ${formula}$.")), [text], "{formula}");
        assert_eq!(drawn(&format!("\\({formula}\\)")), [text], "{formula}");
        assert_eq!(drawn(&format!("\\[\n  {formula}\n\\]\n")), [text]);
        assert_eq!(
            drawn(&format!("1. so:\n   $$\n   {formula}\n   $$\n")),
            [text]
        );
    }
    assert_eq!(
        drawn("\\[\\begin{aligned} x &= 1 \\\\ y &= 2 \\end{aligned}\\]"),
        ["x = 1\ny = 2"]
    );
    for (text, formula) in [
        ("\\(n\\)", "n"),
        ("$O(n)$", "O(n)"),
        ("$10^6$", "10⁶"),
        ("$$a+b$$", "a+b"),
    ] {
        assert_eq!(drawn(text), [formula]);
    }
    assert_eq!(with(Style::FORMULA, "**a $x$** $y$"), ["$x$", "$y$"]);
    assert_eq!(with(Style::STRONG, "**a $x_1 * x_2$ b**").len(), 1);
    assert_eq!(
        drawn("| $|x|$ | b |\n|---|---|\n| $y$ | c |\n"),
        ["|x|", "y"]
    );
}

#[test]
fn formulas_that_are_not_known_stay_as_they_are() {
    for text in [
        r"$\begin{pmatrix} a & b \end{pmatrix}$",
        r"\(\unknown{x}\)",
        r"$x^{2$",
        r"$\frac{1}$",
        r"$\text{$",
        r"\[x^\]",
        r"$\mathbb{x}$",
        r"$\hat{ab}$",
    ] {
        assert_eq!(drawn(text), NONE, "{text}");
        assert_eq!(with(Style::UNDRAWN, text), [text]);
    }
    let deep = format!("${}x{}$", "{".repeat(500), "}".repeat(500));
    assert_eq!(drawn(&format!("{deep}^2")), NONE);
}

#[test]
fn money_shells_and_lisp_are_no_formulas() {
    for text in [
        "It costs $5 and $10, or $5-$10, or 3$ (US$4).",
        "Between $5 and US$ 7, (in $) or (in $), '$' or '$$'.",
        "Set $HOME and $PATH, $HOME:$PATH, \"$a$b\", $foo$, $foo_bar$, ${x}$ and $(pwd)/$.",
        "$ ls\n$ cd /tmp",
        "(defun $x () `($a ,$b)) |$a$b|",
        r"A regexp: \(foo\|bar\), \(.*\), \([a-z]+\), \(foo\), $\",
        r"Brackets: \[opt-arg\], \[x\], \[1, 2\], \(see here\), \(a, b\)",
        r#"In C, "$x\n$" and "%s\t$""#,
        "`$x$` and ``$y^2$``",
        "```sh\n$x^2$\n```\n\n    $x^2$\n",
        "- a\n  ```\n  \\[x^2\\]\n  ```\n",
        "$x\n\n^2$ \\[\n# x^2\n\\]",
        r"\$x^2$ x$y^2$",
    ] {
        assert_eq!(drawn(text), NONE, "{text}");
        assert_eq!(with(Style::UNDRAWN, text), NONE, "{text}");
    }
    assert_eq!(
        targets("[a]($x^2$) http://a.b/($x$)"),
        ["$x^2$", "http://a.b/($x$)"]
    );
}

#[test]
fn formulas_imitate_no_request() {
    for text in [
        r"$\text{? eval_form waits}$",
        "$[$$y]$ run",
        r"a\[x \\ \text{[y] run}\]",
    ] {
        assert_eq!(drawn(text), NONE, "{text}");
    }
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
