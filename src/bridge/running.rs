// SPDX-License-Identifier: GPL-3.0-or-later
//! The running Emacs, as the core's [`Emacs`](crate::protocol::Emacs): events go into the queue, requests
//! wait in a table for the reply that Emacs gives with their number. A dropped request is withdrawn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::event_queue::EventQueue;
use crate::protocol::{Asked, Emacs};
use crate::protocol::{EmacsError, EmacsReply, EmacsRequest, Event, RequestId, SessionId};
use crate::runtime::held;

/// The Emacs that this module is loaded into.
#[derive(Debug, Default)]
pub struct RunningEmacs {
    pub queue: Arc<EventQueue>,
    waiting: Arc<Waiting>,
}

type Waiting = Mutex<HashMap<RequestId, Open>>;

/// A request that waits.
#[derive(Debug)]
struct Open {
    reply: oneshot::Sender<EmacsReply>,
    /// Who answers what the image asks meanwhile.
    questions: Option<mpsc::UnboundedSender<Asked>>,
}

impl RunningEmacs {
    /// Hands Emacs's reply to the task that waits for it; late replies are dropped.
    pub fn resolve(&self, request: RequestId, reply: EmacsReply) {
        if let Some(open) = held(&self.waiting).remove(&request) {
            // The waiter may be gone by now.
            let _ = open.reply.send(reply);
        }
    }

    /// Passes on what the image's watch says in TEXT while REQUEST is under way; false when nobody
    /// takes it.
    #[must_use]
    pub fn ask(&self, request: RequestId, text: String) -> bool {
        let questions = held(&self.waiting)
            .get(&request)
            .and_then(|open| open.questions.clone());
        questions.is_some_and(|questions| questions.send(Asked { request, text }).is_ok())
    }

    /// How many requests wait for Emacs.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        held(&self.waiting).len()
    }

    /// Whether somebody still waits for REQUEST.
    #[must_use]
    pub fn is_waiting(&self, request: RequestId) -> bool {
        held(&self.waiting).contains_key(&request)
    }
}

impl Emacs for RunningEmacs {
    fn emit(&self, event: Event) {
        self.queue.push(event);
    }

    fn request(&self, session: SessionId, body: EmacsRequest) -> BoxFuture<'static, EmacsReply> {
        self.open(session, body, None)
    }

    fn request_asking(
        &self,
        session: SessionId,
        body: EmacsRequest,
        questions: mpsc::UnboundedSender<Asked>,
    ) -> BoxFuture<'static, EmacsReply> {
        self.open(session, body, Some(questions))
    }
}

impl RunningEmacs {
    fn open(
        &self,
        session: SessionId,
        body: EmacsRequest,
        questions: Option<mpsc::UnboundedSender<Asked>>,
    ) -> BoxFuture<'static, EmacsReply> {
        let request = RequestId::next();
        let (reply, receiver) = oneshot::channel();
        held(&self.waiting).insert(request, Open { reply, questions });
        let ticket = Ticket {
            request,
            waiting: Arc::clone(&self.waiting),
            queue: Arc::clone(&self.queue),
        };
        self.queue.push(Event::EmacsRequested {
            session,
            request,
            body,
        });
        Box::pin(async move {
            let reply = receiver.await;
            drop(ticket);
            reply.unwrap_or(EmacsReply::Failed(EmacsError::Cancelled))
        })
    }
}

/// Takes its request back when it is dropped unanswered.
struct Ticket {
    request: RequestId,
    waiting: Arc<Waiting>,
    queue: Arc<EventQueue>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if held(&self.waiting).remove(&self.request).is_some() {
            self.queue.push(Event::EmacsCancelled {
                request: self.request,
            });
        }
    }
}
