// SPDX-License-Identifier: GPL-3.0-or-later
//! What a session does when its time has come: a turn with the model, a call from the console, an undoing,
//! or showing what would be sent. `mod` keeps the order, and takes in what Emacs asks meanwhile.

use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;

use super::agenda::{Agenda, Work};
use super::budget::Budget;
use super::compaction::RoomMade;
use super::context::{Told, with_systems};
use super::conversation::{Conversation, EntryContent, EntryId, Opening};
use super::guidance::{self, Guide};
use super::prefix::{Prefix, Reading};
use super::settings::Settings;
use super::turn::{AtLimit, Shared, Turn};
use super::{skills, tokens};
use crate::builtin::files::undo::{self, Undone};
use crate::builtin::image::systems::in_a_line;
use crate::call::batch::BatchContext;
use crate::protocol::{Event, Sending, TurnId, TurnOutcome, UndoneTurn, UserMessage};
use crate::provider::http::shown_request;
use crate::provider::{ChatMessage, Messages, RequestPosition, Said};
use crate::runtime::held;
use crate::tool::console;
use crate::tool::registry::Registry;

const NO_MODEL: &str = "No model is set up. M-x agent-q-doctor says what to do; tools work without one, for example /describe_symbol mapcar.";

/// A conversation of fewer bytes need not be summarized, even where the user asks for it.
const COMPACTED_BELOW: usize = 8 * 1024;

/// What work is done with.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub shared: &'a Shared,
    pub settings: &'a Settings,
    pub batch: &'a BatchContext,
    pub listed: &'a Registry,
    pub agenda: &'a Agenda,
    pub prefix: &'a Mutex<Prefix>,
    /// Where the user was, as the model was told last.
    pub told: &'a Mutex<Told>,
    /// Whether the user was told that the model writes calls as text.
    pub unparsed_told: &'a OnceLock<()>,
    /// Where in the conversation each turn begins.
    pub openings: &'a [Opening],
    pub budget: &'a Budget,
}

impl Means<'_> {
    /// Does WORK, in the conversation HISTORY.
    pub async fn run(&self, work: Work, history: &mut Conversation) -> TurnOutcome {
        match work {
            Work::Message(message) => self.converse(message, history).await,
            Work::Console(line) => self.run_console(&line.text).await,
            Work::Undo(which) => {
                self.undo(which).await;
                TurnOutcome::Finished
            }
            Work::PlanRewind { question, turn } => {
                let messages = self.messages_since(turn, history);
                self.plan_rewind(question, turn, messages).await;
                TurnOutcome::Finished
            }
            Work::Rewind {
                question,
                turn,
                parts,
            } => {
                // Where the user is may have been told in what is taken back.
                held(self.told).forget();
                self.rewind(question, turn, &parts, history).await;
                TurnOutcome::Finished
            }
            Work::UndoRewind { question, rewind } => {
                self.undo_rewind(question, rewind, history).await;
                TurnOutcome::Finished
            }
            Work::ShowRequest(question, message) => {
                let plan = self.settings.plan;
                let message = match message {
                    Some(message) => Some(self.with_systems(message).await),
                    None => None,
                };
                let message =
                    message.map(|message| held(self.told).clone().take_planning(message, plan));
                let now = self.instructions().await.0;
                let request = self.shown_request(history.for_model(), message, now.as_deref());
                self.emit(Event::RequestShown { question, request });
                TurnOutcome::Finished
            }
            Work::ShowWindow(question) => {
                let now = self.instructions().await.0;
                let report = self.window_report(history, now.as_deref());
                self.emit(Event::WindowShown { question, report });
                TurnOutcome::Finished
            }
            Work::Compact => {
                let now = self.instructions().await.0;
                match self.turn(now.as_deref()) {
                    Some(turn) => self.compact(&turn, history).await,
                    None => TurnOutcome::Failed(NO_MODEL.to_owned()),
                }
            }
            Work::UndoCompaction => {
                self.undo_compaction(history);
                TurnOutcome::Finished
            }
        }
    }

    /// Runs a turn that the user's MESSAGE opens.
    async fn converse(&self, message: UserMessage, history: &mut Conversation) -> TurnOutcome {
        if self.settings.provider.is_none() {
            return TurnOutcome::Failed(NO_MODEL.to_owned());
        }
        let (message, ()) = tokio::join!(self.with_systems(message), self.begin_reading());
        let Some(turn) = self.turn(None) else {
            return TurnOutcome::Failed(NO_MODEL.to_owned());
        };
        history.begin_turn();
        self.batch.place.note(message.provenance);
        let opening = match message.sending {
            Sending::New => self.ask(message, history),
            Sending::Again => self.ask_again(message, history),
        };
        let outcome = turn.run(history, opening).await;
        if !history.holds(opening) {
            // What the message said went with it.
            held(self.told).forget();
        }
        outcome
    }

    /// MESSAGE, whose block names the project's systems, if it has one.
    async fn with_systems(&self, mut message: UserMessage) -> UserMessage {
        if self.settings.ground.root.is_none() {
            return message;
        }
        if let Some(context) = &mut message.context {
            let image = self.settings.connection.as_deref();
            let work = self.shared.executor.context(self.batch);
            if let Some(systems) = in_a_line(&work, image).await {
                *context = with_systems(context, &systems);
            }
        }
        message
    }

    fn ask(&self, message: UserMessage, history: &mut Conversation) -> EntryId {
        let message = held(self.told).take_planning(message, self.settings.plan);
        let text = self.batch.with_news(message.for_model());
        let pictures = message.pictures;
        history.ask(Said { text, pictures }, &message.text)
    }

    /// Adds MESSAGE, which was sent before, as the model was to read it then; what is new since stands behind it.
    fn ask_again(&self, message: UserMessage, history: &mut Conversation) -> EntryId {
        let Some((earlier, read)) = history.asked_last(&message.text) else {
            return self.ask(message, history);
        };
        if history.ends_with(earlier) {
            // Room that was made since then stays made.
            let live = history.live();
            let summary = live.compaction.filter(|entry| entry.id > earlier);
            let summary = summary.map(|entry| entry.what.clone());
            history.append(EntryContent::TakenBack { from: earlier });
            if let Some(summary) = summary {
                history.append(summary);
            }
        }
        let message = held(self.told).take_planning(message, self.settings.plan);
        let Said { text, pictures } = read;
        let text = match &message.context {
            Some(news) => format!("{text}\n\n{news}"),
            None => text,
        };
        let text = self.batch.with_news(text);
        history.ask(Said { text, pictures }, &message.text)
    }

    /// Has the model summarize all but the latest of HISTORY, because the user wants it.
    async fn compact(&self, turn: &Turn<'_>, history: &mut Conversation) -> TurnOutcome {
        let kept = COMPACTED_BELOW / 2;
        let made = turn.compact(history, kept).await;
        let text = match made {
            RoomMade::Some => return TurnOutcome::Finished,
            RoomMade::Cancelled => return TurnOutcome::Cancelled,
            RoomMade::None => "There is nothing to summarize yet.".to_owned(),
            RoomMade::Failed(why) => {
                format!("Could not summarize; the conversation is unchanged. {why}")
            }
        };
        turn.tell_notice(text);
        TurnOutcome::Finished
    }

    fn undo_compaction(&self, history: &mut Conversation) {
        let id = history.live().compaction.map(|entry| entry.id);
        let text = match id {
            Some(id) => {
                history.append(EntryContent::Undone(id));
                held(self.told).forget();
                "The summary is undone: the model reads the messages themselves again."
            }
            None => "The model reads no summary.",
        };
        let (session, text) = (self.batch.session, text.to_owned());
        self.emit(Event::Notice { session, text });
    }

    /// What fills the model's window.
    fn window_report(&self, history: &Conversation, now: Option<&str>) -> Result<Value, String> {
        let turn = self.turn(now).ok_or(NO_MODEL)?;
        let live = history.live();
        let request = turn.request(live.for_model(), RequestPosition::First);
        let origin = turn.provider.origin();
        let tokens = |bytes| self.shared.ratios.estimate(&origin, bytes);
        let mut report = tokens::window_report(&request, &live, tokens);
        report["window"] = self.settings.window().into();
        report["compacts_at"] = self.settings.compacts_at().into();
        report["summary"] = live.summary().into();
        Ok(report)
    }

    /// A turn, if there is a model for it. NOW are the instructions for a model that has read none.
    fn turn(&self, now: Option<&str>) -> Option<Turn<'_>> {
        Some(Turn {
            shared: self.shared,
            settings: self.settings,
            provider: self.settings.provider.as_ref()?,
            batch: self.batch,
            listed: self.listed,
            sections: held(self.prefix).sections(now),
            agenda: self.agenda,
            prefix: self.prefix,
            told: self.told,
            unparsed_told: self.unparsed_told,
            budget: self.budget,
            at_limit: AtLimit::Ask,
        })
    }

    /// The instructions of the user and the project, as they are.
    async fn instructions(&self) -> (Option<String>, Vec<Guide>) {
        let settings = self.settings.clone();
        let reading = tokio::task::spawn_blocking(move || (settings.guides(), settings.skills()));
        let (guides, skills) = reading.await.unwrap_or_default();
        let instructions = self.settings.instructions.as_deref();
        let sections = guidance::sections(instructions, &guides, &skills::section(&skills));
        (sections, guides)
    }

    /// Takes in that a message goes to the model. Tells the user what of the project the model reads, and
    /// once when it goes on with other instructions than there are.
    async fn begin_reading(&self) {
        let (now, guides) = self.instructions().await;
        let reading = held(self.prefix).begin(now.as_deref());
        let notice = match reading {
            Reading::First => guidance::notice(&guides),
            Reading::Outdated => Some("agent-q-instructions or AGENTS.md changed. This chat goes on with what its model has read, for the sake of the provider's cache; M-x agent-q-sync-instructions takes over the new text.".to_owned()),
            Reading::Settled => None,
        };
        if let Some(text) = notice {
            let session = self.batch.session;
            self.emit(Event::Notice { session, text });
        }
    }

    async fn run_console(&self, line: &str) -> TurnOutcome {
        let call = match console::parse(line, &self.batch.tools) {
            Ok(call) => call,
            Err(failure) => return TurnOutcome::Failed(failure.message),
        };
        self.shared.executor.run(&[call], self.batch).await;
        match self.batch.cancel.is_cancelled() {
            true => TurnOutcome::Cancelled,
            false => TurnOutcome::Finished,
        }
    }

    async fn undo(&self, which: UndoneTurn) {
        let context = self.shared.executor.context(self.batch);
        let Undone {
            text,
            turn,
            left,
            definitions,
            systems,
        } = undo::undo_turn(&context, which).await;
        self.shared.executor.approvals.files_changed();
        let session = self.batch.session;
        self.emit(Event::Notice { session, text });
        if let Some(turn) = turn {
            self.emit(Event::TurnUndone {
                session,
                turn: TurnId(turn),
                left,
                definitions,
                systems,
            });
        }
    }

    /// What would be sent after HISTORY with MESSAGE; a sentence when nothing can be.
    fn shown_request(
        &self,
        mut history: Messages,
        message: Option<UserMessage>,
        now: Option<&str>,
    ) -> Result<Value, String> {
        let turn = self.turn(now).ok_or(NO_MODEL)?;
        if let Some(message) = message {
            let text = self.batch.previewed(&message.for_model());
            let pictures = message.pictures;
            history.push(Arc::new(ChatMessage::User(Said { text, pictures })));
        }
        let request = turn.request(history, RequestPosition::First);
        shown_request(turn.provider, &request).map_err(|error| error.to_string())
    }

    pub(super) fn emit(&self, event: Event) {
        self.shared.executor.emacs.emit(event);
    }
}
