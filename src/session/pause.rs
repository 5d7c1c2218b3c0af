// SPDX-License-Identifier: GPL-3.0-or-later
//! The question whether a turn that met a limit goes on. The turn waits here, between two requests;
//! the actor of its session brings the answer.

use std::sync::Mutex;

use tokio::sync::oneshot;

use crate::protocol::LimitAnswer;
use crate::runtime::held;

/// A place for one question at a time.
#[derive(Debug, Default)]
pub struct Pause(Mutex<Option<oneshot::Sender<LimitAnswer>>>);

impl Pause {
    /// Has ASK put the question to the user, and waits for the answer.
    pub async fn answer(&self, ask: impl FnOnce()) -> LimitAnswer {
        let (sender, receiver) = oneshot::channel();
        *held(&self.0) = Some(sender);
        ask();
        receiver.await.unwrap_or(LimitAnswer::Stop)
    }

    /// Gives ANSWER, if a question waits for one.
    pub fn settle(&self, answer: LimitAnswer) {
        if let Some(sender) = held(&self.0).take() {
            // A turn that was cancelled meanwhile doesn't listen any more.
            let _ = sender.send(answer);
        }
    }
}
