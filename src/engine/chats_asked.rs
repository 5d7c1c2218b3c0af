// SPDX-License-Identifier: GPL-3.0-or-later
//! Questions of Emacs about the stored chats, answered by an event: which there are, and renaming,
//! forking and exporting one.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ring::hmac::Key;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Engine, RequestError};
use crate::chats::ChatError;
use crate::chats::export::{fork, markdown};
use crate::chats::folder::ChatFolder;
use crate::chats::id::ChatId;
use crate::chats::record::Record;
use crate::chats::recorder::Recorder;
use crate::chats::search::{FoundChat, search};
use crate::chats::signature::{key_in, knows_root};
use crate::chats::summary::indexed;
use crate::chats::writer::ChatWriter;
use crate::protocol::{Event, QuestionId};
use crate::runtime::{handle, held};

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
        let host = Arc::clone(&self.host);
        let open: Vec<Arc<Recorder>> = held(&self.chats.recorders).values().cloned().collect();
        if let Some(handle) = handle() {
            handle.spawn_blocking(move || {
                let folder = ChatFolder::new(&asked.directory);
                let answer = answer(&folder, &asked.state, asked.what, &open);
                let (answer, later) = match answer {
                    Ok((answer, later)) => (Ok(answer), later),
                    Err(problem) => (Err(problem.to_string()), Vec::new()),
                };
                host.emit(Event::ChatsAnswered { question, answer });
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
