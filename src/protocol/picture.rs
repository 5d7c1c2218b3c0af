// SPDX-License-Identifier: GPL-3.0-or-later
//! Pictures that the user sends to a model. Their bytes say what they are, whatever their file is called;
//! what hosts refuse is refused here, with what to do. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The most bytes of a picture: hosts take no larger ones.
pub const MOST_BYTES: usize = 5 * 1024 * 1024;

/// The most pixels of a side: hosts take no longer ones.
const LONGEST_SIDE: u32 = 8000;

/// A picture that hosts take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub format: PictureFormat,
    pub width: u32,
    pub height: u32,
    /// Its bytes in base64, as all dialects want them.
    pub data: String,
}

/// The formats that all hosts know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureFormat {
    Png,
    Jpeg,
    Gif,
    Webp,
}

/// Why a picture can't be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPicture {
    #[error("the picture is larger than 5 MB; make it smaller, or cut out what matters")]
    TooLarge,
    #[error(
        "the picture is longer than {LONGEST_SIDE} pixels; make it smaller, or cut out what matters"
    )]
    TooLong,
    #[error("this is not a PNG, JPEG, GIF or WebP picture")]
    Unknown,
    #[error("the picture is damaged, or not whole")]
    Damaged,
    #[error("the picture is animated, and models see still ones; save one frame of it as PNG")]
    Animated,
}

impl PictureFormat {
    /// What the format is called in MIME.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }
}

impl Picture {
    /// The picture whose bytes DATA says in base64.
    ///
    /// # Errors
    ///
    /// Hosts don't take it.
    pub fn read(data: &str) -> Result<Self, BadPicture> {
        if data.len() / 4 * 3 > MOST_BYTES + 2 {
            return Err(BadPicture::TooLarge);
        }
        let bytes = STANDARD.decode(data).map_err(|_| BadPicture::Damaged)?;
        if bytes.len() > MOST_BYTES {
            return Err(BadPicture::TooLarge);
        }
        let (format, (width, height)) = look(&bytes)?;
        if width == 0 || height == 0 {
            return Err(BadPicture::Damaged);
        }
        if width.max(height) > LONGEST_SIDE {
            return Err(BadPicture::TooLong);
        }
        Ok(Self {
            format,
            width,
            height,
            data: data.to_owned(),
        })
    }

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.trim_end_matches('=').len() * 3 / 4
    }

    /// It as a URL that holds it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("data:{};base64,{}", self.format.media_type(), self.data)
    }

    /// About how many tokens it is. Each host counts in its own way: most make large pictures smaller, and
    /// then count an area.
    #[must_use]
    pub fn tokens(&self) -> usize {
        let area = u64::from(self.width) * u64::from(self.height);
        usize::try_from((area / 750).clamp(85, 1600)).unwrap_or(1600)
    }
}

type Size = (u32, u32);

fn look(bytes: &[u8]) -> Result<(PictureFormat, Size), BadPicture> {
    let whole = |size: Option<Result<Size, BadPicture>>| size.unwrap_or(Err(BadPicture::Damaged));
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Ok((PictureFormat::Png, whole(png(bytes))?))
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        Ok((PictureFormat::Jpeg, whole(jpeg(bytes).map(Ok))?))
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        Ok((PictureFormat::Gif, whole(gif(bytes))?))
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Ok((PictureFormat::Webp, whole(webp(bytes))?))
    } else {
        Err(BadPicture::Unknown)
    }
}

/// The number of the bytes from AT on, the first the greatest.
fn big(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let digits = bytes.get(at..at.checked_add(count)?)?.iter();
    Some(digits.fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// The same, the last the greatest.
fn little(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let digits = bytes.get(at..at.checked_add(count)?)?.iter().rev();
    Some(digits.fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Its size, if all its chunks up to the last are there.
fn png(bytes: &[u8]) -> Option<Result<Size, BadPicture>> {
    if bytes.get(12..16)? != b"IHDR" {
        return None;
    }
    let size = (big(bytes, 16, 4)?, big(bytes, 20, 4)?);
    let mut at = 8;
    loop {
        match bytes.get(at + 4..at + 8)? {
            b"acTL" => return Some(Err(BadPicture::Animated)),
            b"IEND" => return Some(Ok(size)),
            _ => at = at.checked_add(12 + big(bytes, at, 4)? as usize)?,
        }
    }
}

/// Its size, if its mark of the end is there.
fn jpeg(bytes: &[u8]) -> Option<Size> {
    let (mut at, mut size) = (2, None);
    loop {
        while *bytes.get(at)? != 0xff || *bytes.get(at + 1)? == 0xff {
            at += 1;
        }
        match *bytes.get(at + 1)? {
            // The start of a frame, which differs by its coding.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                size = Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
            }
            // The data, up to the end.
            0xda => {
                let rest = bytes.get(at..)?;
                return size.filter(|_| rest.windows(2).any(|pair| pair == b"\xff\xd9"));
            }
            0xd9 => return None,
            _ => {}
        }
        at = at.checked_add(2 + big(bytes, at + 2, 2)? as usize)?;
    }
}

/// Its size, if its one frame and its end are there.
fn gif(bytes: &[u8]) -> Option<Result<Size, BadPicture>> {
    let size = (little(bytes, 6, 2)?, little(bytes, 8, 2)?);
    let table = |flags: u8| match flags & 0x80 {
        0 => 0,
        _ => 3 << ((flags & 7) + 1),
    };
    let (mut at, mut frames) = (13 + table(*bytes.get(10)?), 0);
    loop {
        at = match *bytes.get(at)? {
            0x3b if frames > 0 => return Some(Ok(size)),
            0x21 => at + 2,
            0x2c if frames > 0 => return Some(Err(BadPicture::Animated)),
            0x2c => {
                frames += 1;
                at + 11 + table(*bytes.get(at + 9)?)
            }
            _ => return None,
        };
        // Blocks of data, up to an empty one.
        while *bytes.get(at)? != 0 {
            at += 1 + usize::from(bytes[at]);
        }
        at += 1;
    }
}

/// Its size, if as much of it is there as it says.
fn webp(bytes: &[u8]) -> Option<Result<Size, BadPicture>> {
    if bytes.len() < (little(bytes, 4, 4)? as usize).checked_add(8)? {
        return None;
    }
    Some(match bytes.get(12..16)? {
        b"VP8X" if bytes.get(20)? & 2 != 0 => Err(BadPicture::Animated),
        b"VP8X" => Ok((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        b"VP8L" => {
            let sides = little(bytes, 21, 4)?;
            Ok(((sides & 0x3fff) + 1, (sides >> 14 & 0x3fff) + 1))
        }
        b"VP8 " => Ok((
            little(bytes, 26, 2)? & 0x3fff,
            little(bytes, 28, 2)? & 0x3fff,
        )),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(PictureFormat, u32, u32), BadPicture> {
        Picture::read(&STANDARD.encode(bytes)).map(|it| (it.format, it.width, it.height))
    }

    fn png_of(chunks: &[&[u8]]) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        for chunk in chunks {
            bytes.extend((chunk.len() as u32 - 4).to_be_bytes());
            bytes.extend(*chunk);
            bytes.extend([0; 4]);
        }
        bytes
    }

    const HEAD: &[u8] = b"IHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0";
    const FRAME: &[u8] = b"\x2c\0\0\0\0\x03\0\x02\0\0\x02\x01\x44\0";

    #[test]
    fn the_bytes_say_what_a_picture_is() {
        let png = png_of(&[HEAD, b"IDATxyz", b"IEND"]);
        assert_eq!(read(&png), Ok((PictureFormat::Png, 640, 480)));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04JF\xff\xc2\0\x09\x08\0\x10\0\x20\x01\x11\xff\xda\0\x02abc\xff\xd9";
        assert_eq!(read(jpeg), Ok((PictureFormat::Jpeg, 32, 16)));
        let gif = [b"GIF89a\x03\0\x02\0\0\0\0", FRAME, b"\x3b"].concat();
        assert_eq!(read(&gif), Ok((PictureFormat::Gif, 3, 2)));
        let webp = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x07\0\0\x03\0\0";
        assert_eq!(read(webp), Ok((PictureFormat::Webp, 8, 4)));
        assert_eq!(read(b"%PDF-1.7"), Err(BadPicture::Unknown));
        assert_eq!(read(b""), Err(BadPicture::Unknown));
    }

    #[test]
    fn what_is_cut_anywhere_is_refused() {
        let jpeg: &[u8] =
            b"\xff\xd8\xff\xc0\0\x09\x08\0\x10\0\x20\x01\x11\xff\xda\0\x02abc\xff\xd9";
        let gif = [b"GIF89a\x03\0\x02\0\0\0\0", FRAME, b"\x3b"].concat();
        let png = png_of(&[HEAD, b"IDATxyz", b"IEND"]);
        // The check sum of its end is not looked at.
        for (whole, rest) in [(jpeg, 1), (&gif, 1), (&png, 5)] {
            assert!(read(whole).is_ok());
            for end in 0..=whole.len() - rest {
                assert!(read(&whole[..end]).is_err(), "{end} of {}", whole.len());
            }
        }
    }

    #[test]
    fn what_nobody_takes_is_refused() {
        let moving = png_of(&[HEAD, b"acTL\0\0\0\x02\0\0\0\0", b"IDATxyz", b"IEND"]);
        assert_eq!(read(&moving), Err(BadPicture::Animated));
        let moving = [b"GIF89a\x03\0\x02\0\0\0\0", FRAME, FRAME, b"\x3b"].concat();
        assert_eq!(read(&moving), Err(BadPicture::Animated));
        let moving = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\x07\0\0\x03\0\0";
        assert_eq!(read(moving), Err(BadPicture::Animated));
        let long = png_of(&[b"IHDR\0\0\x20\0\0\0\x01\xe0\x08\x02\0\0\0", b"IEND"]);
        assert_eq!(read(&long), Err(BadPicture::TooLong));
        let none = png_of(&[b"IHDR\0\0\0\0\0\0\x01\xe0\x08\x02\0\0\0", b"IEND"]);
        assert_eq!(read(&none), Err(BadPicture::Damaged));
        assert_eq!(read(&vec![0; MOST_BYTES + 1]), Err(BadPicture::TooLarge));
        assert_eq!(Picture::read("no base64"), Err(BadPicture::Damaged));
    }
}
