// SPDX-License-Identifier: GPL-3.0-or-later
//! What a chat offers its model beyond the tools that the user chose for it: the groups that the
//! model asked for. They stay for the rest of the chat.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::Tool;
use super::registry::{Filter, Registry};
use crate::runtime::held;

/// The groups that a chat's model has added.
#[derive(Debug, Default)]
pub struct Offer {
    /// All tools there are; none of them for calls outside chats, where everything can be called.
    all: Arc<Registry>,
    groups: Mutex<BTreeSet<String>>,
}

impl Offer {
    #[must_use]
    pub fn new(all: Arc<Registry>) -> Self {
        Self {
            all,
            groups: Mutex::default(),
        }
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
