// SPDX-License-Identifier: GPL-3.0-or-later
//! Agents in gram: a name, what the agent is told, the model it runs on, and the specifications of
//! its tools.

use std::collections::HashSet;

use super::parser::parse;
use super::specification::{ToolSpecification, identity, only_bracket, text_property};
use super::syntax::{Bracket, Element, GramError, quote};

/// The provider of a model that is written without one.
const DEFAULT_PROVIDER: &str = "OpenAI";

/// An agent as its file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSpecification {
    pub name: String,
    pub description: Option<String>,
    pub instruction: String,
    pub model: ModelReference,
    pub tools: Vec<ToolSpecification>,
}

/// `OpenAI/gpt-4o-mini`: a provider, and what the provider calls the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReference {
    pub provider: String,
    pub id: String,
}

/// Reads the agent that TEXT writes.
///
/// # Errors
///
/// Where TEXT isn't the gram of one agent, and what was expected there.
pub fn agent_from_gram(text: &str) -> Result<AgentSpecification, GramError> {
    let document = parse(text)?;
    let bracket = only_bracket(&document, text, "one agent, `[name:Agent {…} | …]`")?;
    if !bracket
        .subject
        .labels
        .iter()
        .any(|label| label.text == "Agent")
    {
        let expected = "an agent, with the label `Agent`";
        return Err(GramError::at(
            text,
            bracket.span.start,
            expected,
            "a pattern without it",
        ));
    }
    let description = text_property(bracket, "description", text)?;
    Ok(AgentSpecification {
        name: identity(bracket, text, "Agent")?.to_owned(),
        description: description.map(|property| property.text.to_owned()),
        instruction: required(bracket, "instruction", text)?.0.to_owned(),
        model: model(bracket, text)?,
        tools: tools(bracket, text)?,
    })
}

/// The text of a property that must be there and not empty, and where it stands.
fn required<'a>(
    bracket: &'a Bracket,
    key: &str,
    source: &str,
) -> Result<(&'a str, usize), GramError> {
    match text_property(bracket, key, source)? {
        Some(property) if !property.text.trim().is_empty() => Ok((property.text, property.at)),
        Some(property) => {
            let expected = format!("a text; Agent {key} cannot be empty");
            Err(GramError::at(
                source,
                property.at,
                expected,
                quote(property.text),
            ))
        }
        None => {
            let expected = format!("an agent with the property `{key}`");
            Err(GramError::at(
                source,
                bracket.span.start,
                expected,
                "one without it",
            ))
        }
    }
}

/// A model's id may hold slashes itself; only the first one ends the provider.
fn model(bracket: &Bracket, source: &str) -> Result<ModelReference, GramError> {
    let (text, at) = required(bracket, "model", source)?;
    let (provider, id) = text.split_once('/').unwrap_or((DEFAULT_PROVIDER, text));
    let (provider, id) = (provider.trim(), id.trim());
    if provider.is_empty() || id.is_empty() {
        let expected = "a model, written \"Provider/model\"";
        return Err(GramError::at(source, at, expected, quote(text)));
    }
    Ok(ModelReference {
        provider: provider.to_owned(),
        id: id.to_owned(),
    })
}

fn tools(bracket: &Bracket, source: &str) -> Result<Vec<ToolSpecification>, GramError> {
    let mut tools: Vec<ToolSpecification> = Vec::with_capacity(bracket.elements.len());
    let mut names = HashSet::new();
    for element in &bracket.elements {
        let Element::Bracket(inner) = element else {
            let expected = "a tool, `[name:Tool {…} | …]`";
            return Err(GramError::at(
                source,
                element.span().start,
                expected,
                "another pattern",
            ));
        };
        let tool = ToolSpecification::from_bracket(inner, source)?;
        if !names.insert(tool.name().to_owned()) {
            let expected = "tool names that are unique within the agent";
            let found = format!("a second tool {}", quote(tool.name()));
            return Err(GramError::at(source, inner.span.start, expected, found));
        }
        tools.push(tool);
    }
    Ok(tools)
}
