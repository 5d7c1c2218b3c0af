// SPDX-License-Identifier: GPL-3.0-or-later
//! Why the code of a call is asked about, alarm by alarm: "runs programs", and by which operator.
//! Rules may be about that.

use serde::{Deserialize, Serialize};

/// Why an edit is asked about whose file is an ordinary one of the project's.
pub const EDITS: &str = "changes a file of the project";

/// The reasons that may be allowed at large: clear deeds, and none that takes the user's hold on the
/// code, such as reaching into Emacs or making code at run time. In the words of the image
/// (`lisp/image/assess-danger/danger.lisp`), but for the first.
const WIDE: [&str; 9] = [
    EDITS,
    "runs programs",
    "deletes or writes files",
    "uses system calls",
    "uses the network",
    "stops or interrupts threads",
    "loads or compiles files",
    "removes packages or symbols",
    "changes the environment of the programs that it runs",
];

/// A reason why code is asked about, with the operator that is it. In a rule, no operator means any.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarm {
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
}

/// Whether a call is asked about for more than its alarms say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OtherAlarms {
    #[default]
    None,
    Some,
}

/// All the reasons why a call is asked about, as far as they are known one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alarms {
    pub found: Vec<Alarm>,
    pub others: OtherAlarms,
}

impl Alarm {
    /// Whether this alarm of a rule is about ALARM of a call.
    fn covers(&self, alarm: &Self) -> bool {
        self.reason == alarm.reason && (self.operator.is_none() || self.operator == alarm.operator)
    }

    pub(super) fn is_wide(&self) -> bool {
        WIDE.contains(&self.reason.as_str())
    }

    pub(super) fn describe(&self) -> String {
        match &self.operator {
            Some(operator) => format!("{} ({operator})", self.reason),
            None => self.reason.clone(),
        }
    }
}

impl Alarms {
    /// Those of an edit of an ordinary file of the project.
    #[must_use]
    pub fn of_edit() -> Self {
        Self {
            found: vec![Alarm {
                reason: EDITS.to_owned(),
                operator: None,
            }],
            others: OtherAlarms::None,
        }
    }

    /// Whether a yes to OTHER covers these: a mere edit is less than the same call is otherwise.
    #[must_use]
    pub fn within(&self, other: &Self) -> bool {
        self == other || (*self == Self::of_edit() && other.others == OtherAlarms::Some)
    }

    /// Whether all that the call is asked about is in RULED, the alarms of a rule that allows.
    pub(super) fn all_in(&self, ruled: &[Alarm]) -> bool {
        self.others == OtherAlarms::None
            && !self.found.is_empty()
            && self
                .found
                .iter()
                .all(|it| ruled.iter().any(|rule| rule.covers(it)))
    }

    /// Whether something that the call is asked about may be in RULED.
    pub(super) fn any_in(&self, ruled: &[Alarm]) -> bool {
        self.others == OtherAlarms::Some
            || self
                .found
                .iter()
                .any(|it| ruled.iter().any(|rule| rule.covers(it)))
    }
}
