// SPDX-License-Identifier: GPL-3.0-or-later
//! What Gemini sends back: whole responses, each with more parts. Pure; `gemini` writes the request.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::quick::{DeltaText, or_empty};
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::failure::{FailureKind, ProviderError};
use crate::provider::report::{reported, unreadable};
use crate::provider::retry::RetryAdvice;
use crate::provider::{Finish, Usage};

/// The usual response: text, thoughts, calls, a reason to end.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuickResponse<'a> {
    #[serde(borrow)]
    candidates: [QuickCandidate<'a>; 1],
    #[serde(default)]
    usage_metadata: Option<QuickUsage>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuickCandidate<'a> {
    #[serde(borrow)]
    content: Option<QuickContent<'a>>,
    #[serde(borrow)]
    finish_reason: Option<DeltaText<'a>>,
    #[serde(borrow)]
    finish_message: Option<DeltaText<'a>>,
}

#[derive(Deserialize)]
struct QuickContent<'a> {
    #[serde(borrow, default)]
    parts: Vec<QuickPart<'a>>,
}

/// With anything else in it, it is no such part.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct QuickPart<'a> {
    #[serde(borrow)]
    text: Option<DeltaText<'a>>,
    thought: Option<bool>,
    #[serde(borrow)]
    thought_signature: Option<DeltaText<'a>>,
    function_call: Option<Value>,
}

impl QuickPart<'_> {
    /// Whether it is text, a thought or a call, and not two of them.
    fn is_usual(&self) -> bool {
        match &self.function_call {
            Some(_) => self.text.is_none() && self.thought.is_none(),
            None => self.text.is_some(),
        }
    }

    fn take(self, draft: &mut ReplyDraft) {
        let text = or_empty(&self.text);
        let signature = self.thought_signature.as_ref().map(DeltaText::as_str);
        if let Some(call) = self.function_call {
            let place = open_call(&call, draft);
            let mut seal = Map::new();
            seal.insert("functionCall".into(), call);
            if let Some(signature) = signature {
                seal.insert("thoughtSignature".into(), signature.into());
            }
            draft.seal(place, seal.into());
        } else if self.thought == Some(true) {
            draft.thinking(text);
        } else if let Some(signature) = signature {
            add_signed(text, &signature.into(), draft);
        } else {
            draft.text(text);
        }
    }
}

/// What was counted; a number that is left out is 0.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct QuickUsage {
    prompt_token_count: u64,
    tool_use_prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    cached_content_token_count: u64,
}

impl QuickResponse<'_> {
    /// Whether there is nothing in it that has to be looked at more closely.
    fn is_usual(&self) -> bool {
        let [candidate] = &self.candidates;
        let parts = candidate.content.iter().flat_map(|it| &it.parts);
        self.error.is_none() && parts.into_iter().all(QuickPart::is_usual)
    }

    fn take(self, draft: &mut ReplyDraft) {
        if let Some(usage) = &self.usage_metadata {
            draft.count(Usage {
                input_tokens: usage.prompt_token_count + usage.tool_use_prompt_token_count,
                output_tokens: usage.candidates_token_count + usage.thoughts_token_count,
                cache_read_tokens: usage.cached_content_token_count,
                cache_write_tokens: 0,
            });
        }
        let [candidate] = self.candidates;
        for part in candidate.content.into_iter().flat_map(|it| it.parts) {
            part.take(draft);
        }
        if let Some(reason) = &candidate.finish_reason {
            let message = candidate.finish_message.as_ref().map(DeltaText::as_str);
            finish(reason.as_str(), message, draft);
        }
    }
}

/// The decoder of Gemini's responses; each is whole in itself.
#[derive(Debug, Default)]
pub struct GeminiDecoder;

impl GeminiDecoder {
    pub fn take(&mut self, name: &str, data: &str, draft: &mut ReplyDraft) {
        if data == "[DONE]" {
            return;
        }
        if let Ok(response) = serde_json::from_str::<QuickResponse<'_>>(data)
            && name != "error"
            && response.is_usual()
        {
            response.take(draft);
            return;
        }
        match serde_json::from_str::<Value>(data) {
            Ok(response) => take_response(name, data, &response, draft),
            Err(_) => draft.fail(unreadable(name, data)),
        }
    }

    pub fn take_document(&mut self, document: &str, draft: &mut ReplyDraft) {
        match serde_json::from_str::<Value>(document) {
            Ok(Value::Array(responses)) => {
                for response in responses {
                    take_response("", &response.to_string(), &response, draft);
                }
            }
            Ok(response) => take_response("", document, &response, draft),
            Err(_) => draft.fail(unreadable("", document)),
        }
    }
}

fn take_response(name: &str, data: &str, response: &Value, draft: &mut ReplyDraft) {
    count(&response["usageMetadata"], draft);
    let blocked = response["promptFeedback"]["blockReason"].as_str();
    let candidate = &response["candidates"][0];
    if let Some(reason) = blocked.filter(|_| candidate.is_null()) {
        draft.fail(ProviderError::new(
            FailureKind::Reported,
            RetryAdvice::Never,
            format!("The provider's filter blocks the message ({reason}). Put it in other words."),
        ));
        return;
    }
    if response.get("error").is_some() || (candidate.is_null() && name == "error") {
        if let Some(error) = reported(name, data) {
            draft.fail(error);
        }
        return;
    }
    for part in candidate["content"]["parts"]
        .as_array()
        .into_iter()
        .flatten()
    {
        take_part(part, draft);
    }
    if let Some(reason) = candidate["finishReason"].as_str() {
        finish(reason, candidate["finishMessage"].as_str(), draft);
    }
}

fn take_part(part: &Value, draft: &mut ReplyDraft) {
    let signature = part.get("thoughtSignature");
    let text = part["text"].as_str();
    if let Some(call) = part.get("functionCall") {
        let place = open_call(call, draft);
        draft.seal(place, part.clone());
    } else if part["thought"] == true {
        draft.thinking(text.unwrap_or_default());
    } else if let Some(signature) = signature.filter(|_| text.is_some()) {
        add_signed(text.unwrap_or_default(), signature, draft);
    } else if let Some(text) = text {
        draft.text(text);
    } else {
        draft.sealed(part.clone());
    }
}

/// A call, which comes whole.
fn open_call(call: &Value, draft: &mut ReplyDraft) -> PartPlace {
    let id = call["id"].as_str().unwrap_or_default();
    let place = draft.open_call(id, call["name"].as_str().unwrap_or_default());
    if let Some(arguments) = call.get("args") {
        draft.add(place, &arguments.to_string());
    }
    draft.close_call(place);
    place
}

/// Text that goes back with a signature.
fn add_signed(text: &str, signature: &Value, draft: &mut ReplyDraft) {
    let place = draft.open_text();
    draft.add(place, text);
    draft.seal(place, json!({"text": "", "thoughtSignature": signature}));
}

fn finish(reason: &str, message: Option<&str>, draft: &mut ReplyDraft) {
    match reason {
        "STOP" => draft.finish_for(Finish::Stop),
        "MAX_TOKENS" => draft.finish_for(Finish::Length),
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE" => {
            draft.finish_for(Finish::ContentFilter);
        }
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "OTHER" | "MALFORMED_RESPONSE" => {
            let why = message.unwrap_or(reason);
            draft.fail(ProviderError::new(
                FailureKind::Reported,
                RetryAdvice::Backoff,
                format!("The model's reply can't be read: {why}. Send a message to try again."),
            ));
        }
        other => draft.finish_for(Finish::Other(other.to_owned())),
    }
}

fn count(usage: &Value, draft: &mut ReplyDraft) {
    if !usage.is_object() {
        return;
    }
    let number = |name: &str| usage[name].as_u64().unwrap_or(0);
    draft.count(Usage {
        input_tokens: number("promptTokenCount") + number("toolUsePromptTokenCount"),
        output_tokens: number("candidatesTokenCount") + number("thoughtsTokenCount"),
        cache_read_tokens: number("cachedContentTokenCount"),
        cache_write_tokens: 0,
    });
}
