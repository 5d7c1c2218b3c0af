// SPDX-License-Identifier: GPL-3.0-or-later
//! What the tools of the Lisp image share: parameters that mean the same everywhere, their way
//! into property lists, and the last line of a part of a list.

use lexpr::Value;

use crate::image::Plist;
use crate::tool::{
    Arguments, BACKGROUND, IMAGE, ImageTool, Parameter, ParameterType, Runner, SCRATCH, Tool,
};
use crate::trust::SafetyLevel;

/// What a symbol is written like, for the model.
pub(super) const SYMBOL_SYNTAX: &str = "E.g. pkg:foo or (setf foo), unquoted";

/// The parameter `package`, which means the same in every tool.
pub(super) fn package_parameter() -> Parameter {
    Parameter::optional("package", ParameterType::String, "Default COMMON-LISP-USER")
}

/// The parameter `image`, which means the same in every tool.
pub(super) fn image_parameter() -> Parameter {
    Parameter::optional(IMAGE, ParameterType::String, "").one_of(&[SCRATCH])
}

/// The image that ARGUMENTS mean, for the user.
pub(super) fn image_words(arguments: &Arguments) -> &'static str {
    match arguments.text(IMAGE) {
        Some(_) => "the scratch image",
        None => "your image",
    }
}

/// The parameter `background`, which means the same in every tool; the first one says how it is used.
pub(super) fn background_parameter() -> Parameter {
    Parameter::optional(BACKGROUND, ParameterType::Boolean, "")
}

/// The parameters `limit` and `offset` of tools that list parts of something long.
pub(super) fn page_parameters(default: u32, most: u32) -> [Parameter; 2] {
    [
        Parameter::optional(
            "limit",
            ParameterType::Integer,
            &format!("Default {default}, max {most}"),
        ),
        Parameter::optional("offset", ParameterType::Integer, ""),
    ]
}

/// The text argument NAME for the image, or none.
pub(super) fn text(arguments: &Arguments, name: &str) -> Value {
    arguments.text(name).map_or(Value::Null, Value::string)
}

pub(super) fn flag(arguments: &Arguments, name: &str) -> Value {
    if arguments.flag(name) {
        Value::Bool(true)
    } else {
        Value::Null
    }
}

/// The integer argument NAME for the image, or none.
pub(super) fn integer(arguments: &Arguments, name: &str) -> Value {
    arguments.integer(name).map_or(Value::Null, Value::from)
}

/// A tool that only looks.
pub(super) fn looking(
    name: &str,
    description: &str,
    categories: &[&str],
    parameters: impl IntoIterator<Item = Parameter>,
    image: ImageTool,
) -> Tool {
    Tool::new(
        name,
        description,
        SafetyLevel::Safe,
        categories,
        parameters.into_iter().collect(),
        Runner::Image(image),
    )
}

/// "1 slot", "2 slots": COUNT of what NOUN names.
pub(super) fn counted(count: i64, noun: &str) -> String {
    match (count, noun.strip_suffix('s')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ses"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// How to get at the rest of a list of which DATA has LISTED elements, or that there is none.
pub(super) fn rest(data: Plist<'_>, listed: usize) -> Option<String> {
    let next = data.integer("offset").unwrap_or_default() + listed as i64;
    let total = data.integer("total").unwrap_or_default();
    match listed {
        0 if total > 0 => Some(format!("Offset past the end: only {total} results.")),
        _ => {
            (total > next).then(|| format!("{} more: call again with offset {next}.", total - next))
        }
    }
}

/// TEXTS after a label, when there are any.
pub(super) fn labelled(label: &str, texts: &[&str]) -> Option<String> {
    (!texts.is_empty()).then(|| format!("{label}: {}", texts.join(", ")))
}

/// What there is to say of the place of DEFINITION; empty when it is as the image says.
pub(super) fn place_note(definition: Plist<'_>) -> String {
    if let Some(file) = definition.text("replaces") {
        return format!(" (the file still has its own version, at {file})");
    }
    if let Some(why) = definition.text("withheld") {
        let why = why.trim_end_matches('.');
        return format!(" (not shown: {why}; reading the file asks the user)");
    }
    let is = |name| definition.flag(name);
    let note = match is("lost") {
        _ if is("missing") => "this file can't be read here",
        true if is("changed") => {
            "the file has changed since it was loaded, and no form in it defines this now: only the image has it"
        }
        true => "no form in it defines this: only the image has it, or a macro generates it",
        false if is("written") => "compiled by compile_form, from the same text",
        false if is("unsaved") => "as the user's buffer has it, with unsaved changes",
        false if is("changed") => "the file has changed since it was loaded",
        false => return String::new(),
    };
    format!(" ({note})")
}
