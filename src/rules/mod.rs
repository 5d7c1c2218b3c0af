// SPDX-License-Identifier: GPL-3.0-or-later
//! The user's consent as data: which tool calls run, ask or are denied. Deny wins over ask, ask
//! over allow; no rule lets a dangerous call run that the user did not write for exactly that.
//! Rules come from the user's prompts and one file of theirs, never from a project.

mod book;
mod effect;
mod matching;
mod rule;
mod wider;

use serde_json::Value;

pub use book::{RuleBook, Store, StoreError};
pub use matching::{DANGEROUS_ASKS, Explanation, Outcome};
pub use rule::{
    Alarm, Alarms, ArgumentPattern, BadRule, Effect, FETCHES, Floor, OtherAlarms, OtherArguments,
    PLAINLY, Rule, RuledCall, Scope, TextPattern, TurnPlace,
};
pub use wider::{EDITING, FETCHING, PRIVATE_NETWORK, WRITING, Width};

use crate::effect::EffectKind;
use crate::trust::SafetyLevel;

impl Rule {
    /// The narrowest rule that allows CALL again: its tool, its files or else its arguments, on
    /// its connection. This is what a prompt offers, described, before it is taken.
    #[must_use]
    pub fn allowing(call: &RuledCall<'_>, scope: Scope) -> Self {
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
                pattern: TextPattern::Equals(matching::argument_text(value)),
            };
            rule.arguments = call.arguments.iter().map(equal).collect();
        }
        rule.package = call.package.map(globset::escape);
        rule.connection = call.connection.map(globset::escape);
        rule.mcp_client = call.mcp_client.map(globset::escape);
        rule
    }

    /// The rule as a sentence: exactly what it matches.
    #[must_use]
    pub fn describe(&self) -> String {
        if let Some(kind) = EffectKind::of_tool(&self.tool) {
            return self.describe_of_effects(kind);
        }
        let mut text = format!("{} {}", self.effect.verb(), self.tool_words());
        text.push_str(&self.describe_alarms());
        if let Some(path) = &self.path {
            text.push_str(&format!(" on files matching {path}"));
        }
        for argument in &self.arguments {
            let name = &argument.name;
            match &argument.pattern {
                TextPattern::Equals(value) => text.push_str(&format!(", {name} = {value:?}")),
                TextPattern::Matches(regex) => {
                    text.push_str(&format!(", {name} matching /{regex}/"));
                }
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
        text.push_str(&self.describe_mcp_client());
        text.push_str(&format!(", {}", self.describe_scope()));
        if self.waives_floor() {
            text.push_str(", even when dangerous");
        }
        text.push('.');
        text
    }

    fn tool_words(&self) -> String {
        match self.named_tools() {
            Some(names) => match names.split_last() {
                Some((last, [])) => (*last).to_owned(),
                Some((last, before)) => format!("{} and {last}", before.join(", ")),
                None => String::new(),
            },
            None => self.tool.clone(),
        }
    }

    /// The rule as a sentence beside the call that it is offered for, which needs no repeating.
    #[must_use]
    pub fn describe_beside_its_call(&self) -> String {
        let exact = self.other_arguments == OtherArguments::None && self.path.is_none();
        let alarms: Vec<String> = self.alarms.iter().map(Alarm::describe).collect();
        let mut text = match (EffectKind::of_tool(&self.tool), alarms.is_empty()) {
            (None, true) if exact && self.arguments.iter().any(|it| it.name == "form") => {
                "Always run exactly this form".to_owned()
            }
            (None, true) if exact => "Always run exactly this call".to_owned(),
            (None, false) if self.alarms.iter().all(|it| it.reason == PLAINLY) => {
                let lines = self.alarms.iter().filter_map(|it| it.operator.as_deref());
                format!(
                    "Always run {}, with any of its plain options",
                    lines.collect::<Vec<_>>().join("; ")
                )
            }
            (None, false) if self.alarms.iter().all(|it| it.reason == FETCHES) => {
                let hosts = self.alarms.iter().filter_map(|it| it.operator.as_deref());
                format!(
                    "Always fetch pages of {}, by https and with short addresses",
                    hosts.collect::<Vec<_>>().join(", ")
                )
            }
            (None, false) if self.named_tools().is_some() => {
                "Always allow edits of files of this project, and new files in it".to_owned()
            }
            (None, false) => format!(
                "Always run {} calls whose only risk is: {}",
                self.tool,
                alarms.join("; ")
            ),
            (None, true) if self.named_tools().is_some() => {
                format!(
                    "Always run {} for this project's systems",
                    self.tool_words()
                )
            }
            _ => return self.describe(),
        };
        if let Some(connection) = &self.connection {
            text.push_str(&format!(", in {connection}"));
        }
        text.push_str(&self.describe_mcp_client());
        let place = match (&self.scope, &self.mcp_client) {
            (Scope::Chat(_), None) => "in this chat".to_owned(),
            _ => self.describe_scope(),
        };
        text.push_str(&format!(", {place}."));
        text
    }

    /// For how long the rule holds: another agent has a connection, not a chat.
    fn describe_scope(&self) -> String {
        match (&self.scope, &self.mcp_client) {
            (Scope::Chat(_), Some(_)) => "until it disconnects".to_owned(),
            (scope, _) => scope.phrase(),
        }
    }

    fn describe_mcp_client(&self) -> String {
        match &self.mcp_client {
            Some(client) => format!(", from an MCP client that calls itself {client}"),
            None => String::new(),
        }
    }

    /// Checks that all its patterns can be used and mean what they seem to.
    ///
    /// # Errors
    ///
    /// A sentence on the first that can't.
    pub fn check(&self) -> Result<(), BadRule> {
        if self.tool.is_empty() {
            return Err(BadRule("it has no tool; write * for all".into()));
        }
        matching::Compiled::new(self)?;
        if let Some(alarm) = self.unfit_alarm() {
            return Err(BadRule(format!(
                "no rule allows everything that {}; that can only be allowed for single calls",
                alarm.reason
            )));
        }
        if self.effect == Effect::Allow && self.dangerous == Floor::Waived && !self.waives_floor() {
            return Err(BadRule(
                "to allow dangerous calls it must name its tools exactly, and the files, the argument or the reason it is for".into(),
            ));
        }
        Ok(())
    }
}
