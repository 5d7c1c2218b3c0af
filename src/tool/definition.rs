// SPDX-License-Identifier: GPL-3.0-or-later
//! Tools defined outside the core, in Emacs Lisp or by a specification. agent-q-tool.el has checked the
//! contract's invariants; here is what only the core can check.

use serde::Deserialize;
use serde_json::Value;

use super::schema::Strangers;
use super::{Origin, Parameter, Presence, Runner, Tool, parameter};
use crate::exact;
use crate::protocol::HandlerId;
use crate::trust::{Provenance, SafetyLevel};

/// The category of tools that bring text from elsewhere, such as web pages.
const NETWORK: &str = "network";

/// A definition as Emacs writes it.
#[derive(Debug, Deserialize)]
pub struct ToolDefinition {
    name: String,
    description: String,
    /// The level; none means the contract's default for the kind of definition.
    #[serde(default)]
    level: Option<String>,
    #[serde(default)]
    categories: Vec<String>,
    /// The Lisp image whose program offers the tool; none for Emacs Lisp.
    #[serde(default)]
    image: Option<String>,
    /// The function that Emacs calls.
    handler: u64,
    #[serde(flatten)]
    shape: Shape,
}

/// What the arguments look like.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Shape {
    Parameters {
        parameters: Vec<Parameter>,
        #[serde(default)]
        required: Vec<String>,
    },
    /// From a signature or a foreign source.
    Schema { schema: Value },
}

/// Which invariant a definition breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTool {
    #[error(
        "Providers do not accept the tool name '{0}': use only the letters a to z and A to Z, digits, underscores and hyphens, at most 64 of them."
    )]
    Unsendable(String),
    #[error("The tool name {0} is taken by a tool for other agents.")]
    Reserved(String),
    #[error(
        "Providers do not accept the parameter name '{0}': use only letters, digits, underscores, dots and hyphens, at most 64 of them."
    )]
    UnsendableParameter(String),
    #[error("Unknown safety level {0}: expected safe, cautious or dangerous.")]
    Level(String),
    #[error("{0}")]
    Schema(String),
    #[error("The schema of the tool {0} must describe an object: arguments are always an object.")]
    NoObject(String),
    #[error("Cannot parse the definition: {0}")]
    Shape(String),
}

/// The tools that only other agents have; two of one name would be one too many for their hosts.
const RESERVED: &[&str] = &["await_call", "cancel_call", "list_images"];

impl SafetyLevel {
    /// The level of that name; `moderate` is an old word for `cautious`.
    ///
    /// # Errors
    ///
    /// When there is no such level.
    pub fn parse(name: &str) -> Result<Self, InvalidTool> {
        match name {
            "safe" => Ok(Self::Safe),
            "cautious" | "moderate" => Ok(Self::Cautious),
            "dangerous" => Ok(Self::Dangerous),
            other => Err(InvalidTool::Level(other.to_owned())),
        }
    }
}

/// The tool that the JSON text defines.
///
/// # Errors
///
/// The first invariant that it breaks.
pub fn parse(json: &str) -> Result<Tool, InvalidTool> {
    let definition: ToolDefinition =
        serde_json::from_str(json).map_err(|error| InvalidTool::Shape(error.to_string()))?;
    if let Some(problems) = exact::problems(json) {
        return Err(InvalidTool::Shape(problems.to_string()));
    }
    definition.into_tool()
}

impl ToolDefinition {
    fn into_tool(self) -> Result<Tool, InvalidTool> {
        if !parameter::is_name(&self.name) {
            return Err(InvalidTool::Unsendable(self.name));
        }
        if RESERVED.contains(&self.name.as_str()) {
            return Err(InvalidTool::Reserved(self.name));
        }
        let level = self.level.as_deref().map(SafetyLevel::parse).transpose()?;
        let runner = Runner::Handler(HandlerId(self.handler));
        let mut tool = match self.shape {
            Shape::Parameters {
                mut parameters,
                required,
            } => {
                for parameter in &mut parameters {
                    if !parameter::is_parameter_name(&parameter.name) {
                        return Err(InvalidTool::UnsendableParameter(parameter.name.clone()));
                    }
                    if required.contains(&parameter.name) {
                        parameter.presence = Presence::Required;
                    }
                }
                let level = level.unwrap_or(SafetyLevel::Safe);
                Tool::new(
                    &self.name,
                    &self.description,
                    level,
                    &[],
                    parameters,
                    runner,
                )
            }
            Shape::Schema { schema } if !parameter::is_of_objects(&schema) => {
                return Err(InvalidTool::NoObject(self.name));
            }
            Shape::Schema { schema } => Tool::with_schema(
                &self.name,
                &self.description,
                // Nobody has said yet that this is harmless.
                level.unwrap_or(SafetyLevel::Dangerous),
                schema,
                Strangers::AsTheSchemaSays,
                runner,
            ),
        };
        if self.categories.iter().any(|it| it == NETWORK) {
            tool.provenance = Provenance::Foreign;
        }
        tool.categories = self.categories;
        tool.origin = self.image.map_or(Origin::EmacsLisp, Origin::Image);
        tool.compiled_schema()
            .map_err(|error| InvalidTool::Schema(error.to_string()))?;
        Ok(tool)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defined(changes: Value) -> Result<Tool, InvalidTool> {
        let mut definition = json!({
            "name": "greet",
            "description": "Greet somebody.",
            "parameters": [{"name": "name", "type": "string", "description": "Who"}],
            "required": ["name"],
            "handler": 1,
        });
        for (key, value) in changes.as_object().unwrap() {
            definition[key] = value.clone();
        }
        parse(&definition.to_string())
    }

    #[test]
    fn a_definition_becomes_a_tool_with_the_contracts_schema() {
        let tool = defined(json!({})).unwrap();
        assert_eq!(tool.level, SafetyLevel::Safe);
        assert_eq!(
            tool.schema(),
            json!({"type": "function", "function": {
                "name": "greet",
                "description": "Greet somebody.",
                "parameters": {
                    "type": "object",
                    "properties": {"name": {"type": "string", "description": "Who"}},
                    "required": ["name"],
                },
            }})
        );
        let empty = defined(json!({"parameters": [], "required": []})).unwrap();
        assert_eq!(empty.argument_schema()["properties"], json!({}));
    }

    #[test]
    fn what_the_core_does_not_take_is_refused() {
        let broken = |changes| defined(changes).unwrap_err();
        for name in RESERVED {
            let taken = InvalidTool::Reserved((*name).to_owned());
            assert_eq!(broken(json!({"name": name})), taken);
        }
        for name in ["bad name?", "delete?", "*x*"] {
            let parameters = json!([{"name": name, "type": "string", "description": ""}]);
            assert_eq!(
                broken(json!({"parameters": parameters, "required": []})),
                InvalidTool::UnsendableParameter(name.to_owned())
            );
        }
        for name in ["", "sp ace", "a.b", "é", &"x".repeat(65)] {
            assert_eq!(
                broken(json!({"name": name})),
                InvalidTool::Unsendable(name.to_owned())
            );
        }
        assert!(matches!(
            broken(json!({"level": "mild"})),
            InvalidTool::Level(_)
        ));
        let unknown = json!([{"name": "name", "type": "text"}]);
        assert!(matches!(
            broken(json!({"parameters": unknown})),
            InvalidTool::Shape(_)
        ));
    }

    #[test]
    fn a_schema_is_of_objects_and_its_numbers_stay() {
        let of_schema = |schema: Value| {
            let foreign = json!({"name": "t", "description": "T.", "handler": 1, "schema": schema});
            parse(&foreign.to_string())
        };
        for schema in [
            json!({}),
            json!({"type": "object"}),
            json!({"type": ["object", "null"]}),
            json!({"anyOf": [{"type": "object"}]}),
        ] {
            assert!(of_schema(schema).is_ok());
        }
        for schema in [
            json!({"type": "string"}),
            json!({"type": ["array", "null"]}),
        ] {
            assert_eq!(
                of_schema(schema).unwrap_err(),
                InvalidTool::NoObject("t".to_owned())
            );
        }
        let beyond = r#"{"name": "t", "description": "T.", "handler": 1, "schema":
            {"properties": {"n": {"maximum": 18446744073709551616}}}}"#;
        let problem = parse(beyond).unwrap_err().to_string();
        assert!(
            problem.contains("schema.properties.n.maximum: 18446744073709551616 does not fit"),
            "{problem}"
        );
    }

    #[test]
    fn levels_have_an_alias_and_foreign_tools_are_dangerous() {
        let moderate = defined(json!({"level": "moderate"})).unwrap();
        assert_eq!(moderate.level, SafetyLevel::Cautious);
        let foreign = json!({
            "name": "sayHello",
            "description": "Greet.",
            "handler": 1,
            "schema": {"type": "object", "properties": {}},
        });
        let tool = parse(&foreign.to_string()).unwrap();
        assert_eq!(tool.level, SafetyLevel::Dangerous);
        assert_eq!(tool.provenance, Provenance::Own);
        let fetches = defined(json!({"categories": ["network"]})).unwrap();
        assert_eq!(fetches.provenance, Provenance::Foreign);
    }

    #[test]
    fn providers_get_a_complete_schema_and_binding_the_one_that_was_given() {
        let foreign = json!({
            "name": "list",
            "description": "List.",
            "handler": 1,
            "schema": {"properties": {"all": {"type": "array"}}},
        });
        let tool = parse(&foreign.to_string()).unwrap();
        assert_eq!(tool.argument_schema(), &foreign["schema"]);
        assert_eq!(
            tool.schema()["function"]["parameters"],
            json!({
                "properties": {"all": {"type": "array", "items": {}}},
                "type": "object",
            })
        );
    }
}
