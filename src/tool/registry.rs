// SPDX-License-Identifier: GPL-3.0-or-later
//! Where tools are found by name. Tools keep the order in which they were registered, because a
//! stable order keeps providers' prompt caches warm. One registry holds all tools of the process;
//! each turn works with one of its own, which holds what its chat offers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures_util::future::BoxFuture;
use indexmap::IndexMap;
use tokio::sync::watch;

use super::parameter::LONGEST_NAME;
use super::{Tool, ToolFailure};
use crate::trust::SafetyLevel;
use crate::visible::spelled;

/// How alike a wrong name must be to be suggested; 1 is the same.
const SUGGESTION_LIKENESS: f64 = 0.8;

/// Tools by name.
#[derive(Debug, Default)]
pub struct Registry {
    inner: RwLock<Inner>,
    /// Told of each change.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    tools: IndexMap<String, Arc<Tool>>,
    /// Levels that the user set.
    levels: HashMap<String, SafetyLevel>,
    /// Groups whose tools come when they are first asked for.
    promised: BTreeMap<String, Promise>,
}

/// What brings the tools of a group into the registry.
#[derive(Clone)]
struct Promise {
    bring: Arc<dyn Fn() -> BoxFuture<'static, Result<(), ToolFailure>> + Send + Sync>,
    /// The root of the one project whose chats have the group, or none.
    project: Option<String>,
}

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Promise")
    }
}

/// Which tools to list; both conditions hold for each.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// None above this level.
    pub max_level: Option<SafetyLevel>,
    /// Only with one of these categories; empty means any.
    pub categories: Vec<String>,
}

impl Registry {
    /// A registry of exactly these tools.
    #[must_use]
    pub fn of(tools: impl IntoIterator<Item = Arc<Tool>>) -> Self {
        let tools = tools
            .into_iter()
            .map(|tool| (tool.name.clone(), tool))
            .collect();
        Self {
            inner: RwLock::new(Inner {
                tools,
                ..Inner::default()
            }),
            changed: watch::Sender::default(),
        }
    }

    /// Hears of each change of the tools or their levels.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Adds TOOL; one with the same name is replaced and keeps its place.
    pub fn register(&self, mut tool: Tool) -> Arc<Tool> {
        let mut inner = self.write();
        if let Some(&level) = inner.levels.get(&tool.name) {
            tool.level = level;
        }
        let tool = Arc::new(tool);
        inner.tools.insert(tool.name.clone(), Arc::clone(&tool));
        self.changed.send_replace(());
        tool
    }

    /// Adds TOOL, which is registered elsewhere, as it is there.
    pub fn add(&self, tool: Arc<Tool>) {
        self.write().tools.insert(tool.name.clone(), tool);
    }

    /// Removes the tool of this name; the others keep their order.
    pub fn unregister(&self, name: &str) -> Option<Arc<Tool>> {
        self.changed.send_replace(());
        self.write().tools.shift_remove(name)
    }

    /// Says that BRING adds the tools of the category GROUP, or makes sure of them. If there is a PROJECT, only
    /// chats about it have them.
    pub fn promise(
        &self,
        group: &str,
        project: Option<&str>,
        bring: impl Fn() -> BoxFuture<'static, Result<(), ToolFailure>> + Send + Sync + 'static,
    ) {
        let promise = Promise {
            bring: Arc::new(bring),
            project: project.map(str::to_owned),
        };
        self.write().promised.insert(group.to_owned(), promise);
        self.changed.send_replace(());
    }

    /// The promise for GROUP doesn't hold any more.
    pub fn retract(&self, group: &str) {
        self.write().promised.remove(group);
        self.changed.send_replace(());
    }

    /// The groups that were promised.
    #[must_use]
    pub fn promised(&self) -> Vec<String> {
        self.read().promised.keys().cloned().collect()
    }

    /// The groups that other projects than the one in ROOT have for themselves.
    #[must_use]
    pub fn elsewhere(&self, root: Option<&str>) -> BTreeSet<String> {
        let inner = self.read();
        let other = |it: &Promise| it.project.is_some() && it.project.as_deref() != root;
        let others = inner.promised.iter().filter(|(_, promise)| other(promise));
        others.map(|(group, _)| group.clone()).collect()
    }

    /// Has the tools of GROUP come, if they were promised.
    ///
    /// # Errors
    ///
    /// Why they don't.
    pub async fn bring(&self, group: &str) -> Result<(), ToolFailure> {
        let promise = self.read().promised.get(group).cloned();
        match promise {
            Some(promise) => (promise.bring)().await,
            None => Ok(()),
        }
    }

    /// Puts the user's levels in force; tools that are not named get their own back.
    pub fn set_levels(&self, levels: HashMap<String, SafetyLevel>) {
        let mut inner = self.write();
        for (name, tool) in &mut inner.tools {
            let level = levels.get(name).copied().unwrap_or(tool.own_level);
            if tool.level != level {
                Arc::make_mut(tool).level = level;
            }
        }
        inner.levels = levels;
        self.changed.send_replace(());
    }

    /// The level that the user set for tools of this name, if any.
    #[must_use]
    pub fn user_level(&self, name: &str) -> Option<SafetyLevel> {
        self.read().levels.get(name).copied()
    }

    /// The tool of this name, or none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Tool>> {
        self.read().tools.get(name).cloned()
    }

    /// All tools in order of registration.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Tool>> {
        self.read().tools.values().cloned().collect()
    }

    /// The tools that FILTER lets through, in order of registration.
    #[must_use]
    pub fn filtered(&self, filter: &Filter) -> Vec<Arc<Tool>> {
        let mut tools = self.all();
        tools.retain(|tool| {
            filter.max_level.is_none_or(|max| tool.level <= max)
                && (filter.categories.is_empty()
                    || tool
                        .categories
                        .iter()
                        .any(|category| filter.categories.contains(category)))
        });
        tools
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.read().tools.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tool that a model or a user meant by NAME: `describe-symbol` finds `describe_symbol`.
    ///
    /// # Errors
    ///
    /// When there is none; a near miss is suggested.
    pub fn resolve(&self, name: &str) -> Result<Arc<Tool>, ToolFailure> {
        let snake = name.trim().replace('-', "_");
        if let Some(tool) = self.get(name).or_else(|| self.get(&snake)) {
            return Ok(tool);
        }
        // Models also write names in capitals; a name in another case is no other tool's name, but
        // the user may have two that differ in nothing else, so it is only suggested.
        let folded: String = snake.to_lowercase().chars().take(LONGEST_NAME).collect();
        let near = self
            .read()
            .tools
            .keys()
            .map(|known| {
                let likeness = strsim::jaro_winkler(&known.to_lowercase(), &folded);
                (likeness, known.clone())
            })
            .filter(|(likeness, _)| *likeness >= SUGGESTION_LIKENESS)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let name = spelled(name, LONGEST_NAME);
        let group = self.promised_with(&folded);
        Err(ToolFailure::new(match (near, group) {
            (Some((_, known)), group)
                if group
                    .as_ref()
                    .is_none_or(|it| known.starts_with(&format!("{it}_"))) =>
            {
                format!("Unknown tool: {name}. Did you mean {known}?")
            }
            (_, Some(group)) => {
                format!("Unknown tool: {name}. more_tools {group} brings the tools of that group.")
            }
            (_, None) => format!("Unknown tool: {name}"),
        }))
    }

    /// The promised group whose tools are called as NAME is, such as those of a resumed chat whose server doesn't
    /// run yet.
    fn promised_with(&self, name: &str) -> Option<String> {
        let inner = self.read();
        let mut groups = inner.promised.keys();
        groups
            .find(|group| {
                name.strip_prefix(group.as_str())
                    .is_some_and(|it| it.starts_with('_'))
            })
            .cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Runner;

    fn tool(name: &str, level: SafetyLevel, categories: &[&str]) -> Tool {
        let runner = Runner::Worker(Arc::new(|_| Ok(String::new())));
        Tool::new(name, name, level, categories, vec![], runner)
    }

    fn registry() -> Registry {
        let registry = Registry::default();
        registry.register(tool("look", SafetyLevel::Safe, &["introspection", "xref"]));
        registry.register(tool("try", SafetyLevel::Cautious, &["execution"]));
        registry.register(tool("erase", SafetyLevel::Dangerous, &["xref"]));
        registry
    }

    fn names(tools: Vec<Arc<Tool>>) -> Vec<String> {
        tools.iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn registering_again_replaces_and_unregistering_keeps_order() {
        let registry = registry();
        registry.register(tool("look", SafetyLevel::Cautious, &[]));
        assert_eq!(names(registry.all()), ["look", "try", "erase"]);
        assert_eq!(registry.get("look").unwrap().level, SafetyLevel::Cautious);
        assert!(registry.unregister("look").is_some());
        assert!(registry.unregister("look").is_none());
        assert_eq!(names(registry.all()), ["try", "erase"]);
        assert!(registry.get("look").is_none());
    }

    #[test]
    fn filters_are_and_ed() {
        let registry = registry();
        let filtered = |max_level, categories: &[&str]| {
            let categories = categories.iter().map(|&it| it.to_owned()).collect();
            names(registry.filtered(&Filter {
                max_level,
                categories,
            }))
        };
        assert_eq!(filtered(None, &[]), ["look", "try", "erase"]);
        assert_eq!(filtered(Some(SafetyLevel::Cautious), &[]), ["look", "try"]);
        assert_eq!(
            filtered(None, &["xref", "execution"]),
            ["look", "try", "erase"]
        );
        assert_eq!(filtered(Some(SafetyLevel::Safe), &["xref"]), ["look"]);
    }

    #[test]
    fn the_users_levels_hold_for_tools_to_come_and_can_be_taken_back() {
        let registry = registry();
        let levels = [
            ("try", SafetyLevel::Dangerous),
            ("later", SafetyLevel::Safe),
        ];
        registry.set_levels(levels.map(|(name, level)| (name.to_owned(), level)).into());
        registry.register(tool("later", SafetyLevel::Dangerous, &[]));
        assert_eq!(registry.get("try").unwrap().level, SafetyLevel::Dangerous);
        assert_eq!(registry.get("later").unwrap().level, SafetyLevel::Safe);
        registry.set_levels(HashMap::new());
        assert_eq!(registry.get("try").unwrap().level, SafetyLevel::Cautious);
        assert_eq!(registry.get("later").unwrap().level, SafetyLevel::Dangerous);
    }

    #[test]
    fn kebab_case_finds_snake_case_and_near_misses_are_named() {
        let registry = Registry::default();
        registry.register(tool("describe_symbol", SafetyLevel::Safe, &[]));
        assert!(registry.resolve("describe-symbol").is_ok());
        let failure = registry.resolve("describe_symbl").unwrap_err();
        assert_eq!(
            failure.message,
            "Unknown tool: describe_symbl. Did you mean describe_symbol?"
        );
        for other_case in ["DESCRIBE-SYMBOL", "Describe_Symbol", "DESCRIBE_SYMBL"] {
            let failure = registry.resolve(other_case).unwrap_err();
            assert_eq!(
                failure.message,
                format!("Unknown tool: {other_case}. Did you mean describe_symbol?")
            );
        }
        registry.register(tool("sayHello", SafetyLevel::Safe, &[]));
        let failure = registry.resolve("say-hello").unwrap_err();
        assert_eq!(
            failure.message,
            "Unknown tool: say-hello. Did you mean sayHello?"
        );
        let failure = registry.resolve("nonexistent").unwrap_err();
        assert_eq!(failure.message, "Unknown tool: nonexistent");
        // One of a server that doesn't run, as a resumed chat knows it, is not taken for another's.
        registry.promise("describe", None, || Box::pin(async { Ok(()) }));
        registry.promise("say", None, || Box::pin(async { Ok(()) }));
        for (name, told) in [
            ("describe_symbl", "Did you mean describe_symbol?"),
            (
                "say_hallo",
                "more_tools say brings the tools of that group.",
            ),
        ] {
            let failure = registry.resolve(name).unwrap_err();
            assert_eq!(failure.message, format!("Unknown tool: {name}. {told}"));
        }
    }
}
