// SPDX-License-Identifier: GPL-3.0-or-later
//! The words of a body that is no JSON: in whatever character set it came, and without the markup where it
//! is a page of HTML. Pure.

use encoding_rs::{Encoding, GB18030, UTF_8, WINDOWS_1252};

/// The text of BYTES, which came with the header CONTENT_TYPE.
#[must_use]
pub fn decoded(bytes: &[u8], content_type: Option<&str>) -> String {
    let encoding = match content_type.and_then(named) {
        Some(encoding) => encoding,
        None if std::str::from_utf8(bytes).is_ok() => UTF_8,
        None => guessed(bytes),
    };
    encoding.decode(bytes).0.into_owned()
}

fn named(content_type: &str) -> Option<&'static Encoding> {
    let (_, label) = content_type.split_once("charset=")?;
    let label = label.split(';').next().unwrap_or_default();
    Encoding::for_label(label.trim_matches(['"', '\'', ' ']).as_bytes())
}

/// The likeliest encoding of BYTES, which are no UTF-8: in Chinese, bytes beyond ASCII come in rows.
/// A body that was cut within a character is UTF-8 nevertheless.
fn guessed(bytes: &[u8]) -> &'static Encoding {
    let cut = std::str::from_utf8(bytes)
        .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() > 0);
    if cut {
        UTF_8
    } else if bytes
        .chunk_by(|left, right| left.is_ascii() == right.is_ascii())
        .any(|run| run.len() >= 4 && !run[0].is_ascii())
    {
        GB18030
    } else {
        WINDOWS_1252
    }
}

#[must_use]
pub fn is_html(text: &str) -> bool {
    let start = text.trim_start().get(..256).unwrap_or(text.trim_start());
    let start = start.to_ascii_lowercase();
    start.starts_with('<')
        && [
            "<!doctype",
            "<html",
            "<head",
            "<body",
            "<title",
            "<h1",
            "<center",
        ]
        .iter()
        .any(|tag| start.contains(tag))
}

/// What a reader sees of the page HTML: no tags, no styles, no scripts.
#[must_use]
pub fn readable(html: &str) -> String {
    // What these tags hold is not for readers.
    const UNSEEN: [&str; 4] = ["style", "script", "svg", "noscript"];
    let mut text = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        let tag = &rest[start..];
        let end = if tag.starts_with("<!--") {
            tag.find("-->").map(|end| end + 3)
        } else {
            let begins = |name: &&&str| {
                let beginning = tag.as_bytes().get(1..=name.len());
                beginning.is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()))
            };
            let closing = UNSEEN
                .iter()
                .find(begins)
                .and_then(|name| tag.to_ascii_lowercase().find(&format!("</{name}")));
            let from = closing.unwrap_or(0);
            tag[from..].find('>').map(|end| from + end + 1)
        };
        text.push(' ');
        rest = end.map_or("", |end| &tag[end..]);
    }
    text.push_str(rest);
    for (entity, character) in [
        ("&nbsp;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, character);
    }
    // A title is often the heading, too.
    let mut lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.dedup();
    lines
        .join(" ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_what_a_reader_sees() {
        let page = "<!DOCTYPE html><html><head><title>502</title>\n<style>h1 { color: red }</style>\
                    <!-- <p>no</p> --><script>if (1 < 2) {}</script></head>\n<BODY><h1>Bad&nbsp;gateway</h1>\
                    <p>It is &lt;down&gt; &amp; out.</p></BODY></html>";
        assert!(is_html(page));
        assert_eq!(readable(page), "502 Bad gateway It is <down> & out.");
        assert_eq!(readable("<p>cut <style>h1 {"), "cut h1 {");
        assert!(!is_html("<function=f>{}</function>"));
    }

    #[test]
    fn bodies_are_read_in_their_character_set() {
        let (text, chinese) = ("模型不存在", GB18030.encode("模型不存在").0);
        assert_eq!(decoded(&chinese, None), text);
        assert_eq!(decoded(&chinese, Some("text/html; charset=\"gbk\"")), text);
        assert_eq!(decoded(b"no caf\xe9 here", None), "no café here");
        assert_eq!(
            decoded("é, cut: é".as_bytes().split_last().unwrap().1, None),
            "é, cut: \u{fffd}"
        );
        assert_eq!(decoded(b"\xef\xbb\xbf{}", None), "{}");
    }
}
