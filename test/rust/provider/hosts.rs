// SPDX-License-Identifier: GPL-3.0-or-later
//! What hosts refuse of a request, as far as its history is concerned: a pure function over bodies.

use std::collections::HashSet;

use agent_q_core::provider::{Dialect, ProviderSettings};
use serde_json::Value;

use crate::matrix::settings;

/// A host that has rules of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    OpenAi,
    /// It takes turns, and ids of nine.
    Mistral,
    /// A server on this machine with the template of such a model.
    Devstral,
    Kimi,
    Anthropic,
    Responses,
    Gemini,
    Ollama,
}

pub const HOSTS: [Host; 8] = [
    Host::OpenAi,
    Host::Mistral,
    Host::Devstral,
    Host::Kimi,
    Host::Anthropic,
    Host::Responses,
    Host::Gemini,
    Host::Ollama,
];

impl Host {
    pub fn settings(self) -> ProviderSettings {
        let (dialect, base_url, model) = match self {
            Self::OpenAi => (
                Dialect::ChatCompletions,
                "https://api.openai.com/v1",
                "gpt-5.2",
            ),
            Self::Mistral => (
                Dialect::ChatCompletions,
                "https://api.mistral.ai/v1",
                "codestral-latest",
            ),
            Self::Devstral => (
                Dialect::ChatCompletions,
                "http://127.0.0.1:8080/v1",
                "Devstral-Small-2-24B",
            ),
            Self::Kimi => (
                Dialect::ChatCompletions,
                "https://api.moonshot.cn/v1",
                "kimi-k3",
            ),
            Self::Anthropic => (
                Dialect::Messages,
                "https://api.anthropic.com",
                "claude-sonnet-4-5",
            ),
            Self::Responses => (Dialect::Responses, "https://api.openai.com/v1", "gpt-5.2"),
            Self::Gemini => (
                Dialect::Gemini,
                "https://generativelanguage.googleapis.com/v1beta",
                "gemini-flash-latest",
            ),
            Self::Ollama => (Dialect::Ollama, "http://127.0.0.1:11434", "qwen3:4b"),
        };
        ProviderSettings {
            base_url: base_url.into(),
            model: model.into(),
            ..settings(dialect)
        }
    }

    /// What it would say to BODY.
    pub fn accepts(self, body: &Value) -> Result<(), String> {
        match self {
            Self::OpenAi | Self::Mistral | Self::Devstral | Self::Kimi | Self::Ollama => {
                chat(self, list(&body["messages"])?)
            }
            Self::Anthropic => messages(list(&body["messages"])?),
            Self::Responses => responses(list(&body["input"])?),
            Self::Gemini => gemini(list(&body["contents"])?),
        }
    }
}

fn list(value: &Value) -> Result<&[Value], String> {
    let list = value.as_array().ok_or(format!("{value} is no list"))?;
    check(!list.is_empty(), "an empty list")?;
    Ok(list)
}

fn check(truth: bool, complaint: impl ToString) -> Result<(), String> {
    match truth {
        true => Ok(()),
        false => Err(complaint.to_string()),
    }
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

fn is_name(name: &Value) -> bool {
    name.as_str().is_some_and(|name| {
        (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it))
    })
}

/// The ids that came so far.
#[derive(Default)]
struct Ids(HashSet<String>);

impl Ids {
    fn note(&mut self, id: &Value, longest: usize) -> Result<(), String> {
        let id = id.as_str().unwrap_or_default();
        check((1..=longest).contains(&id.len()), format!("the id {id:?}"))?;
        check(self.0.insert(id.to_owned()), format!("{id} comes twice"))
    }
}

fn chat(host: Host, messages: &[Value]) -> Result<(), String> {
    let takes_turns = matches!(host, Host::Mistral | Host::Devstral);
    let mut ids = Ids::default();
    let mut open: Vec<&Value> = Vec::new();
    let mut before = "system";
    let mut turn = "assistant";
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let calls = message["tool_calls"].as_array();
        if role != "tool" {
            check(open.is_empty(), format!("{open:?} have no result"))?;
            check(
                role != before || role == "system" && index == 0,
                format!("{role} twice in a row"),
            )?;
        }
        if takes_turns && role != "system" && role != "tool" && calls.is_none() {
            check(role != turn, format!("{role} out of turn"))?;
            turn = role;
        }
        match role {
            "system" => check(index == 0, "system in between")?,
            "user" => {
                check(!is_blank(&message["content"]), "a blank message")?;
                check(!takes_turns || before != "tool", "user after tool")?;
            }
            "assistant" => {
                check(before != "system", "the assistant first")?;
                check(
                    calls.is_some() || !is_blank(&message["content"]),
                    "an empty answer",
                )?;
                for call in calls.into_iter().flatten() {
                    ids.note(&call["id"], 64)?;
                    let function = &call["function"];
                    check(is_name(&function["name"]), &function["name"])?;
                    let arguments = &function["arguments"];
                    let object = match arguments.as_str() {
                        Some(text) if host != Host::Ollama => {
                            serde_json::from_str(text).map_err(|error| error.to_string())?
                        }
                        _ => arguments.clone(),
                    };
                    check(object.is_object(), format!("arguments {arguments}"))?;
                    let is_short =
                        |id: &str| id.len() == 9 && id.bytes().all(|it| it.is_ascii_alphanumeric());
                    check(
                        !takes_turns || call["id"].as_str().is_some_and(is_short),
                        &call["id"],
                    )?;
                    open.push(call);
                }
                check(
                    host != Host::Kimi
                        || calls.is_none()
                        || message["reasoning_content"]
                            .as_str()
                            .is_some_and(|it| !it.is_empty()),
                    "no reasoning_content",
                )?;
            }
            "tool" => {
                check(!open.is_empty(), format!("{message} has no call"))?;
                let call = open.remove(0);
                check(call["id"] == message["tool_call_id"], message)?;
                check(
                    host != Host::Ollama || call["function"]["name"] == message["tool_name"],
                    message,
                )?;
            }
            other => return Err(format!("the role {other:?}")),
        }
        before = role;
    }
    check(open.is_empty(), format!("{open:?} have no result"))
}

fn messages(messages: &[Value]) -> Result<(), String> {
    let mut ids = Ids::default();
    let mut open: Vec<&Value> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = ["user", "assistant"][index % 2];
        check(message["role"] == role, format!("no {role} at {index}"))?;
        let blocks = list(&message["content"])?;
        let results = blocks
            .iter()
            .take_while(|it| it["type"] == "tool_result")
            .map(|it| &it["tool_use_id"]);
        let results: Vec<&Value> = results.collect();
        check(
            open == results,
            format!("results of {open:?} are {results:?}"),
        )?;
        open.clear();
        for block in &blocks[results.len()..] {
            match block["type"].as_str().unwrap_or_default() {
                "text" => check(!is_blank(&block["text"]), "blank text")?,
                "tool_use" if role == "assistant" => {
                    ids.note(&block["id"], 64)?;
                    check(is_name(&block["id"]), &block["id"])?;
                    check(is_name(&block["name"]), &block["name"])?;
                    check(block["input"].is_object(), &block["input"])?;
                    open.push(&block["id"]);
                }
                "thinking" | "redacted_thinking" if role == "assistant" => {}
                other => return Err(format!("{other} of the {role}")),
            }
        }
        let last = blocks.last().map(|it| &it["type"]);
        check(
            last.is_none_or(|it| it != "thinking" && it != "redacted_thinking"),
            "thinking at the end",
        )?;
    }
    check(open.is_empty(), format!("{open:?} have no result"))
}

fn responses(items: &[Value]) -> Result<(), String> {
    let mut ids = Ids::default();
    let mut open: Vec<&Value> = Vec::new();
    let mut after_reasoning = false;
    for item in items {
        let kind = item["type"].as_str().unwrap_or_default();
        if after_reasoning {
            let is_user = item["role"] == "user";
            check(
                !is_user && kind != "function_call_output",
                "reasoning alone",
            )?;
        }
        match kind {
            "message" => {
                for part in list(&item["content"])? {
                    check(!is_blank(&part["text"]), "blank text")?;
                }
            }
            "function_call" => {
                ids.note(&item["call_id"], 64)?;
                check(is_name(&item["name"]), &item["name"])?;
                open.push(&item["call_id"]);
            }
            "function_call_output" => {
                let place = open.iter().position(|it| **it == item["call_id"]);
                open.remove(place.ok_or(format!("{item} has no call"))?);
            }
            "reasoning" => {}
            other => return Err(format!("the item {other:?}")),
        }
        after_reasoning = kind == "reasoning";
    }
    check(!after_reasoning, "reasoning alone")?;
    check(open.is_empty(), format!("{open:?} have no result"))
}

fn gemini(contents: &[Value]) -> Result<(), String> {
    let mut open: Vec<&Value> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let role = ["user", "model"][index % 2];
        check(content["role"] == role, format!("no {role} at {index}"))?;
        let parts = list(&content["parts"])?;
        let responses = parts.iter().map_while(|it| it.get("functionResponse"));
        let responses: Vec<&Value> = responses.collect();
        check(
            open.len() == responses.len(),
            format!("{} responses to {} calls", responses.len(), open.len()),
        )?;
        for (call, response) in open.drain(..).zip(&responses) {
            check(call["name"] == response["name"], response)?;
            check(call["id"] == response["id"], response)?;
        }
        for part in &parts[responses.len()..] {
            if let Some(call) = part.get("functionCall") {
                check(role == "model", "a call of the user's")?;
                let signed = part["thoughtSignature"]
                    .as_str()
                    .is_some_and(|it| !it.is_empty());
                check(
                    signed || !open.is_empty(),
                    "the first call has no signature",
                )?;
                open.push(call);
            } else {
                check(
                    !is_blank(&part["text"]) || part["thoughtSignature"].is_string(),
                    format!("the part {part}"),
                )?;
            }
        }
    }
    check(open.is_empty(), format!("{open:?} have no response"))
}
