// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools by which a model finds and calls further tools. Requests list few, because each costs tokens
//! in every request and makes choosing harder; and the list stays the same, because a change of it costs
//! the provider's cache of the whole conversation. So further ones are described in a result, and
//! called through one that is always there.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::research;
use crate::protocol::{CallArguments, ToolCall};
use crate::tool::offer::{Groups, Offer};
use crate::tool::registry::Registry;
use crate::tool::work::WorkContext;
use crate::tool::{
    Arguments, Origin, Parameter, ParameterType, Returns, Runner, Tool, ToolFailure,
};
use crate::trust::{Provenance, SafetyLevel, Source, draw, fence};

/// The tool that describes others.
pub const NAME: &str = "more_tools";
/// The tool through which those are called.
pub const CALL: &str = "call_tool";

const HOSTS_PREFIXES: &[&str] = &["mcp__agent-q__", "agent-q_"];
const OUTER: &[&str] = &["name", "arguments"];

const HOW_TO_CALL: &str = "Pass a tool that more_tools described and its arguments, e.g. {\"name\": \"disassemble_function\", \"arguments\": {\"function\": \"mapcar\"}}.";

/// What is in the groups of built-in tools; a tool that is named there is left out where it is not in the
/// group. Others are explained by the names of their tools.
const IN_WORDS: &[(&str, &str)] = &[
    ("navigation", "directories, trees, research"),
    ("editing", "insert lines; create, move, delete files"),
    (
        "execution",
        "trace, profile, timing, undo_definition, REPL history",
    ),
    ("debugger", "frames, restarts"),
    (
        "introspection",
        "classes, packages, systems, disassembly, image, drift from the files",
    ),
    ("history", "put a form at the REPL"),
    ("buffer", "list, outline, search"),
    ("diff", "propose a diff"),
    ("programs", "git, make"),
];

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![more_tools(&Groups::new()), call_tool(), read_result()]
}

/// TOOL, which is `more_tools`, with GROUPS as the ones to choose from.
#[must_use]
pub fn choosing(tool: &Tool, groups: &Groups) -> Tool {
    Tool {
        level: tool.level,
        ..more_tools(groups)
    }
}

/// Those of GROUPS that a model has to know, each with what is in it. One without words of its own is left
/// out if others have all its tools.
fn explained(groups: &Groups) -> Vec<(&str, String)> {
    let words = |name: &str| IN_WORDS.iter().find(|(known, _)| *known == name);
    let mut explained = Vec::new();
    let mut told: BTreeSet<&str> = BTreeSet::new();
    let names = || groups.keys().map(String::as_str);
    for name in names() {
        if let Some((_, words)) = words(name) {
            let is_tool = |word: &str| word.contains('_') || word == research::NAME;
            let is_here = |word: &&str| !is_tool(word) || groups[name].contains(*word);
            let words: Vec<&str> = words.split(", ").filter(is_here).collect();
            explained.push((name, words.join(", ")));
            told.extend(groups[name].iter().map(String::as_str));
        }
    }
    for name in names().filter(|name| words(name).is_none()) {
        if groups[name].is_empty() {
            explained.push((name, "a server's tools".to_owned()));
            continue;
        }
        let tools = groups[name].iter().map(String::as_str);
        let tools: Vec<&str> = tools.filter(|tool| told.insert(tool)).collect();
        if !tools.is_empty() {
            explained.push((name, tools.join(", ")));
        }
    }
    explained
}

fn more_tools(groups: &Groups) -> Tool {
    let mut group = Parameter::required("group", ParameterType::String, "");
    let groups = explained(groups);
    let mut description = "Describe a group of further tools, for call_tool.".to_owned();
    if !groups.is_empty() {
        let names: Vec<&str> = groups.iter().map(|(name, _)| *name).collect();
        group = group.one_of(&names);
        let words = groups
            .iter()
            .map(|(name, words)| format!("{name} ({words})"));
        let words: Vec<String> = words.collect();
        description = format!("{description} Groups: {}.", words.join(", "));
    }
    let mut tool = Tool::new(
        NAME,
        &description,
        SafetyLevel::Safe,
        &["tools"],
        vec![group],
        Runner::Task(|arguments, context| {
            Box::pin(async move { describe(&arguments, &context).await })
        }),
    );
    tool.returns = Returns::Words;
    tool
}

fn call_tool() -> Tool {
    let mut tool = Tool::new(
        CALL,
        "Call a tool that more_tools described.",
        SafetyLevel::Safe,
        &["tools"],
        vec![
            Parameter::required("name", ParameterType::String, ""),
            Parameter::required("arguments", ParameterType::Object, ""),
        ],
        Runner::Task(|_, _| Box::pin(async { Err(ToolFailure::new(HOW_TO_CALL)) })),
    );
    tool.returns = Returns::Words;
    tool
}

/// How a model that is offered what OFFER says calls the tool NAME: "call_tool xref", or "xref" where it is listed
/// or nothing stands between.
#[must_use]
pub fn calling(name: &str, offer: &Offer) -> String {
    match offer.lists(name) || offer.goes_without(CALL) {
        true => name.to_owned(),
        false => format!("{CALL} {name}"),
    }
}

/// TEXT, which names tools of ALL to be called by `call_tool`, for a model that calls them by their names:
/// "call_tool system_info lists them" is "system_info lists them". Other words after it are a program's.
#[must_use]
pub fn by_name(text: &str, all: &Registry) -> String {
    let mut parts = text.split(CALL);
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let named = part.strip_prefix(": ").or_else(|| part.strip_prefix(' '));
        let tool = named.filter(|it| {
            let end = it.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            all.get(&it[..end.unwrap_or(it.len())]).is_some()
        });
        match tool {
            Some(rest) => {
                if part.starts_with(':') && said.ends_with("by ") {
                    said.truncate(said.len() - "by ".len());
                    said.push_str("with ");
                }
                said.push_str(rest);
            }
            None => {
                said.push_str(CALL);
                said.push_str(part);
            }
        }
    }
    said
}

/// The call that CALL stands for: the one of the tool that it names, when it is a `call_tool` that can be
/// understood, else CALL itself. Consent, rules and the log see the tool that really runs.
#[must_use]
pub fn called_through(call: &ToolCall) -> ToolCall {
    inner_call(call).unwrap_or_else(|| call.clone())
}

fn inner_call(call: &ToolCall) -> Option<ToolCall> {
    let CallArguments::Object(outer) = &call.arguments else {
        return None;
    };
    let name = outer.get("name")?.as_str()?.trim();
    // As hosts name the tools of a server called agent-q.
    let name = HOSTS_PREFIXES
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    if call.name != CALL || name == CALL {
        return None;
    }
    let arguments = match outer.get("arguments") {
        Some(Value::Object(arguments)) => arguments.clone(),
        // Some models write the object as text.
        Some(Value::String(text)) => serde_json::from_str(text).ok()?,
        // Some write them beside the name.
        None | Some(Value::Null) => {
            let beside = outer
                .iter()
                .filter(|(key, _)| !OUTER.contains(&key.as_str()));
            beside
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        }
        Some(_) => return None,
    };
    Some(ToolCall {
        id: call.id.clone(),
        name: name.to_owned(),
        raw_arguments: Value::Object(arguments.clone()).to_string(),
        arguments: CallArguments::Object(arguments),
    })
}

async fn describe(arguments: &Arguments, context: &WorkContext) -> Result<String, ToolFailure> {
    let group = arguments.text("group").unwrap_or_default().trim();
    let group = group.trim_start_matches(':').to_lowercase();
    context
        .telling(context.offer.bring(&group), || format!("starting {group}"))
        .await?;
    let tools = context.offer.add(&group, &context.tools);
    if !tools.is_empty() {
        let described: Vec<String> = tools.iter().map(|tool| described(tool)).collect();
        let described = in_fence(&tools, described.join("\n"));
        // The user sees the first line only.
        let count = match tools.len() {
            1 => "1 tool".to_owned(),
            count => format!("{count} tools"),
        };
        let how = match context.offer.lists(CALL) {
            true => "through call_tool",
            false => "by name",
        };
        return Ok(format!("{count}, to be called {how}\n{described}"));
    }
    let others: Vec<String> = context
        .offer
        .unlisted_groups()
        .into_iter()
        .map(|(name, tools)| match tools.len() {
            0 => name,
            count => format!("{name} ({count})"),
        })
        .collect();
    if others.is_empty() {
        return Ok("All tools are offered already.".to_owned());
    }
    Err(ToolFailure::new(format!(
        "There are no further tools in a group {group}. Groups that have some: {}.",
        others.join(", ")
    )))
}

/// DESCRIBED, what is said of TOOLS, marked as data where a server says it.
fn in_fence(tools: &[Arc<Tool>], described: String) -> String {
    let server = tools.iter().find_map(|tool| match &tool.origin {
        Origin::Server(name) => Some(name),
        _ => None,
    });
    match server {
        Some(name) => {
            let source = Source {
                what: format!("the server {name}"),
                provenance: Provenance::Foreign,
            };
            fence(&described, &source, draw())
        }
        None => described,
    }
}

/// TOOL as a model has to know it: level, description, and the JSON Schema of its arguments.
fn described(tool: &Tool) -> String {
    let schema = tool.schema();
    format!(
        "- {} ({}): {}\n  arguments: {}",
        tool.name, tool.level, tool.description, schema["function"]["parameters"]
    )
}

// The tool by which a model reads an old result of which it has only the beginning, or what was left out of one.

pub const READ_RESULT: &str = "read_result";

fn read_result() -> Tool {
    let mut tool = Tool::new(
        READ_RESULT,
        "Show all of an old result that was shortened.",
        SafetyLevel::Safe,
        &["tools"],
        vec![Parameter::required("number", ParameterType::Integer, "")],
        Runner::Task(|arguments, context| {
            Box::pin(async move { older_result(&arguments, &context) })
        }),
    );
    // It was fenced when it was told first.
    tool.returns = Returns::Words;
    tool
}

fn older_result(arguments: &Arguments, context: &WorkContext) -> Result<String, ToolFailure> {
    let number = arguments
        .integer("number")
        .and_then(|it| u64::try_from(it).ok());
    number
        .and_then(|number| context.past.text(number))
        .ok_or_else(|| {
            let numbers: Vec<String> = context
                .past
                .numbers()
                .iter()
                .map(ToString::to_string)
                .collect();
            ToolFailure::new(match numbers.is_empty() {
                true => "No result of this chat was shortened; make the call again.".to_owned(),
                false => format!(
                    "No result with this number was shortened; there are {}.",
                    numbers.join(", ")
                ),
            })
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::offer::{Unoffered, groups_beyond};

    fn call(arguments: Value) -> ToolCall {
        let Value::Object(arguments) = arguments else {
            panic!("no object")
        };
        ToolCall {
            id: "c1".into(),
            name: CALL.into(),
            raw_arguments: String::new(),
            arguments: CallArguments::Object(arguments),
        }
    }

    #[test]
    fn a_call_through_another_is_the_one_that_it_names() {
        for (arguments, inner) in [
            (
                json!({"name": "xref", "arguments": {"a": 1}}),
                json!({"a": 1}),
            ),
            (
                json!({"name": " xref ", "arguments": "{\"a\": 1}"}),
                json!({"a": 1}),
            ),
            (json!({"name": "xref"}), json!({})),
            (json!({"name": "xref", "a": 1}), json!({"a": 1})),
            (
                json!({"name": "mcp__agent-q__xref", "arguments": {"a": 1}}),
                json!({"a": 1}),
            ),
        ] {
            let through = called_through(&call(arguments));
            assert_eq!((through.id.as_str(), through.name.as_str()), ("c1", "xref"));
            assert_eq!(through.raw_arguments, inner.to_string());
            assert_eq!(
                CallArguments::Object(inner.as_object().unwrap().clone()),
                through.arguments
            );
        }
        for arguments in [
            json!({}),
            json!({"name": 5}),
            json!({"name": CALL, "arguments": {"name": "xref"}}),
            json!({"name": "xref", "arguments": [1]}),
            json!({"name": "xref", "arguments": "(a 1)"}),
        ] {
            let call = call(arguments);
            assert_eq!(called_through(&call), call);
        }
        let other = ToolCall {
            name: "xref".into(),
            ..call(json!({"name": "erase", "arguments": {}}))
        };
        assert_eq!(called_through(&other), other);
    }

    #[test]
    fn tools_are_called_by_their_names_where_nothing_stands_between() {
        let registry = Registry::default();
        crate::builtin::register(&registry);
        for (text, by) in [
            (
                "call_tool system_info lists them.",
                "system_info lists them.",
            ),
            (
                "Go on by call_tool: eval_in_frame, restart_frame.",
                "Go on with eval_in_frame, restart_frame.",
            ),
            ("use call_tool: invoke_restart", "use invoke_restart"),
            (
                "1 with call_tool xref and 2 by call_tool grep_project",
                "1 with xref and 2 by grep_project",
            ),
            // A program's own words.
            (
                "(defun call_tool (name) name)",
                "(defun call_tool (name) name)",
            ),
            (
                "call_tool name, call_tools xref; call_tool",
                "call_tool name, call_tools xref; call_tool",
            ),
        ] {
            assert_eq!(by_name(text, &registry), by);
        }
    }

    #[test]
    fn a_tool_is_named_as_it_can_be_called() {
        let registry = Registry::default();
        crate::builtin::register(&registry);
        let listed =
            |names: &[&str]| Registry::of(names.iter().map(|it| registry.get(it).unwrap()));
        let offer = Offer::default();
        for (names, xref, repair) in [
            (vec!["xref", CALL], "xref", "call_tool repair_parens"),
            (vec!["xref"], "xref", "repair_parens"),
        ] {
            offer.begin_turn(&listed(&names), Unoffered::Callable);
            assert_eq!(calling("xref", &offer), xref);
            assert_eq!(calling("repair_parens", &offer), repair);
        }
    }

    #[test]
    fn each_group_that_can_be_chosen_is_explained() {
        let registry = Registry::default();
        crate::builtin::register(&registry);
        let mut own = Tool::clone(&registry.get("read_file").unwrap());
        own.name = "brew".to_owned();
        own.categories = vec!["tea".to_owned()];
        registry.register(own);
        let known =
            ["undo_definition", "xref", "read_file"].map(|name| registry.get(name).unwrap());
        let groups = groups_beyond(&registry, &Registry::of(known));
        let tool = choosing(&registry.get(NAME).unwrap(), &groups);
        let chosen = &tool.argument_schema()["properties"]["group"]["enum"];
        let chosen: Vec<&str> = chosen
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap())
            .collect();
        for name in &chosen {
            assert!(tool.description.contains(&format!("{name} (")), "{name}");
        }
        assert!(tool.description.contains("tea (brew)"));
        assert!(!tool.description.contains("undo_definition"));
        // Each tool is in one of them.
        for tool in groups.values().flatten() {
            assert!(
                chosen.iter().any(|name| groups[*name].contains(tool)),
                "{tool}"
            );
        }
        assert!(chosen.contains(&"diff") && chosen.contains(&"navigation"));
        assert!(!chosen.contains(&"destructive"), "{chosen:?}");
    }
}
