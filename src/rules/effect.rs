// SPDX-License-Identifier: GPL-3.0-or-later
//! Rules about effects, which rules know as they know tools: `effect/delete_file` with the function
//! of the program that is at it. What a prompt offers about one, and how that reads.

use globset::escape;

use super::{ArgumentPattern, Effect, Floor, Rule, RuledCall, Scope, TextPattern};
use crate::effect::EffectKind;

/// The argument with the function of the program that is at it.
const FUNCTION: &str = "function";

/// The argument that says what it acts on, unless that is a file. Of a program that is all that it is
/// given, in the words of a shell; what a rule can't compare has none.
const TARGET: &str = "target";

/// The arguments with the real name of a program and the folder that it runs in.
const PLACE: [&str; 2] = ["program", "directory"];

impl Rule {
    /// The narrowest rule that lets the effect CALL happen again: to the files in its folder by the
    /// same function, to the same file by any code where none is known, or to the same target.
    pub(crate) fn allowing_effect(call: &RuledCall<'_>, scope: Scope) -> Self {
        let mut rule = Self::new(Effect::Allow, call.tool, scope);
        rule.dangerous = Floor::Waived;
        let text = |name: &str| call.arguments.get(name).and_then(|it| it.as_str());
        let function = text(FUNCTION);
        let target = text(TARGET);
        // What a program may do is all in what it is given: without that there is nothing to allow.
        if EffectKind::of_tool(call.tool) == Some(EffectKind::RunProgram)
            && (target.is_none() || PLACE.iter().any(|name| text(name).is_none()))
        {
            return rule;
        }
        let place = PLACE.map(|name| (name, text(name)));
        for (name, value) in [(FUNCTION, function), (TARGET, target)]
            .into_iter()
            .chain(place)
        {
            if let Some(value) = value {
                rule.arguments.push(ArgumentPattern {
                    name: name.to_owned(),
                    pattern: TextPattern::Equals(value.to_owned()),
                });
            }
        }
        rule.path = call.paths.first().map(|path| {
            match (function, path.parent()) {
                // All that is in the root is no folder of the program's.
                (Some(_), Some(folder)) if folder.parent().is_some() => {
                    format!("{}/**", escape(&folder.to_string_lossy()))
                }
                _ => escape(&path.to_string_lossy()),
            }
        });
        rule.connection = call.connection.map(escape);
        rule.mcp_client = call.mcp_client.map(escape);
        rule
    }

    /// A rule about effects of KIND as a sentence.
    pub(super) fn describe_of_effects(&self, kind: EffectKind) -> String {
        let argument = |name: &str| {
            let mut arguments = self.arguments.iter();
            let found = arguments.find(|it| it.name == name)?;
            Some(match &found.pattern {
                TextPattern::Equals(value) => value.clone(),
                TextPattern::Matches(regex) => format!("what matches /{regex}/"),
            })
        };
        let who = argument(FUNCTION).unwrap_or_else(|| "any code".to_owned());
        let mut text = match self.effect {
            Effect::Allow => format!("{who} may {}", kind.deed()),
            Effect::Ask => format!("Ask before {who} may {}", kind.deed()),
            Effect::Deny => format!("{who} may not {}", kind.deed()),
        };
        if let Some(target) = argument(TARGET) {
            text.push_str(&match kind {
                EffectKind::RunProgram => format!(" exactly `{target}`"),
                _ => format!(" {target}"),
            });
        }
        if let Some(program) = argument("program") {
            text.push_str(&format!(", the program {program}"));
        }
        if let Some(directory) = argument("directory") {
            text.push_str(&format!(", in {directory}"));
        }
        if let Some(path) = &self.path {
            text.push_str(&match path.strip_suffix("/**") {
                Some(folder) => format!(" under {folder}/"),
                None => format!(" matching {path}"),
            });
        }
        for other in &self.arguments {
            let said = [FUNCTION, TARGET].contains(&other.name.as_str());
            if !said && !PLACE.contains(&other.name.as_str()) {
                text.push_str(&match &other.pattern {
                    TextPattern::Equals(value) => format!(", {} = {value:?}", other.name),
                    TextPattern::Matches(regex) => format!(", {} matching /{regex}/", other.name),
                });
            }
        }
        if let Some(connection) = &self.connection {
            text.push_str(&format!(", on connection {connection}"));
        }
        text.push_str(&self.describe_mcp_client());
        format!("{text}, {}.", self.describe_scope())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::LazyLock;

    use serde_json::{Map, Value, json};

    use super::super::matching::Compiled;
    use super::*;
    use crate::rules::Alarms;
    use crate::trust::{Provenance, SafetyLevel};

    fn call<'c>(
        tool: &'c str,
        arguments: &'c Map<String, Value>,
        paths: &'c [PathBuf],
    ) -> RuledCall<'c> {
        static NONE: LazyLock<Alarms> = LazyLock::new(Alarms::default);
        RuledCall {
            call: 1,
            turn: 1,
            chat: 1,
            tool,
            level: SafetyLevel::Dangerous,
            arguments,
            alarms: &NONE,
            paths,
            package: None,
            connection: None,
            mcp_client: None,
            project: None,
            provenance: Provenance::Own,
        }
    }

    fn offered(tool: &str, arguments: Value, files: &[&str]) -> (Rule, String) {
        let paths: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let rule = Rule::allowing_effect(&call(tool, &arguments, &paths), Scope::Chat(1));
        let words = rule.describe();
        (rule, words)
    }

    #[test]
    fn what_is_offered_is_narrow_and_says_so() {
        for (tool, arguments, files, words) in [
            (
                "effect/delete_file",
                json!({"function": "SHOP::CLEANUP", "form": "(shop::cleanup)"}),
                &["/tmp/shop/a.txt"][..],
                "SHOP::CLEANUP may delete files under /tmp/shop/, for this chat.",
            ),
            (
                "effect/delete_file",
                json!({"form": "(mapc 'delete-file x)"}),
                &["/tmp/shop/a.txt"],
                "any code may delete files matching /tmp/shop/a.txt, for this chat.",
            ),
            (
                "effect/write_file",
                json!({"function": "SHOP::SAVE"}),
                &["/a.txt"],
                "SHOP::SAVE may write files matching /a.txt, for this chat.",
            ),
            (
                "effect/connect",
                json!({"function": "SHOP::FETCH", "target": "127.0.0.1:80"}),
                &[],
                "SHOP::FETCH may connect to 127.0.0.1:80, for this chat.",
            ),
            (
                "effect/run_program",
                json!({"target": "git status", "program": "/usr/bin/git", "directory": "/srv/"}),
                &[],
                "any code may run exactly `git status`, the program /usr/bin/git, in /srv/, for this chat.",
            ),
        ] {
            let (rule, said) = offered(tool, arguments, files);
            assert_eq!(said, words);
            assert!(rule.waives_floor() && rule.check().is_ok(), "{said}");
        }
    }

    #[test]
    fn a_rule_for_a_program_is_about_that_file_there_with_all_that_it_is_given() {
        let git = json!({"target": "git status", "program": "/usr/bin/git", "directory": "/srv/"});
        let (rule, _) = offered("effect/run_program", git.clone(), &[]);
        let rule = Compiled::new(&rule).unwrap();
        let matches = |name: &str, value: &str| {
            let mut arguments = git.as_object().cloned().unwrap();
            arguments.insert(name.to_owned(), json!(value));
            rule.matches(&call("effect/run_program", &arguments, &[]))
        };
        assert!(matches("form", "(anything)"));
        assert!(!matches("target", "git push"));
        assert!(!matches("target", "git"));
        assert!(!matches("program", "/tmp/evil/git"));
        assert!(!matches("directory", "/tmp/"));
        let old = json!({"target": "git"}).as_object().cloned().unwrap();
        assert!(!rule.matches(&call("effect/run_program", &old, &[])));
    }

    #[test]
    fn what_can_be_told_by_nothing_is_no_rule() {
        let (rule, _) = offered("effect/exit_lisp", json!({"form": "(quit)"}), &[]);
        assert!(rule.check().is_err());
        for arguments in [
            json!({"function": "SHOP::RUN", "target": "git"}),
            json!({"function": "SHOP::RUN", "program": "/bin/sh", "directory": "/"}),
        ] {
            let (rule, _) = offered("effect/run_program", arguments, &[]);
            assert!(rule.check().is_err());
        }
    }
}
