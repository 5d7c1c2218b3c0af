// SPDX-License-Identifier: GPL-3.0-or-later
//! Gram for Emacs Lisp: texts in, JSON texts out, errors as `agent-q-gram-error` with line, column
//! and what was expected there.

use emacs::{Env, Result};
use serde_json::{Value as Json, json};

use super::signal_gram_error;
use crate::gram::{
    AgentSpecification, GramError, LibraryTool, SpecificationError, ToolLibrary, ToolSpecification,
    agent_from_gram,
};

/// What RESULT holds, or the error signalled in Lisp.
pub fn or_signal<T>(env: &Env, result: std::result::Result<T, GramError>) -> Result<T> {
    result.or_else(|error| signal_gram_error(env, &error))
}

/// The specification of that name, description and signature, as JSON text.
pub fn specification(env: &Env, name: &str, description: &str, signature: &str) -> Result<String> {
    specification_text(env, ToolSpecification::create(name, description, signature))
}

/// The specification that TEXT, JSON, holds, with its schema rebuilt.
pub fn specification_from_json(env: &Env, text: &str) -> Result<String> {
    Ok(parse(env, text)?.to_json().to_string())
}

/// The specification that TEXT, gram, writes, as JSON text.
pub fn specification_from_gram(env: &Env, text: &str) -> Result<String> {
    let specification = or_signal(env, ToolSpecification::from_gram(text))?;
    Ok(specification.to_json().to_string())
}

/// The gram of the specification that TEXT, JSON, holds.
pub fn specification_to_gram(env: &Env, text: &str) -> Result<String> {
    Ok(parse(env, text)?.to_gram())
}

/// The agent that TEXT, gram, describes, as JSON text.
pub fn agent(env: &Env, text: &str) -> Result<String> {
    Ok(agent_json(&or_signal(env, agent_from_gram(text))?).to_string())
}

/// Why the tool that TOOL, JSON, describes does not carry out SPECIFICATION; none when it does.
pub fn bind_explain(env: &Env, specification: &str, tool: &str) -> Result<Option<String>> {
    let specification = parse(env, specification)?;
    let tool: Json = json_value(env, tool)?;
    let text = |key: &str| tool.get(key).and_then(Json::as_str).unwrap_or_default();
    let schema = tool.get("schema").cloned().unwrap_or(Json::Null);
    let library = LibraryTool::new(text("name"), text("description"), schema, ())
        .and_then(|made| ToolLibrary::default().register(text("name"), made));
    match library {
        Ok(library) => Ok(library
            .bind(&specification)
            .err()
            .map(|problem| problem.to_string())),
        Err(problem) => Ok(Some(problem.to_string())),
    }
}

fn specification_text(
    env: &Env,
    made: std::result::Result<ToolSpecification, SpecificationError>,
) -> Result<String> {
    match made {
        Ok(specification) => Ok(specification.to_json().to_string()),
        Err(SpecificationError::Gram(error)) => signal_gram_error(env, &error),
        Err(error) => super::signal(env, error),
    }
}

fn parse(env: &Env, text: &str) -> Result<ToolSpecification> {
    let json = json_value(env, text)?;
    match ToolSpecification::from_json(&json) {
        Ok(specification) => Ok(specification),
        Err(SpecificationError::Gram(error)) => signal_gram_error(env, &error),
        Err(error) => super::signal(env, error),
    }
}

fn json_value(env: &Env, text: &str) -> Result<Json> {
    serde_json::from_str(text)
        .or_else(|error| super::signal(env, format!("This is not JSON: {error}")))
}

fn agent_json(agent: &AgentSpecification) -> Json {
    let tools: Vec<Json> = agent.tools.iter().map(ToolSpecification::to_json).collect();
    json!({
        "name": agent.name,
        "description": agent.description,
        "instruction": agent.instruction,
        "model": {"provider": agent.model.provider, "id": agent.model.id},
        "tools": tools,
    })
}
