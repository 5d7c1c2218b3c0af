// SPDX-License-Identifier: GPL-3.0-or-later
//! The approval requests that wait for the user's decision, each with what is known of its call.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use tokio::sync::{oneshot, watch};

use super::facts::Facts;
use crate::protocol::{CallKey, Decider, Decision};
use crate::runtime::held;
use crate::tool::work::Preview;

/// The approval requests that wait for the user's decision.
#[derive(Debug, Default)]
pub struct Approvals {
    waiting: Mutex<HashMap<CallKey, Waiting>>,
    /// Told when a call or the user may have changed files, which some requests are about.
    files: watch::Sender<()>,
    /// The calls whose request was withdrawn, of which Emacs has not heard yet: what is still on the
    /// screen is not what a decision would be about.
    changed: Mutex<HashSet<CallKey>>,
}

#[derive(Debug)]
struct Waiting {
    sender: oneshot::Sender<Decided>,
    facts: Facts,
    preview: Option<Preview>,
    sight: Sight,
}

/// What of a request Emacs has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    Current,
    /// What it was about before a file was changed.
    Outdated,
}

/// A decision and who made it.
#[derive(Debug, Clone)]
pub struct Decided {
    pub decision: Decision,
    pub decider: Decider,
    pub sight: Sight,
}

impl Default for Decided {
    /// A request that was dropped lets nothing run.
    fn default() -> Self {
        Self {
            decision: Decision::Unanswered(
                "The request for approval was dropped, so the tool was not run.".to_owned(),
            ),
            decider: Decider::Nobody,
            sight: Sight::Current,
        }
    }
}

impl Approvals {
    /// Opens a request about a call with FACTS, which would do what PREVIEW shows to a file. Do this
    /// before the user is told, so that no decision comes too early.
    pub fn open(
        &self,
        call: CallKey,
        facts: Facts,
        preview: Option<Preview>,
    ) -> oneshot::Receiver<Decided> {
        let (sender, receiver) = oneshot::channel();
        let waiting = Waiting {
            sender,
            facts,
            preview,
            sight: Sight::Current,
        };
        held(&self.waiting).insert(call, waiting);
        receiver
    }

    /// Hands the user's decision to the call that waits for it; false when none does.
    pub fn decide(&self, call: CallKey, decision: Decision) -> bool {
        self.decide_by(call, decision, Decider::User)
    }

    /// The same for a decision that DECIDER made.
    pub fn decide_by(&self, call: CallKey, decision: Decision, decider: Decider) -> bool {
        held(&self.waiting).remove(&call).is_some_and(|waiting| {
            let decided = Decided {
                decision,
                decider,
                sight: waiting.sight,
            };
            waiting.sender.send(decided).is_ok()
        })
    }

    /// What is known of a call that waits.
    #[must_use]
    pub fn facts(&self, call: CallKey) -> Option<Facts> {
        held(&self.waiting)
            .get(&call)
            .map(|waiting| waiting.facts.clone())
    }

    /// What is known of all calls that wait.
    #[must_use]
    pub fn waiting(&self) -> Vec<(CallKey, Facts)> {
        held(&self.waiting)
            .iter()
            .map(|(call, waiting)| (*call, waiting.facts.clone()))
            .collect()
    }

    /// What a call that waits would make of a file, for Emacs to show.
    #[must_use]
    pub fn preview(&self, call: CallKey) -> Option<Preview> {
        held(&self.waiting).get_mut(&call).and_then(|waiting| {
            waiting.sight = Sight::Current;
            waiting.preview.clone()
        })
    }

    /// Makes PREVIEW what the request about CALL is about. Do this before Emacs is told.
    pub fn renew(&self, call: CallKey, preview: Preview) {
        if let Some(waiting) = held(&self.waiting).get_mut(&call) {
            waiting.preview = Some(preview);
            waiting.sight = Sight::Outdated;
        }
    }

    /// Has requests looked at again, as files may have been changed.
    pub fn files_changed(&self) {
        self.files.send_replace(());
    }

    /// Hears of that from now on.
    #[must_use]
    pub fn file_changes(&self) -> watch::Receiver<()> {
        self.files.subscribe()
    }

    /// Forgets a request that nobody waits for any more.
    pub fn close(&self, call: CallKey) {
        held(&self.waiting).remove(&call);
    }

    /// Withdraws the request of a call that turned out to be about something else; false when it
    /// was decided before.
    pub(super) fn withdraw(&self, call: CallKey) -> bool {
        let waited = held(&self.waiting).remove(&call).is_some();
        if waited {
            held(&self.changed).insert(call);
        }
        waited
    }

    /// Notes that Emacs has heard what became of the request of CALL.
    pub fn told(&self, call: CallKey) {
        held(&self.changed).remove(&call);
    }

    /// Whether the request of CALL is no longer what the user sees.
    #[must_use]
    pub fn has_changed(&self, call: CallKey) -> bool {
        held(&self.changed).contains(&call)
    }

    /// How many requests wait.
    #[must_use]
    pub fn count(&self) -> usize {
        held(&self.waiting).len()
    }
}
