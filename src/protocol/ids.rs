// SPDX-License-Identifier: GPL-3.0-or-later
//! The numbers by which Emacs and the core know chats, turns, calls and requests.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl $name {
            /// An identifier that this process has not used before.
            #[must_use]
            pub fn next() -> Self {
                Self(Self::counter().fetch_add(1, Ordering::Relaxed))
            }

            /// Has [`Self::next`] give only greater ones than NUMBER from now on.
            pub fn pass(number: u64) {
                Self::counter().fetch_max(number.saturating_add(1), Ordering::Relaxed);
            }

            fn counter() -> &'static AtomicU64 {
                static COUNTER: AtomicU64 = AtomicU64::new(1);
                &COUNTER
            }
        }
    };
}

identifier! {
    /// One chat.
    SessionId
}
identifier! {
    /// What follows one message of the user's.
    TurnId
}
identifier! {
    /// One tool call, unique in the process (a provider's own call ids are not).
    CallKey
}
identifier! {
    /// Tool calls that Emacs asked for together, outside a chat.
    BatchId
}
identifier! {
    /// A call that the user wonders about.
    QuestionId
}
identifier! {
    /// One request of the core to Emacs that waits for a reply.
    RequestId
}

/// A tool's function in Emacs Lisp; Emacs keeps the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandlerId(pub u64);
