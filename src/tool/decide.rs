// SPDX-License-Identifier: GPL-3.0-or-later
//! Who says that a call may run: nobody has to, or the user does. What was approved is what runs;
//! when something new shows just before, the user is asked again.

use serde_json::{Map, Value};

use super::executor::{CANCELLED, Call, Circumstances, Ending, Executor, Freshness};
use super::work::precheck;
use super::{SafetyLevel, Tool};
use crate::protocol::{CallOutcome, Consent, Decision, Event, State};
use crate::session::settings::Approval;

/// What the model reads when the user said no.
const DENIED: &str = "User denied tool execution";

/// Whether a call may run now, or was asked about anew.
#[derive(PartialEq, Eq)]
enum Standing {
    Holds,
    AskedAgain,
}

impl Executor {
    /// Opens an approval request for a call that may not run without one.
    pub(super) fn ask_if_needed(&self, call: &mut Call, circumstances: &Circumstances) {
        if call.verdict.assessment.level < SafetyLevel::Dangerous
            || circumstances.approval == Approval::None
            || circumstances.cancel.is_cancelled()
        {
            return;
        }
        call.answer = Some(self.approvals.open(call.key));
        self.host.emit(Event::ApprovalRequested {
            session: circumstances.session,
            call: call.key,
            tool: call.tool.name.clone(),
            level: call.verdict.assessment.level,
            reason: call.verdict.assessment.reason.clone(),
            arguments: call.arguments.to_json(),
        });
    }

    /// Waits until CALL may run, perhaps with other arguments.
    pub(super) async fn decide(
        &self,
        call: &mut Call,
        circumstances: &Circumstances,
    ) -> Result<(), Ending> {
        loop {
            self.await_consent(call, circumstances).await?;
            if self.look_again(call, circumstances).await? == Standing::Holds {
                return Ok(());
            }
        }
    }

    async fn await_consent(
        &self,
        call: &mut Call,
        circumstances: &Circumstances,
    ) -> Result<(), Ending> {
        loop {
            if circumstances.cancel.is_cancelled() {
                self.approvals.close(call.key);
                return Err(Ending::new(CallOutcome::Cancelled, CANCELLED));
            }
            let Some(answer) = call.answer.take() else {
                if call.verdict.assessment.level < SafetyLevel::Dangerous {
                    return Ok(());
                }
                call.consent = Consent::Unavailable;
                return Err(Ending::new(CallOutcome::Failed, no_handler(&call.tool)));
            };
            self.host.emit(Event::State {
                session: circumstances.session,
                state: State::Approving,
            });
            let decision = tokio::select! {
                () = circumstances.cancel.cancelled() => continue,
                // A request that was dropped unanswered is a denial.
                decision = answer => decision.unwrap_or(Decision::Denied(None)),
            };
            call.freshness = Freshness::Stale;
            match decision {
                Decision::Approved => {
                    call.consent = Consent::Approved;
                    return Ok(());
                }
                Decision::Denied(reason) => {
                    call.consent = Consent::Denied;
                    return Err(Ending::new(CallOutcome::Denied, denial(reason)));
                }
                Decision::Modified(given) => {
                    call.consent = Consent::Modified;
                    self.modify(call, given, circumstances).await?;
                    if call.answer.is_none() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Puts the user's arguments in place. Where they show something that the old ones did not,
    /// the user is asked again.
    async fn modify(
        &self,
        call: &mut Call,
        given: Map<String, Value>,
        circumstances: &Circumstances,
    ) -> Result<(), Ending> {
        call.arguments = call
            .tool
            .check(given)
            .map_err(|failure| Ending::new(CallOutcome::Failed, failure.0))?;
        self.assess_anew(call, circumstances).await?;
        let context = self.context(circumstances);
        precheck(&call.tool, &call.arguments, &context)
            .await
            .map_err(|failure| Ending::new(CallOutcome::Failed, failure.0))
    }

    /// Assesses code and paths once more just before they are used: while the call waited for its
    /// turn or for the user, the image may have got other macros, and a path may lead elsewhere.
    async fn look_again(
        &self,
        call: &mut Call,
        circumstances: &Circumstances,
    ) -> Result<Standing, Ending> {
        let depends = call.tool.code.is_some() || !call.tool.paths.is_empty();
        if !depends || call.freshness == Freshness::Fresh {
            return Ok(Standing::Holds);
        }
        self.assess_anew(call, circumstances).await
    }

    async fn assess_anew(
        &self,
        call: &mut Call,
        circumstances: &Circumstances,
    ) -> Result<Standing, Ending> {
        let verdict = self
            .assess(&call.tool, &call.arguments, circumstances)
            .await
            .map_err(|failure| Ending::new(CallOutcome::Failed, failure.0))?;
        call.freshness = Freshness::Fresh;
        let old = std::mem::replace(&mut call.verdict, verdict);
        let new = &call.verdict.assessment;
        if new.level < SafetyLevel::Dangerous || new.reason == old.assessment.reason {
            return Ok(Standing::Holds);
        }
        self.ask_if_needed(call, circumstances);
        Ok(Standing::AskedAgain)
    }
}

fn denial(reason: Option<String>) -> String {
    match reason.filter(|reason| !reason.trim().is_empty()) {
        Some(reason) => format!("{DENIED}: {reason}"),
        None => DENIED.to_owned(),
    }
}

fn no_handler(tool: &Tool) -> String {
    format!(
        "The tool {} is dangerous and needs approval, but no approval handler is configured here; it was not run.",
        tool.name
    )
}
