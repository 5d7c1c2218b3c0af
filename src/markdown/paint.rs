// SPDX-License-Identifier: GPL-3.0-or-later
//! From the parser's events to runs of styles and to the parts of a text that somebody can act on: where
//! links lead, and looks that are laid over those of the parser's elements.

use std::collections::HashMap;
use std::ops::Range;

use pulldown_cmark::{
    BrokenLink, CodeBlockKind, CowStr, Event, LinkType, Options, Parser, RefDefs, Tag,
};

use super::formulas::{Formula, formulas, masked};
use super::lines::{are_backquotes, closing_look, disguised, language, opening_looks};
use super::style::{Alignment, DEEPEST_QUOTE, Part, PartKind, Run, Style, WIDEST_INDENT, push};

/// A text as it looks, in bytes.
#[derive(Debug, Default)]
pub struct Painted {
    pub runs: Vec<Run>,
    pub parts: Vec<Part>,
    /// Where the lines start in which a block of the outermost level begins.
    pub blocks: Vec<usize>,
    /// The same of the items of lists of that level.
    pub items: Vec<usize>,
    /// What it defines for links of later texts.
    pub definitions: Definitions,
}

/// What an element does when it ends.
enum Ending {
    Plain,
    /// So many bytes of signs close it.
    Signs(usize),
    Link(Part),
    Heading,
    Fence(Part),
    Table(Part),
    Head,
}

struct OpenElement {
    /// The look of what is directly in it.
    style: Style,
    ending: Ending,
}

struct Painter<'t> {
    text: &'t str,
    at: usize,
    painted: Painted,
    open: Vec<OpenElement>,
    quotes: Vec<Range<usize>>,
    /// Addresses that are written without the signs of a link.
    addresses: Vec<Range<usize>>,
    /// Prose that came in pieces and is one.
    prose: Range<usize>,
    links: usize,
}

/// The look of TEXT, a whole number of blocks. DEFINITIONS are those of the text before it.
#[must_use]
pub fn paint(text: &str, definitions: &Definitions) -> Painted {
    let mut found = formulas(text);
    let mut painted = paint_words(&masked(text, &found), definitions);
    if found.is_empty() {
        disguise(text, &mut painted);
        return painted;
    }
    let count = found.len();
    let ends = ends(&painted.runs);
    found.retain(|it| is_in_prose(it, &painted, &ends));
    if found.len() < count {
        // What is code or a link's target is read as it is.
        painted = paint_words(&masked(text, &found), definitions);
    }
    place_formulas(text, found, &mut painted);
    disguise(text, &mut painted);
    painted
}

/// Marks the lines of TEXT that imitate those of Emacs in PAINTED.
fn disguise(text: &str, painted: &mut Painted) {
    let masks = masks(text, &painted.runs);
    add_flags(&mut painted.runs, &masks, Style::DISGUISE);
}

/// The look of TEXT, in which formulas are words.
fn paint_words(text: &str, definitions: &Definitions) -> Painted {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let find = |link| definitions.find(&link);
    let parser = Parser::new_with_broken_link_callback(text, options, Some(find));
    let mut painter = Painter {
        text,
        at: 0,
        painted: Painted::default(),
        open: Vec::new(),
        quotes: Vec::new(),
        addresses: Vec::new(),
        prose: 0..0,
        links: 0,
    };
    painter
        .painted
        .definitions
        .note(parser.reference_definitions());
    for (event, range) in parser.into_offset_iter() {
        painter.take(event, range);
    }
    painter.finish()
}

impl Painter<'_> {
    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        if !matches!(event, Event::Text(_)) {
            self.end_prose();
        }
        match event {
            Event::Start(tag) => {
                if self.open.is_empty() {
                    self.painted.blocks.push(self.line_start(range.start));
                }
                self.begin(tag, range);
            }
            Event::End(_) => self.end(&range),
            Event::Text(_) => self.prose(range),
            Event::Code(_) => self.code(&range),
            Event::Rule => {
                if self.open.is_empty() {
                    self.painted.blocks.push(self.line_start(range.start));
                }
                let style = self.style().only(Style::RULE | Style::SIGN);
                self.mark(range.start..self.trimmed(&range), style);
            }
            Event::TaskListMarker(_) => {
                let style = self.style().with(Style::LIST_MARK);
                self.mark(range, style);
            }
            Event::Html(_)
            | Event::InlineHtml(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::SoftBreak
            | Event::HardBreak => self.fill(range.end),
        }
    }

    fn style(&self) -> Style {
        self.open.last().map(|it| it.style).unwrap_or_default()
    }

    /// Gives what comes before TO the look of the innermost open element.
    fn fill(&mut self, to: usize) {
        let style = self.style();
        self.mark(self.at..to, style);
    }

    /// Gives RANGE the look STYLE, and what is left before it that of the open element.
    fn mark(&mut self, range: Range<usize>, style: Style) {
        if range.start > self.at {
            let around = self.style();
            push(&mut self.painted.runs, range.start - self.at, around);
            self.at = range.start;
        }
        if range.end > self.at {
            push(&mut self.painted.runs, range.end - self.at, style);
            self.at = range.end;
        }
    }

    fn open(&mut self, style: Style, ending: Ending) {
        self.open.push(OpenElement { style, ending });
    }

    fn begin(&mut self, tag: Tag<'_>, range: Range<usize>) {
        let start = range.start;
        if !matches!(tag, Tag::CodeBlock(_)) {
            self.fill(start);
        }
        let style = self.style();
        match tag {
            Tag::Heading { level, .. } => self.begin_heading(level as u8, &range),
            Tag::BlockQuote(_) => {
                self.quotes.push(range);
                let inner = Style {
                    quote: (style.quote + 1).min(DEEPEST_QUOTE),
                    indent: (style.indent + 2).min(WIDEST_INDENT),
                    ..style
                };
                self.open(inner, Ending::Plain);
            }
            Tag::CodeBlock(kind) => self.begin_code(&kind, &range),
            Tag::Item => self.begin_item(start),
            Tag::Emphasis => self.begin_signs(&range, 1, Style::EMPHASIS),
            Tag::Strong => self.begin_signs(&range, 2, Style::STRONG),
            Tag::Strikethrough => self.begin_signs(&range, 2, Style::STRIKE),
            Tag::Link {
                link_type,
                dest_url,
                ..
            } => {
                let target = match link_type {
                    LinkType::Email => format!("mailto:{dest_url}"),
                    _ => dest_url.to_string(),
                };
                self.begin_link(range, target, 1);
            }
            Tag::Image { dest_url, .. } => self.begin_link(range, dest_url.to_string(), 2),
            Tag::Table(columns) => {
                let columns = columns.into_iter().map(Alignment::from).collect();
                let kind = PartKind::Table {
                    columns,
                    rows: Vec::new(),
                    dashes: 0..0,
                };
                let range = start..self.trimmed(&range);
                self.open(
                    style.with(Style::TABLE),
                    Ending::Table(Part { range, kind }),
                );
            }
            Tag::TableHead => self.begin_row(style.with(Style::TABLE_HEAD), Ending::Head),
            Tag::TableRow => self.begin_row(style, Ending::Plain),
            Tag::TableCell => self.begin_cell(range),
            _ => self.open(style, Ending::Plain),
        }
    }

    fn end(&mut self, range: &Range<usize>) {
        // What closes the element looks like the element, but for the signs.
        let style = self.style();
        let Some(element) = self.open.pop() else {
            return;
        };
        self.open.push(OpenElement {
            style,
            ending: Ending::Plain,
        });
        match element.ending {
            Ending::Plain => self.fill(range.end),
            Ending::Signs(length) => {
                self.fill(range.end.saturating_sub(length));
                self.mark(self.at..range.end, style.with(Style::MARKUP));
            }
            Ending::Link(part) => {
                self.links -= 1;
                self.mark(self.at..range.end, style.with(Style::MARKUP));
                self.painted.parts.push(part);
            }
            Ending::Heading => self.end_heading(range, style),
            Ending::Fence(part) => self.end_fence(range, part),
            Ending::Table(part) => {
                self.fill(range.end);
                self.painted.parts.push(part);
            }
            Ending::Head => self.end_head(range),
        }
        self.open.pop();
    }

    fn begin_heading(&mut self, level: u8, range: &Range<usize>) {
        let style = Style {
            heading: level,
            ..self.style()
        };
        let source = &self.text[range.clone()];
        let bare = source.trim_start_matches(' ').trim_start_matches('#');
        self.open(style, Ending::Heading);
        if source.trim_start_matches(' ').starts_with('#') {
            let signs = source.len() - bare.trim_start_matches([' ', '\t']).len();
            self.mark(range.start..range.start + signs, style.with(Style::MARKUP));
        }
    }

    /// A heading may be closed by more number signs, or be made one by the line below it.
    fn end_heading(&mut self, range: &Range<usize>, style: Style) {
        let end = self.trimmed(range);
        let rest = self.text.get(self.at..end).unwrap_or_default();
        let sign = match rest.trim_start().bytes().next() {
            Some(b'#') => Style::MARKUP,
            Some(b'=' | b'-') => Style::SIGN,
            _ => 0,
        };
        self.mark(self.at..end, style.with(sign));
        self.fill(range.end);
    }

    fn begin_item(&mut self, start: usize) {
        let line = self.line_start(start);
        if self.open.len() == 1 {
            self.painted.items.push(line);
        }
        let rest = &self.text[start..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let digits = rest[blanks..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        let from = start + blanks;
        let to = (from + digits + 1).min(self.text.len());
        let after = self.text[to..].bytes().take_while(|it| *it == b' ').count();
        let after = if (1..=4).contains(&after) { after } else { 1 };
        let column = self.text[line..to].chars().count() + after;
        let style = Style {
            indent: u8::try_from(column).unwrap_or(u8::MAX).min(WIDEST_INDENT),
            ..self.style()
        };
        self.mark(from..to, style.with(Style::LIST_MARK));
        self.open(style, Ending::Plain);
    }

    fn begin_signs(&mut self, range: &Range<usize>, length: usize, flag: u32) {
        let style = self.style();
        let meant = match flag {
            Style::STRIKE => self.text[range.start..].starts_with("~~"),
            _ => self.is_emphasis(range, length),
        };
        if !meant {
            let starred = match self.is_starred(range) {
                true => Style::STARRED,
                false => 0,
            };
            self.open(style.with(starred), Ending::Plain);
            return;
        }
        let style = style.with(flag);
        self.mark(range.start..range.start + length, style.with(Style::MARKUP));
        self.open(style, Ending::Signs(length));
    }

    /// Whether RANGE, what the parser takes for emphasis, isn't rather Lisp or arithmetic in prose:
    /// `*earmuffs*`, `a*b*c`.
    fn is_emphasis(&self, range: &Range<usize>, length: usize) -> bool {
        let source = &self.text[range.clone()];
        if !source.starts_with('*') {
            let inner = source.trim_matches('_');
            // `__init__` is a name.
            return length == 1
                || inner.contains(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        }
        let word = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric());
        let before = word(self.text[..range.start].chars().next_back());
        let after = word(self.text[range.end..].chars().next());
        let inner = &source[length.min(source.len())..source.len().saturating_sub(length)];
        match length {
            1 => {
                !before
                    && !after
                    && (inner.contains(char::is_whitespace)
                        || (inner.starts_with('*') && inner.ends_with('*')))
            }
            _ => !(before && after),
        }
    }

    /// Whether RANGE, which isn't taken for emphasis, is a word between stars: `*then*`, `*features*`.
    /// The image may know it.
    fn is_starred(&self, range: &Range<usize>) -> bool {
        let word = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric());
        let source = &self.text[range.clone()];
        source.len() > 2
            && source.starts_with('*')
            && source.ends_with('*')
            && !source.contains(char::is_whitespace)
            && !word(self.text[..range.start].chars().next_back())
            && !word(self.text[range.end..].chars().next())
    }

    fn begin_link(&mut self, range: Range<usize>, target: String, signs: usize) {
        let style = self.style().with(Style::LINK);
        self.links += 1;
        self.mark(range.start..range.start + signs, style.with(Style::MARKUP));
        let kind = PartKind::Link { target };
        self.open(style, Ending::Link(Part { range, kind }));
    }

    fn begin_code(&mut self, kind: &CodeBlockKind<'_>, range: &Range<usize>) {
        let around = self.style();
        let inside = around.only(Style::BLOCK | Style::GUTTER);
        match kind {
            CodeBlockKind::Fenced(words) => {
                let line = memchr::memchr(b'\n', &self.text.as_bytes()[range.start..range.end])
                    .map_or(range.end, |it| range.start + it + 1);
                // At the outermost level the blanks before it are its own.
                if !self.open.is_empty() {
                    self.fill(range.start);
                }
                self.fill(self.line_start(range.start));
                for (length, style) in opening_looks(&self.text[self.at..line], around) {
                    self.mark(self.at..self.at + length, style);
                }
                let part = Part {
                    range: line..range.end,
                    kind: PartKind::Code {
                        language: language(words),
                    },
                };
                self.open(inside, Ending::Fence(part));
            }
            CodeBlockKind::Indented => {
                let blanks = self.text[self.at..range.start]
                    .trim_end_matches([' ', '\t'])
                    .len();
                self.fill(self.at + blanks);
                self.open(inside, Ending::Plain);
            }
        }
    }

    fn end_fence(&mut self, range: &Range<usize>, mut part: Part) {
        let rest = self.text.get(self.at..range.end).unwrap_or_default();
        let bare = rest.trim_start_matches([' ', '\t', '>']);
        part.range.end = self.at.max(part.range.start);
        if bare.starts_with(['`', '~']) {
            let end = self.trimmed(range);
            let line = end + usize::from(self.text[end..].starts_with('\n'));
            self.mark(self.at..line, closing_look(self.style()));
        } else {
            self.fill(range.end);
            part.range.end = range.end;
        }
        self.painted.parts.push(part);
    }

    fn table(&mut self) -> Option<&mut PartKind> {
        self.open
            .iter_mut()
            .rev()
            .find_map(|it| match &mut it.ending {
                Ending::Table(part) => Some(&mut part.kind),
                _ => None,
            })
    }

    fn begin_row(&mut self, style: Style, ending: Ending) {
        if let Some(PartKind::Table { rows, .. }) = self.table() {
            rows.push(Vec::new());
        }
        self.open(style.with(Style::SIGN), ending);
    }

    fn begin_cell(&mut self, range: Range<usize>) {
        let source = &self.text[range.clone()];
        let from = range.start + (source.len() - source.trim_start().len());
        let to = (range.start + source.trim_end().len()).max(from);
        let head = if self.style().has(Style::TABLE_HEAD) {
            Style::TABLE_HEAD
        } else {
            0
        };
        if let Some(PartKind::Table { rows, .. }) = self.table()
            && let Some(row) = rows.last_mut()
        {
            row.push(from..to);
        }
        let style = self.style().only(Style::TABLE | head);
        self.open(style, Ending::Plain);
    }

    fn end_head(&mut self, range: &Range<usize>) {
        self.fill(range.end);
        let rest = &self.text.as_bytes()[range.end..];
        let end = range.end + memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        if let Some(PartKind::Table { dashes, .. }) = self.table() {
            *dashes = range.end..end;
        }
        let style = self.style();
        self.mark(range.end..end, style);
    }

    fn prose(&mut self, range: Range<usize>) {
        if self.style().has(Style::BLOCK) {
            let style = self.style().only(Style::BLOCK);
            // A tab in place of a fence's indentation is of the code, which would lose it.
            let before = self.text.get(self.at..range.start).unwrap_or_default();
            let tab = before.find('\t').filter(|_| self.is_in_outermost_fence());
            let start = tab.map_or(range.start, |it| self.at + it);
            self.mark(start..range.end, style);
            return;
        }
        if self.prose.end != range.start {
            self.end_prose();
            self.prose.start = range.start;
        }
        self.prose.end = range.end;
        self.fill(range.end);
    }

    fn is_in_outermost_fence(&self) -> bool {
        matches!(
            self.open.as_slice(),
            [OpenElement {
                ending: Ending::Fence(_),
                ..
            }]
        )
    }

    fn end_prose(&mut self) {
        let range = std::mem::replace(&mut self.prose, 0..0);
        if self.links > 0 || range.is_empty() {
            return;
        }
        for found in addresses(&self.text[range.clone()]) {
            let found = range.start + found.start..range.start + found.end;
            let target = self.text[found.clone()].to_owned();
            self.addresses.push(found.clone());
            self.painted.parts.push(Part {
                range: found,
                kind: PartKind::Link { target },
            });
        }
    }

    fn code(&mut self, range: &Range<usize>) {
        let source = &self.text[range.clone()];
        let ticks = source.bytes().take_while(|it| *it == b'`').count();
        let style = self.style();
        if ticks == 1 && are_backquotes(self.text, range) {
            self.mark(range.clone(), style);
            return;
        }
        let inner = range.start + ticks..range.end.saturating_sub(ticks);
        let content = &self.text[inner.clone()];
        let mut inside = style.with(Style::CODE);
        if self.links == 0 && names_file_line(content) {
            inside = inside.with(Style::LINK);
            self.painted.parts.push(Part {
                range: inner.clone(),
                kind: PartKind::Link {
                    target: content.to_owned(),
                },
            });
        }
        let signs = style.with(Style::CODE | Style::MARKUP);
        self.mark(range.start..inner.start, signs);
        self.mark(inner.clone(), inside);
        self.mark(inner.end..range.end, signs);
    }

    fn line_start(&self, at: usize) -> usize {
        memchr::memrchr(b'\n', &self.text.as_bytes()[..at]).map_or(0, |it| it + 1)
    }

    /// The end of RANGE without its line ends.
    fn trimmed(&self, range: &Range<usize>) -> usize {
        range.start + self.text[range.clone()].trim_end_matches('\n').len()
    }

    fn finish(mut self) -> Painted {
        self.end_prose();
        self.fill(self.text.len());
        let mut painted = self.painted;
        mark_quotes(self.text, &self.quotes, &mut painted.runs);
        self.addresses.sort_by_key(|it| it.start);
        add_flags(&mut painted.runs, &self.addresses, Style::LINK);
        painted
    }
}

// Formulas.

/// Where each of RUNS ends.
fn ends(runs: &[Run]) -> Vec<usize> {
    let lengths = runs.iter().map(|it| it.length);
    lengths
        .scan(0, |at, length| {
            *at += length;
            Some(*at)
        })
        .collect()
}

/// Whether FORMULA stands in prose, by the look of the word that it was in PAINTED, whose runs end at ENDS.
fn is_in_prose(formula: &Formula, painted: &Painted, ends: &[usize]) -> bool {
    let range = &formula.range;
    let first = ends.partition_point(|it| *it <= range.start);
    let last = ends.partition_point(|it| *it < range.end);
    let Some([run, more @ ..]) = painted.runs.get(first..=last) else {
        return false;
    };
    let apart = |part: &Part| match &part.kind {
        // An address without the signs of a link.
        PartKind::Link { target } => {
            part.range.len() != target.len() || !overlap(&part.range, range)
        }
        _ => true,
    };
    // HTML ends a block that looks as if it went on.
    let in_one = |starts: &[usize]| {
        let next = starts.partition_point(|it| *it <= range.start);
        starts.get(next).is_none_or(|it| *it >= range.end)
    };
    let prose = [Style::CODE, Style::BLOCK, Style::FENCE, Style::MARKUP];
    prose.iter().all(|it| !run.style.has(*it))
        && in_one(&painted.blocks)
        && in_one(&painted.items)
        && more.iter().all(|it| it.style == run.style)
        && painted.parts.iter().all(apart)
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Adds FORMULAS of TEXT to PAINTED.
fn place_formulas(text: &str, formulas: Vec<Formula>, painted: &mut Painted) {
    let (mut drawn, mut undrawn) = (Vec::new(), Vec::new());
    // A table that is told of later has room for what they look like.
    let mut parts = Vec::new();
    let mut formulas = formulas.into_iter().peekable();
    while let Some(first) = formulas.next() {
        // Those of one line or of lines that hang together.
        let mut group = vec![first];
        let mut end = line_end(text, group[0].range.end);
        while let Some(next) = formulas.next_if(|it| it.range.start < end) {
            end = line_end(text, next.range.end);
            group.push(next);
        }
        // What it is drawn as doesn't imitate a request, either.
        let honest = !drawn_lines(text, &group).split('\n').any(disguised);
        for Formula { range, drawn: text } in group {
            match text {
                Some(text) if honest => {
                    drawn.push(range.clone());
                    let kind = PartKind::Formula { drawn: text };
                    parts.push(Part { range, kind });
                }
                _ => undrawn.push(range),
            }
        }
    }
    parts.append(&mut painted.parts);
    painted.parts = parts;
    add_flags(&mut painted.runs, &drawn, Style::FORMULA);
    add_flags(&mut painted.runs, &undrawn, Style::UNDRAWN);
}

/// The lines of TEXT that GROUP stands in, as they are drawn.
fn drawn_lines(text: &str, group: &[Formula]) -> String {
    let mut lines = String::new();
    let mut at =
        memchr::memrchr(b'\n', &text.as_bytes()[..group[0].range.start]).map_or(0, |it| it + 1);
    for Formula { range, drawn } in group {
        lines.push_str(&text[at..range.start]);
        lines.push_str(drawn.as_deref().unwrap_or(&text[range.clone()]));
        at = range.end;
    }
    lines.push_str(&text[at..line_end(text, at)]);
    lines
}

fn line_end(text: &str, at: usize) -> usize {
    memchr::memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |it| at + it)
}

// Where links lead, also those that are not written as links: plain addresses and `file.lisp:12`.

/// Definitions such as `[here]: https://…` that came before the text at hand.
#[derive(Debug, Default, Clone)]
pub struct Definitions(HashMap<String, String>);

/// More definitions than anybody writes.
const MOST: usize = 1000;
/// Longer addresses are cut.
const LONGEST: usize = 2000;

impl Definitions {
    /// Where NAME leads.
    #[must_use]
    pub fn find<'t>(&self, link: &BrokenLink<'_>) -> Option<(CowStr<'t>, CowStr<'t>)> {
        if self.0.is_empty() {
            return None;
        }
        let target = self.0.get(&folded(&link.reference))?;
        Some((target.clone().into(), CowStr::Borrowed("")))
    }

    /// Remembers those of MORE, too; the first one of a name counts.
    pub fn add(&mut self, more: Self) {
        for (name, target) in more.0 {
            if self.0.len() < MOST {
                self.0.entry(name).or_insert(target);
            }
        }
    }

    /// Remembers those in FOUND; the first one of a name counts.
    pub fn note(&mut self, found: &RefDefs<'_>) {
        for (name, definition) in found.iter() {
            if self.0.len() < MOST {
                self.0
                    .entry(folded(name))
                    .or_insert_with(|| definition.dest.to_string());
            }
        }
    }
}

fn folded(name: &str) -> String {
    name.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

/// The plain addresses in TEXT.
pub fn addresses(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let colon = from + text.get(from..)?.find("://")?;
            let start = ["https", "http"].into_iter().find_map(|scheme| {
                let before = text[..colon].strip_suffix(scheme)?;
                (!before.ends_with(char::is_alphanumeric)).then_some(before.len())
            });
            let after = colon + 3;
            let ends =
                |it: char| it.is_whitespace() || it.is_control() || "<>\"`|\\^{}".contains(it);
            let end = text[after..]
                .char_indices()
                .find(|(at, it)| ends(*it) || *at > LONGEST)
                .map_or(text.len(), |(at, _)| after + at);
            from = end;
            let end = trimmed(&text[..end], after);
            if let Some(start) = start
                && end > after
            {
                return Some(start..end);
            }
        }
    })
}

/// The end of TEXT without the signs of the sentence that it stands in.
fn trimmed(text: &str, least: usize) -> usize {
    let mut end = text.len();
    while end > least {
        let rest = &text[..end];
        let open = rest[least..].matches('(').count();
        let close = rest[least..].matches(')').count();
        if rest.ends_with(['.', ',', ';', ':', '!', '?', '\'', '*', '_', ']'])
            || (rest.ends_with(')') && close > open)
        {
            end -= 1;
        } else {
            break;
        }
    }
    end
}

/// Whether CODE names a line of a file, as `src/shop.lisp:12` does.
#[must_use]
fn names_file_line(code: &str) -> bool {
    let Some((file, place)) = code.split_once(':') else {
        return false;
    };
    let numbers =
        |it: &str| !it.is_empty() && it.len() < 8 && it.bytes().all(|it| it.is_ascii_digit());
    let kind = file.rsplit_once('.').is_some_and(|(stem, kind)| {
        !stem.is_empty() && !kind.is_empty() && kind.bytes().all(|it| it.is_ascii_alphanumeric())
    });
    kind && code.len() < 300 && !file.contains(char::is_whitespace) && place.split(':').all(numbers)
}

// Looks that are laid over those of the parser's elements: the marks of quotes, whole lines.

/// Changes the look of RANGES, which are in order and apart, by CHANGE.
fn overlay(runs: &mut Vec<Run>, ranges: &[Range<usize>], change: impl Fn(Style) -> Style) {
    if ranges.is_empty() {
        return;
    }
    let mut made = Vec::with_capacity(runs.len() + 2 * ranges.len());
    let mut ranges = ranges.iter().peekable();
    let mut at = 0;
    for run in runs.iter() {
        let end = at + run.length;
        while at < end {
            while ranges.peek().is_some_and(|it| it.end <= at) {
                ranges.next();
            }
            let (to, style) = match ranges.peek() {
                Some(range) if range.start <= at => (range.end.min(end), change(run.style)),
                Some(range) => (range.start.min(end), run.style),
                None => (end, run.style),
            };
            push(&mut made, to - at, style);
            at = to;
        }
    }
    *runs = made;
}

/// Adds FLAGS to the look of RANGES, which are in order and apart.
fn add_flags(runs: &mut Vec<Run>, ranges: &[Range<usize>], flags: u32) {
    overlay(runs, ranges, |style| style.with(flags));
}

/// Marks the signs of QUOTES, the outer ones first, at the beginning of each of their lines in TEXT.
fn mark_quotes(text: &str, quotes: &[Range<usize>], runs: &mut Vec<Run>) {
    let bytes = text.as_bytes();
    let mut seen: HashMap<usize, usize> = HashMap::new();
    let mut marks = Vec::new();
    for quote in quotes {
        let mut line = memchr::memrchr(b'\n', &bytes[..quote.start]).map_or(0, |it| it + 1);
        let mut from = quote.start;
        while line < quote.end {
            let start = seen.get(&line).copied().unwrap_or(line).max(from);
            let blanks = bytes[start..]
                .iter()
                .take_while(|it| matches!(it, b' ' | b'\t'))
                .count();
            let mark = start + blanks;
            if bytes.get(mark) == Some(&b'>') {
                marks.push(mark..mark + 1);
                seen.insert(line, mark + 1);
            }
            let Some(length) = memchr::memchr(b'\n', &bytes[line..]) else {
                break;
            };
            line += length + 1;
            from = line;
        }
    }
    marks.sort_by_key(|it| it.start);
    overlay(runs, &marks, |style| {
        if style == closing_look(style) {
            style
        } else {
            style.only(Style::QUOTE_MARK)
        }
    });
}

/// The lines of TEXT that begin like those of a request, but for lines of code.
#[must_use]
fn masks(text: &str, runs: &[Run]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut run, mut passed) = (0, 0);
    let mut start = 0;
    for line in text.split('\n') {
        let end = start + line.len();
        if disguised(line) {
            while run < runs.len() && passed + runs[run].length < end {
                passed += runs[run].length;
                run += 1;
            }
            let code = runs
                .get(run)
                .is_some_and(|it| it.style.has(Style::BLOCK) || it.style.has(Style::FENCE));
            if !code {
                found.push(start..end);
            }
        }
        start = end + 1;
    }
    found
}
