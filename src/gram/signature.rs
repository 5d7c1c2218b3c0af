// SPDX-License-Identifier: GPL-3.0-or-later
//! Type signatures of tools (see `types`): the reader of their chain of nodes. The record of a node
//! is read in `parameter`; the JSON schema is made in `schema`, the text in `print`.

use std::collections::HashSet;

use super::parameter::{DescribedIn, ParameterReader, RETURN_KEYS};
use super::parser::parse;
use super::syntax::{Annotations, Direction, Element, GramError, GramPath, Node};
use super::types::{SignatureParameter, SignatureResult, Spelling, TypeSignature, ValueType};

impl From<ValueType> for SignatureResult {
    fn from(kind: ValueType) -> Self {
        Self {
            kind,
            spelling: Spelling::default(),
            name: None,
            description: None,
        }
    }
}

/// Reads a type signature such as `(::Text {paramName:"name"})==>(::String)`.
///
/// # Errors
///
/// Where the text is no gram, or no signature, and what was expected there.
pub fn parse_type_signature(text: &str) -> Result<TypeSignature, GramError> {
    signature_of_path(&path_of_text(text)?, text)
}

/// The one path that TEXT has to be.
pub(super) fn path_of_text(text: &str) -> Result<GramPath, GramError> {
    const SIGNATURE: &str = "a type signature such as `(::Text {paramName:\"name\"})==>(::String)`";
    let document = parse(text)?;
    if let Some(header) = &document.header {
        return Err(GramError::at(
            text,
            header.span.start,
            SIGNATURE,
            "a record",
        ));
    }
    let mut patterns = document.patterns.into_iter();
    let Some(pattern) = patterns.next() else {
        return Err(GramError::at(text, text.len(), SIGNATURE, "nothing"));
    };
    if pattern.annotations != Annotations::default() {
        let start = pattern.element.span().start;
        return Err(GramError::at(
            text,
            start,
            "a signature without annotations",
            "an annotated one",
        ));
    }
    if let Some(second) = patterns.next() {
        let start = second.element.span().start;
        return Err(GramError::at(
            text,
            start,
            "the end of the type signature",
            "another pattern",
        ));
    }
    match pattern.element {
        Element::Path(path) => Ok(path),
        other => Err(GramError::at(
            text,
            other.span().start,
            SIGNATURE,
            "another pattern",
        )),
    }
}

/// The signature that PATH, a part of SOURCE, writes.
pub(super) fn signature_of_path(path: &GramPath, source: &str) -> Result<TypeSignature, GramError> {
    let mut nodes = nodes_in_order(path, source)?;
    let reader = ParameterReader { source };
    let Some(last) = nodes.pop() else {
        return Err(GramError::at(
            source,
            path.span.start,
            "a return type",
            "nothing",
        ));
    };
    if nodes.len() == 1 && nodes[0].subject.is_empty() {
        nodes.clear();
    }
    let mut parameters: Vec<SignatureParameter> = Vec::with_capacity(nodes.len());
    let mut names = HashSet::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let parameter = parameter(&reader, node, index + 1)?;
        if !names.insert(parameter.name.clone()) {
            let found = format!("a second `{}`", parameter.name);
            let start = name_start(node);
            return Err(GramError::at(
                source,
                start,
                "parameter names that are unique",
                found,
            ));
        }
        parameters.push(parameter);
    }
    Ok(TypeSignature {
        parameters,
        result: result(&reader, last)?,
    })
}

/// The nodes from the first parameter to the return type. An arrow to the left swaps what stands
/// on its sides; since a path reads from the right, only the last arrow can do so: further left
/// it would make a whole function the parameter of another, which no tool call can give.
fn nodes_in_order<'a>(path: &'a GramPath, source: &str) -> Result<Vec<&'a Node>, GramError> {
    let mut nodes = vec![&path.first];
    for (index, step) in path.steps.iter().enumerate() {
        nodes.push(&step.node);
        if step.arrow.direction != Direction::Left {
            continue;
        }
        if index + 1 < path.steps.len() {
            let expected = "an arrow to the right; only the last one may point left";
            return Err(GramError::at(
                source,
                step.arrow.span.start,
                expected,
                "one to the left",
            ));
        }
        let last = nodes.len() - 1;
        nodes.swap(last - 1, last);
    }
    Ok(nodes)
}

fn parameter(
    reader: &ParameterReader<'_>,
    node: &Node,
    position: usize,
) -> Result<SignatureParameter, GramError> {
    let kind = reader.label_type(node)?;
    let name = reader
        .node_name(node)?
        .unwrap_or_else(|| format!("arg{position}"));
    let record = node.subject.record.as_ref();
    let described = reader.described(name, kind, record, DescribedIn::Node)?;
    Ok(described.or_spelt(label(node)))
}

fn label(node: &Node) -> Option<String> {
    node.subject.labels.first().map(|label| label.text.clone())
}

fn result(reader: &ParameterReader<'_>, node: &Node) -> Result<SignatureResult, GramError> {
    let kind = reader.label_type(node)?;
    let name = reader.node_name(node)?;
    if let Some(record) = &node.subject.record {
        reader.only_known_keys(record, RETURN_KEYS, "a return type")?;
    }
    let record = node.subject.record.as_ref();
    let described = reader
        .described(String::new(), kind, record, DescribedIn::Node)?
        .or_spelt(label(node));
    Ok(SignatureResult {
        kind: described.kind,
        spelling: described.spelling,
        name,
        description: described.description,
    })
}

fn name_start(node: &Node) -> usize {
    let property = node
        .subject
        .property("paramName")
        .map(|value| value.span.start);
    let identifier = node.subject.identifier.as_ref().map(|name| name.span.start);
    property.or(identifier).unwrap_or(node.span.start)
}
