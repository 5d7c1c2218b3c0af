// SPDX-License-Identifier: GPL-3.0-or-later
//! Common Lisp source as tokens with their places, for who looks at nesting and indentation. Nothing is
//! interned or evaluated.

/// What a token is for the nesting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Open,
    Close,
    /// A symbol, number, string or character.
    Atom,
    /// `#+` or `#-`, before a feature expression and the form that it is about.
    Feature,
}

/// A part of a text.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    pub kind: Kind,
    /// The bytes of the text, with the signs before it, such as those of `#'(`.
    pub start: usize,
    pub end: usize,
    /// The byte behind the signs before it.
    pub bare: usize,
    pub line: usize,
    /// In characters, with the signs before it.
    pub column: i32,
    /// In characters, behind them.
    pub bare_column: i32,
    /// Nothing but blanks is before it on its line.
    pub leads: bool,
}

impl Token {
    /// The signs before it.
    #[must_use]
    pub fn prefix(self, text: &str) -> &str {
        &text[self.start..self.bare]
    }

    #[must_use]
    pub fn text(self, text: &str) -> &str {
        &text[self.bare..self.end]
    }
}

/// What is left open where a text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOpen {
    Code,
    /// A string.
    String,
    /// A block comment, or a symbol between bars.
    Other,
}

/// A text as tokens.
#[derive(Debug)]
pub struct Lexed {
    pub all: Vec<Token>,
    pub end: LeftOpen,
    /// Whether something is in it that only reader macros of the program understand.
    pub strange: bool,
}

struct Lexer<'t> {
    text: &'t str,
    place: usize,
    line: usize,
    column: i32,
    leads: bool,
    tokens: Lexed,
}

/// TEXT, which starts on a line of its own, as tokens.
#[must_use]
pub fn tokens(text: &str) -> Lexed {
    let mut lexer = Lexer {
        text,
        place: 0,
        line: 0,
        column: 0,
        leads: true,
        tokens: Lexed {
            all: Vec::new(),
            end: LeftOpen::Code,
            strange: false,
        },
    };
    if text.starts_with("#!") {
        lexer.skip_line();
    }
    while lexer.step() {}
    lexer.tokens
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.place..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.place += character.len_utf8();
        if character == '\n' {
            self.line += 1;
            self.column = 0;
            self.leads = true;
        } else if character == '\t' {
            self.column += 8 - self.column % 8;
        } else {
            self.column += 1;
        }
        Some(character)
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|it| it != '\n') {
            self.next();
        }
    }

    /// Passes over what ends with the character LAST, which a backslash escapes. Says whether it is there.
    fn skip_to(&mut self, last: char) -> bool {
        while let Some(character) = self.next() {
            match character {
                '\\' => {
                    self.next();
                }
                _ if character == last => return true,
                _ => {}
            }
        }
        false
    }

    /// Passes over the block comment whose beginning was passed over.
    fn skip_comment(&mut self) {
        let mut depth = 1;
        while depth > 0 {
            match (self.next(), self.peek()) {
                (Some('|'), Some('#')) => {
                    self.next();
                    depth -= 1;
                }
                (Some('#'), Some('|')) => {
                    self.next();
                    depth += 1;
                }
                (None, _) => {
                    self.tokens.end = LeftOpen::Other;
                    return;
                }
                _ => {}
            }
        }
    }

    /// Passes over the next token. Says whether there may be more.
    fn step(&mut self) -> bool {
        let mut token = Token {
            kind: Kind::Atom,
            start: self.place,
            end: self.place,
            bare: self.place,
            line: self.line,
            column: self.column,
            bare_column: self.column,
            leads: self.leads,
        };
        loop {
            token.bare = self.place;
            token.bare_column = self.column;
            let before = token.start == token.bare;
            let Some(character) = self.peek() else {
                return false;
            };
            match character {
                ';' => {
                    self.skip_line();
                    return true;
                }
                _ if character.is_whitespace() => {
                    if !before {
                        self.tokens.strange = true;
                    }
                    self.next();
                    return true;
                }
                '\'' | '`' | ',' => {
                    self.next();
                    if character == ',' && matches!(self.peek(), Some('@' | '.')) {
                        self.next();
                    }
                    continue;
                }
                '#' => {
                    let rest = &self.text[self.place + 1..];
                    let digits = rest.chars().take_while(char::is_ascii_digit).count();
                    match rest[digits..]
                        .chars()
                        .next()
                        .map(|it| it.to_ascii_lowercase())
                    {
                        Some('|') => {
                            self.next();
                            self.next();
                            self.skip_comment();
                            return true;
                        }
                        Some('\\') => {
                            self.leads = false;
                            self.next();
                            self.next();
                            self.next();
                            self.skip_symbol();
                        }
                        Some('+' | '-') => {
                            self.leads = false;
                            self.next();
                            self.next();
                            token.kind = Kind::Feature;
                        }
                        Some('\'' | '.' | '(' | 'a' | 'c' | 's' | 'p' | '=') => {
                            let open = rest[digits..].starts_with('(');
                            for _ in 0..digits + if open { 1 } else { 2 } {
                                self.next();
                            }
                            continue;
                        }
                        Some(':' | 'x' | 'b' | 'o' | '*' | 'r' | '#') => {
                            self.leads = false;
                            self.next();
                            self.skip_symbol();
                            if self.peek() == Some('#') {
                                self.next();
                            }
                        }
                        _ => {
                            self.tokens.strange = true;
                            self.leads = false;
                            self.next();
                            self.skip_symbol();
                        }
                    }
                }
                '(' | ')' => {
                    self.leads = false;
                    self.next();
                    self.tokens.strange |= character == ')' && !before;
                    token.kind = match character {
                        '(' => Kind::Open,
                        _ => Kind::Close,
                    };
                }
                '"' => {
                    self.leads = false;
                    self.next();
                    if !self.skip_to('"') {
                        self.tokens.end = LeftOpen::String;
                    }
                    self.leads = false;
                }
                _ => {
                    self.leads = false;
                    self.skip_symbol();
                    self.leads = false;
                    if self.text[token.bare..].starts_with(['[', ']', '{', '}']) {
                        self.tokens.strange = true;
                    }
                }
            }
            token.end = self.place;
            self.tokens.all.push(token);
            return true;
        }
    }

    fn skip_symbol(&mut self) {
        while let Some(character) = self.peek() {
            match character {
                '(' | ')' | '"' | ';' | '\'' | '`' | ',' => return,
                _ if character.is_whitespace() => return,
                '\\' => {
                    self.next();
                    self.next();
                }
                '|' => {
                    self.next();
                    if !self.skip_to('|') {
                        self.tokens.end = LeftOpen::Other;
                    }
                }
                _ => {
                    self.next();
                }
            }
        }
    }
}
