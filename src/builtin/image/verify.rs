// SPDX-License-Identifier: GPL-3.0-or-later
//! Verifying a system from scratch: a Lisp that knows nothing of what was tried before loads it from its files
//! and runs its tests, beside another one with an earlier commit where that is asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lexpr::Value;

use super::building::render_tests;
use super::common::{background_parameter, counted};
use super::execution::NAMED;
use super::outcome;
use super::systems::{entries, finding};
use super::timeouts::{long, long_timeout_parameter};
use crate::files::commit::export;
use crate::files::systems::{ProjectSystem, project_systems};
use crate::image::{ImageReply, Plist, property_list};
use crate::protocol::Lisp;
use crate::tool::work::{ImageCalls, WorkContext};
use crate::tool::{Arguments, Assessment, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

/// How many lines are told of loading, of tests and of what differs.
const LINES: usize = 8;
/// How many characters of each.
const LONGEST_LINE: usize = 240;

#[must_use]
pub fn tools() -> Vec<Tool> {
    let mut tool = Tool::new(
        "verify_system",
        "Load a system from its files in a fresh Lisp and run its tests there. Use it last, once, after changing files.",
        SafetyLevel::Dangerous,
        &["execution"],
        vec![
            Parameter::optional("system", ParameterType::String, "Default: the project's"),
            Parameter::optional(
                "against",
                ParameterType::String,
                "A git commit to compare with, e.g. HEAD",
            ),
            long_timeout_parameter(),
            background_parameter(),
        ],
        Runner::Steps(|arguments, context, images| verify(arguments, context, images).boxed()),
    );
    tool.assess = |level, _| Assessment {
        level,
        reason: "loads the system in a new Lisp and runs its tests there".to_owned(),
    };
    tool.finding = Some(finding);
    tool.code = Some(NAMED);
    vec![tool]
}

/// A Lisp that was started for one call. It ends with this.
struct FreshLisp {
    name: Arc<str>,
    context: WorkContext,
}

impl FreshLisp {
    /// A new one for the project in ROOT.
    async fn start(context: &WorkContext, root: &Path) -> Result<Self, ToolFailure> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name: Arc<str> = format!("verify-{number}").into();
        let lisp = Self {
            context: context.clone(),
            name: Arc::clone(&name),
        };
        context.start_second(&name, Some(root)).await?;
        Ok(lisp)
    }

    fn lisp(&self) -> Lisp {
        Lisp::Second(Arc::clone(&self.name))
    }
}

impl Drop for FreshLisp {
    /// Without a runtime, as at the end of Emacs, it ends by itself.
    fn drop(&mut self) {
        let (context, name) = (self.context.clone(), Arc::clone(&self.name));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let asked = serde_json::json!({ "name": *name });
                if let Err(failure) = context.ask_emacs("end-lisp", asked).await {
                    tracing::warn!(%failure.message, "a second Lisp was not ended");
                }
            });
        }
    }
}

/// What came of loading a system and of its tests.
struct Run {
    seconds: f64,
    loaded: Result<String, String>,
    /// Nothing where it could not be loaded.
    tests: Option<Tests>,
}

struct Tests {
    told: Result<String, String>,
    failed: BTreeSet<String>,
}

impl Run {
    fn is_good(&self) -> bool {
        let is_green = |it: &Tests| it.told.is_ok() && it.failed.is_empty();
        self.loaded.is_ok() && self.tests.as_ref().is_some_and(is_green)
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.loaded {
            Ok(told) => lines.extend(first_lines(told)),
            Err(why) => {
                lines.push("It does not load from its files:".to_owned());
                lines.extend(first_lines(why));
            }
        }
        if let Some(tests) = &self.tests {
            let (Ok(told) | Err(told)) = &tests.told;
            lines.extend(first_lines(told));
        }
        lines
    }
}

/// The beginning of TEXT.
fn first_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).collect();
    let mut told: Vec<String> = lines.iter().take(LINES).map(|it| shortened(it)).collect();
    if let Some(more @ 1..) = lines.len().checked_sub(LINES) {
        told.push(format!("({} more.)", counted(more as i64, "line")));
    }
    told
}

/// LINE, or the beginning of a long one.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(LONGEST_LINE) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}...", &line[..end]),
    }
}

async fn verify(
    arguments: &Arguments,
    context: &WorkContext,
    images: &dyn ImageCalls,
) -> Result<String, ToolFailure> {
    let policy = context.policy().await?;
    let root = policy.root().to_owned();
    let systems = context
        .on_a_thread(move |stop| project_systems(&policy, stop))
        .await?;
    let system = match arguments.text("system") {
        Some(system) => system.to_owned(),
        None => only_system(&systems, &root)?,
    };
    let deadline = long(arguments, Duration::ZERO);
    let now = run(&system, (&root, &systems), deadline, context, images);
    let Some(commit) = arguments.text("against") else {
        return Ok(told(&system, &now.await?, Vec::new()));
    };
    let exported = {
        let (root, commit) = (root.clone(), commit.to_owned());
        context.on_a_thread(move |_| export(&root, &commit)).await
    };
    let exported = match exported {
        Ok(exported) => exported,
        Err(failure) => {
            return Ok(told(&system, &now.await?, vec![failure.message]));
        }
    };
    let there: Vec<ProjectSystem> = systems
        .iter()
        .map(|it| ProjectSystem {
            file: exported.project.join(&it.relative),
            ..it.clone()
        })
        .filter(|it| it.file.is_file())
        .collect();
    let before = run(
        &system,
        (&exported.project, &there),
        deadline,
        context,
        images,
    );
    let (now, before) = futures_util::future::join(now, before).await;
    let now = now?;
    let more = compared(&now, &exported.name, before);
    Ok(told(&system, &now, more))
}

/// The system of the project that is meant by none.
fn only_system(systems: &[ProjectSystem], root: &Path) -> Result<String, ToolFailure> {
    let primary: BTreeSet<&str> = systems
        .iter()
        .filter_map(|it| it.name.split('/').next())
        .collect();
    let named = root.file_name().and_then(|it| it.to_str());
    match (primary.len(), named.filter(|it| primary.contains(it))) {
        (0, _) => Err(ToolFailure::new(
            "The project has no .asd file in its root or two folders below it, so there is no system to verify.",
        )),
        (1, _) => Ok(primary
            .first()
            .map(|it| (*it).to_owned())
            .unwrap_or_default()),
        (_, Some(named)) => Ok(named.to_owned()),
        (_, None) => Err(ToolFailure::new(format!(
            "The project has several systems: {}. Name one.",
            primary.into_iter().collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Loads SYSTEM from its files in a fresh Lisp and runs its tests. SYSTEMS are the project's, in ROOT.
fn run<'a>(
    system: &'a str,
    (root, systems): (&'a PathBuf, &'a [ProjectSystem]),
    deadline: Duration,
    context: &'a WorkContext,
    images: &'a dyn ImageCalls,
) -> BoxFuture<'a, Result<Run, ToolFailure>> {
    async move {
        let began = Instant::now();
        let fresh = FreshLisp::start(context, root).await?;
        let asked = || {
            property_list([
                ("system", Value::string(system)),
                ("systems", entries(systems)),
            ])
        };
        let call = |operation| images.call(fresh.lisp(), operation, asked(), deadline);
        let loaded = loaded(&call("load-system").await?);
        let tests = match loaded {
            Ok(_) => Some(tested(&call("run-tests").await?)),
            Err(_) => None,
        };
        Ok(Run {
            seconds: began.elapsed().as_secs_f64(),
            loaded,
            tests,
        })
    }
    .boxed()
}

/// What REPLY says of loading a system, or why it failed.
fn loaded(reply: &ImageReply) -> Result<String, String> {
    let data = outcome::returned(reply).map_err(|failure| without_restarts(&failure.message))?;
    let count = |name: &str| data.integer(name).unwrap_or_default();
    let mut lines = vec![format!(
        "It loads: {} of the project compiled{}.",
        counted(count("compiled-count"), "file"),
        outcome::with_warnings(data)
    )];
    // What is not listed can't be asked for any more.
    lines.extend(
        outcome::notes(data)
            .into_iter()
            .filter(|it| !it.starts_with("(Not listed")),
    );
    Ok(lines.join("\n"))
}

/// What REPLY says of tests, or why they failed, or that there were none.
fn tested(reply: &ImageReply) -> Tests {
    let told = render_tests(&Arguments::default(), reply);
    let failed = match outcome::returned(reply) {
        Ok(data) => failed_tests(data),
        Err(_) => BTreeSet::new(),
    };
    let is_red = match outcome::returned(reply) {
        Ok(data) => data.integer("failed").unwrap_or_default() > 0 || data.flag("problem"),
        Err(_) => true,
    };
    Tests {
        told: match told {
            Ok(told) if !is_red => Ok(told),
            Ok(told) => Err(told),
            Err(failure) => Err(without_restarts(&failure.message)),
        },
        failed,
    }
}

fn failed_tests(data: Plist<'_>) -> BTreeSet<String> {
    let results = data.plists("results");
    let names = results.filter_map(|it| Some(it.text("test")?.to_owned()));
    names.collect()
}

/// TEXT without what to choose from: nobody can any more.
fn without_restarts(text: &str) -> String {
    let kept = text.lines().filter(|it| !it.starts_with("Restarts: "));
    kept.collect::<Vec<_>>().join("\n")
}

/// What is told of NOW, the run of SYSTEM, with lines MORE.
fn told(system: &str, now: &Run, more: Vec<String>) -> String {
    let verdict = match now.is_good() {
        true => "VERIFIED",
        false => "NOT VERIFIED",
    };
    let mut lines = vec![format!(
        "{verdict}: {system} in a fresh Lisp, {:.1} s.",
        now.seconds
    )];
    lines.extend(now.lines());
    lines.extend(more);
    lines.join("\n")
}

/// What was red in the commit NAME, as the run BEFORE says, and is or isn't NOW.
fn compared(now: &Run, name: &str, before: Result<Run, ToolFailure>) -> Vec<String> {
    let before = match before {
        Ok(before) => before,
        Err(failure) => return vec![format!("Commit {name}: {}", failure.message)],
    };
    let Some(tests) = &before.tests else {
        return vec![format!("Commit {name} does not load from its files.")];
    };
    let none = BTreeSet::new();
    let (old, new) = (
        &tests.failed,
        now.tests.as_ref().map_or(&none, |it| &it.failed),
    );
    let names = |names: Vec<&String>| {
        let told: Vec<&str> = names.iter().take(LINES).map(|it| it.as_str()).collect();
        match names.len().saturating_sub(LINES) {
            0 => told.join(", "),
            more => format!("{} and {more} more", told.join(", ")),
        }
    };
    let parts = [
        ("red there, green now", old.difference(new).collect()),
        ("red in both", old.intersection(new).collect()),
        ("red only now", new.difference(old).collect::<Vec<_>>()),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, tests)| !tests.is_empty())
        .map(|(what, tests)| format!("{what}: {}", names(tests)))
        .collect();
    let (Ok(first) | Err(first)) = &tests.told;
    let first = first.lines().next().unwrap_or_default();
    match parts.is_empty() {
        true => vec![format!("Commit {name}: {first}")],
        false => vec![format!("Commit {name}: {first} {}.", parts.join("; "))],
    }
}
