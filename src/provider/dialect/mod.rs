// SPDX-License-Identifier: GPL-3.0-or-later
//! The protocols of model servers. Each has two pure faces: the body of a request from a history, and
//! a decoder of what comes back. A file for each face; nothing outside of here knows a dialect's words.

mod chat_completions;
mod chat_reply;
mod form;
mod gemini;
mod gemini_reply;
mod messages;
mod messages_reply;
mod ollama;
mod ollama_reply;
mod responses;
mod responses_reply;
mod wire;
mod written;

use serde_json::Value;

use super::draft::ReplyDraft;
use super::gate::passed;
use super::history::Dialect;
use super::{ChatRequest, ProviderSettings};
use written::WriteHistory;

pub use form::FormReading;
pub use written::WrittenBody;

/// The JSON body of a request. The user's fields come last and win; one that is null takes ours
/// out.
#[must_use]
pub fn request_body(settings: &ProviderSettings, request: &ChatRequest) -> Value {
    written_body(settings, request).whole()
}

/// The same, to be written.
#[must_use]
pub fn written_body<'r>(
    settings: &'r ProviderSettings,
    request: &'r ChatRequest,
) -> WrittenBody<'r> {
    let messages = passed(&request.messages, settings);
    let (fields, place, history): (_, _, WriteHistory) = match settings.dialect {
        Dialect::ChatCompletions => (
            chat_completions::fields(settings, request),
            "messages",
            chat_completions::history,
        ),
        Dialect::Messages => (
            messages::fields(settings, request),
            "messages",
            messages::history,
        ),
        Dialect::Responses => (
            responses::fields(settings, request),
            "input",
            responses::history,
        ),
        Dialect::Gemini => (
            gemini::fields(settings, request),
            "contents",
            gemini::history,
        ),
        Dialect::Ollama => (
            ollama::fields(settings, request, &messages),
            "messages",
            ollama::history,
        ),
    };
    WrittenBody {
        settings,
        messages,
        fields,
        place,
        history,
    }
}

/// What understands the payloads of a reply.
#[derive(Debug)]
pub enum Decoder {
    ChatCompletions(chat_reply::ChatDecoder),
    Messages(messages_reply::MessagesDecoder),
    Responses(responses_reply::ResponsesDecoder),
    Gemini(gemini_reply::GeminiDecoder),
    Ollama(ollama_reply::OllamaDecoder),
}

impl Decoder {
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::ChatCompletions => Self::ChatCompletions(Default::default()),
            Dialect::Messages => Self::Messages(Default::default()),
            Dialect::Responses => Self::Responses(Default::default()),
            Dialect::Gemini => Self::Gemini(Default::default()),
            Dialect::Ollama => Self::Ollama(Default::default()),
        }
    }

    /// Takes one event's name and data into DRAFT, if the data is an object; else nothing was taken.
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) -> FormReading {
        match self {
            Self::ChatCompletions(decoder) => decoder.take(name, data, draft),
            Self::Messages(decoder) => decoder.take(name, data, draft),
            Self::Responses(decoder) => decoder.take(name, data, draft),
            Self::Gemini(decoder) => decoder.take(name, data, draft),
            Self::Ollama(decoder) => decoder.take(name, data, draft),
        }
    }

    /// The mark by which streams end came. In dialects with a word of their own for the end it says nothing.
    pub fn take_done(&mut self, draft: &mut ReplyDraft) {
        if let Self::ChatCompletions(decoder) = self {
            decoder.end(draft);
        }
    }

    /// Takes the answer of a server that does not stream. Its end is the reply's end.
    pub fn take_document(&mut self, document: &str, draft: &mut ReplyDraft) {
        match self {
            Self::ChatCompletions(decoder) => decoder.take_document(document, draft),
            Self::Messages(decoder) => decoder.take_document(document, draft),
            Self::Responses(decoder) => decoder.take_document(document, draft),
            Self::Gemini(decoder) => decoder.take_document(document, draft),
            Self::Ollama(decoder) => decoder.take_document(document, draft),
        }
    }
}
