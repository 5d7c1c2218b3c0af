// SPDX-License-Identifier: GPL-3.0-or-later
//! Verifying a system from scratch: a Lisp that knows nothing of what was tried before loads it from its files
//! and runs its tests, beside another one with an earlier commit where that is asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join, join3};
use lexpr::Value;

use super::building::{is_uncounted, render_tests, test_result, tests_run};
use super::common::{background_parameter, counted};
use super::drift;
use super::execution::NAMED;
use super::outcome;
use super::systems::{entries, finding};
use super::timeouts::{LOOK_UP, long, long_timeout_parameter};
use crate::builtin::files::balance::is_lisp;
use crate::files::commit::export;
use crate::files::systems::{ProjectSystem, is_definition, project_systems};
use crate::image::{ImageReply, Plist, property_list};
use crate::protocol::Lisp;
use crate::tool::work::{FoundForCall, ImageCalls, Running, WorkContext};
use crate::tool::{Arguments, Assessment, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;
use crate::workspace::TestsRun;
use crate::workspace::journal::{ChangedPlace, JournalEntry};

/// How many lines are told of loading, of tests and of what differs.
const LINES: usize = 8;
/// How many characters of each.
const LONGEST_LINE: usize = 400;

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
    tool.finding = Some(finding_to_verify);
    tool.code = Some(NAMED);
    vec![tool]
}

/// The file of the system that is verified.
///
/// # Errors
///
/// The call names none, and the project has none or several: nobody need be asked about that.
fn finding_to_verify(arguments: Arguments, context: WorkContext) -> Running<FoundForCall> {
    async move {
        let (system, _, _) = target(&arguments, &context).await?;
        finding(arguments.with_text("system", &system), context).await
    }
    .boxed()
}

/// The system that ARGUMENTS mean, the project's systems and its root.
async fn target(
    arguments: &Arguments,
    context: &WorkContext,
) -> Result<(String, Vec<ProjectSystem>, PathBuf), ToolFailure> {
    let policy = context.policy().await?;
    let root = policy.root().to_owned();
    let systems = context
        .on_a_thread(move |stop| project_systems(&policy, stop))
        .await?;
    let system = match arguments.text("system") {
        Some(system) => system.to_owned(),
        None => only_system(&systems, &root)?,
    };
    Ok((system, systems, root))
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
struct FreshRun {
    seconds: f64,
    loaded: Result<String, String>,
    /// Nothing where it could not be loaded.
    tests: Option<Tests>,
    /// What else is to be known of what was loaded.
    notes: Vec<String>,
}

struct Tests {
    told: String,
    outcome: TestsOutcome,
    ran: TestsRun,
    failed: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestsOutcome {
    Green,
    Red,
    /// No test ran.
    None,
    /// They ran, and only what they printed says how.
    Uncounted,
}

impl FreshRun {
    fn verdict(&self) -> &'static str {
        match self.tests.as_ref().map(|it| it.outcome) {
            Some(TestsOutcome::Green) => "VERIFIED",
            Some(TestsOutcome::None) => "LOADED, NOT TESTED",
            Some(TestsOutcome::Uncounted) => "LOADED, TESTS NOT COUNTED",
            Some(TestsOutcome::Red) | None => "NOT VERIFIED",
        }
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
        match &self.tests {
            // What they printed last says how they went.
            Some(tests) if tests.outcome == TestsOutcome::Uncounted => {
                lines.extend(both_ends(&tests.told));
            }
            Some(tests) => lines.extend(first_lines(&tests.told)),
            None => {}
        }
        lines.extend(self.notes.iter().cloned());
        lines
    }
}

fn filled_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|it| !it.trim().is_empty()).collect()
}

/// The first line of TEXT, and the last ones.
fn both_ends(text: &str) -> Vec<String> {
    let lines = filled_lines(text);
    let left_out = lines.len().saturating_sub(LINES);
    let mut told: Vec<String> = lines.iter().take(1).map(|it| shortened(it)).collect();
    if left_out > 0 {
        told.push(format!("({} left out.)", counted(left_out as i64, "line")));
    }
    told.extend(lines.iter().skip(1 + left_out).map(|it| shortened(it)));
    told
}

/// The beginning of TEXT.
fn first_lines(text: &str) -> Vec<String> {
    let lines = filled_lines(text);
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
    let (system, systems, root) = target(arguments, context).await?;
    let deadline = long(arguments, Duration::ZERO);
    let now = run(&system, (&root, &systems), deadline, context, images);
    let Some(commit) = arguments.text("against") else {
        let (now, differs) = join(now, drift::in_a_line(context)).await;
        return Ok(told(&system, &now?, differs.into_iter().collect(), context));
    };
    let exported = {
        let (root, commit) = (root.clone(), commit.to_owned());
        context.on_a_thread(move |_| export(&root, &commit)).await
    };
    let exported = match exported {
        Ok(exported) => exported,
        Err(failure) => {
            let (now, differs) = join(now, drift::in_a_line(context)).await;
            let more = differs.into_iter().chain([failure.message]);
            return Ok(told(&system, &now?, more.collect(), context));
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
    let (now, before, differs) = join3(now, before, drift::in_a_line(context)).await;
    let now = now?;
    let more = compared(&now, &exported.name, before).into_iter();
    Ok(told(
        &system,
        &now,
        differs.into_iter().chain(more).collect(),
        context,
    ))
}

/// The system of the project that is meant by none.
fn only_system(systems: &[ProjectSystem], root: &Path) -> Result<String, ToolFailure> {
    let primary: BTreeSet<&str> = systems
        .iter()
        .filter_map(|it| it.name.split('/').next())
        .collect();
    // Those of tests and of parts have its name in theirs.
    let main = primary
        .iter()
        .find(|name| primary.iter().all(|it| it.contains(**name)))
        .copied();
    let named = root.file_name().and_then(|it| it.to_str()).or(main);
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
) -> BoxFuture<'a, Result<FreshRun, ToolFailure>> {
    async move {
        let (began, waited) = (Instant::now(), images.waited());
        let fresh = FreshLisp::start(context, root).await?;
        let asked = || {
            property_list([
                ("system", Value::string(system)),
                ("systems", entries(systems)),
            ])
        };
        let call = |operation| images.call(fresh.lisp(), operation, asked(), deadline);
        let mut notes = Vec::new();
        let loaded = match call("load-system").await {
            Ok(reply) => {
                if let ImageReply::Missed(why) = &reply {
                    notes.extend(known_to_users_image(why, systems, context).await);
                }
                loaded(&reply)
            }
            Err(failure) => Err(ended("loading it", &failure)),
        };
        let tests = match loaded {
            Ok(_) => Some(match call("run-tests").await {
                Ok(reply) => tested(&reply),
                Err(failure) => Tests::red(ended("running its tests", &failure)),
            }),
            Err(_) => None,
        };
        let asked = images.waited().saturating_sub(waited);
        let seconds = began.elapsed().saturating_sub(asked).as_secs_f64();
        if loaded.is_ok() {
            let files = changed_sources(root, context);
            notes.extend(in_no_system(files, root, &fresh, images).await);
        }
        Ok(FreshRun {
            seconds,
            loaded,
            tests,
            notes,
        })
    }
    .boxed()
}

/// Which of the systems that WHY names, as the fresh Lisp doesn't find them, the user's image knows: it was told
/// of them by hand. The fresh one was told of the project's SYSTEMS.
async fn known_to_users_image(
    why: &str,
    systems: &[ProjectSystem],
    context: &WorkContext,
) -> Option<String> {
    let asked = context.ask_image("source-places", &Value::Null, LOOK_UP);
    let ImageReply::Returned(data) = asked.await.ok()? else {
        return None;
    };
    // "... the system a, which b needs; c, which b needs. Near names: ..."
    let missing = why.split_once(" the system")?.1.split(". ").next()?;
    let missing = missing.trim_start_matches('s').split("; ");
    let names: BTreeSet<&str> = missing
        .filter_map(|it| it.trim().split([',', '/']).next())
        .collect();
    let files = Plist::new(&data).texts("files").into_iter().map(Path::new);
    let known: BTreeSet<String> = files
        .filter(|file| is_definition(file) && systems.iter().all(|it| it.file != **file))
        .filter(|file| {
            let name = file.file_stem().and_then(|it| it.to_str());
            name.is_some_and(|it| names.contains(it))
        })
        .map(|file| file.display().to_string())
        .collect();
    let known: Vec<String> = known.into_iter().take(LINES).collect();
    (!known.is_empty()).then(|| {
        format!(
            "The user's image knows {}, but only because it was told by hand (asdf:*central-registry*, or the file was loaded). Where every Lisp finds it: below ~/common-lisp/, or in a folder that a file in ~/.config/common-lisp/source-registry.conf.d/ names.",
            known.join(", ")
        )
    })
}

/// The sources in ROOT that the chat has changed.
fn changed_sources(root: &Path, context: &WorkContext) -> BTreeSet<PathBuf> {
    let turns = context.workspace.journal.since(0);
    let entries = turns.iter().flat_map(|(_, turn)| turn);
    entries
        .filter_map(|entry| match entry {
            JournalEntry::Changed {
                place: ChangedPlace::File(file),
                ..
            } => Some(file),
            JournalEntry::Moved { to, .. } => Some(to),
            JournalEntry::Changed { .. } => None,
        })
        .filter(|file| is_lisp(file) && !is_definition(file))
        .filter(|file| file.starts_with(root) && file.is_file())
        .cloned()
        .collect()
}

/// Which of FILES, in ROOT, are in no system that FRESH has loaded.
async fn in_no_system(
    files: BTreeSet<PathBuf>,
    root: &Path,
    fresh: &FreshLisp,
    images: &dyn ImageCalls,
) -> Option<String> {
    let mut others = Vec::new();
    for file in files {
        let asked = property_list([("file", Value::string(file.to_string_lossy()))]);
        let reply = images.call(fresh.lisp(), "file-known", asked, LOOK_UP);
        if let Ok(ImageReply::Returned(data)) = reply.await
            && !Plist::new(&data).flag("known")
        {
            let inside = file.strip_prefix(root).unwrap_or(&file);
            others.push(inside.display().to_string());
        }
    }
    let more = match others.len().saturating_sub(LINES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    others.truncate(LINES);
    (!others.is_empty()).then(|| {
        format!(
            "Changed in this chat and in no system that was loaded, so not verified: {}{more}.",
            others.join(", ")
        )
    })
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
    lines.extend(outcome::before(data));
    // What is not listed can't be asked for any more.
    lines.extend(
        outcome::notes(data)
            .into_iter()
            .filter(|it| !it.starts_with("(Not listed")),
    );
    Ok(lines.join("\n"))
}

/// What is told of a Lisp that gave no reply while it was DOING its work.
fn ended(doing: &str, failure: &ToolFailure) -> String {
    match &failure.ended {
        Some(output) => format!("The fresh Lisp ended while it was {doing}.\n{output}"),
        None => failure.message.clone(),
    }
}

impl Tests {
    fn red(told: String) -> Self {
        Self {
            told,
            outcome: TestsOutcome::Red,
            ran: TestsRun::default(),
            failed: BTreeSet::new(),
        }
    }
}

/// What REPLY says of tests.
fn tested(reply: &ImageReply) -> Tests {
    let told = match render_tests(&Arguments::default(), reply) {
        Ok(told) => told,
        Err(failure) => without_restarts(&failure.message),
    };
    let Ok(data) = outcome::returned(reply) else {
        return Tests::red(told);
    };
    let count = |name: &str| data.integer(name).unwrap_or_default();
    let results: Vec<Plist<'_>> = data.plists("results").collect();
    let headline = told.lines().next().unwrap_or_default();
    Tests {
        outcome: match (count("total"), count("failed")) {
            _ if data.flag("problem") => TestsOutcome::Red,
            (0, _) if is_uncounted(data) => TestsOutcome::Uncounted,
            (0, _) => TestsOutcome::None,
            // All may have been skipped.
            (_, 0) if count("passed") > 0 => TestsOutcome::Green,
            _ => TestsOutcome::Red,
        },
        // Of several, each is named before one is told in full.
        told: match results.len() {
            0 | 1 => told,
            _ => std::iter::once(headline.to_owned())
                .chain(
                    results
                        .iter()
                        .filter_map(|it| test_result(*it, it.text("where")).into_iter().next()),
                )
                .collect::<Vec<_>>()
                .join("\n"),
        },
        ran: tests_run(data),
        failed: failed_tests(data),
    }
}

fn failed_tests(data: Plist<'_>) -> BTreeSet<String> {
    let results = data.plists("results");
    let names = results.filter_map(|it| Some(it.text("test")?.to_owned()));
    names.collect()
}

/// Why NOW, the run of SYSTEM, counts otherwise than the last run of its tests in the user's image, if it does.
fn other_tests(system: &str, now: &FreshRun, context: &WorkContext) -> Option<String> {
    let here = &now.tests.as_ref()?.ran;
    let there = context.workspace.last_tests(system)?;
    if here.checks == 0 || here.checks == there.checks {
        return None;
    }
    let parts = [
        ("only there ran", &there.names - &here.names),
        ("only here", &here.names - &there.names),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what} {}", few(&names)))
        .collect();
    let why = match (parts.is_empty(), here.names.is_empty()) {
        (false, _) => parts.join("; "),
        (true, false) => "the same tests made more or fewer checks".to_owned(),
        (true, true) => "it may have tests that are in no file".to_owned(),
    };
    Some(format!(
        "run_tests last counted {} in the user's image: {why}.",
        counted(there.checks, "check")
    ))
}

/// Some of NAMES, and how many more there are.
fn few(names: &BTreeSet<String>) -> String {
    let told: Vec<&str> = names.iter().take(LINES).map(String::as_str).collect();
    match names.len().saturating_sub(LINES) {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

/// TEXT without what to choose from: nobody can any more.
fn without_restarts(text: &str) -> String {
    let kept = text.lines().filter(|it| !it.starts_with("Restarts: "));
    kept.collect::<Vec<_>>().join("\n")
}

/// What is told of NOW, the run of SYSTEM, with lines MORE.
fn told(system: &str, now: &FreshRun, more: Vec<String>, context: &WorkContext) -> String {
    let verdict = now.verdict();
    let mut lines = vec![format!(
        "{verdict}: {system} in a fresh Lisp, {:.1} s.",
        now.seconds
    )];
    lines.extend(now.lines());
    lines.extend(other_tests(system, now, context));
    lines.extend(more);
    lines.join("\n")
}

/// What was red in the commit NAME, as the run BEFORE says, and is or isn't NOW.
fn compared(now: &FreshRun, name: &str, before: Result<FreshRun, ToolFailure>) -> Vec<String> {
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
    let parts = [
        ("red there, green now", old - new),
        ("red in both", old & new),
        ("red only now", new - old),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, tests)| !tests.is_empty())
        .map(|(what, tests)| format!("{what}: {}", few(&tests)))
        .collect();
    let first = tests.told.lines().next().unwrap_or_default();
    match parts.is_empty() {
        true => vec![format!("Commit {name}: {first}")],
        false => vec![format!("Commit {name}: {first} {}.", parts.join("; "))],
    }
}
