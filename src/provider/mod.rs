// SPDX-License-Identifier: GPL-3.0-or-later
//! Language model providers: what a conversation is, how it goes over the wire, how a streamed
//! reply is put together. Everything but `http`, `certificates` and the look at
//! the network in `connection_failure` is a pure function of data.

pub mod accumulator;
mod address;
pub mod arguments;
mod body;
mod certificates;
mod connection_failure;
pub mod dialect;
pub mod discovery;
mod draft;
pub mod error_report;
mod error_words;
pub mod failure;
mod finish;
pub mod framing;
mod gate;
pub mod history;
pub mod http;
pub mod model_facts;
mod model_text;
mod recording;
mod refusal;
pub mod reply;
pub mod retry;
pub mod route;
pub mod script;
pub mod written_calls;

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use connection_failure::root_cause;
pub use failure::{FailureKind, ProviderError};
pub use finish::Finish;
pub use history::{ChatMessage, Dialect, MessagePart, Messages, ModelOrigin, PartContent, Said};
pub use http::{Http, HttpSettings};
pub use model_facts::ModelFacts;
pub use route::Route;
pub use script::Script;

use crate::protocol::ToolCall;

/// Which tools the model may call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    #[default]
    Auto,
    Required,
    None,
    /// This one.
    Tool(String),
}

/// Where and how to reach a model.
#[derive(Clone, PartialEq)]
pub struct ProviderSettings {
    /// What the user calls it, such as `openai` or `local`.
    pub name: String,
    pub dialect: Dialect,
    /// The base of the API, such as `https://api.openai.com/v1`.
    pub base_url: String,
    pub model: String,
    /// How hard the model is to think; none leaves that to the provider.
    pub effort: Option<Effort>,
    pub key: Option<Secret>,
    /// Fields added to every request's body; they win over ours.
    pub body: Map<String, Value>,
    /// Fields added to the first request of a turn only.
    pub first_body: Map<String, Value>,
    /// Headers added to every request.
    pub headers: Vec<(String, String)>,
    /// What is known of the model.
    pub facts: ModelFacts,
    /// The folder in which exchanges are recorded, if the user wants that.
    pub recordings: Option<PathBuf>,
    /// The way to the host: proxies and certificates.
    pub route: Route,
    /// What the model says, where that is written beforehand; it has no host then.
    pub script: Option<Script>,
}

impl ProviderSettings {
    /// Who writes what comes back.
    #[must_use]
    pub fn origin(&self) -> ModelOrigin {
        ModelOrigin {
            dialect: self.dialect,
            host: history::host_of(&self.base_url),
            model: self.model.clone(),
        }
    }

    /// How hard the model is to think. Of one that does not think, nothing is asked.
    #[must_use]
    pub fn wished_effort(&self) -> Option<Effort> {
        match self.facts.thinking {
            Some(false) => None,
            Some(true) | None => self.effort,
        }
    }
}

/// How hard a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    #[serde(rename = "xhigh")]
    ExtraHigh,
    Max,
}

impl Effort {
    /// Its name, as most dialects spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::ExtraHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// Headers and bodies can hold secrets too, so only the address is printed.
impl std::fmt::Debug for ProviderSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} at {})", self.name, self.model, self.base_url)
    }
}

/// What is shown and recorded in place of a key.
const REDACTED: &str = "[redacted]";

/// A key; prints as [`REDACTED`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The key itself; only for the header that carries it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(REDACTED)
    }
}

/// One request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    pub messages: Messages,
    /// Tool schemas, as `Tool::schema` makes them.
    pub tools: Vec<Value>,
    pub tool_choice: ToolChoice,
    pub position: RequestPosition,
    pub written: WrittenCalls,
}

/// What a text is that reads like a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenCalls {
    /// A call that the server did not parse.
    Meant,
    /// Only a text: the server has parsed a call in this chat, so it parses all of them.
    Quoted,
}

/// Whether a request opens a turn or carries tool results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPosition {
    First,
    Later,
}

/// What is shown while a reply streams.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    Text(String),
    Reasoning(String),
    /// More of the arguments of a call that is not complete: JSON text as received.
    Arguments {
        /// Which call of the reply, from 0.
        call: usize,
        /// Its tool, as far as that is known.
        tool: String,
        more: String,
    },
    /// The request failed before anything was shown and is sent again.
    Retrying {
        attempt: u32,
        attempts: u32,
        delay: std::time::Duration,
        reason: String,
    },
}

/// What became of calls that the model wrote as text, as its server did not parse them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unparsed {
    /// They are calls of the reply.
    Read,
    /// They could not be read, and stand in the text.
    Left,
}

/// Tokens as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All that was sent, whether it came out of a cache or not.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// What of the input came out of the provider's cache.
    pub cache_read_tokens: u64,
    /// What of the input went into it.
    pub cache_write_tokens: u64,
}

impl ModelReply {
    /// The calls among its parts.
    #[must_use]
    pub fn calls(&self) -> Vec<&ToolCall> {
        history::calls_of(&self.parts).collect()
    }

    /// What of it the user reads.
    #[must_use]
    pub fn text(&self) -> String {
        history::text_of(&self.parts)
    }

    /// Its thinking, as far as it can be read.
    #[must_use]
    pub fn thinking(&self) -> String {
        history::thinking_of(&self.parts)
    }

    /// Whether there is nothing but blanks to read.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let mut texts = history::texts_of(&self.parts);
        texts.all(|text| text.trim().is_empty())
    }

    /// Tokens sent and received for it; 0 where the provider doesn't say.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.usage.map_or(0, |usage| {
            usage.input_tokens.saturating_add(usage.output_tokens)
        })
    }
}

/// A whole reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// All of it as it goes back to the model: in order, with what only its provider reads.
    pub parts: Vec<MessagePart>,
    pub finish: Finish,
    pub usage: Option<Usage>,
    pub unparsed: Option<Unparsed>,
}
