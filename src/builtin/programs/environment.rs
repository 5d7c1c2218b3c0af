// SPDX-License-Identifier: GPL-3.0-or-later
//! The environment of a program: Emacs's, without what may hold a secret, and with what keeps programs from
//! asking at a terminal that isn't there.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::Deserialize;

/// What Emacs says of a chat.
#[derive(Debug, Deserialize)]
pub(super) struct Environment {
    pub(super) path: Vec<PathBuf>,
    /// As in `process-environment`: `NAME=value`, the first counts, and a name alone unsets it. Emacs has left
    /// out the keys of providers.
    pub(super) variables: Vec<String>,
}

/// What every program gets.
const FIXED: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_ASKPASS", "false"),
    // Settings that count before those of repositories, in the place of any that Emacs has, which may hold
    // passwords. Files that edits may make can look like a repository, and name programs.
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_1", "false"),
    ("SSH_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "force"),
    ("SUDO_ASKPASS", "false"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// The environment for programs, of Emacs's VARIABLES.
pub(super) fn for_programs(variables: &[String]) -> Vec<(OsString, OsString)> {
    let fixed = |name: &str| FIXED.iter().any(|(it, _)| *it == name);
    let passed = set(variables).into_iter();
    let passed = passed.filter(|(name, value)| !fixed(name) && !is_secret(name, value));
    let all = passed.chain(FIXED.iter().copied());
    all.map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// The names of those of VARIABLES that programs don't get.
pub(super) fn withheld(variables: &[String]) -> Vec<&str> {
    let secret = set(variables).into_iter();
    let secret = secret.filter(|(name, value)| is_secret(name, value));
    secret.map(|(name, _)| name).collect()
}

/// VARIABLES that are set.
fn set(variables: &[String]) -> Vec<(&str, &str)> {
    let mut seen = std::collections::BTreeSet::new();
    let split = variables.iter().map(|it| match it.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (it.as_str(), None),
    });
    split
        .filter(|(name, _)| !name.is_empty() && seen.insert(*name))
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Words that names of secrets have, and endings of such words; the image has the same in
/// `lisp/image/consent/secrets.lisp`.
const WORDS: &[&str] = &[
    "KEY",
    "KEYS",
    "APIKEYS",
    "TOKENS",
    "SECRETS",
    "PASSWORDS",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "AUTH",
    "OAUTH",
    "COOKIE",
    "COOKIES",
    "PRIVATE",
    "PAT",
    "JWT",
    "PSK",
    "OTP",
];
const ENDINGS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "APIKEY",
    "ACCESSKEY",
    "SECRETKEY",
    "PRIVATEKEY",
    "AUTHKEY",
    "ENCRYPTIONKEY",
];

/// Last words of names that say that a value, though it looks like a secret, is only an identifier.
const IDENTIFIERS: &[&str] = &[
    "ID",
    "UUID",
    "GUID",
    "HASH",
    "SHA",
    "COMMIT",
    "REV",
    "REVISION",
    "VERSION",
    "DIGEST",
    "CHECKSUM",
    "FINGERPRINT",
    "STREAM",
    "BRANCH",
    "TAG",
    "ADDRESS",
];

/// What secrets have in them, in small letters, and what they begin with.
const SIGNS: &[&str] = &[
    "private key-----",
    "password=",
    "passwd=",
    "pwd=",
    "accountkey=",
    "sharedaccesssignature=",
    "bearer ",
];
const BEGINNINGS: &[&str] = &[
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "sk-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "hf_",
    "npm_",
    "pypi-",
    "eyJ",
];

/// Whether the variable NAME with VALUE may hold a secret. A proxy may: without it, programs reach nothing.
#[must_use]
pub fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words = words(&name);
    let small = value.to_ascii_lowercase();
    let is_one_word = value.len() > 15 && !value.contains(' ');
    has_secret_name(&name, &words)
        || SIGNS.iter().any(|it| small.contains(it))
        || (is_one_word && BEGINNINGS.iter().any(|it| value.starts_with(it)))
        || (has_password(value) && words.last() != Some(&"PROXY"))
        || (looks_random(value) && !words.last().is_some_and(|it| IDENTIFIERS.contains(it)))
}

/// Whether VALUE has an address with a user's password, or with a key in the user's place.
fn has_password(value: &str) -> bool {
    let places = value.split("://").skip(1);
    let places = places.map(|it| it.split(['/', '?', '#', ' ']).next().unwrap_or_default());
    let mut users = places.filter_map(|it| it.rsplit_once('@'));
    users.any(|(user, _)| match user.split_once(':') {
        Some((_, password)) => !password.is_empty(),
        None => looks_random(user),
    })
}

/// Whether VALUE is long and mixes letters and digits as no word or number does.
fn looks_random(value: &str) -> bool {
    let kind = |it: u8| match it {
        b'0'..=b'9' => 1,
        b'A'..=b'Z' => 2,
        b'a'..=b'z' => 3,
        _ => 0,
    };
    let kinds: Vec<u8> = value.bytes().map(kind).collect();
    // A capital before a small letter is as in names of several words.
    let turns = kinds.windows(2);
    let turns = turns.filter(|it| !it.contains(&0) && it[0] != it[1] && *it != [2, 3]);
    value.len() >= 20
        && !value.starts_with(['/', '.', '~'])
        && value
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"+/=_-.~".contains(&it))
        && kinds.contains(&1)
        && kinds.iter().any(|it| *it > 1)
        && value.len() * 3 <= turns.count() * 10
}

/// The words of NAME, in capitals: runs of letters and digits, without digits at their end.
fn words(name: &str) -> Vec<&str> {
    name.split(|it: char| !it.is_ascii_alphanumeric())
        .map(|it| it.trim_end_matches(|it: char| it.is_ascii_digit()))
        .filter(|it| !it.is_empty())
        .collect()
}

/// Whether NAME with WORDS says that there is a secret. That of a socket or the shell's directory doesn't.
fn has_secret_name(name: &str, words: &[&str]) -> bool {
    let ends = |word: &str, endings: &[&str]| endings.iter().any(|it| word.ends_with(it));
    !["PWD", "OLDPWD"].contains(&name)
        && !matches!(words.last(), Some(&("SOCK" | "SOCKET")))
        && words.iter().any(|word| {
            WORDS.contains(word)
                || ends(word, ENDINGS)
                || (word.ends_with("PASS") && !ends(word, &["BYPASS", "COMPASS", "ASKPASS"]))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_no_secrets_and_no_terminal() {
        let variables = [
            "PATH=/bin",
            "HOME=/home/u",
            "OPENAI_API_KEY=sk-1",
            "GITHUB_TOKEN=x",
            "SSH_AUTH_SOCK=/run/a",
            "PWD=/srv",
            "EDITOR=vi",
            "EMPTY",
            "EMPTY=1",
            "HOME=/other",
            "DB_PASS2=x",
            "DATABASE_URL=postgres://me:hunter2@db/x",
            "REMOTE=https://9f8e7d6c5b4a39281706f5@host/x",
            "https_proxy=http://me:hunter2@proxy:3128",
            "FEED=https://example.org/a:b@c",
            "LOGIN=xoxb-1234567890abcdef",
            "HEADER=Authorization: Bearer x",
            "SEED=a1B2c3D4e5F6g7H8i9J0k",
            "BUILD_ID=a1B2c3D4e5F6g7H8i9J0k",
            "LS_COLORS=rs=0:di=01;34:ln=01;36",
            "XDG_DATA_DIRS=/usr/local/share:/usr/share",
            "LANG=en_US.UTF-8",
        ]
        .map(str::to_owned);
        let given = for_programs(&variables);
        let value = |name: &str| {
            let found = given.iter().find(|(it, _)| it == name)?;
            found.1.to_str()
        };
        assert_eq!(value("PATH"), Some("/bin"));
        assert_eq!(value("HOME"), Some("/home/u"));
        assert_eq!(value("SSH_AUTH_SOCK"), Some("/run/a"));
        assert_eq!(value("PWD"), Some("/srv"));
        assert_eq!(value("EDITOR"), Some("false"));
        let secret = [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "DB_PASS2",
            "DATABASE_URL",
            "REMOTE",
            "LOGIN",
            "HEADER",
            "SEED",
        ];
        for name in secret.iter().chain(&["EMPTY"]) {
            assert_eq!(value(name), None, "{name}");
        }
        let passed = [
            "https_proxy",
            "FEED",
            "BUILD_ID",
            "LS_COLORS",
            "XDG_DATA_DIRS",
            "LANG",
        ];
        for name in passed {
            assert!(value(name).is_some(), "{name}");
        }
        assert_eq!(withheld(&variables), secret);
    }
}
