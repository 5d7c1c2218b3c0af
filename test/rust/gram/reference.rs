// SPDX-License-Identifier: GPL-3.0-or-later
//! What the tests of the gram reader share: the reference grammar as an oracle, and the extension
//! that only our reader accepts.

use agent_q_core::gram::syntax::{
    Annotations, Datum, Document, Element, GramRecord, Subject, Value,
};

/// Whether the reference grammar accepts TEXT.
pub fn reference_accepts(text: &str) -> bool {
    let mut parser = tree_sitter::Parser::new();
    parser
        .set_language(&tree_sitter_gram::LANGUAGE.into())
        .unwrap();
    !parser.parse(text, None).unwrap().root_node().has_error()
}

/// Whether DOCUMENT holds what only our reader accepts: values that nest, or an empty array.
pub fn uses_extension(document: &Document) -> bool {
    document.header.as_ref().is_some_and(record_nests)
        || document.patterns.iter().any(|pattern| {
            annotations_nest(&pattern.annotations) || element_nests(&pattern.element)
        })
}

fn annotations_nest(annotations: &Annotations) -> bool {
    annotations.properties.values().any(value_nests)
}

fn element_nests(element: &Element) -> bool {
    match element {
        Element::Bracket(bracket) => {
            subject_nests(&bracket.subject) || bracket.elements.iter().any(element_nests)
        }
        Element::Path(path) => {
            subject_nests(&path.first.subject)
                || path.steps.iter().any(|step| {
                    subject_nests(&step.arrow.subject) || subject_nests(&step.node.subject)
                })
        }
        Element::Reference(_) => false,
    }
}

fn subject_nests(subject: &Subject) -> bool {
    subject.record.as_ref().is_some_and(record_nests)
}

fn record_nests(record: &GramRecord) -> bool {
    record
        .properties
        .values()
        .any(|property| value_nests(&property.value))
}

fn value_nests(value: &Value) -> bool {
    let holds_values = |value: &Value| matches!(value.datum, Datum::Array(_) | Datum::Map(_));
    match &value.datum {
        Datum::Array(values) => values.is_empty() || values.iter().any(holds_values),
        Datum::Map(map) => map
            .properties
            .values()
            .any(|property| holds_values(&property.value)),
        _ => false,
    }
}
