// SPDX-License-Identifier: GPL-3.0-or-later
//! One turn: ask the model, run the tools it calls, give it the results, until it asks for nothing
//! more, is cancelled, or meets a limit and is not to go on. The history is consistent at every exit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::agenda::Agenda;
use super::budget::Budget;
use super::context::Told;
use super::conversation::{Conversation, Entry, EntryContent, EntryId};
use super::drafting::Drafts;
use super::prefix::Prefix;
use super::reply_end::{
    Calls, Correction, TurnEnding, ending, refusal, replayable, result_message, truncated,
    unparsed_notice, with_new_ids,
};
use super::settings::Settings;
use super::tokens::{TokenRatios, request_bytes};
use crate::builtin::more::called_through;
use crate::call::Executor;
use crate::call::batch::{Approval, BatchContext, MOST_CALLS};
use crate::call::result::{RESULT_LIMIT, cap};
use crate::protocol::{
    CallArguments, CallOutcome, CallResult, Event, LimitAnswer, SessionState, ToolCall, TurnOutcome,
};
use crate::provider::failure::{FailureKind, ProviderError};
use crate::provider::history::texts_of;
use crate::provider::http::Http;
use crate::provider::reply::ReplyReader;
use crate::provider::{
    ChatMessage, ChatRequest, Finish, MessagePart, Messages, ModelReply, ProviderSettings,
    RequestPosition, Said, StreamEvent, ToolChoice, WrittenCalls,
};
use crate::runtime::held;
use crate::tool::libraries::Libraries;
use crate::tool::parameter::LONGEST_NAME;
use crate::tool::registry::Registry;
use crate::trust::SafetyLevel;
use crate::visible::spelled;

/// What a turn tried to make room.
#[derive(Debug, Default)]
pub struct RoomMaking {
    /// Why summarizing failed; it is not tried again in the same turn.
    pub failure: Option<String>,
    /// How often the host refused the conversation as too long.
    pub overflows: u32,
}

/// What a turn needs besides the history.
pub struct Turn<'a> {
    pub shared: &'a Shared,
    pub settings: &'a Settings,
    pub provider: &'a ProviderSettings,
    pub batch: &'a BatchContext,
    /// The tools that requests list.
    pub listed: &'a Registry,
    /// The instructions of the user and the project, as the system prompt has them.
    pub sections: Option<String>,
    /// What the user wants the turn to know, and answers.
    pub agenda: &'a Agenda,
    pub prefix: &'a Mutex<Prefix>,
    pub told: &'a Mutex<Told>,
    /// Whether the chat's user was told that its model writes calls as text.
    pub unparsed_told: &'a OnceLock<()>,
    pub budget: &'a Budget,
    pub at_limit: AtLimit,
}

/// What becomes of a turn that meets a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtLimit {
    /// Its user is asked whether it goes on.
    Ask,
    /// Its model is told to answer with what it has.
    Answer,
}

/// Whether a turn that met a limit goes on.
enum GoingOn {
    Yes,
    No(TurnOutcome),
}

/// What became of an answer in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerKept {
    Something,
    Nothing,
}

/// What a model is told that has to answer.
const ANSWER_NOW: &str =
    "Answer now with what you have found, without further calls, and say what is still open.";

/// How asking the model ended.
enum AskOutcome {
    Whole(ModelReply),
    Broken(ProviderError),
    /// With what had come.
    Cancelled(Option<ModelReply>),
}

impl Turn<'_> {
    /// Runs the turn that the message OPENING of HISTORY, the user's, opens.
    pub async fn run(&self, history: &mut Conversation, opening: EntryId) -> TurnOutcome {
        let mut position = RequestPosition::First;
        let mut repeats = Repeats::default();
        self.warn_of_unknown_price();
        if let Some(why) = self.beyond_window(history, opening) {
            history.append(EntryContent::TakenBack { from: opening });
            return TurnOutcome::Failed(why);
        }
        let mut making = RoomMaking::default();
        let mut correction = Correction::None;
        loop {
            if let Some(reason) = self.budget.exceeded() {
                if self.at_limit == AtLimit::Answer {
                    return self.answer_now(history, reason).await;
                }
                match self.may_go_on(&reason).await {
                    GoingOn::Yes => self.budget.go_on(),
                    GoingOn::No(outcome) => return outcome,
                }
            }
            let fitting = self.fitting_request(history, position, &mut making);
            let mut request = match fitting.await {
                Ok(request) => request,
                Err(outcome) => return outcome,
            };
            request.written = self.written_calls(history);
            correction.add_to(&mut request);
            let began = Instant::now();
            match self.ask(&request).await {
                AskOutcome::Whole(reply) => {
                    self.count(&request, &reply, began.elapsed());
                    let reply = ModelReply {
                        parts: with_new_ids(reply.parts, history),
                        ..reply
                    };
                    if let Some(unparsed) = reply.unparsed
                        && self.unparsed_told.set(()).is_ok()
                    {
                        self.tell_notice(unparsed_notice(unparsed));
                    }
                    if let Finish::Refused(why) = &reply.finish {
                        let outcome = TurnOutcome::Failed(refusal(why));
                        self.end_calls(reply).await;
                        // What was refused once is refused again as long as it is in the history.
                        history.append(EntryContent::TakenBack { from: opening });
                        return outcome;
                    }
                    let taken = match reply.finish {
                        Finish::Window => self.room_for_reply(history, reply, &mut making).await,
                        _ => self.take(history, reply, &mut repeats).await,
                    };
                    match taken {
                        None => {}
                        Some(TurnOutcome::Limit(reason)) => {
                            return self.went_in_circles(history, reason).await;
                        }
                        Some(outcome) => return outcome,
                    }
                }
                AskOutcome::Broken(error) if self.is_too_long(history, &error) => {
                    let room = self.room_after_overflow(history, &error, &mut making);
                    if let Err(outcome) = room.await {
                        return self.without_what_is_too_long(history, opening, outcome);
                    }
                }
                AskOutcome::Broken(error)
                    if error.kind == FailureKind::UnreadCall && correction == Correction::None =>
                {
                    let (due, told) = Correction::after(&error);
                    self.tell_notice(told);
                    correction = due;
                    if self.keep_partial(history, &error) == AnswerKept::Nothing {
                        continue;
                    }
                }
                AskOutcome::Broken(error) => {
                    return self.ends_with(history, position, &error);
                }
                AskOutcome::Cancelled(partial) => {
                    if let Some(reply) = partial {
                        self.keep_text(history, reply.text(), reply.thinking());
                    }
                    return TurnOutcome::Cancelled;
                }
            }
            position = RequestPosition::Later;
        }
    }

    /// How the turn ends whose request at POSITION failed with ERROR.
    fn ends_with(
        &self,
        history: &mut Conversation,
        position: RequestPosition,
        error: &ProviderError,
    ) -> TurnOutcome {
        let kept = self.keep_partial(history, error);
        let (why, long) = (error.to_string(), self.may_be_too_long(history, error));
        match (kept, position) {
            (AnswerKept::Nothing, RequestPosition::First) if long => TurnOutcome::FailedLong(why),
            (AnswerKept::Nothing, RequestPosition::First) => match error.kind {
                FailureKind::NoSuchModel => TurnOutcome::NoSuchModel(why),
                FailureKind::Refused(401) => TurnOutcome::KeyRefused(why),
                _ => TurnOutcome::Failed(why),
            },
            // What was done is in the conversation, so the turn need not begin again.
            _ if long => TurnOutcome::InterruptedLong(why),
            _ => TurnOutcome::Interrupted(why),
        }
    }

    /// Says that a limit on the cost can't be kept, where there is one.
    fn warn_of_unknown_price(&self) {
        if self.settings.limits.cost.is_some() && self.provider.facts.prices.is_none() {
            self.shared.executor.emacs.emit(Event::Notice {
                session: self.batch.session,
                text: format!(
                    "What {} costs is not known, so agent-q-max-turn-cost can't be kept. :prices in its :models in agent-q-providers says it.",
                    self.provider.model
                ),
            });
        }
    }

    /// Asks the user whether the turn goes on, which has used up what REASON says.
    async fn may_go_on(&self, reason: &str) -> GoingOn {
        let stopped = || GoingOn::No(TurnOutcome::Limit(format!("{reason} It was stopped.")));
        if self.settings.approval == Approval::None {
            return stopped();
        }
        let session = self.batch.session;
        let answer = self.agenda.limit_answer(|| {
            self.tell_state(SessionState::Paused);
            self.shared.executor.emacs.emit(Event::LimitReached {
                session,
                text: reason.to_owned(),
            });
        });
        tokio::select! {
            () = self.batch.cancel.cancelled() => GoingOn::No(TurnOutcome::Cancelled),
            answer = answer => match answer {
                LimitAnswer::GoOn => GoingOn::Yes,
                LimitAnswer::Stop => stopped(),
            },
        }
    }

    /// Ends the turn whose model does the same again and again, as REASON says.
    async fn went_in_circles(&self, history: &mut Conversation, reason: String) -> TurnOutcome {
        match self.at_limit {
            AtLimit::Ask => TurnOutcome::Limit(format!("{reason} Send a message to go on.")),
            AtLimit::Answer => self.answer_now(history, reason).await,
        }
    }

    /// Has the model answer with what is in HISTORY, because of REASON, and ends the turn.
    async fn answer_now(&self, history: &mut Conversation, reason: String) -> TurnOutcome {
        let text = format!("(agent-q: {reason} {ANSWER_NOW})");
        history.ask(text.clone(), &text);
        let request = ChatRequest {
            tool_choice: ToolChoice::None,
            ..self.request(history.for_model(), RequestPosition::Later)
        };
        let began = Instant::now();
        match self.ask(&request).await {
            AskOutcome::Whole(reply) => {
                self.count(&request, &reply, began.elapsed());
                self.keep_text(history, reply.text(), reply.thinking());
                TurnOutcome::Limit(reason)
            }
            AskOutcome::Broken(error) => self.ends_with(history, RequestPosition::Later, &error),
            AskOutcome::Cancelled(_) => TurnOutcome::Cancelled,
        }
    }

    pub(super) fn tell_state(&self, state: SessionState) {
        self.shared.executor.emacs.emit(Event::State {
            session: self.batch.session,
            state,
        });
    }

    async fn ask(&self, request: &ChatRequest) -> AskOutcome {
        let session = self.batch.session;
        let emacs = &self.shared.executor.emacs;
        self.tell_state(SessionState::Waiting);
        if let Some(why) = held(self.prefix).note(request, self.provider.origin()) {
            emacs.emit(Event::CacheLost { session, why });
        }
        let mut reader = ReplyReader::default();
        let mut drafts = Drafts::new(session);
        let mut streaming = false;
        let mut sink = |event: StreamEvent| {
            if !streaming && !matches!(event, StreamEvent::Retrying { .. }) {
                streaming = true;
                self.tell_state(SessionState::Streaming);
            }
            if let Some(event) = self.retrying(&event) {
                emacs.emit(event);
            }
            match event {
                StreamEvent::Text(text) => emacs.emit(Event::Text { session, text }),
                StreamEvent::Reasoning(text) => emacs.emit(Event::Reasoning { session, text }),
                StreamEvent::Arguments { call, tool, more } => {
                    for event in drafts.take(call, &tool, &more) {
                        emacs.emit(event);
                    }
                }
                StreamEvent::Retrying { .. } => {}
            }
        };
        let reply = self
            .shared
            .http
            .stream_chat(self.provider, request, &mut reader, &mut sink);
        tokio::select! {
            () = self.batch.cancel.cancelled() => AskOutcome::Cancelled(reader.partial()),
            reply = reply => match reply {
                Ok(reply) => AskOutcome::Whole(reply),
                Err(error) => AskOutcome::Broken(error),
            },
        }
    }

    /// What the user sees of EVENT, if it is about a request that is sent again.
    pub(super) fn retrying(&self, event: &StreamEvent) -> Option<Event> {
        match event {
            StreamEvent::Retrying {
                attempt,
                attempts,
                delay,
                reason,
            } => Some(Event::Retrying {
                session: self.batch.session,
                attempt: *attempt,
                attempts: *attempts,
                delay: *delay,
                reason: reason.clone(),
            }),
            StreamEvent::Text(_) | StreamEvent::Reasoning(_) | StreamEvent::Arguments { .. } => {
                None
            }
        }
    }

    /// Takes in what REPLY to REQUEST cost.
    pub(super) fn count(&self, request: &ChatRequest, reply: &ModelReply, elapsed: Duration) {
        let cost = reply
            .usage
            .and_then(|usage| self.provider.facts.cost(&usage));
        self.budget.request(elapsed, reply.tokens(), cost);
        self.tell_usage(reply);
        if let Some(usage) = reply.usage {
            let (origin, bytes) = (self.provider.origin(), request_bytes(request));
            self.shared.ratios.learn(origin, bytes, usage.input_tokens);
            self.tell_filled(usage.input_tokens.saturating_add(usage.output_tokens));
        }
    }

    /// What would be sent for HISTORY, as the model reads it.
    pub fn request(&self, history: Messages, position: RequestPosition) -> ChatRequest {
        let place = &self.batch.place;
        let (tools, history) = match self.provider.facts.tools {
            Some(false) => (Registry::default(), history.with_calls_as_text()),
            Some(true) | None => {
                let tools = self.shared.executor.without_denied(self.listed, place);
                (tools, history)
            }
        };
        let system = self
            .settings
            .system_prompt(&tools, self.sections.as_deref());
        ChatRequest {
            messages: history.after(ChatMessage::System(system)),
            tools: tools.all().iter().map(|tool| tool.schema()).collect(),
            tool_choice: self.settings.tool_choice.clone(),
            position,
            written: WrittenCalls::Meant,
        }
    }

    /// What a text that reads like a call is in HISTORY. All that it ever had counts, not only what is sent.
    fn written_calls(&self, history: &Conversation) -> WrittenCalls {
        let messages = history.entries().iter().filter_map(Entry::message);
        WrittenCalls::in_chat(messages.map(AsRef::as_ref), &self.provider.origin())
    }

    /// Records REPLY and runs its calls; gives the outcome when the turn is over.
    async fn take(
        &self,
        history: &mut Conversation,
        reply: ModelReply,
        repeats: &mut Repeats,
    ) -> Option<TurnOutcome> {
        if reply.finish == Finish::Paused && reply.calls().is_empty() && !reply.parts.is_empty() {
            // It goes on when it gets back what it said.
            history.add(ChatMessage::Assistant {
                origin: self.provider.origin(),
                parts: reply.parts,
            });
            return None;
        }
        let calls = match reply
            .calls()
            .iter()
            .any(|call| call.arguments == CallArguments::Truncated)
        {
            true => Calls::Cut,
            false => Calls::Whole,
        };
        if reply.calls().is_empty() || calls == Calls::Cut {
            return Some(self.take_end(history, reply, calls).await);
        }
        let calls: Vec<ToolCall> = reply.calls().into_iter().map(called_through).collect();
        history.add(ChatMessage::Assistant {
            origin: self.provider.origin(),
            parts: reply.parts.into_iter().map(replayable).collect(),
        });
        let began = Instant::now();
        let mut results = self.shared.executor.run(&calls, self.batch).await;
        // The time of the calls themselves leaves out the one in which the user was asked; side by side,
        // they took no longer than all of it.
        let ran: Duration = results.iter().map(|result| result.elapsed).sum();
        self.budget.tools(ran.min(began.elapsed()));
        let cancelled = self.batch.cancel.is_cancelled();
        let mut stuck = None;
        // The calls beyond were not run, so they say nothing about what the model does.
        for (call, result) in calls.iter().zip(&mut results).take(MOST_CALLS) {
            stuck = stuck.or(repeats.note(call, result));
        }
        self.tell_ended(&mut results);
        for result in results {
            history.add(result_message(result));
        }
        if !cancelled {
            self.steer(history);
        }
        match stuck {
            _ if cancelled => Some(TurnOutcome::Cancelled),
            Some(reason) => Some(TurnOutcome::Limit(reason)),
            None => None,
        }
    }
}

impl Turn<'_> {
    /// Records REPLY, which ends the turn. Cut CALLS can't be replayed to any provider, so only the text
    /// is kept then. The executor gets the calls all the same: each ends in the chat with the reason why
    /// it never ran.
    async fn take_end(
        &self,
        history: &mut Conversation,
        reply: ModelReply,
        calls: Calls,
    ) -> TurnOutcome {
        let empty = reply.is_blank() && calls == Calls::Whole;
        let finish = reply.finish.clone();
        let kept = match finish {
            Finish::Stop if calls == Calls::Whole => self.keep(history, reply.parts),
            _ => {
                let (text, thinking) = (reply.text(), reply.thinking());
                self.end_calls(reply).await;
                self.keep_text(history, text, thinking)
            }
        };
        match ending(&finish, calls) {
            TurnEnding::Finished if empty => {
                TurnOutcome::Failed("The model sent an empty reply.".to_owned())
            }
            TurnEnding::Finished => TurnOutcome::Finished,
            TurnEnding::Cut(why) if kept == AnswerKept::Something => TurnOutcome::Interrupted(why),
            TurnEnding::Cut(why) | TurnEnding::Failed(why) => TurnOutcome::Failed(why),
        }
    }

    /// Adds to the last of RESULTS those of calls in the background that have ended.
    fn tell_ended(&self, results: &mut [CallResult]) {
        let begun = self.batch.begun.as_ref();
        if let Some(last) = results.last_mut()
            && let Some(ended) = begun.and_then(|begun| begun.take_ended())
        {
            last.add_remark(ended);
        }
    }

    /// Puts into HISTORY what the user wants the running turn to know.
    fn steer(&self, history: &mut Conversation) {
        for message in self.agenda.steering() {
            self.batch.place.note(message.provenance);
            let message = held(self.told).take(message);
            let text = self.batch.with_news(message.for_model());
            let pictures = message.pictures;
            history.ask(Said { text, pictures }, &message.text);
            self.shared.executor.emacs.emit(Event::Steered {
                session: self.batch.session,
                message: Some(message.id),
                text: message.text,
                along: message.along,
            });
        }
    }

    fn tell_usage(&self, reply: &ModelReply) {
        if let Some(usage) = reply.usage {
            self.shared.executor.emacs.emit(Event::Usage {
                session: self.batch.session,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cache_read_tokens: usage.cache_read_tokens,
                cache_write_tokens: usage.cache_write_tokens,
                cost: self.provider.facts.cost(&usage),
            });
        }
    }

    /// Ends the calls of REPLY in the chat; none of them runs.
    pub(super) async fn end_calls(&self, reply: ModelReply) {
        let calls: Vec<ToolCall> = reply.calls().into_iter().cloned().map(truncated).collect();
        self.shared.executor.run(&calls, self.batch).await;
    }

    fn keep_partial(&self, history: &mut Conversation, error: &ProviderError) -> AnswerKept {
        let Some(reply) = error.partial.as_deref() else {
            return AnswerKept::Nothing;
        };
        match error.kind {
            // All of it would be sent with every request to come, and refused.
            FailureKind::TooLong => {
                let text = cap(&reply.text(), RESULT_LIMIT, "");
                self.keep_text(history, text, String::new())
            }
            _ => self.keep_text(history, reply.text(), reply.thinking()),
        }
    }

    /// What came of an answer that is not whole. Nothing in it is sealed for good.
    pub(super) fn keep_text(
        &self,
        history: &mut Conversation,
        text: String,
        thinking: String,
    ) -> AnswerKept {
        let mut parts = vec![MessagePart::text(text)];
        if !thinking.is_empty() {
            parts.insert(0, MessagePart::thinking(thinking));
        }
        self.keep(history, parts)
    }

    /// An assistant message without text would be refused by several providers.
    fn keep(&self, history: &mut Conversation, parts: Vec<MessagePart>) -> AnswerKept {
        if texts_of(&parts).all(str::is_empty) {
            return AnswerKept::Nothing;
        }
        history.add(ChatMessage::Assistant {
            origin: self.provider.origin(),
            parts,
        });
        AnswerKept::Something
    }
}

/// What all sessions use.
#[derive(Clone)]
pub struct Shared {
    /// All tools of the process; each turn takes from it what its chat offers.
    pub registry: Arc<Registry>,
    /// What agents' specifications are bound to.
    pub libraries: Arc<Libraries>,
    pub executor: Executor,
    pub http: Arc<Http>,
    /// How many bytes each model has to a token.
    pub ratios: Arc<TokenRatios>,
}

// Calls that a model makes again and again with the same result. Weak models never stop; each round
// costs the user a request. A turn tells the model, and then ends.

/// How often a call has to give the same result before the model is told.
const TOLD: u32 = 3;
/// How often before the turn ends, when the calls fail.
const LAST_FAILED: u32 = 4;
/// How often before the turn ends, when they succeed: somebody may be waiting for something.
const LAST: u32 = 5;

/// What a model asked for: the name of a tool and the arguments, as it wrote them.
type Asked = (String, String);

/// The calls of a turn since anything was last changed.
#[derive(Debug, Default)]
pub struct Repeats {
    seen: HashMap<Asked, SeenResult>,
}

#[derive(Debug)]
struct SeenResult {
    outcome: CallOutcome,
    content: String,
    times: u32,
}

impl Repeats {
    /// Takes in CALL and RESULT, to which a word is added when it has come too often. Gives the reason
    /// to end the turn when nothing else will.
    pub fn note(&mut self, call: &ToolCall, result: &mut CallResult) -> Option<String> {
        let asked = (call.name.clone(), call.raw_arguments.clone());
        if changed_something(result) {
            // What came before may come out differently now.
            self.seen.retain(|key, _| *key == asked);
        }
        let times = self.count(asked, result);
        if times >= TOLD {
            let how = match result.outcome {
                CallOutcome::Succeeded => "was made {times} times with the same result",
                _ => "did not succeed {times} times",
            };
            result.add_remark(format!(
                "(This call {}. Try something else, or stop and tell the user what you found.)",
                how.replace("{times}", &times.to_string())
            ));
        }
        let (last, end) = match result.outcome {
            CallOutcome::Succeeded => (LAST, "got the same result"),
            CallOutcome::Failed | CallOutcome::Denied | CallOutcome::Cancelled => {
                (LAST_FAILED, "it did not succeed")
            }
        };
        (times >= last).then(|| {
            format!(
                "Stopped: the model called {} {times} times with the same arguments and {end}.",
                spelled(&call.name, LONGEST_NAME)
            )
        })
    }

    fn count(&mut self, asked: Asked, result: &CallResult) -> u32 {
        let seen = self.seen.entry(asked).or_insert_with(|| SeenResult {
            outcome: result.outcome,
            content: String::new(),
            times: 0,
        });
        // What fails may say so in other words each time, with a new address or the time.
        let alike = match (seen.outcome, result.outcome) {
            (CallOutcome::Succeeded, CallOutcome::Succeeded) => seen.content == result.content,
            (CallOutcome::Succeeded, _) | (_, CallOutcome::Succeeded) => false,
            _ => true,
        };
        if seen.times > 0 && alike {
            seen.times += 1;
            seen.outcome = result.outcome;
        } else {
            *seen = SeenResult {
                outcome: result.outcome,
                content: result.content.clone(),
                times: 1,
            };
        }
        seen.times
    }
}

fn changed_something(result: &CallResult) -> bool {
    result.outcome == CallOutcome::Succeeded
        && result.level.is_some_and(|level| level > SafetyLevel::Safe)
}
