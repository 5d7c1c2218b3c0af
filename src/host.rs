// SPDX-License-Identifier: GPL-3.0-or-later
//! What the core needs of the program around it: a place for events, and somebody who does what
//! only Emacs can do. `bridge::host` is Emacs; the tests bring their own.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::protocol::{Event, HostReply, HostRequest, RequestId, SessionId};

/// The program around the core.
pub trait Host: Send + Sync {
    /// Tells Emacs what happened. Never blocks.
    fn emit(&self, event: Event);

    /// Asks Emacs to do something. Dropping the future takes the request back.
    fn request(&self, session: SessionId, body: HostRequest) -> BoxFuture<'static, HostReply>;

    /// The same for work in the Lisp image, whose watch may ask through QUESTIONS meanwhile.
    fn request_asking(
        &self,
        session: SessionId,
        body: HostRequest,
        questions: mpsc::UnboundedSender<Asked>,
    ) -> BoxFuture<'static, HostReply> {
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

/// A host in front of another one, which sees each event on its way and passes everything on.
pub struct WatchedHost<S> {
    pub behind: Arc<dyn Host>,
    pub see: S,
}

impl<S: Fn(&Event) + Send + Sync> Host for WatchedHost<S> {
    fn emit(&self, event: Event) {
        (self.see)(&event);
        self.behind.emit(event);
    }

    fn request(&self, session: SessionId, body: HostRequest) -> BoxFuture<'static, HostReply> {
        self.behind.request(session, body)
    }

    fn request_asking(
        &self,
        session: SessionId,
        body: HostRequest,
        questions: mpsc::UnboundedSender<Asked>,
    ) -> BoxFuture<'static, HostReply> {
        self.behind.request_asking(session, body, questions)
    }
}
