// SPDX-License-Identifier: GPL-3.0-or-later
//! What a chat offers its model beyond the tools that the user chose for it: the groups that the
//! model asked for, which stay for the rest of the chat, and what becomes of calls of other tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::registry::{Filter, Registry};
use super::{Origin, Tool, ToolFailure};
use crate::runtime::held;

/// What becomes of a call of a tool that there is, and that the chat doesn't offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unoffered {
    /// It runs as any other: the usual tools are a choice that saves tokens, not one of the user's.
    Callable,
    /// The user chose the tools, and so left it out.
    #[default]
    LeftOutByUser,
    /// The chat follows an agent that has tools of its own.
    LeftOutByAgent,
}

impl Unoffered {
    fn reason(self) -> &'static str {
        match self {
            Self::Callable => "",
            Self::LeftOutByUser => "The user doesn't offer",
            Self::LeftOutByAgent => "The agent's file doesn't offer",
        }
    }
}

/// The groups that a chat's model has added.
#[derive(Debug, Default)]
pub struct Offer {
    /// All tools there are; none of them for calls outside chats, where everything can be called.
    all: Arc<Registry>,
    groups: Mutex<BTreeSet<String>>,
    unoffered: Mutex<Unoffered>,
}

impl Offer {
    #[must_use]
    pub fn new(all: Arc<Registry>) -> Self {
        Self {
            all,
            groups: Mutex::default(),
            unoffered: Mutex::default(),
        }
    }

    /// Says what becomes of calls of other tools in the turn that begins.
    pub fn begin_turn(&self, unoffered: Unoffered) {
        *held(&self.unoffered) = unoffered;
    }

    /// The tool that a model meant by NAME: one of OFFERED, or another one that may be called. What is
    /// offered stays the same.
    ///
    /// # Errors
    ///
    /// When there is none, or the chat doesn't have it on purpose.
    pub fn resolve(&self, name: &str, offered: &Registry) -> Result<Arc<Tool>, ToolFailure> {
        let unoffered = *held(&self.unoffered);
        offered
            .resolve(name)
            .or_else(|unknown| match (self.all.resolve(name), unoffered) {
                (Ok(tool), Unoffered::Callable) => Ok(tool),
                (Err(failure), Unoffered::Callable) if !self.all.is_empty() => Err(failure),
                (Ok(tool), _) => Err(ToolFailure::new(format!(
                    "{} {} in this chat. Do without it, or tell the user what you need it for.",
                    unoffered.reason(),
                    tool.name
                ))),
                (Err(_), _) => Err(unknown),
            })
    }

    /// A word on the built-in tools that TEXT names and that can't be called where OFFERED can: an
    /// answer may refer to them.
    #[must_use]
    pub fn not_here(&self, text: &str, offered: &Registry) -> Option<String> {
        if *held(&self.unoffered) == Unoffered::Callable {
            return None;
        }
        let words: BTreeSet<&str> = text
            .split(|it: char| !it.is_ascii_alphanumeric() && it != '_')
            .collect();
        let named = |tool: &Arc<Tool>| {
            tool.origin == Origin::BuiltIn
                && words.contains(tool.name.as_str())
                && offered.get(&tool.name).is_none()
        };
        let names: Vec<String> = self
            .all
            .all()
            .into_iter()
            .filter(named)
            .map(|tool| tool.name.clone())
            .collect();
        (!names.is_empty()).then(|| format!("(Not offered in this chat: {}.)", names.join(", ")))
    }

    /// Adds the group called NAME, those with this category, to OFFERED, which a turn works with,
    /// and to those of later turns. Gives what is new in OFFERED.
    pub fn add(&self, name: &str, offered: &Registry) -> Vec<Arc<Tool>> {
        let added = self.extend(name, offered);
        if !added.is_empty() {
            held(&self.groups).insert(name.to_owned());
        }
        added
    }

    /// Adds the groups that were asked for to OFFERED, what the user chose.
    pub fn complete(&self, offered: &Registry) {
        for group in held(&self.groups).iter() {
            self.extend(group, offered);
        }
    }

    fn extend(&self, group: &str, offered: &Registry) -> Vec<Arc<Tool>> {
        let filter = Filter {
            max_level: None,
            categories: vec![group.to_owned()],
        };
        let mut missing = self.all.filtered(&filter);
        missing.retain(|tool| offered.get(&tool.name).is_none());
        for tool in &missing {
            offered.add(Arc::clone(tool));
        }
        missing
    }

    /// The groups that would add anything to OFFERED, with how many tools each has for it.
    #[must_use]
    pub fn groups_beyond(&self, offered: &Registry) -> BTreeMap<String, usize> {
        let mut groups = BTreeMap::new();
        for tool in self.all.all() {
            if offered.get(&tool.name).is_none() {
                for category in &tool.categories {
                    *groups.entry(category.clone()).or_default() += 1;
                }
            }
        }
        groups
    }
}
