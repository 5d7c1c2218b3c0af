// SPDX-License-Identifier: GPL-3.0-or-later
//! What a tool is: its parameters and schema, where it is found, and how its work is described.
//! Providers see a tool's schema, `call` takes calls of it on their way, and the built-in tools are in `builtin`.

pub mod arguments;
pub mod begun;
pub mod code;
pub mod console;
pub mod definition;
pub mod libraries;
pub mod offer;
pub mod parameter;
pub mod registry;
mod result;
pub mod schema;
pub mod work;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use once_cell::sync::OnceCell;
use serde_json::{Map, Value, json};

pub use arguments::Arguments;
pub use code::{Code, Treatment};
pub use parameter::{Parameter, ParameterType, Presence};
pub use result::{Content, Quotes, Returns, ToolFailure};

use crate::image::ImageReply;
use crate::protocol::{EmacsRequest, HandlerId, Lisp};
use crate::trust::{Provenance, SafetyLevel};
use code::FindUnit;
use schema::{ArgumentSchema, ArgumentSchemaError, Strangers};
use work::{Finding, Instead, Precheck, Running, Steps, Task, WorkContext};

/// The parameter of tools of the image that names another Lisp than the user's.
pub const IMAGE: &str = "image";
/// The one that a model can name.
pub const SCRATCH: &str = "scratch";

/// The parameter by which a call is begun, and the model goes on without its result.
pub const BACKGROUND: &str = "background";

/// What the arguments of a call show: the level it has with them, and why that is more than the
/// tool's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    pub level: SafetyLevel,
    /// Why the user is asked; empty when there is nothing to say beyond the level.
    pub reason: String,
}

/// A tool that Emacs serves on its own thread.
#[derive(Clone, Copy)]
pub struct EmacsTool {
    /// What to ask of Emacs.
    pub request: fn(&Arguments) -> Result<EmacsRequest, ToolFailure>,
    /// The result for the model.
    pub render: fn(&Arguments, String) -> Result<String, ToolFailure>,
}

/// A tool that agent-q's own Emacs Lisp serves, from what Emacs knows or through the image. It may
/// take as long as a form may: some go on with one that stopped in the debugger.
#[derive(Clone, Copy)]
pub struct OperationTool {
    /// What Emacs Lisp knows it as; it gets the arguments as they are.
    pub operation: &'static str,
    /// The result for the model where Emacs's text is a reply of the image; other texts are for it as they are.
    pub render: Option<ReplyRenderer>,
}

/// Makes of a reply of the image what the model reads.
pub type ReplyRenderer = fn(&Arguments, &ImageReply) -> Result<String, ToolFailure>;

impl OperationTool {
    /// OPERATION, whose reply is for the model as it is.
    #[must_use]
    pub const fn plain(operation: &'static str) -> Self {
        Self {
            operation,
            render: None,
        }
    }
}

/// A tool that runs in the Lisp image.
#[derive(Clone, Copy)]
pub struct ImageTool {
    /// The operation of the Common Lisp half.
    pub operation: &'static str,
    /// Its arguments as a property list of strings, integers, keywords and lists.
    pub arguments: fn(&Arguments) -> lexpr::Value,
    /// The result for the model.
    pub render: ReplyRenderer,
    /// How long it may run in the image, given the default for code.
    pub deadline: fn(&Arguments, Duration) -> Duration,
}

/// The work of a tool that needs nothing but a worker thread.
pub type WorkerTool = Arc<dyn Fn(Arguments) -> Result<String, ToolFailure> + Send + Sync>;

/// The work of a tool that a program of others does.
pub type ServerWork = Arc<dyn Fn(Arguments, WorkContext) -> Running + Send + Sync>;

/// Where a tool's work is done.
#[derive(Clone)]
pub enum Runner {
    /// In Rust, on a worker thread.
    Worker(WorkerTool),
    /// In Rust, asking Emacs on the way where it has to.
    Task(Task),
    /// On Emacs's thread, through the Env.
    Emacs(EmacsTool),
    /// In the Lisp image.
    Image(ImageTool),
    /// In several calls into Lisp images, with what is made of them in Rust.
    Steps(Steps),
    /// In agent-q's own Emacs Lisp.
    Operation(OperationTool),
    /// By a function in Emacs Lisp.
    Handler(HandlerId),
    /// By an MCP server.
    Server(ServerWork),
    /// By a conversation of its own with a model.
    Research,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Worker(_) => "Worker",
            Self::Task(_) => "Task",
            Self::Emacs(_) => "Emacs",
            Self::Image(_) => "Image",
            Self::Steps(_) => "Steps",
            Self::Operation(_) => "Operation",
            Self::Handler(_) => "Handler",
            Self::Server(_) => "Server",
            Self::Research => "Research",
        })
    }
}

/// Where a tool comes from, for the user and for the rules that guard foreign ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Part of agent-q.
    BuiltIn,
    /// Defined in Emacs Lisp, by the user or a package.
    EmacsLisp,
    /// Offered by the program in the Lisp image behind the connection of this name.
    Image(String),
    /// A named tool library, bound by an agent's specifications.
    Library(String),
    /// Offered by the MCP server that the user calls so, a program of others.
    Server(String),
}

/// A tool that a model can call.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name, in snake_case unless a specification gave it another.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// Its parameters, where it was defined by them; its schema says the same and more.
    pub parameters: Vec<Parameter>,
    /// The level in force: its own, unless the user set another.
    pub level: SafetyLevel,
    /// The level that it was defined with.
    pub own_level: SafetyLevel,
    /// What it is about, such as `introspection`.
    pub categories: Vec<String>,
    pub origin: Origin,
    /// Where the text that it returns comes from, if no file says so.
    pub provenance: Provenance,
    /// Whether that text is marked as data in the model's copy.
    pub returns: Returns,
    /// Raises the level by what the arguments show; never runs what it assesses.
    pub assess: fn(SafetyLevel, &Arguments) -> Assessment,
    /// The parameters that name files; a path outside the project, or of secrets, raises the level.
    pub paths: &'static [&'static str],
    /// The parameter that names a buffer, the user's last one when left out. The file that it visits
    /// counts like one of the paths.
    pub buffer: Option<&'static str>,
    /// Whether a call can succeed at all, asked before the user is.
    pub precheck: Option<Precheck>,
    /// The arguments that are code for the image, if any are.
    pub code: Option<Code>,
    /// What is found out in the user's files for a call in the image, before anyone is asked about it.
    pub finding: Option<Finding>,
    /// How the code is found that the arguments only name, for a tool of the image.
    pub unit: Option<FindUnit>,
    /// What is done where the image's reply alone is no result.
    pub instead: Option<Instead>,
    pub runner: Runner,
    pub(crate) schema: LazySchema,
}

/// A schema that is compiled when it is first used.
#[derive(Debug, Clone)]
pub(crate) struct LazySchema {
    json: Value,
    strangers: Strangers,
    compiled: OnceCell<Arc<ArgumentSchema>>,
    /// As providers take it.
    sendable: OnceCell<Value>,
}

impl LazySchema {
    /// Whether arguments that it does not name may pass.
    fn takes_strangers(&self) -> bool {
        match self.json.get("additionalProperties") {
            _ if self.json.get("patternProperties").is_some() => true,
            Some(others) => *others != Value::Bool(false),
            None => self.strangers == Strangers::AsTheSchemaSays,
        }
    }
}

impl Tool {
    /// A tool defined by its parameters, whose level does not depend on the arguments.
    #[must_use]
    pub fn new(
        name: &str,
        description: &str,
        level: SafetyLevel,
        categories: &[&str],
        parameters: Vec<Parameter>,
        runner: Runner,
    ) -> Self {
        let schema = schema::of_parameters(&parameters);
        Self {
            parameters,
            categories: categories.iter().map(|&it| it.to_owned()).collect(),
            ..Self::with_schema(name, description, level, schema, Strangers::Refused, runner)
        }
    }

    /// The same tool, with CATEGORIES before those that it has.
    #[must_use]
    pub fn filed_under(mut self, categories: &[&str]) -> Self {
        let own = std::mem::take(&mut self.categories);
        self.categories = categories.iter().map(|&it| it.to_owned()).collect();
        self.categories.extend(own);
        self
    }

    /// A tool defined by a JSON Schema of its arguments.
    #[must_use]
    pub fn with_schema(
        name: &str,
        description: &str,
        level: SafetyLevel,
        schema: Value,
        strangers: Strangers,
        runner: Runner,
    ) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: Vec::new(),
            level,
            own_level: level,
            categories: Vec::new(),
            origin: Origin::BuiltIn,
            provenance: Provenance::Own,
            returns: Returns::Text,
            assess: |level, _| Assessment {
                level,
                reason: String::new(),
            },
            paths: &[],
            buffer: None,
            precheck: None,
            code: None,
            finding: None,
            unit: None,
            instead: None,
            runner,
            schema: LazySchema {
                json: schema,
                strangers,
                compiled: OnceCell::new(),
                sendable: OnceCell::new(),
            },
        }
    }

    /// The JSON Schema of the arguments.
    #[must_use]
    pub fn argument_schema(&self) -> &Value {
        &self.schema.json
    }

    /// The same, ready to check arguments.
    ///
    /// # Errors
    ///
    /// When the schema can't be used.
    pub fn compiled_schema(&self) -> Result<&ArgumentSchema, ArgumentSchemaError> {
        self.schema
            .compiled
            .get_or_try_init(|| {
                let strangers = self.schema.strangers;
                let compiled = ArgumentSchema::compile(self.schema.json.clone(), strangers);
                match &self.origin {
                    // It may be of a draft to come; the server checks by it anyway.
                    Origin::Server(_) => compiled
                        .or_else(|_| ArgumentSchema::compile(json!({"type": "object"}), strangers)),
                    _ => compiled,
                }
                .map(Arc::new)
            })
            .map(AsRef::as_ref)
    }

    /// GIVEN with defaults filled in, if it fits.
    ///
    /// What is of another type, such as "5" for an integer, is converted where nothing is lost, and a
    /// name in kebab-case is the one in snake_case. A `null` for an optional parameter that can't be
    /// null counts as absent, which is how several models spell it.
    ///
    /// # Errors
    ///
    /// Every problem, a line each.
    pub fn check(&self, given: Map<String, Value>) -> Result<Arguments, ToolFailure> {
        let mut given = match self.schema.takes_strangers() {
            true => given,
            false => arguments::rename(&self.schema.json, given),
        };
        given.retain(|name, value| !(value.is_null() && self.takes_null_as_absent(name)));
        let mut given = Value::Object(given);
        arguments::convert(&self.schema.json, &mut given);
        let schema = self
            .compiled_schema()
            .map_err(|error| ToolFailure::new(format!("The tool {}: {error}", self.name)))?;
        let checked = match self.origin {
            // A server fills in its defaults itself; the user is shown what the model gave.
            Origin::Server(_) => schema.check_given(given),
            Origin::BuiltIn | Origin::EmacsLisp | Origin::Image(_) | Origin::Library(_) => {
                schema.check(given)
            }
        };
        checked
            .map_err(|problems| ToolFailure::new(problems.to_string()))
            .and_then(|mut given| {
                if let Some(code) = self.code {
                    code.unfence(&mut given)?;
                }
                Ok(Arguments::new(given))
            })
    }

    /// The Lisp that a call with ARGUMENTS is about.
    #[must_use]
    pub fn lisp(&self, arguments: &Arguments) -> Lisp {
        let named = match self.runner {
            Runner::Image(_) if self.origin == Origin::BuiltIn => arguments.text(IMAGE),
            _ => None,
        };
        named.map_or(Lisp::Users, |name| Lisp::Second(name.into()))
    }

    /// Whether a call with ARGUMENTS is to be begun, and the model goes on without its result.
    #[must_use]
    pub fn runs_in_background(&self, arguments: &Arguments) -> bool {
        self.origin == Origin::BuiltIn && arguments.flag(BACKGROUND)
    }

    /// The number of its function in Emacs Lisp, if that is what runs it.
    #[must_use]
    pub fn handler(&self) -> Option<HandlerId> {
        match self.runner {
            Runner::Handler(handler) => Some(handler),
            _ => None,
        }
    }

    fn takes_null_as_absent(&self, name: &str) -> bool {
        let schema = &self.schema.json;
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .is_some_and(|required| required.iter().any(|it| it == name));
        let plain_type = schema
            .get("properties")
            .and_then(|properties| properties.get(name)?.get("type")?.as_str());
        !required && plain_type.is_some_and(|kind| kind != "null")
    }

    /// The tool as providers take it.
    #[must_use]
    pub fn schema(&self) -> Value {
        json!({
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.schema.sendable.get_or_init(|| parameter::sendable_schema(&self.schema.json)),
            }
        })
    }
}
