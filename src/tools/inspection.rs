// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that look at objects, machine code and the image as a whole.

use crate::image::{Plist, Reply, property_list};
use crate::tool::{Arguments, ImageTool, Parameter, ParameterType, Tool, ToolFailure};

use super::common::{
    SYMBOL_SYNTAX, integer, labelled, look_up, looking, package_parameter, page_parameters, rest,
    text,
};
use super::outcome;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![inspect_value(), disassemble_function(), image_status()]
}

fn inspect_value() -> Tool {
    let mut parameters = vec![
        Parameter::required(
            "handle",
            ParameterType::String,
            "Handle that stood in brackets after a value, such as v7",
        ),
        Parameter::optional(
            "depth",
            ParameterType::Integer,
            "How deep to go into parts, at most 4; 1 when left out",
        ),
    ];
    parameters.extend(page_parameters(20, 100));
    looking(
        "inspect_value",
        "Look into an object that eval_form returned: its slots, elements or entries. Parts with more inside have handles too.",
        &["introspection"],
        parameters,
        ImageTool {
            operation: "inspect-value",
            arguments: |arguments| {
                property_list([
                    ("handle", text(arguments, "handle")),
                    ("depth", integer(arguments, "depth")),
                    ("limit", integer(arguments, "limit")),
                    ("offset", integer(arguments, "offset")),
                ])
            },
            render: render_object,
            deadline: look_up,
        },
    )
}

fn render_object(_: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let mut lines = vec![format!(
        "{}: {}",
        data.text("handle").unwrap_or_default(),
        data.text("text").unwrap_or_default()
    )];
    lines.extend(data.texts("facts").into_iter().map(str::to_owned));
    let parts: Vec<Plist<'_>> = data.plists("parts").collect();
    for part in &parts {
        push_part(*part, 0, &mut lines);
    }
    lines.extend(rest(data, parts.len()));
    Ok(lines.join("\n"))
}

fn push_part(part: Plist<'_>, depth: usize, lines: &mut Vec<String>) {
    let value = match part.text("remark") {
        Some(remark) => format!("({remark})"),
        None => format!(
            "{}{}",
            part.text("text").unwrap_or_default(),
            outcome::handle(part.get("handle"))
        ),
    };
    lines.push(format!(
        "{}{}: {value}",
        "  ".repeat(depth),
        part.text("label").unwrap_or_default()
    ));
    for inner in part.plists("parts") {
        push_part(inner, depth + 1, lines);
    }
}

fn disassemble_function() -> Tool {
    let mut parameters = vec![
        Parameter::required("function", ParameterType::String, SYMBOL_SYNTAX),
        package_parameter(),
    ];
    parameters.extend(page_parameters(120, 400));
    looking(
        "disassemble_function",
        "Return the machine code, or byte code, of a function in the user's running image.",
        &["introspection"],
        parameters,
        ImageTool {
            operation: "disassemble-function",
            arguments: |arguments| {
                property_list([
                    ("function", text(arguments, "function")),
                    ("package", text(arguments, "package")),
                    ("limit", integer(arguments, "limit")),
                    ("offset", integer(arguments, "offset")),
                ])
            },
            render: render_code,
            deadline: look_up,
        },
    )
}

fn render_code(_: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let code = data.texts("lines");
    let mut lines = vec![format!(
        "{} ({}), {} lines:",
        data.text("name").unwrap_or_default(),
        data.text("kind").unwrap_or("function"),
        data.integer("total").unwrap_or_default()
    )];
    lines.extend(
        code.iter()
            .map(|line| line.trim_start_matches("; ").to_owned()),
    );
    lines.extend(rest(data, code.len()));
    Ok(lines.join("\n"))
}

fn image_status() -> Tool {
    looking(
        "image_status",
        "Tell what the user's running image is and what goes on in it: implementation, memory, threads, loaded systems, packages, features, and agent-q's own calls.",
        &["introspection"],
        vec![],
        ImageTool {
            operation: "image-status",
            arguments: |_| property_list([]),
            render: render_status,
            deadline: look_up,
        },
    )
}

fn render_status(_: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let mut lines = vec![format!(
        "{} on {}, through {}",
        data.text("implementation").unwrap_or_default(),
        data.text("machine").unwrap_or_default(),
        data.text("client").unwrap_or_default()
    )];
    let mut line = |label: &str, value: Option<&str>| {
        lines.extend(value.map(|value| format!("{label}: {value}")));
    };
    line("directory", data.text("directory"));
    line("memory", data.text("memory"));
    let packages = format!(
        "{} packages, of programs",
        data.integer("packages").unwrap_or_default()
    );
    let running = data.texts("running");
    lines.extend(labelled("systems", &data.texts("systems")));
    lines.extend(labelled(&packages, &data.texts("program-packages")));
    lines.extend(labelled("threads", &data.texts("threads")));
    lines.extend(labelled("features", &data.texts("features")));
    lines.push(if running.is_empty() {
        "no other call of agent-q runs".to_owned()
    } else {
        format!("calls of agent-q that run: {}", running.join(", "))
    });
    Ok(lines.join("\n"))
}
