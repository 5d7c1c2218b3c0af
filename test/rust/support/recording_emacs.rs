// SPDX-License-Identifier: GPL-3.0-or-later
//! A program around the core for tests: it keeps every event and answers requests as it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use agent_q_core::protocol::{Asked, Emacs};
use agent_q_core::protocol::{EmacsReply, EmacsRequest, Event, RequestId, SessionId};
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, mpsc, oneshot};

/// Keeps events in order, and hands out prepared replies to requests.
#[derive(Default)]
pub struct RecordingEmacs {
    pub events: Mutex<Vec<Event>>,
    /// Replies for the requests to come; without one a request is never answered.
    pub replies: Mutex<VecDeque<EmacsReply>>,
    /// The work in an image that goes on until [`RecordingHost::reply`], after the prepared replies.
    running: Mutex<Option<Running>>,
    pub requests: Mutex<Vec<EmacsRequest>>,
    changed: Notify,
}

struct Running {
    questions: mpsc::UnboundedSender<Asked>,
    reply: oneshot::Sender<EmacsReply>,
}

impl RecordingEmacs {
    /// Waits until an event satisfies WANTED, and gives what it made of it.
    pub async fn wait_for<T>(&self, wanted: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = self.events.lock().unwrap().iter().find_map(&wanted) {
                return found;
            }
            changed.await;
        }
    }

    /// Waits until WANTED makes something of all events so far, and gives it.
    pub async fn wait_until<T>(&self, wanted: impl Fn(&[Event]) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = wanted(&self.events.lock().unwrap()) {
                return found;
            }
            changed.await;
        }
    }

    /// Has the image that works say TEXT, once there is one.
    pub async fn say(&self, text: &str) {
        loop {
            let changed = self.changed.notified();
            if let Some(running) = &*self.running.lock().unwrap() {
                let asked = Asked {
                    request: RequestId(1),
                    text: text.to_owned(),
                };
                running.questions.send(asked).unwrap();
                return;
            }
            changed.await;
        }
    }

    /// Ends the work of the image with REPLY.
    pub fn reply(&self, reply: EmacsReply) {
        let running = self.running.lock().unwrap().take().unwrap();
        running.reply.send(reply).unwrap();
    }

    /// What WANTED makes of each event, in order.
    pub fn collect<T>(&self, wanted: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.events
            .lock()
            .unwrap()
            .iter()
            .filter_map(wanted)
            .collect()
    }
}

impl Emacs for RecordingEmacs {
    fn emit(&self, event: Event) {
        self.events.lock().unwrap().push(event);
        self.changed.notify_waiters();
    }

    fn request(&self, _: SessionId, body: EmacsRequest) -> BoxFuture<'static, EmacsReply> {
        self.requests.lock().unwrap().push(body);
        match self.replies.lock().unwrap().pop_front() {
            Some(reply) => Box::pin(async move { reply }),
            None => Box::pin(std::future::pending()),
        }
    }

    fn request_asking(
        &self,
        session: SessionId,
        body: EmacsRequest,
        questions: mpsc::UnboundedSender<Asked>,
    ) -> BoxFuture<'static, EmacsReply> {
        if !self.replies.lock().unwrap().is_empty() {
            return self.request(session, body);
        }
        self.requests.lock().unwrap().push(body);
        let (reply, receiver) = oneshot::channel();
        *self.running.lock().unwrap() = Some(Running { questions, reply });
        self.changed.notify_waiters();
        Box::pin(async move { receiver.await.unwrap() })
    }
}

/// A host that is shared with the code under test.
pub fn recording_emacs() -> Arc<RecordingEmacs> {
    Arc::new(RecordingEmacs::default())
}
