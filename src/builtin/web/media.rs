// SPDX-License-Identifier: GPL-3.0-or-later
//! What kind of file a server sends, and its text: by what the server says, and by the bytes themselves,
//! which are believed where the two differ.

use std::fmt;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use crate::visible::{is_hidden, spelled};

/// How much of a file is looked at for what kind it is.
const SAMPLE: usize = 1024;

/// What a server says that it sends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MediaType {
    /// Such as `text/html`; empty where nothing was said.
    name: String,
    charset: Option<&'static Encoding>,
}

/// Why a file can't be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotText {
    kind: String,
    length: Option<u64>,
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is {}", self.kind)?;
        if let Some(length) = self.length {
            write!(f, " of {length} bytes")?;
        }
        f.write_str(", which can't be shown as text")
    }
}

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Markup {
    Html,
    Plain,
}

impl MediaType {
    /// The media type that HEADER says.
    pub(super) fn parse(header: Option<&str>) -> Self {
        let mut parts = header.unwrap_or_default().split(';');
        let name = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (key, value) = part.split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']);
            let is_charset = key.trim().eq_ignore_ascii_case("charset");
            Encoding::for_label(value.as_bytes()).filter(|_| is_charset)
        });
        Self { name, charset }
    }

    /// Whether it may be text, as far as the server says. LENGTH is in bytes, if that is known.
    ///
    /// # Errors
    ///
    /// What it is instead.
    pub(super) fn check(&self, length: Option<u64>) -> Result<(), NotText> {
        let kind = match self.name.split_once('/') {
            _ if self.name == "application/pdf" => "a PDF".to_owned(),
            // SVG is text.
            Some(("image", kind)) if !kind.ends_with("xml") => {
                format!("a picture ({})", self.shown())
            }
            Some(("audio" | "video" | "font", _)) => self.shown(),
            _ => return Ok(()),
        };
        Err(NotText { kind, length })
    }

    /// The same by the beginning of its BYTES.
    ///
    /// # Errors
    ///
    /// What it is instead.
    pub(super) fn check_text(&self, bytes: &[u8], length: Option<u64>) -> Result<(), NotText> {
        let sample = &bytes[..bytes.len().min(SAMPLE)];
        let kind = if sample.starts_with(b"%PDF-") {
            "a PDF".to_owned()
        } else if sample.contains(&0) && self.encoding(sample, Markup::Plain).is_ascii_compatible()
        {
            match self.name.is_empty() {
                true => "a binary file".to_owned(),
                false => format!("a binary file ({})", self.shown()),
            }
        } else {
            return Ok(());
        };
        Err(NotText { kind, length })
    }

    fn shown(&self) -> String {
        spelled(&self.name, 60)
    }

    /// How the text in BYTES is written.
    pub(super) fn markup(&self, bytes: &[u8]) -> Markup {
        let is_html = match self.name.as_str() {
            "text/html" | "application/xhtml+xml" => true,
            // Other types are what they say: the source of a page is to be read, too.
            "" | "application/octet-stream" | "application/xml" | "text/xml" => {
                let sample = &bytes[..bytes.len().min(SAMPLE)];
                let sample = String::from_utf8_lossy(sample).to_ascii_lowercase();
                sample.contains("<!doctype html") || sample.contains("<html")
            }
            _ => false,
        };
        match is_html {
            true => Markup::Html,
            false => Markup::Plain,
        }
    }

    /// The text that BYTES are.
    pub(super) fn text(&self, bytes: &[u8]) -> String {
        let encoding = self.encoding(bytes, self.markup(bytes));
        let (text, ..) = encoding.decode(bytes);
        text.into_owned()
    }

    /// The encoding of BYTES: the mark that they begin with, what the server says, or what a page says of
    /// itself; else UTF-8 where they are that, and otherwise what old pages are in.
    fn encoding(&self, bytes: &[u8], markup: Markup) -> &'static Encoding {
        if let Some((encoding, _)) = Encoding::for_bom(bytes) {
            return encoding;
        }
        let own = || match markup {
            Markup::Html => charset_in(&bytes[..bytes.len().min(SAMPLE)]),
            Markup::Plain => None,
        };
        self.charset.or_else(own).unwrap_or_else(|| {
            let is_utf8 = match std::str::from_utf8(bytes) {
                Ok(_) => true,
                // It was cut within a character.
                Err(error) => {
                    error.error_len().is_none() && !bytes[..error.valid_up_to()].is_ascii()
                }
            };
            if is_utf8 { UTF_8 } else { WINDOWS_1252 }
        })
    }
}

/// The encoding that the page beginning with SAMPLE says that it is in.
fn charset_in(sample: &[u8]) -> Option<&'static Encoding> {
    let sample = String::from_utf8_lossy(sample).to_ascii_lowercase();
    let mut rest = sample.as_str();
    while let Some((_, after)) = rest.split_once("<meta") {
        let (tag, behind) = after.split_once('>')?;
        if let Some((_, value)) = tag.split_once("charset") {
            let value = value.trim_start_matches([' ', '=', '"', '\'']);
            let end = value.find(|it: char| " \"';/".contains(it));
            let found = Encoding::for_label(&value.as_bytes()[..end.unwrap_or(value.len())]);
            // The page was read so far as if it were ASCII.
            return found.map(|it| if it.is_ascii_compatible() { it } else { UTF_8 });
        }
        rest = behind;
    }
    None
}

/// TEXT with what can't be seen in it spelled out, and its lines ended in one way.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for it in text.replace("\r\n", "\n").chars() {
        match it {
            '\r' => shown.push('\n'),
            '\n' | '\t' => shown.push(it),
            // Where a word may be parted, and how a sign is drawn: pages are full of them.
            '\u{ad}' | '\u{fe0e}' | '\u{fe0f}' => {}
            it if is_hidden(it) => shown.extend(it.escape_default()),
            it => shown.push(it),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(header: &str) -> MediaType {
        MediaType::parse(Some(header))
    }

    #[test]
    fn bytes_are_read_in_the_encoding_that_they_have() {
        let latin = b"caf\xe9";
        for (header, bytes, text) in [
            ("text/plain", "caf\u{e9}".as_bytes(), "caf\u{e9}"),
            ("text/plain", latin, "caf\u{e9}"),
            ("text/plain; charset=ISO-8859-1", latin, "caf\u{e9}"),
            ("text/plain; Charset=\"utf-8\"", latin, "caf\u{fffd}"),
            ("text/plain; charset=nonsense", latin, "caf\u{e9}"),
            ("text/plain; charset=utf-8", b"\xff\xfea\0b\0", "ab"),
            ("text/plain; charset=utf-16le", b"a\0b\0", "ab"),
            ("text/plain; charset=shift_jis", b"\x83\x8a", "\u{30ea}"),
            ("", b"\xef\xbb\xbfa", "a"),
            // Cut within a character.
            ("", b"\xc3\xa9\xc3", "\u{e9}\u{fffd}"),
            (
                "text/html",
                b"<meta charset=koi8-r>\xc1",
                "<meta charset=koi8-r>\u{430}",
            ),
            (
                "text/html",
                b"<META content='text/html; charset=koi8-r'>\xc1",
                "<META content='text/html; charset=koi8-r'>\u{430}",
            ),
            (
                "text/html",
                b"<meta charset=utf-16>a",
                "<meta charset=utf-16>a",
            ),
            ("text/html", b"<meta charset", "<meta charset"),
        ] {
            assert_eq!(media(header).text(bytes), text, "{header} {bytes:?}");
        }
    }

    #[test]
    fn what_is_no_text_is_told_by_its_kind() {
        for (header, bytes, told) in [
            (
                "image/png",
                b"".as_slice(),
                "is a picture (image/png) of 9 bytes, which",
            ),
            ("application/pdf", b"", "is a PDF of 9 bytes, which"),
            ("text/plain", b"%PDF-1.7", "is a PDF of 9 bytes, which"),
            (
                "text/html",
                b"<p>\0</p>",
                "is a binary file (text/html) of 9",
            ),
            ("", b"\x7fELF\0", "is a binary file of 9"),
            ("video/mp4", b"", "is video/mp4 of 9"),
        ] {
            let media = media(header);
            let checked = media
                .check(Some(9))
                .and_then(|()| media.check_text(bytes, Some(9)));
            let shown = checked.unwrap_err().to_string();
            assert!(shown.starts_with(told), "{shown}");
        }
        for (header, bytes) in [
            ("text/x-lisp", b"(defun f ())".as_slice()),
            ("image/svg+xml", b"<svg/>"),
            ("text/plain; charset=utf-16le", b"a\0b\0"),
            ("", b"\xff\xfea\0"),
        ] {
            let media = media(header);
            assert!(media.check(None).is_ok() && media.check_text(bytes, None).is_ok());
        }
    }

    #[test]
    fn what_hides_is_seen() {
        assert_eq!(
            visible("a\u{200b}b\r\nc\rd\u{ad}\te"),
            "a\\u{200b}b\nc\nd\te"
        );
    }
}
