// SPDX-License-Identifier: GPL-3.0-or-later
//! The protocols of model servers. Each has two pure faces: the body of a request from a history, and
//! a decoder of what comes back. Nothing outside of here knows the words of a dialect, a file each.

mod chat_completions;
mod form;
mod gemini;
mod messages;
mod ollama;
mod responses;
mod wire;

use serde_json::Value;

pub use super::body::WrittenBody;
pub use form::FormReading;

use super::body::WriteHistory;
use super::draft::ReplyDraft;
use super::gate::passed;
use super::history::Dialect;
use super::{ChatRequest, ProviderSettings};

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
    ChatCompletions(chat_completions::ChatDecoder),
    Messages(messages::MessagesDecoder),
    Responses(responses::ResponsesDecoder),
    Gemini(gemini::GeminiDecoder),
    Ollama(ollama::OllamaDecoder),
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
