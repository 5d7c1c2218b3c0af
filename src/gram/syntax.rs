// SPDX-License-Identifier: GPL-3.0-or-later
//! The parts of a gram document, as the parser reads them and before anything is made of them, and what
//! is wrong with a text. Spans are byte ranges of the text, so that later readers can say where.

use std::ops::Range;

use indexmap::IndexMap;

/// Where a part stands in its text, in bytes.
pub type Span = Range<usize>;

/// A whole text: an optional header, then patterns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    pub header: Option<GramRecord>,
    pub patterns: Vec<GramPattern>,
}

/// A pattern of the top level, with its annotations.
#[derive(Debug, Clone, PartialEq)]
pub struct GramPattern {
    pub annotations: Annotations,
    pub element: Element,
}

/// What stands before a pattern: `@@identity:Label` and `@key(value)`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Annotations {
    pub identity: Option<Subject>,
    pub properties: IndexMap<String, Value>,
}

/// A pattern, or a name that stands for one. A name never stands at the top level.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    Bracket(Bracket),
    Path(GramPath),
    Reference(Name),
}

impl Element {
    #[must_use]
    pub fn span(&self) -> &Span {
        match self {
            Self::Bracket(bracket) => &bracket.span,
            Self::Path(path) => &path.span,
            Self::Reference(name) => &name.span,
        }
    }
}

/// `[subject | element, element]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bracket {
    pub subject: Subject,
    pub elements: Vec<Element>,
    pub span: Span,
}

/// A node, and the arrows and nodes after it: `(a)-->(b)==>(c)`. Reads from the right: the target
/// of an arrow is the whole rest of the path.
#[derive(Debug, Clone, PartialEq)]
pub struct GramPath {
    pub first: Node,
    pub steps: Vec<PathStep>,
    pub span: Span,
}

/// An arrow and the node behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct PathStep {
    pub arrow: Arrow,
    pub node: Node,
}

/// `(subject)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub subject: Subject,
    pub span: Span,
}

/// `-->`, `<=[r:Label]=`, `~~`: only the direction means something, the stroke is decoration.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrow {
    pub stroke: Stroke,
    pub direction: Direction,
    pub subject: Subject,
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    Single,
    Double,
    Squiggle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Right,
    Left,
    Both,
    Neither,
}

/// What a node, an arrow, a bracket is: `identifier:Label::Label {record}`, each part optional.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Subject {
    pub identifier: Option<Name>,
    /// A set: a label that is written twice is here once.
    pub labels: Vec<Name>,
    pub record: Option<GramRecord>,
}

impl Subject {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.identifier.is_none() && self.labels.is_empty() && self.record.is_none()
    }

    /// The value of the property KEY.
    #[must_use]
    pub fn property(&self, key: &str) -> Option<&Value> {
        self.record.as_ref().and_then(|record| record.get(key))
    }
}

/// An identifier or a label: a symbol, a `` `quoted name` `` or an integer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

/// `{key: value, …}`. Of a key that is written twice, the last value counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GramRecord {
    pub properties: IndexMap<String, Property>,
    pub span: Span,
}

impl GramRecord {
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.properties.get(key).map(|property| &property.value)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Property {
    pub key_span: Span,
    pub value: Value,
}

/// The value of a property.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    pub datum: Datum,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    Boolean(bool),
    Number(Numeral),
    /// `1..10`, `1...`, `...10`.
    Range {
        lower: Option<Numeral>,
        upper: Option<Numeral>,
    },
    Symbol(String),
    Text(String),
    /// ``date`2024-04-05` ``: a text and what it is.
    Tagged {
        tag: String,
        text: String,
    },
    Array(Vec<Value>),
    Map(GramRecord),
}

/// A number as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numeral {
    pub kind: NumeralKind,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumeralKind {
    Integer,
    Decimal,
    /// `0xCAFE`
    Hexadecimal,
    /// `042`
    Octal,
    /// `168cm`: an integer and its unit
    Measurement,
}

/// What DATUM is, for a message.
pub(super) fn describe(datum: &Datum) -> String {
    match datum {
        Datum::Boolean(truth) => truth.to_string(),
        Datum::Number(numeral) => format!("`{}`", numeral.text),
        Datum::Range { .. } => "a range".to_owned(),
        Datum::Symbol(text) => format!("`{text}`"),
        Datum::Text(text) | Datum::Tagged { text, .. } => quote(text),
        Datum::Array(_) => "an array".to_owned(),
        Datum::Map(_) => "a map".to_owned(),
    }
}

// What is wrong with a gram text: where, what was expected there, and what stood there instead.
// Every reader of this module fails with it, the grammar's and the meaning's alike.

/// The longest piece of the text that a message quotes, in characters.
const LONGEST_QUOTE: usize = 24;

/// A gram text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct GramError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What could have stood there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

impl GramError {
    /// The error at the byte OFFSET of SOURCE.
    #[must_use]
    pub fn at(
        source: &str,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let before = source.get(..offset).unwrap_or(source);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// The beginning of REST as a message shows it: a word, a character, or the end of the text.
pub(super) fn describe_rest(rest: &str) -> String {
    let Some(first) = rest.chars().next() else {
        return "the end of the text".to_owned();
    };
    if first == '\n' {
        return "the end of the line".to_owned();
    }
    let word: String = rest
        .chars()
        .take_while(|&c| c.is_alphanumeric() || matches!(c, '_' | '.'))
        .take(LONGEST_QUOTE)
        .collect();
    if word.is_empty() {
        format!("`{}`", first.escape_debug())
    } else {
        format!("`{word}`")
    }
}

/// TEXT as a message quotes it, shortened.
pub(super) fn quote(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST_QUOTE).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
