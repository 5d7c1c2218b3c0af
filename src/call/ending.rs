// SPDX-License-Identifier: GPL-3.0-or-later
//! How calls end: what becomes their results.

use std::time::Duration;

use super::batch::MOST_CALLS;
use crate::protocol::{CallOutcome, CallResult, Consent};
use crate::tool::{Quotes, ToolFailure};
use crate::trust::{SafetyLevel, Source};

/// How a call ended.
pub(super) struct CallEnding {
    pub(super) outcome: CallOutcome,
    pub(super) content: String,
    /// Where the content comes from, if it is more than our own words.
    pub(super) source: Option<Source>,
    /// What the user says about it.
    pub(super) remark: Option<String>,
}

impl CallEnding {
    /// An ending told in our own words, or the user's.
    pub(super) fn new(outcome: CallOutcome, content: impl Into<String>) -> Self {
        Self {
            outcome,
            content: content.into(),
            source: None,
            remark: None,
        }
    }

    /// The FAILURE of a call about SOURCE.
    pub(super) fn failed(failure: ToolFailure, source: impl FnOnce() -> Source) -> Self {
        Self {
            source: match failure.quotes {
                Quotes::Nothing => None,
                Quotes::Something => Some(source()),
            },
            ..Self::new(CallOutcome::Failed, failure.message)
        }
    }

    /// The result of the call ID.
    pub(super) fn result(
        self,
        id: &str,
        elapsed: Duration,
        level: Option<SafetyLevel>,
        consent: Consent,
    ) -> CallResult {
        CallResult {
            id: id.to_owned(),
            outcome: self.outcome,
            content: self.content,
            source: self.source,
            remark: self.remark,
            elapsed,
            level,
            consent,
        }
    }
}

pub(super) fn remark(review: &str) -> String {
    format!("The user's review: {review}.")
}

/// The end of a call that is beyond what is run of COUNT calls.
pub(super) fn too_many(count: usize) -> CallEnding {
    CallEnding::new(
        CallOutcome::Failed,
        format!(
            "Not run: this message has {count} tool calls, and only the first {MOST_CALLS} of a message are run. Send this call again in a later message if you still need it."
        ),
    )
}
