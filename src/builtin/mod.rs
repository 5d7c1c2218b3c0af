// SPDX-License-Identifier: GPL-3.0-or-later
//! The built-in tools, a file per family: those of the Lisp image, those of files and buffers, the one that
//! runs programs, the one that fetches pages, the one that has a question looked into, those about calls
//! under way, and the one that offers more.

pub mod calls;
pub mod files;
pub mod image;
pub mod more;
pub mod programs;
pub mod research;
pub mod web;

use crate::tool::Tool;
use crate::tool::registry::Registry;

/// The tools that other agents aren't offered: they have their own, which their users have set up.
pub const FOR_CHATS: &[&str] = &[programs::NAME, web::NAME, research::NAME];

/// Registers all built-in tools, in the order in which models are told of them.
pub fn register(registry: &Registry) {
    let families = [
        image::introspection::tools(),
        image::xref::tools(),
        image::clos::tools(),
        image::introspection::package_tools(),
        image::inspection::tools(),
        image::execution::tools(),
        image::measuring::tools(),
        image::compiling::tools(),
        image::building::tools(),
        image::verify::tools(),
        calls::tools(),
        image::systems::tools(),
        image::drift::tools(),
        image::history::undo_tools(),
        image::debugger::tools(),
        image::history::tools(),
        files::buffer::tools(),
        files::reading::tools(),
        files::edits::tools(),
        files::parens::tools(),
        files::definitions::tools(),
        files::moves::tools(),
        programs::tools(),
        web::tools(),
        research::tools(),
        more::tools(),
    ];
    for tool in families.into_iter().flatten() {
        registry.register(tool);
    }
}

/// Registers built-in tools again: the one called NAME, in place of what took its name, or without
/// a name those that are missing.
pub fn restore(registry: &Registry, name: Option<&str>) {
    let all = Registry::default();
    register(&all);
    for tool in all.all() {
        let wanted = match name {
            Some(name) => tool.name == name,
            None => registry.get(&tool.name).is_none(),
        };
        if wanted {
            registry.register(Tool::clone(&tool));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_tools_are_filed_under_its_categories() {
        let registry = Registry::default();
        register(&registry);
        let contract: &[(&str, &[&str])] = &[
            (
                "introspection",
                &[
                    "describe_symbol",
                    "apropos_search",
                    "function_arglist",
                    "who_calls",
                    "who_references",
                    "list_package_symbols",
                    "class_slots",
                    "class_hierarchy",
                    "method_specializers",
                    "macroexpand_form",
                ],
            ),
            (
                "execution",
                &[
                    "eval_form",
                    "eval_in_package",
                    "compile_form",
                    "get_last_error",
                    "get_repl_history",
                    "get_compilation_notes",
                ],
            ),
            (
                "buffer",
                &[
                    "read_file",
                    "write_file",
                    "read_buffer",
                    "write_to_buffer",
                    "search_in_buffer",
                ],
            ),
            ("filesystem", &["read_file", "write_file"]),
            ("diff", &["propose_file_edit"]),
            ("xref", &["who_calls", "who_references"]),
            ("clos", &["class_slots", "class_hierarchy"]),
            ("packages", &["list_package_symbols"]),
        ];
        for (category, names) in contract {
            for name in *names {
                let tool = registry.get(name).unwrap();
                assert!(
                    tool.categories.iter().any(|it| it == category),
                    "{name} is not under {category}"
                );
            }
        }
    }

    #[test]
    fn what_was_removed_can_be_restored() {
        let registry = Registry::default();
        register(&registry);
        let all = registry.len();
        registry.unregister("eval_form");
        registry.unregister("read_buffer");
        restore(&registry, Some("eval_form"));
        assert!(registry.get("eval_form").is_some());
        assert_eq!(registry.len(), all - 1);
        restore(&registry, None);
        assert_eq!(registry.len(), all);
    }
}
