// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that look at objects, machine code and the image as a whole.

use crate::image::{ImageReply, Plist, property_list};
use crate::tool::{Arguments, ImageTool, Parameter, ParameterType, Tool, ToolFailure};

use super::common::{
    SYMBOL_SYNTAX, counted, image_parameter, integer, labelled, looking, package_parameter,
    page_parameters, rest, text,
};
use super::outcome;
use super::systems::finding_root;
use super::timeouts::look_up;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![inspect_value(), disassemble_function(), image_status()]
}

fn inspect_value() -> Tool {
    let mut parameters = vec![
        Parameter::required("handle", ParameterType::String, "E.g. v7"),
        Parameter::optional("depth", ParameterType::Integer, "Default 1, max 4"),
    ];
    parameters.extend(page_parameters(20, 100));
    parameters.push(image_parameter());
    looking(
        "inspect_value",
        "Inspect an object that a result marked with a handle such as [v7]: list its slots, elements or entries, with handles.",
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

fn render_object(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
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
        Parameter::required(
            "function",
            ParameterType::String,
            &format!(
                "{SYMBOL_SYNTAX}. One method: \"total (item)\", \"total :around (item)\", \"(setf total) (t item)\""
            ),
        ),
        package_parameter(),
    ];
    parameters.extend(page_parameters(120, 400));
    looking(
        "disassemble_function",
        "Disassemble a function: show its machine code or byte code. For its source use find_definition.",
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

fn render_code(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let name = data.text("name").unwrap_or_default();
    let methods = data.texts("methods");
    if !methods.is_empty() {
        let mut lines = vec![format!(
            "{name} is a generic function; the code is in its methods. Ask for one, as in \"{name} {}\":",
            methods[0]
        )];
        lines.extend(methods.iter().map(|&method| method.to_owned()));
        lines.extend(rest(data, methods.len()));
        return Ok(lines.join("\n"));
    }
    let code = data.texts("lines");
    let mut lines = vec![format!(
        "{name} ({}), {} lines:",
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
    let mut parameters = vec![
        Parameter::optional(
            "part",
            ParameterType::String,
            "List this part in full instead of the summary",
        )
        .one_of(&["systems", "packages", "features", "threads"]),
        Parameter::optional(
            "thread",
            ParameterType::String,
            "Part of a thread's name: what it is in, with more functions",
        ),
    ];
    parameters.extend(page_parameters(100, 500));
    parameters.push(image_parameter());
    let mut tool = looking(
        "image_status",
        "Show the state of the running image: implementation, memory, threads, loaded systems, packages, features, and which of your calls are still running.",
        &["introspection"],
        parameters,
        ImageTool {
            operation: "image-status",
            arguments: |arguments| {
                property_list([
                    ("part", text(arguments, "part")),
                    ("thread", text(arguments, "thread")),
                    ("limit", integer(arguments, "limit")),
                    ("offset", integer(arguments, "offset")),
                ])
            },
            render: render_status,
            deadline: look_up,
        },
    );
    tool.finding = Some(finding_root);
    tool
}

fn render_status(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    Ok(match data.text("part") {
        Some(part) => status_part(part, data),
        None => status_summary(data),
    })
}

fn status_part(part: &str, data: Plist<'_>) -> String {
    let items = data.texts("items");
    let total = data.integer("total").unwrap_or_default();
    let mut lines = vec![match part {
        // Each has a line, with the functions that it is in, innermost first.
        "threads" => format!("{}:\n  {}", counted(total, "thread"), items.join("\n  ")),
        _ => format!("{total} {part}: {}", items.join(", ")),
    }];
    lines.extend(rest(data, items.len()));
    lines.join("\n")
}

fn status_summary(data: Plist<'_>) -> String {
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
    let systems = data.integer("system-count").unwrap_or_default();
    lines.extend(labelled(
        &counted(systems, "system"),
        &data.texts("systems"),
    ));
    lines.push(packages(data));
    lines.extend(labelled("threads", &data.texts("threads")));
    lines.extend(labelled("features", &data.texts("features")));
    lines.extend(labelled("running calls of agent-q", &data.texts("running")));
    lines.push("(Use part to list all systems, packages, features or threads.)".to_owned());
    lines.join("\n")
}

/// How many packages there are, and which of them are the user's own.
fn packages(data: Plist<'_>) -> String {
    let total = data.integer("packages").unwrap_or_default();
    let libraries = data.integer("library-packages").unwrap_or_default();
    let mut line = format!("{}, {libraries} of libraries", counted(total, "package"));
    let own = data.texts("own-packages");
    if !own.is_empty() {
        line.push_str(&format!("; the user's own: {}", own.join(", ")));
    }
    line
}
