// SPDX-License-Identifier: GPL-3.0-or-later
//! Changing a text of the user's, for all tools that do: what stands there now (in the buffer that
//! visits the file, else on disk), what may come of it, and doing it, all of it or nothing.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::balance::{Rewritten, check_change, is_lisp};
use crate::diff::{CONTEXT, Diff, difference, label};
use crate::files::encoding::{self, Encoding, LineEnds, Mark};
use crate::files::fingerprint::{Fingerprint, text_hash};
use crate::files::path::{PathKind, Resolved};
use crate::files::read::{WholeText, fingerprint, read_text};
use crate::files::verified::{self, Parents};
use crate::image::{ImageReply, Plist};
use crate::tool::work::{AfterEdit, Divisible, NextCall, Preview, Wish, WorkContext, read_reply};
use crate::tool::{Arguments, ToolFailure};
use crate::workspace::Now;
use crate::workspace::journal::{ChangedPlace, ContentState, Disk, JournalEntry};

/// A buffer as Emacs tells of it.
#[derive(Debug, Clone, Deserialize)]
pub struct LiveBuffer {
    pub buffer: String,
    /// The file that it visits.
    pub file: Option<String>,
    pub text: Option<String>,
    pub modified: bool,
    /// Counts the buffer's changes.
    pub tick: i64,
    pub read_only: bool,
    /// The file was changed on disk since Emacs read or wrote it.
    pub stale: bool,
    /// The file was there, and was deleted since.
    pub gone: bool,
    /// Point, in characters from the buffer's start.
    pub point: usize,
    /// The file, where the buffer shows it as it is: who has read the one knows the other.
    #[serde(skip)]
    pub unchanged_file: Option<Fingerprint>,
}

/// How much Emacs is to tell of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    TextIfModified,
    Text,
}

/// Where a text stands.
#[derive(Debug, Clone)]
pub enum Home {
    Nowhere,
    Disk(Fingerprint, Encoding),
    Buffer(LiveBuffer),
}

/// How many definitions are compiled after a change.
const MOST_COMPILED: usize = 10;

/// How long the image may take to say whether it has a file.
const KNOWN_DEADLINE: Duration = Duration::from_secs(3);

/// A text that can be changed.
#[derive(Debug, Clone)]
pub struct Current {
    pub text: String,
    pub home: Home,
}

impl Current {
    fn now(&self) -> Now {
        Now {
            text: text_hash(&self.text),
            file: match &self.home {
                Home::Disk(fingerprint, _) => Some(*fingerprint),
                Home::Buffer(live) => live.unchanged_file,
                Home::Nowhere => None,
            },
        }
    }

    /// As the journal keeps it.
    #[must_use]
    pub fn state(&self) -> ContentState {
        let text = Arc::from(self.text.as_str());
        match &self.home {
            Home::Nowhere => ContentState::Absent,
            Home::Disk(_, encoding) => ContentState::Text {
                text,
                encoding: Some(*encoding),
            },
            Home::Buffer(_) => ContentState::Text {
                text,
                encoding: None,
            },
        }
    }
}

/// The buffer that visits the file at TARGET, if any.
///
/// # Errors
///
/// Emacs does not reply.
pub async fn visiting(
    context: &WorkContext,
    target: &Resolved,
    wanted: Wanted,
) -> Result<Option<LiveBuffer>, ToolFailure> {
    let arguments = json!({
        "path": target.path.to_string_lossy(),
        "whole": wanted == Wanted::Text,
    });
    let reply = context.ask_emacs("file-buffer", arguments).await?;
    read_reply(&reply)
}

/// What stands at TARGET now, to change it.
///
/// # Errors
///
/// It can't be read or changed.
pub async fn load(context: &WorkContext, target: &Resolved) -> Result<Current, ToolFailure> {
    let current = look(context, target).await?;
    if let Home::Buffer(live) = &current.home {
        usable(live, &target.shown())?;
    }
    Ok(current)
}

/// What stands at TARGET now.
///
/// # Errors
///
/// It can't be read.
pub async fn look(context: &WorkContext, target: &Resolved) -> Result<Current, ToolFailure> {
    if target.kind == PathKind::Directory {
        return Err(ToolFailure::new(format!(
            "'{}' is a directory, not a file.",
            target.shown()
        )));
    }
    if let Some(mut live) = visiting(context, target, Wanted::Text).await? {
        if target.kind == PathKind::File && !live.modified && !live.stale {
            let file = target.clone();
            live.unchanged_file = context.on_a_thread(move |_| fingerprint(&file)).await.ok();
        }
        return Ok(Current {
            text: live.text.take().unwrap_or_default(),
            home: Home::Buffer(live),
        });
    }
    if target.kind == PathKind::Missing {
        return Ok(Current {
            text: String::new(),
            home: Home::Nowhere,
        });
    }
    let target = target.clone();
    let WholeText {
        text,
        encoding,
        fingerprint: file,
        ..
    } = context.on_a_thread(move |_| read_text(&target)).await?;
    Ok(Current {
        text,
        home: Home::Disk(file, encoding),
    })
}

fn usable(live: &LiveBuffer, shown: &str) -> Result<(), ToolFailure> {
    if live.read_only {
        return Err(ToolFailure::new(format!(
            "The buffer {} with '{shown}' is read-only; nothing was changed.",
            live.buffer
        )));
    }
    if live.stale {
        return Err(ToolFailure::new(format!(
            "'{shown}' was changed on disk since Emacs read it into the buffer {}; nothing was changed. Ask the user to revert or save the buffer.",
            live.buffer
        )));
    }
    Ok(())
}

/// By what a change is known to be of what the model means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The text of the file, as the model saw it last.
    File,
    /// The text that is replaced, which the model has quoted and the file has once.
    Quote,
}

/// A change that makes sense for what stands there now.
#[derive(Debug, Clone)]
pub struct Plan {
    pub target: Resolved,
    pub current: Current,
    pub after: String,
    pub parents: Parents,
    pub extent: Rewritten,
    pub basis: Basis,
    /// What the model should know of the change, once it is made.
    pub remark: Option<String>,
}

impl Plan {
    /// The change of CURRENT at TARGET to AFTER.
    #[must_use]
    pub fn new(target: Resolved, current: Current, after: String) -> Self {
        Self {
            target,
            current,
            after,
            parents: Parents::Make,
            extent: Rewritten::Part,
            basis: Basis::File,
            remark: None,
        }
    }

    /// Makes sure that the change is one, that it is of what the model saw, and that Lisp stays
    /// Lisp. Gives what the model should know of that.
    ///
    /// # Errors
    ///
    /// Why it may not be made.
    pub async fn check(&self, context: &WorkContext) -> Result<Option<String>, ToolFailure> {
        let shown = self.target.shown();
        let exists = !matches!(self.current.home, Home::Nowhere);
        if exists && self.after == self.current.text {
            return Err(ToolFailure::new(format!(
                "'{shown}' already has exactly this content; nothing was changed."
            )));
        }
        // What the user has reviewed is what stands there now, whatever the model saw.
        if context.reviewed.is_none() {
            match self.basis {
                Basis::File => self.check_seen(context)?,
                Basis::Quote => self.check_proposed(context)?,
            }
        }
        if !exists {
            verified::can_create(&self.target, self.parents)?;
        }
        if let Home::Disk(_, encoding) = self.current.home {
            encoding::encode(&self.after, encoding)?;
        }
        if !is_lisp(&self.target.path) {
            return Ok(None);
        }
        let before = exists.then_some(self.current.text.as_str());
        let place = (self.target.path.as_path(), shown.as_str());
        let checked = check_change(context, self.extent, before, &self.after, place).await;
        checked.map_err(|refused| {
            let (path, repaired) = (&self.target.path, refused.mended.map(|it| it.text));
            context.workspace.refused_unbalanced(path, before, repaired);
            refused.failure
        })
    }

    /// Whether the change is of a text that the model does not know as a whole.
    #[must_use]
    pub fn unseen(&self, context: &WorkContext) -> bool {
        self.check_seen(context).is_err()
    }

    fn check_seen(&self, context: &WorkContext) -> Result<(), ToolFailure> {
        if matches!(self.current.home, Home::Nowhere) {
            return Ok(());
        }
        let (path, now) = (&self.target.path, self.current.now());
        let seen = context
            .workspace
            .check_seen(path, &self.target.shown(), now);
        Ok(seen?)
    }

    fn check_proposed(&self, context: &WorkContext) -> Result<(), ToolFailure> {
        let (path, now) = (&self.target.path, self.current.now());
        let shown = self.target.shown();
        Ok(context.workspace.check_proposed(path, &shown, now)?)
    }

    /// Notes what the change is of, for when the user has decided.
    pub fn propose(&self, context: &WorkContext) {
        if !matches!(self.current.home, Home::Nowhere) {
            let now = self.current.now();
            context.workspace.proposed(&self.target.path, now);
        }
    }

    /// Makes the change, and says how: " and saved", for example.
    ///
    /// # Errors
    ///
    /// Why it was not made; then nothing was.
    pub async fn commit(&self, context: &WorkContext) -> Result<Made, ToolFailure> {
        let journal = &context.workspace.journal;
        let entry = |after: &str| JournalEntry::Changed {
            place: ChangedPlace::File(self.target.path.clone()),
            before: self.before_state(),
            after: self.after_state(after),
            mode: self.target.mode(),
            disk: match &self.current.home {
                Home::Buffer(live) if live.modified => Disk::Untouched,
                _ => Disk::Changed,
            },
            folders: self.target.missing_folders(),
        };
        let was = journal.record(entry(&self.after));
        let unseen = self.unseen(context);
        let made = self.make(context).await;
        match &made {
            Ok(made) => {
                if let Some(text) = made.saved_as() {
                    journal.record(entry(text));
                }
                let text = made.saved_as().unwrap_or(&self.after);
                match unseen {
                    true => context.workspace.settled(&self.target.path),
                    false => context.workspace.saw_text(&self.target.path, text),
                }
                if self.target.relative.is_none() {
                    let before = match self.before_state() {
                        ContentState::Absent => None,
                        _ => Some(self.current.text.as_str()),
                    };
                    context.workspace.wrote(&self.target.path, before, text);
                }
                if is_lisp(&self.target.path) {
                    let before = &self.current.text;
                    context.workspace.changed_lisp(&self.target.path, before);
                }
            }
            Err(_) => {
                journal.take_back(was);
            }
        }
        made
    }

    fn before_state(&self) -> ContentState {
        match &self.current.home {
            // The user has the buffer of a file that is still to be made.
            Home::Buffer(live) if self.target.kind == PathKind::Missing && !live.modified => {
                ContentState::Absent
            }
            _ => self.current.state(),
        }
    }

    fn after_state(&self, after: &str) -> ContentState {
        ContentState::Text {
            text: Arc::from(after),
            encoding: match self.current.home {
                Home::Disk(_, encoding) => Some(encoding),
                Home::Buffer(_) => None,
                Home::Nowhere => Some(Encoding::Utf8(Mark::None)),
            },
        }
    }

    async fn make(&self, context: &WorkContext) -> Result<Made, ToolFailure> {
        let (target, after) = (self.target.clone(), self.after.clone());
        match &self.current.home {
            Home::Buffer(live) => {
                let save = if live.modified { Save::No } else { Save::Yes };
                change_buffer(context, live, &self.current.text, &after, save).await
            }
            Home::Disk(fingerprint, encoding) => {
                let bytes = encoding::encode(&after, *encoding)?;
                let fingerprint = *fingerprint;
                context
                    .on_a_thread(move |_| verified::replace(&target, &bytes, Some(&fingerprint)))
                    .await?;
                Ok(Made::OnDisk)
            }
            Home::Nowhere => {
                let parents = self.parents;
                context
                    .on_a_thread(move |_| verified::create(&target, after.as_bytes(), parents))
                    .await?;
                Ok(Made::OnDisk)
            }
        }
    }

    /// Has the definitions compiled that the change, as it was MADE, touches: if the call says so, or if it
    /// says nothing, the user's option does, and the image has the file. Says what it can't compile.
    ///
    /// # Errors
    ///
    /// Emacs does not reply.
    pub async fn compile(
        &self,
        arguments: &Arguments,
        made: &Made,
        context: &WorkContext,
    ) -> Result<String, ToolFailure> {
        let wish = match (&arguments.to_json()["compile"], context.after_edit) {
            (serde_json::Value::Bool(true), _) => Wish::Model,
            (serde_json::Value::Null, AfterEdit::Compile) if is_lisp(&self.target.path) => {
                Wish::Option
            }
            _ => return Ok(String::new()),
        };
        let question = json!({
            "before": self.current.text,
            "after": made.saved_as().unwrap_or(&self.after),
            "file": self.target.shown(),
        });
        let reply = context.ask_emacs("changed-definitions", question).await?;
        let names: Vec<String> = read_reply(&reply)?;
        if wish == Wish::Option && (names.is_empty() || !self.is_in_image(context).await) {
            return Ok(String::new());
        }
        Ok(match names.len() {
            0 => "\nNothing was compiled: no definition was changed.".to_owned(),
            1..=MOST_COMPILED => {
                let path = arguments.required_text("path");
                let arguments = json!({"path": path, "name": names.join("\n")});
                context.next.add(NextCall {
                    tool: "compile_file",
                    arguments: arguments.as_object().cloned().unwrap_or_default(),
                    wish,
                });
                String::new()
            }
            count => format!(
                "\nNothing was compiled: {count} definitions were changed. compile_file without a name compiles the file."
            ),
        })
    }

    /// Whether the image has loaded the file, or its system. It is not asked for long.
    async fn is_in_image(&self, context: &WorkContext) -> bool {
        let question = json!({
            "text": self.current.text,
            "file": self.target.shown(),
            "path": self.target.path.to_string_lossy(),
        });
        let Ok(reply) = context.ask_emacs("file-in-image", question).await else {
            return false;
        };
        let Ok(arguments) = read_reply::<String>(&reply) else {
            return false;
        };
        let asked = context.ask_image_printed("file-known", arguments, KNOWN_DEADLINE);
        match asked.await {
            Ok(ImageReply::Returned(data)) => Plist::new(&data).flag("known"),
            _ => false,
        }
    }

    /// The change for the user to review.
    #[must_use]
    pub fn preview(&self) -> Preview {
        let exists = !matches!(self.current.home, Home::Nowhere);
        Preview {
            shown: self.target.shown(),
            file: self.target.path.clone(),
            original: exists.then(|| Arc::from(self.current.text.as_str())),
            modified: Arc::from(self.after.as_str()),
            divisible: Divisible::Yes,
            note: String::new(),
            moves: None,
        }
    }

    /// The change as it was MADE, as a diff for the model.
    #[must_use]
    pub fn diff(&self, made: &Made) -> String {
        let shown = self.target.shown();
        self.difference(made, CONTEXT)
            .unified(&label("a", &shown), &label("b", &shown))
    }

    fn difference(&self, made: &Made, context: usize) -> Diff {
        let after = made.saved_as().unwrap_or(&self.after);
        Diff::between(&self.current.text, after, context)
    }

    /// Which lines the change as it was MADE has changed, and how many, such as " 9-15 (+6 -3)".
    #[must_use]
    pub fn extent_of(&self, made: &Made) -> String {
        let diff = self.difference(made, 0);
        let size = diff.size();
        let lines = match diff.changed_lines() {
            Some((start, end)) if start == end => format!(" {start}"),
            Some((start, end)) => format!(" {start}-{end}"),
            None => String::new(),
        };
        format!("{lines} (+{} -{})", size.added, size.removed)
    }
}

#[derive(Deserialize)]
struct Changed {
    saved: bool,
    text: Option<String>,
}

/// Makes OLD, the text of LIVE, into NEW, as one undo step that touches only what differs.
///
/// # Errors
///
/// Emacs's reason; then nothing was changed.
pub async fn change_buffer(
    context: &WorkContext,
    live: &LiveBuffer,
    old: &str,
    new: &str,
    save: Save,
) -> Result<Made, ToolFailure> {
    // Emacs shows line ends of one kind only.
    let adapted;
    let new = match LineEnds::of(old.as_bytes()) {
        LineEnds::Lf if new.contains("\r\n") => {
            adapted = new.replace("\r\n", "\n");
            adapted.as_str()
        }
        _ => new,
    };
    let middle = difference(old, new);
    let arguments = json!({
        "buffer": live.buffer,
        "tick": live.tick,
        "start": middle.start,
        "old": middle.old,
        "new": middle.new,
        "save": save == Save::Yes,
    });
    let reply = context.ask_emacs("change-buffer", arguments).await?;
    let changed: Changed = read_reply(&reply)?;
    Ok(Made::InBuffer {
        buffer: live.buffer.clone(),
        saved: if changed.saved { Save::Yes } else { Save::No },
        text: changed.text,
    })
}

// How a change was made, and what is told of it.

/// How a change was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    OnDisk,
    InBuffer {
        buffer: String,
        saved: Save,
        /// What the user's own hooks made of the text when it was saved.
        text: Option<String>,
    },
}

/// Whether a buffer is saved after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Save {
    Yes,
    No,
}

impl Made {
    /// The text that was saved, where that is not the one that was to be.
    #[must_use]
    pub fn saved_as(&self) -> Option<&str> {
        match self {
            Self::OnDisk => None,
            Self::InBuffer { text, .. } => text.as_deref(),
        }
    }

    /// The end of a sentence.
    #[must_use]
    pub fn note(&self) -> String {
        match self {
            Self::OnDisk => String::new(),
            Self::InBuffer {
                buffer,
                saved: Save::Yes,
                text: None,
            } => format!(" in its buffer {buffer}, and saved"),
            Self::InBuffer {
                buffer,
                saved: Save::Yes,
                text: Some(_),
            } => format!(
                " in its buffer {buffer}, and saved, when the user's Emacs changed the text further"
            ),
            Self::InBuffer {
                buffer,
                saved: Save::No,
                ..
            } => format!(
                " in its buffer {buffer}, which is NOT saved because it has unsaved changes of the user's"
            ),
        }
    }
}
