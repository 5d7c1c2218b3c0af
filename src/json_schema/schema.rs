// SPDX-License-Identifier: GPL-3.0-or-later
//! A compiled schema, and why something is none. `compile` makes it, `check` goes by it.

use super::keyword::{NodeId, Resource, SchemaNode};

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) resources: Vec<Resource>,
    pub(super) root: NodeId,
    pub(super) evaluated: Evaluated,
}

/// Whether anything asks which members and elements other keywords have looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evaluated {
    Asked,
    Unasked,
}

/// Why something is no usable schema, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(pointer))]
pub struct SchemaError {
    /// A JSON pointer into the schema; empty for all of it.
    pub pointer: String,
    pub message: String,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() {
        String::new()
    } else {
        format!("at {pointer}: ")
    }
}
