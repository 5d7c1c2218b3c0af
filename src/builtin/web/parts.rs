// SPDX-License-Identifier: GPL-3.0-or-later
//! A page in parts that each fit into a result: where it is cut, and the links of each part.

use std::ops::Range;

use url::Url;

use super::html::PageText;
use crate::visible::spelled;

/// How many bytes of a page a part has, without its links.
const PART: usize = 11_000;

/// How many bytes the list of a part's links has, and how long a link may be.
const LINKS: usize = 3000;
const LONGEST_LINK: usize = 300;

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PagePart {
    /// Its text, with its links.
    pub(super) text: String,
    /// Its first heading, or else its first line, and its last heading.
    pub(super) sections: String,
}

impl PagePart {
    /// How often WORDS are in it, whatever their letter case.
    pub(super) fn count(&self, words: &str) -> usize {
        self.text
            .to_lowercase()
            .matches(&words.to_lowercase())
            .count()
    }
}

/// PAGE, which is at ADDRESS, from the wanted place on. There is always one part.
pub(super) fn parts(page: &PageText, address: &Url) -> Vec<PagePart> {
    let start = page.start.unwrap_or(0);
    let mut parts = Vec::new();
    let mut from = start;
    while from < page.text.len() || parts.is_empty() {
        let to = end_of_part(page, from);
        let range = from..to;
        parts.push(PagePart {
            sections: sections(page, &range),
            text: page.text[range.clone()].trim_end().to_owned() + &links(page, &range, address),
        });
        from = to;
    }
    parts
}

/// Where the part that begins at FROM ends: before a heading, a paragraph or a line, if one begins in its
/// second half.
fn end_of_part(page: &PageText, from: usize) -> usize {
    let text = &page.text;
    let most = floor(text, from + PART);
    if most == text.len() {
        return most;
    }
    let least = floor(text, from + PART / 2);
    let headings = page.headings.iter().rev();
    let heading = headings
        .copied()
        .find(|it| (least..=most).contains(it) && text.is_char_boundary(*it));
    let half = &text[least..most];
    let at = |sign: &str| half.rfind(sign).map(|it| least + it + sign.len());
    heading
        .or_else(|| at("\n\n"))
        .or_else(|| at("\n"))
        .or_else(|| at(" "))
        .unwrap_or(most)
}

/// The last place in TEXT at which a character begins, and not behind PLACE.
fn floor(text: &str, place: usize) -> usize {
    let place = place.min(text.len());
    (0..=place)
        .rev()
        .find(|&it| text.is_char_boundary(it))
        .unwrap_or(0)
}

/// The first and the last heading in the part RANGE of PAGE; where it has none, its first line.
fn sections(page: &PageText, range: &Range<usize>) -> String {
    let line = |from: usize| {
        let text = page.text.get(from..range.end).unwrap_or_default();
        let line = text.trim_start().lines().next().unwrap_or_default();
        spelled(line.trim_start_matches('#').trim(), 60)
    };
    let mut headings = page.headings.iter().filter(|it| range.contains(it));
    match (headings.next(), headings.next_back()) {
        (None, _) => line(range.start),
        (Some(first), None) => line(*first),
        (Some(first), Some(last)) => format!("{} to {}", line(*first), line(*last)),
    }
}

/// The links in the part RANGE of PAGE, as a list behind it.
fn links(page: &PageText, range: &Range<usize>, address: &Url) -> String {
    let mut numbers: Vec<usize> = page
        .links
        .iter()
        .filter(|(place, _)| range.contains(place))
        .map(|(_, number)| *number)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.is_empty() {
        return String::new();
    }
    let mut list = format!(
        "\n\nLinks, on {} unless they say more:",
        address.origin().ascii_serialization()
    );
    let most = list.len() + LINKS;
    for (position, number) in numbers.iter().enumerate() {
        let Some(to) = page.addresses.get(number - 1) else {
            continue;
        };
        let line = match to.as_str() {
            text if text.len() > LONGEST_LINK => {
                format!("\n[{number}] (of {} characters)", text.len())
            }
            _ => format!("\n[{number}] {}", shortly(to, address)),
        };
        if list.len() + line.len() > most {
            list.push_str(&format!("\n(and {} more)", numbers.len() - position));
            break;
        }
        list.push_str(&line);
    }
    list
}

/// The address TO as a page at ADDRESS can say it.
fn shortly<'u>(to: &'u Url, address: &Url) -> &'u str {
    match to.origin() == address.origin() {
        true => &to[url::Position::BeforePath..],
        false => to.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::html::page_text;
    use super::*;

    fn address() -> Url {
        "https://a.org/doc/x.html".parse().unwrap()
    }

    #[test]
    fn a_page_is_cut_before_headings_and_each_part_has_its_links() {
        let filler = "word ".repeat(1500);
        let html = format!(
            "<h1>One</h1><p>{filler}<a href=y.html>y</a><h2 id=two>Two</h2>{filler}<h3>Three</h3><a href='https://b.org/'>b</a> <a href=y.html>again</a>"
        );
        let page = page_text(&html, &address(), None);
        let parts = parts(&page, &address());
        assert_eq!(parts.len(), 2);
        assert_eq!(
            (parts[0].sections.as_str(), parts[1].sections.as_str()),
            ("One", "Two to Three")
        );
        assert!(parts[0].text.ends_with(
            "word y[1]\n\nLinks, on https://a.org unless they say more:\n[1] /doc/y.html"
        ));
        assert!(parts[1].text.starts_with("## Two\n\nword"));
        assert!(
            parts[1]
                .text
                .ends_with("[1] /doc/y.html\n[2] https://b.org/")
        );
        let from_two = super::parts(&page_text(&html, &address(), Some("two")), &address());
        assert_eq!(from_two, parts[1..]);
        assert_eq!((parts[0].count("TWO"), parts[1].count("two")), (0, 1));
    }

    #[test]
    fn lists_of_links_are_bounded() {
        let links: String = (0..500).map(|it| format!("<a href=/{it}>a</a> ")).collect();
        let long = format!("<a href=/{}>b</a>", "x".repeat(400));
        let page = page_text(&(long + &links), &address(), None);
        let parts = parts(&page, &address());
        assert!(
            parts[0]
                .text
                .contains("\n[1] (of 414 characters)\n[2] /0\n")
        );
        assert!(parts[0].text.ends_with(" more)"));
        assert!(parts.iter().all(|it| it.text.len() < PART + LINKS + 100));
    }

    #[test]
    fn an_empty_page_is_one_part() {
        let parts = parts(&PageText::default(), &address());
        assert_eq!((parts.len(), parts[0].text.as_str()), (1, ""));
    }

    proptest! {
        #[test]
        fn the_parts_are_all_of_a_text(text in "[a-zé\n #]{0,200}", times in 1..500_usize) {
            let page = PageText { text: text.repeat(times), ..PageText::default() };
            let parts = parts(&page, &address());
            let squeezed = |text: &str| text.split_whitespace().collect::<String>();
            let joined: String = parts.iter().map(|it| squeezed(&it.text)).collect();
            prop_assert_eq!(joined, squeezed(&page.text));
            prop_assert!(parts.iter().all(|it| it.text.len() <= PART));
        }

        #[test]
        fn any_text_is_a_page(html in r#"(<[/]?(p|li|ul|ol|pre|code|a href=x|table|tr|td|h1|div hidden|p hidden|script|title|svg|template|br|dd|base href=/)>|[ \n]|[a-z¶`<&]){0,60}"#) {
            let page = page_text(&html, &address(), Some("x"));
            parts(&page, &address());
        }
    }
}
