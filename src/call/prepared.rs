// SPDX-License-Identifier: GPL-3.0-or-later
//! A call on its way: what it is, what was found out about it, and what was decided so far.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lexpr::Value;
use tokio::sync::{oneshot, watch};

use super::approvals::Decided;
use super::assess::{Assessed, CallVerdict};
use super::facts::Facts;
use super::result::{self, CallEnding};
use crate::effect::Question;
use crate::protocol::{CallKey, Consent, Decider};
use crate::rules::{Explanation, TurnPlace};
use crate::runtime::held;
use crate::tool::work::{Echo, NextCalls, Preview, Reviewed, Trail};
use crate::tool::{Arguments, Runner, Tool};
use crate::trust::{SafetyLevel, Source};

/// A call that has passed validation, or the failure that it ended in.
pub(super) enum Prepared {
    Runnable(Box<PreparedCall>),
    /// As things stand it would fail; calls before it may change that.
    Doubtful(Box<PreparedCall>, CallEnding),
    /// It is looked at when its turn comes. As things stand it would fail; calls before it may change that.
    Unassessed(CallEnding),
    Failed(CallEnding),
}

impl Prepared {
    /// Whether the call touches nothing that another one could trip over.
    pub(super) fn runs_beside_others(&self) -> bool {
        match self {
            Self::Runnable(call) => {
                call.verdict.assessment.level == SafetyLevel::Safe && call.pending.is_none()
            }
            Self::Unassessed(_) => false,
            Self::Failed(_) | Self::Doubtful(..) => true,
        }
    }

    /// The calls that it will want made after it.
    pub(super) fn next(&self) -> NextCalls {
        match self {
            Self::Runnable(call) => call.next.clone(),
            Self::Failed(_) | Self::Doubtful(..) | Self::Unassessed(_) => NextCalls::default(),
        }
    }

    /// What of its result the model has sent itself.
    pub(super) fn echo(&self) -> Echo {
        match self {
            Self::Runnable(call) => call.echo.clone(),
            Self::Failed(_) | Self::Doubtful(..) | Self::Unassessed(_) => Echo::default(),
        }
    }

    /// Whether all that it comes to names tools only in words of ours, and isn't a text of the user's.
    pub(super) fn returns_our_words(&self) -> bool {
        match self {
            Self::Runnable(call) => {
                matches!(
                    call.tool.runner,
                    Runner::Image(_) | Runner::Operation(_) | Runner::Steps(_)
                )
            }
            Self::Failed(_) | Self::Doubtful(..) | Self::Unassessed(_) => true,
        }
    }

    /// Whether it may change what later calls meet in the image.
    pub(super) fn may_change_image(&self) -> bool {
        match self {
            Self::Runnable(call) => call.verdict.assessment.level > SafetyLevel::Safe,
            Self::Unassessed(_) => true,
            Self::Failed(_) | Self::Doubtful(..) => false,
        }
    }

    /// Whether it may change a file that LATER is about.
    pub(super) fn may_change_files_of(&self, later: &PreparedCall) -> bool {
        match self {
            Self::Runnable(call) => {
                call.verdict.assessment.level > SafetyLevel::Safe && call.shares_files(later)
            }
            Self::Failed(_) | Self::Doubtful(..) | Self::Unassessed(_) => false,
        }
    }

    /// Whether it may show the model a file that LATER is about.
    pub(super) fn may_show_files_of(&self, later: &PreparedCall) -> bool {
        matches!(self, Self::Runnable(call) if call.shares_files(later))
    }
}

/// A call that has passed validation, with all that is known of it so far.
pub(super) struct PreparedCall {
    pub(super) key: CallKey,
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Arguments,
    pub(super) verdict: CallVerdict,
    pub(super) freshness: Freshness,
    pub(super) facts: Facts,
    pub(super) explanation: Explanation,
    /// The generation of the rules that said so.
    pub(super) generation: u64,
    pub(super) consent: Consent,
    pub(super) decider: Decider,
    /// The decision, for calls that were asked about.
    pub(super) pending: Option<Pending>,
    /// What it would make of a file, for the user to review.
    pub(super) preview: Option<Preview>,
    /// What the review left of that.
    pub(super) reviewed: Option<Arc<Reviewed>>,
    /// What the user says about the call, for its result.
    pub(super) review: Option<String>,
    /// What the user changed in its arguments, in words.
    pub(super) changed: Option<String>,
    /// The arguments that were given instead of the model's, when they can't be used.
    pub(super) unfit: Option<serde_json::Value>,
    pub(super) waited: Waited,
    pub(super) allowed: Allowed,
    /// The calls that it wants made after it.
    pub(super) next: NextCalls,
    pub(super) echo: Echo,
    pub(super) trail: Trail,
}

/// What a call that waits for the user hears of.
pub(super) struct Pending {
    pub(super) decided: oneshot::Receiver<Decided>,
    /// Files may have been changed since the request was made.
    pub(super) files: watch::Receiver<()>,
}

/// For how long the user was asked while a call ran.
#[derive(Debug, Default)]
pub(super) struct Waited(Mutex<Duration>);

impl Waited {
    pub(super) fn add(&self, time: Duration) {
        *held(&self.0) += time;
    }

    pub(super) fn all(&self) -> Duration {
        *held(&self.0)
    }
}

/// The effects to which the user has said yes while a call ran: until it ends that holds for more of
/// the same kind on the same.
#[derive(Debug, Default)]
pub(super) struct Allowed(Mutex<Vec<Question>>);

impl Allowed {
    pub(super) fn add(&self, question: &Question) {
        held(&self.0).push(question.clone());
    }

    pub(super) fn covers(&self, question: &Question) -> bool {
        held(&self.0).iter().any(|it| it.is_like(question))
    }
}

/// Whether anything can have changed since a call was assessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Fresh,
    Stale,
}

impl PreparedCall {
    fn shares_files(&self, other: &Self) -> bool {
        let files = &other.verdict.reached.files;
        self.verdict
            .reached
            .files
            .iter()
            .any(|it| files.contains(it))
    }

    /// Where what the call returns comes from.
    pub(super) fn source(&self, place: &TurnPlace) -> Source {
        result::source_of_call(&self.tool, &self.arguments, place, self.facts.yields())
    }

    /// ARGUMENTS of the operation, with how far the code was assessed unless the user has seen and
    /// approved all of it.
    pub(super) fn with_assessed(&self, arguments: Value) -> Value {
        match (self.consent, self.verdict.settled) {
            (Consent::NotNeeded, Some(settled)) => {
                Value::append([Value::keyword("assessed"), settled.value()], arguments)
            }
            _ => arguments,
        }
    }

    /// The arguments of an operation of Emacs's. What package a frame's code is read in is only
    /// known there, so all of the code is assessed once more just before it runs.
    pub(super) fn json_with_assessed(&self) -> serde_json::Value {
        let mut arguments = self.arguments.to_json();
        if let (Consent::NotNeeded, Some(settled), Some(object)) = (
            self.consent,
            self.verdict.settled,
            arguments.as_object_mut(),
        ) {
            let assessed = match settled {
                Assessed::Forms(_) => 0.into(),
                Assessed::Watched => "watched".into(),
            };
            object.insert("assessed".to_owned(), assessed);
        }
        arguments
    }
}
