// SPDX-License-Identifier: GPL-3.0-or-later
//! The pipeline that every tool call goes through, wherever the tool runs:
//! look up → validate → assess → decide → run → record → format.
//! Each call yields exactly one result with its own id, in call order, whatever happens.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::Executor;
use super::assess::Look;
use super::batch::{BatchContext, MereLook};
use super::facts::Facts;
use super::metrics::MetricsKey;
use super::prepared::{Allowed, Freshness, Prepared, PreparedCall, Waited};
use super::reach::precheck;
use super::result::{self, CallEnding, RESULT_LIMIT, cap, remark, too_many};
use crate::audit::{AuditFailure, AuditRecord, AuditStep};
use crate::builtin::more;
use crate::protocol::{
    CallArguments, CallKey, CallOutcome, CallResult, Consent, Decider, Event, SessionState,
    ToolCall,
};
use crate::rules::Outcome;
use crate::runtime::panic_message;
use crate::tool::begun::STOPPING_TIME;
use crate::tool::work::{Echo, NextCalls, Trail};
use crate::tool::{Arguments, Returns, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

/// Where the audit log has the places that a call went through.
const TRAIL: &str = "went_through";

impl Executor {
    /// Runs CALLS: safe ones side by side, the others one at a time and in order.
    pub async fn run(&self, calls: &[ToolCall], batch: &BatchContext) -> Vec<CallResult> {
        let keys: Vec<CallKey> = calls.iter().map(|_| CallKey::next()).collect();
        for (call, &key) in calls.iter().zip(&keys) {
            self.tell_proposed(call, key, None, batch);
        }
        let most = batch.watcher.most_calls().min(calls.len());
        let (wanted, beyond) = calls.split_at(most);
        let mut prepared = self.prepare_all(wanted, &keys, batch).await;
        prepared.extend(
            beyond
                .iter()
                .map(|_| Some(Prepared::Failed(too_many(calls.len())))),
        );
        if !beyond.is_empty() {
            self.tell(
                batch,
                Event::Notice {
                    session: batch.session,
                    text: format!(
                        "The model made {} tool calls at once; only the first {most} are run.",
                        calls.len()
                    ),
                },
            );
        }
        let mut results = Vec::with_capacity(calls.len());
        while results.len() < calls.len() {
            let start = results.len();
            let side_by_side = prepared[start..]
                .iter()
                .take_while(|it| it.as_ref().is_some_and(Prepared::runs_beside_others))
                .count();
            let group = start..start + side_by_side.max(1);
            let changes = side_by_side == 0;
            if let [Some(unassessed @ Prepared::Unassessed(_))] = &mut prepared[group.clone()] {
                *unassessed = self.prepare(&calls[start], keys[start], batch).await;
            }
            let running = group.filter_map(|index| {
                let prepared = prepared[index].take()?;
                Some(self.settle_or_begin(&calls[index], keys[index], prepared, batch))
            });
            results.extend(join_all(running).await);
            if changes {
                self.judge_waiting(&mut prepared[results.len()..], batch)
                    .await;
            }
        }
        results
    }

    /// Tells Emacs that CALL is asked for, by the call AFTER where that made it.
    pub(super) fn tell_proposed(
        &self,
        call: &ToolCall,
        key: CallKey,
        after: Option<CallKey>,
        batch: &BatchContext,
    ) {
        self.tell(
            batch,
            Event::CallProposed {
                session: batch.session,
                call: key,
                tool: call.name.clone(),
                arguments: call.raw_arguments.clone(),
                after,
            },
        );
    }

    /// Validates and assesses CALLS, which have the first of KEYS, side by side, then asks about those that need it, in order.
    async fn prepare_all(
        &self,
        calls: &[ToolCall],
        keys: &[CallKey],
        batch: &BatchContext,
    ) -> Vec<Option<Prepared>> {
        let preparing = calls
            .iter()
            .zip(keys)
            .map(|(call, &key)| self.prepare(call, key, batch));
        let mut prepared: Vec<Option<Prepared>> = Vec::with_capacity(calls.len());
        for (index, mut call) in join_all(preparing).await.into_iter().enumerate() {
            call = match call {
                Prepared::Doubtful(call, ending) => {
                    let mut before = prepared.iter().flatten();
                    if before.clone().any(|it| it.may_change_files_of(&call)) {
                        Prepared::Runnable(call)
                    } else if before.any(|it| it.may_show_files_of(&call)) {
                        Prepared::Unassessed(ending)
                    } else {
                        Prepared::Failed(ending)
                    }
                }
                Prepared::Unassessed(ending) => {
                    let mut before = prepared.iter().flatten();
                    match before.any(Prepared::may_change_image) {
                        true => Prepared::Unassessed(ending),
                        false => Prepared::Failed(ending),
                    }
                }
                other => other,
            };
            if let Prepared::Runnable(call) = &mut call {
                if index > 0 {
                    call.freshness = Freshness::Stale;
                }
                self.ask_if_needed(call, batch);
            }
            prepared.push(Some(call));
        }
        prepared
    }

    pub(super) async fn prepare(
        &self,
        call: &ToolCall,
        key: CallKey,
        batch: &BatchContext,
    ) -> Prepared {
        let (tool, arguments) = match validate(call, batch) {
            Ok(valid) => valid,
            Err(failure) => {
                return Prepared::Failed(CallEnding::new(CallOutcome::Failed, failure.message));
            }
        };
        let place = &batch.place;
        let ended = |failure| {
            let source = || result::source_of_call(&tool, &arguments, place, tool.provenance);
            CallEnding::failed(failure, source)
        };
        let verdict = match self.assess(&tool, &arguments, Look::First, batch).await {
            Ok(verdict) => verdict,
            Err(failure) => return Prepared::Unassessed(ended(failure)),
        };
        let facts = Facts::gather(key.0, &tool, &arguments, verdict.found(), place);
        let (explanation, generation) = self.ask_rules(&facts);
        let look = match (verdict.only_looks(), explanation.outcome) {
            (true, Outcome::Run) => Some(MereLook::Allowed),
            (true, Outcome::Ask | Outcome::Deny) => Some(MereLook::NotAllowed),
            (false, _) => None,
        };
        if let Some(why) = batch.plan.objection(&tool, &verdict.assessment, look) {
            return Prepared::Failed(CallEnding::new(CallOutcome::Denied, why));
        }
        let context = self.context(batch);
        let (preview, doubt) = match precheck(&tool, &arguments, &verdict.reached, &context).await {
            Ok(preview) => (preview, None),
            Err(failure) => (None, Some(ended(failure))),
        };
        let call = Box::new(PreparedCall {
            key,
            tool,
            arguments,
            verdict,
            freshness: Freshness::Fresh,
            explanation,
            generation,
            facts,
            consent: Consent::NotNeeded,
            decider: Decider::Level,
            pending: None,
            preview,
            reviewed: None,
            review: None,
            changed: None,
            unfit: None,
            waited: Waited::default(),
            allowed: Allowed::default(),
            next: NextCalls::default(),
            echo: Echo::default(),
            trail: Trail::default(),
        });
        match doubt {
            None => Prepared::Runnable(call),
            Some(ending) => Prepared::Doubtful(call, ending),
        }
    }

    /// Takes one prepared call to its result.
    pub(super) async fn settle(
        &self,
        id: &str,
        key: CallKey,
        prepared: Prepared,
        batch: &BatchContext,
    ) -> CallResult {
        let (echo, ours) = (prepared.echo(), prepared.returns_our_words());
        let mut result = match prepared {
            Prepared::Failed(ending)
            | Prepared::Doubtful(_, ending)
            | Prepared::Unassessed(ending) => {
                ending.result(id, Duration::ZERO, None, Consent::NotNeeded)
            }
            Prepared::Runnable(call) => {
                let span = tracing::error_span!("call", key = key.0, tool = call.tool.name);
                let settled = self.settle_runnable(id, *call, batch);
                settled.instrument(span).await
            }
        };
        self.tell(
            batch,
            Event::CallFinished {
                session: batch.session,
                call: key,
                result: result.clone(),
            },
        );
        result.content = cap(
            &echo.removed_from(&result.content),
            RESULT_LIMIT,
            "ask for less at a time",
        );
        let BatchContext { tools, offer, .. } = batch;
        if (ours || result.outcome == CallOutcome::Failed) && offer.goes_without(more::CALL) {
            result.content = more::by_name(&result.content, offer.all());
        }
        if let Some(note) = offer.not_here(&result.content, tools) {
            result.add_remark(note);
        }
        result
    }

    async fn settle_runnable(
        &self,
        id: &str,
        mut call: PreparedCall,
        batch: &BatchContext,
    ) -> CallResult {
        let (ending, run) = match self.decide(&mut call, batch).await {
            Ok(()) => {
                let started = Instant::now();
                let ending = self.run_one(&call, batch).await;
                batch.place.note(call.facts.yields());
                if let Some(source) = &ending.source {
                    batch.place.note(source.provenance);
                }
                let ran = started.elapsed().saturating_sub(call.waited.all());
                (ending, Some(ran))
            }
            Err(ending) => (ending, None),
        };
        if run.is_some() && call.verdict.assessment.level > SafetyLevel::Safe {
            self.approvals.files_changed();
        }
        let key = MetricsKey::of(&call.tool, call.facts.mcp_client());
        self.metrics
            .record(key, ending.outcome, run, ending.content.len());
        self.audit_end(&call, &ending, run, batch).await;
        let level = Some(call.verdict.assessment.level);
        tracing::debug!(outcome = ?ending.outcome, consent = ?call.consent, ?run, "ended");
        ending.result(id, run.unwrap_or_default(), level, call.consent)
    }

    async fn run_one(&self, call: &PreparedCall, batch: &BatchContext) -> CallEnding {
        let session = batch.session;
        let arguments = call.arguments.to_json();
        if let Err(failure) = self
            .audit(call, &call.facts.arguments(), AuditStep::Started, batch)
            .await
        {
            return CallEnding::new(CallOutcome::Failed, failure.to_string());
        }
        self.tell(
            batch,
            Event::State {
                session,
                state: SessionState::Running,
            },
        );
        self.tell(
            batch,
            Event::CallStarted {
                session,
                call: call.key,
                tool: call.tool.name.clone(),
                handler: call.tool.handler(),
                arguments,
            },
        );
        for note in &call.verdict.notes {
            self.tell(
                batch,
                Event::Notice {
                    session,
                    text: note.clone(),
                },
            );
        }
        let work = AssertUnwindSafe(self.dispatch(call, batch)).catch_unwind();
        let finished = tokio::select! {
            () = given_up(call, batch) => None,
            finished = work => Some(finished),
        };
        let Some(finished) =
            finished.filter(|_| !ends_itself(call) || !batch.cancel.is_cancelled())
        else {
            return CallEnding::new(CallOutcome::Cancelled, batch.cancelled());
        };
        match finished {
            Ok(Ok(content)) => CallEnding {
                source: match call.tool.returns {
                    Returns::Text => {
                        let source = call.source(&batch.place);
                        Some(result::source_of_content(source, &content))
                    }
                    Returns::Words => None,
                },
                remark: call.review.as_deref().map(remark),
                changed: call.changed.clone(),
                ..CallEnding::new(CallOutcome::Succeeded, content.text)
            },
            Ok(Err(failure)) => CallEnding {
                changed: call.changed.clone(),
                ..CallEnding::failed(failure, || call.source(&batch.place))
            },
            Err(payload) => {
                let message = format!(
                    "Tool error: {} failed because of a bug in agent-q ({}); its log has the details.",
                    call.tool.name,
                    panic_message(&*payload)
                );
                self.emacs.emit(Event::Fault {
                    message: message.clone(),
                });
                CallEnding::new(CallOutcome::Failed, message)
            }
        }
    }

    async fn audit_end(
        &self,
        call: &PreparedCall,
        ending: &CallEnding,
        ran: Option<Duration>,
        batch: &BatchContext,
    ) {
        let step = AuditStep::Finished {
            outcome: ending.outcome,
            ran,
        };
        let mut arguments = match &call.unfit {
            Some(unfit) => unfit.clone(),
            None => call.facts.arguments(),
        };
        let places = call.trail.places();
        if let Some(arguments) = arguments.as_object_mut().filter(|_| !places.is_empty()) {
            arguments.insert(TRAIL.to_owned(), places.into());
        }
        if let Err(failure) = self.audit(call, &arguments, step, batch).await {
            // It is too late to stop it, but the user can know that the log is not whole.
            self.audit.tell_once(&failure, &*self.emacs);
        }
    }

    /// Writes a step of CALL to the audit log, if the call changes anything.
    async fn audit(
        &self,
        call: &PreparedCall,
        arguments: &serde_json::Value,
        step: AuditStep,
        batch: &BatchContext,
    ) -> Result<(), AuditFailure> {
        if call.verdict.assessment.level >= SafetyLevel::Cautious {
            let record = AuditRecord {
                session: batch.session,
                turn: batch.place.turn,
                mcp_client: call.facts.mcp_client(),
                tool: &call.tool.name,
                level: call.verdict.assessment.level,
                arguments,
                consent: call.consent,
                decided_by: call.decider,
                step,
            };
            self.audit.append(&record).await?;
        }
        Ok(())
    }
}

/// Whether CALL, once it is cancelled, is waited for: it makes calls, which have to end before it does.
fn ends_itself(call: &PreparedCall) -> bool {
    matches!(call.tool.runner, Runner::Research)
}

/// Waits until nobody waits for CALL any more.
async fn given_up(call: &PreparedCall, batch: &BatchContext) {
    batch.cancel.cancelled().await;
    if ends_itself(call) {
        tokio::time::sleep(STOPPING_TIME).await;
    }
}

fn validate(
    call: &ToolCall,
    BatchContext { tools, offer, .. }: &BatchContext,
) -> Result<(Arc<Tool>, Arguments), ToolFailure> {
    let tool = offer.resolve(&call.name, tools)?;
    let given = match &call.arguments {
        CallArguments::Object(given) => given.clone(),
        CallArguments::Malformed(problem) => {
            return Err(ToolFailure::new(format!(
                "The arguments are not a valid JSON object: {problem}. Send the call again."
            )));
        }
        CallArguments::Inexact(problems) => return Err(ToolFailure::new(problems.clone())),
        CallArguments::Truncated => {
            return Err(ToolFailure::new(
                "The call was cut off before it was complete, so it was not run.",
            ));
        }
    };
    let arguments = tool.check(given)?;
    Ok((tool, arguments))
}
