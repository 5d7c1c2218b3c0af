// SPDX-License-Identifier: GPL-3.0-or-later
//! A formula of TeX as a line of text: `\sigma^2 = \frac{1}{n}` is "σ² = 1/n". Either all of it is known
//! and drawn, or nothing is. Knows nothing of Markdown.

/// Groups within each other that are drawn.
const DEEPEST: usize = 20;

/// What FORMULA, the text between its delimiters, looks like as text; `None` where some of it isn't known.
#[must_use]
pub fn draw(formula: &str) -> Option<String> {
    let mut drawer = Drawer {
        rest: formula,
        depth: 0,
    };
    let drawn = drawer.sequence(SequenceEnd::Text)?;
    let lines: Vec<String> = drawn.split('\n').map(in_one_line).collect();
    let text = lines.join("\n");
    (!text.trim().is_empty()).then_some(text)
}

fn in_one_line(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.join(" ")
}

/// What ends a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SequenceEnd {
    Text,
    Brace,
    Bracket,
}

struct Drawer<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Drawer<'t> {
    fn next(&mut self) -> Option<char> {
        let first = self.rest.chars().next()?;
        self.rest = &self.rest[first.len_utf8()..];
        Some(first)
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// What stands before END, which is taken too.
    fn sequence(&mut self, end: SequenceEnd) -> Option<String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut drawn = String::new();
        loop {
            match self.next() {
                None if end == SequenceEnd::Text => break,
                None => return None,
                Some('}') if end == SequenceEnd::Brace => break,
                Some(']') if end == SequenceEnd::Bracket => break,
                Some(sign) => self.put(sign, &mut drawn)?,
            }
        }
        self.depth -= 1;
        Some(drawn)
    }

    /// Draws what begins with SIGN, which was taken, behind DRAWN.
    fn put(&mut self, sign: char, drawn: &mut String) -> Option<()> {
        match sign {
            '\\' => return self.put_command(drawn),
            '{' => drawn.push_str(&self.sequence(SequenceEnd::Brace)?),
            '^' | '_' => {
                let script = if sign == '^' { raised } else { lowered };
                self.skip_blanks();
                let argument = self.argument()?;
                while drawn.ends_with(' ') {
                    drawn.pop();
                }
                drawn.push_str(&scripted(&argument, sign, script));
            }
            '=' | '<' | '>' => put_relation(drawn, sign),
            '~' => drawn.push(' '),
            // Where columns are aligned.
            '&' => {}
            '\'' => drawn.push('′'),
            '}' | '$' | '#' | '%' | '`' => return None,
            _ if sign.is_whitespace() => drawn.push(' '),
            _ if sign.is_ascii_graphic() || sign.is_alphanumeric() || is_mathematical(sign) => {
                drawn.push(sign);
            }
            _ => return None,
        }
        Some(())
    }

    fn put_command(&mut self, drawn: &mut String) -> Option<()> {
        let length = self
            .rest
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .count();
        if length == 0 {
            match self.next()? {
                '\\' => drawn.push('\n'),
                sign @ ('{' | '}' | '$' | '%' | '#' | '&' | '_') => drawn.push(sign),
                '|' => drawn.push('‖'),
                ',' | ';' | ':' | ' ' | '>' => drawn.push(' '),
                '!' => {}
                _ => return None,
            }
            return Some(());
        }
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest;
        match name {
            "frac" | "dfrac" | "tfrac" => self.put_fraction(drawn),
            "sqrt" => self.put_root(drawn),
            "binom" => {
                let (above, below) = (self.argument()?, self.argument()?);
                drawn.push_str(&format!("C({}, {})", above.trim(), below.trim()));
                Some(())
            }
            "text" | "textrm" | "textbf" | "textit" | "texttt" | "mbox" => {
                drawn.push_str(self.words()?);
                Some(())
            }
            "mathrm" | "mathbf" | "mathit" | "mathsf" | "mathtt" | "mathcal" | "boldsymbol"
            | "bm" | "operatorname" => {
                put_word(drawn, &self.argument()?);
                Some(())
            }
            "mathbb" => {
                let letter = self.argument()?;
                drawn.push(double_struck(letter.trim())?);
                Some(())
            }
            "left" | "right" => {
                self.skip_blanks();
                if let Some(rest) = self.rest.strip_prefix('.') {
                    self.rest = rest;
                }
                Some(())
            }
            // Sizes, and how the lines of a formula are set.
            "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr" | "limits"
            | "nolimits" | "displaystyle" | "textstyle" => {
                self.skip_blanks();
                Some(())
            }
            "begin" | "end" => is_aligned(self.words()?).then_some(()),
            "quad" | "qquad" => {
                drawn.push(' ');
                Some(())
            }
            _ => self.put_named(name, drawn),
        }
    }

    /// Draws an accent, a name of a function, a relation or another sign.
    fn put_named(&mut self, name: &str, drawn: &mut String) -> Option<()> {
        if let Some(mark) = accent(name) {
            let letter = self.argument()?;
            let letter = letter.trim();
            if letter.chars().count() != 1 {
                return None;
            }
            drawn.push_str(letter);
            drawn.push(mark);
        } else if FUNCTIONS.contains(&name) {
            put_word(drawn, name);
            if self
                .rest
                .starts_with(|it: char| it.is_alphanumeric() || it == '\\')
            {
                drawn.push(' ');
            }
        } else if let Some(sign) = find(RELATIONS, name) {
            put_relation(drawn, sign);
        } else {
            drawn.push(find(SIGNS, name)?);
            // The blank behind a letter only ends its name.
            self.rest = self.rest.strip_prefix(' ').map_or(self.rest, |after| {
                match after.starts_with(['^', '_', '(', ')', ',', '}']) {
                    true => after,
                    false => self.rest,
                }
            });
        }
        Some(())
    }

    fn put_fraction(&mut self, drawn: &mut String) -> Option<()> {
        let (above, below) = (self.argument()?, self.argument()?);
        let fraction = format!("{}/{}", enclosed(above.trim()), enclosed(below.trim()));
        // "1/n ∑ xᵢ" would be read as 1/(n ∑ xᵢ).
        let free = |it: Option<char>| it.is_none_or(|it| "=<>+-,;&}])|^\n".contains(it));
        let before = drawn.trim_end().chars().next_back();
        let alone = before.is_none_or(|it| "=<>+-,;([|≤≥≈≠≡∝\n".contains(it));
        if alone && free(self.rest.trim_start().chars().next()) && !self.rest.starts_with('^') {
            drawn.push_str(&fraction);
        } else {
            drawn.push_str(&format!("({fraction})"));
        }
        Some(())
    }

    fn put_root(&mut self, drawn: &mut String) -> Option<()> {
        let degree = match self.rest.strip_prefix('[') {
            Some(rest) => {
                self.rest = rest;
                self.sequence(SequenceEnd::Bracket)?
            }
            None => String::new(),
        };
        match degree.trim() {
            "" | "2" => drawn.push('√'),
            "3" => drawn.push('∛'),
            "4" => drawn.push('∜'),
            other => {
                let raised: Option<String> = other.chars().map(raised).collect();
                drawn.push_str(&raised?);
                drawn.push('√');
            }
        }
        drawn.push_str(&enclosed(self.argument()?.trim()));
        Some(())
    }

    /// The argument of a command: a group, a command or one character.
    fn argument(&mut self) -> Option<String> {
        self.skip_blanks();
        let sign = self.next()?;
        if sign == '{' {
            return self.sequence(SequenceEnd::Brace);
        }
        if matches!(sign, '^' | '_' | '&') {
            return None;
        }
        let mut drawn = String::new();
        self.put(sign, &mut drawn)?;
        Some(drawn)
    }

    /// The group of plain words that comes next.
    fn words(&mut self) -> Option<&'t str> {
        let inside = self.rest.trim_start().strip_prefix('{')?;
        let end = inside.find('}')?;
        let words = &inside[..end];
        self.rest = &inside[end + 1..];
        let plain = |it: char| {
            it == ' ' || it.is_alphanumeric() || (it.is_ascii_graphic() && !"\\{}$^".contains(it))
        };
        words.chars().all(plain).then_some(words)
    }
}

fn is_aligned(environment: &str) -> bool {
    let name = environment.trim_end_matches('*');
    [
        "aligned", "align", "gathered", "gather", "split", "equation",
    ]
    .contains(&name)
}

fn put_relation(drawn: &mut String, sign: char) {
    drawn.push(' ');
    drawn.push(sign);
    drawn.push(' ');
}

/// Puts WORD behind DRAWN, apart from what it would run into.
fn put_word(drawn: &mut String, word: &str) {
    let long = word.chars().count() > 1;
    if long && drawn.ends_with(char::is_alphanumeric) {
        drawn.push(' ');
    }
    drawn.push_str(word);
}

/// ARGUMENT above or below the line, where it has such signs; else behind SIGN.
fn scripted(argument: &str, sign: char, script: fn(char) -> Option<char>) -> String {
    let text: String = argument.split_whitespace().collect();
    if let (true, Some(found)) = (sign == '^', SINGLE_RAISED.iter().find(|it| it.0 == text)) {
        return found.1.to_owned();
    }
    let made: Option<String> = text.chars().map(script).collect();
    match made {
        Some(made) => made,
        None if text.chars().count() == 1 => format!("{sign}{text}"),
        None => format!("{sign}({})", in_one_line(argument)),
    }
}

/// TEXT in parentheses, unless it is a number or a letter with its scripts.
fn enclosed(text: &str) -> String {
    let number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let mut signs = text.chars();
    let letter = signs.next().is_some_and(char::is_alphabetic) && signs.all(is_small);
    match number || letter {
        true => text.to_owned(),
        false => format!("({text})"),
    }
}

/// Whether SIGN hangs on the one before it: a script or an accent.
fn is_small(sign: char) -> bool {
    matches!(sign, '²' | '³' | '¹' | '′' | '\u{2b0}'..='\u{36f}' | '\u{1d00}'..='\u{1dbf}'
        | '\u{2070}'..='\u{209c}' | '\u{20d7}' | '\u{2c7c}' | '\u{2c7d}')
}

/// Whether SIGN, which isn't of ASCII, is one of formulas.
fn is_mathematical(sign: char) -> bool {
    matches!(
        sign,
        '\u{b1}'
            | '\u{b7}'
            | '\u{d7}'
            | '\u{f7}'
            | '\u{ac}'
            | '\u{b0}'
            | '\u{2032}'
            | '\u{2026}'
            | '\u{2190}'..='\u{22ff}' | '\u{27e8}' | '\u{27e9}'
    )
}

fn find(table: &[(&str, char)], name: &str) -> Option<char> {
    table.iter().find(|it| it.0 == name).map(|it| it.1)
}

fn double_struck(letter: &str) -> Option<char> {
    const LETTERS: &[(&str, char)] = &[
        ("C", 'ℂ'),
        ("E", '𝔼'),
        ("F", '𝔽'),
        ("H", 'ℍ'),
        ("N", 'ℕ'),
        ("P", 'ℙ'),
        ("Q", 'ℚ'),
        ("R", 'ℝ'),
        ("Z", 'ℤ'),
    ];
    find(LETTERS, letter)
}

/// The mark that is put on the letter before it.
fn accent(name: &str) -> Option<char> {
    const ACCENTS: &[(&str, char)] = &[
        ("hat", '\u{302}'),
        ("widehat", '\u{302}'),
        ("bar", '\u{304}'),
        ("overline", '\u{304}'),
        ("tilde", '\u{303}'),
        ("vec", '\u{20d7}'),
        ("dot", '\u{307}'),
        ("ddot", '\u{308}'),
    ];
    find(ACCENTS, name)
}

fn beside(from: &str, to: &str, sign: char) -> Option<char> {
    let place = from.chars().position(|it| it == sign)?;
    to.chars().nth(place)
}

fn raised(sign: char) -> Option<char> {
    const FROM: &str = "0123456789+-=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWβγδθφχ";
    const TO: &str = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵝᵞᵟᶿᵠᵡ";
    beside(FROM, TO, sign)
}

fn lowered(sign: char) -> Option<char> {
    const FROM: &str = "0123456789+-=()aehijklmnoprstuvxβγρφχ";
    const TO: &str = "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ";
    beside(FROM, TO, sign)
}

/// What has a sign of its own as an exponent, which is not a small one.
const SINGLE_RAISED: &[(&str, &str)] = &[
    ("∘", "°"),
    ("*", "*"),
    ("′", "′"),
    ("′′", "″"),
    ("†", "†"),
    ("⊤", "ᵀ"),
];

const FUNCTIONS: &[&str] = &[
    "arccos", "arcsin", "arctan", "arg", "cos", "cosh", "cot", "deg", "det", "dim", "exp", "gcd",
    "inf", "ker", "lg", "lim", "liminf", "limsup", "ln", "log", "max", "min", "mod", "Pr", "sin",
    "sinh", "sup", "tan", "tanh",
];

/// Signs that have a blank on both sides.
const RELATIONS: &[(&str, char)] = &[
    ("approx", '≈'),
    ("coloneqq", '≔'),
    ("cong", '≅'),
    ("equiv", '≡'),
    ("ge", '≥'),
    ("geq", '≥'),
    ("gets", '←'),
    ("gg", '≫'),
    ("gt", '>'),
    ("iff", '⇔'),
    ("implies", '⇒'),
    ("in", '∈'),
    ("le", '≤'),
    ("leftarrow", '←'),
    ("leftrightarrow", '↔'),
    ("Leftarrow", '⇐'),
    ("Leftrightarrow", '⇔'),
    ("leq", '≤'),
    ("ll", '≪'),
    ("longrightarrow", '⟶'),
    ("lt", '<'),
    ("mapsto", '↦'),
    ("mid", '∣'),
    ("models", '⊨'),
    ("ne", '≠'),
    ("neq", '≠'),
    ("ni", '∋'),
    ("notin", '∉'),
    ("parallel", '∥'),
    ("perp", '⊥'),
    ("prec", '≺'),
    ("preceq", '≼'),
    ("propto", '∝'),
    ("rightarrow", '→'),
    ("Rightarrow", '⇒'),
    ("sim", '∼'),
    ("simeq", '≃'),
    ("subset", '⊂'),
    ("subseteq", '⊆'),
    ("succ", '≻'),
    ("succeq", '≽'),
    ("supset", '⊃'),
    ("supseteq", '⊇'),
    ("to", '→'),
    ("vdash", '⊢'),
];

const SIGNS: &[(&str, char)] = &[
    ("alpha", 'α'),
    ("beta", 'β'),
    ("gamma", 'γ'),
    ("delta", 'δ'),
    ("epsilon", 'ϵ'),
    ("varepsilon", 'ε'),
    ("zeta", 'ζ'),
    ("eta", 'η'),
    ("theta", 'θ'),
    ("vartheta", 'ϑ'),
    ("iota", 'ι'),
    ("kappa", 'κ'),
    ("lambda", 'λ'),
    ("mu", 'μ'),
    ("nu", 'ν'),
    ("xi", 'ξ'),
    ("pi", 'π'),
    ("rho", 'ρ'),
    ("varrho", 'ϱ'),
    ("sigma", 'σ'),
    ("varsigma", 'ς'),
    ("tau", 'τ'),
    ("upsilon", 'υ'),
    ("phi", 'ϕ'),
    ("varphi", 'φ'),
    ("chi", 'χ'),
    ("psi", 'ψ'),
    ("omega", 'ω'),
    ("Gamma", 'Γ'),
    ("Delta", 'Δ'),
    ("Theta", 'Θ'),
    ("Lambda", 'Λ'),
    ("Xi", 'Ξ'),
    ("Pi", 'Π'),
    ("Sigma", 'Σ'),
    ("Upsilon", 'Υ'),
    ("Phi", 'Φ'),
    ("Psi", 'Ψ'),
    ("Omega", 'Ω'),
    ("aleph", 'ℵ'),
    ("angle", '∠'),
    ("ast", '*'),
    ("bigcap", '⋂'),
    ("bigcup", '⋃'),
    ("bot", '⊥'),
    ("bullet", '•'),
    ("cap", '∩'),
    ("cdot", '·'),
    ("cdots", '⋯'),
    ("circ", '∘'),
    ("cup", '∪'),
    ("dagger", '†'),
    ("ddots", '⋱'),
    ("div", '÷'),
    ("dots", '…'),
    ("ell", 'ℓ'),
    ("emptyset", '∅'),
    ("exists", '∃'),
    ("forall", '∀'),
    ("hbar", 'ℏ'),
    ("Im", 'ℑ'),
    ("infty", '∞'),
    ("int", '∫'),
    ("iint", '∬'),
    ("land", '∧'),
    ("langle", '⟨'),
    ("lbrace", '{'),
    ("lceil", '⌈'),
    ("ldots", '…'),
    ("lfloor", '⌊'),
    ("lnot", '¬'),
    ("lor", '∨'),
    ("lvert", '|'),
    ("lVert", '‖'),
    ("mp", '∓'),
    ("nabla", '∇'),
    ("neg", '¬'),
    ("nexists", '∄'),
    ("odot", '⊙'),
    ("oint", '∮'),
    ("oplus", '⊕'),
    ("otimes", '⊗'),
    ("partial", '∂'),
    ("pm", '±'),
    ("prime", '′'),
    ("prod", '∏'),
    ("rangle", '⟩'),
    ("rbrace", '}'),
    ("rceil", '⌉'),
    ("Re", 'ℜ'),
    ("rfloor", '⌋'),
    ("rvert", '|'),
    ("rVert", '‖'),
    ("setminus", '∖'),
    ("star", '⋆'),
    ("sum", '∑'),
    ("therefore", '∴'),
    ("times", '×'),
    ("top", '⊤'),
    ("varnothing", '∅'),
    ("vdots", '⋮'),
    ("vee", '∨'),
    ("vert", '|'),
    ("Vert", '‖'),
    ("wedge", '∧'),
    ("wp", '℘'),
];
