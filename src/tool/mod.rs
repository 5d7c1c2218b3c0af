// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool system: what a tool is, where it is found, and how a call of it runs.
//! Providers see a tool's schema, sessions run its calls through [`executor`], and the families of
//! built-in tools are in `crate::tools`.

pub mod arguments;
pub mod console;
pub mod executor;
pub mod format;
pub mod registry;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

pub use arguments::Arguments;

use crate::image::Reply;
use crate::protocol::HostRequest;

/// How much harm a call can do, and so who decides whether it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SafetyLevel {
    /// Only reads; runs at once.
    Safe,
    /// Changes the state of the image or a buffer; is logged, then runs.
    Cautious,
    /// Changes what lasts; runs only when it was approved.
    Dangerous,
}

impl SafetyLevel {
    /// The level's name as it is written in definitions, events and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Cautious => "cautious",
            Self::Dangerous => "dangerous",
        }
    }
}

impl fmt::Display for SafetyLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The JSON type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    String,
    Boolean,
    Number,
    Integer,
    Object,
    Array,
}

impl ParameterType {
    /// The type's name in JSON Schema.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Object => "object",
            Self::Array => "array",
        }
    }
}

/// Whether a call must give a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Required,
    Optional,
}

/// One parameter of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub kind: ParameterType,
    pub description: String,
    pub presence: Presence,
    /// The values allowed, when there are only some.
    pub choices: Vec<Value>,
}

impl Parameter {
    #[must_use]
    pub fn required(name: &str, kind: ParameterType, description: &str) -> Self {
        Self::new(name, kind, description, Presence::Required)
    }

    #[must_use]
    pub fn optional(name: &str, kind: ParameterType, description: &str) -> Self {
        Self::new(name, kind, description, Presence::Optional)
    }

    fn new(name: &str, kind: ParameterType, description: &str, presence: Presence) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            description: description.to_owned(),
            presence,
            choices: Vec::new(),
        }
    }

    /// The same parameter, limited to these texts.
    #[must_use]
    pub fn one_of(mut self, choices: &[&str]) -> Self {
        self.choices = choices.iter().map(|&choice| choice.into()).collect();
        self
    }

    fn schema(&self) -> Value {
        let mut schema = Map::new();
        schema.insert("type".into(), self.kind.name().into());
        schema.insert("description".into(), self.description.clone().into());
        if !self.choices.is_empty() {
            schema.insert("enum".into(), self.choices.clone().into());
        }
        Value::Object(schema)
    }
}

/// What the arguments of a call show: the level it has with them, and why that is more than the
/// tool's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    pub level: SafetyLevel,
    /// Why the user is asked; empty when there is nothing to say beyond the level.
    pub reason: String,
}

/// Why a tool call has no answer: one sentence that the model can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolFailure(pub String);

impl ToolFailure {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// A tool that Emacs serves on its own thread.
#[derive(Clone, Copy)]
pub struct HostTool {
    /// What to ask of Emacs.
    pub request: fn(&Arguments) -> Result<HostRequest, ToolFailure>,
    /// The answer for the model.
    pub render: fn(&Arguments, String) -> Result<String, ToolFailure>,
}

/// A tool that runs in the Lisp image.
#[derive(Clone, Copy)]
pub struct ImageTool {
    /// The operation of the Common Lisp half.
    pub operation: &'static str,
    /// Its arguments as a property list of strings, integers, keywords and lists.
    pub arguments: fn(&Arguments) -> lexpr::Value,
    /// The answer for the model.
    pub render: fn(&Arguments, &Reply) -> Result<String, ToolFailure>,
    /// How long it may run in the image, given the default for code.
    pub deadline: fn(&Arguments, Duration) -> Duration,
}

/// The work of a tool that needs nothing but a worker thread.
pub type WorkerTool = Arc<dyn Fn(Arguments) -> Result<String, ToolFailure> + Send + Sync>;

/// Where a tool's work is done.
#[derive(Clone)]
pub enum Runner {
    /// In Rust, on a worker thread.
    Worker(WorkerTool),
    /// On Emacs's thread, through the Env.
    Host(HostTool),
    /// In the Lisp image.
    Image(ImageTool),
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Worker(_) => "Worker",
            Self::Host(_) => "Host",
            Self::Image(_) => "Image",
        })
    }
}

/// A tool that a model can call.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name, in snake_case.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    pub parameters: Vec<Parameter>,
    pub level: SafetyLevel,
    /// What it is about, such as `introspection`.
    pub categories: Vec<String>,
    /// Raises the level by what the arguments show; never runs what it assesses.
    pub assess: fn(SafetyLevel, &Arguments) -> Assessment,
    pub runner: Runner,
}

impl Tool {
    /// A tool whose level does not depend on its arguments.
    #[must_use]
    pub fn new(
        name: &str,
        description: &str,
        level: SafetyLevel,
        categories: &[&str],
        parameters: Vec<Parameter>,
        runner: Runner,
    ) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters,
            level,
            categories: categories.iter().map(|&it| it.to_owned()).collect(),
            assess: |level, _| Assessment {
                level,
                reason: String::new(),
            },
            runner,
        }
    }

    /// The JSON Schema of the arguments.
    #[must_use]
    pub fn parameter_schema(&self) -> Value {
        let properties: Map<String, Value> = self
            .parameters
            .iter()
            .map(|parameter| (parameter.name.clone(), parameter.schema()))
            .collect();
        let required: Vec<&str> = self
            .parameters
            .iter()
            .filter(|parameter| parameter.presence == Presence::Required)
            .map(|parameter| parameter.name.as_str())
            .collect();
        json!({"type": "object", "properties": properties, "required": required})
    }

    /// The tool as providers take it.
    #[must_use]
    pub fn schema(&self) -> Value {
        json!({
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameter_schema(),
            }
        })
    }
}
