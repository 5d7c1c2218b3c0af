// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that a model wrote as text, as its server did not parse them: in the forms that the templates of
//! local models teach. Pure; `model_text` finds where they begin, `draft` makes calls of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::arguments::plain_name;
use super::history::{ChatMessage, ModelOrigin, calls_of};
use super::{ChatRequest, ToolChoice, WrittenCalls};

/// What the ids of such calls begin with. It tells them from calls of a server that parses its own.
pub const ID_PREFIX: &str = "written_";

/// The tools whose calls are read out of text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadableCalls(BTreeMap<String, Readable>);

/// What matters of a tool's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Readable {
    takes: Takes,
    /// Those that are no texts.
    others: Vec<String>,
}

/// Whether a tool has parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Arguments,
}

impl WrittenCalls {
    /// What such a text is in a chat with MESSAGES, all that it ever had, whose next reply is of ORIGIN: a quotation
    /// if that host has parsed a call there.
    pub fn in_chat<'m>(
        mut messages: impl Iterator<Item = &'m ChatMessage>,
        origin: &ModelOrigin,
    ) -> Self {
        let parsed = |message: &ChatMessage| match message {
            ChatMessage::Assistant { origin: who, parts } => {
                who.host == origin.host
                    && calls_of(parts).any(|call| !call.id.starts_with(ID_PREFIX))
            }
            _ => false,
        };
        match messages.any(parsed) {
            true => Self::Quoted,
            false => Self::Meant,
        }
    }
}

impl ReadableCalls {
    /// Those of REQUEST.
    #[must_use]
    pub fn of(request: &ChatRequest) -> Self {
        if request.tool_choice == ToolChoice::None || request.written == WrittenCalls::Quoted {
            return Self::default();
        }
        Self(request.tools.iter().filter_map(readable).collect())
    }

    /// Those of tools called NAMES, without parameters.
    #[cfg(test)]
    #[must_use]
    pub fn of_names(names: &[&str]) -> Self {
        let tool = |name: &&str| readable(&serde_json::json!({"name": name}));
        Self(names.iter().filter_map(tool).collect())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The calls that TEXT is; none unless it is nothing else, and each is of one of these tools.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<Vec<WrittenCall>> {
        let text = text.replace(DSML, "");
        let mut calls = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            rest = match after_sign(rest) {
                Some(behind) => behind,
                None => self.one(rest, &mut calls)?,
            }
            .trim_start();
        }
        (!calls.is_empty()).then_some(calls)
    }

    /// Reads the calls at the beginning of TEXT into CALLS; gives what is behind them.
    fn one<'t>(&self, text: &'t str, calls: &mut Vec<WrittenCall>) -> Option<&'t str> {
        if let Some((form, rest)) = ELEMENTS
            .iter()
            .find_map(|form| Some((form, text.strip_prefix(form.open)?)))
        {
            let (name, rest) = rest.split_once(form.named)?;
            let (body, rest) = match rest.split_once(form.close) {
                Some(both) => both,
                // Its end may be missing, but not its arguments.
                None if !rest.trim().is_empty() => (rest, ""),
                None => return None,
            };
            calls.push(self.call(name, &self.body(name, body, form.parameter)?)?);
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
        if text.starts_with(is_of_name) {
            return self.named(text, calls);
        }
        let inside = text.strip_prefix('[').map(str::trim_start);
        if let Some(mut rest) = inside.filter(|it| it.starts_with(is_of_name)) {
            loop {
                rest = self.named(rest, calls)?.trim_start();
                match rest.strip_prefix(',') {
                    Some(next) => rest = next.trim_start(),
                    None => return rest.strip_prefix(']'),
                }
            }
        }
        let (value, rest) = first_value(text)?;
        self.said(&value, calls)?;
        Some(rest)
    }

    /// Reads the call at the beginning of TEXT, which begins with its name.
    fn named<'t>(&self, text: &'t str, calls: &mut Vec<WrittenCall>) -> Option<&'t str> {
        let end = text.find(|it| !is_of_name(it)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let rest = match rest.strip_prefix("[CALL_ID]") {
            Some(id) => &id[id.find('[')?..],
            None => rest,
        };
        let rest = rest.strip_prefix("[ARGS]").unwrap_or(rest).trim_start();
        let (arguments, rest) = if let Some(inside) = rest.strip_prefix('(') {
            python_arguments(inside)?
        } else if rest.starts_with("<arg_key>") {
            self.pairs(name, rest)?
        } else if after_signs(rest).starts_with('{') {
            first_value(after_signs(rest))?
        } else if self.tool(name)?.1.takes == Takes::Nothing {
            (Map::new().into(), rest)
        } else {
            return None;
        };
        calls.push(self.call(name.strip_suffix(".call").unwrap_or(name), &arguments)?);
        Some(rest)
    }

    /// Reads the calls that a JSON value says.
    fn said(&self, value: &Value, calls: &mut Vec<WrittenCall>) -> Option<()> {
        if let Some(list) = value.get("tool_calls").or(Some(value))?.as_array() {
            return list
                .iter()
                .try_for_each(|element| self.said(element, calls));
        }
        let function = match value.get("function") {
            Some(function @ Value::Object(_)) => function,
            _ => value,
        };
        let field = |names: &[&str]| names.iter().find_map(|name| function.get(name));
        let name = field(&["name", "tool_name", "tool", "function"])?.as_str()?;
        let arguments = field(&["arguments", "parameters", "args", "input"])?;
        calls.push(self.call(name, arguments)?);
        Some(())
    }

    fn call(&self, name: &str, arguments: &Value) -> Option<WrittenCall> {
        let (name, _) = self.tool(name)?;
        let arguments = match arguments {
            Value::Object(_) => arguments.to_string(),
            Value::String(text) if !text.trim().is_empty() => text.clone(),
            _ => return None,
        };
        Some(WrittenCall {
            name: name.to_owned(),
            arguments,
        })
    }

    /// The tool that NAME means.
    fn tool(&self, name: &str) -> Option<(&str, &Readable)> {
        let plain = plain_name(name).replace('-', "_");
        let (name, readable) = self.0.get_key_value(&plain)?;
        Some((name, readable))
    }

    /// The arguments of a call of NAME in BODY: JSON, or an element for each that begins with OPEN.
    fn body(&self, name: &str, body: &str, open: &str) -> Option<Value> {
        let mut rest = body.trim();
        if rest.starts_with('{') {
            let (arguments, behind) = first_value(rest)?;
            return behind.trim().is_empty().then_some(arguments);
        }
        let mut arguments = Map::new();
        while !rest.is_empty() {
            let (parameter, after) = rest.strip_prefix(open)?.split_once('>')?;
            // Others of its attributes say nothing that the tool's schema doesn't.
            let parameter = parameter.split('"').next()?.trim();
            let (text, after) = after.split_once("</parameter>")?;
            arguments.insert(parameter.to_owned(), self.value(name, parameter, text)?);
            rest = after.trim_start();
        }
        Some(arguments.into())
    }

    /// The arguments of a call of NAME at the beginning of TEXT, each a key and a value, and what is behind them.
    fn pairs<'t>(&self, name: &str, text: &'t str) -> Option<(Value, &'t str)> {
        let mut arguments = Map::new();
        let mut rest = text;
        while let Some(key) = rest.strip_prefix("<arg_key>") {
            let (key, after) = key.split_once("</arg_key>")?;
            let value = after.trim_start().strip_prefix("<arg_value>")?;
            let (value, after) = value.split_once("</arg_value>")?;
            arguments.insert(key.trim().to_owned(), self.value(name, key.trim(), value)?);
            rest = after.trim_start();
        }
        Some((arguments.into(), rest))
    }

    /// What TEXT says for PARAMETER of the tool NAME.
    fn value(&self, name: &str, parameter: &str, text: &str) -> Option<Value> {
        let (_, readable) = self.tool(name)?;
        let text = text.strip_prefix('\n').unwrap_or(text);
        let text = text.strip_suffix('\n').unwrap_or(text);
        let other = readable.others.iter().any(|it| it == parameter);
        let value = other.then(|| serde_json::from_str(text.trim()).ok());
        Some(value.flatten().unwrap_or_else(|| text.into()))
    }

    /// Whether TEXT begins with a call. What it begins with decides, so that more text never changes it.
    #[must_use]
    pub fn start(&self, text: &str) -> CallStart {
        let plain;
        let text = match text.starts_with("<｜") && text.contains(DSML) {
            true => {
                plain = text.replace(DSML, "");
                plain.as_str()
            }
            false => text,
        };
        if text.starts_with('{') || text.starts_with('[') && !text.starts_with("[TOOL_CALLS]") {
            return self
                .bare_start(text)
                .or(begins_any(text, &["[TOOL_CALLS]"]));
        }
        let (mut rest, mut signs) = (text, 0);
        while let Some(behind) = after_sign(rest).filter(|_| signs > 0 || begins_by_sign(rest)) {
            signs += 1;
            rest = behind.trim_start();
        }
        let openers = NAMED.iter().map(|(open, _)| *open);
        let openers: Vec<&str> = openers
            .chain(ELEMENTS.iter().map(|form| form.open))
            .collect();
        let opener = begins_any(rest, &openers);
        if signs == 0 {
            let dsml = begins_any(text, &["<｜DSML｜"]);
            let unclear = begins_any(text, FIRST_SIGNS) == CallStart::Unclear;
            return match unclear || dsml == CallStart::Unclear {
                true => opener.or(CallStart::Unclear),
                false => opener,
            };
        }
        if rest.is_empty() || begins_any(rest, &SIGNS) == CallStart::Unclear {
            return opener.or(CallStart::Unclear);
        }
        match rest.chars().next() {
            Some('{') => CallStart::Yes,
            Some('[') if rest[1..].trim_start().is_empty() => CallStart::Unclear,
            Some('[') if rest[1..].trim_start().starts_with(['{', '"']) => CallStart::Yes,
            Some('[') => self.name_start(rest[1..].trim_start()),
            Some(first) if is_of_name(first) => self.name_start(rest),
            _ => opener,
        }
    }

    /// Whether TEXT, JSON or a list of Python without any sign, begins with a call of one of these tools.
    fn bare_start(&self, text: &str) -> CallStart {
        let list = text.strip_prefix('[').map(str::trim_start);
        if let Some(first) = list.filter(|it| !it.starts_with('{')) {
            return match first.starts_with(is_of_name) {
                true => self.name_start(first),
                false if first.is_empty() => CallStart::Unclear,
                false => CallStart::No,
            };
        }
        let object = list.unwrap_or(text);
        let Some(field) = object.strip_prefix('{').map(str::trim_start) else {
            return CallStart::No;
        };
        let found = begins_any(field, &FIRST_FIELDS);
        if found != CallStart::Yes {
            return found;
        }
        // Where its name comes first, it has to be the name of a tool.
        let named = |it: &&&str| field.starts_with(**it);
        let Some(key) = FIRST_FIELDS[..NAME_FIELDS].iter().find(named) else {
            return CallStart::Yes;
        };
        let value = field[key.len()..].trim_start();
        let value = value.strip_prefix(':').unwrap_or(value).trim_start();
        match value.strip_prefix('"').map(|it| (it, it.find('"'))) {
            Some((name, Some(end))) if self.tool(&name[..end]).is_some() => CallStart::Yes,
            Some((_, Some(_))) => CallStart::No,
            Some((name, None)) if name.len() > LONGEST_NAME => CallStart::No,
            Some((_, None)) => CallStart::Unclear,
            None if value.is_empty() => CallStart::Unclear,
            None => CallStart::No,
        }
    }

    /// Whether TEXT begins with the name of one of these tools and its arguments.
    fn name_start(&self, text: &str) -> CallStart {
        let end = text.find(|it| !is_of_name(it));
        let name = &text[..end.unwrap_or(text.len())];
        match end {
            None if name.len() > LONGEST_NAME => CallStart::No,
            None => CallStart::Unclear,
            Some(_)
                if self
                    .tool(name.strip_suffix(".call").unwrap_or(name))
                    .is_some() =>
            {
                CallStart::Yes
            }
            Some(_) => CallStart::No,
        }
    }
}

/// A call, with the text of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenCall {
    pub name: String,
    pub arguments: String,
}

/// The name of the tool with the schema TOOL, and what matters of its parameters.
fn readable(tool: &Value) -> Option<(String, Readable)> {
    let function = tool.get("function").unwrap_or(tool);
    let name = function.get("name")?.as_str()?.to_owned();
    let properties = function.pointer("/parameters/properties");
    let properties = properties.and_then(Value::as_object);
    let takes = match properties.is_none_or(Map::is_empty) {
        true => Takes::Nothing,
        false => Takes::Arguments,
    };
    let others = properties
        .into_iter()
        .flatten()
        .filter(|(_, schema)| schema.get("type").is_some_and(|kind| kind != "string"))
        .map(|(name, _)| name.clone());
    let others = others.collect();
    Some((name, Readable { takes, others }))
}

/// What DeepSeek puts before the names of its elements.
const DSML: &str = "｜DSML｜";

/// What stands around calls and between them; the first of them can stand at the beginning.
const SIGNS: [&str; 42] = [
    "<tool_call>",
    "<tool_calls>",
    "<function_calls>",
    "<function_call>",
    "<functioncall>",
    "<minimax:tool_call>",
    "<seed:tool_call>",
    "<tools>",
    "<TOOLCALL>",
    "[TOOL_CALLS]",
    "<|tool_calls_section_begin|>",
    "<|tool_call_section_begin|>",
    "<｜tool▁calls▁begin｜>",
    "<|tool_call|>",
    "<|tool_call>",
    "<|tool_call_start|>",
    "<|python_tag|>",
    "<|python_start|>",
    "<|action_start|>",
    "<|START_ACTION|>",
    "<|plugin|>",
    "</tool_call>",
    "</tool_calls>",
    "</function_calls>",
    "</function_call>",
    "</functioncall>",
    "</minimax:tool_call>",
    "</seed:tool_call>",
    "</tools>",
    "</TOOLCALL>",
    "<|tool_calls_section_end|>",
    "<|tool_call_section_end|>",
    "<|tool_call_end|>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁end｜>",
    "<|/tool_call|>",
    "<tool_call|>",
    "<|python_end|>",
    "<|action_end|>",
    "<|END_ACTION|>",
    "<|start|>assistant",
    "```",
];

/// The signs that a call begins with.
const FIRST_SIGNS: &[&str] = SIGNS.split_at(21).0;

/// What templates end a message with.
const LAST_SIGNS: [&str; 6] = [
    "<|call|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<｜end▁of▁sentence｜>",
    "</s>",
];

/// What stands before a call's name, and what between it and the arguments.
const NAMED: [(&str, &str); 10] = [
    ("<|tool_call_begin|>", "<|tool_call_argument_begin|>"),
    ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n"),
    ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"),
    ("<|channel|>commentary to=", "<|message|>"),
    ("<|channel|>analysis to=", "<|message|>"),
    ("<|start|>assistant<|channel|>commentary to=", "<|message|>"),
    ("<|start|>assistant to=functions.", "<|message|>"),
    ("to=functions.", "<|message|>"),
    ("commentary to=functions.", " "),
    ("assistantcommentary to=functions.", " "),
];

/// An element that is a call.
struct CallElement {
    open: &'static str,
    /// What is behind the name.
    named: &'static str,
    close: &'static str,
    /// What each parameter begins with.
    parameter: &'static str,
}

const ELEMENTS: [CallElement; 4] = [
    CallElement {
        open: "<function=",
        named: ">",
        close: "</function>",
        parameter: "<parameter=",
    },
    CallElement {
        open: "<function(",
        named: ")>",
        close: "</function>",
        parameter: "<parameter=",
    },
    CallElement {
        open: "<invoke name=\"",
        named: "\">",
        close: "</invoke>",
        parameter: "<parameter name=\"",
    },
    CallElement {
        open: "<xai:function_call name=\"",
        named: "\">",
        close: "</xai:function_call>",
        parameter: "<parameter name=\"",
    },
];

/// The first fields of an object that is a call. The first of them are its name.
const FIRST_FIELDS: [&str; 9] = [
    "\"name\"",
    "\"tool_name\"",
    "\"tool\"",
    "\"type\"",
    "\"function\"",
    "\"tool_calls\"",
    "\"tool_call_id\"",
    "\"arguments\"",
    "\"parameters\"",
];

const NAME_FIELDS: usize = 3;

/// No tool has a longer name.
const LONGEST_NAME: usize = 100;

/// Whether a text begins with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStart {
    Yes,
    No,
    /// It depends on what follows.
    Unclear,
}

impl CallStart {
    /// This, or OTHER where this says no.
    fn or(self, other: Self) -> Self {
        match self {
            Self::No => other,
            known => known,
        }
    }
}

/// Whether TEXT begins with one of BEGINNINGS.
fn begins_any(text: &str, beginnings: &[&str]) -> CallStart {
    if beginnings.iter().any(|whole| text.starts_with(whole)) {
        CallStart::Yes
    } else if beginnings.iter().any(|whole| whole.starts_with(text)) {
        CallStart::Unclear
    } else {
        CallStart::No
    }
}

fn begins_by_sign(text: &str) -> bool {
    begins_any(text, FIRST_SIGNS) == CallStart::Yes
}

/// What is behind the sign at the beginning of TEXT.
fn after_sign(text: &str) -> Option<&str> {
    let mut signs = SIGNS.iter().chain(&LAST_SIGNS);
    let named = NAMED.iter().any(|(start, _)| text.starts_with(start));
    signs
        .find_map(|sign| text.strip_prefix(sign))
        .filter(|_| !named)
}

fn is_of_name(it: char) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.' | ':' | '/')
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
    text.strip_prefix("json").unwrap_or(text).trim_start()
}

/// The JSON value at the beginning of TEXT, and what is behind it.
fn first_value(text: &str) -> Option<(Value, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let end = values.byte_offset();
    Some((value, &text[end..]))
}

// Arguments as in a call of Python, `text="a", count=3`, which some models write.

/// How deep lists in lists are read.
const DEEPEST: usize = 20;

/// The arguments at the beginning of TEXT, which is behind a call's open parenthesis, and what is behind the
/// closing one.
#[must_use]
fn python_arguments(text: &str) -> Option<(Value, &str)> {
    let mut arguments = Map::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(behind) = rest.strip_prefix(')') {
            return Some((arguments.into(), behind));
        }
        let (name, after) = rest.split_once('=')?;
        let name = name.trim();
        let is_name = |it: char| it.is_alphanumeric() || it == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        let (value, after) = value(after, DEEPEST)?;
        if arguments.insert(name.to_owned(), value).is_some() {
            return None;
        }
        rest = next(after, ')')?;
    }
}

/// The value at the beginning of TEXT, and what is behind it.
fn value(text: &str, depth: usize) -> Option<(Value, &str)> {
    let text = text.trim_start();
    match text.chars().next()? {
        '"' | '\'' => string(text),
        '[' if depth > 0 => {
            let (mut list, mut rest) = (Vec::new(), text[1..].trim_start());
            while !rest.starts_with(']') {
                let (element, after) = value(rest, depth - 1)?;
                list.push(element);
                rest = next(after, ']')?;
            }
            Some((list.into(), &rest[1..]))
        }
        '{' if depth > 0 => {
            let (mut object, mut rest) = (Map::new(), text[1..].trim_start());
            while !rest.starts_with('}') {
                let (name, after) = string(rest)?;
                let (element, after) = value(after.trim_start().strip_prefix(':')?, depth - 1)?;
                object.insert(name.as_str()?.to_owned(), element);
                rest = next(after, '}')?;
            }
            Some((object.into(), &rest[1..]))
        }
        _ => {
            let end = text.find([',', ')', ']', '}'])?;
            let word = match text[..end].trim_end() {
                "None" => "null",
                "True" => "true",
                "False" => "false",
                word => word,
            };
            Some((serde_json::from_str(word).ok()?, &text[end..]))
        }
    }
}

/// What is behind the comma that separates a value from another; TEXT itself where CLOSE comes.
fn next(text: &str, close: char) -> Option<&str> {
    let text = text.trim_start();
    match text.strip_prefix(',') {
        Some(rest) => Some(rest.trim_start()),
        None => text.starts_with(close).then_some(text),
    }
}

/// The string at the beginning of TEXT, and what is behind it.
fn string(text: &str) -> Option<(Value, &str)> {
    let quote = text.chars().next().filter(|it| matches!(it, '"' | '\''))?;
    let mut said = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((place, character)) = characters.next() {
        match character {
            _ if character == quote => return Some((said.into(), &text[place + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => said.push('\n'),
                't' => said.push('\t'),
                'r' => said.push('\r'),
                escaped @ ('\\' | '\'' | '"') => said.push(escaped),
                // Others are too seldom to be guessed at.
                _ => return None,
            },
            other => said.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

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
            "<tool_call>look\n<arg_key>text</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
            "<minimax:tool_call>\n<invoke name=\"look\">\n<parameter name=\"text\">a</parameter>\n</invoke>\n</minimax:tool_call>",
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"look\">\n<｜DSML｜parameter name=\"text\" string=\"true\">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            "[look(text=\"a\")]",
            "<|python_start|>[look(text='a')]<|python_end|>",
            "<|tool_call_start|>[look(text=\"a\")]<|tool_call_end|>",
            "<function_calls>\nlook(text=\"a\")\n</function_calls>",
            "<|python_tag|>look.call(text=\"a\")<|eom_id|>",
            "<|tool_call|>[{\"name\": \"look\", \"arguments\": {\"text\": \"a\"}}]<|/tool_call|>",
            "<TOOLCALL>[{\"name\": \"look\", \"arguments\": {\"text\": \"a\"}}]</TOOLCALL>",
            "[{\"name\": \"look\", \"arguments\": {\"text\": \"a\"}}]",
            "<|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"look\", \"parameters\": {\"text\": \"a\"}}\n]<|END_ACTION|>",
            "<|action_start|><|plugin|>\n{\"name\": \"look\", \"parameters\": {\"text\": \"a\"}}<|action_end|>",
            "<tool_calls>\n<tool_call>look\n```json\n{\"text\": \"a\"}\n```\n</tool_call>\n</tool_calls>",
            "<seed:tool_call>\n<function=look>\n<parameter=text>a</parameter>\n</function>\n</seed:tool_call>",
            "<|start|>assistant to=functions.look<|channel|>commentary json<|message|>{\"text\": \"a\"}<|call|>",
            "assistantcommentary to=functions.look json{\"text\": \"a\"}",
            "<|tool_call_section_begin|><|tool_call_begin|>functions.look:12<|tool_call_argument_begin|>{\"text\": \"a\"}<|tool_call_end|><|tool_call_section_end|>",
            "[TOOL_CALLS]look[CALL_ID]abcdefghi[ARGS]{\"text\": \"a\"}",
            "<functioncall> {\"name\": \"look\", \"arguments\": \"{\\\"text\\\": \\\"a\\\"}\"}</s>",
            "<tools>\n{\"name\": \"look\", \"arguments\": {\"text\": \"a\"}}\n</tools>",
            "<xai:function_call name=\"look\">\n<parameter name=\"text\">a</parameter>\n</xai:function_call>",
            "{\"tool_calls\": [{\"id\": \"x\", \"type\": \"function\", \"function\": {\"name\": \"look\", \"arguments\": {\"text\": \"a\"}}}]}",
        ] {
            assert_eq!(readable_calls().start(text), CallStart::Yes, "{text}");
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
            // Its arguments may be lost.
            "<function=look>",
            "<tool_call>look\n</tool_call>",
            "<function=look>\n<parameter=text>\na",
            "[TOOL_CALLS]look[ARGS]",
            "{\"name\": \"look\", \"arguments\": \"\"}",
            "[look(text=\"a\"), other()]",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn arguments_of_python_are_read() {
        for (text, expected) in [
            (")", json!({})),
            ("text=\"a\")", json!({"text": "a"})),
            (
                "text='it\\'s', n=-3, b=True)",
                json!({"text": "it's", "n": -3, "b": true}),
            ),
            (
                "l=['a', None], o={'k': [1.5,],})",
                json!({"l": ["a", null], "o": {"k": [1.5]}}),
            ),
        ] {
            assert_eq!(python_arguments(text), Some((expected, "")), "{text}");
        }
        assert_eq!(
            python_arguments("a=1) more"),
            Some((json!({"a": 1}), " more"))
        );
    }

    #[test]
    fn what_is_cut_or_computed_is_none() {
        for text in [
            "",
            "text=\"a",
            "text=\"a\"",
            "\"a\")",
            "a=b)",
            "a=1, a=2)",
            "a=f(x))",
            "a=[1)",
            "a=\"\\x41\")",
        ] {
            assert_eq!(python_arguments(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "(a|=|'|\"|\\[|\\{|\\}|\\]|,|:|\\)|1| |\\\\|é){0,24}") {
            let _ = python_arguments(&text);
        }
    }
}
