// SPDX-License-Identifier: GPL-3.0-or-later
//! Events and tools as Lisp values, and replies as Rust ones. What Serde makes of them decides how they look
//! on the other side: see [`lisp`].

use std::time::Duration;

use emacs::{Env, IntoLisp, Result, Value, Vector};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::text::Text;
use crate::call::metrics::{MetricsKey, Statistics};
use crate::protocol::{Done, EmacsError, EmacsReply, ToolCall};
use crate::provider::arguments::parse_arguments;
use crate::tool::{Origin, Parameter, Presence, Tool};

/// IT as a Lisp value. An object is a property list; null and false are nil. An underscore in a name is
/// a hyphen, and a name that begins with a colon has a keyword for its value. An error is `:problem`.
pub fn lisp(env: &Env, it: impl Serialize) -> Result<Value<'_>> {
    value(env, &serde_json::to_value(it)?)
}

fn value<'e>(env: &'e Env, json: &Json) -> Result<Value<'e>> {
    match json {
        Json::Null | Json::Bool(false) => ().into_lisp(env),
        Json::Bool(true) => true.into_lisp(env),
        Json::Number(number) => match number.is_f64() {
            true => number.as_f64().into_lisp(env),
            false => number.as_i64().unwrap_or(i64::MAX).into_lisp(env),
        },
        Json::String(text) => text.into_lisp(env),
        Json::Array(elements) => {
            let elements = elements.iter().map(|it| value(env, it));
            env.list(&elements.collect::<Result<Vec<_>>>()?)
        }
        Json::Object(members) => {
            let mut items = Vec::with_capacity(2 * members.len());
            for (name, member) in members {
                let (name, member) = match (member.get("Ok"), member.get("Err")) {
                    (Some(member), _) => (name.as_str(), member),
                    (None, Some(problem)) => ("problem", problem),
                    (None, None) => (name.as_str(), member),
                };
                items.push(keyword(env, name.trim_start_matches(':'))?);
                items.push(match member {
                    Json::String(text) if name.starts_with(':') => keyword(env, text)?,
                    // Emacs allocates a multibyte string twice, and collects garbage the sooner; for
                    // ASCII in the pieces of a stream the cheap kind of string is the same.
                    Json::String(text) if name == "text" && text.is_ascii() => {
                        text.as_bytes().into_lisp(env)?
                    }
                    member => value(env, member)?,
                });
            }
            env.list(&items)
        }
    }
}

fn keyword<'e>(env: &'e Env, name: &str) -> Result<Value<'e>> {
    let mut symbol = String::with_capacity(name.len() + 2);
    symbol.push(':');
    symbol.extend(name.chars().map(|it| if it == '_' { '-' } else { it }));
    env.intern(&symbol)
}

/// TOOL for [`lisp`].
#[must_use]
pub fn tool(tool: &Tool) -> Json {
    let origin = match &tool.origin {
        Origin::BuiltIn => "built-in".to_owned(),
        Origin::EmacsLisp => "emacs-lisp".to_owned(),
        Origin::Image(name) => format!("image {name}"),
        Origin::Library(name) => format!("library {name}"),
        Origin::Server(name) => format!("server {name}"),
    };
    json!({
        "name": tool.name,
        "description": tool.description,
        "level": tool.level,
        "own_level": tool.own_level,
        "origin": origin,
        "schema": tool.argument_schema().to_string(),
        "categories": tool.categories,
        "parameters": tool.parameters.iter().map(parameter).collect::<Vec<_>>(),
    })
}

fn parameter(parameter: &Parameter) -> Json {
    let choices = parameter.choices().iter();
    let choices = choices.map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
    json!({
        "name": parameter.name,
        "type": parameter.kind.name(),
        "description": parameter.description,
        "required": parameter.presence == Presence::Required,
        "choices": choices.collect::<Vec<_>>(),
    })
}

/// The numbers of a tool for [`lisp`]. Times are milliseconds, null where nothing ran.
#[must_use]
pub fn statistics((key, statistics): &(MetricsKey, Statistics)) -> Json {
    let milliseconds = |time: Option<Duration>| time.map(|it| it.as_secs_f64() * 1000.0);
    json!({
        "tool": key.tool,
        "library": key.library,
        "client": key.mcp_client,
        "calls": statistics.calls,
        "failures": statistics.failures,
        "denials": statistics.denials,
        "cancellations": statistics.cancellations,
        "median": milliseconds(statistics.median()),
        "p95": milliseconds(statistics.p95()),
        "result_bytes": statistics.result_bytes,
    })
}

/// The tool calls that a program makes, given as vectors [ID NAME ARGUMENTS] of strings.
pub fn calls(given: Vector<'_>) -> Result<Vec<ToolCall>> {
    (0..given.len())
        .map(|index| {
            let call: Vector<'_> = given.get(index)?;
            let text = |at| call.get::<Text>(at).map(String::from);
            let raw_arguments = text(2)?;
            Ok(ToolCall {
                id: text(0)?,
                name: text(1)?,
                arguments: parse_arguments(&raw_arguments),
                raw_arguments,
            })
        })
        .collect()
}

/// The strings in GIVEN.
pub fn texts(given: Vector<'_>) -> Result<Vec<String>> {
    (0..given.len())
        .map(|index| given.get::<Text>(index).map(String::from))
        .collect()
}

/// The reply that Emacs's STATUS, PAYLOAD, NOTE and what it ADDED stand for.
pub fn reply(
    status: &str,
    payload: Option<Text>,
    note: Option<Text>,
    added: Option<Text>,
) -> EmacsReply {
    let text = payload.map(String::from).unwrap_or_default();
    let done = |text| {
        EmacsReply::Done(Done {
            text,
            note: note.map(String::from),
            added: added.map(String::from),
        })
    };
    EmacsReply::Failed(match status {
        "done" => return done(text),
        "no-connection" => EmacsError::NoConnection,
        "disconnected" => EmacsError::Disconnected(text),
        // The image's own report says what was printed and done until then.
        "timed-out" if !text.is_empty() => return done(text),
        "ended" => EmacsError::Ended(text),
        "timed-out" => EmacsError::TimedOut,
        "deaf" => EmacsError::Deaf,
        "unresponsive" => EmacsError::Unresponsive(text),
        "aborted" => EmacsError::Aborted(text),
        _ => EmacsError::Signalled(text),
    })
}
