// SPDX-License-Identifier: GPL-3.0-or-later
//! What a payload inside a successful answer says of an error, and what is said of one that can't be
//! read. Pure.

use std::time::SystemTime;

use serde_json::Value;

use super::error_report::{ErrorReport, excerpt};
use super::failure::{FailureKind, ProviderError};
use super::history::Dialect;
use super::refusal::kind;
use super::retry::{RetryAdvice, stream_advice};

/// The error that a payload reports, if it reports one.
#[must_use]
pub fn reported(name: &str, data: &str) -> Option<ProviderError> {
    let value: Value = serde_json::from_str(data).ok()?;
    let report = match ErrorReport::read(&value) {
        Some(report) => report,
        // A response that failed and doesn't say why is not its own reason.
        None if name == "error" && value["object"] != "response" => ErrorReport::of_text(data),
        None => return None,
    };
    let sort = match kind(0, report.reason(report.status)) {
        FailureKind::Refused(_) => FailureKind::Reported,
        known => known,
    };
    let retry = stream_advice(&report, SystemTime::now());
    let sentence = format!("The server reported an error: {}", excerpt(&report.message));
    Some(ProviderError::new(sort, retry, sentence).reported(report))
}

/// The error for a payload that is no chunk.
#[must_use]
pub fn unreadable(name: &str, data: &str) -> ProviderError {
    reported(name, data).unwrap_or_else(|| {
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

/// The error for DATA, which is no part of a reply in the dialect SPOKEN.
#[must_use]
pub fn foreign(spoken: Dialect, name: &str, data: &str) -> ProviderError {
    reported(name, data)
        .or_else(|| mistaken(spoken, data))
        .unwrap_or_else(|| unreadable(name, data))
}

/// The error for DATA, if it is part of a reply in another dialect than SPOKEN.
#[must_use]
pub fn mistaken(spoken: Dialect, data: &str) -> Option<ProviderError> {
    let found = looks_like(data).filter(|&found| found != spoken)?;
    let sentence = format!(
        "This does not look like the {} dialect; it looks like {}. Set :dialect to {} in agent-q-providers.",
        title(spoken),
        title(found),
        symbol(found)
    );
    let (kind, retry) = (FailureKind::Garbage, RetryAdvice::Never);
    Some(ProviderError::new(kind, retry, sentence))
}

/// The dialect of which the JSON of DATA looks like a part, if it does.
#[must_use]
pub fn looks_like(data: &str) -> Option<Dialect> {
    let value: Value = serde_json::from_str(data).ok()?;
    let value = value.get(0).unwrap_or(&value);
    let kind = value["type"].as_str().unwrap_or_default();
    let object = value["object"].as_str().unwrap_or_default();
    let has = |field: &str| value.get(field).is_some();
    if kind.starts_with("response.") || object == "response" {
        Some(Dialect::Responses)
    } else if object.starts_with("chat.completion") || value["choices"].is_array() {
        Some(Dialect::ChatCompletions)
    } else if kind == "message_start"
        || kind.starts_with("content_block_")
        || kind == "message" && has("content")
    {
        Some(Dialect::Messages)
    } else if value["candidates"].is_array() {
        Some(Dialect::Gemini)
    } else if value["done"].is_boolean() && has("model") {
        Some(Dialect::Ollama)
    } else {
        None
    }
}

/// What people call DIALECT.
fn title(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::ChatCompletions => "Chat Completions",
        Dialect::Messages => "Messages",
        Dialect::Responses => "Responses",
        Dialect::Gemini => "Gemini",
        Dialect::Ollama => "Ollama",
    }
}

/// What DIALECT is called in settings.
fn symbol(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::ChatCompletions => "chat-completions",
        Dialect::Messages => "messages",
        Dialect::Responses => "responses",
        Dialect::Gemini => "gemini",
        Dialect::Ollama => "ollama",
    }
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
fn last_words(sentence: &str, unread: &str) -> ProviderError {
    let json = unread.find('{').map(|start| &unread[start..]);
    json.and_then(|json| reported("", json)).unwrap_or_else(|| {
        ProviderError::new(
            FailureKind::Interrupted,
            RetryAdvice::Backoff,
            format!("{sentence} The server's last words: {}", excerpt(unread)),
        )
    })
}

/// The failure of a reply that was cut; UNREAD is the latest that could not be read.
pub fn cut_off(unread: Option<&str>) -> ProviderError {
    const SENTENCE: &str = "The connection was closed before the reply was complete.";
    match unread {
        Some(unread) => last_words(SENTENCE, unread),
        None => ProviderError::new(FailureKind::Interrupted, RetryAdvice::Backoff, SENTENCE),
    }
}

/// The failure of a server that names none.
#[must_use]
pub fn unexplained_failure() -> ProviderError {
    ProviderError::new(
        FailureKind::Reported,
        RetryAdvice::Backoff,
        "The server ended the reply with an error and did not say which.",
    )
}
