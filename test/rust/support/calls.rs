// SPDX-License-Identifier: GPL-3.0-or-later
//! Tool calls and consent rules in few words.

use std::path::{Path, PathBuf};

use agent_q_core::rules::{
    Alarms, ArgumentPattern, Effect, Floor, Outcome, Rule, RuleBook, RuledCall, Scope, TextPattern,
};
use agent_q_core::trust::{Provenance, SafetyLevel};
use serde_json::{Map, Value, json};

pub const PROJECT: &str = "/home/me/project";

/// A call that owns what it is about.
#[derive(Debug, Clone)]
pub struct Given {
    pub tool: &'static str,
    pub level: SafetyLevel,
    pub arguments: Map<String, Value>,
    pub paths: Vec<PathBuf>,
    pub package: Option<&'static str>,
    pub connection: Option<&'static str>,
    pub provenance: Provenance,
    pub alarms: Alarms,
}

pub fn given(tool: &'static str, level: SafetyLevel, arguments: Value, paths: &[&str]) -> Given {
    Given {
        tool,
        level,
        arguments: arguments.as_object().cloned().unwrap(),
        paths: paths
            .iter()
            .map(|path| Path::new(PROJECT).join(path))
            .collect(),
        package: None,
        connection: None,
        provenance: Provenance::Own,
        alarms: Alarms::default(),
    }
}

impl Given {
    pub fn call(&self) -> RuledCall<'_> {
        RuledCall {
            call: 3,
            turn: 2,
            chat: 1,
            tool: self.tool,
            level: self.level,
            arguments: &self.arguments,
            alarms: &self.alarms,
            paths: &self.paths,
            package: self.package,
            connection: self.connection,
            mcp_client: None,
            project: Some(Path::new(PROJECT)),
            provenance: self.provenance,
        }
    }

    pub fn by(&self, rules: &[Rule]) -> Outcome {
        book(rules).decide(&self.call())
    }
}

/// A book whose rules are all in memory, as rules of chat 1 where they would last.
pub fn book(rules: &[Rule]) -> RuleBook {
    let mut book = RuleBook::open(Path::new("/nonexistent/rules.json"));
    for rule in rules {
        let mut rule = rule.clone();
        if rule.scope.lasts() {
            rule.scope = Scope::Chat(1);
        }
        book.add(rule).unwrap();
    }
    book
}

pub fn rule(effect: Effect, tool: &str) -> Rule {
    Rule::new(effect, tool, Scope::Always)
}

pub fn on_path(effect: Effect, tool: &str, path: &str) -> Rule {
    Rule {
        path: Some(path.into()),
        ..rule(effect, tool)
    }
}

pub fn with_argument(effect: Effect, tool: &str, name: &str, regex: &str) -> Rule {
    let pattern = TextPattern::Matches(regex.into());
    let arguments = vec![ArgumentPattern {
        name: name.into(),
        pattern,
    }];
    Rule {
        arguments,
        ..rule(effect, tool)
    }
}

pub fn waived(rule: Rule) -> Rule {
    Rule {
        dangerous: Floor::Waived,
        ..rule
    }
}

pub fn edit(path: &str) -> Given {
    given(
        "edit_file",
        SafetyLevel::Dangerous,
        json!({"path": path}),
        &[path],
    )
}

pub fn eval(form: &str) -> Given {
    given(
        "eval_form",
        SafetyLevel::Cautious,
        json!({"form": form}),
        &[],
    )
}
