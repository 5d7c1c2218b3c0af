// SPDX-License-Identifier: GPL-3.0-or-later
//! Who says that a call may run: nobody has to, the user's rules do, or the user does.
//! What was approved is what runs; when something new shows just before, the user is asked again.

use std::fs;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::Executor;
use super::approvals::Sight;
use super::assess::Look;
use super::batch::{Approval, BatchContext};
use super::facts::Facts;
use super::prepared::{Freshness, Pending, Prepared, PreparedCall};
use super::reach::{self, precheck};
use super::result::{self, CallEnding};
use crate::diff::{CONTEXT, Diff};
use crate::protocol::{
    CallKey, CallOutcome, Consent, Decider, Decision, Event, Grounds, SessionId, SessionState,
};
use crate::rules::{DANGEROUS_ASKS, Explanation, Outcome, TurnPlace};
use crate::runtime::held;
use crate::tool::registry::Registry;
use crate::tool::work::{Divisible, Preview, Proposal, Reviewed, WorkContext};
use crate::tool::{Arguments, Assessment, Tool, ToolFailure};
use crate::trust::SafetyLevel;

/// What the model reads when the user said no.
const DENIED: &str = "User denied tool execution";

/// How often the user is asked about one call, when each look at it finds something else.
const MOST_QUESTIONS: usize = 5;

/// What the model reads when there was no end to that.
const UNSTEADY: &str = "Each check of this call found something different, so it was not run.";

/// Whether a call may run now, or was asked about again.
#[derive(PartialEq, Eq)]
enum Standing {
    Holds,
    AskedAgain,
}

impl Executor {
    /// What the rules say about a call with FACTS.
    #[must_use]
    pub fn explain(&self, facts: &Facts) -> Explanation {
        self.ask_rules(facts).0
    }

    /// The same, and the generation of the rules that say so.
    pub(super) fn ask_rules(&self, facts: &Facts) -> (Explanation, u64) {
        let mut book = held(&self.rules);
        book.reload();
        let explanation = if facts.concerns(book.file()) {
            Explanation {
                outcome: Outcome::Deny,
                reason: "No tool may touch the file of the user's rules.".into(),
                rule: None,
                matching: Vec::new(),
            }
        } else {
            book.explain(&facts.call())
        };
        (explanation, book.generation())
    }

    /// Which rules hold now.
    fn generation(&self) -> u64 {
        let mut book = held(&self.rules);
        book.reload();
        book.generation()
    }

    /// TOOLS without those that the rules deny altogether at PLACE: a model need not be told of them.
    #[must_use]
    pub fn without_denied(&self, tools: &Registry, place: &TurnPlace) -> Registry {
        let mut book = held(&self.rules);
        book.reload();
        let mut tools = tools.all();
        tools.retain(|tool| !book.denies_all(&tool.name, place));
        Registry::of(tools)
    }

    /// Has CALL judged by the rules once more, unless nothing has changed that they go by.
    fn judge_if_changed(&self, call: &mut PreparedCall, batch: &BatchContext) {
        if call.facts.may_have_changed() || call.generation != self.generation() {
            self.judge(call, batch);
        }
    }

    /// Has CALL judged by the rules as it is now.
    fn judge(&self, call: &mut PreparedCall, batch: &BatchContext) {
        call.facts = Facts::gather(
            call.key.0,
            &call.tool,
            &call.arguments,
            call.verdict.found(),
            &batch.place,
        );
        (call.explanation, call.generation) = self.ask_rules(&call.facts);
    }

    /// Opens an approval request if the rules want one and somebody can decide.
    pub(super) fn ask_if_needed(&self, call: &mut PreparedCall, batch: &BatchContext) {
        if call.explanation.outcome != Outcome::Ask
            || batch.approval == Approval::None
            || batch.cancel.is_cancelled()
        {
            return;
        }
        let files = self.approvals.file_changes();
        let decided = self
            .approvals
            .open(call.key, call.facts.clone(), call.preview.clone());
        call.pending = Some(Pending { decided, files });
        self.emacs.emit(Event::ApprovalRequested {
            session: batch.session,
            call: call.key,
            tool: call.tool.name.clone(),
            handler: call.tool.handler(),
            level: call.verdict.assessment.level,
            reason: reason(call),
            grounds: grounds(call),
            arguments: call.arguments.to_json(),
        });
    }

    /// Settles the calls that wait for the user and need not any more, because a rule has come that
    /// says what becomes of them. The call EXCEPT is decided by the user.
    pub fn settle_by_rules(&self, except: Option<CallKey>) {
        for (key, facts) in self.approvals.waiting() {
            let explanation = self.explain(&facts.as_now());
            let (decision, outcome) = match explanation.outcome {
                Outcome::Run => (Decision::Approved, "allowed by a rule"),
                Outcome::Deny => (
                    Decision::Denied(Some(explanation.reason)),
                    "denied by a rule",
                ),
                Outcome::Ask => continue,
            };
            let decider = Decider::Rule(explanation.rule.unwrap_or_default());
            if Some(key) != except && self.approvals.decide_by(key, decision, decider) {
                self.emacs.emit(Event::ApprovalSettled {
                    session: SessionId(facts.chat()),
                    call: key,
                    outcome,
                });
            }
        }
    }

    /// Looks once more at CALLS that wait for the user: the calls before them have changed what these
    /// would do, what rules say of them, and which rules are offered.
    pub(super) async fn judge_waiting(&self, calls: &mut [Option<Prepared>], batch: &BatchContext) {
        for prepared in calls.iter_mut().flatten() {
            if let Prepared::Runnable(call) = prepared
                && call.pending.is_some()
                && depends_on_others(call)
            {
                self.judge_while_waiting(call, batch).await;
            }
        }
    }

    /// Has CALL judged as it is now, and asks about that where it is something else.
    async fn judge_while_waiting(&self, call: &mut PreparedCall, batch: &BatchContext) {
        let found = self.assess(&call.tool, &call.arguments, Look::Again, batch);
        // What can't be assessed any more says so in its turn.
        let Ok(verdict) = found.await else { return };
        let same = verdict.asks_the_same_as(&call.verdict) && verdict.alarms == call.verdict.alarms;
        if same || !self.approvals.withdraw(call.key) {
            return;
        }
        call.verdict = verdict;
        self.judge(call, batch);
        call.pending = None;
        let outcome = match call.explanation.outcome {
            Outcome::Run => "no longer needs an answer",
            Outcome::Deny => "denied by a rule",
            Outcome::Ask => return self.ask_if_needed(call, batch),
        };
        self.emacs.emit(Event::ApprovalSettled {
            session: batch.session,
            call: call.key,
            outcome,
        });
    }

    /// Waits until CALL may run, perhaps with other arguments.
    pub(super) async fn decide(
        &self,
        call: &mut PreparedCall,
        batch: &BatchContext,
    ) -> Result<(), CallEnding> {
        for _ in 0..MOST_QUESTIONS {
            self.await_consent(call, batch).await?;
            if self.look_again(call, batch).await? == Standing::Holds {
                return self.still_allowed(call, batch);
            }
        }
        self.approvals.close(call.key);
        call.consent = Consent::Unanswered;
        call.decider = Decider::Nobody;
        Err(CallEnding::new(CallOutcome::Denied, UNSTEADY))
    }

    /// A rule that denies may have come while the call waited.
    fn still_allowed(
        &self,
        call: &mut PreparedCall,
        batch: &BatchContext,
    ) -> Result<(), CallEnding> {
        self.judge_if_changed(call, batch);
        match call.explanation.outcome {
            Outcome::Deny => Err(denied_by_rule(call)),
            Outcome::Run | Outcome::Ask => Ok(()),
        }
    }

    async fn await_consent(
        &self,
        call: &mut PreparedCall,
        batch: &BatchContext,
    ) -> Result<(), CallEnding> {
        loop {
            if batch.cancel.is_cancelled() {
                self.approvals.close(call.key);
                return Err(cancelled(call, batch));
            }
            let Some(mut pending) = call.pending.take() else {
                // The rules, and what the turn has read, may be others than when it was prepared.
                self.judge_if_changed(call, batch);
                self.ask_if_needed(call, batch);
                if call.pending.is_some() || batch.cancel.is_cancelled() {
                    continue;
                }
                return unasked(call, batch);
            };
            let session = batch.session;
            let state = SessionState::Approving;
            self.tell(batch, Event::State { session, state });
            let decided = tokio::select! {
                biased;
                () = batch.cancel.cancelled() => continue,
                decided = &mut pending.decided => decided.unwrap_or_default(),
                () = async {
                    tokio::select! {
                        Ok(()) = pending.files.changed() => {}
                        () = self.touched(call) => {}
                    }
                } => {
                    self.renew(call, batch).await?;
                    call.pending = Some(pending);
                    continue;
                }
            };
            call.freshness = Freshness::Stale;
            call.decider = decided.decider;
            match decided.decision {
                // The key was meant for what the request showed before.
                Decision::Approved
                    if decided.decider == Decider::User && decided.sight == Sight::Outdated =>
                {
                    self.ask_if_needed(call, batch);
                }
                Decision::Approved => {
                    if decided.decider == Decider::User
                        && self.renew(call, batch).await? == Renewed::ForOthers
                    {
                        self.ask_if_needed(call, batch);
                        continue;
                    }
                    call.consent = match decided.decider {
                        Decider::Rule(_) => Consent::ByRule,
                        Decider::User | Decider::Handler | Decider::Level | Decider::Nobody => {
                            Consent::Approved
                        }
                    };
                    return Ok(());
                }
                Decision::Stopped => {
                    call.consent = Consent::Denied;
                    return Err(CallEnding::new(CallOutcome::Denied, denial(None)));
                }
                Decision::Denied(reason) => {
                    call.consent = Consent::Denied;
                    let told = match decided.decider {
                        Decider::Rule(_) => ruled_out(&reason.unwrap_or_default()),
                        Decider::User | Decider::Handler | Decider::Level | Decider::Nobody => {
                            denial(reason)
                        }
                    };
                    return Err(CallEnding::new(CallOutcome::Denied, told));
                }
                Decision::Unanswered(problem) => {
                    call.consent = Consent::Unanswered;
                    call.decider = Decider::Nobody;
                    return Err(CallEnding::new(CallOutcome::Denied, problem));
                }
                Decision::Modified(given) => {
                    call.consent = Consent::Unfit;
                    call.consent = self.modify(call, given, batch).await?;
                    if call.pending.is_none() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Puts the user's arguments in place, and says whether they are others. Where they show
    /// something that the old ones did not, the user is asked again.
    async fn modify(
        &self,
        call: &mut PreparedCall,
        mut given: Map<String, Value>,
        batch: &BatchContext,
    ) -> Result<Consent, CallEnding> {
        call.review = take_review(&mut given, &call.tool);
        let reviewed = take_reviewed(&mut given);
        let unfit = given.clone();
        let used = reviewed.and_then(|reviewed| {
            call.reviewed = reviewed;
            call.tool.check(given)
        });
        let used = used.map_err(|failure| {
            call.unfit = Some(Value::Object(unfit));
            CallEnding::new(CallOutcome::Failed, failure.message)
        })?;
        // A review of all that was proposed comes back as texts, too.
        let proposed = call.preview.as_ref().map(as_reviewed);
        let same = used.to_json() == call.arguments.to_json()
            && (call.reviewed.is_none() || call.reviewed == proposed);
        if call.review.is_none() {
            // Asked again, the user may leave it at what they changed before.
            let changed = result::changed(&call.arguments.to_json(), &used.to_json());
            call.changed = changed.or(call.changed.take());
        }
        call.arguments = used;
        self.assess_anew(call, batch).await?;
        let context = WorkContext {
            reviewed: call.reviewed.clone(),
            ..self.context(batch)
        };
        call.preview = precheck(&call.tool, &call.arguments, &call.verdict.reached, &context)
            .await
            .map_err(|failure| CallEnding::failed(failure, || call.source(&batch.place)))?;
        if call.reviewed.is_some() {
            let now = call.preview.as_ref().map(as_reviewed);
            // The file was changed while the user reviewed, so they have not seen this.
            if now.is_some() && now != call.reviewed {
                call.reviewed = now;
                self.ask_if_needed(call, batch);
            }
        }
        Ok(match same {
            true => Consent::Approved,
            false => Consent::Modified,
        })
    }

    /// Assesses code and paths once more just before they are used: while the call waited for its
    /// turn or for the user, the image may have got other macros, and a path may lead elsewhere.
    async fn look_again(
        &self,
        call: &mut PreparedCall,
        batch: &BatchContext,
    ) -> Result<Standing, CallEnding> {
        if !depends_on_others(call) || call.freshness == Freshness::Fresh {
            return Ok(Standing::Holds);
        }
        self.assess_anew(call, batch).await
    }

    async fn assess_anew(
        &self,
        call: &mut PreparedCall,
        batch: &BatchContext,
    ) -> Result<Standing, CallEnding> {
        let verdict = self
            .assess(&call.tool, &call.arguments, Look::Again, batch)
            .await
            .map_err(|failure| CallEnding::failed(failure, || call.source(&batch.place)))?;
        call.freshness = Freshness::Fresh;
        let old = std::mem::replace(&mut call.verdict, verdict);
        self.judge(call, batch);
        let new = &call.verdict;
        if new.assessment.level < SafetyLevel::Dangerous || new.asks_the_same_as(&old) {
            return Ok(Standing::Holds);
        }
        self.ask_if_needed(call, batch);
        Ok(Standing::AskedAgain)
    }
}

/// Whether what CALL does may have changed since it was assessed, by other calls or anybody else.
fn depends_on_others(call: &PreparedCall) -> bool {
    let tool = &call.tool;
    tool.code.is_some() || !tool.paths.is_empty() || tool.buffer.is_some()
}

/// The note on a review that came with the arguments, unless TOOL takes it as its own.
fn take_review(given: &mut Map<String, Value>, tool: &Tool) -> Option<String> {
    if tool.argument_schema()["properties"].get("review").is_some() {
        return None;
    }
    match given.remove("review") {
        Some(Value::String(review)) => Some(review),
        _ => None,
    }
}

/// The texts that the user's review came to, if the call was reviewed as a change of a file. They
/// come with the decision and never from a model, whose arguments have to fit the tool's schema.
fn take_reviewed(given: &mut Map<String, Value>) -> Result<Option<Arc<Reviewed>>, ToolFailure> {
    let Some(reviewed) = given.remove("reviewed") else {
        return Ok(None);
    };
    let reviewed = serde_json::from_value(reviewed)
        .map_err(|error| ToolFailure::new(format!("Cannot parse the review: {error}")))?;
    Ok(Some(Arc::new(reviewed)))
}

/// What becomes of a call that nobody is asked about.
fn unasked(call: &mut PreparedCall, batch: &BatchContext) -> Result<(), CallEnding> {
    match call.explanation.outcome {
        Outcome::Run => {
            if let Some(rule) = call.explanation.rule
                && call.verdict.assessment.level >= SafetyLevel::Dangerous
            {
                call.consent = Consent::ByRule;
                call.decider = Decider::Rule(rule);
            }
            Ok(())
        }
        Outcome::Deny => Err(denied_by_rule(call)),
        Outcome::Ask => {
            call.consent = Consent::Unavailable;
            let source = || call.source(&batch.place);
            Err(CallEnding::failed(nobody_to_ask(call), source))
        }
    }
}

/// How a call ends that is cancelled before it was settled whether it may run.
fn cancelled(call: &mut PreparedCall, batch: &BatchContext) -> CallEnding {
    if call.explanation.outcome == Outcome::Ask
        || call.verdict.assessment.level >= SafetyLevel::Dangerous
    {
        call.consent = Consent::Unanswered;
        call.decider = Decider::Nobody;
    }
    CallEnding::new(CallOutcome::Cancelled, batch.cancelled())
}

fn denied_by_rule(call: &mut PreparedCall) -> CallEnding {
    call.consent = Consent::Denied;
    call.decider = Decider::Rule(call.explanation.rule.unwrap_or_default());
    CallEnding::new(CallOutcome::Denied, ruled_out(&call.explanation.reason))
}

fn ruled_out(why: &str) -> String {
    format!("A user rule denies this call. {why}")
}

/// Why the user is asked about CALL: what its arguments show, and what the rules add to that.
pub(super) fn reason(call: &PreparedCall) -> String {
    let (shown, ruled) = (&call.verdict.assessment.reason, &call.explanation.reason);
    if ruled == DANGEROUS_ASKS {
        shown.clone()
    } else if shown.is_empty() {
        ruled.clone()
    } else {
        format!("{}; {ruled}", shown.trim_end_matches('.'))
    }
}

/// Whether CALL is asked about for no more than its tool says of each such call.
fn grounds(call: &PreparedCall) -> Grounds {
    let usual = (call.tool.assess)(call.tool.level, &call.arguments);
    match reason(call) == usual.reason {
        true => Grounds::Usual,
        false => Grounds::Special,
    }
}

fn denial(reason: Option<String>) -> String {
    match reason.filter(|reason| !reason.trim().is_empty()) {
        Some(reason) => format!("{DENIED}: {reason}"),
        None => DENIED.to_owned(),
    }
}

/// Why CALL can't run where nobody can be asked, so that a model can try without what needs approval.
fn nobody_to_ask(call: &PreparedCall) -> ToolFailure {
    let (tool, assessment) = (&call.tool, &call.verdict.assessment);
    let why = reason(call);
    let why = why.trim_end_matches('.');
    let what = if assessment.level < SafetyLevel::Dangerous {
        format!("{} needs approval here: {why}.", tool.name)
    } else if tool.level < SafetyLevel::Dangerous {
        format!(
            "{} was raised to dangerous, so it needs approval: {why}.",
            tool.name
        )
    } else if why.is_empty() {
        format!("The tool {} is dangerous and needs approval.", tool.name)
    } else {
        format!(
            "The tool {} is dangerous and needs approval: {why}.",
            tool.name
        )
    };
    let told = format!("{what} No approval handler is configured to ask. It was not run.");
    // What an image found in code quotes that code, and what its macros made of it.
    match tool.code.is_some() && !assessment.reason.is_empty() {
        true => ToolFailure::quoting(told),
        false => ToolFailure::new(told),
    }
}

// Requests about a file that was changed since: each is about what the call makes of the file as it is
// now, or is withdrawn when nothing can be made of it any more, so that nobody decides in vain.

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

/// How old the last change of a file is if it can't have come between the reading of the file for a
/// request and the first look.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

impl Executor {
    /// Waits until the file that the request about CALL is about was changed on disk.
    pub(super) async fn touched(&self, call: &PreparedCall) {
        let Some(preview) = &call.preview else {
            return pending().await;
        };
        let before = stamp(&preview.file).await;
        let settled = before.is_none_or(|(changed, _)| {
            SystemTime::now()
                .duration_since(changed)
                .map_or(true, |age| age > SETTLED_AFTER)
        });
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if !settled || stamp(&preview.file).await != before {
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
            self.emacs.emit(Event::ApprovalChanged {
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
fn as_reviewed(preview: &Preview) -> Arc<Reviewed> {
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

// What would be decided about a call, found out the way the pipeline decides: by its arguments, its
// paths, the image's look at its code, and the rules. Nothing runs, and the user is not asked.

/// What would be decided.
#[derive(Debug, Clone)]
pub struct Prediction {
    pub explanation: Explanation,
    pub assessment: Assessment,
}

impl Executor {
    /// What would be decided now about a call of TOOL with ARGUMENTS.
    ///
    /// # Errors
    ///
    /// Why the call would fail before anything is decided about it.
    pub async fn predict(
        &self,
        tool: &Tool,
        arguments: &Arguments,
        batch: &BatchContext,
    ) -> Result<Prediction, ToolFailure> {
        let verdict = self.assess(tool, arguments, Look::Only, batch).await?;
        let facts = Facts::gather(0, tool, arguments, verdict.found(), &batch.place);
        Ok(Prediction {
            explanation: self.explain(&facts),
            assessment: verdict.assessment,
        })
    }
}
