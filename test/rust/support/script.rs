// SPDX-License-Identifier: GPL-3.0-or-later
//! The scripts of the scripted model server: the JSON that people write, and the bytes and pauses
//! that it stands for. Used by `scripted_server`.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value, json};

#[path = "wire.rs"]
mod wire;

pub use wire::{Translation, Wire};

/// A whole script: turn n answers the n-th POST to a path at which a dialect is spoken.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    pub turns: Vec<Turn>,
    /// The last turn answers every later request as well.
    pub repeat_last: bool,
    /// What GET /models lists; `scripted` when left out.
    pub models: Option<Vec<String>>,
    /// The key that each request has to have, as a bearer; any or none when left out.
    pub key: Option<String>,
}

/// One answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Turn {
    /// 200 when left out.
    pub status: Option<u16>,
    pub headers: Map<String, Value>,
    /// Wait before anything is sent.
    pub delay_ms: u64,
    /// A body sent as it is, as JSON, in place of a stream; a string is sent as plain text.
    pub body: Option<Value>,
    pub steps: Vec<Step>,
    /// Close the connection without any answer.
    pub hang_up: bool,
    /// Leave the finish and [DONE] that every stream gets out.
    pub no_end: bool,
    /// Add nothing to the steps, as they were recorded.
    pub exact: bool,
    pub expect: Expect,
}

/// What the request must look like; another one is refused with 422 and the reason.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// Each of these is in the body's text or in a string of its JSON.
    pub contains: Vec<String>,
    /// None of these is.
    pub lacks: Vec<String>,
}

/// One step of an answer; what is set in it says which.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// A delta with content; `repeat` sends it so many times.
    text: Option<String>,
    repeat: Option<usize>,
    /// One delta whose content has this many bytes.
    big_text: Option<usize>,
    reasoning: Option<String>,
    /// A delta whose content is the time at which it is sent, in microseconds since 1970.
    stamp: Option<bool>,
    tool_calls: Option<Vec<Call>>,
    /// In how many pieces the arguments of `tool_calls` come; 1 is everything in one delta.
    fragments: Option<usize>,
    finish: Option<String>,
    /// Input and output tokens.
    usage: Option<[u64; 2]>,
    /// The end mark.
    done: Option<bool>,
    /// Text sent as it is, without the framing of an event.
    raw: Option<String>,
    /// Bytes sent as they are.
    base64: Option<String>,
    pause_ms: Option<u64>,
    /// Send nothing more until this file exists. With a call in fragments, that is after half of it, but
    /// for Chat Completions alone.
    hold: Option<PathBuf>,
    /// Send nothing any more and keep the connection open.
    stall: Option<bool>,
    /// Close the connection now, in the middle of the answer.
    cut: Option<bool>,
    /// From here on send pieces of this many bytes.
    split: Option<usize>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: Option<String>,
    name: String,
    /// JSON, or a string with the raw text.
    #[serde(default)]
    arguments: Value,
}

/// What the server does for a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Send(Vec<u8>),
    Stamp,
    Pause(Duration),
    Hold(PathBuf),
    Split(usize),
    Stall,
    Cut,
}

impl Script {
    /// Read a script; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let script: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for (number, turn) in script.turns.iter().enumerate() {
            turn.actions(number, Wire::Chat)
                .map_err(|error| format!("turn {}: {error}", number + 1))?;
        }
        Ok(script)
    }

    /// The script that plays what was recorded in FOLDER: the answers of its files, by their names.
    pub fn of_folder(folder: &Path) -> Result<Self, String> {
        let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
        let mut files: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "json"))
            .collect();
        files.sort();
        let turn = |file: &PathBuf| -> Result<Turn, String> {
            let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
            let mut exchange: Value =
                serde_json::from_str(&text).map_err(|error| error.to_string())?;
            serde_json::from_value(exchange["answer"].take())
                .map_err(|error| format!("{}: {error}", file.display()))
        };
        Ok(Self {
            turns: files.iter().map(turn).collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }

    /// The answer to the request with this number, from 0.
    pub fn turn(&self, number: usize) -> Option<&Turn> {
        match self.turns.get(number) {
            None if self.repeat_last => self.turns.last(),
            turn => turn,
        }
    }
}

impl Turn {
    /// The steps as actions. `number` makes the ids of calls without one differ between turns.
    pub fn actions(&self, number: usize, wire: Wire) -> Result<Vec<Action>, String> {
        let mut actions = vec![Action::Send(wire.opening())];
        actions.retain(|action| !self.exact && *action != Action::Send(Vec::new()));
        let mut translation = Translation::to(wire);
        let mut calls = 0;
        for step in &self.steps {
            step.act(number, &mut translation, &mut calls, &mut actions)?;
        }
        let ends = self.steps.iter().any(|step| {
            step.finish.is_some()
                || step.done.is_some()
                || step.cut.is_some()
                || step.stall.is_some()
        });
        if !ends && !self.no_end && !self.exact {
            let reason = if calls > 0 { "tool_calls" } else { "stop" };
            actions.push(Action::Send(translation.translate(finish(reason))));
            actions.push(Action::Send(translation.translate(event("[DONE]"))));
        }
        Ok(actions)
    }

    /// Why this request is not the one expected.
    pub fn objection(&self, body: &str) -> Option<String> {
        let Expect { contains, lacks } = &self.expect;
        if contains.is_empty() && lacks.is_empty() {
            return None;
        }
        let json: Value = serde_json::from_str(body).unwrap_or_default();
        let strings = strings_of(&json);
        let has = |wanted: &str| {
            body.contains(wanted) || strings.iter().any(|string| string.contains(wanted))
        };
        let missing = contains.iter().find(|wanted| !has(wanted));
        let unwanted = lacks.iter().find(|unwanted| has(unwanted));
        missing
            .map(|text| format!("the request should contain {text:?}"))
            .or(unwanted.map(|text| format!("the request should not contain {text:?}")))
    }
}

impl Step {
    fn act(
        &self,
        turn: usize,
        translation: &mut Translation,
        calls: &mut usize,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        let before = actions.len();
        let mut send = |bytes| actions.push(Action::Send(translation.translate(bytes)));
        if let Some(text) = &self.text {
            send(delta(&json!({"content": text})).repeat(self.repeat.unwrap_or(1)));
        }
        if let Some(bytes) = self.big_text {
            send(delta(&json!({"content": "x".repeat(bytes)})));
        }
        if let Some(reasoning) = &self.reasoning {
            send(delta(&json!({"reasoning_content": reasoning})));
        }
        self.send_calls(turn, translation, calls, actions);
        let mut send = |bytes| actions.push(Action::Send(translation.translate(bytes)));
        if let Some(reason) = &self.finish {
            send(finish(reason));
        }
        if let Some([input, output]) = self.usage {
            let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
            send(event(
                &json!({"object": "chat.completion.chunk", "choices": [], "usage": usage})
                    .to_string(),
            ));
        }
        if let Some(text) = &self.raw {
            actions.push(Action::Send(translation.end_text()));
            actions.push(Action::Send(text.clone().into_bytes()));
        }
        if let Some(text) = &self.base64 {
            let bytes = decode_base64(text).ok_or("not base64")?;
            actions.push(Action::Send(translation.end_text()));
            actions.push(Action::Send(bytes));
        }
        if self.done == Some(true) {
            actions.push(Action::Send(translation.translate(event("[DONE]"))));
        }
        actions.extend(self.stamp.filter(|&set| set).map(|_| Action::Stamp));
        actions.extend(
            self.pause_ms
                .map(|ms| Action::Pause(Duration::from_millis(ms))),
        );
        if let Some(file) = self.hold.as_ref().filter(|_| self.tool_calls.is_none()) {
            actions.push(Action::Hold(file.clone()));
        }
        actions.extend(self.split.map(|bytes| Action::Split(bytes.max(1))));
        actions.extend(self.stall.filter(|&set| set).map(|_| Action::Stall));
        actions.extend(self.cut.filter(|&set| set).map(|_| Action::Cut));
        if actions.len() == before && self.tool_calls.is_none() && self.done.is_none() {
            return Err("a step does nothing".to_owned());
        }
        Ok(())
    }
}

impl Step {
    fn send_calls(
        &self,
        turn: usize,
        translation: &mut Translation,
        calls: &mut usize,
        actions: &mut Vec<Action>,
    ) {
        for call in self.tool_calls.iter().flatten() {
            let deltas = call.deltas(turn, *calls, self.fragments.unwrap_or(1));
            *calls += 1;
            let mut send = |bytes| actions.push(Action::Send(translation.translate(bytes)));
            match &self.hold {
                Some(file) if deltas.len() > 1 => {
                    let (first, rest) = deltas.split_at(deltas.len().div_ceil(2));
                    send(first.concat());
                    actions.push(Action::Hold(file.clone()));
                    actions.push(Action::Send(translation.translate(rest.concat())));
                }
                _ => send(deltas.concat()),
            }
        }
    }
}

impl Call {
    fn deltas(&self, turn: usize, index: usize, fragments: usize) -> Vec<Vec<u8>> {
        let id = self
            .id
            .clone()
            .unwrap_or_else(|| format!("call_{}_{}", turn + 1, index + 1));
        let arguments = match &self.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(raw) => raw.clone(),
            other => other.to_string(),
        };
        let start = |arguments: &str| {
            delta(
                &json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                "function": {"name": self.name, "arguments": arguments}}]}),
            )
        };
        if fragments <= 1 {
            return vec![start(&arguments)];
        }
        let mut deltas = vec![start("")];
        let characters: Vec<char> = arguments.chars().collect();
        for piece in characters.chunks(characters.len().div_ceil(fragments).max(1)) {
            let text: String = piece.iter().collect();
            deltas.push(delta(
                &json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}),
            ));
        }
        deltas
    }
}

fn event(data: &str) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

/// A delta with the time.
pub fn stamp() -> Vec<u8> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    delta(&json!({"content": format!("{}\n", now.as_micros())}))
}

fn delta(delta: &Value) -> Vec<u8> {
    chunk(delta, &Value::Null)
}

fn finish(reason: &str) -> Vec<u8> {
    chunk(&json!({}), &reason.into())
}

fn chunk(delta: &Value, reason: &Value) -> Vec<u8> {
    event(
        &json!({"id": "scripted", "object": "chat.completion.chunk", "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
        .to_string(),
    )
}

fn strings_of(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings_of).collect(),
        Value::Object(fields) => fields.values().flat_map(strings_of).collect(),
        _ => Vec::new(),
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for digit in text.bytes().filter(|byte| !matches!(byte, b'=' | b'\n')) {
        let value = ALPHABET.iter().position(|&letter| letter == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}
