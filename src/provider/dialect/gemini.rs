// SPDX-License-Identifier: GPL-3.0-or-later
//! The request body of Gemini's `streamGenerateContent`. Pure; `gemini_reply` reads what comes back.

use serde_json::{Map, Value, json};

use super::wire::{
    SentCall, SentCalls, Side, Sides, add_users_fields, described, object_arguments, sendable_name,
};
use super::written::HISTORY;
use crate::protocol::CallOutcome;
use crate::provider::history::{
    ChatMessage, Dialect, MessagePart, Messages, ModelOrigin, PartContent,
};
use crate::provider::models::{Knob, Rest, budget_of, level};
use crate::provider::{ChatRequest, Effort, ProviderSettings, ToolChoice};

/// The fields of a request's body.
pub fn fields(settings: &ProviderSettings, request: &ChatRequest) -> Map<String, Value> {
    let mut body = Map::new();
    let system: Vec<Value> = request
        .messages
        .iter()
        .filter_map(|message| match message {
            ChatMessage::System(text) => Some(json!({"text": text})),
            _ => None,
        })
        .collect();
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
    if !body.contains_key("tools") {
        body.shift_remove("toolConfig");
    }
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
            ChatMessage::User(text) => add("user", vec![json!({"text": text})]),
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
