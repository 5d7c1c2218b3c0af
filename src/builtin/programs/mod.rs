// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool that runs a program of the user's in their project: which file it is, in which folder, with which
//! environment, and what the user and the rules are told of it.

mod environment;
mod plain;
mod running;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use self::environment::Environment;
pub use self::environment::is_secret;
use self::plain::{Changes, is_fetcher, names_fetcher, plain, runner};
pub use self::running::in_own_group;
use self::running::{CommandLine, Ended, Left, Printed, ProgramEnd, run};
use super::files::reading::{texts, texts_parameter};
use crate::files::path::{PathKind, PathPolicy, PathVerdict, Resolved};
use crate::files::{FileError, Trouble};
use crate::protocol::Event;
use crate::rules::{Alarm, Alarms, PLAINLY};
use crate::tool::work::{FoundForCall, FoundProgram, Running, WorkContext, off_emacs, read_reply};
use crate::tool::{Arguments, BACKGROUND, Parameter, ParameterType, Runner, Tool, ToolFailure};
use crate::trust::{Provenance, SafetyLevel};
use crate::visible::spelled;
use crate::workspace::Stamp;

pub const NAME: &str = "run_command";

const PROGRAM: &str = "program";
const ARGUMENTS: &str = "arguments";
const DIRECTORY: &str = "directory";
const TIMEOUT: &str = "timeout";

/// How long a program may take when the call doesn't say, and the longest that it may ask for, in seconds.
const USUAL_LIMIT: f64 = 60.0;
const LONGEST: f64 = 600.0;

/// The most bytes that a program is given: the user has to look at all of them.
const MOST_GIVEN: usize = 100_000;

/// How much of the output is shown while the program runs.
const SHOWN: usize = 4000;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![Tool {
        paths: &[DIRECTORY],
        finding: Some(|arguments, context| Box::pin(find(arguments, context))),
        ..Tool::new(
            NAME,
            "Run a program of the user's, such as git, make or a linter, in the project, and show what it prints. There is no shell: no pipes, globs or redirections. It can't read input. Files are better read and edited by their own tools, and Lisp systems are built and tested in the image.",
            SafetyLevel::Dangerous,
            &["programs"],
            vec![
                Parameter::required(PROGRAM, ParameterType::String, "As in PATH, or a file"),
                texts_parameter(ARGUMENTS, "One string each"),
                Parameter::optional(
                    DIRECTORY,
                    ParameterType::String,
                    "From the project's root, the default",
                ),
                Parameter::optional(
                    TIMEOUT,
                    ParameterType::Number,
                    "Seconds, default 60, at most 600",
                ),
                Parameter::optional(
                    BACKGROUND,
                    ParameterType::Boolean,
                    "Go on without its result",
                ),
            ],
            Runner::Task(|arguments, context| -> Running {
                Box::pin(off_emacs(work(arguments, context)))
            }),
        )
    }]
}

// What is found out before anybody is asked.

/// The program of a call, and what there is to say about it.
async fn find(arguments: Arguments, context: WorkContext) -> Result<FoundForCall, ToolFailure> {
    let reply = context.ask_emacs("program-environment", Value::Object(Map::new()));
    let environment: Environment = read_reply(&reply.await?)?;
    let policy = context.policy().await?;
    context
        .on_a_thread(move |_| look(&arguments, environment, &policy))
        .await
}

fn look(
    arguments: &Arguments,
    environment: Environment,
    policy: &PathPolicy,
) -> Result<FoundForCall, FileError> {
    let (program, given) = (
        arguments.required_text(PROGRAM),
        texts(arguments, ARGUMENTS),
    );
    check(program, &given)?;
    let folder = policy
        .judge(arguments.text(DIRECTORY).unwrap_or("."))
        .resolved()?;
    if folder.kind != PathKind::Directory {
        let why = match folder.kind {
            PathKind::Missing => "does not exist",
            PathKind::File | PathKind::Directory => "is not a directory",
        };
        return Err(refusal(format!("'{}' {why}.", folder.shown())));
    }
    let called = executable(program, &folder.path, &environment.path)?;
    let file = called.canonicalize().unwrap_or_else(|_| called.clone());
    let mut remark = format!("runs {}", spelled(&file.to_string_lossy(), 300));
    remark.push_str(&match folder.relative.as_deref() {
        Some(inside) if inside.as_os_str().is_empty() => " in the project's root".to_owned(),
        _ => format!(" in {}", spelled(&folder.shown(), 300)),
    });
    let name = program.rsplit('/').next().unwrap_or(program);
    let named = concerns(&given, &folder, policy);
    let private = named.iter().filter_map(|it| it.private.clone()).collect();
    let mut concerns: Vec<String> = named.into_iter().map(|it| it.why).collect();
    if file.starts_with(policy.root()) {
        concerns.push("it is a file of the project, which edits can change".to_owned());
    }
    let real = file.file_name().unwrap_or_default().to_string_lossy();
    let runner = runner(name).or_else(|| runner(&real));
    let fetches = [name, &real].iter().any(|it| is_fetcher(it))
        || (runner.is_some() && given.iter().any(|it| names_fetcher(it)));
    concerns.extend(runner.map(|what| format!("it is {what}")));
    let plain = match concerns.is_empty() && !program.contains('/') {
        true => plain(name, &given),
        false => None,
    };
    for concern in &concerns {
        remark.push_str("; ");
        remark.push_str(concern);
    }
    let alarm = plain.as_ref().map(|plain| Alarm {
        reason: PLAINLY.to_owned(),
        operator: Some(operator(&plain.words, &file, &folder)),
    });
    Ok(FoundForCall {
        remark,
        alarms: Some(Alarms::of_one(alarm)),
        program: Some(Arc::new(FoundProgram {
            called,
            file,
            directory: folder.path,
            only_looks: plain.is_some_and(|it| it.changes == Changes::Nothing),
            provenance: match fetches {
                true => Provenance::Foreign,
                false => Provenance::Own,
            },
            private,
            environment: environment.variables,
        })),
        ..FoundForCall::default()
    })
}

/// What a rule knows a plain call by: its WORDS, the real FILE that it runs, and the FOLDER unless that is the
/// project's root. A folder may have a repository or a makefile of its own.
fn operator(words: &str, file: &Path, folder: &Resolved) -> String {
    let mut text = format!("`{words}`, the program {}", file.display());
    match folder.relative.as_deref() {
        Some(inside) if inside.as_os_str().is_empty() => {}
        _ => text.push_str(&format!(", in {}", folder.shown())),
    }
    text
}

fn refusal(why: impl Into<String>) -> FileError {
    FileError::new(Trouble::BadRequest, why)
}

fn check(program: &str, given: &[String]) -> Result<(), FileError> {
    let refused = |why: &str| Err(refusal(why));
    if program.trim().is_empty() {
        return refused("The program has no name.");
    }
    if given
        .iter()
        .map(String::as_str)
        .chain([program])
        .any(|it| it.contains('\0'))
    {
        return refused("A program can't be given the character U+0000.");
    }
    if given.iter().map(String::len).sum::<usize>() > MOST_GIVEN {
        return refused(
            "The arguments are longer than anybody would read. Write a file, and give its name.",
        );
    }
    if given.is_empty() && program.contains(char::is_whitespace) && !program.contains('/') {
        return refused(
            "There is no shell: `program` is the name alone, and each argument is a string in `arguments`.",
        );
    }
    Ok(())
}

/// The file that PROGRAM names: in the directories of PATH, or from FOLDER where it has a slash.
fn executable(program: &str, folder: &Path, path: &[PathBuf]) -> Result<PathBuf, FileError> {
    let runs = |file: &PathBuf| {
        let metadata = file.metadata().ok();
        metadata.is_some_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let shown = spelled(program, 200);
    if program.contains('/') {
        let file = match (program.strip_prefix("~/"), std::env::home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => folder.join(program),
        };
        return match runs(&file) {
            true => Ok(file),
            false if file.exists() => Err(refusal(format!("'{shown}' is not an executable file."))),
            false => Err(refusal(format!("There is no file '{shown}'."))),
        };
    }
    // Only what the user has put on the path by its full name: "." is wherever the call says.
    let mut places = path.iter().filter(|it| it.is_absolute());
    let found = places.find_map(|it| Some(it.join(program)).filter(runs));
    found.ok_or_else(|| {
        refusal(format!(
            "There is no program '{shown}' in the directories of Emacs's exec-path."
        ))
    })
}

/// A file that an argument names.
#[derive(PartialEq)]
struct NamedFile {
    /// What the user has to know of it.
    why: String,
    /// Where it is, if it is private.
    private: Option<PathBuf>,
}

/// What the user has to know of the arguments GIVEN: those that name private files, or files outside of the
/// project.
fn concerns(given: &[String], folder: &Resolved, policy: &PathPolicy) -> Vec<NamedFile> {
    let mut concerns = Vec::new();
    for argument in given {
        // As in --file=NAME, HEAD:NAME and -fNAME.
        let mut parts = vec![argument.as_str()];
        parts.extend(
            argument
                .char_indices()
                .filter(|(_, it)| "=:@,".contains(*it))
                .map(|(at, _)| &argument[at + 1..]),
        );
        if argument.starts_with('-') && !argument.starts_with("--") {
            parts.extend(
                argument
                    .char_indices()
                    .nth(2)
                    .map(|(at, _)| &argument[at..]),
            );
        }
        // What goes to the program is the text itself, but it may leave out the blanks.
        let trimmed = parts.iter().filter(|it| !it.contains('\n'));
        let trimmed: Vec<&str> = trimmed.map(|it| it.trim()).collect();
        parts.extend(trimmed);
        concerns.extend(
            parts
                .into_iter()
                .find_map(|part| concern(part, folder, policy)),
        );
    }
    concerns.dedup();
    concerns
}

/// The same of PART of an argument.
fn concern(part: &str, folder: &Resolved, policy: &PathPolicy) -> Option<NamedFile> {
    // A text of several lines is prose, unless a file is called so.
    let is_prose = || part.contains('\n') && folder.path.join(part).symlink_metadata().is_err();
    if part.trim().is_empty() || is_prose() {
        return None;
    }
    let is_absolute = part.starts_with(['/', '~']);
    let path = match is_absolute {
        true => part.to_owned(),
        false => folder.path.join(part).to_string_lossy().into_owned(),
    };
    let shown = spelled(part, 100);
    let private = |pattern: &str, path: PathBuf| NamedFile {
        why: format!("names '{shown}', which may hold secrets (private files: {pattern})"),
        private: Some(path),
    };
    let outside = || NamedFile {
        why: format!("names '{shown}', which is outside the project"),
        private: None,
    };
    match policy.judge(&path) {
        PathVerdict::Private { pattern, resolved } => Some(private(&pattern, resolved.path)),
        PathVerdict::Outside(it)
            if is_absolute || it.kind != PathKind::Missing || part.contains("..") =>
        {
            // The folder itself was asked about.
            (!it.path.starts_with(&folder.path)).then(outside)
        }
        PathVerdict::Refused(_) => {
            let path = PathBuf::from(path);
            let pattern = policy.private_files().matching(&path);
            match pattern.map(str::to_owned) {
                Some(pattern) => Some(private(&pattern, path)),
                None => is_absolute.then(outside),
            }
        }
        PathVerdict::Inside(_) | PathVerdict::Outside(_) => None,
    }
}

// The run.

async fn work(arguments: Arguments, context: WorkContext) -> Result<String, ToolFailure> {
    let found = context.program.clone();
    let found = found.ok_or_else(|| ToolFailure::new("The program was not looked up."))?;
    let given = texts(&arguments, ARGUMENTS);
    let limit = arguments.number(TIMEOUT).filter(|it| *it > 0.0);
    let limit = Duration::from_secs_f64(limit.map_or(USUAL_LIMIT, |it| it.min(LONGEST)));
    let command = CommandLine {
        program: found.called.clone(),
        arguments: given.clone(),
        directory: found.directory.clone(),
        environment: environment::for_programs(&found.environment),
        limit,
    };
    let before = match found.only_looks {
        true => BTreeMap::new(),
        false => stamps(&context).await?,
    };
    context.go_on()?;
    for file in &found.private {
        context.workspace.may_leak(file);
    }
    // Its end is seen to even where nobody waits for it any more.
    let stop = context.cancel.child_token();
    let _stopped_with_this = stop.clone().drop_guard();
    let showing = context.clone();
    let running =
        tokio::spawn(async move { run(command, stop, |printed| show(&showing, printed)).await });
    let ended = running
        .await
        .map_err(|_| ToolFailure::new("agent-q is shutting down."))?;
    let line = line(arguments.required_text(PROGRAM), &given);
    match ended {
        Ok(ended) => {
            let note = changed(before, &context).await?;
            match told(&line, &ended, limit, &found) {
                Ok(told) => Ok(told + &note),
                Err(failure) => Err(ToolFailure {
                    message: failure.message.clone() + &note,
                    ..failure
                }),
            }
        }
        Err(error) => Err(ToolFailure::new(format!(
            "`{line}` could not be started: {error}.{}",
            match error.raw_os_error() {
                // ENOEXEC
                Some(8) => " A script needs a first line such as #!/bin/sh.",
                _ => "",
            }
        ))),
    }
}

async fn stamps(context: &WorkContext) -> Result<BTreeMap<PathBuf, Option<Stamp>>, ToolFailure> {
    let workspace = Arc::clone(&context.workspace);
    context.on_a_thread(move |_| Ok(workspace.stamps())).await
}

/// How many files are named that a program has changed.
const MOST_NAMED: usize = 20;

/// A line on the files that are not as BEFORE, of those that the model knows; others it doesn't know.
async fn changed(
    before: BTreeMap<PathBuf, Option<Stamp>>,
    context: &WorkContext,
) -> Result<String, ToolFailure> {
    if before.is_empty() {
        return Ok(String::new());
    }
    let now = stamps(context).await?;
    let policy = context.policy().await?;
    let changed = before
        .iter()
        .filter(|(path, stamp)| now.get(*path) != Some(stamp));
    let names: Vec<String> = changed
        .map(|(path, _)| path.strip_prefix(policy.root()).unwrap_or(path))
        .map(|path| spelled(&path.to_string_lossy(), 200))
        .collect();
    Ok(match names.len() {
        0 => String::new(),
        count => format!(
            "\n(Files that you know have changed: {}{}.)",
            names[..count.min(MOST_NAMED)].join(", "),
            match count > MOST_NAMED {
                true => format!(" and {} more", count - MOST_NAMED),
                false => String::new(),
            }
        ),
    })
}

/// Shows the user what was PRINTED so far.
fn show(context: &WorkContext, printed: &Printed) {
    if let Some(call) = context.call {
        context.emacs.emit(Event::CallProgress {
            session: context.session,
            call,
            text: String::new(),
            output: Some((printed.end(SHOWN), printed.total)),
        });
    }
}

/// What the model reads of the end of LINE, which could take until LIMIT.
fn told(
    line: &str,
    ended: &Ended,
    limit: Duration,
    found: &FoundProgram,
) -> Result<String, ToolFailure> {
    let how = match ended.end {
        ProgramEnd::Status(0) => None,
        ProgramEnd::Status(status) => Some(format!("`{line}` ended with status {status}.")),
        ProgramEnd::Signal(signal) => Some(format!("`{line}` was ended by signal {signal}.")),
        ProgramEnd::TimedOut => Some(format!(
            "`{line}` was stopped after {} s, its time limit.",
            limit.as_secs_f64()
        )),
        ProgramEnd::Cancelled => Some(format!("`{line}` was stopped.")),
        ProgramEnd::AskedTerminal => Some(format!(
            "`{line}` wanted to use a terminal, and was stopped: it can't read input."
        )),
    };
    let printed = match ended.printed.text() {
        Some(text) if text.trim().is_empty() => "It printed nothing.".to_owned(),
        Some(text) => text.trim_end().to_owned(),
        None => format!(
            "It printed {} bytes that are not text.",
            ended.printed.total
        ),
    };
    let mut text = match &how {
        Some(how) => format!("{how}\n{printed}"),
        None => printed,
    };
    if ended.left == Left::Stopped
        && matches!(ended.end, ProgramEnd::Status(_) | ProgramEnd::Signal(_))
    {
        text.push_str("\n(Processes that it left running were stopped.)");
    }
    let withheld = environment::withheld(&found.environment);
    if how.is_some() && !withheld.is_empty() {
        text.push_str(&format!(
            "\n(It ran without the environment variables that may hold secrets: {}.)",
            withheld.join(", ")
        ));
    }
    match how {
        None => Ok(text),
        Some(_) => Err(ToolFailure::quoting(text)),
    }
}

/// PROGRAM and the arguments GIVEN as one would type them.
fn line(program: &str, given: &[String]) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "%+-./:=@_,^".contains(it);
    let words = [program]
        .into_iter()
        .chain(given.iter().map(String::as_str));
    let quoted = words.map(
        |word| match !word.is_empty() && word.chars().all(is_plain) {
            true => word.to_owned(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        },
    );
    spelled(&quoted.collect::<Vec<_>>().join(" "), 200)
}
