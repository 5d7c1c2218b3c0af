// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests about a file that was changed since: each is about what the call makes of the file as it is
//! now, or is withdrawn when nothing can be made of it any more, so that nobody answers in vain.

use std::fs;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::batch::BatchContext;
use super::ending::CallEnding;
use super::executor::Executor;
use super::prepared::PreparedCall;
use super::reach::{self, precheck};
use crate::diff::{CONTEXT, Diff};
use crate::protocol::{Consent, Decider, Event};
use crate::tool::ToolFailure;
use crate::tool::preview::{Divisible, Preview, Reviewed};
use crate::tool::work::{Proposal, WorkContext};

/// What became of a request when it was looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewed {
    No,
    /// The model knows what was changed, as by its own calls before this one.
    ForModel,
    /// Others changed the file.
    ForOthers,
}

/// How often it is looked whether a file that a request is about was changed by a program that tells
/// nobody.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Executor {
    /// Waits until the file that the request about CALL is about was changed on disk.
    pub(super) async fn touched(&self, call: &PreparedCall) {
        let Some(preview) = &call.preview else {
            return pending().await;
        };
        let before = stamp(&preview.file).await;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if stamp(&preview.file).await != before {
                return;
            }
        }
    }

    /// Has the request about CALL show what the call makes of its file now, if it is about one.
    ///
    /// # Errors
    ///
    /// How the call ends, which can't be made any more.
    pub(super) async fn renew(
        &self,
        call: &mut PreparedCall,
        batch: &BatchContext,
    ) -> Result<Renewed, CallEnding> {
        let Some(shown) = call.preview.clone() else {
            return Ok(Renewed::No);
        };
        let planned = self.planned(call, call.reviewed.clone(), batch).await;
        if batch.cancel.is_cancelled() {
            return Ok(Renewed::No);
        }
        let (now, renewed) = match planned {
            Ok(now) => {
                if let (Some(before), Some(now)) = (&mut call.reviewed, &now) {
                    *before = as_reviewed(now);
                }
                (now, Renewed::ForModel)
            }
            Err(why) if shown.divisible == Divisible::No => {
                return Err(self.withdrawn(call, why, batch));
            }
            Err(why) => match self.planned(call, Some(as_reviewed(&shown)), batch).await {
                Ok(now) => {
                    call.reviewed = now.as_ref().map(as_reviewed);
                    (now, Renewed::ForOthers)
                }
                Err(_) => return Err(self.withdrawn(call, why, batch)),
            },
        };
        let Some(now) = now.filter(|now| *now != shown) else {
            return Ok(Renewed::No);
        };
        self.approvals.renew(call.key, now.clone());
        if difference(&now) != difference(&shown) {
            self.host.emit(Event::ApprovalChanged {
                session: batch.session,
                call: call.key,
            });
        }
        call.preview = Some(now);
        Ok(renewed)
    }

    /// What CALL makes of its file now: what it says, or what REVIEWED does.
    async fn planned(
        &self,
        call: &PreparedCall,
        reviewed: Option<Arc<Reviewed>>,
        batch: &BatchContext,
    ) -> Result<Option<Preview>, ToolFailure> {
        let context = WorkContext {
            reviewed,
            proposal: Proposal::Pending,
            ..self.context(batch)
        };
        // The paths may lead elsewhere by now.
        let (_, reached) = reach::assess(&call.tool, &call.arguments, &context).await?;
        precheck(&call.tool, &call.arguments, &reached, &context).await
    }

    /// How CALL ends, about which the user is asked no longer, for the reason WHY.
    fn withdrawn(
        &self,
        call: &mut PreparedCall,
        why: ToolFailure,
        batch: &BatchContext,
    ) -> CallEnding {
        self.approvals.close(call.key);
        call.consent = Consent::Unanswered;
        call.decider = Decider::Nobody;
        let mut ending = CallEnding::failed(why, || call.source(&batch.place));
        // The reason stands first: the line of the call in the log may have no room for more.
        ending
            .content
            .push_str(" The user is not asked about this any more.");
        ending
    }
}

/// By what it is told that FILE was changed.
async fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let file = file.to_owned();
    let found = tokio::task::spawn_blocking(move || fs::metadata(file)).await;
    let found = found.ok()?.ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// PREVIEW as what the user leaves of a change: all of it.
pub(super) fn as_reviewed(preview: &Preview) -> Arc<Reviewed> {
    Arc::new(Reviewed {
        original: preview.original.as_deref().unwrap_or_default().to_owned(),
        modified: preview.modified.to_string(),
    })
}

/// What the user sees of PREVIEW.
fn difference(preview: &Preview) -> Diff {
    let original = preview.original.as_deref().unwrap_or_default();
    Diff::between(original, &preview.modified, CONTEXT)
}
