// SPDX-License-Identifier: GPL-3.0-or-later
//! What a schema says of a value: its problems with their paths, and what it looked at.

use std::collections::HashSet;

use super::{Fault, ValueProblem};

/// The way to a value, as a reader would write it: `address.city`, `items[2]`.
pub(super) enum ValuePath<'p> {
    Root,
    Member(&'p ValuePath<'p>, &'p str),
    Element(&'p ValuePath<'p>, usize),
}

impl std::fmt::Display for ValuePath<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ValuePath::Root => Ok(()),
            ValuePath::Member(ValuePath::Root, name) => formatter.write_str(name),
            ValuePath::Member(parent, name) => write!(formatter, "{parent}.{name}"),
            ValuePath::Element(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

/// What one schema, or one keyword of it, says of a value.
#[derive(Default)]
pub(super) struct SchemaVerdict<'v> {
    pub(super) problems: Vec<ValueProblem>,
    /// The members and elements that it looked at.
    pub(super) members: HashSet<&'v str>,
    pub(super) elements: HashSet<usize>,
}

impl<'v> SchemaVerdict<'v> {
    pub(super) fn fault(path: &ValuePath<'_>, fault: Fault) -> Self {
        let path = path.to_string();
        Self {
            problems: vec![ValueProblem { path, fault }],
            ..Self::default()
        }
    }

    pub(super) fn other(path: &ValuePath<'_>, sentence: String) -> Self {
        Self::fault(path, Fault::Other(sentence))
    }

    pub(super) fn fits(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn absorb(&mut self, other: Self) {
        self.problems.extend(other.problems);
        self.members.extend(other.members);
        self.elements.extend(other.elements);
    }
}
