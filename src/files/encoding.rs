// SPDX-License-Identifier: GPL-3.0-or-later
//! Bytes to text and back, so that a text that was not changed gives the same bytes again:
//! UTF-8, UTF-16 with or without a mark, Latin-1 for the rest; and which line ends it has.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr_iter};

use super::{FileError, Trouble};

/// How much of a file tells what it is.
pub const SAMPLE: usize = 64 * 1024;

const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";
const UTF16_LITTLE_MARK: &[u8] = b"\xff\xfe";
const UTF16_BIG_MARK: &[u8] = b"\xfe\xff";

/// Whether a text starts with a byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    None,
    Present,
}

/// How bytes stand for characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8(Mark),
    Utf16Little(Mark),
    Utf16Big(Mark),
    Latin1,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8(Mark::None) => "UTF-8",
            Self::Utf8(Mark::Present) => "UTF-8 with a byte order mark",
            Self::Utf16Little(_) => "UTF-16 (little-endian)",
            Self::Utf16Big(_) => "UTF-16 (big-endian)",
            Self::Latin1 => "Latin-1",
        })
    }
}

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnds {
    Lf,
    CrLf,
    Mixed,
}

impl LineEnds {
    /// The line ends of TEXT; `Lf` when it has none.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let (mut plain, mut with_return) = (false, false);
        for end in memchr_iter(b'\n', text) {
            if end > 0 && text[end - 1] == b'\r' {
                with_return = true;
            } else {
                plain = true;
            }
            if plain && with_return {
                return Self::Mixed;
            }
        }
        if with_return { Self::CrLf } else { Self::Lf }
    }

    /// TEXT, which somebody wrote with plain line ends, as it has to be in a text with these.
    #[must_use]
    pub fn adapt(self, text: &str) -> Cow<'_, str> {
        let plain = memchr(b'\n', text.as_bytes()).is_some() && !text.contains("\r\n");
        if self == Self::CrLf && plain {
            text.replace('\n', "\r\n").into()
        } else {
            text.into()
        }
    }
}

/// Which encoding the file that starts with SAMPLE has, or nothing for a binary file. WHOLE says
/// that the sample is all of it; otherwise a character may be cut off at its end.
#[must_use]
pub fn detect(sample: &[u8], extent: Extent) -> Option<Encoding> {
    if sample.starts_with(UTF8_MARK) {
        return Some(Encoding::Utf8(Mark::Present));
    }
    if sample.starts_with(UTF16_LITTLE_MARK) {
        return Some(Encoding::Utf16Little(Mark::Present));
    }
    if sample.starts_with(UTF16_BIG_MARK) {
        return Some(Encoding::Utf16Big(Mark::Present));
    }
    let has_nul = memchr(0, sample).is_some();
    if has_nul && let Some(encoding) = unmarked_utf16(sample) {
        return Some(encoding);
    }
    let valid = match std::str::from_utf8(sample) {
        Ok(_) => true,
        Err(error) => extent == Extent::Start && error.error_len().is_none(),
    };
    match (valid, has_nul) {
        (true, false) => Some(Encoding::Utf8(Mark::None)),
        // A stray NUL makes no binary file of a text, as test data for decoders have them.
        (true, true) => (!looks_binary(sample)).then_some(Encoding::Utf8(Mark::None)),
        (false, true) => None,
        (false, false) => (!looks_binary(sample)).then_some(Encoding::Latin1),
    }
}

/// How much of a file one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    Start,
}

/// Mostly Western text in UTF-16 has a zero in every second byte, and always on the same side.
fn unmarked_utf16(sample: &[u8]) -> Option<Encoding> {
    let pairs = sample.len() / 2;
    let zeros = |side: usize| {
        sample
            .chunks_exact(2)
            .filter(|pair| pair[side] == 0)
            .count()
    };
    match (zeros(0), zeros(1)) {
        (0, little) if pairs >= 4 && little * 10 >= pairs * 7 => {
            Some(Encoding::Utf16Little(Mark::None))
        }
        (big, 0) if pairs >= 4 && big * 10 >= pairs * 7 => Some(Encoding::Utf16Big(Mark::None)),
        _ => None,
    }
}

/// Text has next to no control characters.
fn looks_binary(sample: &[u8]) -> bool {
    let control = |byte: &&u8| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127);
    sample.iter().filter(control).count() * 50 > sample.len()
}

/// The text that BYTES, a whole file, stand for, and their encoding.
///
/// # Errors
///
/// A sentence when they are no text.
pub fn decode<'b>(bytes: &'b [u8], shown: &str) -> Result<(Cow<'b, str>, Encoding), FileError> {
    let binary = || {
        FileError::new(
            Trouble::WrongKind,
            format!("'{shown}' is a binary file, not text."),
        )
    };
    let encoding = detect(bytes, Extent::Whole).ok_or_else(binary)?;
    let text = match encoding {
        Encoding::Utf8(mark) => {
            let text = if mark == Mark::Present {
                &bytes[UTF8_MARK.len()..]
            } else {
                bytes
            };
            std::str::from_utf8(text)
                .map(Cow::Borrowed)
                .map_err(|_| binary())?
        }
        Encoding::Latin1 => Cow::Owned(latin1(bytes)),
        Encoding::Utf16Little(mark) => {
            Cow::Owned(utf16(bytes, mark, u16::from_le_bytes).ok_or_else(binary)?)
        }
        Encoding::Utf16Big(mark) => {
            Cow::Owned(utf16(bytes, mark, u16::from_be_bytes).ok_or_else(binary)?)
        }
    };
    Ok((text, encoding))
}

/// BYTES read as Latin-1, in which each is the character of the same number.
#[must_use]
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn utf16(bytes: &[u8], mark: Mark, unit: fn([u8; 2]) -> u16) -> Option<String> {
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let skip = usize::from(mark == Mark::Present);
    let units = bytes
        .chunks_exact(2)
        .skip(skip)
        .map(|pair| unit([pair[0], pair[1]]));
    char::decode_utf16(units).collect::<Result<_, _>>().ok()
}

/// TEXT as bytes in ENCODING.
///
/// # Errors
///
/// A sentence naming a character that the encoding doesn't have.
pub fn encode(text: &str, encoding: Encoding) -> Result<Vec<u8>, FileError> {
    let with_mark = |mark: Mark, bytes: &[u8]| match mark {
        Mark::Present => bytes.to_vec(),
        Mark::None => Vec::new(),
    };
    match encoding {
        Encoding::Utf8(mark) => {
            let mut bytes = with_mark(mark, UTF8_MARK);
            bytes.extend_from_slice(text.as_bytes());
            Ok(bytes)
        }
        Encoding::Utf16Little(mark) => {
            let mut bytes = with_mark(mark, UTF16_LITTLE_MARK);
            bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
            Ok(bytes)
        }
        Encoding::Utf16Big(mark) => {
            let mut bytes = with_mark(mark, UTF16_BIG_MARK);
            bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
            Ok(bytes)
        }
        Encoding::Latin1 => text
            .chars()
            .map(|it| {
                u8::try_from(u32::from(it)).map_err(|_| {
                    let message = format!(
                        "The file is in Latin-1, which has no '{it}'; use other characters."
                    );
                    FileError::new(Trouble::BadRequest, message)
                })
            })
            .collect(),
    }
}
