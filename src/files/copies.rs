// SPDX-License-Identifier: GPL-3.0-or-later
//! What a file is a copy of, by its name: Emacs, other editors and people leave a file's text under names
//! like its own. And names without what nobody sees in them.

use std::ffi::{OsStr, OsString};

use crate::visible::is_hidden;

/// What is put behind a name for a copy.
const ENDINGS: &[&str] = &[
    "~", ".bak", ".backup", ".orig", ".old", ".save", ".saved", ".copy", ".tmp", ".rej", ".swp",
    ".swo", ".swn", ".swx",
];

/// The names that NAME may be made from, the nearest first; nearly always none.
pub(super) fn origins(name: &OsStr) -> Vec<OsString> {
    if !suspicious(name.as_encoded_bytes()) {
        return Vec::new();
    }
    let mut origins: Vec<OsString> = Vec::new();
    let mut now = name.to_string_lossy().into_owned();
    let seen = visible(&now);
    if seen != now {
        origins.push(seen.clone().into());
        now = seen;
    }
    while let Some(origin) = origin(&now) {
        // Vim's are hidden, whatever the file's own name is.
        if now.ends_with(".swp") {
            origins.extend(origin.strip_prefix('.').map(OsString::from));
        }
        origins.push(origin.clone().into());
        now = origin;
    }
    origins
}

/// Whether a name of BYTES may have origins; this is asked of every file.
fn suspicious(bytes: &[u8]) -> bool {
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    !bytes.is_ascii()
        || matches!(first, b'#' | b' ')
        || matches!(last, b'~' | b'#' | b' ')
        || bytes.starts_with(b".#")
        || bytes
            .iter()
            .any(|byte| byte.is_ascii_control() || *byte == b'!')
        || ENDINGS
            .iter()
            .any(|ending| ends_with(bytes, ending.as_bytes()))
}

fn ends_with(bytes: &[u8], ending: &[u8]) -> bool {
    let start = bytes.len().saturating_sub(ending.len());
    bytes[start..].eq_ignore_ascii_case(ending)
}

/// NAME without what can't be seen in it.
fn visible(name: &str) -> String {
    let left: String = name.chars().filter(|it| !is_hidden(*it)).collect();
    left.trim().to_owned()
}

/// The name that NAME is made from.
fn origin(name: &str) -> Option<String> {
    let shorter = |rest: &str| (!rest.is_empty() && rest != name).then(|| rest.to_owned());
    // Emacs's own: numbered backups, autosaves and locks.
    if let Some(rest) = name.strip_suffix('~') {
        let numbered = rest.rsplit_once(".~").filter(|(_, number)| {
            !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
        });
        return shorter(numbered.map_or(rest, |(rest, _)| rest));
    }
    if let Some(rest) = name.strip_prefix('#') {
        return shorter(rest.strip_suffix('#').unwrap_or(rest));
    }
    if let Some(rest) = name.strip_prefix(".#") {
        return shorter(rest);
    }
    if let Some(ending) = ENDINGS
        .iter()
        .find(|ending| ends_with(name.as_bytes(), ending.as_bytes()))
    {
        return shorter(name.get(..name.len() - ending.len())?);
    }
    // Kept in one folder for all, with the folders of the file in its name.
    name.rsplit_once('!').and_then(|(_, rest)| shorter(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_says_what_it_is_of() {
        for (name, origin) in [
            (".env~", ".env"),
            (".env.~12~", ".env"),
            ("#.env#", ".env"),
            (".#.env", ".env"),
            ("server.key~", "server.key"),
            ("server.key.BAK", "server.key"),
            ("server.key.orig.old~", "server.key"),
            (".server.key.swp", "server.key"),
            ("!home!me!.env~", ".env"),
            ("#!home!me!.env#", ".env"),
            (".env\u{200b}", ".env"),
            ("s\u{ad}erver.key\u{e0041} ", "server.key"),
        ] {
            let origins = origins(OsStr::new(name));
            assert!(origins.iter().any(|it| it == origin), "{name}: {origins:?}");
        }
        for name in [
            "a.lisp",
            ".gitignore",
            "über.lisp",
            "~",
            "#",
            "##",
            ".bak",
            "a!",
            "!",
            "",
        ] {
            let origins = origins(OsStr::new(name));
            assert!(
                origins.iter().all(|it| !it.is_empty() && it != ".env"),
                "{name}: {origins:?}"
            );
        }
    }
}
