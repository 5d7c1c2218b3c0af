// SPDX-License-Identifier: GPL-3.0-or-later
//! What the requests of all dialects have in common: the user's fields, names and arguments that
//! servers take, ids of calls that were made by another server. Pure.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

use crate::protocol::{CallArguments, ToolCall};
use crate::provider::history::{ChatMessage, host_of, is_below};
use crate::provider::model_facts::{Knob, level};
use crate::provider::{ChatRequest, Effort, ProviderSettings, RequestPosition};

/// What says which tools to call: alone, without tools, servers refuse it.
const ABOUT_TOOLS: &[&str] = &["tool_choice", "parallel_tool_calls", "toolConfig"];

/// Adds the user's fields for a request at POSITION to BODY. They may take the tools out.
pub fn add_users_fields(
    body: &mut Map<String, Value>,
    settings: &ProviderSettings,
    position: RequestPosition,
) {
    merge(body, &settings.body);
    if position == RequestPosition::First {
        merge(body, &settings.first_body);
    }
    if !body.contains_key("tools") {
        body.retain(|name, _| !ABOUT_TOOLS.contains(&name.as_str()));
    }
}

/// The texts of the system prompt.
pub fn system_texts(request: &ChatRequest) -> Vec<&str> {
    let texts = request.messages.iter().filter_map(|message| match message {
        ChatMessage::System(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// PARTS of a message up to the last that is of none of the types of THOUGHTS: thinking that led to nothing
/// is refused.
pub fn without_last_thoughts(mut parts: Vec<Value>, thoughts: &[&str]) -> Vec<Value> {
    let is_thought = |part: &Value| {
        part["type"]
            .as_str()
            .is_some_and(|it| thoughts.contains(&it))
    };
    let end = parts.iter().rposition(|part| !is_thought(part));
    parts.truncate(end.map_or(0, |end| end + 1));
    parts
}

/// Names what the requests of a chat begin with, which FIRST gives of BODY, and its tools, so that they come
/// to the machine at OpenAI that has it in its cache. Others may refuse the field.
pub fn add_cache_key(
    body: &mut Map<String, Value>,
    settings: &ProviderSettings,
    first: impl FnOnce(&Map<String, Value>) -> Option<Value>,
) {
    let host = host_of(&settings.base_url);
    if host != "api.openai.com" && !is_below(&host, "openai.azure.com") {
        return;
    }
    let beginning: String = first(body)
        .iter()
        .chain(body.get("tools"))
        .map(Value::to_string)
        .collect();
    let key = format!("agent-q-{:016x}", xxh3_64(beginning.as_bytes()));
    body.insert("prompt_cache_key".into(), key.into());
}

/// How hard to think, in a word that the model knows.
pub fn named_effort(settings: &ProviderSettings) -> Option<Effort> {
    let wish = settings.wished_effort()?;
    match Knob::of(&settings.model) {
        Some(knob) => level(wish, knob.levels()),
        None => Some(wish),
    }
}

fn merge(body: &mut Map<String, Value>, fields: &Map<String, Value>) {
    for (name, value) in fields {
        if value.is_null() {
            body.shift_remove(name);
        } else {
            body.insert(name.clone(), value.clone());
        }
    }
}

/// Models make names up; a server that checks them would refuse the whole conversation.
pub fn sendable_name(name: &str) -> String {
    const LONGEST: usize = 64;
    if name.is_empty() {
        return "unnamed".to_owned();
    }
    name.chars()
        .take(LONGEST)
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .collect()
}

/// The arguments exactly as received, so that cached prompts stay valid. What is no JSON object
/// goes back as an empty one: servers that parse old calls fail on it, and the call's result says
/// what was wrong.
pub fn sendable_arguments(call: &ToolCall) -> String {
    match &call.arguments {
        CallArguments::Object(_) | CallArguments::Inexact(_)
            if call.raw_arguments.trim_start().starts_with('{') =>
        {
            call.raw_arguments.clone()
        }
        CallArguments::Object(map) => Value::Object(map.clone()).to_string(),
        CallArguments::Malformed(_) | CallArguments::Inexact(_) | CallArguments::Truncated => {
            "{}".to_owned()
        }
    }
}

/// The same as an object, for servers that don't take text.
pub fn object_arguments(call: &ToolCall) -> Value {
    match &call.arguments {
        CallArguments::Object(map) => Value::Object(map.clone()),
        _ => Map::new().into(),
    }
}

/// Whether a server takes the id of a call that another one made.
pub type TakesId = fn(&str) -> bool;

/// Ids of letters, digits, `_` and `-`, which all servers but Mistral's take.
pub fn is_plain_id(id: &str) -> bool {
    const LONGEST: usize = 40;
    (1..=LONGEST).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Ids of any kind.
pub fn is_some_id(id: &str) -> bool {
    !id.is_empty()
}

/// Ids of nine letters and digits.
pub fn is_short_id(id: &str) -> bool {
    id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// ID, or one in its place that every server takes and that is always the same.
fn fitting_id(id: &str, takes: TakesId) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    const LENGTH: usize = 9;
    if takes(id) {
        return id.to_owned();
    }
    let mut number = xxh3_64(id.as_bytes());
    let mut fitting = String::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        fitting.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
    }
    fitting
}

/// A call as it was sent.
#[derive(Debug, Clone, Default)]
pub struct SentCall {
    /// Empty when it went without one.
    pub id: String,
    pub name: String,
}

/// The calls of a history that passed the gate: their results come right behind them, in their order, and
/// that alone says which is whose. Servers use an id twice, in a reply or in each turn; others refuse that.
#[derive(Debug, Default)]
pub struct SentCalls {
    /// Those whose results come next.
    open: VecDeque<SentCall>,
    /// The ids that were sent, with how often each was wished for.
    ids: HashMap<String, usize>,
}

impl SentCalls {
    /// CALL as it goes to a server that TAKES such ids.
    pub fn send(&mut self, call: &ToolCall, takes: TakesId) -> SentCall {
        let id = self.unique(fitting_id(&call.id, takes), takes);
        let sent = SentCall {
            id,
            name: sendable_name(&call.name),
        };
        self.note(sent.clone());
        sent
    }

    /// WISHED, or an id in its place if a call went under that before: one that the server TAKES.
    fn unique(&mut self, wished: String, takes: TakesId) -> String {
        let Some(mut count) = self.ids.get(&wished).copied() else {
            self.ids.insert(wished.clone(), 1);
            return wished;
        };
        let id = loop {
            count += 1;
            let id = fitting_id(&format!("{wished}_{count}"), takes);
            if !self.ids.contains_key(&id) {
                break id;
            }
        };
        self.ids.insert(wished, count);
        self.ids.insert(id.clone(), 1);
        id
    }

    pub fn note(&mut self, sent: SentCall) {
        self.open.push_back(sent);
    }

    /// The call whose result comes now.
    pub fn of_result(&mut self) -> SentCall {
        self.open.pop_front().unwrap_or_default()
    }
}

/// A message: who speaks, and its parts.
pub type Side = (&'static str, Vec<Value>);

/// Makes one message of those of one side that follow each other.
#[derive(Debug, Default)]
pub struct Sides {
    last: Option<Side>,
}

impl Sides {
    /// Adds PARTS by ROLE; returns the message before, if that is complete by this.
    #[must_use]
    pub fn add(&mut self, role: &'static str, mut parts: Vec<Value>) -> Option<Side> {
        match &mut self.last {
            _ if parts.is_empty() => None,
            Some((last, before)) if *last == role => {
                before.append(&mut parts);
                None
            }
            last => last.replace((role, parts)),
        }
    }

    /// The last message.
    #[must_use]
    pub fn end(self) -> Option<Side> {
        self.last
    }
}

/// Name, description and parameters of a tool, from its schema.
pub fn described(tool: &Value) -> (Value, Value, Value) {
    let function = tool.get("function").unwrap_or(tool);
    let field = |name: &str| function.get(name).cloned().unwrap_or(Value::Null);
    let parameters = match field("parameters") {
        Value::Null => serde_json::json!({"type": "object", "properties": {}}),
        other => other,
    };
    (field("name"), field("description"), parameters)
}
