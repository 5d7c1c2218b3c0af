// SPDX-License-Identifier: GPL-3.0-or-later
//! The body of a request while it is written: each message becomes JSON as its turn comes, so that there is
//! never a tree of the whole conversation in memory. The same bytes come out each time. Pure.

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Map, Value};

use crate::provider::{Messages, ProviderSettings};

/// Stands for the history among the fields of a body. A field of the user's is never null, as that takes
/// one out.
pub const HISTORY: Value = Value::Null;

/// What hands over messages one by one, as a dialect has them.
pub type WriteHistory = fn(&ProviderSettings, &Messages, &mut dyn FnMut(Value));

/// A body that is yet to be written.
#[derive(Debug)]
pub struct WrittenBody<'r> {
    pub settings: &'r ProviderSettings,
    /// The messages of the request, behind the gate.
    pub messages: Messages,
    /// Its fields, with [`HISTORY`] in the field PLACE unless the user has another history.
    pub fields: Map<String, Value>,
    pub place: &'static str,
    pub history: WriteHistory,
}

impl WrittenBody<'_> {
    /// All of it.
    #[must_use]
    pub fn whole(mut self) -> Value {
        if self.fields.get(self.place) == Some(&HISTORY) {
            let mut messages = Vec::new();
            self.each_message(&mut |message| messages.push(message));
            self.fields.insert(self.place.to_owned(), messages.into());
        }
        Value::Object(self.fields)
    }

    fn each_message(&self, to: &mut dyn FnMut(Value)) {
        (self.history)(self.settings, &self.messages, to);
    }
}

impl Serialize for WrittenBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            if name == self.place && *value == HISTORY {
                body.serialize_entry(name, &WrittenHistory(self))?;
            } else {
                body.serialize_entry(name, value)?;
            }
        }
        body.end()
    }
}

struct WrittenHistory<'b>(&'b WrittenBody<'b>);

impl Serialize for WrittenHistory<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        let mut outcome = Ok(());
        self.0.each_message(&mut |message| {
            if outcome.is_ok() {
                outcome = messages.serialize_element(&message);
            }
        });
        outcome?;
        messages.end()
    }
}
