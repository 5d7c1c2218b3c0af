// SPDX-License-Identifier: GPL-3.0-or-later
//! Whether the indentation of Common Lisp code agrees with its nesting, token by token, as Emacs indents and
//! as the standard operators are used. Strict: what nobody would write like that does not agree either.

use std::collections::{HashMap, HashSet};

use super::operators::{Operator, Seat, operator};
use super::tokens::{Kind, Token};

/// A column, as the text is once it is repaired, and as it is now: who wrote it may have had either in mind.
#[derive(Debug, Clone, Copy)]
struct Column(i32, i32);

impl Column {
    fn plus(self, more: i32) -> Self {
        Self(self.0 + more, self.1 + more)
    }

    fn is(self, column: i32) -> bool {
        self.0 == column || self.1 == column
    }
}

/// What is wrong at a token: it doesn't stand like a part of the form that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit {
    pub token: usize,
    /// The token that opens the form, if it is in one.
    pub form: Option<usize>,
}

/// The fewest and the most arguments by the list of parameters that TOKENS of TEXT begin with.
fn counts(text: &str, tokens: &[Token]) -> (usize, usize) {
    let (mut depth, mut least, mut most) = (1, 0, 0);
    let mut required = true;
    for token in tokens {
        match token.kind {
            Kind::Close => depth -= 1,
            _ if depth == 1 => {
                let name = token.text(text).to_lowercase();
                if name.starts_with('&') {
                    required = false;
                    if name != "&optional" && name != "&aux" {
                        return (least, usize::MAX);
                    }
                } else {
                    least += usize::from(required);
                    most += 1;
                }
            }
            _ => {}
        }
        match token.kind {
            Kind::Open => depth += 1,
            _ if depth == 0 => return (least, most),
            _ => {}
        }
    }
    (0, usize::MAX)
}

/// The operators of forms among TOKENS, all of a file, as far as its forms fit, and all that may be some.
fn operators(file: &str, tokens: &[Token], words: &Words) -> (HashSet<String>, HashSet<String>) {
    let (mut found, mut heads) = (HashSet::new(), HashSet::new());
    let text = Looked {
        text: file,
        tokens,
        words,
    };
    let mut nesting = Nesting::default();
    let mut lost = false;
    for (index, token) in tokens.iter().enumerate() {
        if token.leads && token.column == 0 {
            nesting = Nesting::default();
            lost = false;
        }
        if lost {
            if index > 0 && tokens[index - 1].kind == Kind::Open {
                heads.insert(token.text(file).to_lowercase());
            }
            continue;
        }
        nesting.arrive(token);
        let fits = match token.kind {
            Kind::Open => nesting.open(index, *token, text, MadeBy::Text).map(|_| ()),
            Kind::Close => nesting.close(index),
            Kind::Atom | Kind::Feature => nesting.atom(index, *token, text),
        };
        lost = fits.is_err();
        if let Some(frame) = nesting.frames.last()
            && frame.count == 1
            && token.kind == Kind::Atom
            && matches!(frame.role, Seat::Form | Seat::Unknown)
        {
            heads.insert(token.text(file).to_lowercase());
            if frame.role == Seat::Form {
                found.insert(token.text(file).to_lowercase());
            }
        }
    }
    (found, heads)
}

/// Where a parenthesis comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeBy {
    Text,
    Edit,
}

/// What is to come after `#+`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feature {
    None,
    Expression,
    Form,
}

/// An open form.
#[derive(Debug, Clone, Copy)]
struct OpenForm {
    /// The token that opened it.
    open: usize,
    line: usize,
    column: Column,
    role: Seat,
    operator: Option<&'static Operator>,
    /// The argument from which on the body stands.
    body: Option<usize>,
    /// How many arguments a function of the file takes.
    arity: Option<(usize, usize)>,
    is_new: bool,
    quoted: bool,
    backquoted: bool,
    /// The elements so far.
    count: usize,
    /// Whether there may be more or fewer elements than are counted.
    uncertain: bool,
    feature: Feature,
    /// The first element is a symbol that may name an operator.
    has_operator: bool,
    /// It is one like `with-foo`.
    is_wrapper: bool,
    /// Where the second element is, if on the form's first line.
    second: Option<Column>,
    /// The column of the last element that starts a line.
    sibling: Option<i32>,
    /// Whether that element, alone on its line, is one of a body.
    alone: bool,
    /// The column of the last element, if it is a keyword.
    keyword: Option<Column>,
    /// How many elements there are from a dot on.
    dotted: usize,
    /// Whether nothing more belongs into it.
    full: bool,
    /// Whether declarations are in it, which may stand anywhere.
    declared: bool,
    /// Where the last element is.
    last: Option<(usize, Column)>,
}

/// The forms that are open at a place, and what is known of them.
#[derive(Debug, Clone, Default)]
pub struct Nesting {
    frames: Vec<OpenForm>,
    /// What the edits on the current line have added to the columns behind them.
    shift: i32,
    line: usize,
    feature: bool,
}

/// The text that is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Looked<'t> {
    pub text: &'t str,
    pub tokens: &'t [Token],
    pub words: &'t Words,
}

/// Which symbols are used how.
#[derive(Debug, Default)]
pub struct Words {
    /// Those that a form starts with, in the whole file.
    heads: HashSet<String>,
    /// Those of them that are operators of forms.
    operators: HashSet<String>,
    /// The functions that the file defines, and how many arguments they take.
    functions: HashMap<String, (usize, usize)>,
    /// How often each symbol is there, in what is looked at.
    counts: HashMap<String, usize>,
}

impl Words {
    /// Those of TOKENS, a part of TEXT, in a file with ALL.
    #[must_use]
    pub fn of((text, tokens): (&str, &[Token]), (file, all): (&str, &[Token])) -> Self {
        let mut words = Self::default();
        for (index, four) in all.windows(4).enumerate() {
            let defines = ["defun", "defgeneric", "defmethod"].contains(&four[1].text(file));
            if four[0].kind == Kind::Open && defines && four[2].kind == Kind::Atom {
                let (least, most) = match four[3].kind {
                    Kind::Open => counts(file, &all[index + 4..]),
                    _ => (0, usize::MAX),
                };
                let name = four[2].text(file).to_lowercase();
                let known = words.functions.entry(name).or_insert((least, most));
                *known = (known.0.min(least), known.1.max(most));
            }
        }
        (words.operators, words.heads) = operators(file, all, &words);
        for token in tokens {
            if token.kind == Kind::Atom && token.prefix(text).is_empty() {
                *words
                    .counts
                    .entry(token.text(text).to_lowercase())
                    .or_default() += 1;
            }
        }
        words
    }

    /// Whether NAME is one of a standard operator, or of one that the file uses.
    #[must_use]
    pub fn is_operator(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        !name.starts_with([':', '"', '#'])
            && (operator(&name).is_some() || self.operators.contains(&name))
    }

    /// Whether NAME in a form of `loop` may be a word of it.
    #[must_use]
    pub fn is_loop_word(name: &str) -> bool {
        let name = name.to_lowercase();
        matches!(
            name.as_str(),
            "append"
                | "collect"
                | "nconc"
                | "sum"
                | "count"
                | "when"
                | "unless"
                | "if"
                | "do"
                | "return"
                | "with"
                | "and"
                | "for"
                | "while"
                | "until"
                | "maximize"
                | "minimize"
        )
    }

    /// Whether NAME is used as a variable, and is no operator.
    fn is_variable(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        operator(&name).is_none()
            && !self.heads.contains(&name)
            && self.counts.get(&name).is_some_and(|count| *count > 1)
    }
}

impl Nesting {
    #[must_use]
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Whether what comes next would be the first element of a form that may be data.
    #[must_use]
    pub fn starts_unknown(&self) -> bool {
        let frame = self.frames.last();
        frame.is_some_and(|it| it.count == 0 && it.role == Seat::Unknown)
    }

    /// Takes a parenthesis that is put in or left out of the text, which moves what is behind it.
    pub fn shift(&mut self, columns: i32) {
        self.shift += columns;
    }

    fn column(&self, column: i32) -> Column {
        Column(column + self.shift, column)
    }

    /// Goes on to the line of TOKEN.
    pub fn arrive(&mut self, token: &Token) {
        if token.line != self.line {
            self.line = token.line;
            self.shift = 0;
        }
    }

    /// The token INDEX opens a form, or what is put in before it does.
    ///
    /// # Errors
    ///
    /// That doesn't fit.
    pub fn open(
        &mut self,
        index: usize,
        token: Token,
        text: Looked<'_>,
        origin: MadeBy,
    ) -> Result<Seat, Misfit> {
        let prefix = token.prefix(text.text);
        let mut role = self.element(index, token, text, origin)?;
        if prefix.ends_with("#'") || prefix.ends_with([',', '@']) {
            role = Seat::Form;
        }
        let around = self.frames.last();
        let quoted = around.is_some_and(|it| it.quoted)
            || prefix.ends_with(['\'', '(']) && !prefix.ends_with("#'")
            || prefix.starts_with('#') && !prefix.ends_with("#'");
        let backquoted = match prefix.chars().rev().find(|it| matches!(it, '`' | ',')) {
            Some(sign) => sign == '`',
            None => around.is_some_and(|it| it.backquoted),
        };
        self.frames.push(OpenForm {
            open: index,
            line: token.line,
            column: self.column(token.bare_column),
            role,
            operator: None,
            body: None,
            arity: None,
            is_new: origin == MadeBy::Edit,
            quoted: quoted && !prefix.ends_with(','),
            backquoted,
            count: 0,
            uncertain: false,
            feature: Feature::None,
            has_operator: false,
            is_wrapper: false,
            second: None,
            sibling: None,
            alone: false,
            keyword: None,
            dotted: 0,
            full: false,
            declared: false,
            last: None,
        });
        Ok(role)
    }

    /// A form is closed at the token INDEX.
    ///
    /// # Errors
    ///
    /// That doesn't fit.
    pub fn close(&mut self, index: usize) -> Result<(), Misfit> {
        let Some(frame) = self.frames.pop() else {
            return Err(Misfit {
                token: index,
                form: None,
            });
        };
        let arguments = frame.count.saturating_sub(1);
        let few = match frame.operator {
            Some(operator) => arguments < operator.least || operator.is_pairs && arguments % 2 == 1,
            None if frame.arity.is_some_and(|(least, _)| arguments < least) => true,
            None => match frame.role {
                Seat::Binding => frame.count != 2,
                Seat::Function => frame.count < 2,
                Seat::Clause | Seat::Case => frame.count == 0,
                Seat::Iteration => frame.count < 2,
                Seat::Form => frame.count == 0 && !frame.quoted,
                _ => false,
            },
        };
        if few && !frame.uncertain || frame.feature != Feature::None || frame.dotted == 1 {
            return Err(Misfit {
                token: index,
                form: Some(frame.open),
            });
        }
        Ok(())
    }

    /// The token INDEX, an atom or a sign before a form, is part of the innermost form.
    ///
    /// # Errors
    ///
    /// That doesn't fit.
    pub fn atom(&mut self, index: usize, token: Token, text: Looked<'_>) -> Result<(), Misfit> {
        self.element(index, token, text, MadeBy::Text).map(|_| ())
    }

    /// Takes the token INDEX of KIND as the next element of the innermost form. Gives its role.
    fn element(
        &mut self,
        index: usize,
        token: Token,
        text: Looked<'_>,
        origin: MadeBy,
    ) -> Result<Seat, Misfit> {
        let kind = token.kind;
        let column = self.column(token.column);
        let Some(frame) = self.frames.last_mut() else {
            return self.at_top(index, token);
        };
        let misfit = Misfit {
            token: index,
            form: Some(frame.open),
        };
        let prefix = token.prefix(text.text);
        if prefix.contains(',') && !frame.backquoted && !prefix.contains('`') {
            return Err(misfit);
        }
        let leads = token.leads && token.line > frame.line;
        let mut fills = false;
        if leads && !matches!(frame.feature, Feature::Expression) {
            let fits = frame.accepts(token.column);
            if !fits {
                return Err(misfit);
            }
            frame.starts_line(token.column, kind);
            if frame.body_on_first_line() {
                return Err(misfit);
            }
        } else if frame.alone
            && kind != Kind::Feature
            && frame.feature == Feature::None
            && !frame.uncertain
        {
            let plain = token.text(text.text).to_lowercase();
            if plain != "t" && plain != "nil" {
                return Err(misfit);
            }
            fills = true;
        }
        if kind == Kind::Feature {
            frame.feature = Feature::Expression;
            frame.uncertain = true;
            frame.alone = false;
            return Ok(Seat::Unknown);
        }
        if frame.feature == Feature::Expression {
            frame.feature = Feature::Form;
            return Ok(Seat::Data);
        }
        frame.feature = Feature::None;
        if prefix.contains(",@") || prefix.contains(",.") {
            frame.uncertain = true;
        }
        let atom = match kind {
            Kind::Atom => Some(token.text(text.text)),
            _ => None,
        };
        let arity = atom.and_then(|it| text.words.functions.get(it)).copied();
        let next = text.tokens.get(index + 1);
        let declares = |it: &Token| it.text(text.text).eq_ignore_ascii_case("declare");
        frame.declared |= kind == Kind::Open && next.is_some_and(declares);
        let role = frame
            .add(atom, prefix, arity, || {
                let is_lambda = |it: &Token| it.text(text.text).eq_ignore_ascii_case("lambda");
                origin == MadeBy::Text && next.is_some_and(is_lambda)
            })
            .ok_or(misfit)?;
        if let (Some(name), 1, true, Seat::Form) = (atom, frame.count, frame.is_new, frame.role)
            && text.words.is_variable(name)
        {
            return Err(misfit);
        }
        frame.full |= fills;
        if frame.count == 2 && token.line == frame.line {
            frame.second = Some(column);
        }
        frame.keyword = match atom {
            Some(atom) if atom.starts_with(':') => Some(column),
            _ => None,
        };
        frame.last = Some((token.line, column));
        Ok(role)
    }

    /// Takes a token outside of all forms: they start in the first column.
    fn at_top(&mut self, index: usize, token: Token) -> Result<Seat, Misfit> {
        let feature = std::mem::replace(&mut self.feature, token.kind == Kind::Feature);
        let starts = token.leads && token.column == 0;
        if feature || (starts && token.kind != Kind::Atom) {
            return Ok(Seat::Form);
        }
        Err(Misfit {
            token: index,
            form: None,
        })
    }
}

impl OpenForm {
    /// Whether a line in it may start in COLUMN.
    fn accepts(&self, column: i32) -> bool {
        if column <= self.column.0.min(self.column.1) {
            return false;
        }
        let second = self.second.is_some_and(|it| it.is(column));
        let inner = |more| self.column.plus(more).is(column);
        if self.sibling == Some(column) || self.count == 0 {
            return true;
        }
        let continued = self
            .keyword
            .is_some_and(|it| it.plus(1).is(column) || it.plus(2).is(column));
        if continued && self.body.is_none() {
            return true;
        }
        if let Some(operator) = self.operator {
            if operator.is_loop {
                return true;
            }
            if let Some(body) = self.body {
                let index = self.count - 1;
                return match index < body {
                    true => second || inner(4),
                    false => inner(2) || second && body == 0,
                };
            }
            if operator.is_method {
                return inner(4);
            }
            let pairs = operator.is_pairs && self.second.is_some_and(|it| it.plus(2).is(column));
            return match self.second {
                Some(_) => second || pairs || !operator.is_function && inner(2),
                None => inner(1),
            };
        }
        if self.arity.is_some() {
            return match self.second {
                Some(_) => second,
                None => inner(1),
            };
        }
        match self.role {
            Seat::Bindings | Seat::Functions | Seat::Binding | Seat::Iteration => inner(1),
            Seat::Clause => inner(1) || second,
            Seat::Case => inner(1) || inner(2) || second,
            Seat::Function => inner(2) || inner(1),
            _ if self.quoted => second || inner(1) || inner(2),
            _ => second || inner(1) || inner(2) || self.sibling.is_none() && (inner(4) || inner(3)),
        }
    }

    /// Notes that an element of KIND starts a line at COLUMN.
    fn starts_line(&mut self, column: i32, kind: Kind) {
        self.sibling = Some(column);
        let is_body = match self.operator {
            Some(operator) => {
                self.body.is_some_and(|body| self.count > body)
                    && operator.role(self.count - 1) != Some(Seat::Unknown)
            }
            None => {
                self.is_wrapper
                    && !self.quoted
                    && self.column.plus(2).is(column)
                    && matches!(self.role, Seat::Form | Seat::Unknown)
            }
        };
        self.alone =
            is_body && (kind == Kind::Open || self.operator.is_some() && kind == Kind::Atom);
    }

    /// Whether a part of the body stands on the form's first line, before what starts a line now.
    fn body_on_first_line(&self) -> bool {
        let Some(body) = self.body else {
            return false;
        };
        self.second.is_some()
            && self.last.is_some_and(|(line, _)| line == self.line)
            && self.count > body + 1
            && !self.uncertain
            && !self.declared
    }

    /// Adds an element, an ATOM or a list behind PREFIX. Gives its role, or nothing if it has no place there.
    fn add(
        &mut self,
        atom: Option<&str>,
        prefix: &str,
        arity: Option<(usize, usize)>,
        is_lambda: impl Fn() -> bool,
    ) -> Option<Seat> {
        self.count += 1;
        if atom == Some(".") && prefix.is_empty() {
            self.dotted = 1;
            self.uncertain = true;
            return (self.count > 1 && self.operator.is_none()).then_some(Seat::Data);
        }
        if self.dotted > 0 {
            self.dotted += 1;
        }
        if self.full || self.dotted > 2 {
            return None;
        }
        if self.quoted {
            return Some(Seat::Data);
        }
        if self.count == 1 {
            return self.head(atom, prefix, arity, is_lambda);
        }
        if let Some(operator) = self.operator {
            if operator.is_method {
                return Some(self.method(atom, prefix));
            }
            let role = match operator.role(self.count - 2) {
                Some(role) => role,
                None if self.uncertain => Seat::Unknown,
                None => return None,
            };
            return allowed(role, atom, prefix).then_some(role);
        }
        if let Some((_, most)) = self.arity {
            return (self.count - 1 <= most || self.uncertain).then_some(Seat::Form);
        }
        let role = match self.role {
            Seat::Bindings => Seat::Binding,
            Seat::Functions => Seat::Function,
            Seat::Binding | Seat::Clause | Seat::Iteration => Seat::Form,
            Seat::Case if self.count > 1 => Seat::Form,
            Seat::Function if self.count == 2 => Seat::List,
            Seat::Function => Seat::Form,
            Seat::Data | Seat::List | Seat::Name => Seat::Data,
            _ => Seat::Unknown,
        };
        allowed(role, atom, prefix).then_some(role)
    }

    /// Adds the first element.
    fn head(
        &mut self,
        atom: Option<&str>,
        prefix: &str,
        arity: Option<(usize, usize)>,
        is_lambda: impl Fn() -> bool,
    ) -> Option<Seat> {
        match self.role {
            Seat::Form => match atom {
                Some(name) if prefix.is_empty() => {
                    self.named(name);
                    if self.operator.is_none() {
                        self.arity = arity;
                    }
                    can_be_called(name).then_some(Seat::Name)
                }
                Some(_) => Some(Seat::Data),
                // (lambda ...) can be called, and macros put there what they like.
                None => (is_lambda() || self.backquoted && !self.is_new).then_some(Seat::Unknown),
            },
            Seat::Unknown => {
                if let (Some(name), true) = (atom, prefix.is_empty()) {
                    self.named(name);
                    self.operator = self.operator.filter(|it| it.is_unmistakable);
                    self.body = self.operator.and_then(|it| it.body);
                    self.has_operator = !name.starts_with([':', '"']);
                }
                Some(Seat::Unknown)
            }
            Seat::Bindings => allowed(Seat::Binding, atom, prefix).then_some(Seat::Binding),
            Seat::Functions => allowed(Seat::Function, atom, prefix).then_some(Seat::Function),
            Seat::Clause if prefix.is_empty() && atom.is_some_and(|it| operator(it).is_some()) => {
                None
            }
            Seat::Clause => Some(Seat::Form),
            Seat::Case | Seat::Data | Seat::List | Seat::Name | Seat::Text => Some(Seat::Data),
            Seat::Binding | Seat::Function | Seat::Iteration => {
                (atom.is_some() || !prefix.is_empty() || self.role == Seat::Function)
                    .then_some(Seat::Data)
            }
        }
    }

    /// Adds an element of a method's definition.
    fn method(&mut self, atom: Option<&str>, prefix: &str) -> Seat {
        match self.body {
            Some(_) => Seat::Form,
            None if self.count > 2 && (atom.is_none() || prefix.contains(',')) => {
                self.body = Some(self.count - 1);
                Seat::List
            }
            None => Seat::Name,
        }
    }

    fn named(&mut self, name: &str) {
        self.has_operator = true;
        let bare = name.rsplit(':').next().unwrap_or(name);
        self.is_wrapper = bare.starts_with("with-") || bare.starts_with("do-");
        self.operator = match bare.chars().any(char::is_uppercase) {
            true => operator(&bare.to_lowercase()),
            false => operator(bare),
        };
        self.body = self.operator.and_then(|it| it.body);
    }
}

/// Whether NAME may stand where an operator does.
fn can_be_called(name: &str) -> bool {
    let literal =
        name.starts_with([':', '"', '#']) || name.starts_with(|it: char| it.is_ascii_digit());
    matches!(name, "1+" | "1-") || !literal && !matches!(name, "t" | "nil")
}

/// Whether an ATOM, or a list, behind PREFIX can have ROLE.
fn allowed(role: Seat, atom: Option<&str>, prefix: &str) -> bool {
    let spliced = prefix.contains(',');
    match role {
        Seat::List
        | Seat::Bindings
        | Seat::Functions
        | Seat::Function
        | Seat::Clause
        | Seat::Case
        | Seat::Iteration => {
            spliced || atom.is_none_or(|it| it.eq_ignore_ascii_case("nil")) && prefix.is_empty()
        }
        Seat::Text => atom.is_some(),
        Seat::Binding => {
            spliced || prefix.is_empty() && atom.is_none_or(|it| !it.starts_with([':', '"']))
        }
        _ => true,
    }
}

/// Goes through TEXT as it is.
///
/// # Errors
///
/// What of it does not fit.
pub fn walk(text: &str, tokens: &[Token], words: &Words) -> Result<(), Misfit> {
    let whole = Looked {
        text,
        tokens,
        words,
    };
    let mut nesting = Nesting::default();
    for (index, token) in tokens.iter().enumerate() {
        nesting.arrive(token);
        match token.kind {
            Kind::Open => {
                nesting.open(index, *token, whole, MadeBy::Text)?;
            }
            Kind::Close => nesting.close(index)?,
            Kind::Atom | Kind::Feature => nesting.atom(index, *token, whole)?,
        }
    }
    match nesting.depth() {
        0 => Ok(()),
        _ => Err(Misfit {
            token: tokens.len(),
            form: None,
        }),
    }
}
