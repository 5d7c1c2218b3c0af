// SPDX-License-Identifier: GPL-3.0-or-later
//! The lines of a file that may be of any size: none is held that is longer than a limit.

use std::io::{self, BufRead};

/// The longest line that is read. Results are cut long before.
pub const LONGEST_LINE: usize = 64 * 1024 * 1024;

/// What the next line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineRead {
    /// It is in the buffer, without its end. `bytes` counts that, too.
    Line { bytes: u64 },
    /// It is too long, and was passed over.
    TooLong { bytes: u64 },
    /// The file ends.
    End,
}

/// Reads the next line of INPUT into BUFFER, unless it has more than LIMIT bytes.
///
/// # Errors
///
/// INPUT can't be read.
pub fn next_line(
    input: &mut impl BufRead,
    buffer: &mut Vec<u8>,
    limit: usize,
) -> io::Result<LineRead> {
    buffer.clear();
    let mut bytes: u64 = 0;
    let mut kept = true;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(match bytes {
                0 => LineRead::End,
                _ => ended(kept, bytes),
            });
        }
        let end = memchr::memchr(b'\n', available);
        let text = &available[..end.unwrap_or(available.len())];
        kept = kept && buffer.len() + text.len() <= limit;
        match kept {
            true => buffer.extend_from_slice(text),
            false => *buffer = Vec::new(),
        }
        let used = text.len() + usize::from(end.is_some());
        bytes += used as u64;
        input.consume(used);
        if end.is_some() {
            return Ok(ended(kept, bytes));
        }
    }
}

fn ended(kept: bool, bytes: u64) -> LineRead {
    match kept {
        true => LineRead::Line { bytes },
        false => LineRead::TooLong { bytes },
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_counted() {
        let text = b"ab\n0123456789\n\ncd";
        let mut input = BufReader::with_capacity(3, &text[..]);
        let mut buffer = Vec::new();
        let mut all = Vec::new();
        loop {
            match next_line(&mut input, &mut buffer, 4).expect("a slice can be read") {
                LineRead::End => break,
                read => all.push((read, buffer.clone())),
            }
        }
        assert_eq!(
            all,
            [
                (LineRead::Line { bytes: 3 }, b"ab".to_vec()),
                (LineRead::TooLong { bytes: 11 }, Vec::new()),
                (LineRead::Line { bytes: 1 }, Vec::new()),
                (LineRead::Line { bytes: 2 }, b"cd".to_vec()),
            ]
        );
    }
}
