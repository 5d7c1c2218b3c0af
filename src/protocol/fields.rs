// SPDX-License-Identifier: GPL-3.0-or-later
//! How fields of events are serialized that don't look like what they hold: JSON is sent as text, times
//! are numbers, and files have the form that is cheap to take in Emacs.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

type Answer = Result<Value, String>;

pub fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

pub fn from_milliseconds<S: Serializer>(time: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*time as f64 / 1000.0)
}

pub fn text<S: Serializer>(json: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(json)
}

pub fn pretty_text<S: Serializer>(json: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{json:#}"))
}

pub fn answer<S: Serializer>(answer: &Answer, serializer: S) -> Result<S::Ok, S::Error> {
    answer.as_ref().map(Value::to_string).serialize(serializer)
}

pub fn pretty_answer<S: Serializer>(answer: &Answer, serializer: S) -> Result<S::Ok, S::Error> {
    let text = answer.as_ref().map(|json| format!("{json:#}"));
    text.serialize(serializer)
}

pub fn files<S: Serializer>(
    found: &Result<(Vec<String>, u64), String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let found = match found {
        // One text: thousands of strings would each be a call into Emacs.
        Ok((files, more)) => json!({"files": files.join("\n"), "more": more}),
        Err(problem) => json!({"problem": problem}),
    };
    found.serialize(serializer)
}
