// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that look into the Lisp image without changing it.

use super::common::{
    SYMBOL_SYNTAX, flag, integer, labelled, looking, package_parameter, page_parameters,
    place_note, rest, text,
};
use super::outcome;
use super::timeouts::look_up;
use crate::image::{ImageReply, Plist, property_list};
use crate::tool::{
    Arguments, Code, ImageTool, Parameter, ParameterType, Tool, ToolFailure, Treatment,
};

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        describe_symbol(),
        apropos_search(),
        function_arglist(),
        macroexpand_form(),
    ]
}

fn tool(name: &str, description: &str, parameters: Vec<Parameter>, image: ImageTool) -> Tool {
    looking(name, description, &["introspection"], parameters, image)
}

fn describe_symbol() -> Tool {
    tool(
        "describe_symbol",
        "Describe a symbol in the running image: its kind (function, macro, variable, class, type, package), lambda list, type, docstring, value, file:line. Use it first for any name you know.",
        vec![
            Parameter::required("symbol", ParameterType::String, SYMBOL_SYNTAX),
            package_parameter(),
        ],
        ImageTool {
            operation: "describe-symbol",
            arguments: |arguments| {
                property_list([
                    ("symbol", text(arguments, "symbol")),
                    ("package", text(arguments, "package")),
                ])
            },
            render: render_description,
            deadline: look_up,
        },
    )
}

fn render_description(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let name = data.text("name").unwrap_or_default();
    let mut lines = vec![match (data.keyword("status"), data.text("package")) {
        (Some(status), Some(package)) => format!("{name} ({status} in {package})"),
        _ => format!("{name} (uninterned)"),
    }];
    let facets: Vec<Plist<'_>> = data.plists("facets").collect();
    let definitions: Vec<Plist<'_>> = data.plists("definitions").collect();
    if facets.is_empty() && definitions.is_empty() {
        lines
            .push("It is only a symbol: it names no function, variable, class or type.".to_owned());
        let elsewhere = data.texts("elsewhere");
        if !elsewhere.is_empty() {
            lines.push(format!("Same name elsewhere: {}", elsewhere.join(", ")));
        }
    }
    lines.extend(facets.into_iter().flat_map(facet));
    lines.extend(labelled("properties", &data.texts("properties")));
    if !definitions.is_empty() {
        lines.push("Defined:".to_owned());
        lines.extend(definitions.into_iter().map(definition));
    }
    Ok(lines.join("\n"))
}

fn facet(facet: Plist<'_>) -> Vec<String> {
    let kind = facet.text("kind").unwrap_or("thing");
    let mut head = format!("{kind}:");
    if let Some(arglist) = facet.text("arglist") {
        head.push_str(&format!(" {arglist}"));
    }
    if let Some(value) = facet.text("value") {
        head.push_str(&format!(" {value}"));
    }
    if facet.flag("unbound") {
        head.push_str(" unbound");
    }
    let supers = facet.texts("superclasses");
    if !supers.is_empty() {
        head.push_str(&format!(" of {}", supers.join(", ")));
    }
    if let Some(exports) = facet.integer("exports") {
        head.push_str(&format!(" {exports} exported symbols"));
    }
    let mut lines = vec![head.strip_suffix(':').unwrap_or(&head).to_owned()];
    let mut detail = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.push(format!("  {label}: {value}"));
        }
    };
    let owned = |name| facet.text(name).map(str::to_owned);
    let joined = |name| Some(facet.texts(name).join(", ")).filter(|text| !text.is_empty());
    detail("type", owned("type"));
    detail("class of the value", owned("value-class"));
    detail("slots", joined("slots"));
    detail("uses", joined("uses"));
    detail("methods", facet.integer("methods").map(|it| it.to_string()));
    if facet.flag("inline") {
        detail("also", Some("declaimed inline".to_owned()));
    }
    if facet.flag("compiler-macro") {
        detail("also", Some("a compiler macro".to_owned()));
    }
    if let Some(documentation) = facet.text("documentation") {
        lines.extend(
            documentation
                .lines()
                .map(|line| format!("  {}", line.trim())),
        );
    }
    lines
}

fn definition(definition: Plist<'_>) -> String {
    match definition.integer("more") {
        Some(more) => format!("  and {more} more"),
        None => format!(
            "  {} {}{}",
            definition.text("what").unwrap_or_default(),
            definition.text("where").unwrap_or_default(),
            place_note(definition)
        ),
    }
}

fn apropos_search() -> Tool {
    tool(
        "apropos_search",
        "Find symbols in the running image by parts of their names, best matches first. Use it when you don't know the exact name.",
        vec![
            Parameter::required(
                "pattern",
                ParameterType::String,
                "Part of a name, or several parts that must all occur",
            ),
            Parameter::optional("package", ParameterType::String, "Only in this package"),
            Parameter::optional("external_only", ParameterType::Boolean, ""),
            Parameter::optional("kind", ParameterType::String, "").one_of(&[
                "function",
                "generic-function",
                "macro",
                "special-operator",
                "variable",
                "constant",
                "class",
                "type",
            ]),
            Parameter::optional("limit", ParameterType::Integer, "Default 50, max 200"),
        ],
        ImageTool {
            operation: "apropos-search",
            arguments: |arguments| {
                property_list([
                    ("pattern", text(arguments, "pattern")),
                    ("package", text(arguments, "package")),
                    ("external-only", flag(arguments, "external_only")),
                    ("kind", text(arguments, "kind")),
                    ("limit", integer(arguments, "limit")),
                ])
            },
            render: render_matches,
            deadline: look_up,
        },
    )
}

fn render_matches(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let total = data.integer("total").unwrap_or_default();
    let place = data
        .text("package")
        .map_or(String::new(), |package| format!(" in {package}"));
    let mut lines = vec![format!(
        "Found {total} symbol{} like \"{}\"{place}{}",
        if total == 1 { "" } else { "s" },
        data.text("pattern").unwrap_or_default(),
        if total == 0 {
            ". Try a shorter part of the name."
        } else {
            ":"
        }
    )];
    lines.extend(data.plists("symbols").map(symbol_line));
    let listed = lines.len() as i64 - 1;
    if listed < total {
        lines.push(format!(
            "{} more: narrow the pattern, name a package or kind, or raise the limit.",
            total - listed
        ));
    }
    Ok(lines.join("\n"))
}

fn symbol_line(symbol: Plist<'_>) -> String {
    let mut line = symbol.text("name").unwrap_or_default().to_owned();
    let kinds = symbol.texts("kinds");
    if !kinds.is_empty() {
        line.push_str(&format!(" [{}]", kinds.join(", ")));
    }
    if let Some(documentation) = symbol.text("documentation") {
        line.push_str(&format!(" {documentation}"));
    }
    line
}

fn function_arglist() -> Tool {
    tool(
        "function_arglist",
        "Show only the lambda list of a function, macro or special operator. describe_symbol includes it; use this one when you need nothing else.",
        vec![
            Parameter::required("function", ParameterType::String, SYMBOL_SYNTAX),
            package_parameter(),
        ],
        ImageTool {
            operation: "function-arglist",
            arguments: |arguments| {
                property_list([
                    ("function", text(arguments, "function")),
                    ("package", text(arguments, "package")),
                ])
            },
            render: render_arglist,
            deadline: look_up,
        },
    )
}

fn render_arglist(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let name = data.text("name").unwrap_or_default();
    let kind = match data.text("kind") {
        None | Some("function") => String::new(),
        Some(kind) => format!(" [{kind}]"),
    };
    let setf = if data.flag("setf") {
        format!("\nThere is also (SETF {name}).")
    } else {
        String::new()
    };
    Ok(match data.text("arglist") {
        Some(arglist) => format!("{name} {arglist}{kind}{setf}"),
        None => format!("{name}{kind}: the image does not know its lambda list (…).{setf}"),
    })
}

fn macroexpand_form() -> Tool {
    let mut tool = tool(
        "macroexpand_form",
        "Macroexpand a form without evaluating it. Its macros' own code runs; #. is refused.",
        vec![
            Parameter::required("form", ParameterType::String, "One complete form"),
            Parameter::optional(
                "full",
                ParameterType::Boolean,
                "Same as mode full",
            ),
            Parameter::optional(
                "mode",
                ParameterType::String,
                "once (default): one step; full: to the end; all: subforms too; compiler: compiler macro",
            )
            .one_of(&["once", "full", "all", "compiler"]),
            package_parameter(),
        ],
        ImageTool {
            operation: "macroexpand-form",
            arguments: |arguments| {
                property_list([
                    ("form", text(arguments, "form")),
                    ("full", flag(arguments, "full")),
                    ("mode", text(arguments, "mode")),
                    ("package", text(arguments, "package")),
                ])
            },
            render: render_expansion,
            deadline: |_, default| default,
        },
    );
    tool.code = Some(Code {
        parameters: &["form"],
        treatment: Treatment::Expand,
    });
    tool
}

fn render_expansion(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let mode = data.text("mode").unwrap_or("once");
    let mut lines = vec![
        match data.text("expansion").filter(|_| data.flag("expanded")) {
            Some(expansion) => format!("Expanded ({mode}):\n{expansion}"),
            None => not_expanded(mode).to_owned(),
        },
    ];
    if data.flag("rest") {
        lines.push("Only the first form of the text was expanded.".to_owned());
    }
    lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
    Ok(lines.join("\n"))
}

fn not_expanded(mode: &str) -> &'static str {
    match mode {
        "compiler" => "It has no compiler macro, or the compiler macro declined to expand it.",
        "all" => "There is no macro in it.",
        _ => "Its operator is not a macro. Mode all expands the forms inside it.",
    }
}

// The tools about packages.

const CATEGORIES: &[&str] = &["introspection", "packages"];

#[must_use]
pub fn package_tools() -> Vec<Tool> {
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
