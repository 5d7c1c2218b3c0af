// SPDX-License-Identifier: GPL-3.0-or-later
//! Which tools a chat offers to its model: the usual ones, or those that the user selected by name,
//! category and level. What the model adds to them is in `tool/offer.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::tool::offer::Unoffered;
use crate::tool::registry::Registry;
use crate::tool::{Origin, Tool};
use crate::trust::SafetyLevel;

/// The built-in tools that every chat offers. They are enough to build, load and test a system in an
/// empty directory; more would cost tokens in each request and make choosing harder.
pub const USUAL: &[&str] = &[
    "describe_symbol",
    "apropos_search",
    "find_definition",
    "who_calls",
    "xref",
    "list_package_symbols",
    "macroexpand_form",
    "eval_form",
    "compile_form",
    "compile_file",
    "load_system",
    "run_tests",
    VERIFYING,
    "inspect_value",
    "get_last_error",
    "debugger_frames",
    "form_at_point",
    "read_buffer",
    "read_file",
    "search_files",
    "grep_project",
    "edit_definition",
    "insert_definition",
    "edit_file",
    "write_file",
    "more_tools",
    "call_tool",
    "read_result",
];

/// What stands for the usual tools among categories, so that others can be chosen beside them.
const CATEGORY_OF_USUAL: &str = "usual";

/// The one that a chat whose user wants no changes verified does without.
const VERIFYING: &str = "verify_system";

fn is_usual(tool: &Tool) -> bool {
    match tool.origin {
        Origin::BuiltIn => USUAL.contains(&tool.name.as_str()),
        Origin::Server(_) => false,
        Origin::EmacsLisp | Origin::Image(_) | Origin::Library(_) => true,
    }
}

/// The user's selection, as Emacs writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSelection {
    /// The usual built-in tools, and all that the user or a program defined.
    Usual,
    /// The same for a user who doesn't want changes verified.
    UsualUnverified,
    #[default]
    All,
    None,
    Chosen(ChosenTools),
}

/// Tools that have one of the names or categories, and that are not above the level. Without names and
/// categories any tool up to the level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChosenTools {
    names: Vec<String>,
    categories: Vec<String>,
    #[serde(deserialize_with = "level")]
    max_level: Option<SafetyLevel>,
}

/// Why tools can't be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error("No tool has the category :{unknown}; there are {known}")]
    Category { unknown: String, known: String },
}

impl ToolSelection {
    /// The categories that are selected by name.
    #[must_use]
    pub fn groups(&self) -> &[String] {
        match self {
            Self::Chosen(chosen) => &chosen.categories,
            Self::Usual | Self::UsualUnverified | Self::All | Self::None => &[],
        }
    }

    /// The tools of REGISTRY that are selected, in its order.
    #[must_use]
    pub fn tools(&self, registry: &Registry) -> Vec<Arc<Tool>> {
        let mut tools = registry.all();
        tools.retain(|tool| match self {
            Self::Usual => is_usual(tool),
            Self::UsualUnverified => is_usual(tool) && tool.name != VERIFYING,
            Self::All => true,
            Self::None => false,
            Self::Chosen(chosen) => chosen.includes(tool),
        });
        tools
    }

    /// Whether every category that is selected is that of a tool in REGISTRY. A name may be that of a
    /// tool to come, of a program that isn't connected yet.
    ///
    /// # Errors
    ///
    /// When no tool has a category.
    pub fn check(&self, registry: &Registry) -> Result<(), SelectionError> {
        let Self::Chosen(chosen) = self else {
            return Ok(());
        };
        if chosen.categories.is_empty() {
            return Ok(());
        }
        let (tools, promised) = (registry.all(), registry.promised());
        let known: BTreeSet<&str> = tools
            .iter()
            .flat_map(|tool| &tool.categories)
            .chain(&promised)
            .map(String::as_str)
            .chain([CATEGORY_OF_USUAL])
            .collect();
        match chosen
            .categories
            .iter()
            .find(|it| !known.contains(it.as_str()))
        {
            None => Ok(()),
            Some(unknown) => Err(SelectionError::Category {
                unknown: unknown.clone(),
                known: known
                    .iter()
                    .map(|name| format!(":{name}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }

    /// What becomes of calls of tools in REGISTRY that are not selected: who leaves out usual tools means
    /// it, while the usual ones only save tokens.
    #[must_use]
    pub fn unoffered(&self, registry: &Registry) -> Unoffered {
        let leaves_out = match self {
            Self::Usual | Self::UsualUnverified | Self::All => false,
            Self::None => true,
            Self::Chosen(chosen) => USUAL
                .iter()
                .filter_map(|name| registry.get(name))
                .any(|tool| !chosen.includes(&tool)),
        };
        match leaves_out {
            true => Unoffered::LeftOutByUser,
            false => Unoffered::Callable,
        }
    }
}

impl ChosenTools {
    fn includes(&self, tool: &Tool) -> bool {
        let any = self.names.is_empty() && self.categories.is_empty();
        let named = self.names.contains(&tool.name);
        let chosen = |category: &str| self.categories.iter().any(|it| it == category);
        let filed = || {
            tool.categories.iter().any(|it| chosen(it))
                || (chosen(CATEGORY_OF_USUAL) && is_usual(tool))
        };
        self.max_level.is_none_or(|max| tool.level <= max) && (any || named || filed())
    }
}

fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SafetyLevel>, D::Error> {
    Option::<String>::deserialize(deserializer)?
        .map(|name| SafetyLevel::parse(&name).map_err(serde::de::Error::custom))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::Runner;
    use serde_json::{Value, json};

    fn registry() -> Registry {
        let registry = Registry::default();
        for (name, level, category, origin) in [
            ("look", SafetyLevel::Safe, "a", Origin::EmacsLisp),
            ("try", SafetyLevel::Cautious, "b", Origin::EmacsLisp),
            ("erase", SafetyLevel::Dangerous, "a", Origin::EmacsLisp),
            ("xref", SafetyLevel::Safe, "c", Origin::BuiltIn),
            ("trace_function", SafetyLevel::Safe, "c", Origin::BuiltIn),
        ] {
            let runner = Runner::Worker(Arc::new(|_| Ok(String::new())));
            let mut tool = Tool::new(name, name, level, &[category], vec![], runner);
            tool.origin = origin;
            registry.register(tool);
        }
        registry
    }

    fn selection(json: Value) -> ToolSelection {
        serde_json::from_value(json).unwrap()
    }

    fn selected(json: Value) -> Vec<String> {
        let tools = selection(json).tools(&registry());
        tools.iter().map(|tool| tool.name.clone()).collect()
    }

    #[test]
    fn tools_are_selected_by_name_category_and_level() {
        let chosen = |json: Value| selected(json!({ "chosen": json }));
        assert_eq!(chosen(json!({"names": ["try", "to_come"]})), ["try"]);
        assert_eq!(chosen(json!({"categories": ["a"]})), ["look", "erase"]);
        assert_eq!(
            chosen(json!({"names": ["try"], "categories": ["a"]})),
            ["look", "try", "erase"]
        );
        assert_eq!(
            chosen(json!({"categories": ["a"], "max_level": "safe"})),
            ["look"]
        );
        assert_eq!(
            chosen(json!({"max_level": "cautious"})),
            ["look", "try", "xref", "trace_function"]
        );
        assert!(
            serde_json::from_value::<ToolSelection>(json!({"chosen": {"max_level": "x"}})).is_err()
        );
    }

    #[test]
    fn the_usual_tools_are_some_built_in_ones_and_all_others() {
        assert_eq!(selected(json!("usual")), ["look", "try", "erase", "xref"]);
        assert_eq!(selected(json!("all")).len(), 5);
        assert_eq!(selected(json!("none")).len(), 0);
    }

    #[test]
    fn a_category_that_no_tool_has_is_an_error() {
        let check = |categories| {
            selection(json!({"chosen": {"categories": categories}})).check(&registry())
        };
        assert_eq!(check(json!(["a", "c"])), Ok(()));
        assert_eq!(
            check(json!(["a", "z"])).unwrap_err().to_string(),
            "No tool has the category :z; there are :a, :b, :c, :usual"
        );
    }

    #[test]
    fn only_a_choice_of_the_users_leaves_out_anything_on_purpose() {
        for (json, unoffered) in [
            (json!("usual"), Unoffered::Callable),
            (json!("all"), Unoffered::Callable),
            (json!("none"), Unoffered::LeftOutByUser),
            (json!({"chosen": {"names": ["xref"]}}), Unoffered::Callable),
            (
                json!({"chosen": {"categories": ["usual", "b"]}}),
                Unoffered::Callable,
            ),
            (
                json!({"chosen": {"names": ["look"]}}),
                Unoffered::LeftOutByUser,
            ),
        ] {
            assert_eq!(
                selection(json.clone()).unoffered(&registry()),
                unoffered,
                "{json}"
            );
        }
    }
}
