// SPDX-License-Identifier: GPL-3.0-or-later
//! Tool libraries: implementations by name, and the binding of specifications to them. A library
//! never changes; registering gives a new one, so that a turn keeps the one it started with.

use std::fmt::{self, Display};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value as Json;

use super::specification::ToolSpecification;

/// How alike two names must be for an error to suggest one for the other (1 is equal).
const NEAR_ENOUGH: f64 = 0.8;

/// Why a tool cannot be made or registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    #[error("Tool name cannot be empty")]
    EmptyName,
    #[error("Tool description cannot be empty")]
    EmptyDescription,
    #[error("The schema of the tool '{name}' must be an object, not {found}")]
    Schema { name: String, found: String },
    #[error("The tool '{tool}' cannot be registered under another name, '{name}'")]
    OtherName { name: String, tool: String },
}

/// A tool that can run: what specifications are compared with, and PAYLOAD, what runs it.
#[derive(Debug, Clone, PartialEq)]
pub struct LibraryTool<T> {
    name: String,
    description: String,
    schema: Json,
    payload: T,
}

impl<T> LibraryTool<T> {
    /// The tool NAME.
    ///
    /// # Errors
    ///
    /// When the name or the description is empty, or the schema isn't an object.
    pub fn new(
        name: &str,
        description: &str,
        schema: Json,
        payload: T,
    ) -> Result<Self, LibraryError> {
        if name.trim().is_empty() {
            return Err(LibraryError::EmptyName);
        }
        if description.trim().is_empty() {
            return Err(LibraryError::EmptyDescription);
        }
        if !schema.is_object() {
            return Err(LibraryError::Schema {
                name: name.to_owned(),
                found: schema.to_string(),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
            payload,
        })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    #[must_use]
    pub fn schema(&self) -> &Json {
        &self.schema
    }

    #[must_use]
    pub fn payload(&self) -> &T {
        &self.payload
    }
}

/// Tools by name, in the order of registration. Cloning one costs nothing.
#[derive(Debug)]
pub struct ToolLibrary<T> {
    tools: Arc<IndexMap<String, Arc<LibraryTool<T>>>>,
}

impl<T> Clone for ToolLibrary<T> {
    fn clone(&self) -> Self {
        Self {
            tools: Arc::clone(&self.tools),
        }
    }
}

impl<T> Default for ToolLibrary<T> {
    fn default() -> Self {
        Self {
            tools: Arc::default(),
        }
    }
}

impl<T> ToolLibrary<T> {
    /// A library with TOOL in it under NAME, in place of one it may have had there.
    ///
    /// # Errors
    ///
    /// When NAME isn't the tool's own.
    pub fn register(
        &self,
        name: &str,
        tool: impl Into<Arc<LibraryTool<T>>>,
    ) -> Result<Self, LibraryError> {
        let tool = tool.into();
        if name != tool.name {
            let name = name.to_owned();
            return Err(LibraryError::OtherName {
                name,
                tool: tool.name.clone(),
            });
        }
        let mut tools = IndexMap::clone(&self.tools);
        tools.insert(name.to_owned(), tool);
        Ok(Self {
            tools: Arc::new(tools),
        })
    }

    /// The tool NAME.
    #[must_use]
    pub fn lookup(&self, name: &str) -> Option<&Arc<LibraryTool<T>>> {
        self.tools.get(name)
    }

    /// The library's tools, in the order of registration.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<LibraryTool<T>>> {
        self.tools.values()
    }

    /// The tool that carries out SPECIFICATION.
    ///
    /// # Errors
    ///
    /// When there is none of its name, or its description or schema differs: which, and how.
    pub fn bind(
        &self,
        specification: &ToolSpecification,
    ) -> Result<Arc<LibraryTool<T>>, BindError> {
        let name = specification.name();
        let Some(tool) = self.lookup(name) else {
            return Err(BindError::NotFound {
                name: name.to_owned(),
                near: self.near(name),
            });
        };
        let differences = differences(specification, tool);
        if differences.is_empty() {
            Ok(Arc::clone(tool))
        } else {
            Err(BindError::Differs {
                name: name.to_owned(),
                differences,
            })
        }
    }

    /// All of SPECIFICATIONS, in their order.
    ///
    /// # Errors
    ///
    /// The first that cannot be bound, as [`Self::bind`].
    pub fn bind_all(
        &self,
        specifications: &[ToolSpecification],
    ) -> Result<Vec<Arc<LibraryTool<T>>>, BindError> {
        specifications
            .iter()
            .map(|specification| self.bind(specification))
            .collect()
    }

    fn near(&self, name: &str) -> Option<String> {
        let likeness =
            |known: &str| strsim::jaro_winkler(&known.to_lowercase(), &name.to_lowercase());
        let best = self.tools.keys().map(|known| (likeness(known), known));
        let best = best.filter(|(likeness, _)| *likeness >= NEAR_ENOUGH);
        best.max_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(_, known)| known.clone())
    }
}

/// Why a specification is bound to no tool of a library.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BindError {
    #[error("Tool '{name}' not found in library{}", suggestion(near.as_deref()))]
    NotFound { name: String, near: Option<String> },
    #[error(
        "Tool '{name}' in the library differs from its specification: {}",
        list(differences)
    )]
    Differs {
        name: String,
        differences: Vec<Difference>,
    },
}

fn suggestion(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

fn list(differences: &[Difference]) -> String {
    let texts: Vec<String> = differences.iter().map(Difference::to_string).collect();
    texts.join("; ")
}

/// What a specification says and its library's tool says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// `description`, or the place in the schema, such as `schema.properties.age.type`.
    pub place: String,
    /// What the specification has there, if anything.
    pub specified: Option<Json>,
    /// What the tool has there, if anything.
    pub implemented: Option<Json>,
}

impl Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Json>| match value {
            Some(value) => value.to_string(),
            None => "nothing".to_owned(),
        };
        let (specified, implemented) = (shown(&self.specified), shown(&self.implemented));
        write!(
            out,
            "{} is {specified} in the specification, {implemented} in the tool",
            self.place
        )
    }
}

fn differences<T>(specification: &ToolSpecification, tool: &LibraryTool<T>) -> Vec<Difference> {
    let mut found = Vec::new();
    if specification.description() != tool.description {
        found.push(Difference {
            place: "description".to_owned(),
            specified: Some(specification.description().into()),
            implemented: Some(tool.description.as_str().into()),
        });
    }
    let (specified, implemented) = (Some(specification.schema()), Some(&tool.schema));
    compare("schema", specified, implemented, &mut found);
    found
}

/// Adds to FOUND the smallest parts in which two JSON values differ. Objects are compared by key;
/// the specification's schema is no deeper than gram nests, and so is this.
fn compare(
    place: &str,
    specified: Option<&Json>,
    implemented: Option<&Json>,
    found: &mut Vec<Difference>,
) {
    if specified == implemented {
        return;
    }
    let (Some(Json::Object(left)), Some(Json::Object(right))) = (specified, implemented) else {
        found.push(Difference {
            place: place.to_owned(),
            specified: specified.cloned(),
            implemented: implemented.cloned(),
        });
        return;
    };
    let added = right.keys().filter(|key| !left.contains_key(*key));
    for key in left.keys().chain(added) {
        compare(
            &format!("{place}.{key}"),
            left.get(key),
            right.get(key),
            found,
        );
    }
}
