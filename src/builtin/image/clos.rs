// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools about classes and methods.

use lexpr::Value;

use crate::image::{ImageReply, Plist, property_list};
use crate::tool::{Arguments, ImageTool, Parameter, ParameterType, Tool, ToolFailure};

use super::common::{
    SYMBOL_SYNTAX, counted, flag, integer, labelled, looking, package_parameter, page_parameters,
    rest, text,
};
use super::outcome;
use super::timeouts::look_up;

const CATEGORIES: &[&str] = &["introspection", "clos"];

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![class_slots(), class_hierarchy(), method_specializers()]
}

fn class() -> Parameter {
    Parameter::required("class", ParameterType::String, "Name of the class")
}

fn class_slots() -> Tool {
    looking(
        "class_slots",
        "List the slots of a class, structure or condition, including inherited ones, with initargs, initforms, accessors and types. For super- and subclasses use class_hierarchy.",
        CATEGORIES,
        vec![
            class(),
            package_parameter(),
            Parameter::optional(
                "full",
                ParameterType::Boolean,
                "Show each slot's whole documentation, not only its first sentence",
            ),
        ],
        ImageTool {
            operation: "class-slots",
            arguments: |arguments| {
                property_list([
                    ("class", text(arguments, "class")),
                    ("package", text(arguments, "package")),
                    ("full", flag(arguments, "full")),
                ])
            },
            render: render_slots,
            deadline: look_up,
        },
    )
}

fn render_slots(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let slots: Vec<Plist<'_>> = data.plists("slots").collect();
    let mut lines = vec![format!(
        "{} ({}{}): {}",
        data.text("class").unwrap_or_default(),
        data.text("kind").unwrap_or("class"),
        data.text("metaclass")
            .map_or(String::new(), |metaclass| format!(
                ", metaclass {metaclass}"
            )),
        counted(slots.len() as i64, "slot")
    )];
    let more = slots.iter().any(|slot| slot.flag("more"));
    lines.extend(slots.into_iter().map(slot_line));
    lines.extend(labelled(
        "default initargs",
        &data.texts("default-initargs"),
    ));
    lines.extend(undefined(data));
    if more {
        lines.push("(Some documentation is cut: full shows all of it.)".to_owned());
    }
    Ok(lines.join("\n"))
}

fn slot_line(slot: Plist<'_>) -> String {
    let mut facts: Vec<String> = Vec::new();
    let mut fact = |label: &str, text: Option<String>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            facts.push(format!("{label} {text}"));
        }
    };
    let owned = |name| slot.text(name).map(str::to_owned);
    let joined = |name| Some(slot.texts(name).join(" "));
    fact("type", owned("type"));
    fact("initarg", joined("initargs"));
    fact("initform", owned("initform"));
    fact("accessor", joined("accessors"));
    fact("reader", joined("readers"));
    fact("writer", joined("writers"));
    fact("allocation", owned("allocation"));
    fact("from", owned("from"));
    let mut line = slot.text("name").unwrap_or_default().to_owned();
    if !facts.is_empty() {
        line.push_str(&format!(": {}", facts.join(", ")));
    }
    if let Some(documentation) = slot.text("documentation") {
        line.push_str(&format!(
            "\n  {}",
            documentation
                .lines()
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(" ")
        ));
    }
    line
}

/// A word on superclasses that nobody has defined yet.
fn undefined(data: Plist<'_>) -> Option<String> {
    let classes = data.texts("undefined");
    (!classes.is_empty()).then(|| {
        format!(
            "Not complete: the superclass {} is not defined, so the class can have no instances yet.",
            classes.join(", ")
        )
    })
}

fn class_hierarchy() -> Tool {
    looking(
        "class_hierarchy",
        "Show the precedence list of a class and the tree of its subclasses. For its slots use class_slots.",
        CATEGORIES,
        vec![
            class(),
            package_parameter(),
            Parameter::optional(
                "limit",
                ParameterType::Integer,
                "How many subclasses to list; default 50, max 500",
            ),
        ],
        ImageTool {
            operation: "class-hierarchy",
            arguments: |arguments| {
                property_list([
                    ("class", text(arguments, "class")),
                    ("package", text(arguments, "package")),
                    ("limit", integer(arguments, "limit")),
                ])
            },
            render: render_hierarchy,
            deadline: look_up,
        },
    )
}

fn render_hierarchy(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let mut lines = vec![format!(
        "{} ({}){}",
        data.text("class").unwrap_or_default(),
        data.text("kind").unwrap_or("class"),
        labelled("; direct superclasses", &data.texts("superclasses")).unwrap_or_default()
    )];
    lines.extend(labelled("precedence", &data.texts("precedence")));
    lines.extend(undefined(data));
    let subclasses: Vec<&Value> = data.list("subclasses").collect();
    let count = data.integer("subclass-count").unwrap_or_default();
    lines.push(if count == 0 {
        "no subclasses".to_owned()
    } else {
        format!(
            "{}, {count} with theirs:",
            counted(
                data.integer("direct-subclasses").unwrap_or_default(),
                "direct subclass"
            )
        )
    });
    lines.extend(subclasses.iter().filter_map(|line| subclass(line)));
    let more = count - subclasses.len() as i64;
    if more > 0 {
        lines.push(format!(
            "{more} more: raise the limit, or ask about one of these."
        ));
    }
    if let Some(methods @ 1..) = data.integer("methods") {
        lines.push(format!(
            "{} specialized on it: xref with kind methods.",
            counted(methods, "method")
        ));
    }
    Ok(lines.join("\n"))
}

/// A subclass, indented by its depth.
fn subclass(line: &Value) -> Option<String> {
    let parts = line.to_ref_vec()?;
    let depth = usize::try_from(parts.first()?.as_i64()?).ok()?;
    Some(format!("{}{}", "  ".repeat(depth), parts.get(1)?.as_str()?))
}

fn method_specializers() -> Tool {
    let mut parameters = vec![
        Parameter::required("generic_function", ParameterType::String, SYMBOL_SYNTAX),
        package_parameter(),
    ];
    parameters.extend(page_parameters(40, 200));
    looking(
        "method_specializers",
        "List the methods of a generic function: qualifiers and specializers. For their source use find_definition; for the methods on a class use xref with kind methods.",
        CATEGORIES,
        parameters,
        ImageTool {
            operation: "method-specializers",
            arguments: |arguments| {
                property_list([
                    ("generic-function", text(arguments, "generic_function")),
                    ("package", text(arguments, "package")),
                    ("limit", integer(arguments, "limit")),
                    ("offset", integer(arguments, "offset")),
                ])
            },
            render: render_methods,
            deadline: look_up,
        },
    )
}

fn render_methods(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let methods: Vec<Plist<'_>> = data.plists("methods").collect();
    let mut lines = vec![format!(
        "{} {}: {}{}",
        data.text("name").unwrap_or_default(),
        data.text("arglist").unwrap_or_default(),
        counted(data.integer("total").unwrap_or_default(), "method"),
        data.text("combination")
            .map_or(String::new(), |combination| format!(", {combination}"))
    )];
    lines.extend(methods.iter().map(|method| method_line(*method)));
    lines.extend(rest(data, methods.len()));
    Ok(lines.join("\n"))
}

fn method_line(method: Plist<'_>) -> String {
    let mut words = method.texts("qualifiers");
    let specializers = format!("({})", method.texts("specializers").join(" "));
    words.push(&specializers);
    words.join(" ")
}
