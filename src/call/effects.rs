// SPDX-License-Identifier: GPL-3.0-or-later
//! Questions of the image's watch while a call runs: the user's rules decide, or the user does.
//! The time that they wait does not count as the call's. A step of `pipeline`.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::batch::{Approval, BatchContext, EvalPolicy};
use super::dispatch::provenance_of;
use super::facts::Facts;
use super::prepared::PreparedCall;
use crate::audit::{AuditRecord, AuditStep};
use crate::effect::{
    EffectDecision, EffectKind, Granted, Question, Watch, WatchMessage, parse_message,
};
use crate::files::systems::is_definition;
use crate::protocol::Asked;
use crate::protocol::{
    CallKey, CallOutcome, CallResult, Consent, Decider, Decision, Done, EmacsRequest, Event,
    Grounds, Lisp, SessionState,
};
use crate::rules::{Explanation, Outcome};
use crate::runtime::held;
use crate::tool::work::{done, silent};
use crate::tool::{Origin, Runner, ToolFailure};
use crate::trust::{Provenance, SafetyLevel};

/// What the code that met a denial is told where nobody can be asked.
const NOBODY: &str = "No approval handler is configured to ask.";

/// An effect's question on its way to a decision, with what is told of it.
struct Asking<'a> {
    executor: &'a Executor,
    call: &'a PreparedCall,
    batch: &'a BatchContext,
    question: Question,
    /// What is told of it: the name that rules know it by, and what the user is shown.
    tool: String,
    arguments: serde_json::Value,
    key: CallKey,
    facts: Facts,
    since: Instant,
    shown: bool,
}

/// What was decided, and by whom.
struct Settled {
    decision: EffectDecision,
    /// What the chat says of it.
    said: String,
    consent: Consent,
    decider: Decider,
}

impl Executor {
    /// How the watch in the image is set for CALL; nothing where what it does is ours alone.
    pub(super) fn watch(&self, call: &PreparedCall, batch: &BatchContext) -> Option<Watch> {
        let of_image = matches!(call.tool.origin, Origin::Image(_));
        if call.tool.code.is_none() && !of_image {
            return (call.tool.level == SafetyLevel::Safe).then_some(Watch::Looking);
        }
        if batch.eval_policy == EvalPolicy::NeverAsk {
            return Some(Watch::Off);
        }
        let granted = match call.consent {
            Consent::Approved | Consent::Modified => call.verdict.effects.clone(),
            Consent::ByRule if self.rule_grants(call.decider) => call.verdict.effects.clone(),
            Consent::ByRule
            | Consent::NotNeeded
            | Consent::Unfit
            | Consent::Denied
            | Consent::Unavailable
            | Consent::Unanswered => Granted::default(),
        };
        Some(Watch::On {
            granted,
            needles: batch.workspace.private_files().needles().to_vec(),
        })
    }

    /// Whether the rule that let a call run is about what its code does, not about its files alone.
    fn rule_grants(&self, decider: Decider) -> bool {
        let Decider::Rule(id) = decider else {
            return false;
        };
        let book = held(&self.rules);
        book.rules()
            .any(|rule| rule.id == id && rule.path.is_none())
    }

    /// Emacs's reply to BODY, the work of CALL, within DEADLINE. What the image asks meanwhile is
    /// decided, and does not count.
    pub(super) async fn request_asking(
        &self,
        call: &PreparedCall,
        batch: &BatchContext,
        body: EmacsRequest,
        deadline: Duration,
    ) -> Result<Done, ToolFailure> {
        let (sender, mut messages) = mpsc::unbounded_channel();
        let mut reply = pin!(self.emacs.request_asking(batch.session, body, sender));
        let mut open = FuturesUnordered::new();
        let mut withdrawals: Vec<(i64, CancellationToken)> = Vec::new();
        let mut left = deadline;
        loop {
            let (started, asking) = (Instant::now(), !open.is_empty());
            tokio::select! {
                biased;
                reply = &mut reply => return done(reply),
                Some(asked) = messages.recv() => match parse_message(&asked.text) {
                    Ok(WatchMessage::Asked(question)) => {
                        let withdrawn = CancellationToken::new();
                        withdrawals.push((question.number, withdrawn.clone()));
                        open.push(self.settle_effect(call, batch, *question, asked, withdrawn));
                    }
                    Ok(WatchMessage::Withdrawn(number)) => {
                        withdrawals
                            .iter()
                            .filter(|(it, _)| *it == number)
                            .for_each(|(_, token)| token.cancel());
                    }
                    Err(error) => tracing::warn!(%error, "a question of the image's watch"),
                },
                Some(()) = open.next(), if asking => {}
                () = tokio::time::sleep(left), if !asking => {
                    return Err(silent(deadline));
                }
            }
            if asking {
                call.waited.add(started.elapsed());
            } else {
                left = left.saturating_sub(started.elapsed());
            }
        }
    }

    /// Sees to it that QUESTION, which came as ASKED while CALL ran, is decided, unless it is
    /// WITHDRAWN.
    async fn settle_effect(
        &self,
        call: &PreparedCall,
        batch: &BatchContext,
        question: Question,
        asked: Asked,
        withdrawn: CancellationToken,
    ) {
        let number = question.number;
        let settled = match is_harmless(&question, batch).await {
            true => Some(EffectDecision::Allow),
            false => {
                let reads = question.kind == EffectKind::ReadPrivate;
                let files = question.files.clone();
                let asking = Asking::new(self, call, batch, question);
                let settled = tokio::select! {
                    () = withdrawn.cancelled() => None,
                    decision = asking.settle() => Some(decision),
                };
                if reads && settled == Some(EffectDecision::Allow) {
                    files.iter().for_each(|it| batch.workspace.may_leak(it));
                }
                settled
            }
        };
        if let Some(decision) = settled {
            self.emacs.emit(Event::EffectDecided {
                session: batch.session,
                request: asked.request,
                question: number,
                decision,
            });
        }
    }
}

/// Whether QUESTION is about reading files none of which is private.
async fn is_harmless(question: &Question, batch: &BatchContext) -> bool {
    if question.kind != EffectKind::ReadPrivate || question.files.is_empty() {
        return false;
    }
    let private = batch.workspace.private_files();
    let files = question.files.clone();
    let harmless = tokio::task::spawn_blocking(move || {
        files
            .iter()
            .all(|file| private.matching(file).is_none() && !private.has_by_another_name(file))
    });
    harmless.await.unwrap_or(false)
}

impl<'a> Asking<'a> {
    fn new(
        executor: &'a Executor,
        call: &'a PreparedCall,
        batch: &'a BatchContext,
        question: Question,
    ) -> Self {
        let key = CallKey::next();
        Self {
            facts: Facts::of_effect(key.0, &call.tool, &question, &batch.place),
            tool: question.kind.tool(),
            arguments: serde_json::Value::Object(question.arguments()),
            executor,
            call,
            batch,
            question,
            key,
            since: Instant::now(),
            shown: false,
        }
    }

    /// The decision, written down and told.
    async fn settle(mut self) -> EffectDecision {
        let explanation = self.executor.explain(&self.facts);
        let mut settled = match explanation.outcome {
            Outcome::Run => Settled::allowed(Consent::ByRule, rule_of(&explanation)),
            Outcome::Deny => Settled::denied(
                explanation.reason.clone(),
                Consent::Denied,
                rule_of(&explanation),
            ),
            Outcome::Ask if explanation.rule.is_none() && self.ends_a_second_lisp() => {
                Settled::allowed(Consent::NotNeeded, Decider::Level)
            }
            Outcome::Ask if explanation.rule.is_none() && self.defines_known_systems().await => {
                Settled::allowed(Consent::NotNeeded, Decider::Level)
            }
            Outcome::Ask if self.batch.approval == Approval::None => {
                Settled::denied(NOBODY.to_owned(), Consent::Unavailable, Decider::Nobody)
            }
            Outcome::Ask if self.call.allowed.covers(&self.question) => {
                Settled::allowed(Consent::Approved, Decider::User)
            }
            Outcome::Ask => self.ask(&explanation).await,
        };
        if let Err(failure) = self.write_down(&settled).await {
            settled = Settled::denied(failure, settled.consent, settled.decider);
        }
        let outcome = match settled.decision {
            EffectDecision::Allow => CallOutcome::Succeeded,
            EffectDecision::Deny(_) => CallOutcome::Denied,
            EffectDecision::Stop => CallOutcome::Cancelled,
        };
        self.end(outcome, settled.said, settled.consent);
        settled.decision
    }

    /// Whether it ends a Lisp that agent-q has started, and nothing of the user's.
    fn ends_a_second_lisp(&self) -> bool {
        let is_of_second = match self.call.tool.runner {
            Runner::Steps(_) => true,
            _ => self.call.tool.lisp(&self.call.arguments) != Lisp::Users,
        };
        self.question.kind == EffectKind::ExitLisp && is_of_second
    }

    /// Whether it is about loading definitions of systems of the project or of libraries: what their code
    /// does is watched itself.
    async fn defines_known_systems(&self) -> bool {
        let files = &self.question.files;
        let is_about_definitions = self.question.kind == EffectKind::LoadFile
            && !files.is_empty()
            && files.iter().all(|it| is_definition(it));
        if !is_about_definitions {
            return false;
        }
        let context = self.executor.context(self.batch);
        let project = self.batch.place.project.clone();
        provenance_of(files.clone(), project, &context).await == Ok(Provenance::Own)
    }

    /// Asks the user or the handler that decides here.
    async fn ask(&mut self, explanation: &Explanation) -> Settled {
        let (executor, session) = (self.executor, self.batch.session);
        let waiting = executor.approvals.open(self.key, self.facts.clone(), None);
        executor.tell(
            self.batch,
            Event::CallProposed {
                session,
                call: self.key,
                tool: self.tool.clone(),
                arguments: self.arguments.to_string(),
                after: Some(self.call.key),
            },
        );
        self.shown = true;
        executor.emacs.emit(Event::ApprovalRequested {
            session,
            call: self.key,
            tool: self.tool.clone(),
            handler: None,
            level: SafetyLevel::Dangerous,
            reason: reason(&self.question, explanation),
            grounds: Grounds::Special,
            arguments: self.arguments.clone(),
        });
        self.tell_state(SessionState::Approving);
        let decided = tokio::select! {
            () = self.batch.cancel.cancelled() => None,
            decided = waiting => Some(decided.unwrap_or_default()),
        };
        self.tell_state(SessionState::Running);
        let Some(decided) = decided else {
            return Settled::stopped(Consent::Unanswered, Decider::Nobody);
        };
        let decider = decided.decider;
        match decided.decision {
            Decision::Approved => match decider {
                Decider::Rule(_) => Settled::allowed(Consent::ByRule, decider),
                _ => {
                    self.call.allowed.add(&self.question);
                    Settled::allowed(Consent::Approved, decider)
                }
            },
            Decision::Denied(reason) => Settled::denied_for(reason, decider),
            Decision::Stopped => Settled::stopped(Consent::Denied, decider),
            Decision::Unanswered(problem) => Settled::denied(problem, Consent::Unanswered, decider),
            Decision::Modified(_) => Settled::denied(
                "It was approved with changed arguments, but an effect has none.".to_owned(),
                Consent::Unfit,
                decider,
            ),
        }
    }

    fn tell_state(&self, state: SessionState) {
        let session = self.batch.session;
        self.executor
            .tell(self.batch, Event::State { session, state });
    }

    /// Writes to the audit log what becomes of the effect; on failure, why it may not happen.
    async fn write_down(&self, settled: &Settled) -> Result<(), String> {
        let step = match settled.decision {
            EffectDecision::Allow => AuditStep::Started,
            EffectDecision::Deny(_) | EffectDecision::Stop => AuditStep::Finished {
                outcome: CallOutcome::Denied,
                ran: None,
            },
        };
        let record = AuditRecord {
            session: self.batch.session,
            turn: self.batch.place.turn,
            mcp_client: self.batch.place.mcp_client.as_deref(),
            tool: &self.tool,
            level: SafetyLevel::Dangerous,
            arguments: &self.arguments,
            consent: settled.consent,
            decided_by: settled.decider,
            step,
        };
        let written = self.executor.audit.append(&record).await;
        written.map_err(|failure| failure.to_string())
    }

    /// Ends what the chat shows of the question.
    fn end(&mut self, outcome: CallOutcome, content: String, consent: Consent) {
        if !std::mem::take(&mut self.shown) {
            return;
        }
        let session = self.batch.session;
        let result = CallResult {
            id: String::new(),
            outcome,
            content,
            source: None,
            remark: None,
            changed: None,
            elapsed: self.since.elapsed(),
            level: Some(SafetyLevel::Dangerous),
            consent,
        };
        self.executor.tell(
            self.batch,
            Event::CallFinished {
                session,
                call: self.key,
                result,
            },
        );
    }
}

impl Drop for Asking<'_> {
    /// A question that is withdrawn, or whose call is over, is no longer anybody's.
    fn drop(&mut self) {
        self.executor.approvals.close(self.key);
        self.end(
            CallOutcome::Cancelled,
            "the question was withdrawn".to_owned(),
            Consent::Unanswered,
        );
    }
}

impl Settled {
    fn allowed(consent: Consent, decider: Decider) -> Self {
        Self {
            decision: EffectDecision::Allow,
            said: "allowed".to_owned(),
            consent,
            decider,
        }
    }

    /// For WHY, a sentence.
    fn denied(why: String, consent: Consent, decider: Decider) -> Self {
        Self {
            decision: EffectDecision::Deny(Some(why.clone())),
            said: why,
            consent,
            decider,
        }
    }

    /// By DECIDER for REASON. The code is told that it was the user, unless a rule said no, whose
    /// reason names it.
    fn denied_for(reason: Option<String>, decider: Decider) -> Self {
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        let why = match (&reason, decider) {
            (Some(reason), Decider::Rule(_)) => reason.clone(),
            (Some(reason), _) => format!("The user denied it: {reason}"),
            (None, _) => "The user denied it.".to_owned(),
        };
        Self {
            said: reason.unwrap_or_default(),
            ..Self::denied(why, Consent::Denied, decider)
        }
    }

    fn stopped(consent: Consent, decider: Decider) -> Self {
        Self {
            decision: EffectDecision::Stop,
            said: "the call was stopped".to_owned(),
            consent,
            decider,
        }
    }
}

fn rule_of(explanation: &Explanation) -> Decider {
    Decider::Rule(explanation.rule.unwrap_or_default())
}

/// What is about to happen, and what the rules add to that.
fn reason(question: &Question, explanation: &Explanation) -> String {
    match explanation.rule {
        Some(_) => format!("{}; {}", question.words, explanation.reason),
        None => question.words.clone(),
    }
}
