// SPDX-License-Identifier: GPL-3.0-or-later
//! What Gemini sends back: whole responses, each with more parts. Pure; `gemini` writes the request.

use serde::de::MapAccess;
use serde_json::{Map, Value, json};

use super::form::{
    Filling, FormReading, ListOf, Mention, NameReader, SaidCount, SaidText, SaidTrue, Slot, form,
    take_object,
};
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::failure::{FailureKind, ProviderError};
use crate::provider::report::{foreign, looks_like, reported};
use crate::provider::retry::RetryAdvice;
use crate::provider::{Dialect, Usage};

form! {
    /// One response, as much of it as matters.
    struct Response<'a> {
        "candidates" => candidates: ListOf<ResponseCandidate<'a>>,
        "usageMetadata" => usage: Option<SaidCounts>,
        "promptFeedback" => feedback: Option<Feedback<'a>>,
        "error" => error: Mention,
    }

    struct ResponseCandidate<'a> {
        "content" => content: Option<CandidateContent<'a>>,
        "finishReason" => finish_reason: SaidText<'a>,
        "finishMessage" => finish_message: SaidText<'a>,
    }

    struct CandidateContent<'a> {
        "parts" => parts: ListOf<ResponsePart<'a>>,
    }

    /// What is said of the message that was sent.
    struct Feedback<'a> {
        "blockReason" => block_reason: SaidText<'a>,
    }

    /// What was counted; a number that is left out is 0.
    struct SaidCounts {
        "promptTokenCount" => prompt: SaidCount,
        "toolUsePromptTokenCount" => tool_use_prompt: SaidCount,
        "candidatesTokenCount" => candidates: SaidCount,
        "thoughtsTokenCount" => thoughts: SaidCount,
        "cachedContentTokenCount" => cached: SaidCount,
    }
}

/// A part, which is not only read: it goes back as it came.
#[derive(Debug, Default)]
struct ResponsePart<'a> {
    text: SaidText<'a>,
    thought: SaidTrue,
    /// Its other fields, of which most have none. Those that are null say nothing.
    others: Map<String, Value>,
}

enum PartField {
    Text,
    Thought,
    Other(String),
}

impl<'de: 'a, 'a> Slot<'de> for ResponsePart<'a> {
    fn object<O: MapAccess<'de>>(&mut self, mut object: O) -> Result<(), O::Error> {
        let field = |name: &str| match name {
            "text" => PartField::Text,
            "thought" => PartField::Thought,
            other => PartField::Other(other.to_owned()),
        };
        while let Some(field) = object.next_key_seed(NameReader(field))? {
            match field {
                PartField::Text => object.next_value_seed(Filling(&mut self.text))?,
                PartField::Thought => object.next_value_seed(Filling(&mut self.thought))?,
                PartField::Other(name) => {
                    if let Some(value) = object.next_value::<Option<Value>>()? {
                        self.others.insert(name, value);
                    }
                }
            }
        }
        Ok(())
    }
}

impl ResponsePart<'_> {
    fn take(&mut self, draft: &mut ReplyDraft) {
        if let Some(call) = self.others.get("functionCall") {
            let place = open_call(call, draft);
            draft.seal(place, self.whole());
        } else if self.thought.0 {
            draft.thinking(self.text.get());
        } else if let Some(text) = self.text.some() {
            match self.others.get_mut("thoughtSignature") {
                Some(signature) => add_signed(text, signature.take(), draft),
                None => draft.text(text),
            }
        } else if !self.others.is_empty() {
            draft.sealed(self.whole());
        }
    }

    fn whole(&mut self) -> Value {
        let mut fields = std::mem::take(&mut self.others);
        if let Some(text) = self.text.some() {
            fields.insert("text".into(), text.into());
        }
        if self.thought.0 {
            fields.insert("thought".into(), true.into());
        }
        fields.into()
    }
}

/// The decoder of Gemini's responses; each is whole in itself.
#[derive(Debug, Default)]
pub struct GeminiDecoder;

impl GeminiDecoder {
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) -> FormReading {
        take_object(data, |mut response: Response<'_>| {
            take_response(name, data, &mut response, draft);
        })
    }

    pub fn take_document(&mut self, document: &str, draft: &mut ReplyDraft) {
        match serde_json::from_str::<Value>(document) {
            Ok(Value::Array(responses)) => {
                for response in responses {
                    self.take("", &response.to_string(), draft);
                }
            }
            Ok(Value::Object(_)) => {
                self.take("", document, draft);
                if !draft.has_failed() && looks_like(document) != Some(Dialect::Gemini) {
                    draft.fail(foreign(Dialect::Gemini, "", document));
                }
            }
            Ok(_) | Err(_) => draft.fail(foreign(Dialect::Gemini, "", document)),
        }
    }
}

fn take_response(name: &str, data: &str, response: &mut Response<'_>, draft: &mut ReplyDraft) {
    if let Some(said) = &response.usage {
        count(said, draft);
    }
    // We never ask for a second one.
    let candidate = response.candidates.iter_mut().next();
    let feedback = response.feedback.as_ref();
    let blocked = feedback.and_then(|feedback| feedback.block_reason.some());
    if let (None, Some(reason)) = (&candidate, blocked) {
        draft.fail(ProviderError::new(
            FailureKind::Reported,
            RetryAdvice::Never,
            format!("The provider's filter blocks the message ({reason}). Put it in other words."),
        ));
        return;
    }
    if response.error == Mention::Something || candidate.is_none() {
        if let Some(error) = reported(name, data) {
            draft.fail(error);
        }
        return;
    }
    let Some(candidate) = candidate else {
        return;
    };
    let contents = candidate.content.iter_mut();
    for part in contents.flat_map(|content| content.parts.iter_mut()) {
        part.take(draft);
    }
    if let Some(reason) = candidate.finish_reason.some() {
        finish(reason, candidate.finish_message.some(), draft);
    }
}

/// A call, which comes whole.
fn open_call(call: &Value, draft: &mut ReplyDraft) -> PartPlace {
    let id = call["id"].as_str().unwrap_or_default();
    let place = draft.open_call(id, call["name"].as_str().unwrap_or_default());
    match call.get("args").or_else(|| call.get("arguments")) {
        Some(Value::String(arguments)) => draft.add(place, arguments),
        Some(arguments) => draft.add(place, &arguments.to_string()),
        None => {}
    }
    draft.close_call(place);
    place
}

/// Text that goes back with a signature.
fn add_signed(text: &str, signature: Value, draft: &mut ReplyDraft) {
    let place = draft.open_text();
    draft.add(place, text);
    draft.seal(place, json!({"text": "", "thoughtSignature": signature}));
}

fn finish(reason: &str, message: Option<&str>, draft: &mut ReplyDraft) {
    if matches!(
        reason,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "OTHER" | "MALFORMED_RESPONSE"
    ) {
        let why = message.unwrap_or(reason);
        draft.fail(ProviderError::new(
            FailureKind::Reported,
            RetryAdvice::Backoff,
            format!("The model's reply can't be read: {why}. Send a message to try again."),
        ));
    } else {
        draft.finish_with(reason);
    }
}

fn count(said: &SaidCounts, draft: &mut ReplyDraft) {
    let number = |count: SaidCount| count.0.unwrap_or(0);
    draft.count(Usage {
        input_tokens: number(said.prompt) + number(said.tool_use_prompt),
        output_tokens: number(said.candidates) + number(said.thoughts),
        cache_read_tokens: number(said.cached),
        cache_write_tokens: 0,
    });
}
