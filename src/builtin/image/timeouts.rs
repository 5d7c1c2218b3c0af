// SPDX-License-Identifier: GPL-3.0-or-later
//! How long the image may take: the default for each kind of tool, and the parameter `timeout` by which a
//! call asks for another one. Emacs stops what takes longer.

use std::time::Duration;

use crate::tool::{Arguments, Parameter, ParameterType};

/// Evaluating and compiling forms, unless `agent-q-eval-timeout` says otherwise.
pub const EVALUATION: Duration = Duration::from_secs(30);
/// Systems, files and tests take longer than forms do.
const LONG: Duration = Duration::from_secs(300);
/// Looking something up, or undoing a definition. Only a program's own printers take any time at all.
pub(super) const LOOK_UP: Duration = Duration::from_secs(15);
/// The longest time that a call may ask for; what takes longer can run in a thread.
const LONGEST: f64 = 3600.0;
/// Where a system is, before a call about it.
pub(super) const SYSTEM_PLACE: Duration = Duration::from_secs(5);
/// Which systems are loaded, while a message waits to be sent.
pub(super) const SYSTEMS_LINE: Duration = Duration::from_millis(800);

/// For tools that run forms: what a call asks for, else the DEFAULT.
pub(super) fn timeout(arguments: &Arguments, default: Duration) -> Duration {
    arguments
        .number("timeout")
        .filter(|seconds| *seconds > 0.0)
        .map_or(default, |seconds| {
            Duration::from_secs_f64(seconds.min(LONGEST))
        })
}

/// For tools that build: the same, but the default is longer.
pub(super) fn long(arguments: &Arguments, default: Duration) -> Duration {
    timeout(arguments, default.max(LONG))
}

/// For tools that look something up, whatever the call says.
pub(super) fn look_up(_: &Arguments, _: Duration) -> Duration {
    LOOK_UP
}

pub(super) fn timeout_parameter() -> Parameter {
    parameter(EVALUATION)
}

pub(super) fn long_timeout_parameter() -> Parameter {
    parameter(LONG)
}

fn parameter(default: Duration) -> Parameter {
    Parameter::optional(
        "timeout",
        ParameterType::Number,
        &format!("Seconds, default {}", default.as_secs()),
    )
}
