// SPDX-License-Identifier: GPL-3.0-or-later
//! One turn: ask the model, run the tools it calls, give it the results, until it asks for nothing
//! more, is cancelled, or meets the limit. The history is consistent at every exit.

use crate::call::batch::{BatchContext, MOST_CALLS};
use crate::call::format::{RESULT_LIMIT, cap};
use crate::protocol::{CallArguments, CallResult, Event, SessionState, ToolCall, TurnOutcome};
use crate::provider::failure::{FailureKind, ProviderError};
use crate::provider::history::text_of;
use crate::provider::{
    ChatMessage, ChatRequest, Finish, MessagePart, ModelReply, PartContent, ProviderSettings,
    RequestPosition, StreamEvent,
};
use crate::trust::fence::draw;

use super::repeats::Repeats;
use super::settings::Settings;
use super::shared::Shared;

/// What a turn needs besides the history.
pub struct Turn<'a> {
    pub shared: &'a Shared,
    pub settings: &'a Settings,
    pub provider: &'a ProviderSettings,
    pub batch: &'a BatchContext,
}

/// How asking the model ended.
enum AskOutcome {
    Whole(ModelReply),
    Broken(ProviderError),
    Cancelled { text: String, reasoning: String },
}

impl Turn<'_> {
    /// Runs the turn that HISTORY's last message, the user's, opens.
    pub async fn run(&self, history: &mut Vec<ChatMessage>) -> TurnOutcome {
        let opening = history.len().saturating_sub(1);
        let mut position = RequestPosition::First;
        let mut repeats = Repeats::default();
        for _ in 0..self.settings.max_iterations {
            match self.ask(history, position).await {
                AskOutcome::Whole(reply) => {
                    if let Finish::Refused(why) = &reply.finish {
                        let outcome = TurnOutcome::Failed(refusal(why));
                        self.tell_usage(&reply);
                        self.end_calls(reply).await;
                        // What was refused once is refused again as long as it is in the history.
                        history.truncate(opening);
                        return outcome;
                    }
                    if let Some(outcome) = self.take(history, reply, &mut repeats).await {
                        return outcome;
                    }
                }
                AskOutcome::Broken(error) => {
                    self.keep_partial(history, &error);
                    return TurnOutcome::Failed(error.to_string());
                }
                AskOutcome::Cancelled { text, reasoning } => {
                    self.keep_text(history, text, reasoning);
                    return TurnOutcome::Cancelled;
                }
            }
            position = RequestPosition::Later;
        }
        TurnOutcome::Limit(format!(
            "Stopped after {} rounds of tool calls (agent-q-max-iterations). Send a message to go on.",
            self.settings.max_iterations
        ))
    }

    async fn ask(&self, history: &[ChatMessage], position: RequestPosition) -> AskOutcome {
        let session = self.batch.session;
        let host = &self.shared.executor.host;
        host.emit(Event::State {
            session,
            state: SessionState::Waiting,
        });
        let request = self.request(history, position);
        let (mut text, mut reasoning) = (String::new(), String::new());
        let mut streaming = false;
        let mut sink = |event: StreamEvent| {
            if !streaming && !matches!(event, StreamEvent::Retrying { .. }) {
                streaming = true;
                host.emit(Event::State {
                    session,
                    state: SessionState::Streaming,
                });
            }
            host.emit(match event {
                StreamEvent::Text(more) => {
                    text.push_str(&more);
                    Event::Text {
                        session,
                        text: more,
                    }
                }
                StreamEvent::Reasoning(more) => {
                    reasoning.push_str(&more);
                    Event::Reasoning {
                        session,
                        text: more,
                    }
                }
                StreamEvent::Retrying {
                    attempt,
                    attempts,
                    delay,
                    reason,
                } => Event::Retrying {
                    session,
                    attempt,
                    attempts,
                    delay,
                    reason,
                },
            });
        };
        let reply = self
            .shared
            .client
            .stream_chat(self.provider, &request, &mut sink);
        tokio::select! {
            () = self.batch.cancel.cancelled() => AskOutcome::Cancelled { text, reasoning },
            reply = reply => match reply {
                Ok(reply) => AskOutcome::Whole(reply),
                Err(error) => AskOutcome::Broken(error),
            },
        }
    }

    fn request(&self, history: &[ChatMessage], position: RequestPosition) -> ChatRequest {
        let BatchContext { tools, place, .. } = self.batch;
        let tools = self.shared.executor.without_denied(tools, place);
        let mut messages = Vec::with_capacity(history.len() + 1);
        messages.push(ChatMessage::System(self.settings.system_prompt(&tools)));
        messages.extend_from_slice(history);
        ChatRequest {
            messages,
            tools: tools.all().iter().map(|tool| tool.schema()).collect(),
            tool_choice: self.settings.tool_choice.clone(),
            position,
        }
    }

    /// Records REPLY and runs its calls; gives the outcome when the turn is over.
    async fn take(
        &self,
        history: &mut Vec<ChatMessage>,
        reply: ModelReply,
        repeats: &mut Repeats,
    ) -> Option<TurnOutcome> {
        self.tell_usage(&reply);
        if reply.finish == Finish::Paused && reply.calls.is_empty() && !reply.parts.is_empty() {
            // It goes on when it gets back what it said.
            history.push(ChatMessage::Assistant {
                origin: self.provider.origin(),
                parts: reply.parts,
            });
            return None;
        }
        let cut = reply
            .calls
            .iter()
            .any(|call| call.arguments == CallArguments::Truncated);
        if reply.calls.is_empty() || cut {
            // A cut call can't be replayed to any provider, so only the text is kept. The executor
            // gets the calls all the same: each ends in the chat with the reason why it never ran.
            let ended = ending(&reply.finish, cut);
            let empty = reply.text.trim().is_empty() && !cut;
            match reply.finish {
                Finish::Stop if !cut => self.keep(history, reply.parts),
                _ => {
                    let (text, thinking) = (reply.text.clone(), reply.reasoning.clone());
                    self.end_calls(reply).await;
                    self.keep_text(history, text, thinking);
                }
            }
            return Some(match ended {
                TurnOutcome::Finished if empty => {
                    TurnOutcome::Failed("The model sent an empty reply.".to_owned())
                }
                outcome => outcome,
            });
        }
        history.push(ChatMessage::Assistant {
            origin: self.provider.origin(),
            parts: reply.parts.into_iter().map(replayable).collect(),
        });
        let mut results = self.shared.executor.run(&reply.calls, self.batch).await;
        let cancelled = self.batch.cancel.is_cancelled();
        let mut stuck = None;
        // The calls beyond were not run, so they say nothing about what the model does.
        for (call, result) in reply.calls.iter().zip(&mut results).take(MOST_CALLS) {
            stuck = stuck.or(repeats.note(call, result));
        }
        history.extend(results.into_iter().map(result_message));
        match stuck {
            _ if cancelled => Some(TurnOutcome::Cancelled),
            Some(reason) => Some(TurnOutcome::Limit(reason)),
            None => None,
        }
    }
}

impl Turn<'_> {
    fn tell_usage(&self, reply: &ModelReply) {
        if let Some(usage) = reply.usage {
            self.shared.executor.host.emit(Event::Usage {
                session: self.batch.session,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cache_read_tokens: usage.cache_read_tokens,
                cache_write_tokens: usage.cache_write_tokens,
            });
        }
    }

    /// Ends the calls of REPLY in the chat; none of them runs.
    async fn end_calls(&self, reply: ModelReply) {
        let calls: Vec<ToolCall> = reply.calls.into_iter().map(truncated).collect();
        self.shared.executor.run(&calls, self.batch).await;
    }

    fn keep_partial(&self, history: &mut Vec<ChatMessage>, error: &ProviderError) {
        let Some(reply) = error.partial.as_deref() else {
            return;
        };
        match error.kind {
            // All of it would be sent with every request to come, and refused.
            FailureKind::TooLong => {
                let text = cap(&reply.text, RESULT_LIMIT, "");
                self.keep_text(history, text, String::new());
            }
            _ => self.keep_text(history, reply.text.clone(), reply.reasoning.clone()),
        }
    }

    /// What came of an answer that is not whole. Nothing in it is sealed for good.
    fn keep_text(&self, history: &mut Vec<ChatMessage>, text: String, thinking: String) {
        let mut parts = vec![MessagePart::text(text)];
        if !thinking.is_empty() {
            parts.insert(0, MessagePart::thinking(thinking));
        }
        self.keep(history, parts);
    }

    /// An assistant message without text would be refused by several providers.
    fn keep(&self, history: &mut Vec<ChatMessage>, parts: Vec<MessagePart>) {
        if !text_of(&parts).is_empty() {
            history.push(ChatMessage::Assistant {
                origin: self.provider.origin(),
                parts,
            });
        }
    }
}

fn refusal(why: &str) -> String {
    let reason = match why {
        "" => String::new(),
        why => format!(" It says: {why}"),
    };
    format!(
        "The model refused to answer. Your message and what followed it are no longer part of the conversation, so that it can go on.{reason}"
    )
}

fn ending(finish: &Finish, cut: bool) -> TurnOutcome {
    match (finish, cut) {
        (Finish::Length, true) => TurnOutcome::Failed(
            "The reply was cut off at its token limit in the middle of a tool call, which was not run. Raise the limit (max_tokens in the provider's body) or ask for less at a time.".to_owned(),
        ),
        (_, true) => TurnOutcome::Failed(
            "The reply ended in the middle of a tool call, which was not run. Send a message to try again.".to_owned(),
        ),
        (Finish::Length, false) => TurnOutcome::Failed(
            "The reply was cut off at its token limit. Send a message such as \"go on\" to get the rest.".to_owned(),
        ),
        (Finish::ContentFilter, false) => {
            TurnOutcome::Failed("The provider's content filter ended the reply.".to_owned())
        }
        (Finish::Interrupted, false) => TurnOutcome::Failed(
            "The connection was lost before the reply was complete. Send a message to try again."
                .to_owned(),
        ),
        (Finish::Refused(why), false) => TurnOutcome::Failed(refusal(why)),
        (Finish::Stop | Finish::ToolCalls | Finish::Paused | Finish::Other(_), false) => {
            TurnOutcome::Finished
        }
    }
}

/// Providers reject a history with broken JSON in it; the result quotes what was wrong.
fn replayable(mut part: MessagePart) -> MessagePart {
    if let PartContent::Call(call) = &mut part.content
        && matches!(
            call.arguments,
            CallArguments::Malformed(_) | CallArguments::Truncated
        )
    {
        call.raw_arguments = "{}".to_owned();
    }
    part
}

fn truncated(call: ToolCall) -> ToolCall {
    ToolCall {
        arguments: CallArguments::Truncated,
        ..call
    }
}

fn result_message(result: CallResult) -> ChatMessage {
    ChatMessage::Tool {
        content: result.for_model(draw()),
        outcome: result.outcome,
        call_id: result.id,
    }
}
