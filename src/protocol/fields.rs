// SPDX-License-Identifier: GPL-3.0-or-later
//! How fields of events are serialized that don't look like what they hold: JSON is sent as text, times
//! are numbers, and files and models have the form that is cheap to take in Emacs.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::events::{ListedModel, PastPlace, UnlistedModels};

type Answer = Result<Value, String>;

pub fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

pub fn from_milliseconds<S: Serializer>(time: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(*time as f64 / 1000.0)
}

pub fn is_below<S: Serializer>(place: &PastPlace, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(*place == PastPlace::Below)
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

/// Names, and the limits of those models whose host says any.
pub fn models<S: Serializer>(models: &[ListedModel], serializer: S) -> Result<S::Ok, S::Error> {
    let names = models.iter().map(|model| model.name.as_str());
    let limited = |model: &&ListedModel| model.context_window.or(model.max_output).is_some();
    json!({
        "models": names.collect::<Vec<_>>(),
        "limits": models.iter().filter(limited).collect::<Vec<_>>(),
    })
    .serialize(serializer)
}

pub fn listing<S: Serializer>(
    listing: &Result<Vec<ListedModel>, UnlistedModels>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match listing {
        Ok(listed) => models(listed, serializer),
        Err(unlisted) => unlisted.serialize(serializer),
    }
}
