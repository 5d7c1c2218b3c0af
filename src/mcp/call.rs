// SPDX-License-Identifier: GPL-3.0-or-later
//! One call of a client while it runs, which may take longer than a host waits: what it waits for now,
//! its progress for clients that ask for that, and its outcome once there is one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use once_cell::sync::OnceCell;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::protocol::{is_repeatable, notification};
use super::transport::Outgoing;
use crate::protocol::Event;
use crate::runtime::held;

/// The beginning of 2026, in seconds since that of 1970. It keeps numbers short, as models repeat them.
const YEAR_2026: u64 = 1_767_225_600;

/// A call that was taken in.
#[derive(Debug)]
pub struct ClientCall {
    /// The number by which the client can await it.
    pub id: u64,
    pub tool: String,
    /// What its client marked it with as one of a turn.
    pub mark: Option<String>,
    /// How many bytes its arguments are.
    pub length: usize,
    started: Instant,
    step: Mutex<CallStep>,
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
            "Error: There is no call {id}: Emacs was started again since. That call is lost, and whether it was done is not known."
        ),
        false => format!(
            "Error: There is no call {id}: its result was given already, or the connection to Emacs was lost since, which stops calls."
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
}

/// What the client's model reads of a call that is over.
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

    /// As the result of `tools/call`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "content": [{"type": "text", "text": self.text}],
            "isError": self.kind == CallTextKind::Problem,
        })
    }
}

impl ClientCall {
    /// A call of TOOL with a number that no other one has or had, not even in an Emacs that ran before.
    #[must_use]
    pub fn new(tool: &str, mark: Option<String>, length: usize) -> Self {
        Self {
            id: next_id(),
            tool: tool.to_owned(),
            mark,
            length,
            started: Instant::now(),
            step: Mutex::new(CallStep::Queued),
            cancel: CancellationToken::new(),
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

    /// Notes what EVENT, one of its own, says that it waits for now.
    pub fn see(&self, event: &Event) {
        let step = match event {
            Event::ApprovalRequested { reason, .. } => CallStep::Asking(reason.clone()),
            Event::CallStarted { .. } | Event::EffectDecided { .. } => CallStep::Running,
            _ => return,
        };
        *held(&self.step) = step;
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
            CallStep::Running => format!("is running, {} s so far", self.seconds()),
        }
    }

    /// The result of `tools/call` while there is no outcome; OUTPUT is what was printed so far.
    #[must_use]
    pub fn pending(&self, output: Option<&str>) -> Value {
        let mut text = format!(
            "pending: {} (call_id {}) {}. Call await_call with {{\"call_id\": {}}} to go on waiting for its result, or cancel_call to stop it. Don't repeat the call.",
            self.tool,
            self.id,
            self.waits_for(),
            self.id
        );
        if let Some(output) = output {
            text.push_str("\nOutput so far:\n");
            text.push_str(output);
        }
        let mut result = CallText::result(text).to_json();
        result["_meta"] = json!({"agent-q/status": "pending", "agent-q/callId": self.id});
        result
    }
}

/// When a client that wants to know first hears how a call goes, and how often then.
const FIRST_NOTE: Duration = Duration::from_secs(1);
const PACE: Duration = Duration::from_secs(2);

/// Says to OUT from time to time how CALL goes, to a client that gave TOKEN for that. Never ends.
pub async fn tell_progress(call: &ClientCall, token: Option<&Value>, out: &mpsc::Sender<Outgoing>) {
    let Some(token) = token.filter(|it| is_repeatable(it)) else {
        return std::future::pending().await;
    };
    let mut pause = FIRST_NOTE;
    loop {
        tokio::time::sleep(pause).await;
        pause = PACE;
        let note = notification(
            "notifications/progress",
            json!({
                "progressToken": token,
                "progress": call.seconds(),
                "message": format!("{} {}", call.tool, call.waits_for()),
            }),
        );
        let _ = out.try_send(Outgoing::new(&note));
    }
}
