// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that follow names through the program: who uses what, and where it is defined.

use lexpr::Value;

use crate::image::{Plist, Reply, property_list};
use crate::tool::{Arguments, ImageTool, Parameter, ParameterType, Tool, ToolFailure};

use super::common::{
    SYMBOL_SYNTAX, integer, labelled, look_up, looking, package_parameter, page_parameters, rest,
    text,
};
use super::{outcome, sources};

const CATEGORIES: &[&str] = &["introspection", "xref"];

/// How many characters of source text one answer quotes; definitions after that only have places.
const QUOTED: usize = 9000;

#[must_use]
pub fn tools() -> Vec<Tool> {
    let mut tools = vec![who_calls(), who_references(), xref(), find_definition()];
    for tool in &mut tools {
        tool.instead = Some(match tool.name.as_str() {
            "find_definition" => sources::definitions,
            _ => sources::mentions,
        });
    }
    tools
}

/// The parameters FIRST, package, limit and offset.
fn parameters(first: Vec<Parameter>) -> Vec<Parameter> {
    let mut parameters = first;
    parameters.push(package_parameter());
    parameters.extend(page_parameters(30, 200));
    parameters
}

fn who_calls() -> Tool {
    looking(
        "who_calls",
        "List what calls a function, or what expands a macro, in the user's running image, with file and line, each caller once.",
        CATEGORIES,
        parameters(vec![Parameter::required(
            "function",
            ParameterType::String,
            SYMBOL_SYNTAX,
        )]),
        ImageTool {
            operation: "who-calls",
            arguments: |arguments| named(arguments, "function"),
            render: |_, reply| {
                let data = outcome::returned(reply)?;
                Ok(users(data, |target| callers(target, data)))
            },
            deadline: look_up,
        },
    )
}

fn who_references() -> Tool {
    looking(
        "who_references",
        "List what reads, sets or binds a global variable in the user's running image, with file and line.",
        CATEGORIES,
        parameters(vec![Parameter::required(
            "variable",
            ParameterType::String,
            SYMBOL_SYNTAX,
        )]),
        ImageTool {
            operation: "who-references",
            arguments: |arguments| named(arguments, "variable"),
            render: |_, reply| {
                let data = outcome::returned(reply)?;
                Ok(users(data, |target| references(target, data)))
            },
            deadline: look_up,
        },
    )
}

fn xref() -> Tool {
    looking(
        "xref",
        "List one kind of use of a name in the user's running image: what binds or sets a variable, expands a macro, specializes methods on a class, or which functions a function calls (callees).",
        CATEGORIES,
        parameters(vec![
            Parameter::required("kind", ParameterType::String, "The kind of use").one_of(&[
                "calls",
                "callers",
                "callees",
                "references",
                "binds",
                "sets",
                "macroexpands",
                "specializes",
            ]),
            Parameter::required("name", ParameterType::String, SYMBOL_SYNTAX),
        ]),
        ImageTool {
            operation: "xref",
            arguments: |arguments| {
                property_list([
                    ("kind", text(arguments, "kind")),
                    ("name", text(arguments, "name")),
                    ("package", text(arguments, "package")),
                    ("limit", integer(arguments, "limit")),
                    ("offset", integer(arguments, "offset")),
                ])
            },
            render: |_, reply| {
                let data = outcome::returned(reply)?;
                Ok(users(data, |target| kind_of_use(target, data)))
            },
            deadline: look_up,
        },
    )
}

fn named(arguments: &Arguments, name: &'static str) -> Value {
    property_list([
        (name, text(arguments, name)),
        ("package", text(arguments, "package")),
        ("limit", integer(arguments, "limit")),
        ("offset", integer(arguments, "offset")),
    ])
}

/// The first line on the callers of TARGET, and what to say when there are none.
fn callers(target: &str, data: Plist<'_>) -> (String, String) {
    match data.text("kind") {
        Some("macro") => (
            format!("{target}, a macro, is expanded by"),
            format!("No code that expands the macro {target} is recorded; only compiled code is."),
        ),
        Some("undefined") => (
            format!("{target}, which is not defined, is called by"),
            format!(
                "{target} is not defined as a function, and no compiled code calls it. find_definition and apropos_search tell what there is."
            ),
        ),
        _ => (
            format!("{target} is called by"),
            format!(
                "No callers of {target} are recorded. Calls that were inlined, that go through a symbol or a variable, or in code that is not loaded, are not."
            ),
        ),
    }
}

fn references(target: &str, data: Plist<'_>) -> (String, String) {
    let head = format!("{target} is used by");
    let none = match data.text("kind") {
        Some("constant") => format!(
            "No uses of {target} are recorded: it is a constant, and compilers put its value in its place."
        ),
        Some("no variable") => {
            format!("{target} is not a global variable, and nothing uses it as one.")
        }
        _ => format!(
            "No uses of {target} are recorded. Only compiled code is; symbol-value and code that is not loaded are not."
        ),
    };
    (head, none)
}

fn kind_of_use(target: &str, data: Plist<'_>) -> (String, String) {
    let (head, none) = match data.text("kind").unwrap_or_default() {
        "callees" => ("calls", "calls nothing that is recorded"),
        "references" => ("is referred to by", "is referred to by nothing recorded"),
        "binds" => ("is bound by", "is bound by nothing recorded"),
        "sets" => ("is set by", "is set by nothing recorded"),
        "macroexpands" => ("is expanded by", "is expanded by nothing recorded"),
        "specializes" => ("has these methods", "has no methods specialized on it"),
        _ => ("is called by", "is called by nothing recorded"),
    };
    (format!("{target} {head}"), format!("{target} {none}."))
}

/// The users in DATA, by file; WORDS gives the first line, and what to say without any.
fn users(data: Plist<'_>, words: impl Fn(&str) -> (String, String)) -> String {
    let total = data.integer("total").unwrap_or_default();
    let sites = data.integer("sites").unwrap_or(total);
    let (head, none) = words(data.text("target").unwrap_or_default());
    if total == 0 {
        return none;
    }
    let places = if sites == total {
        String::new()
    } else {
        format!(", {sites} places")
    };
    let mut lines = vec![format!("{head} ({total}{places}):")];
    let users: Vec<Plist<'_>> = data.plists("users").collect();
    lines.extend(by_file(&users));
    lines.extend(rest(data, users.len()));
    lines.join("\n")
}

/// USERS under the names of their files, in the order in which the files first occur.
fn by_file(users: &[Plist<'_>]) -> Vec<String> {
    let mut files: Vec<(&str, Vec<String>)> = Vec::new();
    for user in users {
        let (file, line) = split_place(user.text("where").unwrap_or_default());
        let entry = user_line(*user, line);
        match files.iter_mut().find(|(name, _)| *name == file) {
            Some((_, entries)) => entries.push(entry),
            None => files.push((file, vec![entry])),
        }
    }
    files
        .into_iter()
        .flat_map(|(file, entries)| {
            let head = if file.is_empty() {
                "without a file"
            } else {
                file
            };
            std::iter::once(head.to_owned()).chain(entries)
        })
        .collect()
}

/// "file:12" as the file and "12".
fn split_place(place: &str) -> (&str, &str) {
    match place.rsplit_once(':') {
        Some((file, line)) if line.parse::<u64>().is_ok() => (file, line),
        _ => (place, ""),
    }
}

fn user_line(user: Plist<'_>, line: &str) -> String {
    let mut text = String::from("  ");
    if !line.is_empty() {
        text.push_str(&format!("{line}: "));
    }
    text.push_str(user.text("what").unwrap_or_default());
    if let Some(count @ 2..) = user.integer("count") {
        text.push_str(&format!(" ×{count}"));
    }
    let ways = user.texts("ways");
    if !ways.is_empty() {
        text.push_str(&format!(" {}", ways.join(", ")));
    }
    text
}

fn find_definition() -> Tool {
    let mut parameters = vec![
        Parameter::required("symbol", ParameterType::String, SYMBOL_SYNTAX),
        Parameter::optional("kind", ParameterType::String, "Only definitions as this").one_of(&[
            "function",
            "generic-function",
            "method",
            "macro",
            "compiler-macro",
            "variable",
            "constant",
            "class",
            "structure",
            "condition",
            "type",
            "setf",
        ]),
        package_parameter(),
    ];
    parameters.extend(page_parameters(10, 50));
    looking(
        "find_definition",
        "Return where a function, macro, variable, class, method... of the user's running image is defined, with file, line and source text.",
        CATEGORIES,
        parameters,
        ImageTool {
            operation: "find-definition",
            arguments: |arguments| {
                property_list([
                    ("symbol", text(arguments, "symbol")),
                    ("kind", text(arguments, "kind")),
                    ("package", text(arguments, "package")),
                    ("limit", integer(arguments, "limit")),
                    ("offset", integer(arguments, "offset")),
                ])
            },
            render: render_definitions,
            deadline: look_up,
        },
    )
}

fn render_definitions(_: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let definitions: Vec<Plist<'_>> = data.plists("definitions").collect();
    let mut lines = Vec::new();
    let mut quoted = 0;
    for definition in &definitions {
        lines.extend(definition_lines(*definition, &mut quoted));
    }
    lines.extend(rest(data, definitions.len()));
    let unplaced = data.texts("unplaced");
    if let Some(source) = data.text("evaluated") {
        lines.push(format!(
            "{} was evaluated, not loaded from a file. The image has it as:\n{source}",
            data.text("name").unwrap_or_default()
        ));
    } else if !unplaced.is_empty() {
        lines.extend(labelled("Defined without a file", &unplaced));
    }
    if lines.is_empty() {
        lines.push(no_definition(data));
    }
    Ok(lines.join("\n"))
}

fn definition_lines(definition: Plist<'_>, quoted: &mut usize) -> Vec<String> {
    let place = definition.text("where").unwrap_or("in an unknown place");
    let missing = if definition.flag("missing") {
        " (this file can't be read here)"
    } else {
        ""
    };
    let mut lines = vec![format!(
        "{} {place}{missing}",
        definition.text("what").unwrap_or_default()
    )];
    if let Some(source) = definition.text("text") {
        if *quoted + source.len() <= QUOTED || *quoted == 0 {
            *quoted += source.len();
            lines.push(source.trim_end().to_owned());
        } else {
            lines.push("  (ask for its kind alone, or read the file, to see it)".to_owned());
        }
    }
    lines
}

fn no_definition(data: Plist<'_>) -> String {
    let name = data.text("name").unwrap_or_default();
    let kinds = data.texts("kinds");
    if kinds.is_empty() {
        format!("{name} is only a name: the image has no definition of it.")
    } else {
        format!(
            "{name} is a {}, but the image does not know where it was defined. Search the sources.",
            kinds.join(" and a ")
        )
    }
}
