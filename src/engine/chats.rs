// SPDX-License-Identifier: GPL-3.0-or-later
//! Chats that outlive their Emacs: a session is saved from its first turn on, and a stored one is
//! read into a session, whose latest turns are shown first.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::open_chats::{ChatReading, EntryRecorder, StorePlace, recorder};
use super::{Engine, RequestError};
use crate::chats::changes::ChangesRecorder;
use crate::chats::folder::ChatFolder;
use crate::chats::id::ChatId;
use crate::chats::record::{ChatPlace, Record};
use crate::chats::recorder::Recorder;
use crate::chats::signature::{Chain, Signer};
use crate::chats::writer::{ChatWriter, Tell};
use crate::protocol::{Event, SessionId};
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
            host: Arc::clone(&self.host),
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
        let host = Arc::clone(&self.host);
        Box::new(move |text| host.emit(Event::Notice { session, text }))
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
            .show_older(session, count, Arc::clone(&self.host));
    }

    /// Shows the turns of SESSION that REWIND had taken back before the chat was resumed.
    pub fn show_unwound(&self, session: SessionId, rewind: u64) {
        self.chats
            .show_unwound(session, rewind, Arc::clone(&self.host));
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
