// SPDX-License-Identifier: GPL-3.0-or-later
//! Files that are never read or changed without asking, wherever they are: keys, passwords,
//! tokens. A list of globs; the user can replace it.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::{FileError, Trouble};

/// The globs that hold unless the user gives others. Without a slash: a name in any folder, of the
/// file or of a folder around it. With `~/`: from the home folder.
pub const DEFAULT_PATTERNS: &[&str] = &[
    ".authinfo*",
    ".netrc*",
    "_netrc",
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "id_xmss*",
    ".ssh",
    ".gnupg",
    ".password-store",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".htpasswd",
    ".vault-token",
    "**/.git/config",
    "**/.git/hooks/**",
    "~/.aws/**",
    "~/.azure/**",
    "~/.kube/**",
    "~/.docker/config.json",
    "~/.config/gcloud/**",
    "~/.config/gh/**",
    "~/.config/git/credentials",
    "~/.cargo/credentials*",
    "~/.local/share/keyrings/**",
    "~/.mozilla/**",
    "~/.config/google-chrome/**",
    "~/.config/chromium/**",
    "~/Library/Keychains/**",
    "~/.bash_history",
    "~/.zsh_history",
    "~/.sbcl_history",
];

/// Names that match a pattern and are no secret.
const HARMLESS: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];

/// The compiled list of private files. Letter case never matters: the file system may ignore it.
#[derive(Debug, Clone)]
pub struct PrivateFiles {
    /// Matched against every component of a path.
    names: GlobSet,
    name_patterns: Vec<String>,
    /// Matched against the whole absolute path.
    paths: GlobSet,
    path_patterns: Vec<String>,
}

impl PrivateFiles {
    /// Compiles PATTERNS; HOME stands for a leading `~/`.
    ///
    /// # Errors
    ///
    /// A sentence naming the pattern that is no glob.
    pub fn new<S: AsRef<str>>(patterns: &[S], home: Option<&Path>) -> Result<Self, FileError> {
        let mut names = GlobSetBuilder::new();
        let mut paths = GlobSetBuilder::new();
        let (mut name_patterns, mut path_patterns) = (Vec::new(), Vec::new());
        for pattern in patterns.iter().map(AsRef::as_ref) {
            let at_home = pattern.strip_prefix("~/");
            match (at_home, home) {
                (Some(_), None) => continue,
                (Some(rest), Some(home)) => {
                    let home = globset::escape(&home.to_string_lossy());
                    paths.add(glob(&format!("{home}/{rest}"), pattern)?);
                    path_patterns.push(pattern.to_owned());
                }
                (None, _) if pattern.contains('/') => {
                    paths.add(glob(pattern, pattern)?);
                    path_patterns.push(pattern.to_owned());
                }
                (None, _) => {
                    names.add(glob(pattern, pattern)?);
                    name_patterns.push(pattern.to_owned());
                }
            }
        }
        let unusable = |error: globset::Error| {
            FileError::new(
                Trouble::BadRequest,
                format!("The list of private files can't be used: {error}."),
            )
        };
        Ok(Self {
            names: names.build().map_err(unusable)?,
            name_patterns,
            paths: paths.build().map_err(unusable)?,
            path_patterns,
        })
    }

    /// The pattern that makes PATH, which is absolute, private.
    #[must_use]
    pub fn matching(&self, path: &Path) -> Option<&str> {
        let above = path.parent().into_iter().flat_map(Path::iter);
        above
            .filter_map(|name| self.names.matches(name).into_iter().min())
            .map(|index| self.name_patterns[index].as_str())
            .next()
            .or_else(|| self.matching_last(path))
    }

    /// The same for a PATH whose folders are known not to be private.
    #[must_use]
    pub fn matching_last(&self, path: &Path) -> Option<&str> {
        let name = path.file_name()?;
        // Nearly every file ends here.
        if !self.names.is_match(name) && !self.paths.is_match(path) {
            return None;
        }
        if HARMLESS.iter().any(|it| name.eq_ignore_ascii_case(it)) {
            return None;
        }
        if let Some(index) = self.names.matches(name).into_iter().min() {
            return Some(&self.name_patterns[index]);
        }
        let index = self.paths.matches(path).into_iter().min()?;
        Some(&self.path_patterns[index])
    }
}

fn glob(text: &str, pattern: &str) -> Result<globset::Glob, FileError> {
    GlobBuilder::new(text)
        .literal_separator(true)
        .case_insensitive(true)
        .build()
        .map_err(|error| {
            FileError::new(
                Trouble::BadRequest,
                format!(
                    "'{pattern}' in the list of private files is no glob: {}.",
                    error.kind()
                ),
            )
        })
}
