// SPDX-License-Identifier: GPL-3.0-or-later
//! What a payload inside a successful answer says of an error, and what is said of one that can't be
//! read. Pure.

use serde_json::Value;

use super::failure::{ErrorReport, FailureKind, ProviderError, excerpt, says_too_long};
use super::retry::{RetryAdvice, stream_advice};

/// The error that a payload reports, if it reports one.
#[must_use]
pub fn reported(name: &str, data: &str) -> Option<ProviderError> {
    let value: Value = serde_json::from_str(data).ok()?;
    let report = match ErrorReport::read(&value) {
        Some(report) => report,
        None if name == "error" => ErrorReport {
            message: data.to_owned(),
            ..ErrorReport::default()
        },
        None => return None,
    };
    Some(ProviderError::new(
        match says_too_long(report.status, &report) {
            true => FailureKind::Overflow,
            false => FailureKind::Reported,
        },
        stream_advice(report.status, &report.codes),
        format!("The server reported an error: {}", excerpt(&report.message)),
    ))
}

/// The error for a payload that is no chunk.
#[must_use]
pub fn unreadable(name: &str, data: &str) -> ProviderError {
    let report = serde_json::from_str::<Value>(data)
        .is_ok()
        .then(|| reported(name, data))
        .flatten();
    report.unwrap_or_else(|| {
        let sentence = if name == "error" {
            "The server reported an error:"
        } else {
            "The server sent something that is no part of a reply:"
        };
        ProviderError::new(
            FailureKind::Garbage,
            RetryAdvice::Never,
            format!("{sentence} {}", quoted(data)),
        )
    })
}

fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        format!("{short:?}…")
    } else {
        format!("{short:?}")
    }
}

/// The failure of a reply that was cut, as SENTENCE says, behind UNREAD, the latest that was no part of it: it may
/// say why.
#[must_use]
pub fn last_words(sentence: &str, unread: &str) -> ProviderError {
    let json = unread.find('{').map(|start| &unread[start..]);
    json.and_then(|json| reported("", json)).unwrap_or_else(|| {
        ProviderError::new(
            FailureKind::Interrupted,
            RetryAdvice::Backoff,
            format!("{sentence} Its last words: {}", excerpt(unread)),
        )
    })
}
