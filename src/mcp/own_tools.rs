// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that only clients have: going on waiting for a call, stopping one, and the images that
//! there are. They pass no pipeline, as they do nothing but ask Emacs, or stop what the client began.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::profile::described;
use crate::trust::SafetyLevel;

pub const AWAIT_CALL: &str = "await_call";
pub const CANCEL_CALL: &str = "cancel_call";
pub const LIST_IMAGES: &str = "list_images";

/// How long a call that was stopped may take to end before that is said.
pub const STOPPING_TIME: Duration = Duration::from_secs(5);

/// All of them, as clients are told of them.
#[must_use]
pub fn listed() -> Vec<Value> {
    let call = json!({
        "type": "object",
        "properties": {"call_id": {"type": "integer", "description": "As in the pending result"}},
        "required": ["call_id"],
    });
    vec![
        described(
            AWAIT_CALL,
            "Go on waiting for a call whose result was pending.",
            &call,
            SafetyLevel::Safe,
        ),
        described(
            CANCEL_CALL,
            "Stop a call whose result was pending.",
            &call,
            SafetyLevel::Cautious,
        ),
        described(
            LIST_IMAGES,
            "List the Lisp images that the user's Emacs is connected to, with their directories.",
            &json!({"type": "object", "properties": {}}),
            SafetyLevel::Safe,
        ),
    ]
}

/// The number in ARGUMENTS of a call that was begun before.
///
/// # Errors
///
/// A sentence when there is none.
pub fn call_id(arguments: &Map<String, Value>) -> Result<u64, String> {
    let id = arguments.get("call_id");
    // Some models write numbers as text.
    let text = id
        .and_then(Value::as_str)
        .and_then(|it| it.trim().parse().ok());
    id.and_then(Value::as_u64).or(text).ok_or_else(|| {
        "Error: Missing required field: call_id, the number in the pending result.".to_owned()
    })
}
