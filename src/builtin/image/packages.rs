// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools about packages.

use crate::image::{ImageReply, Plist, property_list};
use crate::tool::{Arguments, ImageTool, Parameter, ParameterType, Tool, ToolFailure};

use super::common::{flag, integer, labelled, look_up, looking, page_parameters, rest, text};
use super::outcome;

const CATEGORIES: &[&str] = &["introspection", "packages"];

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![list_package_symbols(), package_info()]
}

fn package() -> Parameter {
    Parameter::required("package", ParameterType::String, "")
}

fn list_package_symbols() -> Tool {
    let mut parameters = vec![
        package(),
        Parameter::optional("include_internal", ParameterType::Boolean, ""),
    ];
    parameters.extend(page_parameters(100, 500));
    looking(
        "list_package_symbols",
        "List the exported symbols of a package, grouped by kind.",
        CATEGORIES,
        parameters,
        ImageTool {
            operation: "list-package-symbols",
            arguments: |arguments| {
                property_list([
                    ("package", text(arguments, "package")),
                    ("include-internal", flag(arguments, "include_internal")),
                    ("limit", integer(arguments, "limit")),
                    ("offset", integer(arguments, "offset")),
                ])
            },
            render: render_symbols,
            deadline: look_up,
        },
    )
}

fn render_symbols(arguments: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let symbols: Vec<Plist<'_>> = data.plists("symbols").collect();
    let offset = data.integer("offset").unwrap_or_default();
    let internal = data.integer("internal").unwrap_or_default();
    let mut lines = vec![format!(
        "{}: {} external and {internal} internal symbols{}",
        data.text("package").unwrap_or_default(),
        data.integer("external").unwrap_or_default(),
        if offset > 0 && !symbols.is_empty() {
            format!(
                ", number {} to {}:",
                offset + 1,
                offset + symbols.len() as i64
            )
        } else {
            String::new()
        }
    )];
    lines.extend(groups(&symbols));
    lines.extend(rest(data, symbols.len()));
    if data.integer("external") == Some(0) && internal > 0 && !arguments.flag("include_internal") {
        lines.push("Nothing is exported; include_internal lists the rest.".to_owned());
    }
    Ok(lines.join("\n"))
}

/// Symbols that are the same kind of thing, a line for each kind.
fn groups(symbols: &[Plist<'_>]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for symbol in symbols {
        let label = label(*symbol);
        let name = symbol.text("name").unwrap_or_default();
        match groups.iter_mut().find(|(known, _)| *known == label) {
            Some((_, names)) => names.push(name),
            None => groups.push((label, vec![name])),
        }
    }
    groups
        .into_iter()
        .map(|(label, names)| format!("{label}: {}", names.join(" ")))
        .collect()
}

fn label(symbol: Plist<'_>) -> String {
    let kinds = symbol.texts("kinds");
    let kinds = if kinds.is_empty() {
        "only names".to_owned()
    } else {
        kinds.join(" and ")
    };
    if symbol.flag("internal") {
        format!("internal, {kinds}")
    } else {
        kinds
    }
}

fn package_info() -> Tool {
    looking(
        "package_info",
        "Describe a package: nicknames, packages it uses, packages that use it, shadowed symbols, exports. To list its symbols by kind use list_package_symbols.",
        CATEGORIES,
        vec![package()],
        ImageTool {
            operation: "package-info",
            arguments: |arguments| property_list([("package", text(arguments, "package"))]),
            render: render_package,
            deadline: look_up,
        },
    )
}

fn render_package(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let mut lines = vec![format!(
        "{}: {} external and {} internal symbols{}",
        data.text("package").unwrap_or_default(),
        data.integer("external").unwrap_or_default(),
        data.integer("internal").unwrap_or_default(),
        if data.text("lock") == Some("locked") {
            ", locked"
        } else {
            ""
        }
    )];
    let documentation = data.text("documentation");
    lines.extend(documentation.map(str::to_owned));
    for (label, name) in [
        ("nicknames", "nicknames"),
        ("local nicknames", "local-nicknames"),
        ("uses", "uses"),
        ("used by", "used-by"),
        ("shadows", "shadows"),
        ("exports", "exports"),
    ] {
        lines.extend(labelled(label, &data.texts(name)));
    }
    let unnamed = data.integer("external").unwrap_or_default() - data.texts("exports").len() as i64;
    if unnamed > 0 {
        lines.push(format!(
            "{unnamed} more exports: call_tool list_package_symbols lists them."
        ));
    }
    Ok(lines.join("\n"))
}
