// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that read the user's buffers. Emacs serves them on its own thread (`bridge::buffers`).

use crate::protocol::{HostRequest, ReadBuffer};
use crate::tool::{HostTool, Parameter, ParameterType, Runner, SafetyLevel, Tool};

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![read_buffer()]
}

fn read_buffer() -> Tool {
    Tool::new(
        "read_buffer",
        "Read text of an Emacs buffer as the user sees it, unsaved changes included. Without a name it reads the buffer that the user last worked in. Long buffers come in parts: ask again with the start that the answer names.",
        SafetyLevel::Safe,
        &["buffer"],
        vec![
            Parameter::optional(
                "buffer",
                ParameterType::String,
                "Buffer name; the one the user last worked in when left out",
            ),
            Parameter::optional(
                "start",
                ParameterType::Integer,
                "First character position, counted from 1",
            ),
            Parameter::optional(
                "end",
                ParameterType::Integer,
                "Position after the last character",
            ),
        ],
        Runner::Host(HostTool {
            request: |arguments| {
                Ok(HostRequest::ReadBuffer(ReadBuffer {
                    buffer: arguments.text("buffer").map(str::to_owned),
                    start: arguments.integer("start"),
                    end: arguments.integer("end"),
                }))
            },
            render: |_, text| Ok(text),
        }),
    )
}
