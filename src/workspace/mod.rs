// SPDX-License-Identifier: GPL-3.0-or-later
//! A chat's place among the user's files: by what paths are judged, what the model last saw of
//! each text, and what its turns changed ([`journal`]). Only state; `crate::builtin` does the work.

pub mod journal;
pub mod quoting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde::Deserialize;

use crate::files::fingerprint::{Fingerprint, text_hash};
use crate::files::path::PathPolicy;
use crate::files::private::{DEFAULT_PATTERNS, PrivateFiles};
use crate::files::{FileError, Trouble};
use crate::runtime::held;
use journal::{Journal, JournalEntry, as_diff};

/// Where the files of a chat are, as Emacs says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ProjectSettings {
    /// The project's root; none when the chat doesn't say.
    #[serde(rename = "project_root")]
    pub root: Option<String>,
    /// Globs of files that hold secrets; none for the default list.
    #[serde(rename = "private_files")]
    pub private: Option<Vec<String>>,
}

/// When a file was changed last, and its size.
pub type Stamp = (SystemTime, u64);

type Judged = Option<Result<Arc<PathPolicy>, FileError>>;

/// What a chat knows of the user's files.
#[derive(Debug, Default)]
pub struct Workspace {
    ground: Mutex<(ProjectSettings, Judged)>,
    seen: Mutex<HashMap<PathBuf, Seen>>,
    /// Private files that programs and code were allowed to read.
    leaked: Mutex<BTreeSet<PathBuf>>,
    /// Of the Lisp files that the model has changed, by their paths: what of their text the image was
    /// given, in any order.
    compiled: Mutex<HashMap<PathBuf, String>>,
    /// The same files: what they were when what was changed in them last passed its tests.
    tested: Mutex<HashMap<PathBuf, String>>,
    /// By files, the definitions that the model was told last that the image lacks.
    lacking: Mutex<BTreeMap<String, Vec<String>>>,
    /// What stands in the files outside of the project that hold only what the model wrote.
    written: Mutex<HashMap<PathBuf, String>>,
    /// What tests ran in the user's image last, by the names of their systems.
    tests: Mutex<HashMap<String, TestsRun>>,
    /// The last change that was refused, as its parentheses are not balanced.
    unbalanced: Mutex<Option<Unbalanced>>,
    pub journal: Journal,
    /// What the model is told with the user's next message.
    news: Mutex<Vec<News>>,
}

/// What the model is told with the user's next message.
#[derive(Debug)]
struct News {
    text: String,
    /// What it says that the image still has.
    still: Option<Still>,
}

/// What the image may still have of a turn that was undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Still {
    /// Definitions that the turn evaluated or compiled.
    Definitions,
    /// What this system had in its files.
    System(String),
}

/// The tests of a system that ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestsRun {
    pub checks: i64,
    /// Their names, as far as their framework tells them.
    pub names: BTreeSet<String>,
}

/// A change that was refused.
#[derive(Debug)]
struct Unbalanced {
    path: PathBuf,
    /// Of the text that stood there; none where there was no file.
    before: Option<u64>,
    /// What it can be repaired to.
    repaired: Option<String>,
}

/// What is known to have stood at a path.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// What the model read or wrote last.
    known: Option<Version>,
    /// What a change was proposed for since; the user decides with that in mind.
    proposed: Option<Version>,
}

/// A text that stood at a path.
#[derive(Debug, Clone, Copy)]
struct Version {
    /// Of the file's bytes.
    file: Option<Fingerprint>,
    /// Of the text, with plain line ends; see [`text_hash`].
    text: Option<u64>,
}

impl Version {
    fn is(&self, now: &Now) -> bool {
        let same_file = match (self.file, now.file) {
            (Some(then), Some(now)) => then.same_content(&now),
            _ => false,
        };
        same_file || self.text == Some(now.text)
    }
}

/// What stands at a path now.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    pub file: Option<Fingerprint>,
    pub text: u64,
}

impl Workspace {
    /// Takes over where the files are; a policy is made when it is first needed.
    pub fn set_ground(&self, ground: &ProjectSettings) {
        let mut held = held(&self.ground);
        if held.0 != *ground {
            *held = (ground.clone(), None);
        }
    }

    /// By what paths are judged, if that was made already.
    pub fn made_policy(&self) -> Judged {
        held(&self.ground).1.clone()
    }

    /// By what paths are judged; nothing when no root is known yet.
    pub fn policy(&self) -> Judged {
        let mut held = held(&self.ground);
        if held.1.is_none() {
            let root = held.0.root.clone()?;
            held.1 = Some(make_policy(&root, held.0.private.as_deref()));
        }
        held.1.clone()
    }

    /// TURN as one diff, with paths as they are in the project.
    #[must_use]
    pub fn diff(&self, turn: &[JournalEntry]) -> String {
        let policy = self.policy().and_then(Result::ok);
        as_diff(turn, policy.as_ref().map(|policy| policy.root()))
    }

    /// The files that hold secrets; where the user's list can't be used, all do.
    #[must_use]
    pub fn private_files(&self) -> PrivateFiles {
        let held = held(&self.ground);
        if let Some(Ok(policy)) = &held.1 {
            return policy.private_files().clone();
        }
        let home = std::env::home_dir();
        match &held.0.private {
            Some(patterns) => PrivateFiles::new(patterns, home.as_deref()),
            None => PrivateFiles::new(DEFAULT_PATTERNS, home.as_deref()),
        }
        .unwrap_or_else(|_| PrivateFiles::everything())
    }

    /// Takes over GROUND where no root was known, for calls outside chats.
    ///
    /// # Errors
    ///
    /// There is still none, or it can't be one.
    pub fn settle(&self, ground: &ProjectSettings) -> Result<Arc<PathPolicy>, FileError> {
        if held(&self.ground).0.root.is_none() {
            self.set_ground(ground);
        }
        self.policy().unwrap_or_else(|| {
            Err(FileError::new(
                Trouble::Missing,
                "No project root is known; the user can set agent-q-project-root.",
            ))
        })
    }

    /// Has the model told TEXT with the user's next message.
    pub fn tell_later(&self, text: impl Into<String>) {
        let text = text.into();
        held(&self.news).push(News { text, still: None });
    }

    /// Has the model told TEXT with the user's next message, if the image is STILL as it says by then.
    pub fn tell_if_still(&self, still: Still, text: impl Into<String>) {
        let (text, still) = (text.into(), Some(still));
        held(&self.news).push(News { text, still });
    }

    /// Notes that the image has no longer what it STILL had of a turn that was undone.
    pub fn no_longer(&self, still: &Still) {
        held(&self.news).retain(|news| news.still.as_ref() != Some(still));
    }

    /// The user's message TEXT with what the model was to be told with it.
    #[must_use]
    pub fn with_news(&self, text: String) -> String {
        told_with(text, &std::mem::take(&mut *held(&self.news)))
    }

    /// The user's message TEXT as `with_news` would give it now; the news stay.
    #[must_use]
    pub fn previewed(&self, text: &str) -> String {
        told_with(text.to_owned(), &held(&self.news))
    }

    /// Notes that the model saw the file at PATH as it was then.
    pub fn saw_file(&self, path: &Path, file: Fingerprint) {
        let file = Some(file);
        self.knows(path, Version { file, text: None });
    }

    /// Notes that the model knows that TEXT stands at PATH.
    pub fn saw_text(&self, path: &Path, text: &str) {
        let text = Some(text_hash(text));
        self.knows(path, Version { file: None, text });
    }

    /// The files that the model has seen or written, with what the system says of each now.
    #[must_use]
    pub fn stamps(&self) -> BTreeMap<PathBuf, Option<Stamp>> {
        let paths: Vec<PathBuf> = held(&self.seen).keys().cloned().collect();
        let stamp = |path: &PathBuf| {
            let metadata = path.symlink_metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        paths
            .into_iter()
            .map(|path| (path.clone(), stamp(&path)))
            .collect()
    }

    /// Notes that a program or code may read the private file at PATH.
    pub fn may_leak(&self, path: &Path) {
        held(&self.leaked).insert(path.to_owned());
    }

    /// The private files whose text the model may know.
    #[must_use]
    pub fn known_secrets(&self) -> BTreeSet<PathBuf> {
        let private = self.private_files();
        let seen: Vec<PathBuf> = held(&self.seen).keys().cloned().collect();
        let seen = seen.into_iter().filter(|it| private.matching(it).is_some());
        seen.chain(held(&self.leaked).iter().cloned()).collect()
    }

    fn knows(&self, path: &Path, version: Version) {
        let seen = Seen {
            known: Some(version),
            proposed: None,
        };
        held(&self.seen).insert(path.to_owned(), seen);
    }

    /// Notes that the text at PATH, of a Lisp file, was changed from BEFORE.
    pub fn changed_lisp(&self, path: &Path, before: &str) {
        for texts in [&self.compiled, &self.tested] {
            let mut texts = held(texts);
            let entry = texts.entry(path.to_owned());
            entry.or_insert_with(|| before.to_owned());
        }
    }

    /// Notes what the journal of a chat that is resumed tells of files that are of Lisp, by IS_LISP. Whether
    /// they passed their tests since isn't known.
    pub fn changed_earlier(&self, is_lisp: impl Fn(&Path) -> bool) {
        let mut tested = held(&self.tested);
        for (_, turn) in self.journal.since(0) {
            for entry in turn {
                if let Some((path, before)) = entry.text_before()
                    && is_lisp(path)
                {
                    let entry = tested.entry(path.to_owned());
                    entry.or_insert_with(|| before.to_owned());
                }
            }
        }
    }

    /// The files that the model has changed since the image was given all of them, with what the image was
    /// given.
    #[must_use]
    pub fn not_all_compiled(&self) -> Vec<(PathBuf, String)> {
        in_order(&held(&self.compiled))
    }

    /// The files that the model has changed since what it changed passed its tests, as they were then.
    #[must_use]
    pub fn not_tested(&self) -> Vec<(PathBuf, String)> {
        in_order(&held(&self.tested))
    }

    /// Notes that all that was changed has passed its tests.
    pub fn all_passed(&self) {
        held(&self.tested).clear();
    }

    /// Notes that all tests of SYSTEM ran in the user's image, as RUN says.
    pub fn tests_ran(&self, system: &str, run: TestsRun) {
        held(&self.tests).insert(system.trim().to_lowercase(), run);
    }

    /// What ran there of the tests of SYSTEM last.
    #[must_use]
    pub fn last_tests(&self, system: &str) -> Option<TestsRun> {
        held(&self.tests)
            .get(&system.trim().to_lowercase())
            .cloned()
    }

    /// Notes that the model is told that the image lacks these definitions of files, and gives those files of
    /// them of which it lacks any that the model wasn't told of before.
    pub fn tell_lacking(
        &self,
        lacking: BTreeMap<String, Vec<String>>,
    ) -> Vec<(String, Vec<String>)> {
        let mut told = held(&self.lacking);
        let news = lacking.iter().filter(|(file, names)| {
            let known = told.get(*file);
            let is_known = |name: &String| known.is_some_and(|it| it.contains(name));
            !names.iter().all(is_known)
        });
        let news = news.map(|(file, names)| (file.clone(), names.clone()));
        let news = news.collect();
        *told = lacking;
        news
    }

    /// Notes that the image was given FORM of the file at PATH; all of it without one.
    pub fn was_compiled(&self, path: &Path, form: Option<&str>) {
        let mut compiled = held(&self.compiled);
        match (form, compiled.get_mut(path)) {
            (Some(form), Some(known)) => {
                known.push('\n');
                known.push_str(form);
            }
            _ => {
                compiled.remove(path);
            }
        }
    }

    /// Notes that SYSTEM and others were loaded, and so perhaps all of any file.
    pub fn systems_were_loaded(&self, system: Option<&str>) {
        held(&self.compiled).clear();
        if let Some(system) = system {
            let loaded = Some(Still::System(system.to_owned()));
            let mut news = held(&self.news);
            // What was compiled of its files is as these are again, too.
            if news.iter().any(|it| it.still == loaded) {
                let over = |it: &News| it.still == loaded || it.still == Some(Still::Definitions);
                news.retain(|it| !over(it));
            }
        }
    }

    /// Notes that the model wrote AFTER to PATH, outside of the project, where BEFORE stood, if anything.
    pub fn wrote(&self, path: &Path, before: Option<&str>, after: &str) {
        let only_its_own = before.is_none_or(|before| self.has_written(path, before));
        let mut written = held(&self.written);
        match only_its_own {
            true => written.insert(path.to_owned(), after.to_owned()),
            false => written.remove(path),
        };
    }

    /// Whether TEXT, which stands at PATH outside of the project, is all the model's own. Not after a
    /// restart: then nobody remembers.
    #[must_use]
    pub fn has_written(&self, path: &Path, text: &str) -> bool {
        let written = held(&self.written);
        written.get(path).is_some_and(|it| it == text)
    }

    /// Notes that a change of BEFORE at PATH was refused, and to what it can be REPAIRED, if it can be.
    pub fn refused_unbalanced(&self, path: &Path, before: Option<&str>, repaired: Option<String>) {
        *held(&self.unbalanced) = Some(Unbalanced {
            path: path.to_owned(),
            before: before.map(text_hash),
            repaired,
        });
    }

    /// If the last refused change was one of BEFORE at PATH, to what it can be repaired, if it can be.
    #[must_use]
    pub fn last_unbalanced(&self, path: &Path, before: Option<&str>) -> Option<Option<String>> {
        let held = held(&self.unbalanced);
        let kept = held.as_ref()?;
        let same = kept.path == path && kept.before == before.map(text_hash);
        same.then(|| kept.repaired.clone())
    }

    /// Nothing is known of PATH any more.
    pub fn forget(&self, path: &Path) {
        held(&self.seen).remove(path);
    }

    /// Leaves open what the model knows of each text: it may have read them by other means since. What
    /// changes were proposed for stays.
    pub fn forget_what_was_seen(&self) {
        for seen in held(&self.seen).values_mut() {
            seen.known = None;
        }
    }

    /// What was known of FROM is now known of TO, and nothing else.
    pub fn moved(&self, from: &Path, to: &Path) {
        let mut seen = held(&self.seen);
        seen.remove(to);
        if let Some(known) = seen.remove(from) {
            seen.insert(to.to_owned(), known);
        }
    }

    /// Notes that a change was proposed to what is at PATH now.
    pub fn proposed(&self, path: &Path, now: Now) {
        let (file, text) = (now.file, Some(now.text));
        held(&self.seen)
            .entry(path.to_owned())
            .or_default()
            .proposed = Some(Version { file, text });
    }

    /// Notes that what was proposed to PATH has been done.
    pub fn settled(&self, path: &Path) {
        if let Some(seen) = held(&self.seen).get_mut(path) {
            seen.proposed = None;
        }
    }

    /// Makes sure that what is at PATH, shown as SHOWN, is what the model last saw of it.
    ///
    /// # Errors
    ///
    /// It was changed since.
    pub fn check_seen(&self, path: &Path, shown: &str, now: Now) -> Result<(), FileError> {
        let known = held(&self.seen).get(path).and_then(|seen| seen.known);
        match known {
            Some(version) if version.is(&now) => Ok(()),
            Some(_) => Err(changed(shown, "it was last read")),
            None => self.check_proposed(path, shown, now),
        }
    }

    /// Makes sure that what is at PATH, shown as SHOWN, is what a change was proposed for, if one was.
    ///
    /// # Errors
    ///
    /// It was changed since.
    pub fn check_proposed(&self, path: &Path, shown: &str, now: Now) -> Result<(), FileError> {
        let proposed = held(&self.seen).get(path).and_then(|seen| seen.proposed);
        match proposed {
            Some(version) if !version.is(&now) => Err(changed(shown, "this change was proposed")),
            _ => Ok(()),
        }
    }
}

/// TEXTS by their paths.
fn in_order(texts: &HashMap<PathBuf, String>) -> Vec<(PathBuf, String)> {
    let texts = texts.iter();
    let mut texts: Vec<_> = texts
        .map(|(path, text)| (path.clone(), text.clone()))
        .collect();
    texts.sort_unstable();
    texts
}

/// Why nothing is done with a file, shown as SHOWN, that was changed since SINCE.
fn changed(shown: &str, since: &str) -> FileError {
    FileError::new(
        Trouble::Changed,
        format!("'{shown}' was changed since {since}; nothing was done. Read it again first."),
    )
}

fn make_policy(root: &str, private: Option<&[String]>) -> Result<Arc<PathPolicy>, FileError> {
    let home = std::env::home_dir();
    let (root, home) = (Path::new(root), home.as_deref());
    let policy = match private {
        Some(patterns) => PathPolicy::with_private(root, home, patterns),
        None => PathPolicy::with_private(root, home, DEFAULT_PATTERNS),
    };
    policy.map(Arc::new)
}

fn told_with(text: String, news: &[News]) -> String {
    let news: Vec<&str> = news.iter().map(|news| news.text.as_str()).collect();
    match news.is_empty() {
        true => text,
        false => format!("{text}\n\n[agent-q: {}]", news.join("\n")),
    }
}
