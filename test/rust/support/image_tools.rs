// SPDX-License-Identifier: GPL-3.0-or-later
//! Built-in tools of the Lisp image for tests: found by name, and what a call of them sends.

use agent_q_core::builtin;
use agent_q_core::image::print_arguments;
use agent_q_core::tool::registry::Registry;
use agent_q_core::tool::{Arguments, ImageTool, Runner, Tool};
use serde_json::Value;

pub fn tool(name: &str) -> Tool {
    let registry = Registry::default();
    builtin::register(&registry);
    let tool = registry.get(name);
    Tool::clone(&tool.unwrap_or_else(|| panic!("no tool {name}")))
}

pub fn image(tool: &Tool) -> ImageTool {
    match &tool.runner {
        Runner::Image(image) => *image,
        other => panic!("{other:?}"),
    }
}

pub fn arguments(tool: &Tool, given: Value) -> Arguments {
    Arguments::new(tool.compiled_schema().unwrap().check(given).unwrap())
}

/// What the image gets of a call of the tool NAME with the arguments GIVEN.
pub fn sent(name: &str, given: Value) -> String {
    let tool = tool(name);
    print_arguments(&(image(&tool).arguments)(&arguments(&tool, given)))
}
