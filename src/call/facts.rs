// SPDX-License-Identifier: GPL-3.0-or-later
//! What rules look at, gathered from a tool call and the place where it is made, and kept while
//! the call waits for a decision.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::reach::Reached;
use crate::effect::{EffectKind, Question};
use crate::files::path::PathPolicy;
use crate::rules::{Alarms, Rule, RuledCall, Scope, TurnPlace, Width};
use crate::tool::{Arguments, Assessment, Origin, Runner, Tool};
use crate::trust::{Provenance, SafetyLevel};

/// Parameters of tools that are not ours which name files, besides those that end with `_path`.
const PATH_PARAMETERS: [&str; 4] = ["path", "file", "source", "destination"];

/// What rules and the audit log know by which file a call runs as a program, and where.
const REAL_PROGRAM: &str = "real_program";
const REAL_DIRECTORY: &str = "real_directory";

/// All that rules look at of one call.
#[derive(Debug, Clone)]
pub struct Facts {
    call: u64,
    place: TurnPlace,
    tool: String,
    origin: Origin,
    level: SafetyLevel,
    arguments: Map<String, Value>,
    alarms: Alarms,
    paths: Vec<PathBuf>,
    package: Option<String>,
    connection: Option<String>,
    provenance: Provenance,
    /// Where the text that the tool returns comes from.
    yields: Provenance,
    /// Whether files that the arguments name were followed only to know these facts.
    followed: Followed,
}

/// Whether facts may be others when they are gathered again for the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    No,
    /// A path may lead elsewhere by then.
    Paths,
}

impl Facts {
    /// The facts about CALL of TOOL with ARGUMENTS in PLACE, assessed as ASSESSMENT, found to be about
    /// the files in REACHED, and asked about for ALARMS.
    #[must_use]
    pub fn gather(
        call: u64,
        tool: &Tool,
        arguments: &Arguments,
        (assessment, reached, alarms): (&Assessment, &Reached, &Alarms),
        place: &TurnPlace,
    ) -> Self {
        let mut map = match arguments.to_json() {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        if let Some(program) = &reached.program {
            // The name in the call may be another file's tomorrow, and the root another project's.
            let text = |path: &Path| Value::from(path.to_string_lossy());
            map.insert(REAL_PROGRAM.to_owned(), text(&program.file));
            map.insert(REAL_DIRECTORY.to_owned(), text(&program.directory));
        }
        let (paths, provenance, followed) = match tool.origin {
            Origin::BuiltIn => (reached.files.clone(), reached.provenance, Followed::No),
            Origin::EmacsLisp | Origin::Library(_) | Origin::Image(_) | Origin::Server(_) => {
                named(&map, place.project.as_deref())
            }
        };
        let yields = match provenance {
            Provenance::Foreign => Provenance::Foreign,
            Provenance::Own => tool.provenance,
        };
        let in_image = matches!(
            tool.runner,
            Runner::Image(_) | Runner::Steps(_) | Runner::Operation(_)
        );
        Self {
            call,
            place: place.clone(),
            tool: tool.name.clone(),
            origin: tool.origin.clone(),
            level: assessment.level,
            paths,
            package: arguments.text("package").map(str::to_owned),
            connection: place.connection.clone().filter(|_| in_image),
            provenance: place.provenance(),
            arguments: map,
            alarms: alarms.clone(),
            yields,
            followed,
        }
    }

    /// The facts about QUESTION, an effect that is about to happen while a call of TOOL runs.
    #[must_use]
    pub fn of_effect(call: u64, tool: &Tool, question: &Question, place: &TurnPlace) -> Self {
        Self {
            call,
            place: place.clone(),
            tool: question.kind.tool(),
            origin: tool.origin.clone(),
            level: SafetyLevel::Dangerous,
            paths: question.files.clone(),
            package: None,
            connection: place.connection.clone(),
            provenance: place.provenance(),
            arguments: question.arguments(),
            alarms: Alarms::default(),
            yields: Provenance::Own,
            followed: Followed::No,
        }
    }

    /// The program that calls; none in chats.
    #[must_use]
    pub fn mcp_client(&self) -> Option<&str> {
        self.place.mcp_client.as_deref()
    }

    /// The call as rules take it.
    #[must_use]
    pub fn call(&self) -> RuledCall<'_> {
        RuledCall {
            call: self.call,
            turn: self.place.turn,
            chat: self.place.chat,
            tool: &self.tool,
            level: self.level,
            arguments: &self.arguments,
            alarms: &self.alarms,
            paths: &self.paths,
            package: self.package.as_deref(),
            connection: self.connection.as_deref(),
            mcp_client: self.mcp_client(),
            project: self.place.project.as_deref(),
            provenance: self.provenance,
        }
    }

    /// The same, with what the turn has read by now.
    #[must_use]
    pub fn as_now(&self) -> Self {
        Self {
            provenance: self.place.provenance(),
            ..self.clone()
        }
    }

    /// Whether gathering them again could give others: the turn has read something since, or a path was
    /// followed that may lead elsewhere now.
    #[must_use]
    pub fn may_have_changed(&self) -> bool {
        self.followed == Followed::Paths || self.provenance != self.place.provenance()
    }

    /// The arguments of the call for the audit log, with the program that they lead to.
    #[must_use]
    pub fn arguments(&self) -> Value {
        Value::Object(self.arguments.clone())
    }

    /// The chat that makes the call.
    #[must_use]
    pub fn chat(&self) -> u64 {
        self.place.chat
    }

    /// Whether the call is about FILE.
    #[must_use]
    pub fn concerns(&self, file: &Path) -> bool {
        // Most calls name no file, and following FILE's links costs a system call for each folder.
        if self.paths.is_empty() {
            return false;
        }
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        self.paths.iter().any(|path| *path == real || *path == file)
    }

    /// Where the text that the call returns comes from.
    #[must_use]
    pub fn yields(&self) -> Provenance {
        self.yields
    }

    /// The narrowest rule that allows the call again in the scope called NAME: `chat`, `project`
    /// or `always`; nothing for another name or without a project.
    #[must_use]
    pub fn offer(&self, name: &str) -> Option<Rule> {
        let scope = self.scope(name)?;
        let mut call = self.call();
        if EffectKind::of_tool(&self.tool).is_some() {
            return Some(Rule::allowing_effect(&call, scope));
        }
        // Of a tool that is not agent-q's own nobody knows what else it does with the file, nor of a program
        // what else it does in its folder.
        if self.origin != Origin::BuiltIn || self.arguments.contains_key(REAL_PROGRAM) {
            call.paths = &[];
        }
        Some(Rule::allowing(&call, scope))
    }

    /// The rules that are wider than that: for calls that are asked about for the same.
    #[must_use]
    pub fn offer_wider(&self, name: &str) -> Vec<(Width, Rule)> {
        let scope = self.scope(name);
        scope.map_or_else(Vec::new, |scope| Rule::wider(&self.call(), &scope))
    }

    fn scope(&self, name: &str) -> Option<Scope> {
        Some(match name {
            "chat" => Scope::Chat(self.place.chat),
            "project" => Scope::Project(self.place.project.clone()?),
            "always" => Scope::Always,
            _ => return None,
        })
    }
}

/// The files that ARGUMENTS of a tool that is not ours name, and whether all are in PROJECT. One that
/// can't be followed to its end is left out: no rule allows a call for it.
fn named(
    arguments: &Map<String, Value>,
    project: Option<&Path>,
) -> (Vec<PathBuf>, Provenance, Followed) {
    let given: Vec<&str> = arguments
        .iter()
        .filter(|(name, _)| PATH_PARAMETERS.contains(&name.as_str()) || name.ends_with("_path"))
        .filter_map(|(_, value)| value.as_str())
        .collect();
    if given.is_empty() {
        return (Vec::new(), Provenance::Own, Followed::No);
    }
    let (root, home) = (project.unwrap_or(Path::new("/")), std::env::home_dir());
    let Ok(policy) = PathPolicy::with_private::<&str>(root, home.as_deref(), &[]) else {
        return (Vec::new(), Provenance::Own, Followed::Paths);
    };
    let paths: Vec<PathBuf> = given
        .into_iter()
        .filter_map(|path| policy.judge(path).resolved().ok())
        .map(|resolved| resolved.path)
        .collect();
    let provenance = Provenance::of_files(&paths, project);
    (paths, provenance, Followed::Paths)
}
