// SPDX-License-Identifier: GPL-3.0-or-later
//! What the server says to a client's model by itself: its instructions, and the prompts that its user
//! can choose.

use serde_json::{Map, Value, json};

use super::protocol::{ResponseStyle, RpcError};

/// No longer than hosts pass on.
pub const INSTRUCTIONS: &str = include_str!("instructions.md");

const REPL_LOOP: &str = "Work in the running Lisp image, step by step: look up what you need (describe_symbol, find_definition, xref), try each expression with eval_form before you rely on it, change definitions with edit_definition or insert_definition, which compile them, and run the tests with run_tests. Report what you saw, not what you expect.";

const DEBUG_ERROR: &str = "Find the cause of the latest error in the running Lisp image. Read it with get_last_error; where its stack is alive, look into it with debugger_frames and evaluate in its frames. Say which value was wrong and where it came from. Then propose the smallest change, try it in the image, and run the failing form again.";

/// A prompt's name, what it is for, its words, and what its argument is about.
const PROMPTS: &[(&str, &str, &str, &str)] = &[
    (
        "repl_loop",
        "Solve a task in the running Lisp image, step by step",
        REPL_LOOP,
        "The task",
    ),
    (
        "debug_error",
        "Find the cause of the latest error in the running Lisp image",
        DEBUG_ERROR,
        "What you know of it already",
    ),
];

const ARGUMENT: &str = "task";

/// The prompts as `prompts/list` has them.
#[must_use]
pub fn prompts() -> Value {
    let prompts: Value = PROMPTS
        .iter()
        .map(|(name, description, _, about)| {
            json!({
                "name": name,
                "description": description,
                "arguments": [{"name": ARGUMENT, "description": about, "required": false}],
            })
        })
        .collect();
    json!({"prompts": prompts})
}

/// The prompt that PARAMS name.
///
/// # Errors
///
/// When there is none of that name.
pub fn prompt(params: &Map<String, Value>) -> Result<Value, RpcError> {
    let name = params.get("name").and_then(Value::as_str).unwrap_or("");
    let found = PROMPTS.iter().find(|(known, ..)| *known == name);
    let Some((_, description, words, _)) = found else {
        let known: Vec<&str> = PROMPTS.iter().map(|(name, ..)| *name).collect();
        return Err(RpcError::invalid_params(format!(
            "There is no prompt {name}; there are {}.",
            known.join(", ")
        )));
    };
    let task = params.get("arguments").and_then(|it| it.get(ARGUMENT));
    let text = match task.and_then(Value::as_str).map(str::trim) {
        None | Some("") => (*words).to_owned(),
        Some(task) => format!("{words}\n\n{task}"),
    };
    Ok(json!({
        "description": description,
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }))
}

/// The resources as `resources/list` has them.
#[must_use]
pub fn resources() -> Value {
    let resource = |name: &str, description: &str| {
        json!({
            "uri": format!("{SCHEME}{name}"),
            "name": name,
            "description": description,
            "mimeType": "text/plain",
        })
    };
    let resources = json!([
        resource("image", "The Lisp image: implementation, packages, systems"),
        resource("repl", "What the user evaluated lately, with results"),
        resource("error", "The latest error, with its backtrace"),
    ]);
    json!({"resources": resources})
}

const SCHEME: &str = "agent-q://";

/// The tool that has what the resource URI is about, for a request of STYLE.
///
/// # Errors
///
/// When there is no such resource.
pub fn tool_of_resource(uri: &str, style: ResponseStyle) -> Result<&'static str, RpcError> {
    match uri.strip_prefix(SCHEME) {
        Some("image") => Ok("image_status"),
        Some("repl") => Ok("get_repl_history"),
        Some("error") => Ok("get_last_error"),
        _ => Err(RpcError::resource_not_found(uri, style.missing_resource())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_are_short_enough_for_hosts() {
        assert!(INSTRUCTIONS.len() <= 2048, "{}", INSTRUCTIONS.len());
    }

    #[test]
    fn a_prompt_has_its_words_and_the_task() {
        let params = json!({"name": "debug_error", "arguments": {"task": "It began today."}});
        let prompt = prompt(params.as_object().unwrap()).unwrap();
        let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("get_last_error") && text.ends_with("\n\nIt began today."));
        let unknown = json!({"name": "x"});
        let error = super::prompt(unknown.as_object().unwrap()).unwrap_err();
        assert!(error.message.contains("repl_loop, debug_error"));
    }
}
