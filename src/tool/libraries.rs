// SPDX-License-Identifier: GPL-3.0-or-later
//! The named tool libraries, and the agents whose specifications are bound to them when a turn
//! starts. A turn keeps the library that it started with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::Value;

use super::definition::InvalidTool;
use super::registry::Registry;
use super::schema::Strangers;
use super::{Origin, Runner, Tool, parameter};
use crate::gram::{BindError, LibraryError, LibraryTool, ToolLibrary, ToolSpecification};
use crate::protocol::HandlerId;
use crate::runtime::held;
use crate::trust::SafetyLevel;

/// What runs a library's tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Implementation {
    pub handler: HandlerId,
    /// None until the user says otherwise; such a tool counts as dangerous.
    pub level: Option<SafetyLevel>,
}

/// An agent as a chat uses it.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub name: String,
    /// What the model is told instead of our own base text.
    pub instruction: String,
    pub specifications: Vec<ToolSpecification>,
    /// The libraries to bind to, used in turn.
    pub libraries: Vec<String>,
}

/// Why a library could not be taken, or an agent not be bound.
#[derive(Debug, thiserror::Error)]
pub enum LibrariesError {
    #[error("Cannot parse the library: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Tool(#[from] LibraryError),
    #[error(transparent)]
    Level(#[from] InvalidTool),
    #[error("No tool library is named {0}; agent-q-tool-libraries lists them.")]
    Unknown(String),
    #[error("The agent {0} has tools, but no library is chosen for them.")]
    NoneChosen(String),
    #[error("The library {library} does not match the agent: {problem}")]
    Bind { library: String, problem: BindError },
}

/// All libraries by name.
#[derive(Debug, Default)]
pub struct Libraries {
    by_name: Mutex<HashMap<String, Arc<ToolLibrary<Implementation>>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolJson {
    name: String,
    description: String,
    schema: Value,
    handler: u64,
    #[serde(default)]
    level: Option<String>,
}

impl Libraries {
    /// Puts the library NAME in place, of the tools in the JSON text; an older one is replaced.
    ///
    /// # Errors
    ///
    /// When the text or one of its tools is not understood; the older library stays.
    pub fn set(&self, name: &str, tools: &str) -> Result<(), LibrariesError> {
        let tools: Vec<ToolJson> = serde_json::from_str(tools)?;
        let mut library = ToolLibrary::default();
        for tool in tools {
            if !parameter::is_name(&tool.name) {
                return Err(InvalidTool::Unsendable(tool.name).into());
            }
            let level = tool.level.as_deref().map(SafetyLevel::parse).transpose()?;
            let implementation = Implementation {
                handler: HandlerId(tool.handler),
                level,
            };
            let made =
                LibraryTool::new(&tool.name, &tool.description, tool.schema, implementation)?;
            library = library.register(&tool.name, made)?;
        }
        held(&self.by_name).insert(name.to_owned(), Arc::new(library));
        Ok(())
    }

    /// AGENT's tools, bound for its TURN-th turn, with the levels that REGISTRY's user set.
    ///
    /// # Errors
    ///
    /// When a library is missing or does not fit.
    pub fn bind(
        &self,
        agent: &Agent,
        turn: usize,
        registry: &Registry,
    ) -> Result<Registry, LibrariesError> {
        if agent.specifications.is_empty() {
            return Ok(Registry::default());
        }
        let name = agent
            .libraries
            .get(turn % agent.libraries.len().max(1))
            .ok_or_else(|| LibrariesError::NoneChosen(agent.name.clone()))?;
        let library = held(&self.by_name)
            .get(name)
            .cloned()
            .ok_or_else(|| LibrariesError::Unknown(name.clone()))?;
        let bound =
            library
                .bind_all(&agent.specifications)
                .map_err(|problem| LibrariesError::Bind {
                    library: name.clone(),
                    problem,
                })?;
        let tools = bound
            .iter()
            .map(|tool| Arc::new(bound_tool(tool, name, registry)));
        Ok(Registry::of(tools))
    }
}

fn bound_tool(tool: &LibraryTool<Implementation>, library: &str, registry: &Registry) -> Tool {
    let implementation = tool.payload();
    let own_level = implementation.level.unwrap_or(SafetyLevel::Dangerous);
    let mut bound = Tool::with_schema(
        tool.name(),
        tool.description(),
        own_level,
        tool.schema().clone(),
        Strangers::AsTheSchemaSays,
        Runner::Handler(implementation.handler),
    );
    bound.level = registry.user_level(tool.name()).unwrap_or(own_level);
    bound.origin = Origin::Library(library.to_owned());
    bound
}
