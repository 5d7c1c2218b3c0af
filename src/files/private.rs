// SPDX-License-Identifier: GPL-3.0-or-later
//! Files that are never read or changed without asking, wherever they are: keys, passwords,
//! tokens. A list of globs; the user can replace it. A copy of such a file is one, too.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, iter};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::copies::origins;
use super::{FileError, Identity, Trouble};

/// The globs that hold unless the user gives others. Without a slash: a name in any folder, of the
/// file or of a folder around it. With `~/`: from the home folder.
pub const DEFAULT_PATTERNS: &[&str] = &[
    ".authinfo*",
    ".netrc*",
    "_netrc",
    ".env",
    ".env.*",
    ".envrc",
    // A project may be in a folder of such a name.
    "**/*.env",
    "**/credentials*",
    "**/.credentials*",
    "**/secrets.y*ml",
    "**/secrets.json",
    "**/secrets.toml",
    "*.tfstate",
    "*.tfvars",
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
    ".s3cfg",
    "rclone.conf",
    "agent-q-chats",
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/ssl/private/**",
    "**/.git/config",
    "**/.git/config.worktree",
    "**/.git/hooks/**",
    "**/.git/modules/**/config",
    "**/.git/modules/**/config.worktree",
    "**/.git/modules/**/hooks/**",
    "**/.git/worktrees/**/config.worktree",
    "~/.aws/**",
    "~/.azure/**",
    "~/.kube/**",
    "~/.docker/config.json",
    "~/.config/gcloud/**",
    "~/.config/gh/**",
    "~/.config/git/credentials",
    "~/.config/github-copilot/**",
    "~/.config/hub",
    "~/.config/rclone/**",
    "~/.claude.json",
    "~/.codex/auth.json",
    "~/.gemini/oauth_creds.json",
    "~/.local/share/opencode/auth.json",
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

/// The name of the key by which agent-q knows its own chats again. It is private whatever the user's
/// list says: who can read it can write a chat whose undoing writes any file.
pub const CHATS_KEY: &str = "agent-q-chats.key";

/// Names that match a pattern and are no secret.
const HARMLESS: &[&str] = &[
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    "example.env",
    "sample.env",
    "template.env",
];

/// How many files are looked at for one with another name, and how many folders deep.
const MOST_LOOKED_AT: usize = 20_000;
const DEEPEST: usize = 6;

/// A list that was compiled, and what from: it is the same nearly always, and takes long.
type Compiled = (Vec<String>, Option<PathBuf>, PrivateFiles);

/// The compiled list of private files. Letter case never matters: the file system may ignore it.
#[derive(Debug, Clone)]
pub struct PrivateFiles {
    /// Matched against every component of a path.
    names: GlobSet,
    name_patterns: Vec<String>,
    /// Matched against the last component only.
    last: GlobSet,
    last_patterns: Vec<String>,
    /// Matched against the whole absolute path.
    paths: GlobSet,
    path_globs: Vec<Glob>,
    path_patterns: Vec<String>,
    needles: Arc<[String]>,
    /// Where such files usually are: what has no wildcard of the patterns, below the home folder.
    places: Arc<[PathBuf]>,
}

impl PrivateFiles {
    /// Compiles PATTERNS; HOME stands for a leading `~/`.
    ///
    /// # Errors
    ///
    /// A sentence naming the pattern that is no glob.
    pub fn new<S: AsRef<str>>(patterns: &[S], home: Option<&Path>) -> Result<Self, FileError> {
        static LAST: Mutex<Option<Compiled>> = Mutex::new(None);
        let given = patterns.iter().map(AsRef::as_ref);
        let mut patterns: Vec<String> = given.map(str::to_owned).collect();
        patterns.push(format!("{CHATS_KEY}*"));
        let home = home.map(Path::to_owned);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((same, at, compiled)) = &*last
            && (same, at) == (&patterns, &home)
        {
            return Ok(compiled.clone());
        }
        let compiled = Self::compiled(&patterns, home.as_deref())?;
        *last = Some((patterns, home, compiled.clone()));
        Ok(compiled)
    }

    fn compiled(patterns: &[String], home: Option<&Path>) -> Result<Self, FileError> {
        let (mut names, mut last) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let (mut path_globs, mut last_patterns) = (Vec::new(), Vec::new());
        let (mut name_patterns, mut path_patterns) = (Vec::new(), Vec::new());
        for pattern in patterns.iter().map(String::as_str) {
            let at_home = pattern.strip_prefix("~/");
            match (at_home, home) {
                (Some(_), None) => continue,
                (Some(rest), Some(home)) => {
                    let home = globset::escape(&home.to_string_lossy());
                    for rest in with_folder(rest) {
                        path_globs.push(glob(&format!("{home}/{rest}"), pattern)?);
                        path_patterns.push(pattern.to_owned());
                    }
                }
                (None, _) if of_last(pattern).is_some() => {
                    last.add(glob(of_last(pattern).unwrap_or_default(), pattern)?);
                    last_patterns.push(pattern.to_owned());
                }
                (None, _) if pattern.contains('/') => {
                    for text in with_folder(pattern) {
                        path_globs.push(glob(text, pattern)?);
                        path_patterns.push(pattern.to_owned());
                    }
                }
                (None, _) => {
                    names.add(glob(pattern, pattern)?);
                    name_patterns.push(pattern.to_owned());
                }
            }
        }
        Ok(Self {
            names: names.build().map_err(unusable)?,
            name_patterns,
            last: last.build().map_err(unusable)?,
            last_patterns,
            paths: set_of(&path_globs)?,
            path_globs,
            path_patterns,
            needles: needles(patterns),
            places: home.map_or_else(|| Arc::from([]), |home| places(patterns, home)),
        })
    }

    /// The same list for walking below ROOT, an absolute path, where `.git` is never entered: without
    /// the paths that can't be there, because each costs time at every file.
    ///
    /// # Errors
    ///
    /// As [`PrivateFiles::new`].
    pub fn below(&self, root: &Path) -> Result<Self, FileError> {
        let root = root.to_string_lossy().to_lowercase();
        let globs = self.path_globs.iter().zip(&self.path_patterns);
        let (path_globs, path_patterns): (Vec<_>, Vec<_>) = globs
            .filter(|(glob, _)| can_be_below(glob.glob(), &root))
            .map(|(glob, pattern)| (glob.clone(), pattern.clone()))
            .unzip();
        Ok(Self {
            names: self.names.clone(),
            name_patterns: self.name_patterns.clone(),
            last: self.last.clone(),
            last_patterns: self.last_patterns.clone(),
            paths: set_of(&path_globs)?,
            path_globs,
            path_patterns,
            needles: Arc::clone(&self.needles),
            places: Arc::clone(&self.places),
        })
    }

    /// A list in which every file is private.
    #[must_use]
    pub fn everything() -> Self {
        // One that can't be compiled would leave nothing private.
        let all = GlobBuilder::new("*")
            .build()
            .and_then(|glob| GlobSetBuilder::new().add(glob).build());
        Self {
            names: all.unwrap_or_else(|_| GlobSet::empty()),
            name_patterns: vec!["*".to_owned()],
            last: GlobSet::empty(),
            last_patterns: Vec::new(),
            paths: GlobSet::empty(),
            path_globs: Vec::new(),
            path_patterns: Vec::new(),
            needles: needles(&["*".to_owned()]),
            places: Arc::from([]),
        }
    }

    /// Texts of which the name of a private file has at least one, in small letters, unless it has
    /// letters beyond ASCII. Where globs can't be matched, these recognize most files.
    #[must_use]
    pub fn needles(&self) -> &[String] {
        &self.needles
    }

    /// Whether the file PATH is a private one by another name: a hard link to one in a folder above it, or
    /// to one where such files usually are. This looks at many files.
    #[must_use]
    pub fn has_by_another_name(&self, path: &Path) -> bool {
        let Ok(metadata) = fs::metadata(path) else {
            return false;
        };
        if !metadata.is_file() || metadata.nlink() < 2 {
            return false;
        }
        let mut left = MOST_LOOKED_AT;
        let wanted = Identity::of(&metadata);
        let above = path.ancestors().skip(1);
        above
            .chain(self.places.iter().filter_map(|place| place.parent()))
            .any(|folder| self.has_in(folder, wanted, 0, &mut left))
            || (self.places.iter()).any(|place| self.has_in(place, wanted, DEEPEST, &mut left))
    }

    /// Whether a private file in FOLDER, or DEPTH folders below, is WANTED. At most LEFT are looked at.
    fn has_in(&self, folder: &Path, wanted: Identity, depth: usize, left: &mut usize) -> bool {
        let Ok(entries) = fs::read_dir(folder) else {
            return false;
        };
        for entry in entries.flatten() {
            let Some(fewer) = left.checked_sub(1) else {
                return false;
            };
            *left = fewer;
            let (path, kind) = (entry.path(), entry.file_type());
            let found = match kind {
                Ok(kind) if kind.is_dir() => {
                    depth > 0 && self.has_in(&path, wanted, depth - 1, left)
                }
                Ok(kind) if kind.is_file() => {
                    self.matching(&path).is_some()
                        && (entry.metadata()).is_ok_and(|it| Identity::of(&it) == wanted)
                }
                _ => false,
            };
            if found {
                return true;
            }
        }
        false
    }

    /// The pattern that makes PATH, which is absolute, private.
    #[must_use]
    pub fn matching(&self, path: &Path) -> Option<&str> {
        let above = path.parent().into_iter().flat_map(Path::iter);
        above
            .filter_map(|name| self.by_name(name))
            .next()
            .or_else(|| self.matching_last(path))
    }

    /// The same for a PATH whose folders are known not to be private.
    #[must_use]
    pub fn matching_last(&self, path: &Path) -> Option<&str> {
        let name = path.file_name()?;
        let origins = origins(name);
        // Nearly every file ends here.
        let plain = !self.names.is_match(name) && !self.last.is_match(name);
        if origins.is_empty() && plain && !self.paths.is_match(path) {
            return None;
        }
        let harmless = |name: &OsStr| HARMLESS.iter().any(|it| name.eq_ignore_ascii_case(it));
        if harmless(name) || origins.iter().any(|it| harmless(it)) {
            return None;
        }
        let by_last = |name: &OsStr| {
            let index = self.last.matches(name).into_iter().min()?;
            Some(self.last_patterns[index].as_str())
        };
        let named = self.by_name(name).or_else(|| by_last(name));
        let named = named.or_else(|| origins.iter().find_map(|it| by_last(it)));
        named.or_else(|| {
            let by_path = |path: &Path| {
                let index = self.paths.matches(path).into_iter().min()?;
                Some(self.path_patterns[index].as_str())
            };
            by_path(path).or_else(|| {
                let mut origins = origins.iter();
                origins.find_map(|it| by_path(&path.with_file_name(it)))
            })
        })
    }

    /// The pattern without a slash that NAME matches, or one of those that it is a copy of.
    fn by_name(&self, name: &OsStr) -> Option<&str> {
        let matched = |name: &OsStr| {
            let index = self.names.matches(name).into_iter().min()?;
            Some(self.name_patterns[index].as_str())
        };
        matched(name).or_else(|| origins(name).iter().find_map(|it| matched(it)))
    }
}

/// The needles of PATTERNS; see [`PrivateFiles::needles`].
fn needles(patterns: &[String]) -> Arc<[String]> {
    let mut all: Vec<String> = patterns.iter().map(|it| needle(it)).collect();
    all.sort_unstable();
    all.dedup();
    // What has a shorter one in it says nothing more.
    let within = |it: &String, other: &String| other != it && it.contains(other.as_str());
    let shortest = all
        .iter()
        .filter(|it| !all.iter().any(|other| within(it, other)));
    shortest.cloned().collect()
}

/// A text that each path has which PATTERN matches; the rarest that is easily found.
fn needle(pattern: &str) -> String {
    let (mut runs, mut depth) = (vec![String::new()], 0_usize);
    let mut characters = pattern.trim_start_matches("~/").chars();
    while let Some(character) = characters.next() {
        match character {
            '{' | '[' => {
                depth += 1;
                runs.push(String::new());
            }
            '}' | ']' => depth = depth.saturating_sub(1),
            '*' | '?' | '/' => runs.push(String::new()),
            '\\' => {
                characters.next();
                runs.push(String::new());
            }
            // What stands in brackets need not be there.
            _ if depth > 0 => {}
            _ => {
                if let Some(run) = runs.last_mut() {
                    run.extend(character.to_lowercase());
                }
            }
        }
    }
    let rarity = |run: &String| (run.starts_with('.'), run.len());
    runs.into_iter().max_by_key(rarity).unwrap_or_default()
}

/// The files and folders below HOME that PATTERNS name without a wildcard.
fn places(patterns: &[String], home: &Path) -> Arc<[PathBuf]> {
    let literal = |pattern: &str| !pattern.contains(['*', '?', '[', '{', '\\']);
    let named = patterns.iter().filter_map(|pattern| {
        let pattern = pattern.strip_suffix("/**").unwrap_or(pattern);
        let below = pattern.strip_prefix("~/");
        let name = below.or_else(|| (!pattern.contains('/')).then_some(pattern))?;
        literal(name).then(|| home.join(name))
    });
    named.collect()
}

/// PATTERN, and the folder of which it means all files: their names are private, too.
fn with_folder(pattern: &str) -> impl Iterator<Item = &str> {
    iter::once(pattern).chain(pattern.strip_suffix("/**"))
}

/// What PATTERN says of a file's own name, if that is all that it is about.
fn of_last(pattern: &str) -> Option<&str> {
    let name = pattern.strip_prefix("**/")?;
    (!name.contains('/')).then_some(name)
}

fn set_of(globs: &[Glob]) -> Result<GlobSet, FileError> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob.clone());
    }
    set.build().map_err(unusable)
}

fn unusable(error: globset::Error) -> FileError {
    FileError::new(
        Trouble::BadRequest,
        format!("The list of private files can't be used: {error}."),
    )
}

/// Whether GLOB may match a path below ROOT, which is in small letters.
fn can_be_below(glob: &str, root: &str) -> bool {
    let glob = glob.to_lowercase();
    let in_git = |path: &str| path.split('/').any(|name| name == ".git");
    if in_git(&glob) && !in_git(root) {
        return false;
    }
    if !glob.starts_with('/') {
        return true;
    }
    let literal = glob
        .split(['*', '?', '[', '{', '\\'])
        .next()
        .unwrap_or_default();
    literal.starts_with(root) || root.starts_with(literal)
}

fn glob(text: &str, pattern: &str) -> Result<Glob, FileError> {
    GlobBuilder::new(text)
        .literal_separator(true)
        .case_insensitive(true)
        .build()
        .map_err(|error| {
            FileError::new(
                Trouble::BadRequest,
                format!(
                    "'{pattern}' in the list of private files is not a glob: {}.",
                    error.kind()
                ),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_private_file_has_a_needle_in_its_name() {
        let home = Path::new("/home/me");
        let usual = PrivateFiles::new(DEFAULT_PATTERNS, Some(home)).unwrap();
        let needles = usual.needles();
        assert!(
            needles.len() < 70 && !needles.contains(&String::new()),
            "{needles:?}"
        );
        for path in [
            "/srv/.ENV",
            "/srv/a/prod.env~",
            "/srv/a/#.env#",
            "/home/me/.aws/x",
            "/home/me/.docker/config.json",
            "/srv/a/.git/modules/b/config",
            "/srv/a/.git/hooks/pre-commit",
            "/srv/server.KEY.bak",
            "/srv/id_rsa",
            "/srv/_netrc",
            "/home/me/.aws",
            "/etc/shadow",
            "/home/me/.claude/.credentials.json",
            "/srv/secrets.yaml",
            "/srv/terraform.tfstate",
            "/home/me/.emacs.d/agent-q-chats/a.jsonl",
        ] {
            assert!(usual.matching(Path::new(path)).is_some(), "{path}");
            let small = path.to_lowercase();
            assert!(
                needles.iter().any(|it| small.contains(it.as_str())),
                "{path}"
            );
        }
        for path in [
            "/srv/shop/src/main.lisp",
            "/usr/share/common-lisp/source/x/config.lisp",
        ] {
            assert!(
                !needles.iter().any(|it| path.contains(it.as_str())),
                "{path}"
            );
        }
        let everything = PrivateFiles::everything();
        assert_eq!(everything.needles(), [""]);
        assert!(everything.matching(Path::new("/srv/a")).is_some());
        for (pattern, expected) in [
            ("{a,b}.key", ".key"),
            ("*", ""),
            ("[ab]c/**", "c"),
            ("~/.aws/**", ".aws"),
        ] {
            assert_eq!(needle(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn the_key_of_the_chats_is_private_in_any_list() {
        for patterns in [DEFAULT_PATTERNS, &["*.hush"], &[]] {
            let private = PrivateFiles::new(patterns, None).unwrap();
            for name in [CHATS_KEY, "agent-q-chats.key.7-0.tmp", "agent-q-chats.key~"] {
                let path = Path::new("/home/me/.emacs.d/agent-q").join(name);
                assert!(private.matching(&path).is_some(), "{patterns:?} {name}");
                assert!(
                    private
                        .needles()
                        .iter()
                        .any(|it| name.contains(it.as_str()))
                );
            }
        }
    }

    #[test]
    fn a_hard_link_to_a_private_file_is_one() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for folder in [".ssh/deep", "shop/src", ".aws/sso/cache"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        let private = PrivateFiles::new(DEFAULT_PATTERNS, Some(home.path())).unwrap();
        for (secret, link) in [
            (".ssh/deep/one", "shop/src/a.txt"),
            (".netrc", "shop/src/b.txt"),
            (".aws/sso/cache/x", "shop/src/c.txt"),
            ("shop/.env", "shop/src/d.txt"),
        ] {
            fs::write(path(secret), "secret").unwrap();
            fs::hard_link(path(secret), path(link)).unwrap();
            assert_eq!(private.matching(&path(link)), None, "{link}");
            assert!(private.has_by_another_name(&path(link)), "{link}");
        }
        fs::write(path("shop/e.txt"), "no secret").unwrap();
        fs::hard_link(path("shop/e.txt"), path("shop/src/f.txt")).unwrap();
        for file in ["shop/e.txt", "shop/src/f.txt", "shop/none"] {
            assert!(!private.has_by_another_name(&path(file)), "{file}");
        }
    }

    #[test]
    fn below_a_folder_the_shorter_list_says_the_same() {
        let home = Path::new("/home/me");
        let all = PrivateFiles::new(DEFAULT_PATTERNS, Some(home)).unwrap();
        let files = [
            "a.lisp",
            "server.pem",
            "credentials",
            "credentials.json~",
            "config",
            "hooks/pre-commit",
            ".AWS/credentials",
            ".aws/credentials",
            "cargo/credentials.toml",
            ".bash_history",
            "me/.kube/config",
        ];
        for root in [
            "/",
            "/home",
            "/home/me",
            "/home/me/.aws",
            "/home/me/.config/gh",
            "/home/me/src",
            "/srv/project",
            "/srv/project/.git",
            "/home/me/.cargo",
        ] {
            let root = Path::new(root);
            let below = all.below(root).unwrap();
            for file in files {
                let path = root.join(file);
                assert_eq!(
                    below.matching_last(&path),
                    all.matching_last(&path),
                    "{path:?}"
                );
            }
        }
        for (path, pattern) in [
            ("/srv/credentials-service/a.lisp", None),
            ("/srv/prod.env/a.lisp", None),
            ("/srv/a/credentials.json", Some("**/credentials*")),
            ("/srv/a/credentials.json.bak", Some("**/credentials*")),
            ("/srv/a/#e.env#", Some("**/*.env")),
            ("/srv/a/example.env", None),
            ("/srv/.ssh.bak/a", Some(".ssh")),
            ("/home/me/.aws", Some("~/.aws/**")),
            (
                "/home/me/.claude/.credentials.json",
                Some("**/.credentials*"),
            ),
            ("/home/me/.codex/auth.json", Some("~/.codex/auth.json")),
            (
                "/home/me/.config/github-copilot/apps.json",
                Some("~/.config/github-copilot/**"),
            ),
            ("/srv/secrets.yml", Some("**/secrets.y*ml")),
            ("/srv/secrets.lisp", None),
            ("/srv/terraform.tfstate.backup", Some("*.tfstate")),
            ("/srv/rclone.conf", Some("rclone.conf")),
            ("/etc/shadow-", Some("/etc/shadow*")),
            ("/etc/passwd", None),
            (
                "/home/me/.emacs.d/agent-q-chats/a.jsonl",
                Some("agent-q-chats"),
            ),
            (
                "/srv/a/.git/modules/b/c/config",
                Some("**/.git/modules/**/config"),
            ),
        ] {
            assert_eq!(all.matching(Path::new(path)), pattern, "{path}");
        }
        let project = all.below(Path::new("/srv/project")).unwrap();
        assert!(project.path_globs.is_empty());
    }
}
