// SPDX-License-Identifier: GPL-3.0-or-later
//! The chats that are saved or were read: what a session's conversation gets goes into its file, and a
//! file that is read becomes what a session begins with and its chat shows.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin::files::balance::is_lisp;
use crate::chats::ChatError;
use crate::chats::changes::{ChangesRecorder, steps};
use crate::chats::export::events;
use crate::chats::folder::{ChatFolder, ChatId};
use crate::chats::reader::{Outline, StoredTurn, outline, records};
use crate::chats::record::{ChatPlace, Record, StoredEntry};
use crate::chats::recorder::{Recorder, Recorders};
use crate::chats::signature::{KeyError, Signer, key_in, knows_root, recognized};
use crate::chats::writer::{ChatWriter, Tell};
use crate::protocol::Emacs;
use crate::protocol::{Event, PastPlace, SessionId, TurnId};
use crate::runtime::{handle, held};
use crate::session::Beginning;
use crate::session::conversation::{
    Conversation, Entry, Observer, Opening, lost_results, without_results,
};
use crate::workspace::Workspace;

/// How often, and with what pauses, a chat is asked for that was just closed.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// Where a chat is saved, as Emacs says it.
#[derive(Debug, Deserialize)]
pub struct StorePlace {
    /// The folder of the chats.
    pub directory: PathBuf,
    /// The folder of agent-q's state, where the key of the chats is.
    pub state: PathBuf,
    /// The name of this Emacs in the journals of images.
    pub emacs: String,
    /// The chat to go on with; a new one otherwise.
    pub id: Option<String>,
    /// How many of its turns are shown at first.
    #[serde(default)]
    pub turns: usize,
}

/// The chats of the sessions.
#[derive(Default)]
pub struct OpenChats {
    pub recorders: Recorders,
    stored: Mutex<HashMap<SessionId, Arc<StoredChat>>>,
}

/// A chat that was read, for showing more of it.
struct StoredChat {
    workspace: Arc<Workspace>,
    file: File,
    path: PathBuf,
    turns: Vec<NamedTurn>,
    /// Those that rewinds took back.
    taken_back: Vec<NamedTurn>,
    /// How many of the turns are not shown yet.
    older: Mutex<usize>,
}

/// A turn, and its name in the journals of images.
struct NamedTurn {
    stored: StoredTurn,
    name: String,
}

/// Hands what a conversation gets to the recorder of its chat.
pub struct EntryRecorder(pub Arc<Recorder>);

impl Observer for EntryRecorder {
    fn appended(&mut self, entry: &Entry) {
        let entry = StoredEntry::Known(entry.clone());
        self.0.record(Record::Entry { entry });
    }
}

impl OpenChats {
    /// Shows up to COUNT older turns of SESSION.
    pub fn show_older(&self, session: SessionId, count: usize, emacs: Arc<dyn Emacs>) {
        let chat = held(&self.stored).get(&session).cloned();
        if let (Some(chat), Some(handle)) = (chat, handle()) {
            handle.spawn_blocking(move || chat.show(session, count, &*emacs));
        }
    }

    /// Shows the turns of SESSION's stored chat that REWIND had taken back.
    pub fn show_unwound(&self, session: SessionId, rewind: u64, emacs: Arc<dyn Emacs>) {
        let chat = held(&self.stored).get(&session).cloned();
        if let (Some(chat), Some(handle)) = (chat, handle()) {
            handle.spawn_blocking(move || {
                let taken_back = chat.taken_back.iter();
                for turn in taken_back.filter(|turn| turn.stored.rewound == Some(rewind)) {
                    emacs.emit(chat.event(session, turn, 0, PastPlace::Below));
                }
            });
        }
    }

    /// Lets go of SESSION's chat, once what is left of it is written.
    pub fn close(&self, session: SessionId) {
        held(&self.stored).remove(&session);
        let Some(recorder) = held(&self.recorders).remove(&session) else {
            return;
        };
        match handle() {
            Some(handle) => {
                handle.spawn_blocking(move || recorder.close());
            }
            None => recorder.close(),
        }
    }
}

/// What records the chat of SESSION with WRITER.
pub fn recorder(
    writer: ChatWriter,
    place: ChatPlace,
    kept: Vec<Value>,
    store: &StorePlace,
    session: SessionId,
) -> Arc<Recorder> {
    let opened = Record::Opened {
        emacs: store.emacs.clone(),
        session: session.0,
    };
    Arc::new(Recorder::new(writer, place, kept, opened))
}

/// Reading a stored chat into a session.
pub struct ChatReading {
    pub session: SessionId,
    pub workspace: Arc<Workspace>,
    pub chats: Arc<OpenChats>,
    pub emacs: Arc<dyn Emacs>,
    pub tell: Tell,
    pub store: StorePlace,
    pub id: ChatId,
}

impl ChatReading {
    /// What the session begins with; nothing when the chat can't be read, which Emacs is told.
    pub fn read(self) -> Beginning {
        let (session, emacs) = (self.session, Arc::clone(&self.emacs));
        self.try_to_read().unwrap_or_else(|problem| {
            let about = json!({"problem": problem.to_string()});
            emacs.emit(Event::ChatResumed { session, about });
            Beginning::default()
        })
    }

    fn try_to_read(self) -> Result<Beginning, ChatError> {
        let folder = ChatFolder::new(&self.store.directory);
        // Held first, so that nobody writes what is not read.
        let writer = held_writer(&folder, &self.id, self.tell);
        let file = folder.open(&self.id)?;
        let path = folder.file(&self.id);
        let mut outline = outline(&file, &path)?;
        let busy = match &writer {
            Ok(_) => None,
            Err(problem) => Some(problem.to_string()),
        };
        let mut about = about(&self.id, &outline, busy);
        let journal = std::mem::take(&mut outline.journal);
        let found = key_in(&self.store.state);
        let key = found.as_ref().ok().and_then(Option::as_ref);
        // It is written and signed again, once Emacs says it.
        if !knows_root(key, &self.id, &outline.place) {
            outline.place.root = None;
        }
        outline.place.signature = None;
        let recognized = recognized(journal, key, &self.id);
        if let Some(turn) = recognized.foreign {
            about["foreign"] = json!(foreign(found.err()));
            self.workspace.journal.forget(turn);
        }
        let journal = recognized.journal;
        let entries = std::mem::take(&mut outline.entries);
        let mut beginning = beginning(&outline, entries);
        if let Some(last) = outline.turns.iter().map(|turn| turn.turn).max() {
            TurnId::pass(last);
        }
        let recorder = writer.ok().map(|writer| {
            writer.sign_with(Signer::new(self.store.state.clone(), recognized.chain));
            let (place, kept) = (outline.place.clone(), outline.kept.clone());
            recorder(writer, place, kept, &self.store, self.session)
        });
        let changes = recorder
            .as_ref()
            .map(|recorder| ChangesRecorder::new(Arc::clone(recorder), &journal));
        self.workspace.journal.repeat(steps(journal));
        self.workspace.changed_earlier(is_lisp);
        if let Some(recorder) = recorder {
            let entries = EntryRecorder(Arc::clone(&recorder));
            beginning.history.observe(Box::new(entries));
            held(&self.chats.recorders).insert(self.session, recorder);
        }
        if let Some(changes) = changes {
            self.workspace.journal.observe(Box::new(changes));
        }
        // They go into the file, too, so that they are looked for once.
        let last = outline.turns.iter().rfind(|turn| turn.shown());
        if let (Some(turn), Some((entry, calls))) = (last, without_results(&beginning.history)) {
            let recorded = records(&file, &path, &turn.bytes).unwrap_or_default();
            for message in lost_results(entry, &calls, &recorded) {
                beginning.history.add(message);
            }
        }
        let session = self.session;
        self.emacs.emit(Event::ChatResumed { session, about });
        let (turns, taken_back): (Vec<NamedTurn>, Vec<NamedTurn>) = names(&outline)
            .into_iter()
            .zip(outline.turns)
            .map(|(name, stored)| NamedTurn { stored, name })
            .partition(|turn| turn.stored.shown());
        let chat = Arc::new(StoredChat {
            workspace: self.workspace,
            older: Mutex::new(turns.len()),
            turns,
            taken_back,
            file,
            path,
        });
        held(&self.chats.stored).insert(session, Arc::clone(&chat));
        chat.show(session, self.store.turns, &*self.emacs);
        Ok(beginning)
    }
}

/// A writer of chat ID. A chat that was closed a moment ago may still be written.
fn held_writer(folder: &ChatFolder, id: &ChatId, tell: Tell) -> Result<ChatWriter, ChatError> {
    for _ in 1..ATTEMPTS {
        match folder.is_free(id) {
            Ok(false) => std::thread::sleep(PAUSE),
            _ => break,
        }
    }
    ChatWriter::resume(folder.clone(), id.clone(), tell)
}

/// Why the changes of a chat can't be undone; PROBLEM is with the key.
fn foreign(problem: Option<KeyError>) -> String {
    let why = match problem {
        Some(problem) => format!("{problem}."),
        None => "they have no signature of this Emacs. The chat is from an older version of agent-q or from elsewhere, was edited, or the key is lost.".to_owned(),
    };
    format!("What was changed in files before can't be undone from this chat: {why}")
}

/// What Emacs has to know of chat ID; BUSY says why it can't be written, if it can't.
fn about(id: &ChatId, outline: &Outline, busy: Option<String>) -> Value {
    let (place, tokens) = (&outline.place, outline.usage);
    json!({
        "id": id.as_str(),
        "name": outline.name,
        "project": place.project,
        "root": place.root,
        "image": place.image,
        "model": place.model,
        "turns": outline.turns.iter().filter(|turn| turn.shown()).count(),
        "began": outline.began,
        "latest": outline.latest,
        "input": tokens.input,
        "output": tokens.output,
        "cached": tokens.cache_read,
        "written": tokens.cache_write,
        "cost": tokens.known_cost(),
        "unpriced": tokens.unpriced,
        "kept": outline.kept,
        "rewind": outline.latest_rewind.as_ref().map(|it| json!({
            "rewind": it.rewind,
            "image": it.image,
        })),
        "busy": busy,
        "remark": outline.remarks.text(),
    })
}

fn beginning(outline: &Outline, entries: Vec<StoredEntry>) -> Beginning {
    let count = entries.len();
    let mut ids = Vec::with_capacity(count);
    let mut known: Vec<Entry> = Vec::with_capacity(count);
    for entry in entries {
        // One that a newer version wrote is passed over, as other events are.
        let entry = entry.known();
        ids.push(entry.as_ref().map(|entry| entry.id));
        known.extend(entry);
    }
    let history = Conversation::restored(known);
    let next = history.next_id();
    let openings = outline.turns.iter().map(|turn| {
        let later = ids.get(turn.entries_before..).unwrap_or_default();
        Opening {
            turn: turn.turn,
            entry: later.iter().flatten().next().copied().unwrap_or(next),
        }
    });
    Beginning {
        openings: openings.collect(),
        history,
    }
}

/// The names of the turns in the journals of images.
fn names(outline: &Outline) -> Vec<String> {
    let turns = outline.turns.iter().enumerate();
    turns
        .map(|(index, turn)| {
            let opened = outline.opened.iter().rev();
            let opened = opened.clone().find(|it| it.turns_before <= index);
            opened.map_or_else(String::new, |it| {
                format!("{}/{}/{}", it.emacs, it.session, turn.turn)
            })
        })
        .collect()
}

impl StoredChat {
    /// Shows up to COUNT turns above those that are shown, the latest first.
    fn show(&self, session: SessionId, count: usize, emacs: &dyn Emacs) {
        let mut older = held(&self.older);
        for _ in 0..count {
            let Some(index) = older.checked_sub(1) else {
                return;
            };
            *older = index;
            let turn = &self.turns[index];
            emacs.emit(self.event(session, turn, index, PastPlace::Above));
        }
    }

    /// TURN as an event of SESSION, with OLDER ones left to be shown.
    fn event(&self, session: SessionId, turn: &NamedTurn, older: usize, place: PastPlace) -> Event {
        let records = records(&self.file, &self.path, &turn.stored.bytes).unwrap_or_default();
        let number = turn.stored.turn;
        let since = self.workspace.journal.since(number);
        let changes = since.iter().find(|(it, _)| *it == number);
        Event::PastTurn {
            session,
            turn: TurnId(number),
            name: turn.name.clone(),
            at: records.first().map_or(0, |first| first.at),
            events: events(session, records),
            changed: changes.map_or_else(String::new, |(_, it)| self.workspace.diff(it)),
            older,
            place,
        }
    }
}
