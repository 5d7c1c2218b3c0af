// SPDX-License-Identifier: GPL-3.0-or-later
//! Chats that outlive their Emacs: a session is saved from its first turn on, and a stored one is
//! read into a session, whose latest turns are shown first.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ring::hmac::Key;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::open_chats::{ChatReading, EntryRecorder, StorePlace, recorder};
use super::{Engine, RequestError};
use crate::chats::ChatError;
use crate::chats::changes::ChangesRecorder;
use crate::chats::export::{fork, markdown};
use crate::chats::folder::{ChatFolder, ChatId};
use crate::chats::record::{ChatPlace, Record};
use crate::chats::recorder::Recorder;
use crate::chats::search::{FoundChat, search};
use crate::chats::signature::{Chain, Signer, key_in, knows_root};
use crate::chats::summary::indexed;
use crate::chats::writer::{ChatWriter, Tell};
use crate::files::search::changed_since;
use crate::protocol::{Event, QuestionId, SessionId};
use crate::runtime::{handle, held};
use crate::session::conversation::Conversation;
use crate::session::{Beginning, SessionSettings};

/// Something of a chat that Emacs alone knows, and its file should.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChatNote {
    /// All that is kept in the chat's context.
    Context(Vec<Value>),
    /// What a rewind took back in the image.
    ImageRewound { rewind: u64, image: Value },
}

impl Engine {
    /// Opens a session with the settings in JSON, which is saved as STORE says, JSON too, or not at all.
    ///
    /// # Errors
    ///
    /// When one of them is not understood, or names no chat.
    pub fn open_stored(
        &self,
        settings: &str,
        store: Option<&str>,
    ) -> Result<SessionId, RequestError> {
        let Some(store) = store else {
            return self.open_session(settings);
        };
        let settings = self.settings(settings)?;
        let store: StorePlace = serde_json::from_str(store).map_err(RequestError::Settings)?;
        match &store.id {
            None => Ok(self.open_new(settings, &store)),
            Some(id) => {
                let id = ChatId::parse(id)?;
                Ok(self.resume(settings, store, id))
            }
        }
    }

    fn open_new(&self, settings: SessionSettings, store: &StorePlace) -> SessionId {
        let session = SessionId::next();
        let folder = ChatFolder::new(&store.directory);
        let id = ChatId::new(SystemTime::now());
        self.audit().note_chat(session, Some(id.to_string()));
        let writer = ChatWriter::new(folder, id, self.listener(session));
        writer.sign_with(Signer::new(store.state.clone(), Chain::default()));
        let recorder = recorder(writer, ChatPlace::default(), Vec::new(), store, session);
        let mut history = Conversation::default();
        history.observe(Box::new(EntryRecorder(Arc::clone(&recorder))));
        let beginning = Beginning {
            history,
            openings: Vec::new(),
        };
        let workspace = self.open_with(session, settings, Box::pin(async move { beginning }));
        let changes = ChangesRecorder::new(Arc::clone(&recorder), &[]);
        workspace.journal.observe(Box::new(changes));
        held(&self.chats.recorders).insert(session, recorder);
        session
    }

    fn resume(&self, settings: SessionSettings, store: StorePlace, id: ChatId) -> SessionId {
        let session = SessionId::next();
        self.audit().note_chat(session, Some(id.to_string()));
        let (ready, beginning) = oneshot::channel();
        let workspace = self.open_with(
            session,
            settings,
            Box::pin(async move { beginning.await.unwrap_or_default() }),
        );
        let reading = ChatReading {
            session,
            workspace,
            chats: Arc::clone(&self.chats),
            // Past the recorder: what is shown again is not written again.
            emacs: Arc::clone(&self.emacs),
            tell: self.listener(session),
            store,
            id,
        };
        let work = move || {
            let beginning = reading.read();
            // The session may be closed by now.
            let _ = ready.send(beginning);
        };
        if let Some(handle) = handle() {
            handle.spawn_blocking(work);
        }
        session
    }

    /// Tells the chat of SESSION what becomes of saving it.
    fn listener(&self, session: SessionId) -> Tell {
        let emacs = Arc::clone(&self.emacs);
        Box::new(move |text| emacs.emit(Event::Notice { session, text }))
    }

    /// The id under which SESSION is saved, if it is.
    #[must_use]
    pub fn chat_id(&self, session: SessionId) -> Option<String> {
        let recorder = held(&self.chats.recorders).get(&session).cloned();
        recorder.map(|recorder| recorder.writer.id().to_string())
    }

    /// Notes where SESSION's chat is, PLACE in JSON. False when the chat has no file, or not yet.
    ///
    /// # Errors
    ///
    /// When PLACE is not understood.
    pub fn note_place(&self, session: SessionId, place: &str) -> Result<bool, RequestError> {
        let place: ChatPlace = serde_json::from_str(place).map_err(RequestError::Settings)?;
        let recorders = held(&self.chats.recorders);
        let recorder = recorders.get(&session);
        if let Some(recorder) = recorder {
            recorder.place(&place);
        }
        Ok(recorder.is_some())
    }

    /// Notes in the file of SESSION's chat what Emacs knows of it, NOTE in JSON.
    ///
    /// # Errors
    ///
    /// When NOTE is not understood.
    pub fn note_in_chat(&self, session: SessionId, note: &str) -> Result<(), RequestError> {
        let note: ChatNote = serde_json::from_str(note).map_err(RequestError::Settings)?;
        if let Some(recorder) = held(&self.chats.recorders).get(&session) {
            match note {
                ChatNote::Context(items) => recorder.keep(items),
                ChatNote::ImageRewound { rewind, image } => {
                    recorder.record(Record::ImageRewound { rewind, image });
                }
            }
        }
        Ok(())
    }

    /// Shows up to COUNT older turns of SESSION.
    pub fn show_older(&self, session: SessionId, count: usize) {
        self.chats
            .show_older(session, count, Arc::clone(&self.emacs));
    }

    /// Shows the turns of SESSION that REWIND had taken back before the chat was resumed.
    pub fn show_unwound(&self, session: SessionId, rewind: u64) {
        self.chats
            .show_unwound(session, rewind, Arc::clone(&self.emacs));
    }

    /// Saves what is left of all chats, but no longer than PATIENCE.
    pub fn save_all(&self, patience: Duration) {
        let recorders: Vec<Arc<Recorder>> = held(&self.chats.recorders).values().cloned().collect();
        if recorders.is_empty() {
            return;
        }
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for recorder in recorders {
                recorder.flush();
            }
            let _ = done.send(());
        });
        let _ = wait.recv_timeout(patience);
    }
}

// Questions of Emacs about the stored chats, answered by an event: which there are, and renaming, forking and
// exporting one.

/// What Emacs asks.
#[derive(Debug, Deserialize)]
pub struct ChatsQuestion {
    directory: PathBuf,
    /// The folder of agent-q's state, where the key of the chats is.
    state: PathBuf,
    #[serde(flatten)]
    what: ChatsAsked,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum ChatsAsked {
    /// Chats with all words of the query, the latest first.
    Search {
        query: String,
        limit: usize,
    },
    Rename {
        id: String,
        name: String,
    },
    /// A new chat that begins as that one did, before the turn of that number or whole.
    Fork {
        id: String,
        before: Option<u64>,
    },
    /// Write the chat to that file as Markdown.
    Export {
        id: String,
        file: PathBuf,
    },
    /// Which files below that folder were written since, in milliseconds since 1970?
    ChangedSince {
        root: PathBuf,
        since: u64,
    },
    /// Is it free to be deleted?
    Deletable {
        id: String,
    },
}

impl Engine {
    /// Answers QUESTION, JSON text, by an event.
    ///
    /// # Errors
    ///
    /// When it is not understood.
    pub fn ask_chats(&self, question: &str) -> Result<QuestionId, RequestError> {
        let asked: ChatsQuestion =
            serde_json::from_str(question).map_err(RequestError::Question)?;
        let question = QuestionId::next();
        let emacs = Arc::clone(&self.emacs);
        let open: Vec<Arc<Recorder>> = held(&self.chats.recorders).values().cloned().collect();
        if let Some(handle) = handle() {
            handle.spawn_blocking(move || {
                let folder = ChatFolder::new(&asked.directory);
                let answer = answer(&folder, &asked.state, asked.what, &open);
                let (answer, later) = match answer {
                    Ok((answer, later)) => (Ok(answer), later),
                    Err(problem) => (Err(problem.to_string()), Vec::new()),
                };
                emacs.emit(Event::ChatsAnswered { question, answer });
                // So that the next search is quick.
                for id in later {
                    let _ = indexed(&folder, &id);
                }
            });
        }
        Ok(question)
    }
}

/// The answer, and the chats that the index lacks.
type AnswerLater = Result<(Value, Vec<ChatId>), ChatError>;

fn answer(
    folder: &ChatFolder,
    state: &Path,
    asked: ChatsAsked,
    open: &[Arc<Recorder>],
) -> AnswerLater {
    let done = |value: Value| Ok((value, Vec::new()));
    match asked {
        ChatsAsked::Search { query, limit } => {
            // What was said a moment ago counts, too.
            for recorder in open {
                recorder.flush();
            }
            let found = search(folder, &query, limit)?;
            let key = key_in(state).ok().flatten();
            let chats = found.chats.iter();
            let chats: Vec<Value> = chats.map(|chat| chat_json(chat, key.as_ref())).collect();
            let answer = json!({
                "chats": chats,
                "more": found.more,
                "unreadable": found.unreadable,
            });
            Ok((answer, found.unindexed))
        }
        ChatsAsked::Rename { id, name } => {
            rename(folder, &ChatId::parse(&id)?, name, open)?;
            done(json!({}))
        }
        ChatsAsked::Fork { id, before } => {
            let (id, new) = (ChatId::parse(&id)?, ChatId::new(SystemTime::now()));
            flush(&id, open)?;
            fork(folder, &id, before, &new)?;
            done(json!({"id": new.as_str()}))
        }
        ChatsAsked::Export { id, file } => {
            let id = ChatId::parse(&id)?;
            flush(&id, open)?;
            let io = |source| ChatError::Io {
                path: file.clone(),
                source,
            };
            let mut output = BufWriter::new(std::fs::File::create(&file).map_err(io)?);
            markdown(folder, &id, &mut output, &file)?;
            output.flush().map_err(io)?;
            done(json!({"file": file}))
        }
        ChatsAsked::ChangedSince { root, since } => {
            let since = SystemTime::UNIX_EPOCH + Duration::from_millis(since);
            // What can't be looked at was not changed as far as is known.
            let files = changed_since(&root, since, &|| false).unwrap_or_default();
            done(
                json!({"files": files.iter().map(|it| it.display().to_string()).collect::<Vec<_>>()}),
            )
        }
        ChatsAsked::Deletable { id } => {
            let id = ChatId::parse(&id)?;
            match folder.is_free(&id)? {
                true => done(json!({"file": folder.file(&id)})),
                false => Err(ChatError::Busy(id.to_string())),
            }
        }
    }
}

/// Has the file of chat ID, if it is open here, say all that happened.
fn flush(id: &ChatId, open: &[Arc<Recorder>]) -> Result<(), ChatError> {
    let Some(recorder) = of(id, open) else {
        return Ok(());
    };
    recorder.flush();
    match recorder.writer.is_blank() {
        true => Err(ChatError::Blank),
        false => Ok(()),
    }
}

fn of<'a>(id: &ChatId, open: &'a [Arc<Recorder>]) -> Option<&'a Arc<Recorder>> {
    open.iter().find(|recorder| recorder.writer.id() == id)
}

fn rename(
    folder: &ChatFolder,
    id: &ChatId,
    name: String,
    open: &[Arc<Recorder>],
) -> Result<(), ChatError> {
    let record = Record::Name { name };
    match of(id, open) {
        Some(recorder) => recorder.record(record),
        None => {
            let writer = ChatWriter::resume(folder.clone(), id.clone(), Box::new(drop))?;
            writer.push(record);
            writer.close();
        }
    }
    Ok(())
}

fn chat_json(chat: &FoundChat, key: Option<&Key>) -> Value {
    let (summary, place) = (&chat.summary, &chat.summary.place);
    json!({
        "id": chat.id.as_str(),
        "name": summary.name,
        "project": place.project,
        "root": place.root,
        "root_known": knows_root(key, &chat.id, place),
        "image": place.image,
        "model": place.model,
        "words": summary.words,
        "along": summary.along,
        "turns": summary.turns,
        "input": summary.tokens.input,
        "output": summary.tokens.output,
        "cost": summary.tokens.known_cost(),
        "unpriced": summary.tokens.unpriced,
        "began": summary.began,
        "latest": summary.latest,
        "excerpt": chat.excerpt,
    })
}
