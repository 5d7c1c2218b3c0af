// SPDX-License-Identifier: GPL-3.0-or-later
//! Tool calls typed by the user: `/describe_symbol mapcar`, `/eval_form package=app (run)`.
//! `name=value` words before and behind the rest of the line fill those parameters; the rest fills the
//! first required parameter (or else the first parameter) that has no value yet.

use serde_json::{Map, Number, Value};

use super::registry::Registry;
use super::{Parameter, ParameterType, Presence, Tool, ToolFailure};
use crate::exact;
use crate::protocol::{CallArguments, ToolCall};

/// The call that LINE asks for. Types are converted here, fitness is the executor's to check.
///
/// # Errors
///
/// When the line names no tool, or a value can't be of its parameter's type.
pub fn parse(line: &str, registry: &Registry) -> Result<ToolCall, ToolFailure> {
    let line = line.trim();
    let rest = line.strip_prefix('/').unwrap_or(line);
    let (name, rest) = match rest.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, rest.trim()),
        None => (rest, ""),
    };
    if name.is_empty() {
        return Err(ToolFailure::new(
            "Type a tool's name after the slash, such as /describe_symbol mapcar; TAB shows them all.",
        ));
    }
    let tool = registry.resolve(name)?;
    let arguments = arguments(&tool, rest)?;
    Ok(ToolCall {
        id: "console".to_owned(),
        name: tool.name.clone(),
        raw_arguments: Value::Object(arguments.clone()).to_string(),
        arguments: CallArguments::Object(arguments),
    })
}

fn arguments(tool: &Tool, mut rest: &str) -> Result<Map<String, Value>, ToolFailure> {
    let mut arguments = Map::new();
    while let Some((parameter, text, after)) = named_value(tool, rest) {
        arguments.insert(parameter.name.clone(), convert(parameter, &text)?);
        rest = after;
    }
    let (rest, named) = split_off_named(tool, rest);
    for (parameter, text) in named {
        arguments.insert(parameter.name.clone(), convert(parameter, &text)?);
    }
    if rest.is_empty() {
        return Ok(arguments);
    }
    let open = |parameter: &&Parameter| !arguments.contains_key(&parameter.name);
    let target = tool
        .parameters
        .iter()
        .filter(|parameter| parameter.presence == Presence::Required)
        .find(open)
        .or_else(|| tool.parameters.iter().find(open));
    let Some(parameter) = target else {
        return Err(ToolFailure::new(format!(
            "{} has no more parameters for: {rest}",
            tool.name
        )));
    };
    let value = convert(parameter, rest)?;
    arguments.insert(parameter.name.clone(), value);
    Ok(arguments)
}

/// REST without the `name=value` words at its end, and these. They begin outside of lists and strings,
/// so that `(f x mode=all)` is only a form.
fn split_off_named<'t, 'r>(
    tool: &'t Tool,
    rest: &'r str,
) -> (&'r str, Vec<(&'t Parameter, String)>) {
    let (mut depth, mut quote, mut escaped) = (0, None, false);
    for (index, character) in rest.char_indices() {
        match (character, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            (it, Some(end)) if it == end => quote = None,
            (_, Some(_)) => {}
            ('"' | '|', None) => quote = Some(character),
            ('(', None) => depth += 1,
            (')', None) => depth -= 1,
            (_, None) if depth <= 0 && character.is_whitespace() => {
                if let Some(named) = all_named(tool, rest[index..].trim_start()) {
                    return (rest[..index].trim_end(), named);
                }
            }
            _ => {}
        }
    }
    (rest, Vec::new())
}

/// The `name=value` words of REST, if it has nothing else.
fn all_named<'t>(tool: &'t Tool, mut rest: &str) -> Option<Vec<(&'t Parameter, String)>> {
    let mut named = Vec::new();
    while let Some((parameter, text, after)) = named_value(tool, rest) {
        named.push((parameter, text));
        rest = after;
    }
    (rest.is_empty() && !named.is_empty()).then_some(named)
}

/// The leading `name=value` of REST, when NAME is a parameter: its parameter, the value's text and
/// what follows it.
fn named_value<'t, 'r>(tool: &'t Tool, rest: &'r str) -> Option<(&'t Parameter, String, &'r str)> {
    let (name, after) = rest.split_once('=')?;
    let parameter = named(tool, name).or_else(|| named(tool, &name.replace('-', "_")))?;
    if let Some(quoted) = after.strip_prefix('"') {
        let (text, after) = quoted_text(quoted)?;
        return Some((parameter, text, after.trim_start()));
    }
    let end = after.find(char::is_whitespace).unwrap_or(after.len());
    Some((
        parameter,
        after[..end].to_owned(),
        after[end..].trim_start(),
    ))
}

fn named<'t>(tool: &'t Tool, name: &str) -> Option<&'t Parameter> {
    tool.parameters.iter().find(|it| it.name == name)
}

/// The text up to the closing quote, backslash escapes resolved, and what follows the quote.
fn quoted_text(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((text, &quoted[index + 1..])),
            '\\' => text.push(characters.next()?.1),
            _ => text.push(character),
        }
    }
    None
}

fn convert(parameter: &Parameter, text: &str) -> Result<Value, ToolFailure> {
    let converted = match parameter.kind {
        ParameterType::String => Some(Value::String(text.to_owned())),
        ParameterType::Boolean => match text {
            "true" | "t" | "yes" => Some(Value::Bool(true)),
            "false" | "nil" | "no" => Some(Value::Bool(false)),
            _ => None,
        },
        ParameterType::Integer => text.parse::<i64>().ok().map(Value::from),
        ParameterType::Number => text
            .parse::<f64>()
            .ok()
            .and_then(Number::from_f64)
            .map(Value::Number),
        ParameterType::Object | ParameterType::Array => serde_json::from_str(text)
            .ok()
            .filter(|_| exact::problems(text).is_none()),
    };
    converted.ok_or_else(|| {
        ToolFailure::new(format!(
            "{}: {text} can't be read as {}.",
            parameter.name,
            parameter.kind.name()
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::tool::Runner;
    use crate::trust::SafetyLevel;

    fn parsed(line: &str) -> Result<Value, String> {
        let registry = Registry::default();
        let text = ParameterType::String;
        registry.register(Tool::new(
            "eval_form",
            "Evaluate.",
            SafetyLevel::Cautious,
            &[],
            vec![
                Parameter::required("form", text, ""),
                Parameter::optional("package", text, ""),
                Parameter::optional("timeout", ParameterType::Integer, ""),
                Parameter::optional("read_only", ParameterType::Boolean, ""),
            ],
            Runner::Worker(Arc::new(|_| Ok(String::new()))),
        ));
        match parse(line, &registry)
            .map_err(|failure| failure.message)?
            .arguments
        {
            CallArguments::Object(arguments) => Ok(Value::Object(arguments)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_rest_fills_the_required_parameter() {
        assert_eq!(
            parsed("/eval_form (+ 1 2)").unwrap(),
            json!({"form": "(+ 1 2)"})
        );
        assert_eq!(parsed("/eval-form x=1").unwrap(), json!({"form": "x=1"}));
    }

    #[test]
    fn leading_words_fill_named_parameters() {
        assert_eq!(
            parsed(r#"/eval_form package="My \"App\"" timeout=3 (run)"#).unwrap(),
            json!({"package": "My \"App\"", "timeout": 3, "form": "(run)"})
        );
    }

    #[test]
    fn words_behind_the_rest_fill_named_parameters_too() {
        assert_eq!(
            parsed(r#"/eval_form (push 1 x) timeout=3 package="My App""#).unwrap(),
            json!({"timeout": 3, "package": "My App", "form": "(push 1 x)"})
        );
        assert_eq!(
            parsed("/eval_form (f 1) read-only=yes").unwrap(),
            json!({"read_only": true, "form": "(f 1)"})
        );
        assert_eq!(
            parsed("/eval_form package=a (f 1) timeout=3").unwrap(),
            json!({"package": "a", "timeout": 3, "form": "(f 1)"})
        );
        // What is in a form belongs to it, and so does what is no parameter.
        for form in [
            "(setf x timeout=3)",
            "(f \"a timeout=3\")",
            "(f #\\( timeout=3)",
            "(f) timeout=3 (g)",
            "x y=1",
        ] {
            let line = format!("/eval_form {form}");
            assert_eq!(parsed(&line).unwrap(), json!({"form": form}));
        }
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(
            parsed("/eval_from 1").unwrap_err(),
            "Unknown tool: eval_from. Did you mean eval_form?"
        );
        assert_eq!(
            parsed("/eval_form timeout=soon 1").unwrap_err(),
            "timeout: soon can't be read as integer."
        );
        assert!(parsed("/").unwrap_err().starts_with("Type a tool's name"));
    }
}
