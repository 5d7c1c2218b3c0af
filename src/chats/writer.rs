// SPDX-License-Identifier: GPL-3.0-or-later
//! Writing a stored chat, off Emacs's thread: events are appended in their order and reach the disk
//! at the ends of turns. What can't be written now is kept in memory and written later.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::ChatError;
use super::folder::{ChatFolder, ChatId, Hold};
use super::record::{Record, Stamped, VERSION};
use super::signature::Signer;
use crate::runtime::{self, held};

/// How long records wait for those that come right behind them, so that a call is not held up by
/// threads that write it down piece by piece.
const GATHERING: Duration = Duration::from_millis(10);
/// How long a chat that can't be written is left alone, if nothing happens in it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Told a sentence for the user when saving begins to fail, and when it works again.
pub type Tell = Box<dyn Fn(String) + Send + Sync>;

/// Appends to the file of one chat. Copies share it.
#[derive(Clone)]
pub struct ChatWriter {
    shared: Arc<Inner>,
}

impl fmt::Debug for ChatWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatWriter")
            .field("id", &self.shared.id)
            .finish_non_exhaustive()
    }
}

struct Inner {
    folder: ChatFolder,
    id: ChatId,
    tell: Tell,
    inbox: Mutex<Inbox>,
    /// Only who writes holds it, and for as long as that takes.
    disk: Mutex<Backlog>,
}

#[derive(Default)]
struct Inbox {
    records: VecDeque<Stamped>,
    /// Whether a thread is on its way to the records.
    attended: bool,
    pace: Pace,
}

/// How soon records are written.
#[derive(Default)]
enum Pace {
    /// The first make the file, and it may be asked for as soon as the chat is closed.
    #[default]
    AtOnce,
    Gathering,
}

struct Backlog {
    file: WriterFile,
    /// Lines, or the rest of one, that couldn't be written yet.
    unwritten: Vec<u8>,
    /// What comes behind them.
    waiting: VecDeque<Stamped>,
    /// What is in the file may not be on the disk.
    unsynced: bool,
    trouble: Option<String>,
    /// None for a chat whose steps need no signature.
    signer: Option<Signer>,
    /// Whether the user knows that they have none.
    unsigned_told: bool,
}

enum WriterFile {
    /// Nothing was written; a chat without a turn leaves no file.
    Unmade,
    Open(File),
    /// The chat was closed; others may write it.
    Left,
}

impl ChatWriter {
    /// A new chat ID in FOLDER, whose file is made when there is something to write.
    #[must_use]
    pub fn new(folder: ChatFolder, id: ChatId, tell: Tell) -> Self {
        let disk = Backlog {
            file: WriterFile::Unmade,
            unwritten: Vec::new(),
            waiting: VecDeque::new(),
            unsynced: false,
            trouble: None,
            signer: None,
            unsigned_told: false,
        };
        Self::with(folder, id, tell, disk)
    }

    /// Goes on with the stored chat ID in FOLDER.
    ///
    /// # Errors
    ///
    /// There is none, somebody else writes it, or it can't be written.
    pub fn resume(folder: ChatFolder, id: ChatId, tell: Tell) -> Result<Self, ChatError> {
        let Hold::Ours(mut file) = folder.hold(&id)? else {
            return Err(ChatError::Busy(id.to_string()));
        };
        let cut = is_cut(&mut file).map_err(|source| ChatError::io(folder.file(&id), source))?;
        let disk = Backlog {
            file: WriterFile::Open(file),
            // What was cut off stays, as a line that can't be read.
            unwritten: if cut { b"\n".to_vec() } else { Vec::new() },
            waiting: VecDeque::new(),
            unsynced: false,
            trouble: None,
            signer: None,
            unsigned_told: false,
        };
        Ok(Self::with(folder, id, tell, disk))
    }

    fn with(folder: ChatFolder, id: ChatId, tell: Tell, disk: Backlog) -> Self {
        let shared = Inner {
            folder,
            id,
            tell,
            inbox: Mutex::default(),
            disk: Mutex::new(disk),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Has SIGNER sign the steps of the journal that come.
    pub fn sign_with(&self, signer: Signer) {
        held(&self.shared.disk).signer = Some(signer);
    }

    #[must_use]
    pub fn id(&self) -> &ChatId {
        &self.shared.id
    }

    #[must_use]
    pub fn folder(&self) -> &ChatFolder {
        &self.shared.folder
    }

    /// Appends RECORD, soon. Never blocks.
    pub fn push(&self, record: Record) {
        let (attended, pace) = {
            let mut inbox = held(&self.shared.inbox);
            inbox.records.push_back(Stamped::now(record));
            let attended = std::mem::replace(&mut inbox.attended, true);
            (
                attended,
                std::mem::replace(&mut inbox.pace, Pace::Gathering),
            )
        };
        if !attended {
            Arc::clone(&self.shared).write_soon(&pace);
        }
    }

    /// Writes what is left, on this thread.
    pub fn flush(&self) {
        self.shared.write();
    }

    /// Writes what is left, and lets others write the chat. What comes later is not written.
    pub fn close(&self) {
        self.shared.write();
        held(&self.shared.disk).file = WriterFile::Left;
    }

    /// Whether nothing was to be written yet, so that there is no file.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let disk = held(&self.shared.disk);
        matches!(disk.file, WriterFile::Unmade) && disk.waiting.is_empty()
    }

    /// Why the chat can't be written now, if it can't.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        held(&self.shared.disk).trouble.clone()
    }
}

impl Backlog {
    /// Whether all that came is on the disk.
    fn is_done(&self) -> bool {
        self.unwritten.is_empty() && self.waiting.is_empty() && !self.unsynced
    }
}

impl Inner {
    fn write_soon(self: Arc<Self>, pace: &Pace) {
        match (runtime::handle(), pace) {
            (None, _) => {
                std::thread::spawn(move || self.write());
            }
            (Some(handle), Pace::AtOnce) => {
                handle.spawn_blocking(move || self.write());
            }
            (Some(_), Pace::Gathering) => self.write_after(GATHERING),
        }
    }

    fn write_after(self: Arc<Self>, time: Duration) {
        runtime::spawn(async move {
            tokio::time::sleep(time).await;
            tokio::task::spawn_blocking(move || self.write());
        });
    }

    /// Takes what has come to the file.
    fn write(self: &Arc<Self>) {
        let mut disk = held(&self.disk);
        loop {
            if matches!(disk.file, WriterFile::Left) {
                return;
            }
            let mut records = {
                let mut inbox = held(&self.inbox);
                inbox.attended = false;
                std::mem::take(&mut inbox.records)
            };
            self.sign(&mut disk, &mut records);
            let turn_ended = records.iter().any(|stamped| {
                matches!(
                    stamped.record,
                    Record::Ended { .. } | Record::Rewound { .. }
                )
            });
            let nothing_new = records.is_empty();
            disk.waiting.extend(records);
            if disk.is_done() {
                return;
            }
            disk.unsynced |= turn_ended;
            if let Err(problem) = self.bring_to_disk(&mut disk) {
                self.note_trouble(&mut disk, &problem);
                return;
            }
            if disk.trouble.take().is_some() {
                (self.tell)("This chat is saved again, with everything since.".into());
            }
            if nothing_new {
                return;
            }
        }
    }

    /// Signs RECORDS in the order in which they will be in the file.
    fn sign(&self, disk: &mut Backlog, records: &mut VecDeque<Stamped>) {
        let Some(signer) = &mut disk.signer else {
            return;
        };
        for stamped in records {
            let signed = signer.sign(&self.id, &mut stamped.record);
            if let Err(problem) = signed
                && !std::mem::replace(&mut disk.unsigned_told, true)
            {
                tracing::warn!("a chat could not be signed: {problem}");
                (self.tell)(format!(
                    "What this chat changes in files can't be undone once Emacs was restarted: {problem}."
                ));
            }
        }
    }

    fn bring_to_disk(&self, disk: &mut Backlog) -> Result<(), ChatError> {
        if matches!(disk.file, WriterFile::Unmade) {
            disk.file = WriterFile::Open(self.folder.create(&self.id)?);
            let first = Record::Chat {
                version: VERSION,
                id: self.id.to_string(),
                from: None,
            };
            disk.waiting.push_front(Stamped::now(first));
        }
        let WriterFile::Open(file) = &mut disk.file else {
            return Ok(());
        };
        let path = || self.folder.file(&self.id);
        write_all(file, &mut disk.unwritten, &mut disk.waiting)
            .map_err(|source| ChatError::io(path(), source))?;
        if disk.unsynced {
            file.sync_data()
                .map_err(|source| ChatError::io(path(), source))?;
            disk.unsynced = false;
        }
        Ok(())
    }

    fn note_trouble(self: &Arc<Self>, disk: &mut Backlog, problem: &ChatError) {
        tracing::warn!("a chat could not be saved: {problem}");
        if disk.trouble.replace(problem.to_string()).is_none() {
            (self.tell)(format!(
                "This chat can't be saved at the moment: {problem}. It goes on all the same, and is saved once that is possible."
            ));
        }
        Arc::clone(self).write_after(PATIENCE);
    }
}

/// Writes what is UNWRITTEN to FILE, then each of WAITING as a line. None of these is a text in memory
/// before: an answer may be long. What can't be written is UNWRITTEN then.
fn write_all(
    file: &mut File,
    unwritten: &mut Vec<u8>,
    waiting: &mut VecDeque<Stamped>,
) -> io::Result<()> {
    let before = std::mem::take(unwritten);
    let lasting = Lasting {
        file,
        unwritten,
        problem: None,
    };
    let mut out = BufWriter::with_capacity(64 * 1024, lasting);
    out.write_all(&before)?;
    while out.get_ref().problem.is_none()
        && let Some(next) = waiting.pop_front()
    {
        next.write_line(&mut out)?;
    }
    out.flush()?;
    match out.get_mut().problem.take() {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

/// Writes to a file until there is a problem, and keeps what comes from then on.
struct Lasting<'a> {
    file: &'a mut File,
    unwritten: &'a mut Vec<u8>,
    problem: Option<io::Error>,
}

impl Write for Lasting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.problem.is_none() {
            match self.file.write(bytes) {
                Ok(0) => self.problem = Some(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    self.problem = Some(error);
                }
                // Whoever writes tries again after an interruption.
                outcome => return outcome,
            }
        }
        self.unwritten.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether FILE ends in the middle of a line.
fn is_cut(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}
