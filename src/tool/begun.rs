// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that were begun and have a result later: those that a model has run in the background, and all of an
//! MCP client's, which may take longer than its host waits. What each waits for now, and its one outcome.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use once_cell::sync::OnceCell;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::protocol::{
    CallKey, CallOutcome, CallResult, Emacs, EmacsReply, EmacsRequest, Event, SessionId,
};
use crate::runtime::held;
use crate::trust::{Provenance, Source, draw, fence};

/// The tool that waits for such a call.
pub const AWAIT: &str = "await_call";
/// The one that stops it.
pub const CANCEL: &str = "cancel_call";

/// How long a call that was stopped may take to end before that is said.
pub const STOPPING_TIME: Duration = Duration::from_secs(5);

/// How long a look into a call may take.
const LOOK_TIME: Duration = Duration::from_secs(4);

/// How many bytes of outcomes a model is given that it did not wait for; others follow later.
const TOLD_AT_ONCE: usize = 16 * 1024;

/// The beginning of 2026, in seconds since that of 1970. It keeps numbers short, as models repeat them.
const YEAR_2026: u64 = 1_767_225_600;

/// A call that was begun.
#[derive(Debug)]
pub struct BegunCall {
    /// The number by which its model can await it.
    pub id: u64,
    pub tool: String,
    /// How many bytes its arguments are.
    pub length: usize,
    /// What Emacs knows it as, once it does.
    key: OnceCell<CallKey>,
    started: Instant,
    step: Mutex<CallStep>,
    /// How far it is, while it runs; empty where that isn't known.
    progress: Mutex<String>,
    pub cancel: CancellationToken,
    pub why: Arc<OnceCell<String>>,
    outcome: watch::Sender<Option<CallText>>,
}

/// The first number of this Emacs; the first one of another is higher, unless more than 100 calls a second
/// were made all the time.
fn first_id() -> u64 {
    static FIRST: OnceCell<u64> = OnceCell::new();
    *FIRST.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        seconds.saturating_sub(YEAR_2026) * 100
    })
}

fn next_id() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    first_id() + COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Why there is no call ID.
#[must_use]
pub fn missing(id: u64) -> String {
    match id <= first_id() {
        true => format!(
            "There is no call {id}: Emacs was started again since. That call is lost, and whether it was done is not known."
        ),
        false => format!(
            "There is no call {id}: its result was given already, or the connection to Emacs was lost since, which stops calls."
        ),
    }
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallStep {
    /// For calls before it.
    Queued,
    /// For the user, who is asked for this reason.
    Asking(String),
    Running,
    /// For the user, who is asked about this effect of what runs.
    Stopped(String),
}

/// What the model reads of a call that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallText {
    pub text: String,
    pub kind: CallTextKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallTextKind {
    Result,
    /// The tool could not do it, or what it ran failed.
    Problem,
}

impl CallText {
    #[must_use]
    pub fn result(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: CallTextKind::Result,
        }
    }

    #[must_use]
    pub fn problem(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: CallTextKind::Problem,
        }
    }

    /// The text without the word by which a failure is known.
    #[must_use]
    pub fn bare(&self) -> &str {
        let text = self.text.as_str();
        text.strip_prefix("Error:").map_or(text, str::trim_start)
    }
}

impl From<&CallResult> for CallText {
    /// The model's copy.
    fn from(result: &CallResult) -> Self {
        let text = result.for_model(draw());
        match result.outcome {
            CallOutcome::Succeeded => Self::result(text),
            CallOutcome::Failed | CallOutcome::Denied | CallOutcome::Cancelled => {
                Self::problem(text)
            }
        }
    }
}

impl BegunCall {
    /// A call of TOOL with arguments of LENGTH bytes that ends with CANCEL. No other one has or had its
    /// number, not even in an Emacs that ran before.
    #[must_use]
    pub fn new(tool: &str, length: usize, cancel: CancellationToken) -> Self {
        Self {
            id: next_id(),
            tool: tool.to_owned(),
            length,
            key: OnceCell::new(),
            started: Instant::now(),
            step: Mutex::new(CallStep::Queued),
            progress: Mutex::default(),
            cancel,
            why: Arc::default(),
            outcome: watch::Sender::new(None),
        }
    }

    /// Stops it; its outcome says WHY, unless another reason came first.
    pub fn stop(&self, why: &str) {
        // The first reason is the one.
        let _ = self.why.set(why.to_owned());
        self.cancel.cancel();
    }

    /// The outcome of a call that was stopped before it ran.
    #[must_use]
    pub fn stopped(&self) -> CallText {
        let why = self.why.get().map_or("it was cancelled", String::as_str);
        CallText::problem(format!("Error: The call did not run: {why}."))
    }

    pub fn finish(&self, outcome: CallText) {
        self.outcome.send_replace(Some(outcome));
    }

    #[must_use]
    pub fn outcome(&self) -> Option<CallText> {
        self.outcome.borrow().clone()
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.outcome.borrow().is_some()
    }

    /// Its outcome, if it has one within PATIENCE.
    pub async fn outcome_within(&self, patience: Duration) -> Option<CallText> {
        let mut outcome = self.outcome.subscribe();
        let wait = outcome.wait_for(Option::is_some);
        match tokio::time::timeout(patience, wait).await {
            Ok(Ok(outcome)) => outcome.clone(),
            _ => None,
        }
    }

    #[must_use]
    pub fn step(&self) -> CallStep {
        held(&self.step).clone()
    }

    /// Notes that it waits for STEP now.
    pub fn reach(&self, step: CallStep) {
        *held(&self.step) = step;
    }

    /// Notes what EVENT, one of its own, says that it waits for now.
    pub fn see(&self, event: &Event) {
        match event {
            // Code that runs is stopped before an effect.
            Event::ApprovalRequested { reason, .. } if self.step() == CallStep::Running => {
                self.reach(CallStep::Stopped(reason.clone()));
            }
            Event::ApprovalRequested { reason, .. } => self.reach(CallStep::Asking(reason.clone())),
            Event::CallStarted { call, .. } => {
                // A call that it makes itself comes later.
                let _ = self.key.set(*call);
                self.reach(CallStep::Running);
            }
            Event::EffectDecided { .. } => self.reach(CallStep::Running),
            Event::CallProgress { call, text, .. } if self.key.get() == Some(call) => {
                held(&self.progress).clone_from(text);
            }
            _ => {}
        }
    }

    /// How long it has been under way, in whole seconds.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// What it waits for, as a clause.
    #[must_use]
    pub fn waits_for(&self) -> String {
        match self.step() {
            CallStep::Queued => "waits for Emacs, or for earlier calls of yours".to_owned(),
            CallStep::Asking(reason) if reason.is_empty() => {
                "waits for the user's consent in Emacs; nothing has run".to_owned()
            }
            CallStep::Asking(reason) => format!(
                "waits for the user's consent in Emacs; nothing has run (asked because: {})",
                reason.trim_end_matches('.')
            ),
            CallStep::Stopped(effect) => format!(
                "has run, {} s so far, and waits for the user's consent in Emacs to: {}",
                self.seconds(),
                effect.trim_end_matches('.')
            ),
            CallStep::Running => match held(&self.progress).as_str() {
                "" => format!("is running, {} s so far", self.seconds()),
                progress => format!("is running, {} s so far ({progress})", self.seconds()),
            },
        }
    }

    /// What the model reads while there is no outcome; LOOKED is what was seen of it, and CALL the words by
    /// which the model calls other tools.
    #[must_use]
    pub fn pending(&self, call: &str, looked: Option<&str>) -> String {
        let mut text = format!(
            "pending: {} (call_id {}) {}. {call} {AWAIT} with {{\"call_id\": {}}} to go on waiting for its result, or {CANCEL} to stop it. Don't repeat the call.",
            self.tool,
            self.id,
            self.waits_for(),
            self.id
        );
        if let Some(looked) = looked {
            text.push('\n');
            text.push_str(looked);
        }
        text
    }

    /// What it has printed so far and where it is, fenced, if EMACS can find that out quickly for SESSION.
    pub async fn look(&self, emacs: &dyn Emacs, session: SessionId) -> Option<String> {
        let key = self.key.get()?;
        if self.step() != CallStep::Running {
            return None;
        }
        let asked = EmacsRequest::Operation {
            operation: "call-look",
            arguments: json!({"call": key.0}),
        };
        let reply = tokio::time::timeout(LOOK_TIME, emacs.request(session, asked)).await;
        let Ok(EmacsReply::Done(done)) = reply else {
            return None;
        };
        let source = Source {
            what: "the image".to_owned(),
            provenance: Provenance::Own,
        };
        (!done.text.is_empty()).then(|| fence(&done.text, &source, draw()))
    }
}

/// The calls that a model has begun and whose outcomes it was not given.
#[derive(Debug)]
pub struct BegunCalls {
    calls: Mutex<BTreeMap<u64, Arc<BegunCall>>>,
    /// How many there may be.
    most: usize,
    /// How many bytes their arguments may be.
    most_bytes: usize,
}

/// How many calls a chat's model may have in the background.
const MOST_OF_CHAT: usize = 20;

impl Default for BegunCalls {
    fn default() -> Self {
        Self::with_room(MOST_OF_CHAT, usize::MAX)
    }
}

impl BegunCalls {
    /// None yet, with room for MOST calls whose arguments have MOST_BYTES together.
    #[must_use]
    pub fn with_room(most: usize, most_bytes: usize) -> Self {
        Self {
            calls: Mutex::default(),
            most,
            most_bytes,
        }
    }

    /// Takes in CALL.
    ///
    /// # Errors
    ///
    /// A sentence when there are too many.
    pub fn begin(&self, call: BegunCall) -> Result<Arc<BegunCall>, String> {
        let mut calls = held(&self.calls);
        if calls.len() >= self.most {
            calls.retain(|_, call| !call.is_over());
        }
        if calls.len() >= self.most {
            return Err(format!(
                "{} calls are under way already. Await or cancel some of them first.",
                self.most
            ));
        }
        let under_way = calls.values().filter(|call| !call.is_over());
        let length: usize = under_way.map(|call| call.length).sum();
        if length.saturating_add(call.length) > self.most_bytes {
            return Err(format!(
                "The arguments of the calls under way fill {} MB already. Await or cancel some of them first.",
                self.most_bytes >> 20
            ));
        }
        let call = Arc::new(call);
        calls.insert(call.id, Arc::clone(&call));
        Ok(call)
    }

    /// The call that the model knows as ID.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<Arc<BegunCall>> {
        held(&self.calls).get(&id).cloned()
    }

    /// Notes that the model has the outcome of ID; whether it had not before.
    pub fn forget(&self, id: u64) -> bool {
        held(&self.calls).remove(&id).is_some()
    }

    #[must_use]
    pub fn running(&self) -> Vec<Arc<BegunCall>> {
        let calls = held(&self.calls);
        let running = calls.values().filter(|call| !call.is_over());
        running.cloned().collect()
    }

    /// Stops all that runs; the outcomes say WHY.
    pub fn stop_all(&self, why: &str) {
        for call in self.running() {
            call.stop(why);
        }
    }

    /// The outcomes that nobody waited for, as the model reads them, with the numbers of their calls. It is
    /// not given more at once than it can use.
    #[must_use]
    pub fn ended(&self) -> Option<(String, Vec<u64>)> {
        let mut ended: Vec<(String, u64)> = Vec::new();
        let mut length = 0;
        for call in held(&self.calls).values() {
            let Some(outcome) = call.outcome() else {
                continue;
            };
            length += outcome.text.len();
            if length > TOLD_AT_ONCE && !ended.is_empty() {
                break;
            }
            let text = format!(
                "{} (call_id {}) has ended:\n{}",
                call.tool, call.id, outcome.text
            );
            ended.push((text, call.id));
        }
        let (texts, ids): (Vec<String>, Vec<u64>) = ended.into_iter().unzip();
        (!ids.is_empty()).then(|| (texts.join("\n\n"), ids))
    }

    /// The same, which the model is given now.
    #[must_use]
    pub fn take_ended(&self) -> Option<String> {
        let (text, ids) = self.ended()?;
        for id in ids {
            self.forget(id);
        }
        Some(text)
    }
}
