// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that a model wrote as text, as its server did not parse them: in the forms that the templates of
//! local models teach. Pure; `model_text` finds where they begin, `draft` makes calls of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::arguments::plain_name;
use super::history::{ChatMessage, ModelOrigin, calls_of};
use super::{ChatRequest, ToolChoice};

/// What the ids of such calls begin with. It tells them from calls of a server that parses its own.
pub const ID_PREFIX: &str = "written_";

/// The tools whose calls are read out of text: their names, each with its parameters that are no texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadableCalls(BTreeMap<String, Vec<String>>);

impl ReadableCalls {
    /// Those of REQUEST to ORIGIN. None are read from a host that has parsed a call in this conversation: there,
    /// such a text is a quotation.
    #[must_use]
    pub fn of(request: &ChatRequest, origin: &ModelOrigin) -> Self {
        let parses = |message: &ChatMessage| match message {
            ChatMessage::Assistant { origin: who, parts } => {
                who.host == origin.host
                    && calls_of(parts).any(|call| !call.id.starts_with(ID_PREFIX))
            }
            _ => false,
        };
        if request.tool_choice == ToolChoice::None || request.messages.iter().any(parses) {
            return Self::default();
        }
        Self(request.tools.iter().filter_map(readable).collect())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The calls that TEXT is; none unless it is nothing else, and each is of one of these tools.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<Vec<WrittenCall>> {
        let mut calls = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            rest = match SIGNS.iter().find_map(|sign| rest.strip_prefix(sign)) {
                Some(behind) => behind,
                None => self.one(rest, &mut calls)?,
            }
            .trim_start();
        }
        (!calls.is_empty()).then_some(calls)
    }

    /// Reads the calls at the beginning of TEXT into CALLS; gives what is behind them.
    fn one<'t>(&self, text: &'t str, calls: &mut Vec<WrittenCall>) -> Option<&'t str> {
        if let Some(rest) = text.strip_prefix("<function=") {
            let (name, rest) = rest.split_once('>')?;
            let (body, rest) = rest.split_once("</function>").unwrap_or((rest, ""));
            calls.push(self.call(name, &self.body(name, body, "<parameter=", ">")?)?);
            return Some(rest);
        }
        if let Some(rest) = text.strip_prefix("<invoke name=\"") {
            let (name, rest) = rest.split_once("\">")?;
            let (body, rest) = rest.split_once("</invoke>")?;
            calls.push(self.call(name, &self.body(name, body, "<parameter name=\"", "\">")?)?);
            return Some(rest);
        }
        for (start, separator) in NAMED {
            if let Some(rest) = text.strip_prefix(start) {
                let (name, rest) = rest.split_once(separator)?;
                let (arguments, rest) = first_value(after_signs(rest))?;
                calls.push(self.call(name, &arguments)?);
                return Some(rest);
            }
        }
        // A name right before its arguments, as newer models of Mistral write them.
        if text.starts_with(|it: char| it.is_ascii_alphabetic()) {
            let brace = text.find('{')?;
            let (arguments, rest) = first_value(&text[brace..])?;
            let name = &text[..brace];
            calls.push(self.call(name.strip_suffix("[ARGS]").unwrap_or(name), &arguments)?);
            return Some(rest);
        }
        let (value, rest) = first_value(text)?;
        match value {
            Value::Array(elements) => {
                for element in &elements {
                    calls.push(self.said(element)?);
                }
            }
            value => calls.push(self.said(&value)?),
        }
        Some(rest)
    }

    /// The call that a JSON object says.
    fn said(&self, object: &Value) -> Option<WrittenCall> {
        let function = match object.get("function") {
            Some(function @ Value::Object(_)) => function,
            _ => object,
        };
        let name = function
            .get("name")
            .or_else(|| object.get("function"))?
            .as_str()?;
        let arguments = ["arguments", "parameters", "args", "input"]
            .iter()
            .find_map(|field| function.get(field))?;
        self.call(name, arguments)
    }

    fn call(&self, name: &str, arguments: &Value) -> Option<WrittenCall> {
        let name = self.name(name)?;
        let arguments = match arguments {
            Value::Object(_) => arguments.to_string(),
            Value::String(text) => text.clone(),
            _ => return None,
        };
        Some(WrittenCall {
            name: name.to_owned(),
            arguments,
        })
    }

    /// The tool that NAME means, which may have a number behind it.
    fn name(&self, name: &str) -> Option<&str> {
        let plain = plain_name(name.trim().trim_matches('"'));
        let plain = plain.split_once(':').map_or(plain, |(name, _)| name);
        let plain = plain.replace('-', "_");
        self.0.get_key_value(&plain).map(|(name, _)| name.as_str())
    }

    /// The arguments of a call of NAME in BODY: JSON, or an element for each.
    fn body(&self, name: &str, body: &str, open: &str, close: &str) -> Option<Value> {
        let mut rest = body.trim();
        if rest.starts_with('{') {
            let (arguments, behind) = first_value(rest)?;
            return behind.trim().is_empty().then_some(arguments);
        }
        let others = self.0.get(self.name(name)?)?;
        let mut arguments = Map::new();
        while !rest.is_empty() {
            let (parameter, after) = rest.strip_prefix(open)?.split_once(close)?;
            let (text, after) = after.split_once("</parameter>")?;
            let text = text.strip_prefix('\n').unwrap_or(text);
            let text = text.strip_suffix('\n').unwrap_or(text);
            let value = match others.iter().any(|it| it == parameter) {
                true => serde_json::from_str(text.trim()).ok(),
                false => None,
            };
            arguments.insert(parameter.to_owned(), value.unwrap_or_else(|| text.into()));
            rest = after.trim_start();
        }
        Some(arguments.into())
    }
}

/// A call, with the text of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenCall {
    pub name: String,
    pub arguments: String,
}

/// The name of the tool with the schema TOOL, and its parameters that are no texts.
fn readable(tool: &Value) -> Option<(String, Vec<String>)> {
    let function = tool.get("function").unwrap_or(tool);
    let name = function.get("name")?.as_str()?.to_owned();
    let properties = function.pointer("/parameters/properties");
    let properties = properties.and_then(Value::as_object).into_iter().flatten();
    let others = properties
        .filter(|(_, schema)| schema.get("type").is_some_and(|kind| kind != "string"))
        .map(|(name, _)| name.clone());
    Some((name, others.collect()))
}

/// What stands around calls and between them.
const SIGNS: [&str; 21] = [
    "<tool_call>",
    "</tool_call>",
    "<tool_calls>",
    "</tool_calls>",
    "<function_calls>",
    "</function_calls>",
    "[TOOL_CALLS]",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_end|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁end｜>",
    "<|python_tag|>",
    "<|start|>assistant",
    "<|call|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "</s>",
    "```",
];

/// What stands before a call's name, and what between it and the arguments.
const NAMED: [(&str, &str); 5] = [
    ("<|tool_call_begin|>", "<|tool_call_argument_begin|>"),
    ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n"),
    ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"),
    ("<|channel|>commentary to=", "<|message|>"),
    ("commentary to=functions.", " "),
];

/// Whether a text begins with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStart {
    Yes,
    No,
    /// It depends on what follows.
    Unclear,
}

/// What a call begins with.
const BEGINNINGS: [&str; 14] = [
    "<tool_call>",
    "<tool_calls>",
    "<function=",
    "<function_calls>",
    "<invoke name=",
    "[TOOL_CALLS]",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<|python_tag|>",
    "<|channel|>commentary to=",
    "<|start|>assistant<|channel|>commentary to=",
    "commentary to=functions.",
];

/// The first fields of an object that is a call.
const FIRST_FIELDS: [&str; 3] = ["\"name\"", "\"type\"", "\"function\""];

/// Whether TEXT begins with a call.
#[must_use]
pub fn call_start(text: &str) -> CallStart {
    let may = |whole: &str, text: &str| match (text.starts_with(whole), whole.starts_with(text)) {
        (true, _) => CallStart::Yes,
        (false, true) => CallStart::Unclear,
        (false, false) => CallStart::No,
    };
    let field = text.strip_prefix('{').map(str::trim_start);
    let found = BEGINNINGS.iter().map(|whole| may(whole, text)).chain(
        FIRST_FIELDS
            .iter()
            .filter_map(|name| Some(may(name, field?))),
    );
    found
        .min_by_key(|it| match it {
            CallStart::Yes => 0,
            CallStart::Unclear => 1,
            CallStart::No => 2,
        })
        .unwrap_or(CallStart::No)
}

/// Whether TEXT, which begins like a call, ends like one, too.
#[must_use]
pub fn ends_like_a_call(text: &str) -> bool {
    text.trim_end().ends_with(['}', ']', '>'])
}

/// TEXT without a language or a fence before the arguments.
fn after_signs(text: &str) -> &str {
    let text = text.trim_start();
    let text = text.strip_prefix("```").unwrap_or(text);
    text.strip_prefix("json").unwrap_or(text)
}

/// The JSON value at the beginning of TEXT, and what is behind it.
fn first_value(text: &str) -> Option<(Value, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let end = values.byte_offset();
    Some((value, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn readable_calls() -> ReadableCalls {
        let tool = |name: &str| {
            json!({"type": "function", "function": {"name": name, "parameters": {"type": "object",
                "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}}})
        };
        ReadableCalls(
            [tool("look"), tool("say")]
                .iter()
                .filter_map(readable)
                .collect(),
        )
    }

    fn read(text: &str) -> Option<Vec<(String, Value)>> {
        let calls = readable_calls().read(text)?;
        let pair = |call: WrittenCall| (call.name, serde_json::from_str(&call.arguments).unwrap());
        Some(calls.into_iter().map(pair).collect())
    }

    #[test]
    fn the_forms_of_templates_are_read() {
        for text in [
            "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"text\": \"a\"}}\n</tool_call>",
            "<tool_call>{\"name\": \"look\", \"arguments\": {\"text\": \"a\"}}",
            "<function=look>\n<parameter=text>\na\n</parameter>\n</function>\n</tool_call>",
            "<tool_call>\n<function=look>\n<parameter=text>a</parameter>\n</function>\n</tool_call>",
            "<function=look>{\"text\": \"a\"}</function>",
            "<function_calls><invoke name=\"look\"><parameter name=\"text\">a</parameter></invoke></function_calls>",
            "[TOOL_CALLS][{\"name\": \"look\", \"arguments\": {\"text\": \"a\"}}]",
            "[TOOL_CALLS]look[ARGS]{\"text\": \"a\"}",
            "[TOOL_CALLS]look{\"text\": \"a\"}",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"text\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{\"text\": \"a\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{\"text\": \"a\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "<|python_tag|>{\"name\": \"look\", \"parameters\": {\"text\": \"a\"}}<|eom_id|>",
            "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"text\": \"a\"}<|call|>",
            "<|start|>assistant<|channel|>commentary to=functions.look<|message|>{\"text\": \"a\"}",
            "commentary to=functions.look json{\"text\": \"a\"}",
            "{\"name\": \"look\", \"parameters\": {\"text\": \"a\"}}",
            "{\"type\": \"function\", \"function\": {\"name\": \"look\", \"arguments\": \"{\\\"text\\\": \\\"a\\\"}\"}}",
            "{\"type\": \"function\", \"name\": \"look\", \"parameters\": {\"text\": \"a\"}}",
        ] {
            assert_eq!(call_start(text), CallStart::Yes, "{text}");
            assert_eq!(
                read(text),
                Some(vec![("look".to_owned(), json!({"text": "a"}))]),
                "{text}"
            );
        }
        assert_eq!(
            read(
                "<function=look><parameter=count>3</parameter><parameter=text>3</parameter></function>"
            ),
            Some(vec![("look".to_owned(), json!({"count": 3, "text": "3"}))])
        );
        let two = "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"say\", \"arguments\": {}}</tool_call>";
        assert_eq!(read(two).map(|calls| calls.len()), Some(2));
    }

    #[test]
    fn what_is_not_only_calls_of_these_tools_is_none() {
        for text in [
            "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
            "<tool_call>{\"name\": \"look\", \"arguments\": {}}</tool_call> and so on",
            "<tool_call>{\"name\": \"look\", \"argum",
            "<tool_call> is a tag.",
            "<tool_call></tool_call>",
            "{\"name\": \"look\"}",
            "{\"name\": \"look\", \"arguments\": 3}",
            "[TOOL_CALLS]",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
