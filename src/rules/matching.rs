// SPDX-License-Identifier: GPL-3.0-or-later
//! Which rules match a call, and what happens to it by those. In doubt, what allows does not match and what
//! restrains does: a rule that allows wants every file of the call, one that asks or denies wants any. Of
//! several that match, deny wins over ask, ask over allow, and then the lowest number.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use regex::Regex;
use serde_json::Value;

use super::{
    Alarm, ArgumentPattern, BadRule, Effect, Floor, OtherArguments, Rule, RuledCall, Scope,
    TextPattern,
};
use crate::trust::{Provenance, SafetyLevel};

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Run,
    Ask,
    Deny,
}

/// What happens to a call and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub outcome: Outcome,
    /// One sentence: the rule or the lack of one.
    pub reason: String,
    /// The rule that decided.
    pub rule: Option<u64>,
    /// All rules that match, in the order of their numbers.
    pub matching: Vec<u64>,
}

/// Why a dangerous call asks when no rule says anything about it.
pub const DANGEROUS_ASKS: &str = "Dangerous calls ask.";

/// Decides about CALL by RULES.
pub(super) fn decide<'r>(
    rules: impl Iterator<Item = (&'r Rule, &'r Compiled)>,
    call: &RuledCall<'_>,
) -> Explanation {
    let mut found: Vec<(&Rule, Floor)> = rules
        .filter(|(_, compiled)| compiled.matches(call))
        .map(|(rule, compiled)| (rule, compiled.floor()))
        .collect();
    found.sort_by_key(|(rule, _)| rule.id);
    let first = |effect: Effect| {
        let mut rules = found.iter().map(|(rule, _)| *rule);
        rules.find(|rule| rule.effect == effect)
    };
    let (outcome, rule, reason) = if let Some(rule) = first(Effect::Deny) {
        (Outcome::Deny, Some(rule), by(rule))
    } else if let Some(rule) = first(Effect::Ask) {
        (Outcome::Ask, Some(rule), by(rule))
    } else if call.level < SafetyLevel::Dangerous {
        match first(Effect::Allow) {
            Some(rule) => (Outcome::Run, Some(rule), by(rule)),
            None => (
                Outcome::Run,
                None,
                format!(
                    "{} calls run unless a rule says otherwise.",
                    capital(call.level.name())
                ),
            ),
        }
    } else {
        dangerous(&found, call)
    };
    Explanation {
        outcome,
        reason,
        rule: rule.map(|rule| rule.id),
        matching: found.iter().map(|(rule, _)| rule.id).collect(),
    }
}

/// A dangerous call that no rule asks about or denies.
fn dangerous<'r>(
    found: &[(&'r Rule, Floor)],
    call: &RuledCall<'_>,
) -> (Outcome, Option<&'r Rule>, String) {
    let waiving = found.iter().find(|(_, floor)| *floor == Floor::Waived);
    match waiving.map(|(rule, _)| *rule) {
        Some(rule) if call.provenance == Provenance::Own => (Outcome::Run, Some(rule), by(rule)),
        Some(rule) => (
            Outcome::Ask,
            Some(rule),
            format!(
                "This turn has read text from outside the project, so rule {} does not count.",
                rule.name()
            ),
        ),
        None => match found.first() {
            Some((rule, _)) => (
                Outcome::Ask,
                Some(rule),
                format!(
                    "The call is dangerous, and rule {} was not written for exactly that.",
                    rule.name()
                ),
            ),
            None => (Outcome::Ask, None, DANGEROUS_ASKS.into()),
        },
    }
}

fn by(rule: &Rule) -> String {
    format!("Rule {}: {}", rule.name(), rule.describe())
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

// Whether a rule is about a call.

/// The most memory that a rule's regular expression may compile to.
const REGEX_SIZE: usize = 1 << 20;

/// A rule's patterns, ready for use.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    effect: Effect,
    /// Found out once, because it takes trying the patterns.
    floor: Floor,
    scope: Scope,
    tool: GlobMatcher,
    path: Option<PathGlob>,
    arguments: Vec<(String, Matcher)>,
    other_arguments: OtherArguments,
    alarms: Vec<Alarm>,
    package: Option<GlobMatcher>,
    connection: Option<GlobMatcher>,
    mcp_client: Option<GlobMatcher>,
}

#[derive(Debug, Clone)]
enum Matcher {
    Equals(String),
    Regex(Regex),
}

/// A glob of absolute paths, of paths from the project's root, or of names.
#[derive(Debug, Clone)]
enum PathGlob {
    Absolute(GlobMatcher),
    InProject(GlobMatcher),
    Name(GlobMatcher),
}

impl Rule {
    /// Whether the rule may let dangerous calls run: exact tools, and a constraint on what the
    /// call is about that does not fit everything.
    #[must_use]
    pub fn waives_floor(&self) -> bool {
        self.effect == Effect::Allow
            && self.dangerous == Floor::Waived
            && (!is_glob(&self.tool) || self.named_tools().is_some())
            && (self.path.as_deref().is_some_and(constrains_path)
                || self.other_arguments == OtherArguments::None
                || self.has_wide_alarms()
                || self.arguments.iter().any(|it| constrains(&it.pattern)))
    }
}

impl Compiled {
    pub fn new(rule: &Rule) -> Result<Self, BadRule> {
        let restrains = rule.effect != Effect::Allow;
        let name = |text: &String| glob(text, Letters::Equal);
        Ok(Self {
            effect: rule.effect,
            floor: if rule.waives_floor() {
                Floor::Waived
            } else {
                Floor::Holds
            },
            scope: match &rule.scope {
                Scope::Project(root) => {
                    Scope::Project(root.canonicalize().unwrap_or_else(|_| root.clone()))
                }
                other => other.clone(),
            },
            tool: glob(&rule.tool, Letters::Distinct)?,
            // A file system may take `.ENV` for `.env`; what restrains has to see through that.
            path: rule
                .path
                .as_deref()
                .map(|path| {
                    path_glob(
                        path,
                        if restrains {
                            Letters::Equal
                        } else {
                            Letters::Distinct
                        },
                    )
                })
                .transpose()?,
            arguments: rule
                .arguments
                .iter()
                .map(|it| Ok((it.name.clone(), matcher(it, rule.effect)?)))
                .collect::<Result<_, BadRule>>()?,
            other_arguments: rule.other_arguments,
            alarms: rule.alarms.clone(),
            package: rule.package.as_ref().map(name).transpose()?,
            connection: rule.connection.as_ref().map(name).transpose()?,
            mcp_client: rule.mcp_client.as_ref().map(name).transpose()?,
        })
    }

    /// Whether the rule may let a dangerous call run.
    pub fn floor(&self) -> Floor {
        self.floor
    }

    /// Whether some call of TOOL may match.
    pub fn is_about(&self, tool: &str) -> bool {
        self.tool.is_match(tool)
    }

    pub fn matches(&self, call: &RuledCall<'_>) -> bool {
        self.in_scope(call)
            && self.tool.is_match(call.tool)
            && self.matches_paths(call)
            && self.matches_arguments(call)
            && self.matches_alarms(call)
            && self.matches_name(self.package.as_ref(), call.package)
            && self.matches_name(self.connection.as_ref(), call.connection)
            && self.matches_mcp_client(call)
    }

    fn in_scope(&self, call: &RuledCall<'_>) -> bool {
        match &self.scope {
            Scope::Once(number) => *number == call.call,
            Scope::Turn(number) => *number == call.turn,
            Scope::Chat(number) => *number == call.chat,
            Scope::Project(root) => call.project == Some(root.as_path()),
            Scope::Always => true,
        }
    }

    fn matches_paths(&self, call: &RuledCall<'_>) -> bool {
        let Some(glob) = &self.path else { return true };
        let mut paths = call.paths.iter();
        match self.effect {
            Effect::Allow => {
                !call.paths.is_empty() && paths.all(|path| glob.allows(path, call.project))
            }
            Effect::Ask | Effect::Deny => paths.any(|path| glob.restrains(path, call.project)),
        }
    }

    fn matches_arguments(&self, call: &RuledCall<'_>) -> bool {
        let named = |name: &String| self.arguments.iter().any(|(it, _)| it == name);
        if self.other_arguments == OtherArguments::None && !call.arguments.keys().all(named) {
            return false;
        }
        if self.effect == Effect::Allow
            && let Some(argument) = Rule::argument_to_name(call)
            && !self.arguments.iter().any(|(it, _)| it == argument)
        {
            return false;
        }
        self.arguments.iter().all(|(name, matcher)| {
            let value = call.arguments.get(name).filter(|value| !value.is_null());
            value.is_some_and(|value| matcher.matches(&argument_text(value)))
        })
    }

    fn matches_alarms(&self, call: &RuledCall<'_>) -> bool {
        self.alarms.is_empty()
            || match self.effect {
                Effect::Allow => call.alarms.all_in(&self.alarms),
                Effect::Ask | Effect::Deny => call.alarms.any_in(&self.alarms),
            }
    }

    /// Who calls is always known.
    fn matches_mcp_client(&self, call: &RuledCall<'_>) -> bool {
        self.mcp_client
            .as_ref()
            .is_none_or(|glob| call.mcp_client.is_some_and(|name| glob.is_match(name)))
    }

    /// What is not known might be anything: that is reason to restrain and none to allow.
    fn matches_name(&self, glob: Option<&GlobMatcher>, name: Option<&str>) -> bool {
        match (glob, name) {
            (None, _) => true,
            (Some(glob), Some(name)) => glob.is_match(name),
            (Some(_), None) => self.effect != Effect::Allow,
        }
    }
}

impl Matcher {
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Equals(value) => value == text,
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

impl PathGlob {
    /// Whether PATH itself is meant.
    fn allows(&self, path: &Path, project: Option<&Path>) -> bool {
        let inside = project.and_then(|root| path.strip_prefix(root).ok());
        match self {
            Self::Absolute(glob) => glob.is_match(path),
            Self::InProject(glob) => inside.is_some_and(|path| glob.is_match(path)),
            Self::Name(glob) => inside
                .and_then(Path::file_name)
                .is_some_and(|name| glob.is_match(name)),
        }
    }

    /// Whether PATH or a folder around it is meant.
    fn restrains(&self, path: &Path, project: Option<&Path>) -> bool {
        match self {
            Self::Absolute(_) | Self::InProject(_) => {
                path.ancestors().any(|path| self.allows(path, project))
            }
            Self::Name(glob) => path.iter().any(|name| glob.is_match(name)),
        }
    }
}

/// An argument as patterns see it.
pub(super) fn argument_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether letter case matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    Distinct,
    Equal,
}

fn glob(text: &str, letters: Letters) -> Result<GlobMatcher, BadRule> {
    GlobBuilder::new(text)
        .literal_separator(true)
        .backslash_escape(true)
        .case_insensitive(letters == Letters::Equal)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| BadRule(format!("'{text}' is not a glob: {}", error.kind())))
}

fn path_glob(text: &str, letters: Letters) -> Result<PathGlob, BadRule> {
    if text.is_empty() || text.split('/').any(|name| name == "..") {
        return Err(BadRule(format!(
            "the path '{text}' must not be empty or contain '..'"
        )));
    }
    if let Some(rest) = text.strip_prefix("~/") {
        let home = std::env::home_dir()
            .map(|home| home.canonicalize().unwrap_or(home))
            .ok_or_else(|| BadRule(format!("the home directory in '{text}' is not known")))?;
        let home = globset::escape(&home.to_string_lossy());
        return Ok(PathGlob::Absolute(glob(
            &format!("{home}/{rest}"),
            letters,
        )?));
    }
    let compiled = glob(text.trim_start_matches("./"), letters)?;
    Ok(if text.starts_with('/') {
        PathGlob::Absolute(compiled)
    } else if text.contains('/') {
        PathGlob::InProject(compiled)
    } else {
        PathGlob::Name(compiled)
    })
}

fn matcher(argument: &ArgumentPattern, effect: Effect) -> Result<Matcher, BadRule> {
    let text = match &argument.pattern {
        TextPattern::Equals(value) => return Ok(Matcher::Equals(value.clone())),
        TextPattern::Matches(text) => text,
    };
    // Each is compiled on its own first, so that no stray parenthesis opens up the anchors.
    let build = |text: &str| {
        regex::RegexBuilder::new(text)
            .size_limit(REGEX_SIZE)
            .build()
            .map_err(|error| {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().to_owned();
                BadRule(format!("'{text}' is not a regular expression: {why}"))
            })
    };
    let anywhere = build(text)?;
    Ok(Matcher::Regex(match effect {
        Effect::Allow => build(&format!(r"\A(?:{text})\z"))?,
        Effect::Ask | Effect::Deny => anywhere,
    }))
}

/// Whether TEXT stands for more than itself as a glob.
pub(super) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

/// Whether a path glob leaves anything out: it doesn't fit paths that nobody has in mind.
fn constrains_path(text: &str) -> bool {
    const PROBES: [&str; 5] = [
        "/0",
        "/.h",
        "/zz9/plural.z",
        "/zz9/q/w/e/r/t.y",
        "/\u{3bb}/x",
    ];
    let root = Path::new("/");
    path_glob(text, Letters::Equal).is_ok_and(|glob| {
        !PROBES
            .iter()
            .any(|probe| glob.allows(Path::new(probe), Some(root)))
    })
}

/// Whether a pattern leaves anything out that a model could write.
fn constrains(pattern: &TextPattern) -> bool {
    match pattern {
        TextPattern::Equals(_) => true,
        TextPattern::Matches(text) => {
            let whole = Regex::new(&format!(r"\A(?:{text})\z"));
            // Any real constraint fails for most of these.
            const PROBES: [&str; 4] = ["", "x", "(delete-file \"/x\")\n(quit)", "\u{3bb} 0 #.(x)"];
            whole
                .is_ok_and(|regex| PROBES.iter().filter(|probe| regex.is_match(probe)).count() <= 1)
        }
    }
}
