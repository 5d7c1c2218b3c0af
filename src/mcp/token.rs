// SPDX-License-Identifier: GPL-3.0-or-later
//! The token that clients over HTTP have to know: in a file that only the user can read, never in a log
//! or in the arguments of a program.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::getuid;

use crate::trust::fence::draw;

/// How many random bytes a token is made of.
const LENGTH: usize = 32;

/// A token, which is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl Token {
    /// The one in FILE, which is made where there is none.
    ///
    /// # Errors
    ///
    /// When the file can't be read or made, or others could read it.
    pub fn in_file(file: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        match options.open(file) {
            Ok(mut new) => {
                let token = Self::random()?;
                new.write_all(token.0.as_bytes())?;
                Ok(token)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read(file),
            Err(error) => Err(error),
        }
    }

    fn read(file: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(file)?;
        let closed =
            found.is_file() && found.uid() == getuid().as_raw() && found.mode() & 0o077 == 0;
        let text = match closed {
            true => fs::read_to_string(file)?,
            false => String::new(),
        };
        let token = text.trim();
        match token.len() >= LENGTH && token.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            true => Ok(Self(token.to_owned())),
            false => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is not yours alone, or holds no token; remove it, and another one is made",
            )),
        }
    }

    fn random() -> io::Result<Self> {
        let mut bytes = [0; LENGTH];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    /// A name that nobody can guess, for a session.
    #[must_use]
    pub fn random_key() -> String {
        Self::random().map_or_else(|_| format!("{:x}", draw()), |token| token.0)
    }

    /// Whether HEADER, of a request, has this token. It takes as long whichever character is wrong.
    #[must_use]
    pub fn is_in(&self, header: Option<&str>) -> bool {
        let given = header
            .and_then(|it| it.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map_or("", |(_, token)| token.trim());
        let differences = self
            .0
            .bytes()
            .zip(given.bytes().chain(std::iter::repeat(0)))
            .fold(0, |found, (ours, theirs)| found | (ours ^ theirs));
        given.len() == self.0.len() && differences == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_is_made_once_and_not_taken_from_a_file_of_others() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("token");
        let token = Token::in_file(&file).unwrap();
        assert_eq!(Token::in_file(&file).unwrap(), token);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(format!("{token:?}"), "[redacted]");
        let text = fs::read_to_string(&file).unwrap();
        assert!(token.is_in(Some(&format!("Bearer {text}"))));
        assert!(token.is_in(Some(&format!("bearer  {text}"))));
        for header in [
            None,
            Some(""),
            Some("Bearer"),
            Some("Bearer x"),
            Some(&*text),
        ] {
            assert!(!token.is_in(header), "{header:?}");
        }
        assert!(!token.is_in(Some(&format!("Bearer {text}0"))));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Token::in_file(&file).is_err());
    }
}
