// SPDX-License-Identifier: GPL-3.0-or-later
//! What is said of a request that a server refused: what is wrong, where to correct it, and the server's
//! own words; and what is said of an error inside a successful answer. Pure.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::error_report::{ErrorReport, excerpt};
use super::error_words::RefusalReason;
use super::failure::{Destination, FailureKind, KeyPresence, ProviderError};
use super::history::Dialect;
use super::retry::{RetryAdvice, stream_advice};

/// The failure of a request to TO that was answered with STATUS, and a body that gave REPORT.
#[must_use]
pub fn refusal(
    status: u16,
    report: ErrorReport,
    to: &Destination,
    retry: RetryAdvice,
) -> ProviderError {
    let reason = report.reason(Some(status));
    let mut sentence = advice(status, reason, &report, to, retry);
    if !report.message.is_empty() {
        sentence = format!("{sentence} It says: {}", excerpt(&report.message));
    }
    ProviderError::new(kind(status, reason), retry, sentence).reported(report)
}

/// What sort of failure an HTTP error with STATUS is, or one inside of an answer.
#[must_use]
pub fn kind(status: u16, reason: RefusalReason) -> FailureKind {
    match reason {
        RefusalReason::TooLong => FailureKind::Overflow,
        RefusalReason::NoModel | RefusalReason::NoTools => FailureKind::NoSuchModel,
        RefusalReason::UnreadCall => FailureKind::UnreadCall,
        // As other hosts say it.
        RefusalReason::Key if status == 400 => FailureKind::Refused(401),
        RefusalReason::Place if status == 400 => FailureKind::Refused(403),
        _ => FailureKind::Refused(status),
    }
}

fn advice(
    status: u16,
    reason: RefusalReason,
    report: &ErrorReport,
    to: &Destination,
    retry: RetryAdvice,
) -> String {
    let place = to.place();
    let (host, model, base_url) = (&to.host, &to.model, &to.base_url);
    match reason {
        RefusalReason::TooLong if status == 413 => {
            format!("The conversation is too long for {place} (413). Start a new chat.")
        }
        RefusalReason::TooLong => {
            format!("The conversation is too long for {model} at {place} ({status}).")
        }
        RefusalReason::TooMuchAtOnce => format!(
            "The request has more tokens than {place} lets this account send in a minute ({status}). Start a new chat, or choose another model by M-x agent-q-set-model."
        ),
        RefusalReason::NoTools => format!(
            "{place} can't give the model {model:?} any tools ({status}). Choose another by M-x agent-q-set-model, or give it :tools nil in :models of agent-q-providers."
        ),
        RefusalReason::NoParser => format!(
            "{place} was not started for tool calls ({status}). Start llama.cpp with --jinja, vLLM with --enable-auto-tool-choice and --tool-call-parser, or give the model :tools nil in :models of agent-q-providers."
        ),
        RefusalReason::UnreadCall => {
            format!("{place} could not read what the model wrote as a tool call ({status}).")
        }
        RefusalReason::Key => key_advice(status, to),
        RefusalReason::UpstreamKey => format!(
            "{} rejected the key that your account at {host} has for it ({status}). Correct or remove that key in the account's settings at {host}.",
            report.upstream.as_deref().unwrap_or("The host behind it")
        ),
        RefusalReason::Place => format!(
            "{place} does not serve the country or network that you are in ({status}). The key is not the problem."
        ),
        RefusalReason::Account => format!(
            "{place} does not let this account use {model:?} this way ({status}). Check its plan, permissions and settings there; the key itself was accepted."
        ),
        RefusalReason::Memory => format!(
            "{place} has too little memory for {model:?} ({status}). Choose a smaller model by M-x agent-q-set-model, or give it a smaller window."
        ),
        RefusalReason::Day => match retry {
            RetryAdvice::Later(wait) => format!(
                "{place}: the quota of the day is used up ({status}). Try again in {}.",
                rounded_up(wait)
            ),
            _ => format!(
                "{place}: the quota of the day is used up ({status}). Try again tomorrow, or check the account's plan."
            ),
        },
        RefusalReason::NoModel if !matches!(status, 404 | 405) => {
            format!("{place} does not know the model ({status}). Check its name, {model:?}.")
        }
        RefusalReason::NoModel => format!(
            "{place} does not know the model or the URL ({status}). Check the model {model:?} and the base URL {base_url:?}."
        ),
        RefusalReason::Unknown => advice_by_status(status, to, retry),
    }
}

fn key_advice(status: u16, to: &Destination) -> String {
    let (place, host) = (to.place(), &to.host);
    let lookup =
        format!("machine {host} login apikey in your auth-source, such as ~/.authinfo.gpg");
    match to.key {
        KeyPresence::Sent => {
            format!("{place} rejected the key ({status}). Correct the entry {lookup}.")
        }
        KeyPresence::Absent => {
            format!("{place} wants a key ({status}) and none was found. Add an entry {lookup}.")
        }
    }
}

/// What a STATUS says by itself.
fn advice_by_status(status: u16, to: &Destination, retry: RetryAdvice) -> String {
    let place = to.place();
    let (model, base_url) = (&to.model, &to.base_url);
    let when = match retry {
        RetryAdvice::Later(wait) => format!("in {}", rounded_up(wait)),
        _ => "later".to_owned(),
    };
    match status {
        403 if to.key == KeyPresence::Absent => key_advice(status, to),
        403 => format!(
            "{place} forbids this request (403). The key may lack the permission for {model:?}, or the account, plan or place may not use it."
        ),
        402 => format!("{place} requires payment (402). Check the account's credit."),
        405 => format!(
            "{place} does not know the model or the URL (405). Check the model {model:?} and the base URL {base_url:?}."
        ),
        408 | 504 | 524 => format!("{place} took too long ({status}). Try again."),
        429 if retry == RetryAdvice::Never => format!(
            "{place}: quota used up, for now or for good (429). Check the account's plan and credit."
        ),
        429 if matches!(retry, RetryAdvice::Later(_)) => {
            format!("{place}: rate limit or quota reached (429). Try again {when}.")
        }
        429 => format!("{place}: rate limit reached (429). Wait, then try again."),
        300..=399 => format!(
            "{place} sends requests elsewhere ({status}), which could give the key away. Correct the base URL {base_url:?}."
        ),
        529 => format!("{place} is overloaded (529). Try again {when}."),
        500.. => format!("{place}: server error ({status}). Try again {when}."),
        _ => format!("{place} rejected the request ({status})."),
    }
}

/// WAIT in the largest unit of which it has two, as a person would say it.
fn rounded_up(wait: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(24 * 3600, "days"), (3600, "hours"), (60, "minutes")];
    let seconds = wait.as_secs();
    let (unit, name) = UNITS
        .into_iter()
        .find(|(unit, _)| seconds >= 2 * unit)
        .unwrap_or((1, "seconds"));
    format!("{} {name}", seconds.div_ceil(unit))
}

// Errors inside a successful answer, and payloads that can't be read.

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
            "The server sent something that is not a part of a reply:"
        };
        ProviderError::new(
            FailureKind::Garbage,
            RetryAdvice::Never,
            format!("{sentence} {}", quoted(data)),
        )
    })
}

/// The error for DATA, which is not part of a reply in the dialect SPOKEN.
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
