// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools for the user's buffers. Emacs serves them on its own thread: reading straight through
//! the Env (`bridge::buffers`), the others in Emacs Lisp (`lisp/agent-q-buffers.el`).

use std::sync::Arc;

use serde_json::{Value, json};

use super::change::{LiveBuffer, Save, change_buffer};
use crate::protocol::{EmacsRequest, ReadBuffer};
use crate::tool::work::{Running, WorkContext, read_reply, to_the_end};
use crate::tool::{
    Arguments, EmacsTool, OperationTool, Parameter, ParameterType, Returns, Runner, Tool,
    ToolFailure,
};
use crate::trust::SafetyLevel;
use crate::workspace::journal::{ChangedPlace, ContentState, Disk, JournalEntry};

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        read_buffer(),
        write_to_buffer(),
        search_in_buffer(),
        list_buffers(),
        buffer_outline(),
    ]
}

/// TOOL, which is about the buffer of its parameter `buffer`.
fn about_a_buffer(tool: Tool) -> Tool {
    Tool {
        buffer: Some("buffer"),
        ..tool
    }
}

fn read_buffer() -> Tool {
    about_a_buffer(Tool::new(
        "read_buffer",
        "Read an Emacs buffer, including unsaved changes. Long buffers come in parts: call again with the start that the result gives.",
        SafetyLevel::Safe,
        &["buffer"],
        vec![
            Parameter::optional(
                "buffer",
                ParameterType::String,
                "Default: the user's latest buffer",
            ),
            Parameter::optional(
                "start",
                ParameterType::Integer,
                "Character position, from 1",
            ),
            Parameter::optional("end", ParameterType::Integer, ""),
        ],
        Runner::Emacs(EmacsTool {
            request: |arguments| {
                Ok(EmacsRequest::ReadBuffer(ReadBuffer {
                    buffer: arguments.text("buffer").map(str::to_owned),
                    start: arguments.integer("start"),
                    end: arguments.integer("end"),
                }))
            },
            render: |_, text| Ok(text),
        }),
    ))
}

fn buffer_parameter() -> Parameter {
    Parameter::optional(
        "buffer",
        ParameterType::String,
        "Default: the user's latest buffer",
    )
}

fn served_in_lisp(
    name: &str,
    description: &str,
    parameters: Vec<Parameter>,
    operation: &'static str,
) -> Tool {
    Tool::new(
        name,
        description,
        SafetyLevel::Safe,
        &["buffer"],
        parameters,
        Runner::Operation(OperationTool::plain(operation)),
    )
}

fn search_in_buffer() -> Tool {
    let mut all_matches = Parameter::optional(
        "all_matches",
        ParameterType::Boolean,
        "List all matches, not only the first",
    );
    let default = Value::Bool(true);
    all_matches.constraints.insert("default".into(), default);
    about_a_buffer(served_in_lisp(
        "search_in_buffer",
        "Search an Emacs buffer, including unsaved changes, and list the matching lines with line, column and position. To search files use grep_project.",
        vec![
            Parameter::required("pattern", ParameterType::String, "Text to search for"),
            buffer_parameter(),
            Parameter::optional(
                "regex",
                ParameterType::Boolean,
                "Take the pattern as an Emacs regular expression",
            ),
            all_matches,
        ],
        "search-in-buffer",
    ))
}

fn list_buffers() -> Tool {
    served_in_lisp(
        "list_buffers",
        "List the user's buffers, latest first: name, mode, file, and whether they have unsaved changes.",
        vec![],
        "list-buffers",
    )
}

fn buffer_outline() -> Tool {
    about_a_buffer(served_in_lisp(
        "buffer_outline",
        "List the top-level forms of a buffer with their line numbers. To read the text use read_buffer.",
        vec![buffer_parameter()],
        "buffer-outline",
    ))
}

fn write_to_buffer() -> Tool {
    let mut tool = Tool::new(
        "write_to_buffer",
        "Insert text into an Emacs buffer without saving it. To change a file use edit_file or edit_definition.",
        SafetyLevel::Cautious,
        &["buffer"],
        vec![
            Parameter::required("content", ParameterType::String, "The text to insert"),
            buffer_parameter(),
            Parameter::optional(
                "position",
                ParameterType::Integer,
                "Character position, from 1; default: the user's cursor",
            ),
        ],
        Runner::Task(|arguments, context| -> Running {
            Box::pin(to_the_end(write(arguments, context)))
        }),
    );
    tool.returns = Returns::Words;
    about_a_buffer(tool)
}

async fn write(arguments: Arguments, context: WorkContext) -> Result<String, ToolFailure> {
    let which = json!({"buffer": arguments.text("buffer")});
    let reply = context.ask_emacs("buffer-state", which).await?;
    let live: LiveBuffer = read_reply(&reply)?;
    if live.read_only {
        return Err(ToolFailure::new(format!(
            "The buffer {} is read-only; nothing was inserted.",
            live.buffer
        )));
    }
    let old = live.text.clone().unwrap_or_default();
    let size = old.chars().count();
    let place = match arguments.integer("position") {
        None => live.point,
        Some(position) => usize::try_from(position)
            .ok()
            .and_then(|position| position.checked_sub(1))
            .filter(|&place| place <= size)
            .ok_or_else(|| {
                ToolFailure::new(format!(
                    "Position {position} is not in the buffer {}, which has positions 1 to {}.",
                    live.buffer,
                    size + 1
                ))
            })?,
    };
    let (before, rest) = old.split_at(
        old.char_indices()
            .map(|(byte, _)| byte)
            .nth(place)
            .unwrap_or(old.len()),
    );
    let content = arguments.required_text("content");
    let new = [before, content, rest].concat();
    let state = |text: &str| ContentState::Text {
        text: Arc::from(text),
        encoding: None,
    };
    context.go_on()?;
    context.workspace.journal.changed_buffer(&live.buffer);
    let was = context.workspace.journal.record(JournalEntry::Changed {
        place: match &live.file {
            Some(file) => ChangedPlace::File(file.into()),
            None => ChangedPlace::Buffer(live.buffer.clone()),
        },
        before: state(&old),
        after: state(&new),
        mode: None,
        disk: Disk::Untouched,
        folders: 0,
    });
    if let Err(failure) = change_buffer(&context, &live, &old, &new, Save::No).await {
        context.workspace.journal.take_back(was);
        return Err(failure);
    }
    Ok(format!(
        "Inserted {} characters into {} at position {}.",
        content.chars().count(),
        live.buffer,
        place + 1
    ))
}
