// SPDX-License-Identifier: GPL-3.0-or-later
//! From the parser's events to runs of styles and to the parts of a text that somebody can act on.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag};

use super::fence::language;
use super::lines::are_backquotes;
use super::links::{Definitions, addresses, names_file_line};
use super::overlay::{add_flags, mark_quotes, masks};
use super::part::{Alignment, Part, PartKind};
use super::style::{DEEPEST_QUOTE, Run, Style, WIDEST_INDENT, push};

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
            self.open(style, Ending::Plain);
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
                self.mark(self.at..line, around.only(Style::FENCE | Style::SIGN));
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
            let style = self.style().only(Style::FENCE | Style::SIGN);
            self.mark(self.at..self.trimmed(range), style);
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
        let masks = masks(self.text, &painted.runs);
        add_flags(&mut painted.runs, &masks, Style::DISGUISE);
        painted
    }
}
