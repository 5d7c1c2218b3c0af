// SPDX-License-Identifier: GPL-3.0-or-later
//! Why a request could not be sent, read from the chain of errors that the HTTP library gives, or why
//! nobody waits for its answer any more, and what to tell the user. `http` sends.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use super::failure::{Destination, FailureKind, ProviderError};
use super::retry::RetryAdvice;

/// What is at the bottom of a request that could not be sent.
#[derive(Debug, PartialEq)]
pub enum Cause {
    Refused,
    UnknownHost,
    /// No network leads to the host.
    NoNetwork,
    /// The connection was there, and was closed before anything of an answer came.
    Closed,
    /// Nothing that was sent over the connection arrived any more, as after the machine slept.
    Dead,
    /// Nobody accepted the connection within this many seconds.
    TimedOut(f64),
    /// TLS, mostly the certificate.
    Tls(String),
    Other(String),
}

impl Cause {
    /// The cause of ERROR.
    #[must_use]
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut link = Some(error);
        while let Some(current) = link {
            if let Some(tls) = current.downcast_ref::<rustls::Error>() {
                return Self::Tls(tls.to_string());
            }
            // Neither the resolver's errors nor those of the HTTP protocol have a public type here.
            let words = current.to_string();
            if words.starts_with("dns error") {
                return Self::UnknownHost;
            }
            if words.starts_with("connection closed before message completed") {
                return Self::Closed;
            }
            let io = current.downcast_ref::<io::Error>();
            if let Some(cause) = io.and_then(|io| Self::of_kind(io.kind())) {
                return cause;
            }
            // An I/O error does not count what it wraps as its source.
            link = match io.and_then(io::Error::get_ref) {
                Some(inner) => Some(inner),
                None => current.source(),
            };
        }
        Self::Other(root_cause(error))
    }

    fn of_kind(kind: ErrorKind) -> Option<Self> {
        match kind {
            ErrorKind::ConnectionRefused => Some(Self::Refused),
            ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown | ErrorKind::HostUnreachable => {
                Some(Self::NoNetwork)
            }
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Some(Self::Closed)
            }
            ErrorKind::TimedOut => Some(Self::Dead),
            _ => None,
        }
    }

    /// The failure of a request to TO.
    #[must_use]
    pub fn failure(self, to: &Destination) -> ProviderError {
        let place = to.place();
        let (kind, retry, message) = match self {
            Self::Refused => (
                FailureKind::Connection,
                RetryAdvice::Backoff,
                format!("Nothing listens at {place}. Is the server running?"),
            ),
            Self::UnknownHost => (
                FailureKind::Connection,
                RetryAdvice::Backoff,
                format!(
                    "The host {} can't be found. Check the base URL {:?} and the network.",
                    to.host, to.base_url
                ),
            ),
            Self::NoNetwork => (
                FailureKind::NetworkDown,
                RetryAdvice::Backoff,
                format!(
                    "No network leads to {place}. Connect this machine (Wi-Fi, cable, VPN), then try again."
                ),
            ),
            Self::Closed => (
                FailureKind::Closed,
                RetryAdvice::Backoff,
                format!("{place} closed the connection without an answer."),
            ),
            Self::Dead => (
                FailureKind::Closed,
                RetryAdvice::Backoff,
                format!(
                    "The connection to {place} is dead: nothing that is sent arrives. Check the network."
                ),
            ),
            Self::TimedOut(seconds) => (
                FailureKind::Connection,
                RetryAdvice::Backoff,
                format!(
                    "{place} did not accept a connection within {seconds} s. Check the host and the network."
                ),
            ),
            Self::Tls(detail) => (
                FailureKind::Connection,
                RetryAdvice::Never,
                format!("No trusted TLS connection to {place}: {detail}."),
            ),
            Self::Other(detail) => (
                FailureKind::Connection,
                RetryAdvice::Backoff,
                format!("The connection to {place} failed: {detail}."),
            ),
        };
        ProviderError::new(kind, retry, message)
    }
}

pub fn lost_connection(to: &Destination) -> ProviderError {
    ProviderError::new(
        FailureKind::Interrupted,
        RetryAdvice::Backoff,
        format!(
            "The connection to {} was lost before the reply was complete.",
            to.place()
        ),
    )
}

/// A silent server gets no second request: it may still be working on the first.
pub fn unanswered_failure(patience: Duration, to: &Destination) -> ProviderError {
    ProviderError::new(
        FailureKind::Idle,
        RetryAdvice::Never,
        format!(
            "{} did not begin to answer within {} s, so the request was given up.",
            to.place(),
            patience.as_secs_f64()
        ),
    )
}

/// Nor does one that falls silent within its answer.
pub fn idle_failure(idle: Duration, to: &Destination) -> ProviderError {
    ProviderError::new(
        FailureKind::Idle,
        RetryAdvice::Never,
        format!(
            "{} sent nothing for {} s, so the request was given up.",
            to.place(),
            idle.as_secs_f64()
        ),
    )
}

/// A server that only says that it is there gets no second request either.
pub fn silent_failure(silence: Duration, to: &Destination) -> ProviderError {
    ProviderError::new(
        FailureKind::Idle,
        RetryAdvice::Never,
        format!(
            "{} sent nothing of a reply for {} s, only signs of life, so the request was given up.",
            to.place(),
            silence.as_secs_f64()
        ),
    )
}

/// What the chain of ERROR's causes ends with.
#[must_use]
pub fn root_cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::failure::KeyPresence;

    fn destination() -> Destination {
        Destination {
            host: "api.example.com".into(),
            port: 443,
            base_url: "https://api.example.com/v1".into(),
            model: "m".into(),
            key: KeyPresence::Sent,
        }
    }

    /// The kernel gives up a connection over which nothing arrives; that is not a server that is slow.
    #[test]
    fn a_connection_that_died_silently_counts_as_closed() {
        let error = io::Error::other(io::Error::from(ErrorKind::TimedOut));
        let failure = Cause::of(&error).failure(&destination());
        assert_eq!(failure.kind, FailureKind::Closed);
        assert!(
            failure
                .message
                .starts_with("The connection to api.example.com is dead"),
            "{failure}"
        );
    }

    #[test]
    fn a_network_that_is_down_has_words_of_its_own() {
        let to = destination();
        for kind in [
            ErrorKind::NetworkUnreachable,
            ErrorKind::NetworkDown,
            ErrorKind::HostUnreachable,
        ] {
            // As a connector wraps it.
            let error = io::Error::other(io::Error::from(kind));
            let failure = Cause::of(&error).failure(&to);
            assert_eq!(failure.kind, FailureKind::NetworkDown);
            assert_eq!(failure.retry, RetryAdvice::Backoff);
            assert!(
                failure
                    .message
                    .starts_with("No network leads to api.example.com. Connect"),
                "{failure}"
            );
        }
    }
}
