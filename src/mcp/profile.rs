// SPDX-License-Identifier: GPL-3.0-or-later
//! Which tools a client is told of. It has tools for files of its own, and two of each confuse its
//! model; so by default it is told of those that need the image, and reaches the others by `call_tool`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin::more;
use crate::tool::offer::Unoffered;
use crate::tool::registry::Registry;
use crate::tool::{Origin, Runner, Tool};
use crate::trust::SafetyLevel;

/// The built-in tools of the profile `image`.
pub const IMAGE: &[&str] = &[
    "describe_symbol",
    "apropos_search",
    "find_definition",
    "xref",
    "inspect_value",
    "eval_form",
    "compile_form",
    "compile_file",
    "load_system",
    "run_tests",
    "get_last_error",
    "debugger_frames",
    "invoke_restart",
    "undo_definition",
    "edit_definition",
    "insert_definition",
    "check_parens",
    "more_tools",
    "call_tool",
];

/// The tools that Claude Code is to load at once: those that most tasks begin with, and the one that results
/// tell of. The others cost it a search each.
const ALWAYS: &[&str] = &["eval_form", "describe_symbol", "await_call"];

/// The parameter of image tools that says which image is meant.
pub const WHICH_IMAGE: &str = "image";

/// Which tools clients are told of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Those that need the image, and all that the user or a program defined.
    #[default]
    Image,
    Full,
    /// Those with these names.
    Named(Vec<String>),
}

impl Profile {
    /// The tools of REGISTRY that it has, in its order.
    #[must_use]
    pub fn tools(&self, registry: &Registry) -> Vec<Arc<Tool>> {
        let mut tools = registry.all();
        tools.retain(|tool| match self {
            Self::Image => tool.origin != Origin::BuiltIn || IMAGE.contains(&tool.name.as_str()),
            Self::Full => true,
            Self::Named(names) => names.contains(&tool.name),
        });
        tools
    }

    /// What becomes of calls of other tools.
    #[must_use]
    pub fn unoffered(&self) -> Unoffered {
        match self {
            Self::Image | Self::Full => Unoffered::Callable,
            Self::Named(_) => Unoffered::LeftOutByUser,
        }
    }
}

/// TOOL as a client is told of it.
#[must_use]
pub fn listed(tool: &Tool) -> Value {
    let mut schema = tool.schema()["function"]["parameters"].take();
    if takes_image(tool)
        && let Some(properties) = schema["properties"].as_object_mut()
    {
        properties.insert(
            WHICH_IMAGE.to_owned(),
            json!({"type": "string", "description": "As in list_images"}),
        );
    }
    let level = match tool.name.as_str() {
        // What it calls is asked about, but hosts must not take it for harmless.
        more::CALL => SafetyLevel::Dangerous,
        _ => tool.level,
    };
    described(&tool.name, &tool.description, &schema, level)
}

/// Whether TOOL can't do anything without an image.
#[must_use]
pub fn looks_into_image(tool: &Tool) -> bool {
    let of_image = |name: &String| ["debugger", "history"].contains(&name.as_str());
    match tool.runner {
        Runner::Image(_) => true,
        Runner::Operation(_) => tool.categories.iter().any(of_image),
        _ => false,
    }
}

/// Whether TOOL takes a parameter that says which image is meant.
#[must_use]
pub fn takes_image(tool: &Tool) -> bool {
    looks_into_image(tool)
        && tool.argument_schema()["properties"]
            .get(WHICH_IMAGE)
            .is_none()
}

/// A tool of LEVEL as clients are told of it.
#[must_use]
pub fn described(name: &str, description: &str, schema: &Value, level: SafetyLevel) -> Value {
    let annotations = match level {
        SafetyLevel::Safe => json!({"readOnlyHint": true, "openWorldHint": false}),
        SafetyLevel::Cautious => json!({"readOnlyHint": false, "destructiveHint": false}),
        SafetyLevel::Dangerous => json!({"readOnlyHint": false, "destructiveHint": true}),
    };
    let mut tool = json!({
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": annotations,
    });
    if ALWAYS.contains(&name) {
        tool["_meta"] = json!({"anthropic/alwaysLoad": true});
    }
    tool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        let registry = Registry::default();
        crate::builtin::register(&registry);
        registry
    }

    fn names(profile: &Profile, registry: &Registry) -> Vec<String> {
        let tools = profile.tools(registry);
        tools.iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn the_profile_image_has_what_it_names_and_what_others_defined() {
        let registry = registry();
        let mut named: Vec<&str> = IMAGE.to_vec();
        let mut found = names(&Profile::Image, &registry);
        named.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, named);
        let mut own = Tool::clone(&registry.get("read_file").unwrap());
        own.name = "my_tool".to_owned();
        own.origin = Origin::EmacsLisp;
        registry.register(own);
        assert!(names(&Profile::Image, &registry).contains(&"my_tool".to_owned()));
        let list = Profile::Named(vec!["xref".to_owned(), "to_come".to_owned()]);
        assert_eq!(names(&list, &registry), ["xref"]);
        assert_eq!(names(&Profile::Full, &registry).len(), registry.len());
    }

    #[test]
    fn annotations_come_from_the_level() {
        let registry = registry();
        let hints = |name: &str| listed(&registry.get(name).unwrap())["annotations"].clone();
        assert_eq!(hints("describe_symbol")["readOnlyHint"], json!(true));
        assert_eq!(hints("eval_form")["destructiveHint"], json!(false));
        assert_eq!(hints("call_tool")["readOnlyHint"], json!(false));
        assert_eq!(hints("call_tool")["destructiveHint"], json!(true));
        assert_eq!(hints("load_system")["destructiveHint"], json!(true));
        let schema = &listed(&registry.get("eval_form").unwrap())["inputSchema"];
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["properties"][WHICH_IMAGE]["type"], "string");
    }
}
