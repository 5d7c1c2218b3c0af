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
    let passed = passed.filter(|(name, _)| !fixed(name) && !is_secret(name));
    let all = passed.chain(FIXED.iter().copied());
    all.map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// The names of those of VARIABLES that programs don't get.
pub(super) fn withheld(variables: &[String]) -> Vec<&str> {
    let names = set(variables).into_iter().map(|(name, _)| name);
    names.filter(|name| is_secret(name)).collect()
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

/// Whether the variable NAME may hold a secret. One for a socket or the shell's directory doesn't.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words: Vec<&str> = name
        .split(|it: char| !it.is_ascii_alphanumeric())
        .map(|it| it.trim_end_matches(|it: char| it.is_ascii_digit()))
        .filter(|it| !it.is_empty())
        .collect();
    let ends = |word: &str, endings: &[&str]| endings.iter().any(|it| word.ends_with(it));
    !["PWD", "OLDPWD"].contains(&name.as_str())
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
        for name in ["OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASS2", "EMPTY"] {
            assert_eq!(value(name), None, "{name}");
        }
        assert_eq!(
            withheld(&variables),
            ["OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASS2"]
        );
    }
}
