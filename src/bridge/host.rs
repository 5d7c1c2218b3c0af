// SPDX-License-Identifier: GPL-3.0-or-later
//! Emacs as the core's [`Host`]: events go into the queue, requests wait in a table for the reply
//! that Emacs gives with their number. A request that nobody waits for any more is taken back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::host::{Asked, Host};
use crate::protocol::{Event, HostError, HostReply, HostRequest, RequestId, SessionId};
use crate::queue::EventQueue;
use crate::runtime::held;

/// The Emacs that this module is loaded into.
#[derive(Debug, Default)]
pub struct EmacsHost {
    pub queue: Arc<EventQueue>,
    waiting: Arc<Waiting>,
}

type Waiting = Mutex<HashMap<RequestId, Open>>;

/// A request that waits.
#[derive(Debug)]
struct Open {
    reply: oneshot::Sender<HostReply>,
    /// Who answers what the image asks meanwhile.
    questions: Option<mpsc::UnboundedSender<Asked>>,
}

impl EmacsHost {
    /// Hands Emacs's reply to the task that waits for it; late replies are dropped.
    pub fn resolve(&self, request: RequestId, reply: HostReply) {
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

impl Host for EmacsHost {
    fn emit(&self, event: Event) {
        self.queue.push(event);
    }

    fn request(&self, session: SessionId, body: HostRequest) -> BoxFuture<'static, HostReply> {
        self.open(session, body, None)
    }

    fn request_asking(
        &self,
        session: SessionId,
        body: HostRequest,
        questions: mpsc::UnboundedSender<Asked>,
    ) -> BoxFuture<'static, HostReply> {
        self.open(session, body, Some(questions))
    }
}

impl EmacsHost {
    fn open(
        &self,
        session: SessionId,
        body: HostRequest,
        questions: Option<mpsc::UnboundedSender<Asked>>,
    ) -> BoxFuture<'static, HostReply> {
        let request = RequestId::next();
        let (reply, receiver) = oneshot::channel();
        held(&self.waiting).insert(request, Open { reply, questions });
        let ticket = Ticket {
            request,
            waiting: Arc::clone(&self.waiting),
            queue: Arc::clone(&self.queue),
        };
        self.queue.push(Event::HostRequested {
            session,
            request,
            body,
        });
        Box::pin(async move {
            let reply = receiver.await;
            drop(ticket);
            reply.unwrap_or(HostReply::Failed(HostError::Cancelled))
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
            self.queue.push(Event::HostCancelled {
                request: self.request,
            });
        }
    }
}
