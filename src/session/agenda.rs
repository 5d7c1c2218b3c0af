// SPDX-License-Identifier: GPL-3.0-or-later
//! What a session has yet to do, in order: the one place where the user's messages wait. Emacs's thread
//! puts them in and takes them out by their ids; the session's actor does what is first.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::protocol::{
    LimitAnswer, MessageId, Op, QuestionId, RewindPart, UndoneTurn, UserMessage,
};
use crate::runtime::held;

/// Something for a session to do.
#[derive(Debug)]
pub enum Work {
    Message(UserMessage),
    Console(UserMessage),
    Undo(UndoneTurn),
    ShowRequest(QuestionId, Option<UserMessage>),
    ShowWindow(QuestionId),
    Compact,
    UndoCompaction,
    PlanRewind {
        question: QuestionId,
        turn: u64,
    },
    Rewind {
        question: QuestionId,
        turn: u64,
        parts: Vec<RewindPart>,
    },
    UndoRewind {
        question: QuestionId,
        rewind: u64,
    },
}

impl Work {
    /// Whether it shows something and does nothing. Who cancels a turn still wants to see what they asked for.
    fn only_shows(&self) -> bool {
        matches!(self, Self::ShowRequest(..) | Self::ShowWindow(_))
    }

    /// The message that the user sent, if it is one.
    fn sent(&self) -> Option<MessageId> {
        match self {
            Self::Message(message) | Self::Console(message) => Some(message.id),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub struct Agenda {
    outstanding: Mutex<Outstanding>,
    /// Wakes the actor.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Outstanding {
    work: VecDeque<Work>,
    /// What the running turn is to get; what it doesn't take begins the next one.
    steering: Vec<UserMessage>,
    /// Cancels what is being done.
    running: Option<CancellationToken>,
    /// Where a turn that met a limit waits for an answer.
    limit: Option<oneshot::Sender<LimitAnswer>>,
    closed: bool,
}

impl Agenda {
    /// Takes in OP, which is done when its turn comes.
    pub fn tell(&self, op: Op) {
        let mut outstanding = held(&self.outstanding);
        let work = match op {
            Op::AnswerLimit(answer) => return outstanding.settle(answer),
            Op::Steer(message) if outstanding.busy() => {
                outstanding.settle(LimitAnswer::GoOn);
                outstanding.steering.push(message);
                return;
            }
            Op::Submit(message) | Op::Steer(message) => Work::Message(message),
            Op::Console(line) => Work::Console(line),
            Op::ShowRequest(question, message) => Work::ShowRequest(question, message),
            Op::ShowWindow(question) => Work::ShowWindow(question),
            Op::Compact => Work::Compact,
            Op::UndoCompaction => Work::UndoCompaction,
            Op::UndoTurn(which) => Work::Undo(which),
            Op::PlanRewind(question, turn) => Work::PlanRewind { question, turn },
            Op::Rewind {
                question,
                turn,
                parts,
            } => Work::Rewind {
                question,
                turn,
                parts,
            },
            Op::UndoRewind(question, rewind) => Work::UndoRewind { question, rewind },
        };
        if work.sent().is_some() {
            // Who sends something else has answered a turn that asks whether it goes on.
            outstanding.settle(LimitAnswer::Stop);
        }
        outstanding.work.push_back(work);
        self.changed.notify_one();
    }

    /// Takes back the message ID; whether it still waited.
    #[must_use]
    pub fn take_back(&self, id: MessageId) -> bool {
        let mut outstanding = held(&self.outstanding);
        let before = outstanding.work.len() + outstanding.steering.len();
        outstanding.work.retain(|work| work.sent() != Some(id));
        outstanding.steering.retain(|message| message.id != id);
        outstanding.work.len() + outstanding.steering.len() < before
    }

    /// Cancels what is being done. Gives the messages that waited, which are dropped.
    pub fn cancel(&self) -> Vec<MessageId> {
        let mut outstanding = held(&self.outstanding);
        let steering = std::mem::take(&mut outstanding.steering);
        let mut dropped: Vec<MessageId> = steering.iter().map(|message| message.id).collect();
        outstanding.work.retain(|work| {
            dropped.extend(work.sent());
            work.only_shows()
        });
        if let Some(running) = &outstanding.running {
            running.cancel();
        }
        dropped
    }

    /// Ends the session, and what is being done.
    pub fn close(&self) {
        held(&self.outstanding).closed = true;
        self.cancel();
        self.changed.notify_one();
    }

    /// What is to be done now, and what cancels it; none when the session is closed. Until
    /// [`Self::done`], it is being done.
    pub(super) async fn next(&self) -> Option<(Work, CancellationToken)> {
        loop {
            {
                let mut outstanding = held(&self.outstanding);
                if outstanding.closed {
                    return None;
                }
                if let Some(work) = outstanding.work.pop_front() {
                    let cancel = CancellationToken::new();
                    outstanding.running = Some(cancel.clone());
                    return Some((work, cancel));
                }
            }
            self.changed.notified().await;
        }
    }

    pub(super) fn done(&self) {
        let mut outstanding = held(&self.outstanding);
        outstanding.running = None;
        for message in std::mem::take(&mut outstanding.steering).into_iter().rev() {
            outstanding.work.push_front(Work::Message(message));
        }
    }

    /// What the running turn is to get, which doesn't wait any more.
    #[must_use]
    pub(super) fn steering(&self) -> Vec<UserMessage> {
        std::mem::take(&mut held(&self.outstanding).steering)
    }

    /// Has ASK put to the user whether a turn goes on that met a limit, and waits for the answer. A message
    /// that waits behind the turn is one.
    pub(super) async fn limit_answer(&self, ask: impl FnOnce()) -> LimitAnswer {
        let receiver = {
            let mut outstanding = held(&self.outstanding);
            if outstanding.work.iter().any(|work| work.sent().is_some()) {
                return LimitAnswer::Stop;
            }
            let (sender, receiver) = oneshot::channel();
            outstanding.limit = Some(sender);
            receiver
        };
        ask();
        receiver.await.unwrap_or(LimitAnswer::Stop)
    }
}

impl Outstanding {
    fn busy(&self) -> bool {
        self.running.is_some() || !self.work.is_empty()
    }

    /// Gives ANSWER to the turn that asks whether it goes on, if one does.
    fn settle(&mut self, answer: LimitAnswer) {
        if let Some(asking) = self.limit.take() {
            // A turn that was cancelled meanwhile doesn't listen any more.
            let _ = asking.send(answer);
        }
    }
}
