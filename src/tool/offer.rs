// SPDX-License-Identifier: GPL-3.0-or-later
//! What a chat's model can call beyond the tools that each request lists: the groups that the model
//! asked for, which stay for the rest of the chat, and what becomes of calls of other tools. The list
//! itself stays as it is, because a change of it costs the provider's cache of the whole conversation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use once_cell::sync::OnceCell;

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
    /// The names of the tools that requests list.
    listed: Mutex<BTreeSet<String>>,
    /// The tools that can't be called here whatever is offered.
    withheld: OnceCell<&'static [&'static str]>,
}

impl Offer {
    #[must_use]
    pub fn new(all: Arc<Registry>) -> Self {
        Self {
            all,
            groups: Mutex::default(),
            unoffered: Mutex::default(),
            listed: Mutex::default(),
            withheld: OnceCell::new(),
        }
    }

    /// Sees to it that the tools called NAMES can't be called here: they are for chats alone.
    pub fn withhold(&self, names: &'static [&'static str]) {
        let _ = self.withheld.set(names);
    }

    fn withholds(&self, tool: &Tool) -> bool {
        let withheld = self.withheld.get();
        withheld.is_some_and(|it| it.contains(&tool.name.as_str()))
    }

    /// All tools there are, offered or not.
    #[must_use]
    pub fn all(&self) -> &Registry {
        &self.all
    }

    /// Says which tools requests list in the turn that begins, and what becomes of calls of others.
    pub fn begin_turn(&self, listed: &Registry, unoffered: Unoffered) {
        *held(&self.unoffered) = unoffered;
        *held(&self.listed) = names(listed);
    }

    /// Whether requests list the tool called NAME.
    #[must_use]
    pub fn lists(&self, name: &str) -> bool {
        held(&self.listed).contains(name)
    }

    /// Whether requests list tools, and not the one called NAME.
    #[must_use]
    pub fn goes_without(&self, name: &str) -> bool {
        let listed = held(&self.listed);
        !listed.is_empty() && !listed.contains(name)
    }

    /// The tool that a model meant by NAME: one of OFFERED, or another one that may be called. What is
    /// offered stays the same.
    ///
    /// # Errors
    ///
    /// When there is none, or the chat doesn't have it on purpose.
    pub fn resolve(&self, name: &str, offered: &Registry) -> Result<Arc<Tool>, ToolFailure> {
        let unoffered = *held(&self.unoffered);
        let resolved =
            offered
                .resolve(name)
                .or_else(|unknown| match (self.all.resolve(name), unoffered) {
                    (Ok(tool), Unoffered::Callable) => Ok(tool),
                    (Err(failure), Unoffered::Callable) if !self.all.is_empty() => Err(failure),
                    (Ok(tool), _) => Err(ToolFailure::new(format!(
                        "{} {} in this chat. Do without it, or say what it is needed for.",
                        unoffered.reason(),
                        tool.name
                    ))),
                    (Err(_), _) => Err(unknown),
                })?;
        match self.withholds(&resolved) {
            true => Err(ToolFailure::new(format!(
                "{} is for agent-q's own chats. Use your own tool.",
                resolved.name
            ))),
            false => Ok(resolved),
        }
    }

    /// A word on the built-in tools that TEXT names and that can't be called where OFFERED can: a
    /// result may refer to them.
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

    /// Makes the group called NAME, the tools with this category, callable among CALLABLE, which a turn
    /// works with, and in later turns. Gives those that requests don't list.
    pub fn add(&self, name: &str, callable: &Registry) -> Vec<Arc<Tool>> {
        self.extend(name, callable);
        let listed = held(&self.listed);
        let mut unlisted = self.group(name);
        unlisted.retain(|tool| !listed.contains(&tool.name));
        if !unlisted.is_empty() {
            held(&self.groups).insert(name.to_owned());
        }
        unlisted
    }

    /// Adds the groups that were asked for to CALLABLE, what the user chose.
    pub fn complete(&self, callable: &Registry) {
        for group in held(&self.groups).iter() {
            self.extend(group, callable);
        }
    }

    fn extend(&self, group: &str, callable: &Registry) {
        for tool in self.group(group) {
            if callable.get(&tool.name).is_none() {
                callable.add(tool);
            }
        }
    }

    fn group(&self, name: &str) -> Vec<Arc<Tool>> {
        let mut tools = self.all.filtered(&Filter {
            max_level: None,
            categories: vec![name.to_owned()],
        });
        tools.retain(|tool| !self.withholds(tool));
        tools
    }

    /// The groups that have tools which requests don't list.
    #[must_use]
    pub fn unlisted_groups(&self) -> Groups {
        groups_without(&self.all, &held(&self.listed))
    }

    /// The groups that have tools besides those of OFFERED.
    #[must_use]
    pub fn groups_beyond(&self, offered: &Registry) -> Groups {
        groups_beyond(&self.all, offered)
    }
}

/// Groups with the names of their tools; those of servers without.
pub type Groups = BTreeMap<String, BTreeSet<String>>;

/// The groups of ALL with those of their tools that are not OFFERED.
#[must_use]
pub fn groups_beyond(all: &Registry, offered: &Registry) -> Groups {
    groups_without(all, &names(offered))
}

fn groups_without(all: &Registry, known: &BTreeSet<String>) -> Groups {
    let mut groups = Groups::new();
    for tool in all.all() {
        if !known.contains(&tool.name) {
            for category in &tool.categories {
                let group = groups.entry(category.clone()).or_default();
                group.insert(tool.name.clone());
            }
        }
    }
    // Without their names, which change when a server starts, and may be hundreds.
    for group in all.promised() {
        let tools = all.filtered(&Filter {
            max_level: None,
            categories: vec![group.clone()],
        });
        if tools.is_empty() || groups.contains_key(&group) {
            groups.insert(group, BTreeSet::new());
        }
    }
    groups
}

fn names(registry: &Registry) -> BTreeSet<String> {
    let tools = registry.all();
    tools.iter().map(|tool| tool.name.clone()).collect()
}
