// SPDX-License-Identifier: GPL-3.0-or-later
//! Making room, between two requests, in a conversation that gets too long for its model: old results are
//! trimmed, or the model writes a summary. If that fails, the conversation stays as it was.

use std::fmt::Write;
use std::time::Instant;

use super::conversation::{Again, Conversation, Entry, EntryContent, EntryId, Live, TurnNumber};
use super::tokens::{message_bytes, request_bytes};
use super::turn::{RoomMaking, Turn};
use crate::builtin::more;
use crate::protocol::{Event, SessionState, TurnOutcome};
use crate::provider::reply::ReplyReader;
use crate::provider::retry::RetryAdvice;
use crate::provider::{
    ChatMessage, ChatRequest, FailureKind, Finish, Messages, ModelReply, ProviderError,
    RequestPosition, StreamEvent, ToolChoice,
};
use crate::runtime::held;

/// How many summaries one compaction may take, each of a further part.
const MOST_SUMMARIES: usize = 12;

/// How much of the size at which a conversation is compacted is kept as it is.
const KEPT_SHARE: f64 = 0.3;

/// Trimming alone has to bring a conversation below so much of that size; else a summary is made.
const TRIMMED_SHARE: f64 = 0.7;

/// A conversation of more bytes may be too long for a model.
const LONG: usize = 16 * 1024;

/// How making room ended.
#[derive(Debug, PartialEq, Eq)]
pub enum RoomMade {
    Some,
    /// There is nothing to summarize.
    None,
    Cancelled,
    /// Summarizing failed, as the sentence says.
    Failed(String),
}

impl Turn<'_> {
    /// The request for HISTORY; room was made before, where the model's window needs it.
    ///
    /// # Errors
    ///
    /// The end of the turn, which was cancelled meanwhile.
    pub(super) async fn fitting_request(
        &self,
        history: &mut Conversation,
        position: RequestPosition,
        making: &mut RoomMaking,
    ) -> Result<ChatRequest, TurnOutcome> {
        let request = self.request(history.for_model(), position);
        let (origin, ratios) = (self.provider.origin(), &self.shared.ratios);
        let bytes = request_bytes(&request);
        self.tell_filled(ratios.estimate(&origin, bytes));
        let Some(limit) = self
            .settings
            .compacts_at()
            .map(|it| ratios.bytes(&origin, it))
        else {
            return Ok(request);
        };
        if bytes <= limit || making.failure.is_some() {
            return Ok(request);
        }
        let kept = share(limit, KEPT_SHARE);
        let trimmed = trim(&history.live(), kept, self.again());
        if let Some((trimmed, saved)) = trimmed
            && bytes.saturating_sub(saved) <= share(limit, TRIMMED_SHARE)
        {
            self.trim(history, trimmed);
        } else {
            match self.compact(history, kept).await {
                RoomMade::Cancelled => return Err(TurnOutcome::Cancelled),
                RoomMade::Some | RoomMade::None => {}
                RoomMade::Failed(why) => {
                    self.tell_notice(format!("The conversation is getting too long for the model and could not be summarized; sending all of it. {why}"));
                    making.failure = Some(why);
                }
            }
        }
        Ok(self.request(history.for_model(), position))
    }

    /// Makes room after the host refused the conversation as too long.
    ///
    /// # Errors
    ///
    /// The end of the turn: it was cancelled, or there is no more room to make.
    pub(super) async fn room_after_overflow(
        &self,
        history: &mut Conversation,
        error: &ProviderError,
        making: &mut RoomMaking,
    ) -> Result<(), TurnOutcome> {
        making.overflows += 1;
        let all: usize = history.for_model().iter().map(message_bytes).sum();
        let kept = match making.overflows {
            1 => all / 4,
            _ => 0,
        };
        let failed = |why: &str| {
            let said = error.to_string();
            let stop = if said.ends_with(['.', '!', '?', '…']) {
                ""
            } else {
                "."
            };
            Err(TurnOutcome::Failed(format!("{said}{stop} {why}")))
        };
        if making.overflows > 3 {
            return failed("A summary did not help.");
        }
        let trimmed = trim(&history.live(), kept, self.again());
        match self.compact(history, kept).await {
            RoomMade::Cancelled => Err(TurnOutcome::Cancelled),
            RoomMade::Some => Ok(()),
            made => match (trimmed, made) {
                (Some((trimmed, _)), _) => {
                    self.trim(history, trimmed);
                    Ok(())
                }
                (None, RoomMade::Failed(why)) => failed(&why),
                (None, _) => failed(&match self.needed_window(error) {
                    Some(advice) if self.overhead() > all => advice,
                    _ => "There is nothing to leave out.".to_owned(),
                }),
            },
        }
    }

    /// What window the tools need, where it is they that the model can't hold, as ERROR says.
    fn needed_window(&self, error: &ProviderError) -> Option<String> {
        const FEW: u64 = 2000;
        let origin = self.provider.origin();
        let bytes = self.overhead() - REQUEST.len();
        let estimate = self.shared.ratios.estimate(&origin, bytes);
        // What the host counted is nearer, unless it counted something else.
        let counted = error.report.as_ref().and_then(|it| it.most_tokens());
        let counted = counted.filter(|count| (estimate / 4..estimate * 2).contains(count));
        let tokens = counted.unwrap_or(estimate);
        // Twice as much again for a conversation.
        let window = (tokens.div_ceil(1000) * 3).next_power_of_two().max(16);
        (tokens > FEW).then(|| {
            format!(
                "agent-q needs about {}k tokens for its instructions and tools. Load the model with a window of {window}k or more (LM Studio: Context Length; llama.cpp: -c; Ollama: num_ctx), or give it :tools nil in :models of agent-q-providers.",
                tokens.div_ceil(1000)
            )
        })
    }

    /// Whether HISTORY is too long for the model, as ERROR says. Some hosts say so by a refusal without a word.
    pub(super) fn is_too_long(&self, history: &Conversation, error: &ProviderError) -> bool {
        let wordless = || {
            error
                .report
                .as_ref()
                .is_some_and(|it| it.message.is_empty())
        };
        error.kind == FailureKind::Overflow || wordless() && self.may_be_too_long(history, error)
    }

    /// Whether HISTORY may be too long for the model, which refused it with words that say nothing known.
    pub(super) fn may_be_too_long(&self, history: &Conversation, error: &ProviderError) -> bool {
        let all: usize = history.for_model().iter().map(message_bytes).sum();
        is_unknown_refusal(error) && all > LONG && cut(&history.live(), LONG / 4).is_some()
    }

    /// Makes room after REPLY met the end of the model's window, so that the model is asked again; gives the
    /// outcome when the turn is over.
    pub(super) async fn room_for_reply(
        &self,
        history: &mut Conversation,
        reply: ModelReply,
        making: &mut RoomMaking,
    ) -> Option<TurnOutcome> {
        let (text, thinking) = (reply.text(), reply.thinking());
        self.end_calls(reply).await;
        let full = ProviderError::new(
            FailureKind::Overflow,
            RetryAdvice::Never,
            "The reply was cut off: the model's window is full.",
        );
        let outcome = self
            .room_after_overflow(history, &full, making)
            .await
            .err()?;
        self.keep_text(history, text, thinking);
        Some(outcome)
    }

    /// Ends a turn for which no room could be made, as OUTCOME says. A message that is most of what is sent
    /// would have every later request refused, too.
    pub(super) fn without_what_is_too_long(
        &self,
        history: &mut Conversation,
        opening: EntryId,
        outcome: TurnOutcome,
    ) -> TurnOutcome {
        match outcome {
            TurnOutcome::Failed(why) if self.is_most(history, opening) => {
                history.append(EntryContent::TakenBack { from: opening });
                TurnOutcome::Failed(format!("{why} The message is too long. {NOT_KEPT}"))
            }
            outcome => outcome,
        }
    }

    /// Why the message OPENING can't be sent at all, if it is longer than the model's window by itself.
    pub(super) fn beyond_window(&self, history: &Conversation, opening: EntryId) -> Option<String> {
        let (window, bytes) = (self.settings.window()?, size_of(history, opening));
        let tokens = self.shared.ratios.at_least(
            &self.provider.origin(),
            bytes + self.overhead() - REQUEST.len(),
        );
        (tokens > window && self.is_most(history, opening)).then(|| {
            format!(
                "The message is too long for {}: with it, a request has {tokens} tokens at least, and the model takes {window}. {NOT_KEPT}",
                self.provider.model
            )
        })
    }

    /// Whether the message OPENING is more than half of what is sent.
    pub(super) fn is_most(&self, history: &Conversation, opening: EntryId) -> bool {
        let bytes = size_of(history, opening);
        let all: usize = history.for_model().iter().map(message_bytes).sum();
        bytes > (all + self.overhead()) / 2
    }

    /// Has the model summarize all but about the newest KEPT bytes of HISTORY.
    pub(super) async fn compact(&self, history: &mut Conversation, kept: usize) -> RoomMade {
        let origin = self.provider.origin();
        let before = self.tokens(history);
        let messages = history.live().read().len();
        // What the model can take at once, as far as that is known.
        let mut most = self.settings.window().map(|window| {
            let all = self.shared.ratios.bytes(&origin, window);
            share(all, 0.95).saturating_sub(self.overhead())
        });
        // Of all parts so far. It counts, and is undone, as one.
        let mut latest: Option<Entry> = None;
        for _ in 0..MOST_SUMMARIES {
            let mut live = history.live();
            live.compaction = latest.as_ref().or(live.compaction);
            let Some(target) = cut(&live, kept) else {
                break;
            };
            let part = most
                .and_then(|most| head(&live, most))
                .filter(|part| part.through < target.through)
                .unwrap_or(target);
            self.tell_state(SessionState::Summarizing);
            let read = live.clone().until(part.through).for_model();
            let replaced: usize = read.iter().map(message_bytes).sum();
            match self.summary(read).await {
                Ok(summary) => {
                    let told = held(self.told).block();
                    let summary = summary_message(&live, part.through, told.as_deref(), &summary);
                    if summary.len() >= replaced {
                        return RoomMade::Failed(format!(
                            "The model's summary would be no shorter ({} bytes) than what it stands for ({replaced}).",
                            summary.len()
                        ));
                    }
                    latest = Some(Entry {
                        id: part.through,
                        turn: TurnNumber::default(),
                        what: EntryContent::Compaction {
                            summary,
                            through: part.through,
                        },
                    });
                    if part == target {
                        break;
                    }
                }
                Err(NoSummary::Cancelled) => return RoomMade::Cancelled,
                Err(NoSummary::Overflow(_)) if head(&live, part.before / 2) != Some(part) => {
                    most = Some(part.before / 2);
                }
                Err(NoSummary::Overflow(why) | NoSummary::Failed(why)) => {
                    return RoomMade::Failed(why);
                }
            }
        }
        let Some(Entry { what, .. }) = latest else {
            return RoomMade::None;
        };
        history.append(what);
        let live = history.live();
        let replaced = messages - live.read().len();
        let summary = live.summary().unwrap_or_default().to_owned();
        self.tell_summarized(history, before, replaced, summary);
        RoomMade::Some
    }

    /// What the model writes of the messages READ.
    async fn summary(&self, read: Messages) -> Result<String, NoSummary> {
        let mut request = self.request(read, RequestPosition::Later);
        let said = REQUEST.into();
        request
            .messages
            .push(std::sync::Arc::new(ChatMessage::User(said)));
        let reply = self.ask_quietly(&request).await?;
        let reply = match reply.is_blank() && !reply.calls().is_empty() {
            true => {
                // To forbid calls costs some providers' cache, so it is only done where it has to be.
                request.tool_choice = ToolChoice::None;
                self.ask_quietly(&request).await?
            }
            false => reply,
        };
        let failed = |why: &str| Err(NoSummary::Failed(why.to_owned()));
        match reply.finish {
            Finish::Length | Finish::Window => {
                failed("The model's summary was cut off at its token limit.")
            }
            Finish::Early(_) => failed("The model's summary ended early."),
            Finish::Refused(_) | Finish::ContentFilter => failed("The model refused to write one."),
            _ if reply.is_blank() => failed("The model wrote nothing."),
            _ => Ok(reply.text()),
        }
    }

    async fn ask_quietly(&self, request: &ChatRequest) -> Result<ModelReply, NoSummary> {
        let mut reader = ReplyReader::default();
        let mut sink = |event: StreamEvent| {
            if let Some(event) = self.retrying(&event) {
                self.shared.executor.emacs.emit(event);
            }
        };
        let began = Instant::now();
        let reply = self
            .shared
            .http
            .stream_chat(self.provider, request, &mut reader, &mut sink);
        let reply = tokio::select! {
            () = self.batch.cancel.cancelled() => return Err(NoSummary::Cancelled),
            reply = reply => reply,
        };
        match reply {
            Ok(reply) => {
                self.count(request, &reply, began.elapsed());
                Ok(reply)
            }
            Err(error) if error.kind == FailureKind::Overflow || is_unknown_refusal(&error) => {
                Err(NoSummary::Overflow(error.to_string()))
            }
            Err(error) => Err(NoSummary::Failed(error.to_string())),
        }
    }

    /// About how many tokens a request for HISTORY has.
    pub(super) fn tokens(&self, history: &Conversation) -> u64 {
        let request = self.request(history.for_model(), RequestPosition::Later);
        self.shared
            .ratios
            .estimate(&self.provider.origin(), request_bytes(&request))
    }

    /// The bytes of a request without any message.
    fn overhead(&self) -> usize {
        let request = self.request(Messages::default(), RequestPosition::Later);
        request_bytes(&request) + REQUEST.len()
    }

    fn again(&self) -> Again {
        match self.listed.get(more::READ_RESULT) {
            Some(_) => Again::ReadResult,
            None => Again::Call,
        }
    }

    fn trim(&self, history: &mut Conversation, trimmed: EntryContent) {
        if let EntryContent::Trim { results, .. } = &trimmed {
            let plural = if results.len() == 1 { "" } else { "s" };
            self.tell_notice(format!(
                "The model reads only the beginning of {} old result{plural} now, to save space.",
                results.len()
            ));
            for id in results {
                if let Some(message) = history.entry(*id).and_then(|entry| entry.message()) {
                    self.batch.past.keep(id.0, message);
                }
            }
        }
        history.append(trimmed);
        self.tell_lost("old results were trimmed");
    }

    fn tell_summarized(
        &self,
        history: &Conversation,
        before: u64,
        messages: usize,
        summary: String,
    ) {
        // The next message says all of its surroundings.
        held(self.told).forget();
        let after = self.tokens(history);
        self.shared.executor.emacs.emit(Event::Summarized {
            session: self.batch.session,
            messages,
            before,
            after,
            summary,
        });
        self.tell_filled(after);
        self.tell_lost("the conversation was summarized");
    }

    fn tell_lost(&self, why: &'static str) {
        self.shared.executor.emacs.emit(Event::CacheLost {
            session: self.batch.session,
            why,
        });
    }

    pub(super) fn tell_filled(&self, tokens: u64) {
        self.shared.executor.emacs.emit(Event::WindowFilled {
            session: self.batch.session,
            tokens,
            window: self.settings.window(),
        });
    }

    pub(super) fn tell_notice(&self, text: String) {
        let session = self.batch.session;
        self.shared
            .executor
            .emacs
            .emit(Event::Notice { session, text });
    }
}

/// The bytes of the message ID of HISTORY.
fn size_of(history: &Conversation, id: EntryId) -> usize {
    let message = history.entry(id).and_then(|entry| entry.message());
    message.map_or(0, |message| message_bytes(message))
}

/// Whether ERROR may mean that a conversation is too long.
fn is_unknown_refusal(error: &ProviderError) -> bool {
    matches!(error.kind, FailureKind::Refused(400 | 413 | 422))
}

/// Why there is no summary.
enum NoSummary {
    Cancelled,
    Overflow(String),
    Failed(String),
}

fn share(bytes: usize, share: f64) -> usize {
    (bytes as f64 * share) as usize
}

// Which old results are trimmed, up to where a summary replaces the messages, and the words around it. Pure.

/// What a model is asked for.
pub const REQUEST: &str = include_str!("summary_request.md");

/// What is said of a message that was taken back because it is too long.
const NOT_KEPT: &str = "It is not in the conversation, so the chat can go on. M-p brings it back to the prompt: send less of it, or choose a model with a larger window by M-x agent-q-set-model.";

/// Results longer than this are trimmed, to so many bytes.
const LONG_RESULT: usize = 2048;
const KEPT_OF_RESULT: usize = 600;

/// How much of the user's message that a turn works on is repeated behind a summary.
const LONGEST_TASK: usize = 8 * 1024;

/// A place at which a conversation can be cut: an answer stays together with the results of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// What is before it ends with this.
    pub through: EntryId,
    /// How many bytes are before it.
    pub before: usize,
}

fn cuts(live: &Live<'_>) -> (Vec<Cut>, usize) {
    let (mut cuts, mut bytes, mut last) = (Vec::new(), 0, None);
    for entry in live.read() {
        let Some(message) = entry.message() else {
            continue;
        };
        // What begins with a result would have lost its call.
        if let Some(through) = last
            && !matches!(message.as_ref(), ChatMessage::Tool { .. })
        {
            cuts.push(Cut {
                through,
                before: bytes,
            });
        }
        bytes += message_bytes(message);
        last = Some(entry.id);
    }
    (cuts, bytes)
}

/// Up to where messages have to be summarized so that those after it have at most KEPT bytes, if that can
/// be; none when there is nothing to summarize.
#[must_use]
pub fn cut(live: &Live<'_>, kept: usize) -> Option<Cut> {
    let (cuts, all) = cuts(live);
    let fits = cuts.iter().find(|cut| all - cut.before <= kept);
    fits.or(cuts.last()).copied()
}

/// Up to where messages can be summarized at once by a model that takes so many BYTES.
#[must_use]
pub fn head(live: &Live<'_>, bytes: usize) -> Option<Cut> {
    let (cuts, _) = cuts(live);
    let fits = cuts.iter().rev().find(|cut| cut.before <= bytes);
    fits.or(cuts.first()).copied()
}

/// The old results worth trimming that are further back than the newest KEPT bytes: an entry, and how
/// many bytes it saves. None when there are none.
#[must_use]
pub fn trim(live: &Live<'_>, kept: usize, again: Again) -> Option<(EntryContent, usize)> {
    let (mut behind, mut saved) = (0, 0);
    let mut results = Vec::new();
    for entry in live.read().iter().rev() {
        let Some(message) = entry.message() else {
            continue;
        };
        if let ChatMessage::Tool { content, .. } = message.as_ref()
            && behind > kept
            && content.len() > LONG_RESULT
            && !live.trimmed.contains_key(&entry.id)
        {
            results.push(entry.id);
            saved += content.len() - KEPT_OF_RESULT;
        }
        behind += message_bytes(message);
    }
    results.reverse();
    let content = EntryContent::Trim {
        results,
        kept: KEPT_OF_RESULT,
        again,
    };
    (saved > 0).then_some((content, saved))
}

/// What the model reads in place of the messages up to THROUGH: SURROUNDINGS, as a message would say them,
/// SUMMARY, and the message of the user's that the running turn works on, if that is among them.
#[must_use]
fn summary_message(
    live: &Live<'_>,
    through: EntryId,
    surroundings: Option<&str>,
    summary: &str,
) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(surroundings) = surroundings {
        let _ = write!(text, "{surroundings}\n\n");
    }
    let _ = write!(
        text,
        "(The conversation before this was too long. These are your own notes on it; what they don't say has to be looked up again.)\n\n{}",
        summary.trim()
    );
    if let Some(task) = task_among(live, through) {
        let _ = write!(
            text,
            "\n\n(You are working on this message of the user's:)\n\n{}",
            beginning(task)
        );
    }
    text
}

/// The user's latest message, where it would be summarized.
fn task_among<'a>(live: &Live<'a>, through: EntryId) -> Option<&'a str> {
    let last = live.messages.iter().rev().find_map(|entry| {
        match (&entry.what, entry.message()?.as_ref()) {
            (EntryContent::Asked { shown, .. }, ChatMessage::User(said)) => {
                Some((entry.id, shown.as_deref().unwrap_or(&said.text)))
            }
            _ => None,
        }
    });
    last.filter(|(id, _)| *id <= through).map(|(_, text)| text)
}

fn beginning(text: &str) -> &str {
    let end = (0..=LONGEST_TASK.min(text.len()))
        .rev()
        .find(|&index| text.is_char_boundary(index));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::super::conversation::Conversation;
    use super::*;
    use crate::protocol::CallOutcome;
    use crate::provider::{MessagePart, ModelOrigin};

    fn result(size: usize) -> ChatMessage {
        ChatMessage::Tool {
            call_id: "c".to_owned(),
            content: "x".repeat(size),
            outcome: CallOutcome::Succeeded,
        }
    }

    fn answer(text: &str) -> ChatMessage {
        ChatMessage::Assistant {
            origin: ModelOrigin::default(),
            parts: vec![MessagePart::text(text.to_owned())],
        }
    }

    fn conversation() -> Conversation {
        let mut it = Conversation::default();
        it.ask("<context> one".to_owned(), "one");
        it.add(answer("calling"));
        it.add(result(5000));
        it.add(result(5000));
        it.add(answer("so"));
        it.ask("two".to_owned(), "two");
        it.add(answer("calling"));
        it.add(result(5000));
        it
    }

    #[test]
    fn results_stay_with_their_call() {
        let it = conversation();
        let live = it.live();
        let through = |kept| cut(&live, kept).unwrap().through;
        // The newest call and its result are kept, however large they are.
        assert_eq!(through(0), EntryId(6));
        assert_eq!(through(6000), EntryId(4));
        assert_eq!(through(12_000), EntryId(4));
        assert_eq!(through(100_000), EntryId(1));
        let head_through = |bytes| head(&live, bytes).unwrap().through;
        assert_eq!(head_through(0), EntryId(1));
        assert_eq!(head_through(9_000), EntryId(1));
        assert_eq!(head_through(11_000), EntryId(6));
        let mut short = Conversation::default();
        assert_eq!(cut(&short.live(), 0), None);
        short.ask("one".to_owned(), "one");
        assert_eq!(cut(&short.live(), 0), None);
    }

    #[test]
    fn old_long_results_are_trimmed_once() {
        let mut it = conversation();
        let (entry, saved) = trim(&it.live(), 5000, Again::ReadResult).unwrap();
        assert_eq!(saved, 2 * (5000 - KEPT_OF_RESULT));
        it.append(entry);
        assert_eq!(trim(&it.live(), 5000, Again::ReadResult), None);
    }

    #[test]
    fn the_task_is_repeated_where_it_is_summarized() {
        let mut it = Conversation::default();
        it.ask("<context> do it".to_owned(), "do it");
        it.add(answer("calling"));
        it.add(result(1));
        it.add(answer("calling"));
        let text = summary_message(
            &it.live(),
            EntryId(3),
            Some("<agent-q-context/>"),
            " Notes. ",
        );
        assert!(
            text.starts_with("<agent-q-context/>\n\n(The conversation"),
            "{text}"
        );
        assert!(text.contains("\n\nNotes.\n\n"), "{text}");
        assert!(text.ends_with("the user's:)\n\ndo it"), "{text}");
        let text = summary_message(&it.live(), EntryId(0), None, "Notes.");
        assert!(text.ends_with("Notes."), "{text}");
    }
}
