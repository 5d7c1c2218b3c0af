// SPDX-License-Identifier: GPL-3.0-or-later
//! The messages of a conversation, in no provider's dialect. They serialise without loss. What only
//! one provider understands is kept as a seal, which no other model is sent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::{CallOutcome, Picture, ToolCall};

/// The protocol that a model server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// OpenAI's Chat Completions, which most servers speak in some way.
    #[default]
    ChatCompletions,
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Responses, without anything kept on the server.
    Responses,
    /// Google's `streamGenerateContent`.
    Gemini,
    /// Ollama's own `/api/chat`.
    Ollama,
}

impl Dialect {
    /// The dialect that the host of an API speaks when nobody says which.
    #[must_use]
    pub fn usual_at(base_url: &str) -> Self {
        let host = host_of(base_url);
        if host == "api.anthropic.com" {
            Self::Messages
        } else if host == "generativelanguage.googleapis.com"
            && !base_url.trim_end_matches('/').ends_with("/openai")
        {
            Self::Gemini
        } else {
            Self::ChatCompletions
        }
    }
}

/// The host of an API in lower case; empty when there is none.
#[must_use]
pub fn host_of(base_url: &str) -> String {
    reqwest::Url::parse(base_url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_ascii_lowercase))
        .unwrap_or_default()
}

/// Whether HOST is DOMAIN, or below it.
#[must_use]
pub fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Who wrote an answer. Only the same model at the same host understands its seals.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ModelOrigin {
    pub dialect: Dialect,
    pub host: String,
    pub model: String,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatMessage {
    System(String),
    User(Said),
    Assistant {
        origin: ModelOrigin,
        /// In the order in which they came.
        parts: Vec<MessagePart>,
    },
    /// The result of one tool call.
    Tool {
        call_id: String,
        content: String,
        outcome: CallOutcome,
    },
}

/// What the user says. It is stored as a text where there are no pictures.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "StoredSaid", into = "StoredSaid")]
pub struct Said {
    pub text: String,
    /// The model sees them before it reads the text.
    pub pictures: Vec<Picture>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredSaid {
    Text(String),
    Pictured {
        text: String,
        pictures: Vec<Picture>,
    },
}

impl From<StoredSaid> for Said {
    fn from(stored: StoredSaid) -> Self {
        match stored {
            StoredSaid::Text(text) => text.into(),
            StoredSaid::Pictured { text, pictures } => Self { text, pictures },
        }
    }
}

impl From<Said> for StoredSaid {
    fn from(said: Said) -> Self {
        let Said { text, pictures } = said;
        match pictures.is_empty() {
            true => Self::Text(text),
            false => Self::Pictured { text, pictures },
        }
    }
}

impl From<String> for Said {
    fn from(text: String) -> Self {
        Self {
            text,
            pictures: Vec::new(),
        }
    }
}

impl From<&str> for Said {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Messages in their order. They are shared with the conversation that they come from, so that making a
/// request of a long one copies none of its text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Messages(Vec<Arc<ChatMessage>>);

impl Messages {
    pub fn push(&mut self, message: Arc<ChatMessage>) {
        self.0.push(message);
    }

    /// The same, as they are shared.
    #[must_use]
    pub fn shared(&self) -> &[Arc<ChatMessage>] {
        &self.0
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ChatMessage> + ExactSizeIterator {
        self.0.iter().map(AsRef::as_ref)
    }

    /// These, with MESSAGE in front.
    #[must_use]
    pub fn after(mut self, message: ChatMessage) -> Self {
        self.0.insert(0, Arc::new(message));
        self
    }

    /// These, without anything that only one provider reads.
    #[must_use]
    pub fn without_seals(&self) -> Self {
        self.into_iter()
            .map(|message| match message {
                ChatMessage::Assistant { origin, parts } => ChatMessage::Assistant {
                    origin: origin.clone(),
                    parts: parts
                        .iter()
                        .filter_map(MessagePart::unsealed_copy)
                        .collect(),
                },
                other => other.clone(),
            })
            .collect::<Vec<_>>()
            .into()
    }

    /// These, with calls and their results as text, for a model that can call nothing: hosts refuse
    /// calls in its conversation, or leave them out without a word.
    #[must_use]
    pub fn with_calls_as_text(&self) -> Self {
        self.into_iter()
            .map(ChatMessage::with_calls_as_text)
            .collect::<Vec<_>>()
            .into()
    }

    /// These as people look at them, without the bytes of pictures.
    #[must_use]
    pub fn to_look_at(&self) -> Self {
        let shown = |message: &Arc<ChatMessage>| match message.as_ref() {
            ChatMessage::User(said) if !said.pictures.is_empty() => {
                let mut said = said.clone();
                for picture in &mut said.pictures {
                    picture.data = format!("({} bytes)", picture.bytes());
                }
                Arc::new(ChatMessage::User(said))
            }
            _ => Arc::clone(message),
        };
        Self(self.0.iter().map(shown).collect())
    }

    /// Whether anything in them is only for one provider.
    #[must_use]
    pub fn have_seals(&self) -> bool {
        self.into_iter().any(|message| match message {
            ChatMessage::Assistant { parts, .. } => parts.iter().any(|part| part.seal.is_some()),
            _ => false,
        })
    }
}

impl From<Vec<ChatMessage>> for Messages {
    fn from(messages: Vec<ChatMessage>) -> Self {
        Self(messages.into_iter().map(Arc::new).collect())
    }
}

impl From<Vec<Arc<ChatMessage>>> for Messages {
    fn from(messages: Vec<Arc<ChatMessage>>) -> Self {
        Self(messages)
    }
}

impl<'a> IntoIterator for &'a Messages {
    type Item = &'a ChatMessage;
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, Arc<ChatMessage>>,
        fn(&'a Arc<ChatMessage>) -> Self::Item,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(AsRef::as_ref)
    }
}

impl ChatMessage {
    /// This, with calls or a result as text.
    #[must_use]
    pub fn with_calls_as_text(&self) -> Self {
        match self {
            Self::Assistant { origin, parts } => Self::Assistant {
                origin: origin.clone(),
                parts: parts.iter().map(MessagePart::with_call_as_text).collect(),
            },
            Self::Tool { content, .. } => {
                Self::User(format!("(The result of the call:)\n{content}").into())
            }
            other => other.clone(),
        }
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagePart {
    pub content: PartContent,
    /// What its provider wants back with it, such as a signature, in a form that only the dialect
    /// knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Value>,
}

/// What a part of an answer says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartContent {
    Text(String),
    Thinking(String),
    Call(ToolCall),
    /// Nothing that anybody but its provider can read.
    Sealed,
}

impl MessagePart {
    #[must_use]
    pub fn text(text: String) -> Self {
        Self::unsealed(PartContent::Text(text))
    }

    #[must_use]
    pub fn thinking(text: String) -> Self {
        Self::unsealed(PartContent::Thinking(text))
    }

    #[must_use]
    pub fn call(call: ToolCall) -> Self {
        Self::unsealed(PartContent::Call(call))
    }

    fn with_call_as_text(&self) -> Self {
        match &self.content {
            PartContent::Call(call) => {
                Self::text(format!("\n(I called {} {})", call.name, call.raw_arguments))
            }
            _ => self.clone(),
        }
    }

    /// This, as far as everybody can read it.
    fn unsealed_copy(&self) -> Option<Self> {
        match &self.content {
            PartContent::Sealed => None,
            content => Some(Self::unsealed(content.clone())),
        }
    }

    fn unsealed(content: PartContent) -> Self {
        Self {
            content,
            seal: None,
        }
    }
}

/// The text of PARTS.
#[must_use]
pub fn text_of(parts: &[MessagePart]) -> String {
    texts_of(parts).collect()
}

/// The pieces of it.
pub fn texts_of(parts: &[MessagePart]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(|part| match &part.content {
        PartContent::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

/// The thinking of PARTS, as far as it can be read.
#[must_use]
pub fn thinking_of(parts: &[MessagePart]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.content {
        PartContent::Thinking(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The calls of PARTS.
pub fn calls_of(parts: &[MessagePart]) -> impl Iterator<Item = &ToolCall> {
    parts.iter().filter_map(|part| match &part.content {
        PartContent::Call(call) => Some(call),
        _ => None,
    })
}
