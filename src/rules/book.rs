// SPDX-License-Identifier: GPL-3.0-or-later
//! All rules that hold now: the lasting ones from the user's file, and those of calls, turns and
//! chats, which live in memory. When the file can't be read, every call asks.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::matching::{Compiled, DANGEROUS_ASKS, Explanation, Outcome, decide};
use super::rule::PASSING_FROM;
use super::{BadRule, Effect, OtherArguments, Rule, RuledCall, Scope, TurnPlace};

type Ready = (Rule, Compiled);

/// The rules, and the file that the lasting ones are in.
#[derive(Debug)]
pub struct RuleBook {
    store: Store,
    /// Or why they can't be read.
    lasting: Result<Vec<Ready>, StoreError>,
    passing: Vec<Ready>,
    /// The number of the last rule that is only in memory.
    last_passing: u64,
    generation: u64,
}

impl RuleBook {
    /// The rules in FILE, which need not exist yet. A file that can't be used makes a book in
    /// which every call asks; [`RuleBook::trouble`] says why.
    #[must_use]
    pub fn open(file: &Path) -> Self {
        let mut book = Self {
            store: Store::new(file),
            lasting: Ok(Vec::new()),
            passing: Vec::new(),
            last_passing: PASSING_FROM,
            generation: 0,
        };
        book.reload();
        book
    }

    /// The file of lasting rules. Tools must not change it: see `files::private`.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.store.file()
    }

    /// Reads the file again, if it was changed.
    pub fn reload(&mut self) {
        if let Some(loaded) = self.store.load_if_changed() {
            self.take(loaded);
        }
    }

    /// A number that grows with every change of the rules: what they said is what they say as long as
    /// it is the same.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Why the file can't be used.
    #[must_use]
    pub fn trouble(&self) -> Option<&StoreError> {
        self.lasting.as_ref().err()
    }

    /// All rules, the lasting ones first.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.ready().map(|(rule, _)| rule)
    }

    /// Takes RULE and returns its number; a lasting one is in the file then.
    ///
    /// # Errors
    ///
    /// The rule can't be used, or the file can't be read or written; then nothing changed.
    pub fn add(&mut self, mut rule: Rule) -> Result<u64, StoreError> {
        rule.check()?;
        if rule.scope.lasts() {
            let (rules, id) = self.store.update(|rules| {
                let id = rules.iter().map(|it| it.id).max().unwrap_or(0) + 1;
                rule.id = id;
                rules.push(rule);
                id
            })?;
            self.take(Ok(rules));
            Ok(id)
        } else {
            let compiled = Compiled::new(&rule)?;
            self.last_passing += 1;
            rule.id = self.last_passing;
            self.passing.push((rule, compiled));
            self.generation += 1;
            Ok(self.last_passing)
        }
    }

    /// Takes rule ID back; false when there is none.
    ///
    /// # Errors
    ///
    /// The file can't be read or written; then nothing changed.
    pub fn revoke(&mut self, id: u64) -> Result<bool, StoreError> {
        if self.forget_where(|rule| rule.id == id) {
            return Ok(true);
        }
        let (rules, revoked) = self.store.update(|rules| {
            let before = rules.len();
            rules.retain(|rule| rule.id != id);
            rules.len() < before
        })?;
        self.take(Ok(rules));
        Ok(revoked)
    }

    /// Forgets the rules of a call, a turn or a chat that is over.
    pub fn forget(&mut self, scope: &Scope) {
        self.forget_where(|rule| rule.scope == *scope);
    }

    /// Forgets the rules in memory that are OVER; false when none is.
    fn forget_where(&mut self, over: impl Fn(&Rule) -> bool) -> bool {
        let before = self.passing.len();
        self.passing.retain(|(rule, _)| !over(rule));
        let forgotten = self.passing.len() < before;
        self.generation += u64::from(forgotten);
        forgotten
    }

    /// What happens to CALL, and by which rule.
    #[must_use]
    pub fn explain(&self, call: &RuledCall<'_>) -> Explanation {
        let rules = self.ready().map(|(rule, compiled)| (rule, compiled));
        let mut explanation = decide(rules, call);
        let Err(trouble) = &self.lasting else {
            return explanation;
        };
        match explanation.outcome {
            Outcome::Run => {
                explanation.outcome = Outcome::Ask;
                explanation.rule = None;
                explanation.reason = trouble.to_string();
            }
            // A rule that nobody can read might have let it run.
            Outcome::Ask if explanation.reason == DANGEROUS_ASKS => {
                explanation.reason = trouble.to_string();
            }
            Outcome::Ask | Outcome::Deny => {}
        }
        explanation
    }

    /// What happens to CALL.
    #[must_use]
    pub fn decide(&self, call: &RuledCall<'_>) -> Outcome {
        self.explain(call).outcome
    }

    /// Whether a rule denies every call of TOOL in a chat at PLACE, so that it need not be offered.
    #[must_use]
    pub fn denies_all(&self, tool: &str, place: &TurnPlace) -> bool {
        let bare = |rule: &Rule| {
            let free = rule.arguments.is_empty() && rule.other_arguments == OtherArguments::Any;
            let anywhere =
                rule.path.is_none() && rule.package.is_none() && rule.connection.is_none();
            free && anywhere && rule.mcp_client.is_none() && rule.alarms.is_empty()
        };
        let holds = |scope: &Scope| match scope {
            Scope::Once(_) | Scope::Turn(_) => false,
            Scope::Chat(chat) => *chat == place.chat,
            Scope::Project(root) => place.project.as_ref() == Some(root),
            Scope::Always => true,
        };
        self.ready().any(|(rule, compiled)| {
            rule.effect == Effect::Deny
                && holds(&rule.scope)
                && compiled.is_about(tool)
                && bare(rule)
        })
    }

    fn ready(&self) -> impl Iterator<Item = &Ready> {
        self.lasting.iter().flatten().chain(&self.passing)
    }

    fn take(&mut self, loaded: Result<Vec<Rule>, StoreError>) {
        self.generation += 1;
        self.lasting = loaded.and_then(|rules| {
            let ready = rules.into_iter().map(|rule| {
                let compiled = Compiled::new(&rule)?;
                Ok((rule, compiled))
            });
            ready
                .collect::<Result<_, BadRule>>()
                .map_err(StoreError::from)
        });
    }
}

// The user's lasting rules in one readable JSON file. It is replaced as a whole or not at all;
// one that can't be understood is left as it is, and reported.

const VERSION: u64 = 1;
const LARGEST: u64 = 4 * 1024 * 1024;

/// Why rules can't be taken, read or written: one sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Rule(#[from] BadRule),
    #[error(
        "The rules in '{file}' can't be used, so every call asks: {why}. Fix the file or move it away; it was not changed."
    )]
    Unusable { file: String, why: String },
    #[error("The rules can't be written to '{file}': {why}; nothing was changed.")]
    Unwritable { file: String, why: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u64,
    rules: Vec<Rule>,
}

/// Just enough to tell a file that a later version wrote from a broken one.
#[derive(Deserialize)]
struct Versioned {
    version: Option<u64>,
}

/// What a file looked like when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// The file of rules.
#[derive(Debug)]
pub struct Store {
    file: PathBuf,
    /// Nothing before the first reading; then the stamp, or nothing for no file.
    seen: Option<Option<Stamp>>,
}

impl Store {
    #[must_use]
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            seen: None,
        }
    }

    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The rules, unless the file is as it was when they were read last.
    pub fn load_if_changed(&mut self) -> Option<Result<Vec<Rule>, StoreError>> {
        let now = fs::metadata(&self.file).ok().map(|it| stamp(&it));
        if self.seen == Some(now) {
            return None;
        }
        self.seen = Some(now);
        Some(self.load())
    }

    fn load(&self) -> Result<Vec<Rule>, StoreError> {
        let text = match self.read() {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(Vec::new()),
            Err(why) => return Err(self.unusable(why)),
        };
        parse(&text).map_err(|why| self.unusable(why))
    }

    /// Changes the rules that are in the file now, and writes them.
    ///
    /// # Errors
    ///
    /// The file can't be read or written; then it is as it was.
    pub fn update<T>(
        &mut self,
        change: impl FnOnce(&mut Vec<Rule>) -> T,
    ) -> Result<(Vec<Rule>, T), StoreError> {
        let unwritable = |why: io::Error| StoreError::Unwritable {
            file: self.file.display().to_string(),
            why: why.to_string(),
        };
        // Follows a link first, so that the link stays.
        let file = fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone());
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(unwritable)?;
        // Two Emacsen may add a rule at the same time.
        let lock = File::open(folder).map_err(unwritable)?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| unwritable(error.into()))?;
        let mut rules = self.load()?;
        let result = change(&mut rules);
        write(&file, folder, &rules).map_err(unwritable)?;
        self.seen = Some(fs::metadata(&self.file).ok().map(|it| stamp(&it)));
        Ok((rules, result))
    }

    /// The file's text, or nothing when there is no file.
    fn read(&self) -> Result<Option<String>, String> {
        let file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if !metadata.is_file() {
            return Err("it is not a regular file".into());
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err("it belongs to another user".into());
        }
        if metadata.mode() & 0o022 != 0 {
            return Err("other users can write to it; use chmod 600".into());
        }
        if metadata.len() > LARGEST {
            return Err("it is too large".into());
        }
        let mut text = String::new();
        file.take(LARGEST)
            .read_to_string(&mut text)
            .map_err(|error| error.to_string())?;
        Ok(Some(text))
    }

    fn unusable(&self, why: String) -> StoreError {
        StoreError::Unusable {
            file: self.file.display().to_string(),
            why,
        }
    }
}

fn parse(text: &str) -> Result<Vec<Rule>, String> {
    if let Ok(Versioned {
        version: Some(version),
    }) = serde_json::from_str(text)
        && version != VERSION
    {
        return Err(format!("it has version {version}, not {VERSION}"));
    }
    let contents: Contents = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut rules = contents.rules;
    for (index, rule) in rules.iter().enumerate() {
        let number = index + 1;
        rule.check()
            .map_err(|error| format!("rule {number}: {}", error.0))?;
        if !rule.scope.lasts() {
            return Err(format!(
                "rule {number}: only rules for a project or always can be kept"
            ));
        }
    }
    number_anew(&mut rules);
    Ok(rules)
}

/// Gives rules that were written by hand without a number, or with a taken one, one of their own.
fn number_anew(rules: &mut [Rule]) {
    let mut next = rules.iter().map(|rule| rule.id).max().unwrap_or(0);
    let mut taken = HashSet::from([0]);
    for rule in rules {
        if !taken.insert(rule.id) {
            next += 1;
            rule.id = next;
        }
    }
}

fn write(file: &Path, folder: &Path, rules: &[Rule]) -> io::Result<()> {
    let contents = Contents {
        version: VERSION,
        rules: rules.to_vec(),
    };
    let mut text = serde_json::to_string_pretty(&contents)?;
    text.push('\n');
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = write_new(&temporary, &text).and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    File::open(folder)?.sync_all()
}

fn write_new(file: &Path, text: &str) -> io::Result<()> {
    // Left by a process of the same number that was killed; the lock says that none is at work.
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut new = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    new.write_all(text.as_bytes())?;
    new.sync_all()
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    Stamp {
        inode: metadata.ino(),
        size: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    }
}
