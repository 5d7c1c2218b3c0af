// SPDX-License-Identifier: GPL-3.0-or-later
//! A tool call on its way through the executor: where it is made, what is known of it, how it ended.

use std::sync::Arc;
use std::time::Duration;

use once_cell::sync::OnceCell;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::assess::Verdict;
use super::offer::Offer;
use super::registry::Registry;
use super::{Arguments, Tool};
use crate::host::Answer;
use crate::protocol::{CallKey, CallOutcome, Consent, Decider, SessionId};
use crate::rules::{Explanation, Facts, Place};
use crate::session::settings::{Approval, EvalPolicy};
use crate::workspace::Workspace;

/// What the model reads when the user stopped the turn.
const CANCELLED: &str = "The user cancelled the turn; this call was stopped or did not run.";

/// The circumstances of a batch of calls.
#[derive(Debug, Clone)]
pub struct Circumstances {
    pub session: SessionId,
    /// The tools that can be called here.
    pub tools: Arc<Registry>,
    /// What could be called besides, when the model asks for it.
    pub offer: Arc<Offer>,
    pub approval: Approval,
    /// How long code may run in the image when the call does not say.
    pub eval_deadline: Duration,
    /// The files that the calls are about.
    pub workspace: Arc<Workspace>,
    /// When code may run in the image without asking.
    pub eval_policy: EvalPolicy,
    pub cancel: CancellationToken,
    /// Why they were cancelled, where a program did it; a chat's are cancelled by the user.
    pub why_cancelled: Arc<OnceCell<String>>,
    /// What rules look at besides the call.
    pub place: Place,
}

impl Circumstances {
    /// What is told of a call that was cancelled here.
    #[must_use]
    pub fn cancelled(&self) -> String {
        match self.why_cancelled.get() {
            Some(why) => format!("The call was stopped or did not run: {why}."),
            None => CANCELLED.to_owned(),
        }
    }
}

/// A call that has passed validation.
pub(super) struct Call {
    pub(super) key: CallKey,
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Arguments,
    pub(super) verdict: Verdict,
    pub(super) freshness: Freshness,
    pub(super) facts: Facts,
    pub(super) explanation: Explanation,
    pub(super) consent: Consent,
    pub(super) decider: Decider,
    /// The user's answer, for calls that were asked about.
    pub(super) answer: Option<oneshot::Receiver<Answer>>,
    /// What the user says about the call, for its result.
    pub(super) review: Option<String>,
    /// The arguments that were given instead of the model's, when they can't be used.
    pub(super) unfit: Option<Value>,
}

/// Whether anything can have changed since a call was assessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Fresh,
    Stale,
}

/// How a call ended.
pub(super) struct Ending {
    pub(super) outcome: CallOutcome,
    pub(super) content: String,
}

impl Ending {
    pub(super) fn new(outcome: CallOutcome, content: impl Into<String>) -> Self {
        Self {
            outcome,
            content: content.into(),
        }
    }
}
