// SPDX-License-Identifier: GPL-3.0-or-later
//! Putting back what turns of a chat changed, as far as nobody has changed it since: of a text those lines
//! that are still as the turn left them. And undoing the latest turn so; `rewind` undoes several.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde::Deserialize;
use serde_json::json;

use super::balance::{Rewritten, check_change, is_lisp};
use super::change::{Current, Home, LiveBuffer, Made, Save, change_buffer, load};
use super::edits::adapted;
use super::moves::{on_disk, rename};
use crate::diff::{Merged, merge};
use crate::files::encoding::{Encoding, LineEnds, Mark, encode};
use crate::files::path::{PathKind, Resolved};
use crate::files::systems::project_systems;
use crate::files::verified::{self, Parents};
use crate::protocol::UndoneTurn;
use crate::tool::ToolFailure;
use crate::tool::work::{WorkContext, read_reply};
use crate::trust::{Provenance, Source, draw, fence};
use crate::workspace::journal::{ChangedPlace, ContentState, Disk, JournalEntry};
use crate::workspace::{Still, Workspace};

/// What the chat did to the image, as Emacs tells it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ImageChanges {
    /// The latest turn whose changes hold.
    pub turn: Option<u64>,
    /// What it changed, such as "SHOP::TAX (function, redefined)".
    pub definitions: Vec<String>,
    /// The systems that it has loaded, latest first.
    pub loads: Vec<Load>,
}

/// A system that a turn has loaded.
#[derive(Debug, Clone, Deserialize)]
pub struct Load {
    pub turn: u64,
    pub system: String,
}

impl ImageChanges {
    /// The systems that were loaded in TURN or later, in their order: what others need comes first.
    #[must_use]
    pub fn systems_since(&self, turn: u64) -> Vec<String> {
        let mut systems: Vec<String> = Vec::new();
        for load in self.loads.iter().rev().filter(|load| load.turn >= turn) {
            if !systems.contains(&load.system) {
                systems.push(load.system.clone());
            }
        }
        systems
    }
}

/// What came of undoing a turn.
#[derive(Debug)]
pub struct Undone {
    pub text: String,
    /// The turn, if there was one to undo.
    pub turn: Option<u64>,
    /// How many of its changes of files and buffers are there still.
    pub left: usize,
    /// What the turn changed in the image, which only the user undoes.
    pub definitions: Vec<String>,
    /// The systems whose restored files the image doesn't have yet.
    pub systems: Vec<String>,
}

/// Undoes the latest turn that changed anything, in files and buffers. The model is told with the
/// user's next message.
pub async fn undo_turn(context: &WorkContext, which: UndoneTurn) -> Undone {
    let image = image_changes(context).await;
    let files = context.workspace.journal.last_number();
    let turn = match which {
        UndoneTurn::Latest => files.max(image.turn),
        UndoneTurn::LatestOfFiles => files,
    };
    let systems = turn.map(|turn| image.systems_since(turn));
    let definitions = match image.turn == turn {
        true => image.definitions,
        false => Vec::new(),
    };
    let (text, left, loaded) = match systems {
        None => ("Nothing to undo.".to_owned(), 0, Loaded::default()),
        Some(systems) if files == turn => undo_files(context, &systems, &definitions).await,
        Some(_) => ("No files were changed.".to_owned(), 0, Loaded::default()),
    };
    Undone {
        text,
        turn,
        left,
        definitions,
        systems: loaded.systems,
    }
}

/// What the chat's turns changed in the image; nothing when that can't be known.
pub async fn image_changes(context: &WorkContext) -> ImageChanges {
    let Ok(reply) = context.ask_emacs("image-turn", json!({})).await else {
        return ImageChanges::default();
    };
    read_reply::<Option<ImageChanges>>(&reply)
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// What the image has other than files that were restored.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The project's systems that can be loaded to have the files as they are now.
    pub systems: Vec<String>,
    /// What there is to say of that; empty when the image has loaded none of the files.
    pub words: String,
}

impl Loaded {
    /// Has the model told of that with the user's next message, unless they are loaded by then.
    pub fn tell_later(&self, workspace: &Workspace) {
        let words = self.words.trim_start();
        match self.systems.first() {
            Some(system) => workspace.tell_if_still(Still::System(system.clone()), words),
            None if words.is_empty() => {}
            None => workspace.tell_later(words),
        }
    }
}

/// What the image has of SYSTEMS, which it has loaded, after files of the project were put back: REST, in
/// words. Not all need be defined any more, and those of libraries are as they were.
pub async fn still_loaded(context: &WorkContext, systems: &[String], rest: &str) -> Loaded {
    let listed = match context.policy().await {
        Ok(policy) if !systems.is_empty() => {
            context
                .on_a_thread(move |stop| project_systems(&policy, stop))
                .await
        }
        _ => return Loaded::default(),
    };
    let named = |name: &&String| {
        listed
            .as_ref()
            .is_ok_and(|all| all.iter().any(|it| it.name == **name))
    };
    let systems: Vec<String> = systems.iter().filter(named).cloned().collect();
    let words = match systems.first() {
        Some(system) => {
            format!("\nThe image still has {rest}; load_system {system} loads the restored files.")
        }
        None => "\nWhat was loaded into the image stays there.".to_owned(),
    };
    Loaded { systems, words }
}

/// Puts back what the latest turn changed, the last change first, and reports the outcome, with how many
/// changes are there still, and what the image has of SYSTEMS, which it has loaded. DEFINITIONS are what
/// the turn changed there, which only the user undoes.
async fn undo_files(
    context: &WorkContext,
    systems: &[String],
    definitions: &[String],
) -> (String, usize, Loaded) {
    let workspace = &context.workspace;
    let turn = workspace.journal.last().unwrap_or_default();
    let added = added(&turn, definitions);
    let agreed = Agreed::of(context, &turn).await;
    let put = put_all_back(context, turn, &agreed, Inverse::Forgotten).await;
    let heads = match put.kept.len() > put.left.len() {
        true => ["Undone in part:", "Not undone:"],
        false => ["Undone:", "Not undone:"],
    };
    let parts = heads.iter().zip([&put.done, &put.left]);
    let parts = parts.filter(|(_, lines)| !lines.is_empty());
    let parts: Vec<String> = parts
        .map(|(head, lines)| format!("{head}\n- {}", lines.join("\n- ")))
        .collect();
    let (text, count) = (parts.join("\n"), put.kept.len());
    workspace.journal.undone(put.kept);
    if put.done.is_empty() {
        return (text, count, Loaded::default());
    }
    let rest = match definitions.is_empty() {
        true => "what was loaded from them",
        // These are undone next.
        false => "what else was loaded from them",
    };
    let mut loaded = still_loaded(context, systems, rest).await;
    if !loaded.systems.is_empty() && !added.is_empty() {
        let names = added.join(", ");
        let stay = format!(" Definitions that they no longer have stay: {names}.");
        loaded.words.push_str(&stay);
    }
    workspace.tell_later(format!(
        "The user undid some of your changes. {text}\nRead these files again before you go on."
    ));
    loaded.tell_later(workspace);
    if !definitions.is_empty() {
        let names = definitions.join(", ");
        workspace.tell_if_still(
            Still::Definitions,
            format!("The image still has these: {names}."),
        );
    }
    (format!("{text}{}", loaded.words), count, loaded)
}

/// What TURN added to Lisp files, by the names of its definitions, but for what is among TOLD, which the
/// journal of the image has, so that it can be undone.
fn added(turn: &[JournalEntry], told: &[String]) -> Vec<String> {
    let (mut before, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut seen = BTreeSet::new();
    for entry in turn {
        if let JournalEntry::Changed {
            place: ChangedPlace::File(path),
            before: then,
            after: made,
            ..
        } = entry
            && is_lisp(path)
        {
            if seen.insert(path) {
                before.extend(defined(then));
            }
            names.extend(defined(made));
        }
    }
    let undone = |name: &String| {
        told.iter().any(|it| {
            let symbol = it.split(" (").next().unwrap_or_default();
            symbol
                .trim_end_matches(')')
                .rsplit(':')
                .next()
                .is_some_and(|it| it.eq_ignore_ascii_case(name))
        })
    };
    let names = names.difference(&before).filter(|it| !undone(it));
    names.take(ADDED_LIMIT).cloned().collect()
}

/// The names that top-level forms of a Lisp text define.
fn defined(state: &ContentState) -> Vec<String> {
    let ContentState::Text { text, .. } = state else {
        return Vec::new();
    };
    static DEFINITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?im)^\((?:[^\s():]+::?)?(?:def(?:un|macro|generic|var|parameter|class|struct|type)|define-condition)\s+(?:\((?:setf\s+)?)?([^\s()]+)",
        )
        .ok()
    });
    let heads = DEFINITION.iter().flat_map(|it| it.captures_iter(text));
    heads
        .filter_map(|it| it.get(1))
        .map(|it| it.as_str().to_lowercase())
        .collect()
}

/// How many names are told.
const ADDED_LIMIT: usize = 10;

/// Has the model told that the user undid what a turn changed in the image; RESULTS is the image's
/// word on it.
pub fn image_undone(workspace: &Workspace, results: &str) {
    let source = Source {
        what: "the image".to_owned(),
        provenance: Provenance::Own,
    };
    workspace.no_longer(&Still::Definitions);
    workspace.tell_later(format!(
        "The user had definitions undone that you changed in the image. What came of it:\n{}",
        fence(results, &source, draw())
    ));
}

/// What was done to files and buffers.
#[derive(Debug, Default)]
pub struct FilesPutBack {
    /// A line for each that was put back.
    pub done: Vec<String>,
    /// Why others weren't, a sentence each.
    pub left: Vec<String>,
    /// The changes that are there still, wholly or in part.
    pub kept: Vec<JournalEntry>,
}

/// Whether the journal gets what undoes an undoing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inverse {
    Noted,
    Forgotten,
}

/// Puts back what ENTRIES changed, the last first: those of one turn, or of a rewind's.
pub(super) async fn put_all_back(
    context: &WorkContext,
    entries: Vec<JournalEntry>,
    agreed: &Agreed,
    inverse: Inverse,
) -> FilesPutBack {
    let journal = &context.workspace.journal;
    let mut result = FilesPutBack::default();
    for entry in entries.into_iter().rev() {
        // Noted before it is done, as each change is.
        let was = match inverse {
            Inverse::Noted => Some(journal.record(entry.inverse())),
            Inverse::Forgotten => None,
        };
        match put_back(context, &entry, agreed).await {
            Ok(put) => {
                result.done.push(put.line);
                result.kept.extend(put.left);
            }
            Err(failure) => {
                if let Some(was) = was {
                    journal.take_back(was);
                }
                result.left.push(failure.to_string());
                result.kept.push(entry);
            }
        }
    }
    result.kept.reverse();
    result
}

/// What came of putting a change back.
#[derive(Debug, Default)]
struct PutBack {
    line: String,
    /// What of the change is there still, as others changed the same lines.
    left: Option<JournalEntry>,
}

impl PutBack {
    fn whole(line: String) -> Self {
        Self { line, left: None }
    }
}

async fn put_back(
    context: &WorkContext,
    entry: &JournalEntry,
    agreed: &Agreed,
) -> Result<PutBack, ToolFailure> {
    match entry {
        JournalEntry::Moved { from, to, folders } => {
            let now = agreed.at(context, to).await?;
            let then = agreed.at(context, from).await?;
            if now.kind != PathKind::File || then.kind != PathKind::Missing {
                return Err(ToolFailure::new(format!(
                    "'{}' can't be moved back to '{}': one of them was changed since.",
                    now.shown(),
                    then.shown()
                )));
            }
            rename(context, &now, (&then, None), Parents::Make).await?;
            remove_folders(to, *folders);
            Ok(PutBack::whole(format!("moved back to {}", then.shown())))
        }
        JournalEntry::Changed {
            place: ChangedPlace::Buffer(name),
            before,
            after,
            ..
        } => {
            let back = buffer_back(context, name, before, after).await?;
            Ok(back.put_back(entry, &format!("buffer {name}")))
        }
        JournalEntry::Changed {
            place: ChangedPlace::File(path),
            before,
            after,
            mode,
            disk,
            folders,
            ..
        } => {
            let target = agreed.at(context, path).await?;
            let (back, shown) = file_back(context, target, (before, after), *mode, *disk).await?;
            if *before == ContentState::Absent {
                remove_folders(path, *folders);
            }
            Ok(back.put_back(entry, &shown))
        }
    }
}

/// Removes the FOLDERS that were made for the file at PATH, as far as nothing else is in them now.
fn remove_folders(path: &Path, folders: usize) {
    for folder in path.ancestors().skip(1).take(folders) {
        if std::fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

pub(super) fn changed_since(shown: &str) -> ToolFailure {
    ToolFailure::new(format!(
        "'{shown}' was changed since the turn, so it was left as it is."
    ))
}

/// What a place becomes, and what of the change stays.
pub(super) struct Back {
    state: ContentState,
    /// What the turn would have left if it had made only the changes that stay, and where those are.
    pub(super) left: Option<(ContentState, String)>,
}

impl Back {
    fn whole(state: &ContentState) -> Self {
        Self {
            state: state.clone(),
            left: None,
        }
    }

    /// What is told of the change ENTRY, of which so much was undone at a place called SHOWN.
    fn put_back(self, entry: &JournalEntry, shown: &str) -> PutBack {
        let Some((state, lines)) = self.left else {
            return PutBack::whole(shown.to_owned());
        };
        let mut left = entry.clone();
        if let JournalEntry::Changed { after, .. } = &mut left {
            *after = state;
        }
        PutBack {
            line: format!("{shown}, but for {lines}, changed since the turn"),
            left: Some(left),
        }
    }
}

/// What undoes the change from BEFORE to AFTER at a place called SHOWN that has the text CURRENT: the
/// state before, where nobody has changed the place since, else what was changed since with as much of it as
/// stands elsewhere.
///
/// # Errors
///
/// Others changed all of it, or the same text can't be undone by lines.
pub(super) fn back(
    shown: &str,
    before: &ContentState,
    after: &ContentState,
    current: &Current,
) -> Result<Back, ToolFailure> {
    let now = current.state();
    if now.same(after) || now.same(before) {
        return Ok(Back::whole(before));
    }
    let (
        ContentState::Text { text: then, .. },
        ContentState::Text {
            text: made,
            encoding,
        },
    ) = (before, after)
    else {
        return Err(changed_since(shown));
    };
    if matches!(current.home, Home::Nowhere) {
        return Err(changed_since(shown));
    }
    let (then, made) = (adapted(then, current), adapted(made, current));
    let merged = merge(&made, &then, &current.text);
    let lines = lines_of(&merged);
    if merged.added == 0 && !lines.is_empty() {
        return Err(ToolFailure::new(format!(
            "'{shown}' was changed since the turn where the turn changed it ({lines}), so it was left as it is."
        )));
    }
    let text = |text: String, encoding| ContentState::Text {
        text: Arc::from(text),
        encoding,
    };
    let of_current = match now {
        ContentState::Text { encoding, .. } => encoding,
        ContentState::Absent | ContentState::Bytes(_) => None,
    };
    Ok(Back {
        state: text(merged.text, of_current),
        left: (!lines.is_empty()).then(|| (text(merged.ours, *encoding), lines)),
    })
}

/// The lines of the text where changes stay, in words; empty without any.
fn lines_of(merged: &Merged) -> String {
    let words = merged
        .clashes
        .iter()
        .map(|(start, end)| match start == end {
            true => format!("line {start}"),
            false => format!("lines {start}-{end}"),
        });
    words.collect::<Vec<_>>().join(", ")
}

/// What the buffer NAME has now.
pub(super) async fn live(context: &WorkContext, name: &str) -> Result<Current, ToolFailure> {
    let reply = context
        .ask_emacs("buffer-state", json!({"buffer": name}))
        .await?;
    let live: LiveBuffer = read_reply(&reply)?;
    Ok(Current {
        text: live.text.clone().unwrap_or_default(),
        home: Home::Buffer(live),
    })
}

async fn buffer_back(
    context: &WorkContext,
    name: &str,
    before: &ContentState,
    after: &ContentState,
) -> Result<Back, ToolFailure> {
    same_buffer(context, name)?;
    let current = live(context, name).await?;
    let back = back(name, before, after, &current)?;
    if let (ContentState::Text { text, .. }, Home::Buffer(live)) = (&back.state, &current.home)
        && **text != *current.text
    {
        change_buffer(context, live, &current.text, text, Save::No).await?;
    }
    Ok(back)
}

/// Undoes the change of the file at PATH from BEFORE to AFTER; gives its name and a word on how, too.
async fn file_back(
    context: &WorkContext,
    target: Resolved,
    (before, after): (&ContentState, &ContentState),
    mode: Option<u32>,
    disk: Disk,
) -> Result<(Back, String), ToolFailure> {
    let shown = target.shown();
    let binary = matches!(
        (before, after),
        (ContentState::Bytes(_), _) | (_, ContentState::Bytes(_))
    );
    // A file that was deleted may still be open in Emacs; only what is on disk counts then.
    let disk_only = binary || *after == ContentState::Absent;
    let (now, current) = if disk_only {
        (on_disk(context, &target).await?.0, None)
    } else {
        let current = load(context, &target).await?;
        (current.state(), Some(current))
    };
    if now.same(before) {
        let told = format!("{shown} (already as it was)");
        return Ok((Back::whole(before), told));
    }
    let back = match &current {
        Some(current) => back(&shown, before, after, current)?,
        None if now.same(after) => Back::whole(before),
        None => return Err(changed_since(&shown)),
    };
    if let (Some(current), ContentState::Text { text, .. }) = (&current, &back.state)
        && !now.same(after)
        && is_lisp(&target.path)
    {
        let text = text.replace("\r\n", "\n");
        let is = Some(current.text.as_str());
        let place = (target.path.as_path(), shown.as_str());
        let checked = check_change(context, Rewritten::Part, is, &text, place).await;
        checked.map_err(|_| changed_since(&shown))?;
    }
    let made = restore(context, &target, &back.state, current.as_ref(), disk).await?;
    if target.kind == PathKind::Missing
        && let Some(mode) = mode
    {
        use std::os::unix::fs::PermissionsExt;
        let permissions = std::fs::Permissions::from_mode(mode);
        let _ = std::fs::set_permissions(&target.path, permissions);
    }
    Ok((back, format!("{shown}{}", made.note())))
}

/// Makes BEFORE what is at TARGET, where CURRENT is now.
async fn restore(
    context: &WorkContext,
    target: &Resolved,
    before: &ContentState,
    current: Option<&Current>,
    disk: Disk,
) -> Result<Made, ToolFailure> {
    let live = match current.map(|current| (&current.home, current)) {
        Some((Home::Buffer(live), current)) => Some((live, &current.text)),
        _ => None,
    };
    match before {
        ContentState::Absent => {
            let target = target.clone();
            context
                .on_a_thread(move |_| verified::remove(&target, None))
                .await?;
        }
        ContentState::Text { text, encoding } => {
            if let Some((live, now)) = live {
                // What the turn saved is saved again; what the user had not saved stays that way.
                let save = match (live.modified, disk) {
                    (true, Disk::Untouched) => Save::No,
                    _ => Save::Yes,
                };
                return change_buffer(context, live, now, text, save).await;
            }
            let (ends, now_encoding) = match current {
                Some(Current {
                    text,
                    home: Home::Disk(_, encoding),
                }) => (LineEnds::of(text.as_bytes()), *encoding),
                _ => (LineEnds::Lf, Encoding::Utf8(Mark::None)),
            };
            let bytes = match encoding {
                Some(encoding) => encode(text, *encoding)?,
                // What a buffer held has plain line ends, whatever the file has.
                None => encode(&ends.adapt(text), now_encoding)?,
            };
            write(context, target, bytes).await?;
        }
        ContentState::Bytes(bytes) => write(context, target, bytes.to_vec()).await?,
    }
    Ok(Made::OnDisk)
}

async fn write(
    context: &WorkContext,
    target: &Resolved,
    bytes: Vec<u8>,
) -> Result<(), ToolFailure> {
    let target = target.clone();
    context
        .on_a_thread(move |_| match target.kind {
            PathKind::Missing => verified::create(&target, &bytes, Parents::Make),
            _ => verified::replace(&target, &bytes, None),
        })
        .await
}

// The places that undoing writes to. Each is judged at that moment, as for any write: it is what its
// name says, and the user is asked about one that is outside the project or private.

/// How many places a question names.
const IN_A_QUESTION: usize = 5;

/// A place, and why any write there asks, a sentence.
pub(super) struct WritePlace {
    pub target: Resolved,
    concern: Option<String>,
}

impl WritePlace {
    /// Its name for a list of what would be written.
    pub fn listed(&self) -> String {
        match self.concern {
            Some(_) => format!("{} (asks first)", self.target.shown()),
            None => self.target.shown(),
        }
    }
}

/// What is at PATH now.
///
/// # Errors
///
/// It can't be used, or leads elsewhere.
pub(super) async fn at(context: &WorkContext, path: &Path) -> Result<WritePlace, ToolFailure> {
    let (policy, given) = (context.policy().await?, path.to_string_lossy().into_owned());
    let place = context.on_a_thread(move |_| {
        let verdict = policy.judge(&given);
        let concern = verdict.concern();
        let target = verdict.resolved()?;
        Ok(WritePlace { target, concern })
    });
    let place = place.await?;
    match place.target.path == path {
        true => Ok(place),
        false => Err(ToolFailure::new(format!(
            "'{}' leads to '{}' now, so it was left as it is.",
            path.display(),
            place.target.path.display()
        ))),
    }
}

/// Makes sure that the buffer NAME is the one that the chat changed.
///
/// # Errors
///
/// It was changed in another Emacs.
pub(super) fn same_buffer(context: &WorkContext, name: &str) -> Result<(), ToolFailure> {
    match context.workspace.journal.has_changed_buffer(name) {
        true => Ok(()),
        false => Err(ToolFailure::new(format!(
            "The buffer {name} was changed in another Emacs, so the one of that name was left as it is."
        ))),
    }
}

/// The places that may be written though they ask.
#[derive(Default)]
pub(super) struct Agreed(HashSet<PathBuf>);

impl Agreed {
    /// Asks the user about those places of ENTRIES of which any write asks.
    pub async fn of(context: &WorkContext, entries: &[JournalEntry]) -> Self {
        let mut asked: Vec<(PathBuf, String)> = Vec::new();
        for path in entries.iter().flat_map(paths) {
            if asked.iter().any(|(known, _)| known == path) {
                continue;
            }
            if let Ok(WritePlace {
                concern: Some(concern),
                ..
            }) = at(context, path).await
            {
                asked.push((path.to_owned(), concern));
            }
        }
        let mut agreed = HashSet::new();
        for some in asked.chunks(IN_A_QUESTION) {
            let concerns: Vec<&str> = some.iter().map(|(_, concern)| concern.as_str()).collect();
            let question = json!({"concerns": concerns});
            let answer = context.ask_emacs("may-put-back", question).await;
            if answer.is_ok_and(|answer| read_reply(&answer).unwrap_or(false)) {
                agreed.extend(some.iter().map(|(path, _)| path.clone()));
            }
        }
        Self(agreed)
    }

    /// Where PATH is, which is to be written.
    ///
    /// # Errors
    ///
    /// It can't be used, leads elsewhere, or the user has not agreed to it.
    pub async fn at(&self, context: &WorkContext, path: &Path) -> Result<Resolved, ToolFailure> {
        let place = at(context, path).await?;
        match place.concern {
            Some(concern) if !self.0.contains(path) => {
                Err(ToolFailure::new(format!("{concern} It was left as it is.")))
            }
            _ => Ok(place.target),
        }
    }
}

fn paths(entry: &JournalEntry) -> Vec<&Path> {
    match entry {
        JournalEntry::Moved { from, to, .. } => vec![to, from],
        JournalEntry::Changed {
            place: ChangedPlace::File(path),
            ..
        } => vec![path],
        JournalEntry::Changed {
            place: ChangedPlace::Buffer(_),
            ..
        } => Vec::new(),
    }
}
