// SPDX-License-Identifier: GPL-3.0-or-later
//! The text of a page in HTML, as one reads it: headings, lists, code and tables in the signs of Markdown,
//! links as numbers. What a reader of the page doesn't see, such as scripts and hidden elements, is left out,
//! as it could be there for models alone. It is read token by token, without a tree.

use std::collections::HashMap;

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};
use url::Url;

use super::address::LONGEST;
use super::media::visible;
use super::writer::Writer;

/// The text of a page, and what is where in it.
#[derive(Debug, Default)]
pub(super) struct PageText {
    pub(super) title: String,
    pub(super) text: String,
    /// Where each link stands, and its number.
    pub(super) links: Vec<(usize, usize)>,
    /// The addresses of the links; the first has the number 1.
    pub(super) addresses: Vec<Url>,
    /// Where each heading begins.
    pub(super) headings: Vec<usize>,
    /// Where the wanted part begins, if it was found.
    pub(super) start: Option<usize>,
}

/// The text of the page HTML, which came from ADDRESS. The part called FRAGMENT is wanted.
pub(super) fn page_text(html: &str, address: &Url, fragment: Option<&str>) -> PageText {
    let mut reader = PageReader {
        base: address.clone(),
        address,
        fragment,
        writer: Writer::default(),
        page: PageText::default(),
        numbers: HashMap::new(),
        skipped: None,
        in_title: false,
        open: Vec::new(),
        lists: Vec::new(),
        cells: Cells::None,
    };
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => reader.start(&tag),
            Token::EndTag(tag) => reader.end(&String::from_utf8_lossy(&tag.name)),
            Token::String(text) => reader.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    reader.finish()
}

/// Elements without an end.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
];

/// Elements whose content is not shown as text.
const UNREAD: &[&str] = &[
    "audio", "canvas", "datalist", "dialog", "iframe", "math", "noembed", "noframes", "noscript",
    "object", "script", "select", "style", "svg", "template", "textarea", "video",
];

/// Elements that stand on lines of their own.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "body",
    "caption",
    "center",
    "details",
    "div",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "html",
    "legend",
    "main",
    "nav",
    "section",
    "summary",
    "tbody",
    "tfoot",
    "thead",
];

/// The same with an empty line around them.
const PARAGRAPHS: &[&str] = &[
    "blockquote",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "p",
    "table",
];

/// Elements whose end tag may be left out, with the elements that end them.
const ENDED_BY: &[(&str, &[&str])] = &[
    ("li", &["li"]),
    ("dt", &["dt", "dd"]),
    ("dd", &["dt", "dd"]),
    ("tr", &["tr", "tbody", "tfoot"]),
    ("td", &["td", "th", "tr", "tbody", "tfoot"]),
    ("th", &["td", "th", "tr", "tbody", "tfoot"]),
    ("tbody", &["tbody", "tfoot"]),
    ("thead", &["tbody", "tfoot"]),
];

/// How much of a title is told.
const LONGEST_TITLE: usize = 200;

/// The most links that are kept. Each has all of its address, however short it is on the page.
const MOST_LINKS: usize = 20_000;

/// How deep lists are indented.
const DEEPEST_LIST: usize = 10;

/// How many lists may be open, and elements within a skipped one, before more are not counted.
const DEEPEST: usize = 200;

/// An element that is left out, with the elements that are open in it.
struct Skipped {
    name: String,
    inner: Vec<String>,
}

/// A link that is open: where it leads, and where its text begins.
struct OpenLink {
    to: Option<Url>,
    at: usize,
}

/// A list that is open.
#[derive(PartialEq, Eq)]
enum List {
    Bullets,
    /// The next number.
    Numbers(i64),
    /// Of words; whether it is at a word, or at what is said of one.
    Words(WordPart),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WordPart {
    Word,
    Meaning,
}

/// Where a row of a table is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cells {
    None,
    /// No cell of it has begun.
    Fresh,
    Begun,
}

struct PageReader<'p> {
    base: Url,
    address: &'p Url,
    fragment: Option<&'p str>,
    writer: Writer,
    page: PageText,
    numbers: HashMap<Url, usize>,
    skipped: Option<Skipped>,
    in_title: bool,
    open: Vec<OpenLink>,
    lists: Vec<List>,
    cells: Cells,
}

impl PageReader<'_> {
    fn start(&mut self, tag: &StartTag<()>) {
        let name = String::from_utf8_lossy(&tag.name);
        let name = name.as_ref();
        let is_void = VOID.contains(&name);
        if self.skips_start(name, is_void) {
            return;
        }
        // The place of a part counts even where nothing of the element itself is shown.
        let named = [
            attribute(tag, "id"),
            attribute(tag, "name").filter(|_| name == "a"),
        ];
        if self
            .fragment
            .is_some_and(|it| named.iter().flatten().any(|id| id == it))
        {
            self.writer.mark_next();
        }
        // Some pages show themselves by a script.
        let is_whole_page = matches!(name, "html" | "body");
        if UNREAD.contains(&name) || (is_hidden(tag) && !is_whole_page) {
            // Here `<svg/>` has no end; elsewhere the slash means nothing.
            let is_whole = is_void || (tag.self_closing && matches!(name, "svg" | "math"));
            self.skipped = (!is_whole).then(|| Skipped {
                name: name.to_owned(),
                inner: Vec::new(),
            });
            return;
        }
        self.open_element(name, tag);
    }

    /// Whether the start of the element NAME is within one that is left out.
    fn skips_start(&mut self, name: &str, is_void: bool) -> bool {
        let Some(skipped) = &mut self.skipped else {
            return false;
        };
        // Those in it end with it.
        let is_outermost = skipped.inner.iter().all(|it| ends_with_others(it));
        let ends = match skipped.name.as_str() {
            "p" => BLOCKS.contains(&name) || PARAGRAPHS.contains(&name) || is_list(name),
            outer => ENDED_BY
                .iter()
                .any(|(it, by)| *it == outer && by.contains(&name)),
        };
        if is_outermost && ends {
            self.skipped = None;
            return false;
        }
        if !is_void && skipped.inner.len() < DEEPEST {
            skipped.inner.push(name.to_owned());
        }
        true
    }

    fn open_element(&mut self, name: &str, tag: &StartTag<()>) {
        let writer = &mut self.writer;
        match name {
            "title" => self.in_title = self.page.title.is_empty(),
            "base" => {
                let base = attribute(tag, "href").and_then(|it| self.address.join(&it).ok());
                if let Some(base) = base.filter(|it| it.as_str().len() <= LONGEST) {
                    self.base = base;
                }
            }
            "br" => writer.line(),
            "hr" => {
                writer.block(2);
                writer.put("---");
                writer.block(2);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                writer.block(2);
                let level = usize::from(name.as_bytes()[1] - b'0');
                writer.open_mark(&format!("{} ", "#".repeat(level)), 0);
                self.page.headings.push(writer.next_place());
            }
            "ul" | "ol" | "menu" | "li" | "dl" | "dt" | "dd" => self.start_in_list(name, tag),
            "pre" | "listing" | "xmp" | "plaintext" => writer.begin_pre(),
            "code" | "kbd" | "samp" | "tt" => writer.begin_code(),
            "a" => {
                let to = attribute(tag, "href").and_then(|it| self.link(&it));
                let at = self.writer.place();
                self.open.push(OpenLink { to, at });
            }
            "img" => {
                let alt = attribute(tag, "alt").filter(|it| !it.trim().is_empty());
                if let Some(alt) = alt {
                    writer.words(&visible(&format!("[image: {}]", alt.trim())));
                }
            }
            "tr" => {
                writer.block(1);
                self.cells = Cells::Fresh;
            }
            "td" | "th" => {
                if self.cells == Cells::Begun {
                    writer.cell();
                }
                // A paragraph in it begins beside the sign.
                writer.open_mark("", 0);
                self.cells = Cells::Begun;
            }
            _ => self.around(name),
        }
    }

    fn start_in_list(&mut self, name: &str, tag: &StartTag<()>) {
        match name {
            "li" => {
                self.writer.block(1);
                let sign = match self.lists.last_mut() {
                    Some(List::Numbers(number)) => {
                        *number = number.saturating_add(1);
                        format!("{}. ", *number - 1)
                    }
                    _ => "- ".to_owned(),
                };
                self.writer.open_mark(&sign, 2);
            }
            "dt" => {
                self.turn_to(WordPart::Word);
                self.writer.block(1);
            }
            "dd" => {
                self.turn_to(WordPart::Meaning);
                self.writer.block(1);
                self.writer.open_mark("", 0);
            }
            _ => {
                let lines = if self.lists.is_empty() { 2 } else { 1 };
                self.writer.block(lines);
                if self.lists.len() >= DEEPEST {
                    return;
                }
                let first = attribute(tag, "start").and_then(|it| it.parse().ok());
                self.lists.push(match name {
                    "ol" => List::Numbers(first.unwrap_or(1)),
                    "dl" => List::Words(WordPart::Word),
                    _ => List::Bullets,
                });
                self.indent();
            }
        }
    }

    fn end(&mut self, name: &str) {
        if self.skips_end(name) {
            return;
        }
        match name {
            "title" => self.in_title = false,
            "ul" | "ol" | "menu" => self.end_list(|it| !matches!(it, List::Words(_))),
            "dl" => self.end_list(|it| matches!(it, List::Words(_))),
            "dd" => {
                self.writer.end_item();
                self.turn_to(WordPart::Word);
            }
            "li" | "tr" => self.writer.end_item(),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.writer.end_item();
                self.writer.block(2);
            }
            "pre" | "listing" | "xmp" => self.writer.end_pre(),
            "code" | "kbd" | "samp" | "tt" => self.writer.end_code(),
            "a" => self.end_link(),
            _ => self.around(name),
        }
    }

    /// Whether the end of the element NAME is within one that is left out, or its end.
    fn skips_end(&mut self, name: &str) -> bool {
        let Some(skipped) = &mut self.skipped else {
            return false;
        };
        if let Some(inner) = skipped.inner.iter().rposition(|it| it == name) {
            skipped.inner.truncate(inner);
            return true;
        }
        let is_own = skipped.name == name;
        // An element around it ends, and it with that.
        let is_outer = ends_with_others(&skipped.name);
        if is_own || is_outer {
            self.skipped = None;
        }
        is_own || !is_outer
    }

    /// Ends the last list that IS_MEANT, and those in it.
    fn end_list(&mut self, is_meant: impl Fn(&List) -> bool) {
        if let Some(last) = self.lists.iter().rposition(is_meant) {
            self.lists.truncate(last);
        }
        self.indent();
        self.writer.end_item();
        let lines = if self.lists.is_empty() { 2 } else { 1 };
        self.writer.block(lines);
    }

    /// PART comes next in the list of words, if this is in one.
    fn turn_to(&mut self, part: WordPart) {
        if let Some(List::Words(now)) = self.lists.last_mut() {
            *now = part;
        }
        self.indent();
    }

    fn indent(&mut self) {
        let is_indented = |it: &&List| **it != List::Words(WordPart::Word);
        let depth = self
            .lists
            .iter()
            .filter(is_indented)
            .take(DEEPEST_LIST)
            .count();
        self.writer.indent(depth * 2);
    }

    /// The line ends before or behind the element NAME.
    fn around(&mut self, name: &str) {
        if PARAGRAPHS.contains(&name) {
            self.writer.block(2);
        } else if BLOCKS.contains(&name) {
            self.writer.block(1);
        }
    }

    /// Where HREF leads, if that is another page that can be fetched.
    fn link(&self, href: &str) -> Option<Url> {
        let url = self.base.join(href.trim()).ok()?;
        let without_fragment = |url: &Url| {
            let mut url = url.clone();
            url.set_fragment(None);
            url
        };
        let is_page = matches!(url.scheme(), "http" | "https") && url.as_str().len() <= LONGEST;
        (is_page && without_fragment(&url) != without_fragment(self.address)).then_some(url)
    }

    fn end_link(&mut self) {
        let Some(OpenLink { to, at }) = self.open.pop() else {
            return;
        };
        // The signs by which a heading links to itself.
        if self
            .writer
            .drop_since(at, &["\u{b6}", "#", "\u{a7}", "\u{1f517}"])
        {
            return;
        }
        let Some(to) = to.filter(|_| self.writer.place() > at && !self.writer.is_in_pre()) else {
            return;
        };
        let count = self.numbers.len();
        if count >= MOST_LINKS && !self.numbers.contains_key(&to) {
            return;
        }
        let number = *self.numbers.entry(to.clone()).or_insert_with(|| {
            self.page.addresses.push(to);
            count + 1
        });
        self.page.links.push((self.writer.place(), number));
        self.writer.glue(&format!("[{number}]"));
    }

    fn text(&mut self, text: &str) {
        if self.skipped.is_some() {
            return;
        }
        let text = visible(text);
        if self.in_title {
            self.page.title.push_str(&text);
        } else {
            self.writer.words(&text);
        }
    }

    fn finish(mut self) -> PageText {
        self.writer.end_pre();
        let title: String = self.page.title.chars().take(LONGEST_TITLE).collect();
        self.page.title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        let (text, start) = self.writer.finish();
        self.page.headings.retain(|it| *it < text.len());
        PageText {
            text,
            start,
            ..self.page
        }
    }
}

/// Whether the end tag of the element NAME may be left out, as it ends with others.
fn ends_with_others(name: &str) -> bool {
    name == "p" || ENDED_BY.iter().any(|(it, _)| *it == name)
}

fn is_list(name: &str) -> bool {
    matches!(name, "dl" | "ul" | "ol" | "menu" | "pre" | "hr")
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Whether a reader of the page sees nothing of the element that TAG begins, as far as that says it.
fn is_hidden(tag: &StartTag<()>) -> bool {
    if attribute(tag, "hidden").is_some()
        || attribute(tag, "aria-hidden").as_deref() == Some("true")
    {
        return true;
    }
    let style = attribute(tag, "style")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let style: String = style.split_whitespace().collect();
    style
        .split(';')
        .filter_map(|it| it.split_once(':'))
        .any(|(name, value)| {
            let value = value.trim_end_matches("!important");
            let is_zero = value.trim_end_matches(|it: char| it.is_ascii_alphabetic() || it == '%');
            match name {
                "display" => value == "none",
                "visibility" => matches!(value, "hidden" | "collapse"),
                "opacity" | "font-size" => is_zero.parse() == Ok(0.0),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> PageText {
        let address = "https://a.org/doc/x.html".parse().unwrap();
        page_text(html, &address, Some("part"))
    }

    /// A page of 5 MB could have addresses of many gigabytes.
    #[test]
    fn addresses_do_not_fill_the_memory() {
        let long = "x".repeat(LONGEST);
        let page = read(&format!(
            "<base href='/{long}/'><a href=?1>a</a> <a href='/{long}'>b</a>"
        ));
        assert_eq!(page.text, "a[1] b");
        assert_eq!(page.addresses[0].as_str(), "https://a.org/doc/x.html?1");
        let links: String = (0..30_000)
            .map(|it| format!("<a href=?{it}>a</a>"))
            .collect();
        assert_eq!(read(&links).addresses.len(), MOST_LINKS);
    }

    #[test]
    fn a_page_is_read_as_it_looks() {
        for (html, text) in [
            ("<p>one<p>two\n  three", "one\n\ntwo three"),
            (
                "<h1>A <i>b</i></h1>c<h3>d</h3><p>e",
                "# A b\n\nc\n\n### d\n\ne",
            ),
            (
                "x<h2><a href='#b'>\u{a7}</a>B</h2><h2>C <a href='#c'>#</a></h2>d",
                "x\n\n## B\n\n## C\n\nd",
            ),
            ("<p>a<p><a href='#b'>#</a>b", "a\n\nb"),
            ("a<br>b<hr>c", "a\nb\n\n---\n\nc"),
            ("<div>a</div><div>b</div>c", "a\nb\nc"),
            (
                "a&nbsp;&amp;&lt;b&gt; &eacute; &#955; &nonsense;",
                "a &<b> \u{e9} \u{3bb} &nonsense;",
            ),
            (
                "<ul><li>a<li><p>b</p><ol start=3><li>c</li><li>d</ol></ul>e",
                "- a\n- b\n\n  3. c\n  4. d\n\ne",
            ),
            ("<ul><li></li></ul><p>a", "a"),
            ("<dl><dt>t<dd>d<p>e<dt>u</dl>x", "t\n  d\n\n  e\nu\n\nx"),
            (
                "<dl><dt>t<dd>d<dl><dt>u<dd>e<ul><li>f</ul></dd></dl></dd></dl>x",
                "t\n  d\n  u\n    e\n    - f\n\nx",
            ),
            (
                "<ul><li><p>a<p>b<pre>c\nd</pre></li></ul>e",
                "- a\n\n  b\n\n  ```\n  c\n  d\n  ```\n\ne",
            ),
            (
                "<table><tr><th>a<th>b</tr><tr><td><p>c</p></td><td>d</td></table>",
                "a | b\nc | d",
            ),
            ("x <code> f </code> <tt></tt>(<kbd>y</kbd>)", "x `f` (`y`)"),
            (
                "a<pre>\n(defun <b>f</b> ()\n  &quot;x&quot;)\n</pre>b",
                "a\n\n```\n(defun f ()\n  \"x\")\n```\n\nb",
            ),
            ("<pre>```</pre>", "````\n```\n````"),
            ("<pre><div>a</div><div>b</div></pre>", "```\na\nb\n```"),
            ("<img src=x alt='a cat'> <img src=y>.", "[image: a cat] ."),
            ("a</p></div></ul></td></li>b", "a\n\nb"),
        ] {
            assert_eq!(read(html).text, text, "{html}");
        }
    }

    #[test]
    fn what_no_reader_sees_is_left_out() {
        for html in [
            "a<script>x</script> b",
            "a<script>if (1 < 2) '<p>x</p>'</script> b",
            "a<style>x</style> b",
            "a<!-- x --> b",
            "a<!-- x > x --> b",
            "a<template><p>x</template> b",
            "a<noscript><p>x</noscript> b",
            "a<svg><title>x</title></svg> b",
            "a<svg/> b",
            "a<span hidden>x<span>x</span>x</span> b",
            "a<span aria-hidden=true>x</span> b",
            "a<span style='color:red; DISPLAY : none'>x</span> b",
            "a<span style='visibility:hidden !important'>x</span> b",
            "a<span style='opacity:0.0'>x</span> b",
            "a<span style='font-size:0px'>x</span> b",
            "a<span hidden>x</i></b>x</span> b",
            "a<input hidden value=x> b",
            "a<select><option>x</select> b",
        ] {
            assert_eq!(read(html).text, "a b", "{html}");
        }
        for (html, text) in [
            ("<p hidden>x<p>a", "a"),
            ("<div><p hidden>x</div>a", "a"),
            ("<ul><li hidden>x<li>a</ul>", "- a"),
            ("<table><tr hidden><td>x<tr><td>a</table>", "a"),
            ("<div hidden>x<div>x</div>x</div>a", "a"),
            ("<div hidden>x</section>x</div>a", "a"),
            ("<span style='opacity:0.5'>a</span>", "a"),
            ("<div hidden>x", ""),
            ("<script>x", ""),
            ("<body style='visibility:hidden'>a", "a"),
        ] {
            assert_eq!(read(html).text, text, "{html}");
        }
    }

    #[test]
    fn links_are_numbered_and_lead_where_the_page_says() {
        let page = read(
            "<a href=y.html>one</a>, <a href='/z?a=1#b'>two</a>, <a href='https://b.org/'><code>f</code></a>,
             <a href=y.html>one again</a>, <a href='#part'>here</a>, <a href='mailto:x@a.org'>mail</a>,
             <a href='javascript:x'>js</a>, <a name=q>no link</a>, <a href=w.html></a>, <a href=':'>odd</a>
             <h2>H<a href='#h'>\u{b6}</a></h2><pre><a href=v.html>code</a></pre>",
        );
        assert_eq!(
            page.text,
            "one[1], two[2], `f`[3], one again[1], here, mail, js, no link, , odd[4]\n\n## H\n\n```\ncode\n```"
        );
        let addresses: Vec<&str> = page.addresses.iter().map(Url::as_str).collect();
        assert_eq!(
            addresses,
            [
                "https://a.org/doc/y.html",
                "https://a.org/z?a=1#b",
                "https://b.org/",
                "https://a.org/doc/:"
            ]
        );
        let page = read("<base href='/other/'><a href=y>a</a>");
        assert_eq!(page.addresses[0].as_str(), "https://a.org/other/y");
    }

    #[test]
    fn the_title_and_the_wanted_part_are_found() {
        let page = read("<title> A\n&amp; b </title><p>x<h2 id=part>Part</h2>y<p id=part>z");
        assert_eq!(page.title, "A & b");
        assert_eq!(page.text, "x\n\n## Part\n\ny\n\nz");
        assert_eq!(
            page.start.map(|it| &page.text[it..]),
            Some("## Part\n\ny\n\nz")
        );
        let start = |html| {
            let page = read(html);
            page.start.map(|it| page.text[it..].to_owned())
        };
        assert_eq!(start("a <a name=part></a>b").as_deref(), Some("b"));
        assert_eq!(
            start("a<span hidden id=part>x</span><p>b").as_deref(),
            Some("b")
        );
        assert_eq!(start("a<p id=other>b"), None);
        assert_eq!(start("a<p id=part>"), None);
    }

    #[test]
    fn a_deep_or_endless_page_takes_no_longer_than_a_flat_one() {
        for html in [
            "<div>".repeat(50_000),
            "<ul><li>".repeat(50_000) + "x",
            format!("<div hidden>{}", "<b>".repeat(50_000)),
            "<a href=x>".repeat(50_000),
            "</p>".repeat(50_000),
            "<pre>".repeat(50_000),
        ] {
            assert!(read(&html).text.len() < 10_000_000);
        }
    }
}
