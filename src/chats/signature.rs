// SPDX-License-Identifier: GPL-3.0-or-later
//! What tells the changes of files that this user's Emacs wrote into a chat from those that somebody
//! else did: each step of the journal is signed, with the chat and all steps before it; so is the root
//! of the project. The key is in a file of its own: who is given a chat can't make its signatures.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::process::geteuid;
use serde_json::Value;

use super::folder::ChatId;
use super::record::{ChatPlace, Record};
use crate::files::private::CHATS_KEY;

const KEY_LENGTH: usize = 32;
const TAG_LENGTH: usize = 32;

/// Why nothing can be signed or recognized.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{} can't be used: {source}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("{} is not a key that only you can read; remove it, and another is made", .0.display())]
    Unfit(PathBuf),
}

/// The key in the folder STATE; none where there is no file of it.
///
/// # Errors
///
/// The file can't be read, others could read it, or it has something else in it.
pub fn key_in(state: &Path) -> Result<Option<Key>, KeyError> {
    let file = state.join(CHATS_KEY);
    let trouble = |source| KeyError::Io {
        file: file.clone(),
        source,
    };
    let mut options = OpenOptions::new();
    // A link or a pipe in its place is none of ours, and a pipe would make us wait.
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let opened = match options.open(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(trouble)?,
    };
    let found = opened.metadata().map_err(trouble)?;
    let ours = found.is_file() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0;
    let mut bytes = Vec::new();
    if ours {
        let mut start = opened.take(KEY_LENGTH as u64 + 1);
        start.read_to_end(&mut bytes).map_err(trouble)?;
    }
    match bytes.len() {
        KEY_LENGTH => Ok(Some(Key::new(HMAC_SHA256, &bytes))),
        _ => Err(KeyError::Unfit(file)),
    }
}

/// The same, but a key is made where there is none.
fn key_made_in(state: &Path) -> Result<Key, KeyError> {
    if let Some(key) = key_in(state)? {
        return Ok(key);
    }
    let file = state.join(CHATS_KEY);
    let made = make(state, &file);
    made.map_err(|source| KeyError::Io {
        file: file.clone(),
        source,
    })?;
    key_in(state)?.ok_or(KeyError::Unfit(file))
}

/// Makes FILE in the folder STATE with a new key, whole or not at all. Of several Emacsen that do so
/// one is the first, and its key counts for all.
fn make(state: &Path, file: &Path) -> io::Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)?;
    let mut bytes = [0; KEY_LENGTH];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the system gives no random bytes"))?;
    let temporary = state.join(format!("{CHATS_KEY}.{}-{number}.tmp", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options.open(&temporary).and_then(|mut new| {
        new.write_all(&bytes)?;
        new.sync_all()
    });
    let made = written.and_then(|()| match fs::hard_link(&temporary, file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Some file systems have no second names.
        Err(_) => fs::rename(&temporary, file),
        Ok(()) => Ok(()),
    });
    let _ = fs::remove_file(&temporary);
    made
}

/// How far the signed steps of a chat go. A step that is dropped, moved or put in breaks the chain;
/// only its end can be cut off, as when Emacs is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chain {
    /// How many steps the file has, whoever wrote them.
    steps: u64,
    /// The signature of the last one; zeros where the chain begins.
    last: [u8; TAG_LENGTH],
}

impl Chain {
    fn signed(&self, id: &ChatId, step: &Value) -> Vec<u8> {
        let mut text = b"agent-q journal 1\0".to_vec();
        text.extend_from_slice(id.as_str().as_bytes());
        text.push(0);
        text.extend_from_slice(&self.steps.to_be_bytes());
        text.extend_from_slice(&self.last);
        text.extend_from_slice(step.to_string().as_bytes());
        text
    }

    /// Whether TAG is the signature that STEP of chat ID has here.
    fn fits(&self, key: Option<&Key>, id: &ChatId, step: &Value, tag: &[u8]) -> bool {
        is_of(key, &self.signed(id, step), tag)
    }

    /// A chain that begins at this place of the file.
    fn begun_here(self) -> Self {
        Self {
            last: [0; TAG_LENGTH],
            ..self
        }
    }

    fn pass(&mut self, tag: &[u8]) {
        self.steps += 1;
        self.last = tag.try_into().unwrap_or_default();
    }
}

fn is_of(key: Option<&Key>, text: &[u8], tag: &[u8]) -> bool {
    key.is_some_and(|key| hmac::verify(key, text, tag).is_ok())
}

fn tag_in(signature: Option<&String>) -> Vec<u8> {
    let decoded = signature.and_then(|it| STANDARD_NO_PAD.decode(it).ok());
    decoded.unwrap_or_default()
}

/// What is signed of the ROOT of chat ID's project.
fn signed_root(id: &ChatId, root: &str) -> Vec<u8> {
    format!("agent-q root 1\0{id}\0{root}").into_bytes()
}

/// Whether the user's own Emacs wrote what PLACE, of chat ID, says of its project.
#[must_use]
pub fn knows_root(key: Option<&Key>, id: &ChatId, place: &ChatPlace) -> bool {
    let tag = tag_in(place.signature.as_ref());
    let root = place.root.as_deref();
    root.is_none_or(|root| is_of(key, &signed_root(id, root), &tag))
}

/// Signs the steps of a chat in the order of its file.
#[derive(Debug)]
pub struct Signer {
    /// The folder of the key.
    state: PathBuf,
    key: Option<Key>,
    chain: Chain,
}

impl Signer {
    /// One that goes on behind CHAIN. The key is in the folder STATE, or is made when it is needed.
    #[must_use]
    pub fn new(state: PathBuf, chain: Chain) -> Self {
        Self {
            state,
            key: None,
            chain,
        }
    }

    /// Signs RECORD of chat ID, if it is a step of the journal or says where the chat is.
    ///
    /// # Errors
    ///
    /// There is no key that can be used. The record has no signature then.
    pub fn sign(&mut self, id: &ChatId, record: &mut Record) -> Result<(), KeyError> {
        match record {
            Record::Journal { step, signature } => {
                let tag = self.tag(&self.chain.signed(id, step));
                // Without a signature, what comes behind begins another chain.
                self.chain
                    .pass(tag.as_ref().map_or(&[], |tag| tag.as_ref()));
                *signature = Some(STANDARD_NO_PAD.encode(tag?));
            }
            Record::Place(ChatPlace {
                root: Some(root),
                signature,
                ..
            }) => *signature = Some(STANDARD_NO_PAD.encode(self.tag(&signed_root(id, root))?)),
            _ => {}
        }
        Ok(())
    }

    fn tag(&mut self, text: &[u8]) -> Result<hmac::Tag, KeyError> {
        let key = match self.key.take() {
            Some(key) => key,
            None => key_made_in(&self.state)?,
        };
        Ok(hmac::sign(self.key.insert(key), text))
    }
}

/// What of a chat's journal this user's Emacs wrote.
#[derive(Debug, Default)]
pub struct Recognized {
    /// The contents, and the steps that count.
    pub journal: Vec<Record>,
    /// Where new steps go on.
    pub chain: Chain,
    /// The latest turn that has changes among the steps that don't count.
    pub foreign: Option<u64>,
}

/// What of JOURNAL, the records of chat ID, was signed with KEY, without a gap up to its end.
#[must_use]
pub fn recognized(journal: Vec<Record>, key: Option<&Key>, id: &ChatId) -> Recognized {
    let (mut contents, mut steps) = (Vec::new(), Vec::new());
    let (mut chain, mut turn) = (Chain::default(), 0);
    let (mut changed, mut foreign) = (None, None);
    for record in journal {
        let Record::Journal { step, signature } = &record else {
            contents.push(record);
            continue;
        };
        let tag = tag_in(signature.as_ref());
        let fits = |chain: Chain| chain.fits(key, id, step, &tag);
        let (goes_on, begins) = (fits(chain), fits(chain.begun_here()));
        if !goes_on {
            steps.clear();
            foreign = changed.or(foreign);
        }
        turn = step.get("turn").and_then(Value::as_u64).unwrap_or(turn);
        if step.get("recorded").is_some() || step.get("undone").is_some() {
            changed = Some(turn);
        }
        match goes_on || begins {
            true => {
                steps.push(record);
                chain.pass(&tag);
            }
            false => {
                foreign = changed.or(foreign);
                chain.pass(&[]);
            }
        }
    }
    contents.append(&mut steps);
    Recognized {
        journal: contents,
        chain,
        foreign,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(text: &str) -> ChatId {
        ChatId::parse(text).unwrap()
    }

    /// A chat's records: in turns 1 to 3 a change each, signed in the folder STATE.
    fn signed(state: &Path, chat: &str) -> Vec<Record> {
        let mut signer = Signer::new(state.to_owned(), Chain::default());
        let steps = (1..=3).flat_map(|turn| [json!({"turn": turn}), json!({"recorded": turn})]);
        let mut records: Vec<Record> = steps.map(step).collect();
        for record in &mut records {
            signer.sign(&id(chat), record).unwrap();
        }
        records
    }

    fn step(step: Value) -> Record {
        Record::Journal {
            step,
            signature: None,
        }
    }

    fn steps(recognized: &Recognized) -> usize {
        recognized.journal.len()
    }

    #[test]
    fn only_what_was_signed_in_its_place_counts() {
        let state = tempfile::tempdir().unwrap();
        let key = key_in(state.path()).unwrap();
        assert!(key.is_none(), "a key is made when it is needed");
        let all = signed(state.path(), "one");
        let key = key_in(state.path()).unwrap();
        let known =
            |records: &[Record], chat: &str| recognized(records.to_vec(), key.as_ref(), &id(chat));

        let whole = known(&all, "one");
        assert_eq!((steps(&whole), whole.foreign), (6, None));
        // Another chat, and no key.
        assert_eq!(
            (steps(&known(&all, "two")), known(&all, "two").foreign),
            (0, Some(3))
        );
        let lost = recognized(all.clone(), None, &id("one"));
        assert_eq!((steps(&lost), lost.foreign), (0, Some(3)));
        // As when Emacs is killed.
        let cut = known(&all[..4], "one");
        assert_eq!((steps(&cut), cut.foreign), (4, None));
        // One that is edited, dropped, doubled or exchanged ends it, and what comes behind it, too.
        let mut edited = all.clone();
        if let Record::Journal { step, .. } = &mut edited[3] {
            *step = json!({"recorded": "elsewhere"});
        }
        let mut dropped = all.clone();
        dropped.remove(2);
        let mut doubled = all.clone();
        doubled.insert(4, all[3].clone());
        let mut exchanged = all.clone();
        exchanged.swap(1, 3);
        let mut unsigned = all.clone();
        unsigned.push(step(json!({"recorded": 4})));
        for records in [edited, dropped, doubled, exchanged, unsigned] {
            let known = known(&records, "one");
            assert_eq!(steps(&known), 0, "{records:?}");
            assert!(known.foreign.is_some());
        }
        // A chat in which nothing was changed has nothing to say about it.
        assert_eq!(known(&[step(json!({"turn": 1}))], "one").foreign, None);
    }

    #[test]
    fn a_chat_from_elsewhere_goes_on_with_a_chain_of_its_own() {
        let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut records = signed(there.path(), "one");
        let mut more = Vec::new();
        for turn in 4..6 {
            let key = key_in(here.path()).unwrap();
            let known = recognized(records.clone(), key.as_ref(), &id("one"));
            assert_eq!((steps(&known), known.foreign), (more.len(), Some(3)));
            let mut signer = Signer::new(here.path().to_owned(), known.chain);
            for it in [json!({"turn": turn}), json!({"recorded": turn})] {
                let mut record = step(it);
                signer.sign(&id("one"), &mut record).unwrap();
                records.push(record.clone());
                more.push(record);
            }
        }
        let key = key_in(here.path()).unwrap();
        let known = recognized(records.clone(), key.as_ref(), &id("one"));
        assert_eq!((known.journal, known.foreign), (more.clone(), Some(3)));
        // It is that chain only where it began.
        let moved = recognized(more, key.as_ref(), &id("one"));
        assert_eq!((steps(&moved), moved.foreign), (0, Some(5)));
    }

    #[test]
    fn a_root_is_known_in_its_own_chat() {
        let state = tempfile::tempdir().unwrap();
        let place = |root: &str, signature: Option<String>| ChatPlace {
            root: Some(root.to_owned()),
            signature,
            ..ChatPlace::default()
        };
        let mut signer = Signer::new(state.path().to_owned(), Chain::default());
        let mut record = Record::Place(place("/srv/shop", None));
        signer.sign(&id("one"), &mut record).unwrap();
        let Record::Place(signed) = record else {
            panic!("it is a place");
        };
        let key = key_in(state.path()).unwrap();
        let known = |chat: &str, place: &ChatPlace| knows_root(key.as_ref(), &id(chat), place);
        assert!(known("one", &signed));
        assert!(!known("two", &signed));
        assert!(!known("one", &place("/", signed.signature.clone())));
        assert!(!known("one", &place("/srv/shop", None)));
        assert!(!knows_root(None, &id("one"), &signed));
        assert!(known("one", &ChatPlace::default()));
        // What is newer and has no root leaves both.
        let mut updated = signed.clone();
        updated.update(ChatPlace::default());
        assert_eq!(updated, signed);
        updated.update(place("/", None));
        assert!(!known("one", &updated));
    }

    #[test]
    fn several_emacsen_at_once_have_one_key_that_is_the_users_alone() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("deep/state");
        let tags: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let key = key_made_in(&state).unwrap();
                        hmac::sign(&key, b"text").as_ref().to_vec()
                    })
                })
                .collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(tags.iter().all(|tag| *tag == tags[0]));
        let names: Vec<_> = fs::read_dir(&state).unwrap().collect();
        assert_eq!(names.len(), 1);
        let file = state.join(CHATS_KEY);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        // What isn't a key is not replaced.
        fs::write(&file, "short").unwrap();
        assert!(matches!(key_made_in(&state), Err(KeyError::Unfit(_))));
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert!(matches!(key_made_in(&state), Err(KeyError::Io { .. })));
        assert_eq!(fs::read_link(&file).unwrap(), Path::new("/dev/zero"));
    }
}
