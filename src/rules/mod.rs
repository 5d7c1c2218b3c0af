// SPDX-License-Identifier: GPL-3.0-or-later
//! The user's consent as data: which tool calls run, ask or are denied. Deny wins over ask, ask
//! over allow; no rule lets a dangerous call run that the user did not write for exactly that.
//! Rules come from the user's prompts and one file of theirs, never from a project.

mod book;
mod decide;
mod effect;
mod matching;
mod place;
mod store;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use book::RuleBook;
pub use decide::{DANGEROUS_ASKS, Explanation, Outcome};
pub use place::Place;
pub use store::{Store, StoreError};

use crate::effect::Kind;
use crate::trust::Provenance;
use crate::trust::SafetyLevel;

/// What a rule says about the calls that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Allow,
    Ask,
    Deny,
}

impl Effect {
    fn verb(self) -> &'static str {
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

    fn phrase(&self) -> String {
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
pub enum Pattern {
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
    pub pattern: Pattern,
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

    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde asks for a reference"
    )]
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
    /// A glob of package names; letter case doesn't matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// A glob of connection names; letter case doesn't matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
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
            package: None,
            connection: None,
            scope,
            dangerous: Floor::Holds,
            note: String::new(),
        }
    }

    /// The narrowest rule that allows CALL again: its tool, its files or else its arguments, on
    /// its connection. This is what a prompt offers, described, before it is taken.
    #[must_use]
    pub fn allowing(call: &Call<'_>, scope: Scope) -> Self {
        let mut rule = Self::new(Effect::Allow, call.tool, scope);
        if call.level == SafetyLevel::Dangerous {
            rule.dangerous = Floor::Waived;
        }
        if let [path] = call.paths {
            // Only there does a path from the root always mean the same file.
            let root = call
                .project
                .filter(|_| matches!(rule.scope, Scope::Project(_)));
            let inside = root.and_then(|root| path.strip_prefix(root).ok());
            rule.path = Some(match inside {
                Some(inside) => format!("./{}", globset::escape(&inside.to_string_lossy())),
                None => globset::escape(&path.to_string_lossy()),
            });
        } else {
            rule.other_arguments = OtherArguments::None;
            let equal = |(name, value): (&String, &Value)| ArgumentPattern {
                name: name.clone(),
                pattern: Pattern::Equals(matching::argument_text(value)),
            };
            rule.arguments = call.arguments.iter().map(equal).collect();
        }
        rule.package = call.package.map(globset::escape);
        rule.connection = call.connection.map(globset::escape);
        rule
    }

    /// Whether the rule may let dangerous calls run: an exact tool, and a constraint on what the
    /// call is about that does not fit everything.
    #[must_use]
    pub fn waives_floor(&self) -> bool {
        self.effect == Effect::Allow
            && self.dangerous == Floor::Waived
            && !matching::is_glob(&self.tool)
            && (self.path.as_deref().is_some_and(matching::constrains_path)
                || self.other_arguments == OtherArguments::None
                || self
                    .arguments
                    .iter()
                    .any(|it| matching::constrains(&it.pattern)))
    }

    /// The rule as a sentence: exactly what it matches.
    #[must_use]
    pub fn describe(&self) -> String {
        if let Some(kind) = Kind::of_tool(&self.tool) {
            return self.describe_of_effects(kind);
        }
        let mut text = format!("{} {}", self.effect.verb(), self.tool);
        if let Some(path) = &self.path {
            text.push_str(&format!(" on files matching {path}"));
        }
        for argument in &self.arguments {
            let name = &argument.name;
            match &argument.pattern {
                Pattern::Equals(value) => text.push_str(&format!(", {name} = {value:?}")),
                Pattern::Matches(regex) => text.push_str(&format!(", {name} matching /{regex}/")),
            }
        }
        if self.other_arguments == OtherArguments::None {
            let but = if self.arguments.is_empty() {
                "no"
            } else {
                "no other"
            };
            text.push_str(&format!(", with {but} arguments"));
        }
        if let Some(package) = &self.package {
            text.push_str(&format!(", in package {package}"));
        }
        if let Some(connection) = &self.connection {
            text.push_str(&format!(", on connection {connection}"));
        }
        text.push_str(&format!(", {}", self.scope.phrase()));
        if self.waives_floor() {
            text.push_str(", even when dangerous");
        }
        text.push('.');
        text
    }

    /// Checks that all its patterns can be used and mean what they seem to.
    ///
    /// # Errors
    ///
    /// A sentence on the first that can't.
    pub fn check(&self) -> Result<(), BadRule> {
        if self.tool.is_empty() {
            return Err(BadRule("it names no tool; write * for all".into()));
        }
        matching::Compiled::new(self)?;
        if self.effect == Effect::Allow && self.dangerous == Floor::Waived && !self.waives_floor() {
            return Err(BadRule(
                "to allow dangerous calls it has to name one tool exactly, and to say which files or which argument it is for".into(),
            ));
        }
        Ok(())
    }
}

/// A tool call, as far as rules look at it.
#[derive(Debug, Clone)]
pub struct Call<'c> {
    /// The number of the call, of its turn and of its chat.
    pub call: u64,
    pub turn: u64,
    pub chat: u64,
    pub tool: &'c str,
    /// After assessment.
    pub level: SafetyLevel,
    pub arguments: &'c Map<String, Value>,
    /// The files that it is about, absolute and without symbolic links.
    pub paths: &'c [PathBuf],
    /// The package and the connection that it would really use; nothing when unknown.
    pub package: Option<&'c str>,
    pub connection: Option<&'c str>,
    /// The project's root, without symbolic links.
    pub project: Option<&'c Path>,
    pub provenance: Provenance,
}
