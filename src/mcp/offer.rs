// SPDX-License-Identifier: GPL-3.0-or-later
//! What a client is told of at its start. The bridge has what is the same for everybody in a file, for
//! hosts that start before Emacs.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::own_tools;
use super::profile::{Profile, listed, looks_into_image};
use super::words;
use crate::builtin::more;
use crate::tool::offer::groups_beyond;
use crate::tool::registry::Registry;

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
pub fn instructions(host: &str) -> Cow<'static, str> {
    if !SEARCH_THEMSELVES.contains(&host) {
        return words::INSTRUCTIONS.into();
    }
    let lines = words::INSTRUCTIONS.split_inclusive('\n');
    lines
        .filter(|line| !line.contains(more::NAME))
        .collect::<String>()
        .into()
}

/// The result of an `initialize` of HOST that is answered in VERSION.
#[must_use]
pub fn introduction(version: &str, host: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server(),
        "instructions": instructions(host),
    })
}

/// The tools of REGISTRY that HOST is told of under PROFILE.
#[must_use]
pub fn offered(profile: &Profile, registry: &Registry, host: &str) -> Registry {
    let offered = Registry::of(profile.tools(registry));
    let searches = *profile == Profile::Image && SEARCH_THEMSELVES.contains(&host);
    if searches {
        let all = registry.all();
        for tool in all.into_iter().filter(|tool| looks_into_image(tool)) {
            offered.add(tool);
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
pub fn tools(profile: &Profile, registry: &Registry, host: &str) -> Value {
    let offered = offered(profile, registry, host);
    let mut tools: Vec<Value> = offered.all().iter().map(|tool| listed(tool)).collect();
    if offered.get(more::CALL).is_none() {
        for tool in &mut tools {
            if let Some(said) = tool["description"].as_str() {
                tool["description"] = more::by_name(said, registry).into();
            }
        }
    }
    tools.extend(own_tools::listed());
    json!({"tools": tools})
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::mcp::version::{AnswerStyle, Cached, discovered, dressed};

    fn registry() -> Registry {
        let registry = Registry::default();
        crate::builtin::register(&registry);
        registry
    }

    /// `AGENT_Q_WRITE_OFFER=1` writes the file again.
    #[test]
    fn the_bridge_says_the_same_without_emacs() {
        let results = [
            (
                "server/discover",
                discovered(&capabilities(), words::INSTRUCTIONS),
            ),
            ("tools/list", tools(&Profile::Image, &registry(), "")),
            ("prompts/list", words::prompts()),
            ("resources/list", words::resources()),
            ("resources/templates/list", json!({"resourceTemplates": []})),
            ("ping", json!({})),
        ];
        let mut offer = json!({"initialize": introduction("", "")});
        for (method, result) in results {
            offer[method] = dressed(result, AnswerStyle::Stateless, Cached::Maybe, server());
        }
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("stdio/offer.json");
        let text = serde_json::to_string_pretty(&offer).unwrap() + "\n";
        if std::env::var_os("AGENT_Q_WRITE_OFFER").is_some() {
            fs::write(&file, &text).unwrap();
        }
        assert!(
            fs::read_to_string(&file).unwrap() == text,
            "stdio/offer.json is out of date: AGENT_Q_WRITE_OFFER=1 cargo test --lib offer"
        );
    }

    #[test]
    fn what_a_client_is_told_takes_few_tokens() {
        let tools = tools(&Profile::Image, &registry(), "");
        let length = tools["tools"].to_string().len() + words::INSTRUCTIONS.len();
        assert!(length <= 14_900, "{length} characters");
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
        let named = words::INSTRUCTIONS.split("further groups (").nth(1);
        let named = named.unwrap().split(')').next().unwrap();
        for group in named.split(", ") {
            assert!(
                known.as_array().unwrap().contains(&json!(group)),
                "{group} of {known}"
            );
        }
    }
}
