// SPDX-License-Identifier: GPL-3.0-or-later
//! Rules for whatever is asked about for the same: by the same operators, or for the same reasons. Such
//! a rule is wide, so that it has to cover all that a call is asked about.

use std::path::PathBuf;

use globset::escape;

use super::matching::is_glob;
use super::{Alarm, Alarms, Effect, FETCHES, Floor, OtherAlarms, PLAINLY, Rule, RuledCall, Scope};
use crate::files::systems::is_definition;
use crate::trust::SafetyLevel;

/// How much a rule that is offered covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Exactly this call.
    Call,
    /// The same operators.
    Operator,
    /// The same reasons.
    Reason,
    /// Loading, testing and compiling systems of the project.
    Systems,
    /// Edits of files of the project, and new files in it.
    Edits,
    /// The same program and subcommand, with options that are known.
    Program,
    /// Pages of the same host.
    Host,
}

/// The tools that build systems and compile their files.
const BUILDING: [&str; 4] = ["load_system", "run_tests", "verify_system", COMPILING];
const COMPILING: &str = "compile_file";

/// The tool that fetches pages, and its argument that lets it reach private networks.
pub const FETCHING: &str = "fetch_url";
pub const PRIVATE_NETWORK: &str = "private_network";

/// The tools that write a whole file, which is an edit where there was none.
pub const WRITING: [&str; 2] = ["write_file", "create_file"];

/// The tools that change parts of a file, and those that make it.
pub const EDITING: [&str; 6] = [
    "edit_file",
    "edit_definition",
    "insert_definition",
    "insert_at_line",
    WRITING[0],
    WRITING[1],
];

impl Width {
    /// Whether a rule of this width is mostly what is meant, rather than a narrower one.
    #[must_use]
    pub fn comes_first(self) -> bool {
        matches!(
            self,
            Self::Systems | Self::Edits | Self::Program | Self::Host
        )
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Operator => "operator",
            Self::Reason => "reason",
            Self::Systems => "systems",
            Self::Edits => "edits",
            Self::Program => "program",
            Self::Host => "host",
        }
    }
}

impl Rule {
    /// Rules for calls that are asked about for the same as CALL, narrower ones first; none where
    /// something else is among that.
    #[must_use]
    pub fn wider(call: &RuledCall<'_>, scope: &Scope) -> Vec<(Width, Self)> {
        if let Some(rule) = Self::for_systems(call, scope) {
            return vec![(Width::Systems, rule)];
        }
        if let Some(rule) = Self::for_edits(call, scope) {
            return vec![(Width::Edits, rule)];
        }
        if let Some(rule) = Self::for_program(call, scope) {
            return vec![(Width::Program, rule)];
        }
        if let Some(rule) = Self::for_named(FETCHES, call, scope) {
            return vec![(Width::Host, rule)];
        }
        let alarms = call.alarms;
        // Edits of whatever project are more than anybody means.
        if *alarms == Alarms::of_edit() {
            return Vec::new();
        }
        if call.level != SafetyLevel::Dangerous
            || alarms.others == OtherAlarms::Some
            || alarms.found.is_empty()
            || !alarms.found.iter().all(Alarm::is_wide)
        {
            return Vec::new();
        }
        let rule = |found: Vec<Alarm>| {
            let mut rule = Self::new(Effect::Allow, call.tool, scope.clone());
            rule.dangerous = Floor::Waived;
            rule.connection = call.connection.map(escape);
            rule.mcp_client = call.mcp_client.map(escape);
            rule.alarms = found;
            rule.alarms.sort();
            rule.alarms.dedup();
            rule
        };
        let mut rules = Vec::new();
        if alarms.found.iter().all(|it| it.operator.is_some()) {
            rules.push((Width::Operator, rule(alarms.found.clone())));
        }
        let reasons = alarms.found.iter().map(|it| Alarm {
            reason: it.reason.clone(),
            operator: None,
        });
        rules.push((Width::Reason, rule(reasons.collect())));
        rules
    }

    /// A rule for loading, testing and compiling the systems of the project, one of which CALL builds, or
    /// a file of the project: a system of it may load any.
    fn for_systems(call: &RuledCall<'_>, scope: &Scope) -> Option<Self> {
        let root = call.project?;
        let is_own = |path: &PathBuf| {
            (is_definition(path) || call.tool == COMPILING) && path.starts_with(root)
        };
        if !BUILDING.contains(&call.tool) || call.paths.is_empty() || !call.paths.iter().all(is_own)
        {
            return None;
        }
        let mut rule = Self::for_tools(&BUILDING, call, scope);
        rule.path = Some(format!(
            "{}/**/*.{{asd,cl,lisp,lsp}}",
            escape(&root.to_string_lossy())
        ));
        rule.connection = call.connection.map(escape);
        Some(rule)
    }

    /// The argument of CALL that makes it more than a rule means which doesn't name it: values for a restart of
    /// a build, which are code, and leave to reach private networks.
    pub(super) fn argument_to_name(call: &RuledCall<'_>) -> Option<&'static str> {
        let restart = call.arguments.get("restart").and_then(|it| it.as_str());
        let private = call.arguments.get(PRIVATE_NETWORK);
        if BUILDING.contains(&call.tool)
            && restart.is_some_and(|it| it.trim().contains(char::is_whitespace))
        {
            Some("restart")
        } else if call.tool == FETCHING && private.is_some_and(|it| *it == true) {
            Some(PRIVATE_NETWORK)
        } else {
            None
        }
    }

    /// A rule for edits of the files of the project and new ones, if CALL is one, and asked about for
    /// that alone.
    fn for_edits(call: &RuledCall<'_>, scope: &Scope) -> Option<Self> {
        let is_edit = EDITING.contains(&call.tool) && *call.alarms == Alarms::of_edit();
        if !is_edit || *scope == Scope::Always {
            return None;
        }
        let mut rule = Self::for_tools(&EDITING, call, scope);
        rule.alarms.clone_from(&call.alarms.found);
        Some(rule)
    }

    /// A rule for the program of CALL and its subcommand, if its options are all plain. What a program does
    /// is up to the project, as with make, so it isn't one for all of them.
    fn for_program(call: &RuledCall<'_>, scope: &Scope) -> Option<Self> {
        let rule = Self::for_named(PLAINLY, call, scope);
        rule.filter(|_| *scope != Scope::Always)
    }

    /// A rule for calls that are asked about for REASON and what that names alone, if CALL is one.
    fn for_named(reason: &str, call: &RuledCall<'_>, scope: &Scope) -> Option<Self> {
        let [alarm] = call.alarms.found.as_slice() else {
            return None;
        };
        if alarm.reason != reason || !alarm.is_wide() || call.alarms.others == OtherAlarms::Some {
            return None;
        }
        let mut rule = Self::new(Effect::Allow, call.tool, scope.clone());
        rule.dangerous = Floor::Waived;
        rule.mcp_client = call.mcp_client.map(escape);
        rule.alarms = vec![alarm.clone()];
        Some(rule)
    }

    fn for_tools(tools: &[&str], call: &RuledCall<'_>, scope: &Scope) -> Self {
        let mut rule = Self::new(
            Effect::Allow,
            &format!("{{{}}}", tools.join(",")),
            scope.clone(),
        );
        rule.dangerous = Floor::Waived;
        rule.mcp_client = call.mcp_client.map(escape);
        rule
    }

    /// The tools of a rule that names each of several.
    pub(super) fn named_tools(&self) -> Option<Vec<&str>> {
        let inner = self.tool.strip_prefix('{')?.strip_suffix('}')?;
        let names: Vec<&str> = inner.split(',').collect();
        names
            .iter()
            .all(|name| !name.is_empty() && !is_glob(name) && !name.contains('}'))
            .then_some(names)
    }

    /// Whether the alarms leave anything out, and are such as may be allowed.
    pub(super) fn has_wide_alarms(&self) -> bool {
        !self.alarms.is_empty() && self.alarms.iter().all(Alarm::is_wide)
    }

    /// The first alarm that no rule can allow.
    pub(super) fn unfit_alarm(&self) -> Option<&Alarm> {
        let unfit = self.alarms.iter().find(|it| !it.is_wide());
        unfit.filter(|_| self.effect == Effect::Allow)
    }

    /// What a rule's sentence says of its alarms.
    pub(super) fn describe_alarms(&self) -> String {
        let all: Vec<String> = self.alarms.iter().map(Alarm::describe).collect();
        match (self.alarms.is_empty(), self.effect) {
            (true, _) => String::new(),
            (false, Effect::Allow) => {
                format!(" when nothing else is asked about than: {}", all.join("; "))
            }
            (false, Effect::Ask | Effect::Deny) => format!(" when it {}", all.join(" or ")),
        }
    }
}
