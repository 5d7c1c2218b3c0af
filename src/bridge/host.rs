// SPDX-License-Identifier: GPL-3.0-or-later
//! Emacs as the core's [`Host`]: events go into the queue, requests wait in a table for the reply
//! that Emacs gives with their number. A request that nobody waits for any more is taken back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::host::Host;
use crate::protocol::{Event, HostError, HostReply, HostRequest, RequestId, SessionId};
use crate::queue::EventQueue;
use crate::runtime::held;

/// The Emacs that this module is loaded into.
#[derive(Debug, Default)]
pub struct EmacsHost {
    pub queue: Arc<EventQueue>,
    waiting: Arc<Waiting>,
}

type Waiting = Mutex<HashMap<RequestId, oneshot::Sender<HostReply>>>;

impl EmacsHost {
    /// Hands Emacs's reply to whoever waits for it; late replies have no taker.
    pub fn resolve(&self, request: RequestId, reply: HostReply) {
        if let Some(sender) = held(&self.waiting).remove(&request) {
            // The waiter may be gone by now.
            let _ = sender.send(reply);
        }
    }

    /// How many requests wait for Emacs.
    pub fn waiting_count(&self) -> usize {
        held(&self.waiting).len()
    }

    /// Whether somebody still waits for REQUEST.
    pub fn is_waiting(&self, request: RequestId) -> bool {
        held(&self.waiting).contains_key(&request)
    }
}

impl Host for EmacsHost {
    fn emit(&self, event: Event) {
        self.queue.push(event);
    }

    fn request(&self, session: SessionId, body: HostRequest) -> BoxFuture<'static, HostReply> {
        let request = RequestId::next();
        let (sender, receiver) = oneshot::channel();
        held(&self.waiting).insert(request, sender);
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
