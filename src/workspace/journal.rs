// SPDX-License-Identifier: GPL-3.0-or-later
//! What the turns of a chat changed: for each place the state before the first change of the turn
//! and after the last one, enough to put it back and to show it as one diff.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::diff::{self, CONTEXT, Diff};
use crate::files::encoding::Encoding;
use crate::runtime::held;

use crate::files::fingerprint::text_hash;

/// How many turns can be undone, the latest.
const MOST_TURNS: usize = 100;

/// Where something was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedPlace {
    /// A file, or the buffer that visits it.
    File(PathBuf),
    /// A buffer without a file, by name.
    Buffer(String),
}

/// What was or is at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentState {
    Absent,
    Text {
        text: Arc<str>,
        /// As the file had it; none for what was in a buffer.
        encoding: Option<Encoding>,
    },
    /// A file that is no text.
    Bytes(Arc<[u8]>),
}

impl ContentState {
    /// Whether both are the same to the user; line ends that Emacs hides don't count.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text { text: one, .. }, Self::Text { text: two, .. }) => {
                one == two || text_hash(one) == text_hash(two)
            }
            _ => self == other,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Absent => Some(""),
            Self::Text { text, .. } => Some(text),
            Self::Bytes(_) => None,
        }
    }
}

/// Whether a change reached the disk, or is only in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    Changed,
    Untouched,
}

/// One thing that a turn did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalEntry {
    Changed {
        place: ChangedPlace,
        before: ContentState,
        after: ContentState,
        /// The file's permissions before.
        mode: Option<u32>,
        disk: Disk,
        /// How many folders above were made for the file.
        folders: usize,
    },
    Moved {
        from: PathBuf,
        to: PathBuf,
        folders: usize,
    },
}

impl JournalEntry {
    /// The file that was changed, and its text before, where it was one.
    #[must_use]
    pub fn text_before(&self) -> Option<(&Path, &str)> {
        match self {
            Self::Changed {
                place: ChangedPlace::File(path),
                before,
                ..
            } => Some((path, before.text()?)),
            _ => None,
        }
    }

    /// What undoes putting this back.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let mut inverse = self.clone();
        match &mut inverse {
            Self::Changed { before, after, .. } => std::mem::swap(before, after),
            Self::Moved { from, to, .. } => std::mem::swap(from, to),
        }
        inverse
    }
}

/// The changes of one turn, in order.
pub type Turn = Vec<JournalEntry>;

/// What is done to a journal. The same steps give the same journal again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalStep {
    /// A turn of this number begins.
    Turn(u64),
    /// A change is about to be made.
    Recorded(JournalEntry),
    /// It failed.
    TakenBack,
    /// The latest turn was undone, but for these.
    Undone(Turn),
    /// The turns from the one of this number on were taken out by a rewind, whose own number is that.
    Rewound { turn: u64, rewind: u64 },
    /// They came back.
    Unwound { rewind: u64 },
}

/// Learns of each step, in their order.
pub trait JournalObserver: Send {
    fn step(&mut self, step: &JournalStep);
}

/// The changes of a chat's turns.
#[derive(Debug, Default)]
pub struct Journal {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    observer: Option<Box<dyn JournalObserver>>,
    turns: Vec<Turn>,
    /// The number of each of them.
    numbers: Vec<u64>,
    /// The number of the turn that runs.
    current: u64,
    /// The next change belongs to a new turn.
    fresh: Grouping,
    /// What rewinds took out, by their numbers.
    rewound: Vec<(u64, Vec<NumberedTurn>)>,
    /// The latest turn that is not here: there were too many since, or nobody can tell who wrote of it.
    forgotten: Option<u64>,
    /// The buffers that were changed in this Emacs.
    buffers: HashSet<String>,
}

/// A turn with its number.
pub type NumberedTurn = (u64, Turn);

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("turns", &self.turns)
            .field("numbers", &self.numbers)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn tell(&mut self, step: impl FnOnce() -> JournalStep) {
        if let Some(observer) = &mut self.observer {
            observer.step(&step());
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Grouping {
    #[default]
    NewTurn,
    SameTurn,
}

impl Journal {
    /// Has OBSERVER learn of what is done from now on.
    pub fn observe(&self, observer: Box<dyn JournalObserver>) {
        held(&self.inner).observer = Some(observer);
    }

    /// Does STEPS again, which were done to a journal that was written down.
    pub fn repeat(&self, steps: impl IntoIterator<Item = JournalStep>) {
        let mut was = Turn::new();
        for step in steps {
            match step {
                JournalStep::Turn(number) => self.begin_turn(number),
                JournalStep::Recorded(entry) => was = self.record(entry),
                JournalStep::TakenBack => self.take_back(std::mem::take(&mut was)),
                JournalStep::Undone(left) => self.undone(left),
                JournalStep::Rewound { turn, rewind } => {
                    self.rewind(turn, rewind);
                }
                JournalStep::Unwound { rewind } => self.unwind(rewind),
            }
        }
    }

    /// From now on changes belong to the turn NUMBER.
    pub fn begin_turn(&self, number: u64) {
        let mut inner = held(&self.inner);
        inner.tell(|| JournalStep::Turn(number));
        inner.fresh = Grouping::NewTurn;
        inner.current = number;
    }

    /// Notes a change that is about to be made. What was at the place before its first change of
    /// the turn stays. Gives back the journal's turn as it was, for [`Journal::take_back`].
    pub fn record(&self, entry: JournalEntry) -> Turn {
        let mut inner = held(&self.inner);
        inner.tell(|| JournalStep::Recorded(entry.clone()));
        if inner.fresh == Grouping::NewTurn {
            let number = inner.current;
            inner.turns.push(Turn::new());
            inner.numbers.push(number);
            inner.fresh = Grouping::SameTurn;
            if inner.turns.len() > MOST_TURNS {
                inner.turns.remove(0);
                inner.forgotten = Some(inner.numbers.remove(0));
            }
        }
        let Some(turn) = inner.turns.last_mut() else {
            return Turn::new();
        };
        let was = turn.clone();
        // What happened before a move may have been to another file of that name.
        let since_move = turn
            .iter()
            .rposition(|entry| matches!(entry, JournalEntry::Moved { .. }))
            .map_or(0, |index| index + 1);
        let known = turn[since_move..]
            .iter_mut()
            .find_map(|known| match (known, &entry) {
                (
                    JournalEntry::Changed {
                        place, after, disk, ..
                    },
                    JournalEntry::Changed { place: here, .. },
                ) if place == here => Some((after, disk)),
                _ => None,
            });
        match (known, entry) {
            (Some((known, known_disk)), JournalEntry::Changed { after, disk, .. }) => {
                *known = after;
                if disk == Disk::Changed {
                    *known_disk = disk;
                }
            }
            (_, entry) => turn.push(entry),
        }
        was
    }

    /// Forgets the last [`Journal::record`], whose change failed.
    pub fn take_back(&self, was: Turn) {
        let mut inner = held(&self.inner);
        inner.tell(|| JournalStep::TakenBack);
        if was.is_empty() {
            inner.turns.pop();
            inner.numbers.pop();
            inner.fresh = Grouping::NewTurn;
        } else if let Some(turn) = inner.turns.last_mut() {
            *turn = was;
        }
    }

    /// The changes of the latest turn that changed anything.
    #[must_use]
    pub fn last(&self) -> Option<Turn> {
        held(&self.inner).turns.last().cloned()
    }

    /// The number of the latest turn that changed anything.
    #[must_use]
    pub fn last_number(&self) -> Option<u64> {
        held(&self.inner).numbers.last().copied()
    }

    /// The turns from the one of that number on, the oldest first.
    #[must_use]
    pub fn since(&self, turn: u64) -> Vec<NumberedTurn> {
        let inner = held(&self.inner);
        let numbers = inner.numbers.iter().copied();
        let all = numbers.zip(inner.turns.iter().cloned());
        all.filter(|(number, _)| *number >= turn).collect()
    }

    /// The latest turn whose changes are not known.
    #[must_use]
    pub fn forgotten(&self) -> Option<u64> {
        held(&self.inner).forgotten
    }

    /// Notes that nothing is known of the turns up to NUMBER.
    pub fn forget(&self, number: u64) {
        held(&self.inner).forgotten = Some(number);
    }

    /// Notes that the chat changed the buffer NAME in this Emacs. After a restart another may have it.
    pub fn changed_buffer(&self, name: &str) {
        held(&self.inner).buffers.insert(name.to_owned());
    }

    /// Whether it did.
    #[must_use]
    pub fn has_changed_buffer(&self, name: &str) -> bool {
        held(&self.inner).buffers.contains(name)
    }

    /// Whether REWIND took out turns that it can put back.
    #[must_use]
    pub fn has_rewound(&self, rewind: u64) -> bool {
        let inner = held(&self.inner);
        inner.rewound.iter().any(|(number, _)| *number == rewind)
    }

    /// Takes out the turns from TURN on, which the rewind of that number takes back, and gives them.
    pub fn rewind(&self, turn: u64, rewind: u64) -> Vec<NumberedTurn> {
        let taken = self.since(turn);
        let mut inner = held(&self.inner);
        inner.tell(|| JournalStep::Rewound { turn, rewind });
        let kept = inner.numbers.partition_point(|number| *number < turn);
        inner.numbers.truncate(kept);
        inner.turns.truncate(kept);
        inner.fresh = Grouping::NewTurn;
        inner.current = rewind;
        inner.rewound.push((rewind, taken.clone()));
        taken
    }

    /// Puts the turns back that REWIND took out.
    pub fn unwind(&self, rewind: u64) {
        let mut inner = held(&self.inner);
        inner.tell(|| JournalStep::Unwound { rewind });
        let Some(index) = inner.rewound.iter().position(|(it, _)| *it == rewind) else {
            return;
        };
        let (_, turns) = inner.rewound.remove(index);
        for (number, turn) in turns {
            inner.numbers.push(number);
            inner.turns.push(turn);
        }
        inner.fresh = Grouping::NewTurn;
    }

    /// Puts what is LEFT of the latest turn in its place, after the rest was undone.
    pub fn undone(&self, left: Turn) {
        let mut inner = held(&self.inner);
        inner.tell(|| JournalStep::Undone(left.clone()));
        inner.turns.pop();
        if left.is_empty() {
            inner.numbers.pop();
        } else {
            inner.turns.push(left);
        }
        inner.fresh = Grouping::NewTurn;
    }
}

/// TURN as one diff; ROOT is what its paths are shown from. Each is the path that undoing writes to.
#[must_use]
pub fn as_diff(turn: &[JournalEntry], root: Option<&Path>) -> String {
    let name = |path: &Path| {
        let inside = root.and_then(|root| path.strip_prefix(root).ok());
        inside.unwrap_or(path).display().to_string()
    };
    let mut text = String::new();
    for entry in turn {
        match entry {
            JournalEntry::Moved { from, to, .. } => {
                text.push_str(&format!(
                    "rename from {}\nrename to {}\n",
                    name(from),
                    name(to)
                ));
            }
            JournalEntry::Changed {
                place,
                before,
                after,
                ..
            } => {
                let shown = match place {
                    ChangedPlace::File(path) => name(path),
                    ChangedPlace::Buffer(buffer) => buffer.clone(),
                };
                text.push_str(&one_diff(&shown, before, after));
            }
        }
    }
    text
}

fn one_diff(shown: &str, before: &ContentState, after: &ContentState) -> String {
    let label = |side: &str, state: &ContentState| match state {
        ContentState::Absent => "/dev/null".to_owned(),
        ContentState::Text { .. } | ContentState::Bytes(_) => diff::label(side, shown),
    };
    match (before.text(), after.text()) {
        (Some(old), Some(new)) => {
            Diff::between(old, new, CONTEXT).unified(&label("a", before), &label("b", after))
        }
        _ => format!(
            "Binary files {} and {} differ\n",
            label("a", before),
            label("b", after)
        ),
    }
}
