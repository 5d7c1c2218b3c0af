// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that move and delete files. A buffer that visits a moved file follows it with its
//! unsaved changes; a file with unsaved changes in a buffer is not deleted.

use std::sync::Arc;

use serde_json::json;

use super::change::{LiveBuffer, Wanted, visiting};
use super::edits::{description_parameter, overwrite_parameter, parents, parents_parameter, text};
use super::reading::path_parameter;
use crate::files::encoding::decode;
use crate::files::fingerprint::{Fingerprint, text_hash};
use crate::files::path::{Link, PathKind, Resolved};
use crate::files::read::LARGEST_WHOLE;
use crate::files::verified::{self, Overwrite, Parents};
use crate::files::{FileError, Trouble, human_size};
use crate::tool::work::{
    Divisible, Precheck, Preview, Proposal, Running, Task, WorkContext, to_the_end,
};
use crate::tool::{Arguments, Assessment, Returns, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;
use crate::workspace::Now;
use crate::workspace::journal::{ChangedPlace, ContentState, Disk, JournalEntry};

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![move_file(), delete_file()]
}

/// What is at TARGET on disk, to put it back later, and by what to tell whether it is there still.
///
/// # Errors
///
/// It can't be read.
pub async fn on_disk(
    context: &WorkContext,
    target: &Resolved,
) -> Result<(ContentState, Option<Fingerprint>), ToolFailure> {
    if target.kind == PathKind::Missing {
        return Ok((ContentState::Absent, None));
    }
    let target = target.clone();
    context
        .on_a_thread(move |_| {
            use std::io::Read;
            let file = verified::open_for_read(&target)?;
            let in_words = |error: std::io::Error| FileError::system(target.shown(), &error);
            let size = file.metadata().map_err(in_words)?.len();
            if size > LARGEST_WHOLE {
                let message = format!(
                    "'{}' has {}, which is too large to undo (the limit is {}); leave it to the user.",
                    target.shown(),
                    human_size(size),
                    human_size(LARGEST_WHOLE)
                );
                return Err(FileError::new(Trouble::WrongKind, message));
            }
            let mut bytes = Vec::new();
            file.take(LARGEST_WHOLE)
                .read_to_end(&mut bytes)
                .map_err(in_words)?;
            let fingerprint = Fingerprint::of_bytes(&bytes);
            let state = match decode(&bytes, &target.shown()) {
                Ok((text, encoding)) => ContentState::Text {
                    text: Arc::from(&*text),
                    encoding: Some(encoding),
                },
                Err(_) => ContentState::Bytes(Arc::from(bytes)),
            };
            Ok((state, Some(fingerprint)))
        })
        .await
}

/// The file at TARGET, which is going to go, as it is now.
struct Going {
    target: Resolved,
    state: ContentState,
    /// None when there is nothing.
    fingerprint: Option<Fingerprint>,
}

impl Going {
    async fn at(context: &WorkContext, target: Resolved) -> Result<Self, ToolFailure> {
        let (state, fingerprint) = on_disk(context, &target).await?;
        Ok(Self {
            target,
            state,
            fingerprint,
        })
    }

    fn now(&self) -> Option<Now> {
        let file = self.fingerprint?;
        let text = match &self.state {
            ContentState::Text { text, .. } => text_hash(text),
            ContentState::Bytes(_) | ContentState::Absent => file.hash,
        };
        Some(Now {
            file: Some(file),
            text,
        })
    }

    /// Notes that the user is asked about what is there now, if that is what the model saw and, where they
    /// are asked already, what they were asked about.
    fn propose_if_seen(&self, context: &WorkContext) -> Result<(), ToolFailure> {
        let propose = || {
            if let Some(now) = self.now() {
                context.workspace.proposed(&self.target.path, now);
            }
        };
        if context.proposal == Proposal::New {
            propose();
        }
        self.check_seen(context)?;
        propose();
        Ok(())
    }

    /// Makes sure that it is what the user was asked about, and what the model saw.
    fn check_seen(&self, context: &WorkContext) -> Result<(), ToolFailure> {
        let (path, shown) = (&self.target.path, self.target.shown());
        match self.now() {
            Some(now) => Ok(context.workspace.check_seen(path, &shown, now)?),
            None => Ok(()),
        }
    }
}

async fn buffer_of(
    context: &WorkContext,
    target: &Resolved,
) -> Result<Option<LiveBuffer>, ToolFailure> {
    visiting(context, target, Wanted::TextIfModified).await
}

/// Makes sure that no unsaved changes at TARGET would be lost.
async fn nothing_unsaved(context: &WorkContext, target: &Resolved) -> Result<(), ToolFailure> {
    match buffer_of(context, target).await? {
        Some(live) if live.modified => Err(ToolFailure::new(format!(
            "The buffer {} has unsaved changes of '{}'; nothing was done. Ask the user to save it first.",
            live.buffer,
            target.shown()
        ))),
        _ => Ok(()),
    }
}

/// Makes sure that TARGET was not named by a symbolic link: naming a link means the link itself, and it is
/// what the link leads to that would go.
fn not_a_link(target: &Resolved) -> Result<(), ToolFailure> {
    match target.link {
        Link::No => Ok(()),
        Link::Followed => Err(ToolFailure::new(format!(
            "'{}' is a symbolic link to '{}'; nothing was done. Give the path of the file itself, or leave the link to the user.",
            target.given,
            target.shown()
        ))),
    }
}

fn changes(target: &Resolved, before: ContentState, after: ContentState) -> JournalEntry {
    JournalEntry::Changed {
        place: ChangedPlace::File(target.path.clone()),
        before,
        after,
        mode: target.mode(),
        disk: Disk::Changed,
        folders: 0,
    }
}

fn delete_file() -> Tool {
    Tool {
        paths: &["path"],
        returns: Returns::Words,
        precheck: Some(|arguments, context| -> Running<Preview> {
            Box::pin(async move {
                let going = deletable(&arguments, &context).await?;
                going.propose_if_seen(&context)?;
                Ok(whole(&going.target, &going.state, "It is deleted.".into()))
            })
        } as Precheck),
        assess: |level, arguments| Assessment {
            level,
            reason: format!("It deletes '{}'.", arguments.required_text("path")),
        },
        ..Tool::new(
            "delete_file",
            "Delete a file (not a directory) from disk. The user can restore it only while the chat is open.",
            SafetyLevel::Dangerous,
            &["filesystem", "editing", "destructive"],
            vec![path_parameter(""), description_parameter()],
            Runner::Task(
                (|arguments, context| -> Running {
                    Box::pin(to_the_end(delete(arguments, context)))
                }) as Task,
            ),
        )
    }
}

/// What becomes of the file at TARGET, whose text in STATE goes; the user can only take all of it.
fn whole(target: &Resolved, state: &ContentState, note: String) -> Preview {
    let original = match state {
        ContentState::Text { text, .. } => Arc::clone(text),
        ContentState::Bytes(_) | ContentState::Absent => Arc::from(""),
    };
    Preview {
        shown: target.shown(),
        file: target.path.clone(),
        original: Some(original),
        modified: Arc::from(""),
        divisible: Divisible::No,
        note,
        moves: None,
    }
}

async fn deletable(arguments: &Arguments, context: &WorkContext) -> Result<Going, ToolFailure> {
    let target = context.resolve(arguments.required_text("path")).await?;
    if target.kind == PathKind::Directory {
        return Err(ToolFailure::new(format!(
            "'{}' is a directory; only files can be deleted.",
            target.shown()
        )));
    }
    if target.kind == PathKind::Missing {
        return Err(crate::files::path::missing(&target).into());
    }
    not_a_link(&target)?;
    nothing_unsaved(context, &target).await?;
    Going::at(context, target).await
}

async fn delete(arguments: Arguments, context: WorkContext) -> Result<String, ToolFailure> {
    let going = deletable(&arguments, &context).await?;
    going.check_seen(&context)?;
    context.go_on()?;
    let Going {
        target,
        state: before,
        fingerprint,
    } = going;
    let journal = &context.workspace.journal;
    let was = journal.record(changes(&target, before, ContentState::Absent));
    let removed = target.clone();
    if let Err(failure) = context
        .on_a_thread(move |_| verified::remove(&removed, fingerprint.as_ref()))
        .await
    {
        journal.take_back(was);
        return Err(failure);
    }
    context.workspace.forget(&target.path);
    let open = match buffer_of(&context, &target).await {
        Ok(Some(live)) => format!(" Its buffer {} is still open.", live.buffer),
        _ => String::new(),
    };
    Ok(format!("Deleted: {}.{open}", target.shown()))
}

fn move_file() -> Tool {
    Tool {
        paths: &["source", "destination"],
        returns: Returns::Words,
        precheck: Some(|arguments, context| -> Running<Preview> {
            Box::pin(async move {
                let (source, replaced) = movable(&arguments, &context).await?;
                replaced.propose_if_seen(&context)?;
                let (shown, destination) = (source.shown(), &replaced.target);
                let moves = Some(format!("{shown} to {}", destination.shown()));
                let preview = match &replaced.state {
                    ContentState::Absent => {
                        let note = format!("It becomes '{}'.", destination.shown());
                        whole(&source, &ContentState::Absent, note)
                    }
                    state => {
                        let note = format!("What is in '{}' now is lost.", destination.shown());
                        whole(destination, state, note)
                    }
                };
                Ok(Preview { moves, ..preview })
            })
        } as Precheck),
        assess: |level, arguments| Assessment {
            level,
            reason: format!(
                "It moves '{}' to '{}'.",
                arguments.required_text("source"),
                arguments.required_text("destination")
            ),
        },
        ..Tool::new(
            "move_file",
            "Move or rename a file. A buffer visiting it follows, with its unsaved changes.",
            SafetyLevel::Dangerous,
            &["filesystem", "editing"],
            vec![
                text("source", ""),
                text("destination", "The new path"),
                overwrite_parameter(),
                parents_parameter(),
                description_parameter(),
            ],
            Runner::Task(
                (|arguments, context| -> Running {
                    Box::pin(to_the_end(relocate(arguments, context)))
                }) as Task,
            ),
        )
    }
}

/// What is to be moved, and where.
async fn movable(
    arguments: &Arguments,
    context: &WorkContext,
) -> Result<(Resolved, Going), ToolFailure> {
    let source = context.resolve(arguments.required_text("source")).await?;
    let given = arguments.required_text("destination");
    let destination = context.resolve(given).await?;
    not_a_link(&source)?;
    match source.kind {
        PathKind::File => {}
        PathKind::Missing => return Err(crate::files::path::missing(&source).into()),
        PathKind::Directory => {
            return Err(ToolFailure::new(format!(
                "'{}' is a directory; only files can be moved.",
                source.shown()
            )));
        }
    }
    if destination.kind == PathKind::Directory {
        return Err(ToolFailure::new(format!(
            "'{}' is a directory; give the new path of the file itself.",
            destination.shown()
        )));
    }
    if destination.kind == PathKind::File && !arguments.flag("allow_overwrite") {
        return Err(ToolFailure::new(format!(
            "'{}' already exists. Use allow_overwrite: true to replace it.",
            destination.shown()
        )));
    }
    if destination.kind == PathKind::Missing {
        verified::can_create(&destination, parents(arguments))?;
    }
    if let Some(live) = buffer_of(context, &destination).await? {
        return Err(ToolFailure::new(format!(
            "The buffer {} visits '{}'; nothing was moved. Ask the user to close it.",
            live.buffer,
            destination.shown()
        )));
    }
    Ok((source, Going::at(context, destination).await?))
}

async fn relocate(arguments: Arguments, context: WorkContext) -> Result<String, ToolFailure> {
    let (source, replaced) = movable(&arguments, &context).await?;
    replaced.check_seen(&context)?;
    context.go_on()?;
    let Going {
        target: destination,
        state,
        fingerprint,
    } = replaced;
    let journal = &context.workspace.journal;
    let mut was = None;
    if state != ContentState::Absent {
        was = Some(journal.record(changes(&destination, state, ContentState::Absent)));
    }
    let moved = journal.record(JournalEntry::Moved {
        from: source.path.clone(),
        to: destination.path.clone(),
        folders: destination.missing_folders(),
    });
    let was = was.unwrap_or(moved);
    let to = (&destination, fingerprint);
    if let Err(failure) = rename(&context, &source, to, parents(&arguments)).await {
        journal.take_back(was);
        return Err(failure);
    }
    Ok(format!(
        "Moved: {} → {}",
        source.shown(),
        destination.shown()
    ))
}

/// Moves the file at SOURCE to DESTINATION, with the buffer that visits it. What is there, if
/// anything, must be as its fingerprint says.
///
/// # Errors
///
/// Why it was not moved.
pub async fn rename(
    context: &WorkContext,
    source: &Resolved,
    (destination, expected): (&Resolved, Option<Fingerprint>),
    parents: Parents,
) -> Result<(), ToolFailure> {
    let live = buffer_of(context, source).await?;
    let (from, to) = (source.clone(), destination.clone());
    context
        .on_a_thread(move |_| {
            let expected = expected.as_ref();
            verified::rename(&from, &to, parents, Overwrite::Replace, expected)
        })
        .await?;
    context.workspace.moved(&source.path, &destination.path);
    if let Some(live) = live {
        let arguments = json!({
            "buffer": live.buffer,
            "path": destination.path.to_string_lossy(),
        });
        context.ask_emacs("visit-moved-file", arguments).await?;
    }
    Ok(())
}
