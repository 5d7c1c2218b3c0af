// SPDX-License-Identifier: GPL-3.0-or-later
//! Where tools are found by name. One registry serves all sessions; tools keep the order in which
//! they were registered, because a stable order keeps providers' prompt caches warm.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use indexmap::IndexMap;

use super::{Tool, ToolFailure};

/// How alike a wrong name must be to be suggested; 1 is the same.
const SUGGESTION_LIKENESS: f64 = 0.6;

/// All tools that can be called.
#[derive(Debug, Default)]
pub struct Registry {
    tools: RwLock<IndexMap<String, Arc<Tool>>>,
}

impl Registry {
    /// Adds TOOL; one with the same name is replaced and keeps its place.
    pub fn register(&self, tool: Tool) -> Arc<Tool> {
        let tool = Arc::new(tool);
        self.write().insert(tool.name.clone(), Arc::clone(&tool));
        tool
    }

    /// The tool of this name, or none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Tool>> {
        self.read().get(name).cloned()
    }

    /// All tools in order of registration.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Tool>> {
        self.read().values().cloned().collect()
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
        let near = self
            .read()
            .keys()
            .map(|known| (strsim::jaro_winkler(known, &snake), known.clone()))
            .filter(|(likeness, _)| *likeness >= SUGGESTION_LIKENESS)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        Err(ToolFailure(match near {
            Some((_, known)) => format!("Unknown tool: {name}. Did you mean {known}?"),
            None => format!("Unknown tool: {name}"),
        }))
    }

    fn read(&self) -> RwLockReadGuard<'_, IndexMap<String, Arc<Tool>>> {
        self.tools
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, IndexMap<String, Arc<Tool>>> {
        self.tools
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
