// SPDX-License-Identifier: GPL-3.0-or-later
//! A rule as data, as the user's file has it, and a call as far as rules look at it: where it is made, and
//! why its code is asked about.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::trust::{Provenance, SafetyLevel};

/// What a rule says about the calls that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Allow,
    Ask,
    Deny,
}

impl Effect {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Allow => "Allow",
            Self::Ask => "Ask about",
            Self::Deny => "Deny",
        }
    }
}

/// Where and for how long a rule holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "lowercase",
    tag = "for",
    content = "which",
    deny_unknown_fields
)]
pub enum Scope {
    /// One call.
    Once(u64),
    /// One turn.
    Turn(u64),
    /// One chat.
    Chat(u64),
    /// Every chat in the project with this root.
    Project(PathBuf),
    Always,
}

impl Scope {
    /// Whether rules of this scope are written to disk.
    #[must_use]
    pub fn lasts(&self) -> bool {
        matches!(self, Self::Project(_) | Self::Always)
    }

    pub(super) fn phrase(&self) -> String {
        match self {
            Self::Once(_) => "for this call".into(),
            Self::Turn(_) => "for this turn".into(),
            Self::Chat(_) => "for this chat".into(),
            Self::Project(root) => format!("in the project {}", root.display()),
            Self::Always => "always".into(),
        }
    }
}

/// What an argument's text must be. Anything that is not a string is taken as JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextPattern {
    /// Exactly this.
    Equals(String),
    /// A regular expression: of the whole text to allow, of any part of it to ask or deny.
    Matches(String),
}

/// A condition on one argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgumentPattern {
    pub name: String,
    pub pattern: TextPattern,
}

/// Whether a call may have arguments that a rule says nothing about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OtherArguments {
    #[default]
    Any,
    None,
}

/// Whether a rule may let dangerous calls run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Floor {
    /// Dangerous calls ask all the same.
    #[default]
    Holds,
    /// The user wrote the rule for exactly such calls.
    Waived,
}

/// In the file the floor is `"dangerous": true` or nothing.
mod floor {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Floor;

    pub fn serialize<S: Serializer>(floor: &Floor, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*floor == Floor::Waived)
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Floor, D::Error> {
        Ok(match bool::deserialize(deserializer)? {
            true => Floor::Waived,
            false => Floor::Holds,
        })
    }
}

fn holds(floor: &Floor) -> bool {
    *floor == Floor::Holds
}

fn any(others: &OtherArguments) -> bool {
    *others == OtherArguments::Any
}

/// Rules that are only in memory have greater numbers than this, so that none in the file gets one.
pub(super) const PASSING_FROM: u64 = 1 << 32;

/// One rule. A condition that is absent is met by every call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Unique among all rules; 0 until a book takes the rule.
    #[serde(default)]
    pub id: u64,
    pub effect: Effect,
    /// A tool's name, or a glob of names.
    pub tool: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<ArgumentPattern>,
    #[serde(default, skip_serializing_if = "any")]
    pub other_arguments: OtherArguments,
    /// A glob of files: absolute, from `~/`, or from the project's root. Without a slash: a name
    /// in any folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What the call is asked about: to allow, all of that has to be here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
    /// A glob of package names; letter case doesn't matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// A glob of connection names; letter case doesn't matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// A glob of names of programs that call, such as `claude-code`; letter case doesn't matter. No
    /// chat has one.
    #[serde(default, rename = "client", skip_serializing_if = "Option::is_none")]
    pub mcp_client: Option<String>,
    pub scope: Scope,
    #[serde(default, with = "floor", skip_serializing_if = "holds")]
    pub dangerous: Floor,
    /// What the user noted about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Why a rule can't be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("The rule can't be used: {0}.")]
pub struct BadRule(pub String);

impl Rule {
    /// A rule for every call of TOOL.
    #[must_use]
    pub fn new(effect: Effect, tool: &str, scope: Scope) -> Self {
        Self {
            id: 0,
            effect,
            tool: tool.to_owned(),
            arguments: Vec::new(),
            other_arguments: OtherArguments::Any,
            path: None,
            alarms: Vec::new(),
            package: None,
            connection: None,
            mcp_client: None,
            scope,
            dangerous: Floor::Holds,
            note: String::new(),
        }
    }

    /// What people call it: its number, or `c3` for the third of those for chats, which are only in
    /// memory.
    #[must_use]
    pub fn name(&self) -> String {
        match self.id.checked_sub(PASSING_FROM) {
            Some(number) => format!("c{number}"),
            None => self.id.to_string(),
        }
    }
}

/// A tool call, as far as rules look at it.
#[derive(Debug, Clone)]
pub struct RuledCall<'c> {
    /// The number of the call, of its turn and of its chat.
    pub call: u64,
    pub turn: u64,
    pub chat: u64,
    pub tool: &'c str,
    /// After assessment.
    pub level: SafetyLevel,
    pub arguments: &'c Map<String, Value>,
    /// Why its code is asked about.
    pub alarms: &'c Alarms,
    /// The files that it is about, absolute and without symbolic links.
    pub paths: &'c [PathBuf],
    /// The package and the connection that it would really use; nothing when unknown.
    pub package: Option<&'c str>,
    pub connection: Option<&'c str>,
    /// The program that calls; nothing in chats.
    pub mcp_client: Option<&'c str>,
    /// The project's root, without symbolic links.
    pub project: Option<&'c Path>,
    pub provenance: Provenance,
}

// Where calls are made: their turn, chat, project and connection, and what the turn has read so far.

/// The turn in which calls are made, and what is around it.
#[derive(Debug, Clone, Default)]
pub struct TurnPlace {
    pub turn: u64,
    pub chat: u64,
    /// The project's root, without symbolic links.
    pub project: Option<PathBuf>,
    /// The name of the connection to the image.
    pub connection: Option<String>,
    /// The name of the program that calls, where it is not a chat's model.
    pub mcp_client: Option<String>,
    foreign: Arc<AtomicBool>,
}

impl TurnPlace {
    /// A place in which nothing was read yet.
    #[must_use]
    pub fn new(turn: u64, chat: u64, project: Option<&Path>, connection: Option<String>) -> Self {
        Self {
            turn,
            chat,
            project: project.and_then(|root| root.canonicalize().ok()),
            connection,
            mcp_client: None,
            foreign: Arc::default(),
        }
    }

    /// The same place for one who has read nothing yet.
    #[must_use]
    pub fn unread(self) -> Self {
        Self {
            foreign: Arc::default(),
            ..self
        }
    }

    /// The same place, in which the program called NAME calls.
    #[must_use]
    pub fn of_mcp_client(self, name: &str) -> Self {
        Self {
            mcp_client: Some(name.to_owned()),
            ..self
        }
    }

    /// The same place, with another connection.
    #[must_use]
    pub fn on_connection(self, connection: Option<String>) -> Self {
        Self { connection, ..self }
    }

    /// Where the texts that the turn has read so far came from.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        match self.foreign.load(Ordering::Acquire) {
            true => Provenance::Foreign,
            false => Provenance::Own,
        }
    }

    /// Notes that the turn has read text of PROVENANCE.
    pub fn note(&self, provenance: Provenance) {
        if provenance == Provenance::Foreign {
            self.foreign.store(true, Ordering::Release);
        }
    }
}

// Why the code of a call is asked about, alarm by alarm: "runs programs", and by which operator.

/// Why an edit is asked about whose file is an ordinary one of the project's.
pub const EDITS: &str = "changes a file of the project";

/// Why a program is asked about whose options are known, and do nothing else than its subcommand says.
pub const PLAINLY: &str = "runs with plain options";

/// Why a page is asked about whose address carries little more than its name, and goes by https.
pub const FETCHES: &str = "fetches a page";

/// The reasons that may be allowed at large: clear deeds, and none that takes the user's hold on the
/// code, such as reaching into Emacs or making code at run time. In the words of the image
/// (`lisp/image/danger/danger.lisp`), but for the first.
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
        // Whatever program or host it is would be more than anybody means.
        let is_named = [PLAINLY, FETCHES].contains(&self.reason.as_str());
        (is_named && self.operator.is_some()) || WIDE.contains(&self.reason.as_str())
    }

    pub(super) fn describe(&self) -> String {
        match &self.operator {
            Some(operator) => format!("{} ({operator})", self.reason),
            None => self.reason.clone(),
        }
    }
}

impl Alarm {
    /// Whether it is of code, which an image has to look at: not of an edit, a program or a page.
    #[must_use]
    pub fn is_of_code(&self) -> bool {
        ![EDITS, PLAINLY, FETCHES].contains(&self.reason.as_str())
    }
}

impl Alarms {
    /// ALARM alone, by which a rule may cover other calls; without one, those that no such rule covers.
    #[must_use]
    pub fn of_one(alarm: Option<Alarm>) -> Self {
        Self {
            others: match alarm {
                Some(_) => OtherAlarms::None,
                None => OtherAlarms::Some,
            },
            found: alarm.into_iter().collect(),
        }
    }

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
