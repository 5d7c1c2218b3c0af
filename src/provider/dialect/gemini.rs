// SPDX-License-Identifier: GPL-3.0-or-later
//! Gemini's `streamGenerateContent`: the body of a request, and the decoder of what comes back: whole
//! responses, each with more parts. Pure.

use serde::de::MapAccess;
use serde_json::{Map, Value, json};

use super::form::{
    Filling, FormReading, ListOf, Mention, NameReader, SaidCount, SaidText, SaidTrue, Slot, form,
    take_object,
};
use super::wire::{
    SentCall, SentCalls, Side, Sides, add_users_fields, described, object_arguments, sendable_name,
    system_texts,
};
use crate::protocol::CallOutcome;
use crate::provider::body::HISTORY;
use crate::provider::draft::{PartPlace, ReplyDraft};
use crate::provider::failure::{FailureKind, ProviderError};
use crate::provider::history::{ChatMessage, MessagePart, Messages, ModelOrigin, PartContent};
use crate::provider::model_facts::{Knob, Rest, budget_of, level};
use crate::provider::refusal::{foreign, looks_like, reported};
use crate::provider::retry::RetryAdvice;
use crate::provider::{ChatRequest, Dialect, Effort, ProviderSettings, ToolChoice, Usage};

/// The fields of a request's body.
pub fn fields(settings: &ProviderSettings, request: &ChatRequest) -> Map<String, Value> {
    let mut body = Map::new();
    let system = system_texts(request).into_iter();
    let system: Vec<Value> = system.map(|text| json!({"text": text})).collect();
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({"parts": system}));
    }
    body.insert("contents".into(), HISTORY);
    if !request.tools.is_empty() {
        let functions: Vec<Value> = request.tools.iter().map(function_json).collect();
        let tools = json!([{"functionDeclarations": functions}]);
        body.insert("tools".into(), tools);
        let config = json!({"functionCallingConfig": tool_choice_json(&request.tool_choice)});
        body.insert("toolConfig".into(), config);
    }
    if let Some(thinking) = thinking_json(settings) {
        body.insert(
            "generationConfig".into(),
            json!({"thinkingConfig": thinking}),
        );
    }
    add_users_fields(&mut body, settings, request.position);
    body
}

/// What stands for the signature of a call that the model did not make itself, or whose signature was lost on
/// the way. Calls of the turn that runs are refused without one.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Whether a model checks signatures, as those that think by levels do.
fn checks_signatures(model: &str) -> bool {
    matches!(Knob::of(model), Some(Knob::Levels([_, ..])))
}

/// What is said about thinking. Models that don't think refuse a word about it.
fn thinking_json(settings: &ProviderSettings) -> Option<Value> {
    let knob = Knob::of(&settings.model)?;
    if knob == Knob::Levels(&[]) {
        return None;
    }
    let wish = settings.wished_effort();
    let mut thinking = json!({"includeThoughts": wish != Some(Effort::None)});
    if let Some(wish) = wish {
        match knob {
            Knob::Levels(levels) => {
                thinking["thinkingLevel"] = level(wish, levels)?.name().into();
            }
            Knob::Budget {
                rest: Rest::Possible,
                ..
            } if wish == Effort::None => thinking["thinkingBudget"] = 0.into(),
            Knob::Budget { least, most, .. } => {
                thinking["thinkingBudget"] = budget_of(wish).clamp(least, most).into();
            }
        }
    }
    Some(thinking)
}

fn function_json(tool: &Value) -> Value {
    let (name, description, parameters) = described(tool);
    json!({"name": name, "description": description, "parametersJsonSchema": parameters})
}

fn tool_choice_json(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    }
}

/// Hands TO the contents. Those of one side that follow each other are one, as all results of a turn
/// must be.
pub fn history(settings: &ProviderSettings, messages: &Messages, to: &mut dyn FnMut(Value)) {
    let mut sent = SentCalls::default();
    let mut sides = Sides::default();
    let mut add = |role, parts| {
        if let Some(content) = sides.add(role, parts) {
            to(content_json(content));
        }
    };
    let origin = settings.origin();
    for message in messages {
        match message {
            ChatMessage::System(_) => {}
            ChatMessage::User(said) => {
                let pictures = said.pictures.iter().map(|it| {
                    json!({"inlineData": {"mimeType": it.format.media_type(), "data": it.data}})
                });
                let text = json!({"text": said.text});
                add("user", pictures.chain([text]).collect());
            }
            ChatMessage::Tool {
                content, outcome, ..
            } => {
                let call = sent.of_result();
                add("user", vec![result_json(&call, content, *outcome)]);
            }
            ChatMessage::Assistant { origin: who, parts } => {
                add("model", model_parts(parts, who, &origin, &mut sent));
            }
        }
    }
    if let Some(content) = sides.end() {
        to(content_json(content));
    }
}

fn content_json((role, parts): Side) -> Value {
    json!({"role": role, "parts": parts})
}

/// The parts of an answer by WHO for ORIGIN. What the model wrote itself goes back exactly as it came:
/// the seal of a part is the part.
fn model_parts(
    parts: &[MessagePart],
    who: &ModelOrigin,
    origin: &ModelOrigin,
    sent: &mut SentCalls,
) -> Vec<Value> {
    let is_own = who == origin && who.dialect == Dialect::Gemini;
    let own = |part: &MessagePart| part.seal.clone().filter(|_| is_own);
    let is_call = |part: &Value| part.get("functionCall").is_some();
    let checks_signatures = checks_signatures(&origin.model);
    let mut sendable = Vec::new();
    for part in parts {
        let json = match &part.content {
            PartContent::Text(text) => match own(part) {
                Some(mut seal) => {
                    seal["text"] = text.as_str().into();
                    seal
                }
                None if text.trim().is_empty() => continue,
                None => json!({"text": text}),
            },
            PartContent::Call(call) => {
                let name = sendable_name(&call.name);
                let mut json = own(part).unwrap_or_else(
                    || json!({"functionCall": {"name": name, "args": object_arguments(call)}}),
                );
                // Of calls side by side, the model signs the first.
                let wants_signature = !is_own || !sendable.iter().any(is_call);
                if wants_signature && checks_signatures && json.get("thoughtSignature").is_none() {
                    json["thoughtSignature"] = NO_SIGNATURE.into();
                }
                let call_json = &json["functionCall"];
                let id = call_json["id"].as_str().unwrap_or_default().to_owned();
                let name = call_json["name"].as_str().unwrap_or(&name).to_owned();
                sent.note(SentCall { id, name });
                json
            }
            PartContent::Sealed => match own(part) {
                Some(seal) => seal,
                None => continue,
            },
            // Thoughts are only summaries; what counts is in the signatures.
            PartContent::Thinking(_) => continue,
        };
        sendable.push(json);
    }
    sendable
}

fn result_json(call: &SentCall, content: &str, outcome: CallOutcome) -> Value {
    let key = match outcome {
        CallOutcome::Succeeded => "output",
        CallOutcome::Failed | CallOutcome::Denied | CallOutcome::Cancelled => "error",
    };
    let mut response = json!({"name": call.name, "response": {key: content}});
    if !call.id.is_empty() {
        response["id"] = call.id.as_str().into();
    }
    json!({"functionResponse": response})
}

// What comes back.

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
    draft.count(Usage {
        input_tokens: said.prompt.or_zero() + said.tool_use_prompt.or_zero(),
        output_tokens: said.candidates.or_zero() + said.thoughts.or_zero(),
        cache_read_tokens: said.cached.or_zero(),
        cache_write_tokens: 0,
    });
}
