// SPDX-License-Identifier: GPL-3.0-or-later
//! What can go wrong with a provider, as sentences that a user can act on, and what providers'
//! own error bodies say. Pure; `reply` and `http` raise these.

use std::time::Duration;

use serde_json::Value;

use super::ModelReply;
use super::retry::RetryAdvice;

/// Why there is no whole reply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    pub kind: FailureKind,
    pub message: String,
    /// Whether sending the request again can help.
    pub retry: RetryAdvice,
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
    /// The server has no model of that name, or nothing at that URL.
    NoSuchModel,
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
            partial: None,
        }
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

/// What a provider's error body says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorReport {
    pub message: String,
    /// Its `code` and `type`, as text.
    pub codes: Vec<String>,
    /// A status that it names itself.
    pub status: Option<u16>,
}

impl ErrorReport {
    /// Read any of the shapes in use: `{"error": {…}}`, `{"error": "text"}`, `{"message": …}`,
    /// `{"detail": …}`, and a list of one of them.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        let value = match value {
            Value::Array(list) => list.first()?,
            other => other,
        };
        let nested = value.get("error").filter(|error| !is_blank(error));
        let holder = match nested {
            Some(error @ Value::Object(_)) => error,
            _ => value,
        };
        let message = ["message", "detail", "msg"]
            .iter()
            .filter_map(|field| holder.get(field))
            .find(|found| !is_blank(found))
            .or(nested)?;
        let fields = ["code", "type", "status"].map(|field| holder.get(field));
        Some(Self {
            message: as_text(message),
            codes: fields
                .iter()
                .flatten()
                .filter_map(|field| field.as_str().map(str::to_owned))
                .collect(),
            status: holder
                .get("status_code")
                .into_iter()
                .chain(fields.into_iter().flatten())
                .find_map(|field| field.as_u64().and_then(|code| u16::try_from(code).ok())),
        })
    }
}

/// Codes and words by which servers say that a conversation is too long.
const TOO_LONG_CODES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "request_too_large",
];
const TOO_LONG_WORDS: &[&str] = &[
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "maximum number of tokens",
    "reduce the length",
];

/// Whether REPORT, which came with STATUS or inside of a reply, says that the conversation is too long.
#[must_use]
pub fn says_too_long(status: Option<u16>, report: &ErrorReport) -> bool {
    let names = |code: &String| TOO_LONG_CODES.contains(&code.as_str());
    let limits_rate = |code: &String| code.contains("rate_limit");
    if report.codes.iter().any(limits_rate) || status == Some(429) {
        return false;
    }
    let message = report.message.to_lowercase();
    report.codes.iter().any(names)
        || status == Some(413)
        || TOO_LONG_WORDS.iter().any(|words| message.contains(words))
}

/// Whether DETAIL, what a host says of a request, is that its model can't call tools.
fn says_no_tools(detail: &str) -> bool {
    const WORDS: [&str; 4] = [
        "not support tool",
        "support tool use",
        "tool calling is not supported",
        "`tool calling` is not supported",
    ];
    let detail = detail.to_lowercase();
    WORDS.iter().any(|words| detail.contains(words))
}

/// Codes and words by which servers that answer with another status say that they have no such model.
const NO_MODEL_CODES: &[&str] = &["model_not_found", "invalid_model"];
const NO_MODEL_WORDS: &[&str] = &["not a valid model", "invalid model", "no such model"];

/// Whether REPORT, which came with STATUS, says that there is no model of that name, or no such URL.
#[must_use]
pub fn says_no_model(status: u16, report: &ErrorReport) -> bool {
    let names = |code: &String| NO_MODEL_CODES.contains(&code.as_str());
    let message = report.message.to_lowercase();
    status == 404
        || report.codes.iter().any(names)
        || status == 400 && NO_MODEL_WORDS.iter().any(|words| message.contains(words))
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}

/// The sentence for a request that was answered with an HTTP error. `detail` is what the provider
/// says about it, empty when it says nothing.
#[must_use]
pub fn refusal_sentence(status: u16, detail: &str, to: &Destination, retry: RetryAdvice) -> String {
    let place = to.place();
    let (host, model, base_url) = (&to.host, &to.model, &to.base_url);
    let lookup =
        format!("machine {host} login apikey in your auth-source, such as ~/.authinfo.gpg");
    let when = match retry {
        RetryAdvice::Later(wait) => format!("in {}", rounded_up(wait)),
        _ => "later".to_owned(),
    };
    let advice = match (status, to.key) {
        (401 | 403, KeyPresence::Sent) => {
            format!("{place} refuses the key ({status}). Mend the entry {lookup}.")
        }
        (401 | 403, KeyPresence::Absent) => {
            format!("{place} wants a key ({status}) and none was found. Add an entry {lookup}.")
        }
        _ if says_no_tools(detail) => format!(
            "{place} can't give the model {model:?} any tools ({status}). Choose another by M-x agent-q-set-model, or give it :tools nil in :models of agent-q-providers."
        ),
        (402, _) => format!("{place} wants to be paid (402). Check the account's credit."),
        (404 | 405, _) => format!(
            "{place} does not know the model or the URL ({status}). Check the model {model:?} and the base URL {base_url:?}."
        ),
        (408 | 504, _) => format!("{place} took too long ({status}). Try again."),
        (413, _) => format!("The conversation is too long for {place} (413). Start a new chat."),
        (429, _) if retry == RetryAdvice::Never => format!(
            "{place}: quota used up, for now or for good (429). Check the account's plan and credit."
        ),
        (429, _) if matches!(retry, RetryAdvice::Later(_)) => {
            format!("{place}: rate limit or quota reached (429). Try again {when}.")
        }
        (429, _) => format!("{place}: rate limit reached (429). Wait, then try again."),
        (300..=399, _) => format!(
            "{place} sends requests elsewhere ({status}), which could give the key away. Correct the base URL {base_url:?}."
        ),
        (500.., _) => format!("{place}: server error ({status}). Try again {when}."),
        _ => format!("{place} rejected the request ({status})."),
    };
    if detail.is_empty() {
        advice
    } else {
        format!("{advice} It says: {detail}")
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

/// What the body of an HTTP error says, in one short piece.
#[must_use]
pub fn refusal_report(body: &[u8]) -> ErrorReport {
    let text = String::from_utf8_lossy(body);
    serde_json::from_str::<Value>(&text)
        .ok()
        .and_then(|value| ErrorReport::read(&value))
        .map_or_else(
            || ErrorReport {
                message: excerpt(&text),
                ..ErrorReport::default()
            },
            |report| ErrorReport {
                message: excerpt(&report.message),
                ..report
            },
        )
}

/// The beginning of a text that somebody else wrote, on one line, short enough for a sentence.
#[must_use]
pub fn excerpt(text: &str) -> String {
    const LONGEST: usize = 500;
    let mut words = text.split_whitespace();
    let mut short = words.next().unwrap_or_default().to_owned();
    for word in words {
        if short.len() > LONGEST {
            break;
        }
        short.push(' ');
        short.push_str(word);
    }
    if let Some((end, _)) = short.char_indices().nth(LONGEST) {
        short.truncate(end);
        short.push('…');
    }
    short
}

/// `text` without the secrets: whole or in parts, as providers like to echo them, and without
/// keys that a provider masked with asterisks.
#[must_use]
pub fn redact(text: &str, secrets: &[&str]) -> String {
    const REDACTED: &str = "[redacted]";
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
