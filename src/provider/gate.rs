// SPDX-License-Identifier: GPL-3.0-or-later
//! The last gate before a history leaves: what comes out of it is in an order that every host accepts. Each
//! call has one result, right behind its message, in the order of the calls; the user speaks first; no message
//! is empty; where a message can't have several pieces, no side speaks twice in a row. What is in order passes
//! as it is, without a copy. The ids of calls are for `SentCalls`, as each host takes different ones. Pure.

use std::sync::Arc;

use crate::protocol::CallOutcome;

use super::ProviderSettings;
use super::history::{
    ChatMessage, Dialect, MessagePart, Messages, ModelOrigin, PartContent, Said, calls_of, texts_of,
};
use super::model_facts::counts_turns;

/// The result of a call that has none.
const NO_RESULT: &str = "There is no result: this call was never finished.";

/// What the user says first where nothing else of the user's comes first.
const OPENING: &str = "(Earlier messages were left out.)";

/// What the model says between results and the user's words to a template that counts turns: it doesn't count
/// calls and their results.
const NOTED: &str = "Noted.";

/// What stands for a blank message of the user's.
const BLANK: &str = "(nothing)";

/// What a model that takes no pictures reads in their place.
const UNSEEN: &str = "(Pictures that came with this are left out, as you can't see any.)";

/// What separates messages that are made one.
const BETWEEN: &str = "\n\n";

/// MESSAGES as they go to the model of SETTINGS.
#[must_use]
pub fn passed(messages: &Messages, settings: &ProviderSettings) -> Messages {
    let all = messages.shared();
    let joins = matches!(settings.dialect, Dialect::ChatCompletions | Dialect::Ollama);
    let is_blind = settings.facts.vision == Some(false);
    let mut gate = Gate {
        reader: settings.origin(),
        joins,
        counts_turns: joins && counts_turns(settings),
        passed: Vec::with_capacity(all.len()),
    };
    // Where the results are that went with their calls.
    let mut paired = Vec::new();
    for (index, message) in all.iter().enumerate() {
        match message.as_ref() {
            ChatMessage::System(_) => gate.passed.push(Arc::clone(message)),
            ChatMessage::User(said) if is_blind && !said.pictures.is_empty() => {
                gate.user(Arc::new(ChatMessage::User(without_pictures(said))));
            }
            ChatMessage::User(_) => gate.user(Arc::clone(message)),
            ChatMessage::Assistant { origin, parts } if gate.is_silent(origin, parts) => {}
            ChatMessage::Assistant { origin, parts } => {
                gate.assistant(origin, parts, message);
                paired = gate.results(parts, all, index + 1);
            }
            ChatMessage::Tool { .. } if paired.contains(&index) => {}
            ChatMessage::Tool { .. } => gate.user(Arc::new(message.with_calls_as_text())),
        }
    }
    gate.passed.into()
}

struct Gate {
    /// Who is to read the messages.
    reader: ModelOrigin,
    /// Whether messages of one side in a row are made one here, as the dialect does not.
    joins: bool,
    counts_turns: bool,
    passed: Vec<Arc<ChatMessage>>,
}

impl Gate {
    /// Whether nothing of an answer by WHO would be sent.
    fn is_silent(&self, who: &ModelOrigin, parts: &[MessagePart]) -> bool {
        let keeps_seals = *who == self.reader && !self.joins;
        texts_of(parts).all(|text| text.trim().is_empty())
            && calls_of(parts).next().is_none()
            && !(keeps_seals && parts.iter().any(|it| it.content == PartContent::Sealed))
    }

    /// Adds MESSAGE, the user's.
    fn user(&mut self, message: Arc<ChatMessage>) {
        let ChatMessage::User(said) = message.as_ref() else {
            return;
        };
        let is_blank = said.text.trim().is_empty() && said.pictures.is_empty();
        if self.counts_turns
            && let Some(ChatMessage::Tool { .. }) = self.passed.last().map(AsRef::as_ref)
        {
            self.passed.push(Arc::new(ChatMessage::Assistant {
                origin: ModelOrigin::default(),
                parts: vec![MessagePart::text(NOTED.to_owned())],
            }));
        }
        match self.passed.last_mut() {
            Some(last) if self.joins && matches!(last.as_ref(), ChatMessage::User(_)) => {
                if let (false, ChatMessage::User(before)) = (is_blank, Arc::make_mut(last)) {
                    before.text.push_str(BETWEEN);
                    before.text.push_str(&said.text);
                    before.pictures.extend_from_slice(&said.pictures);
                }
            }
            _ if is_blank => self.say(BLANK),
            _ => self.passed.push(message),
        }
    }

    /// Lets the user say TEXT.
    fn say(&mut self, text: &str) {
        let message = ChatMessage::User(text.into());
        self.passed.push(Arc::new(message));
    }

    /// Adds MESSAGE, which WHO wrote: PARTS.
    fn assistant(&mut self, who: &ModelOrigin, parts: &[MessagePart], message: &Arc<ChatMessage>) {
        match self.passed.last().map(AsRef::as_ref) {
            None | Some(ChatMessage::System(_)) => self.say(OPENING),
            Some(ChatMessage::Assistant {
                origin,
                parts: before,
            }) if self.joins => {
                let parts = joined(before, origin == who, parts);
                self.passed.pop();
                self.passed.push(Arc::new(ChatMessage::Assistant {
                    origin: who.clone(),
                    parts,
                }));
                return;
            }
            Some(_) => {}
        }
        self.passed.push(Arc::clone(message));
    }

    /// Adds a result for each call among PARTS: the first one of its id that is left among those of ALL from
    /// FIRST up to the next answer. Returns where they are.
    fn results(
        &mut self,
        parts: &[MessagePart],
        all: &[Arc<ChatMessage>],
        first: usize,
    ) -> Vec<usize> {
        let is_answer = |it: &Arc<ChatMessage>| matches!(**it, ChatMessage::Assistant { .. });
        let answer = all[first..].iter().position(is_answer);
        let end = answer.map_or(all.len(), |behind| first + behind);
        let mut paired = Vec::new();
        for call in calls_of(parts) {
            let is_its = |index: &usize| matches!(all[*index].as_ref(), ChatMessage::Tool { call_id, .. } if *call_id == call.id);
            let found = (first..end).find(|index| is_its(index) && !paired.contains(index));
            paired.extend(found);
            self.passed.push(match found {
                Some(index) => Arc::clone(&all[index]),
                None => Arc::new(ChatMessage::Tool {
                    call_id: call.id.clone(),
                    content: NO_RESULT.to_owned(),
                    outcome: CallOutcome::Failed,
                }),
            });
        }
        paired
    }
}

/// SAID for a model that takes no pictures.
fn without_pictures(said: &Said) -> Said {
    format!("{}{BETWEEN}{UNSEEN}", said.text).into()
}

/// BEFORE and AFTER as one answer, of BEFORE what the one who wrote AFTER understands.
fn joined(before: &[MessagePart], is_same: bool, after: &[MessagePart]) -> Vec<MessagePart> {
    let is_told = |part: &&MessagePart| is_same || matches!(part.content, PartContent::Text(_));
    let between = MessagePart::text(BETWEEN.to_owned());
    before
        .iter()
        .filter(is_told)
        .chain([&between])
        .chain(after)
        .cloned()
        .collect()
}
