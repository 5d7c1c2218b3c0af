// SPDX-License-Identifier: GPL-3.0-or-later
//! The contact with Emacs, as the core has it: a place for events, and requests. `bridge::running` is
//! Emacs; the tests bring their own.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::calls::{RequestId, SessionId};
use super::emacs::{EmacsReply, EmacsRequest};
use super::events::Event;

/// Emacs as the core sees it: a place for events, and what does what only Emacs can do.
pub trait Emacs: Send + Sync {
    /// Tells Emacs what happened. Never blocks.
    fn emit(&self, event: Event);

    /// Asks Emacs to do something. Dropping the future takes the request back.
    fn request(&self, session: SessionId, body: EmacsRequest) -> BoxFuture<'static, EmacsReply>;

    /// The same for work in the Lisp image, whose watch may ask through QUESTIONS meanwhile.
    fn request_asking(
        &self,
        session: SessionId,
        body: EmacsRequest,
        questions: mpsc::UnboundedSender<Asked>,
    ) -> BoxFuture<'static, EmacsReply> {
        drop(questions);
        self.request(session, body)
    }
}

/// What the watch of an image said while a request was under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub request: RequestId,
    /// A property list as in replies of the image.
    pub text: String,
}

/// An Emacs in front of another one, which sees each event on its way, and says what of it is passed on;
/// requests all are.
pub struct WatchedEmacs<S> {
    pub behind: Arc<dyn Emacs>,
    pub see: S,
}

impl<S: Fn(Event) -> Option<Event> + Send + Sync> Emacs for WatchedEmacs<S> {
    fn emit(&self, event: Event) {
        if let Some(event) = (self.see)(event) {
            self.behind.emit(event);
        }
    }

    fn request(&self, session: SessionId, body: EmacsRequest) -> BoxFuture<'static, EmacsReply> {
        self.behind.request(session, body)
    }

    fn request_asking(
        &self,
        session: SessionId,
        body: EmacsRequest,
        questions: mpsc::UnboundedSender<Asked>,
    ) -> BoxFuture<'static, EmacsReply> {
        self.behind.request_asking(session, body, questions)
    }
}
