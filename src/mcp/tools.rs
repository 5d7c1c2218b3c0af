// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that clients are told of. A client has tools for files of its own, and two of each confuse
//! its model; so by default it is told of those that need the image, and reaches the others by `call_tool`.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::prompts;
use crate::builtin::files::balance::REPAIR;
use crate::builtin::{FOR_CHATS, more};
use crate::tool::begun::{AWAIT, CANCEL};
use crate::tool::offer::{Unoffered, groups_beyond};
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
    "verify_system",
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
const ALWAYS: &[&str] = &["eval_form", "describe_symbol", AWAIT];

/// The parameter of image tools that says which image is meant.
pub const WHICH_IMAGE: &str = crate::tool::IMAGE;

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
            Self::Image => match tool.origin {
                Origin::BuiltIn => IMAGE.contains(&tool.name.as_str()),
                Origin::Server(_) => false,
                Origin::EmacsLisp | Origin::Image(_) | Origin::Library(_) => true,
            },
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
fn described_tool(tool: &Tool) -> Value {
    let mut schema = tool.schema()["function"]["parameters"].take();
    if takes_image(tool)
        && let Some(properties) = schema["properties"].as_object_mut()
    {
        let which = match properties.get(WHICH_IMAGE) {
            Some(_) => "As in list_images, or scratch",
            None => "As in list_images",
        };
        properties.insert(
            WHICH_IMAGE.to_owned(),
            json!({"type": "string", "description": which}),
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
    looks_into_image(tool) && (tool.origin == Origin::BuiltIn || !has_image(tool))
}

/// Whether TOOL has a parameter of its own that names an image.
#[must_use]
pub fn has_image(tool: &Tool) -> bool {
    tool.argument_schema()["properties"]
        .get(WHICH_IMAGE)
        .is_some()
}

/// Whether TOOL is about errors whose stack is alive, which a client's scratch image has as well.
#[must_use]
pub fn has_debuggers(tool: &Tool) -> bool {
    matches!(tool.runner, Runner::Operation(_)) && tool.categories.iter().any(|it| it == "debugger")
}

/// That the tool NAME of REGISTRY is not for the scratch image, and which are.
#[must_use]
pub fn no_scratch(name: &str, registry: &Registry) -> String {
    let mut others = registry.all();
    others.retain(|it| takes_image(it) && (has_image(it) || has_debuggers(it)));
    let others: Vec<&str> = others.iter().map(|it| it.name.as_str()).collect();
    format!(
        "{name} is not for the image scratch, only for those of list_images. For scratch there are {}.",
        others.join(", ")
    )
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

/// The tool that only clients have. It skips the pipeline, as it only asks Emacs.
pub const LIST_IMAGES: &str = "list_images";

#[must_use]
fn list_images() -> Value {
    described(
        LIST_IMAGES,
        "List the Lisp images that the user's Emacs is connected to, with their directories.",
        &json!({"type": "object", "properties": {}}),
        SafetyLevel::Safe,
    )
}

/// The number in ARGUMENTS of a call that was begun before.
///
/// # Errors
///
/// A sentence when there is none.
pub fn call_id(arguments: &Map<String, Value>) -> Result<u64, String> {
    let id = arguments.get("call_id");
    // Some models write numbers as text.
    let text = id
        .and_then(Value::as_str)
        .and_then(|it| it.trim().parse().ok());
    id.and_then(Value::as_u64).or(text).ok_or_else(|| {
        "Error: Missing required field: call_id, the number in the pending result.".to_owned()
    })
}

// What a client is told at its start. The bridge has the part that is the same for all in a file, for
// hosts that start before Emacs.

/// The programs whose models search among all tools themselves: what is not needed yet costs them no more
/// than its name, and another way of looking things up only confuses them.
const SEARCH_THEMSELVES: &[&str] = &["claude-code"];

#[must_use]
pub fn server() -> Value {
    json!({"name": "agent-q", "title": "agent-q", "version": env!("CARGO_PKG_VERSION")})
}

#[must_use]
pub fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {}})
}

/// What the model of HOST is told of the tools as a whole.
#[must_use]
pub fn instructions(emacs: &str) -> Cow<'static, str> {
    if !SEARCH_THEMSELVES.contains(&emacs) {
        return prompts::INSTRUCTIONS.into();
    }
    let lines = prompts::INSTRUCTIONS.split_inclusive('\n');
    lines
        .filter(|line| !line.contains(more::NAME))
        .collect::<String>()
        .into()
}

/// The result of an `initialize` of HOST that is answered in VERSION.
#[must_use]
pub fn introduction(version: &str, emacs: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server(),
        "instructions": instructions(emacs),
    })
}

/// The tools of REGISTRY that HOST is told of under PROFILE.
#[must_use]
pub fn offered(profile: &Profile, registry: &Registry, emacs: &str) -> Registry {
    let mut known = registry.all();
    let elsewhere = registry.elsewhere(None);
    // The servers of a project they start themselves.
    known.retain(|tool| {
        !FOR_CHATS.contains(&tool.name.as_str())
            && !tool.categories.iter().any(|it| elsewhere.contains(it))
    });
    let registry = &Registry::of(known);
    let offered = Registry::of(profile.tools(registry));
    // Any call may turn out to be pending.
    for tool in [AWAIT, CANCEL].iter().filter_map(|name| registry.get(name)) {
        offered.add(tool);
    }
    let searches = *profile == Profile::Image && SEARCH_THEMSELVES.contains(&emacs);
    if searches {
        let all = registry.all();
        for tool in all {
            if looks_into_image(&tool) || tool.name == REPAIR {
                offered.add(tool);
            }
        }
    }
    let groups = groups_beyond(registry, &offered);
    if searches || groups.is_empty() {
        offered.unregister(more::NAME);
        offered.unregister(more::CALL);
    } else if let Some(tool) = offered.get(more::NAME) {
        offered.add(Arc::new(more::choosing(&tool, &groups)));
    }
    offered
}

/// The result of `tools/list` for HOST: the tools that it is offered, and those that only clients have.
#[must_use]
pub fn tools(profile: &Profile, registry: &Registry, emacs: &str) -> Value {
    let offered = offered(profile, registry, emacs);
    let mut tools: Vec<Value> = offered
        .all()
        .iter()
        .map(|tool| described_tool(tool))
        .collect();
    if offered.get(more::CALL).is_none() {
        for tool in &mut tools {
            if let Some(said) = tool["description"].as_str() {
                tool["description"] = more::by_name(said, registry).into();
            }
        }
    }
    tools.push(list_images());
    json!({"tools": tools})
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::mcp::protocol::{Cached, ResponseStyle, discovered, dressed};
    use crate::tool::offer::Offer;

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
    fn programs_pages_and_research_are_for_chats_alone() {
        let registry = registry();
        for profile in [
            Profile::Image,
            Profile::Full,
            Profile::Named(FOR_CHATS.iter().map(|&it| it.to_owned()).collect()),
        ] {
            let told = tools(&profile, &registry, "codex").to_string();
            for name in FOR_CHATS.iter().chain(&["programs", "web"]) {
                assert!(!told.contains(&format!("\"{name}\"")), "{told}");
            }
        }
        let offer = Offer::new(Arc::new(registry));
        offer.withhold(FOR_CHATS);
        offer.begin_turn(&Registry::default(), Unoffered::Callable);
        let resolve = |name| offer.resolve(name, &Registry::default());
        assert!(resolve("read_file").is_ok());
        for name in FOR_CHATS {
            let refused = resolve(name).unwrap_err().message;
            let told = format!("{name} is for agent-q's own chats. Use your own tool.");
            assert_eq!(refused, told);
        }
        for group in ["programs", "web"] {
            assert!(offer.add(group, &Registry::default()).is_empty());
        }
    }

    #[test]
    fn annotations_come_from_the_level() {
        let registry = registry();
        let hints =
            |name: &str| described_tool(&registry.get(name).unwrap())["annotations"].clone();
        assert_eq!(hints("describe_symbol")["readOnlyHint"], json!(true));
        assert_eq!(hints("eval_form")["destructiveHint"], json!(false));
        assert_eq!(hints("call_tool")["readOnlyHint"], json!(false));
        assert_eq!(hints("call_tool")["destructiveHint"], json!(true));
        assert_eq!(hints("load_system")["destructiveHint"], json!(true));
        let schema = &described_tool(&registry.get("eval_form").unwrap())["inputSchema"];
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["properties"][WHICH_IMAGE]["type"], "string");
    }

    #[test]
    fn who_has_no_call_tool_is_offered_what_results_name() {
        let (registry, host) = (registry(), SEARCH_THEMSELVES[0]);
        let offered = offered(&Profile::Image, &registry, host);
        assert!(offered.get(more::CALL).is_none() && offered.get(REPAIR).is_some());
        let told = tools(&Profile::Image, &registry, host).to_string();
        assert!(!told.contains(more::CALL), "{told}");
    }

    /// `AGENT_Q_WRITE_OFFER=1` writes the file again.
    #[test]
    fn the_bridge_says_the_same_without_emacs() {
        let results = [
            (
                "server/discover",
                discovered(&capabilities(), prompts::INSTRUCTIONS),
            ),
            ("tools/list", tools(&Profile::Image, &registry(), "")),
            ("prompts/list", prompts::prompts()),
            ("resources/list", prompts::resources()),
            ("resources/templates/list", json!({"resourceTemplates": []})),
            ("ping", json!({})),
        ];
        let mut offer = json!({"initialize": introduction("", "")});
        for (method, result) in results {
            offer[method] = dressed(result, ResponseStyle::Stateless, Cached::Maybe, server());
        }
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("stdio/offer.json");
        let text = serde_json::to_string_pretty(&offer).unwrap() + "\n";
        if std::env::var_os("AGENT_Q_WRITE_OFFER").is_some() {
            fs::write(&file, &text).unwrap();
        }
        assert!(
            fs::read_to_string(&file).unwrap() == text,
            "stdio/offer.json is out of date: AGENT_Q_WRITE_OFFER=1 cargo test --lib tools"
        );
    }

    #[test]
    fn what_a_client_is_told_takes_few_tokens() {
        let tools = tools(&Profile::Image, &registry(), "");
        let length = tools["tools"].to_string().len() + prompts::INSTRUCTIONS.len();
        assert!(length <= 16_400, "{length} characters");
    }

    #[test]
    fn a_host_that_searches_itself_is_told_of_all_that_look_into_the_image() {
        let tools = tools(&Profile::Image, &registry(), "claude-code");
        let text = tools.to_string() + &instructions("claude-code");
        for name in ["list_debuggers", "get_compilation_notes", "class_hierarchy"] {
            assert!(text.contains(name), "{name}");
        }
        for name in [more::NAME, more::CALL, "\"read_file\""] {
            assert!(!text.contains(name), "{name}");
        }
        let always = tools["tools"].as_array().unwrap().iter();
        let always = always.filter(|tool| tool["_meta"]["anthropic/alwaysLoad"] == true);
        let names: Vec<&Value> = always.map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["describe_symbol", "eval_form", "await_call"]);
    }

    #[test]
    fn the_groups_that_the_instructions_name_can_be_chosen() {
        let tools = tools(&Profile::Image, &registry(), "");
        let tools = tools["tools"].as_array().unwrap();
        let more = tools.iter().find(|tool| tool["name"] == more::NAME);
        let known = &more.unwrap()["inputSchema"]["properties"]["group"]["enum"];
        let named = prompts::INSTRUCTIONS.split("further groups (").nth(1);
        let named = named.unwrap().split(')').next().unwrap();
        for group in named.split(", ") {
            assert!(
                known.as_array().unwrap().contains(&json!(group)),
                "{group} of {known}"
            );
        }
    }
}
