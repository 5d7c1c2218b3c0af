// SPDX-License-Identifier: GPL-3.0-or-later
//! Going back to before a message of the user's, in the conversation and in files: what it would take
//! back, doing it, and undoing it. What was changed in the image is Emacs's part.

use std::sync::Arc;

use serde_json::{Value, json};

use super::conversation::{Conversation, EntryContent, EntryId};
use super::work::Means;
use crate::builtin::files::rewind;
use crate::builtin::files::undo::{self, FilesPutBack};
use crate::protocol::{Event, QuestionId, RewindPart, TurnId};
use crate::provider::ChatMessage;

const UNKNOWN: &str = "This message is not part of the conversation any more.";

impl Means<'_> {
    /// How many messages of the user's and the model's came since before TURN, if it is known.
    pub(super) fn messages_since(&self, turn: u64, history: &Conversation) -> Option<usize> {
        self.opening(turn).map(|from| messages_from(history, from))
    }

    /// Answers QUESTION with what going back to before TURN would take back, MESSAGES and more.
    pub(super) async fn plan_rewind(
        &self,
        question: QuestionId,
        turn: u64,
        messages: Option<usize>,
    ) {
        let answer = match messages {
            None => Err(UNKNOWN.to_owned()),
            Some(messages) => {
                let context = self.shared.executor.context(self.batch);
                let survey = rewind::survey(&context, turn).await;
                Ok(json!({
                    "messages": messages,
                    "files": survey.places,
                    "lost": survey.lost,
                }))
            }
        };
        self.emit(Event::ChatsAnswered { question, answer });
    }

    /// Goes back to before TURN in PARTS, and answers QUESTION with what came of it.
    pub(super) async fn rewind(
        &self,
        question: QuestionId,
        turn: u64,
        parts: &[RewindPart],
        history: &mut Conversation,
    ) {
        let Some(from) = self.opening(turn) else {
            let answer = Err(UNKNOWN.to_owned());
            return self.emit(Event::ChatsAnswered { question, answer });
        };
        let number = TurnId::next();
        let mut files = FilesPutBack::default();
        let mut loaded = undo::Loaded::default();
        if parts.contains(&RewindPart::Files) {
            let context = self.shared.executor.context(self.batch);
            files = rewind::rewind(&context, turn, number.0).await;
            self.shared.executor.approvals.files_changed();
            if !files.done.is_empty() {
                let systems = undo::image_changes(&context).await.systems_since(turn);
                loaded = undo::still_loaded(&context, &systems, "what was loaded from them").await;
            }
        }
        if parts.contains(&RewindPart::Conversation) {
            if from < history.next_id() {
                history.append(EntryContent::Rewind { from });
            }
            self.emit(Event::Rewound {
                session: self.batch.session,
                turn: TurnId(turn),
                rewind: number,
            });
            if !loaded.words.is_empty() {
                let words = "Some files are as they were before later work on them.";
                self.batch.workspace.tell_later(words);
            }
        } else {
            self.tell_model(&files);
        }
        loaded.tell_later(&self.batch.workspace);
        let mut answer = put_back_json(&files);
        answer["rewind"] = json!(number.0);
        answer["systems"] = json!(loaded.systems);
        self.emit(Event::ChatsAnswered {
            question,
            answer: Ok(answer),
        });
    }

    /// Undoes the rewind of the number REWIND, and answers QUESTION with what came of it.
    pub(super) async fn undo_rewind(
        &self,
        question: QuestionId,
        rewind: u64,
        history: &mut Conversation,
    ) {
        let answer = self.try_to_undo_rewind(rewind, history).await;
        self.emit(Event::ChatsAnswered { question, answer });
    }

    async fn try_to_undo_rewind(
        &self,
        rewind: u64,
        history: &mut Conversation,
    ) -> Result<Value, String> {
        if self.openings.last().is_some_and(|last| last.turn > rewind) {
            return Err(
                "The chat went on since, so the rewind can't be undone any more.".to_owned(),
            );
        }
        let context = self.shared.executor.context(self.batch);
        let files = rewind::unwind(&context, rewind).await?;
        self.shared.executor.approvals.files_changed();
        let last = history.entries().last();
        if let Some(entry) = last.filter(|entry| matches!(entry.what, EntryContent::Rewind { .. }))
        {
            let id = entry.id;
            history.append(EntryContent::Undone(id));
        } else {
            self.tell_model(&files);
        }
        self.emit(Event::Unwound {
            session: self.batch.session,
            rewind: TurnId(rewind),
        });
        Ok(put_back_json(&files))
    }

    /// Has the model told what became of FILES, as it remembers what they were before.
    fn tell_model(&self, files: &FilesPutBack) {
        if !files.done.is_empty() {
            self.batch.workspace.tell_later(format!(
                "The user put back some files as they were:\n- {}\nRead these files again before you go on.",
                files.done.join("\n- ")
            ));
        }
    }

    fn opening(&self, turn: u64) -> Option<EntryId> {
        let opening = self.openings.iter().rev().find(|it| it.turn == turn);
        opening.map(|opening| opening.entry)
    }
}

fn put_back_json(files: &FilesPutBack) -> Value {
    json!({"done": files.done, "left": files.left})
}

/// How many messages of the user's and the model's there are from FROM on.
fn messages_from(history: &Conversation, from: EntryId) -> usize {
    let messages = history.live().messages;
    let said = messages.iter().filter(|entry| {
        let result = |message: &Arc<ChatMessage>| matches!(**message, ChatMessage::Tool { .. });
        entry.id >= from && !entry.message().is_some_and(result)
    });
    said.count()
}
