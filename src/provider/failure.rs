// SPDX-License-Identifier: GPL-3.0-or-later
//! What can go wrong with a provider, and what no sentence about it may have. Pure; `reply` and `http`
//! raise these.

use super::error_report::ErrorReport;
use super::retry::RetryAdvice;
use super::{ModelReply, REDACTED};

/// Why there is no whole reply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    pub kind: FailureKind,
    pub message: String,
    /// Whether sending the request again can help.
    pub retry: RetryAdvice,
    /// What the server said of it, if it did.
    pub report: Option<Box<ErrorReport>>,
    /// What had arrived. Calls in it never run.
    pub partial: Option<Box<ModelReply>>,
}

/// What sort of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The settings make no request.
    Settings,
    /// The server could not be reached.
    Connection,
    /// This machine has no network that leads to the server.
    NetworkDown,
    /// The connection was closed before anything of an answer came.
    Closed,
    /// The server said nothing for too long.
    Idle,
    /// The server refused the request with this HTTP status.
    Refused(u16),
    /// The server has no model of that name, or none that serves, or nothing at that URL.
    NoSuchModel,
    /// The server could not read what the model wrote as a call.
    UnreadCall,
    /// The conversation is too long for the model, as the server says.
    Overflow,
    /// The server reported an error inside the reply.
    Reported,
    /// The reply ended before it was complete.
    Interrupted,
    /// What the server sent makes no reply.
    Garbage,
    /// The reply is longer than any that is taken.
    TooLong,
}

impl ProviderError {
    #[must_use]
    pub fn new(kind: FailureKind, retry: RetryAdvice, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry,
            report: None,
            partial: None,
        }
    }

    /// The same, of which the server said what REPORT has.
    #[must_use]
    pub fn reported(mut self, report: ErrorReport) -> Self {
        self.report = Some(Box::new(report));
        self
    }
}

/// Whom a request went to, as far as sentences about it need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub host: String,
    pub port: u16,
    /// The base URL without the user name, password and query that it may have.
    pub base_url: String,
    pub model: String,
    pub key: KeyPresence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPresence {
    Sent,
    Absent,
}

impl Destination {
    /// The host, with the port where it is not the usual one.
    #[must_use]
    pub fn place(&self) -> String {
        if matches!(self.port, 80 | 443) {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// `text` without the secrets: whole or in parts, as providers like to echo them, and without
/// keys that a provider masked with asterisks.
#[must_use]
pub fn redact(text: &str, secrets: &[&str]) -> String {
    let mut clean = text.to_owned();
    for secret in secrets.iter().map(|secret| secret.trim()) {
        clean = without_parts(&clean, secret, REDACTED);
    }
    clean
        .split_inclusive(char::is_whitespace)
        .map(|word| {
            if word.contains("***") {
                let blank = &word[word.trim_end().len()..];
                format!("{REDACTED}{blank}")
            } else {
                word.to_owned()
            }
        })
        .collect()
}

/// Replace everything in `text` that is the whole secret, or at least eight characters of it.
fn without_parts(text: &str, secret: &str, replacement: &str) -> String {
    const SHORTEST_SECRET: usize = 4;
    const SHORTEST_PART: usize = 8;
    if secret.len() < SHORTEST_SECRET {
        return text.to_owned();
    }
    let shortest = secret.len().min(SHORTEST_PART);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let shared = secret
            .char_indices()
            .map(|(start, _)| shared_prefix(rest, &secret[start..]))
            .max()
            .unwrap_or(0);
        let taken = if shared >= shortest {
            clean.push_str(replacement);
            shared
        } else {
            clean.push(first);
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    clean
}

/// How many bytes two texts share at their beginnings, in whole characters.
fn shared_prefix(left: &str, right: &str) -> usize {
    left.chars()
        .zip(right.chars())
        .take_while(|(left, right)| left == right)
        .map(|(character, _)| character.len_utf8())
        .sum()
}
