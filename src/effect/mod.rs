// SPDX-License-Identifier: GPL-3.0-or-later
//! Effects: what code that runs in the Lisp image is about to do outside of the program. The image's
//! watch stops there and asks; here are its questions as data, and what the user has granted before.

mod kind;
mod question;

use lexpr::Value;

pub use kind::EffectKind;
pub use question::{Question, WatchMessage, parse_message};

use crate::image::{Plist, property_list};

/// What becomes of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectAnswer {
    Allow,
    /// The code gets an error; the reason, if any, is told to the model.
    Deny(Option<String>),
    /// The whole call is unwound.
    Stop,
}

impl EffectAnswer {
    /// The answer's name on the wire.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny(_) => "deny",
            Self::Stop => "stop",
        }
    }

    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Deny(reason) => reason.as_deref(),
            Self::Allow | Self::Stop => None,
        }
    }
}

/// The effects that the assessment of code found, which saying yes to the code grants: lists of a
/// kind and, where the code has it literally, what it acts on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Granted(Vec<Value>);

impl Granted {
    /// Adds effects of KIND on what the code literally calls TEXT.
    pub fn add(&mut self, kind: EffectKind, text: &str) {
        let entry = [Value::string(kind.name()), Value::string(text)];
        self.0.push(Value::list(entry));
    }

    /// Adds those that the reply DATA of an assessment has.
    pub fn take(&mut self, data: Plist<'_>) {
        self.0.extend(data.list("effects").cloned());
    }
}

/// How the watch is set for a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Watch {
    /// The user wants no questions about code.
    Off,
    /// The call only looks: what the program's printers try meanwhile does not happen.
    Looking,
    On {
        granted: Granted,
        /// Of which a real file name has one if the file is private, in lower case.
        needles: Vec<String>,
    },
}

/// For how many seconds a question waits for an answer.
const PATIENCE: u64 = 600;

impl Watch {
    /// As the argument `watch` of an operation of the image.
    #[must_use]
    pub fn to_argument(&self) -> Value {
        match self {
            Self::Off => property_list([("off", Value::symbol("t"))]),
            Self::Looking => property_list([("look", Value::symbol("t"))]),
            Self::On { granted, needles } => property_list([
                ("granted", Value::list(granted.0.clone())),
                (
                    "private",
                    Value::list(needles.iter().map(|it| Value::string(it.as_str()))),
                ),
                ("patience", Value::from(PATIENCE)),
            ]),
        }
    }
}
