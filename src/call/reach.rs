// SPDX-License-Identifier: GPL-3.0-or-later
//! The files that a call is about, found by following its paths and its buffer to them, before anyone is
//! asked. What is judged here is what the work of the call uses.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::files::FileError;
use crate::files::path::{PathKind, PathPolicy, PathVerdict, Resolved};
use crate::files::read::read_text;
use crate::files::systems::source_folders;
use crate::image::{ImageReply, Plist};
use crate::protocol::EmacsRequest;
use crate::rules::Alarms;
use crate::tool::work::{
    EMACS_DEADLINE, FoundForCall, FoundProgram, Judged, Preview, WorkContext, off_emacs, within,
};
use crate::tool::{Arguments, Assessment, Origin, Tool, ToolFailure};
use crate::trust::{Provenance, SafetyLevel};

/// The files that a call is about, found by following its paths and its buffer to them.
#[derive(Debug, Clone)]
pub struct Reached {
    pub files: Vec<PathBuf>,
    pub judged: Arc<Judged>,
    /// Why some of them have to be asked about.
    pub concerns: Vec<String>,
    /// Foreign when any of them is outside the project, and neither the source of a library nor the
    /// model's own.
    pub provenance: Provenance,
    /// What the image is told of them.
    pub arguments: lexpr::Value,
    /// What rules know the call by, where it isn't these files.
    pub alarms: Option<Alarms>,
    /// The program that the call runs, if it runs one.
    pub program: Option<Arc<FoundProgram>>,
}

impl Default for Reached {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            judged: Arc::default(),
            concerns: Vec::new(),
            provenance: Provenance::Own,
            arguments: lexpr::Value::Null,
            alarms: None,
            program: None,
        }
    }
}

/// The level of a call by its tool and by the files that it is about, and these files.
///
/// # Errors
///
/// A path can't be used at all.
pub async fn assess(
    tool: &Tool,
    arguments: &Arguments,
    context: &WorkContext,
) -> Result<(Assessment, Reached), ToolFailure> {
    let mut assessment = (tool.assess)(tool.level, arguments);
    if let Origin::Server(name) = &tool.origin {
        assessment.reason = format!("a tool of the server {name}, which is a program of others.");
    }
    let found = async {
        let mut found = find(tool, arguments, context).await?;
        let files = std::mem::take(&mut found.files);
        let reached = reach(tool, arguments, files, context).await?;
        Ok::<_, ToolFailure>((reached, found))
    };
    let (mut reached, found) = tokio::select! {
        () = context.cancel.cancelled() => return Ok((assessment, Reached::default())),
        found = found => found?,
    };
    reached.arguments = found.arguments;
    if let Some(program) = &found.program
        && program.provenance == Provenance::Foreign
    {
        reached.provenance = Provenance::Foreign;
    }
    reached.program = found.program;
    reached.alarms = found.alarms;
    reached.concerns.extend(found.concerns);
    assessment.reason.push_str(&found.remark);
    if !reached.concerns.is_empty() {
        assessment.level = SafetyLevel::Dangerous;
        if !assessment.reason.is_empty() {
            assessment.reason.push(' ');
        }
        assessment.reason.push_str(&reached.concerns.join(" "));
    }
    Ok((assessment, reached))
}

/// Makes sure that a call can succeed, which saves the user a question about one that must fail,
/// and tells what it would make of a file. REACHED is what the call was found to be about.
/// What is checked here is checked again when the call runs.
///
/// # Errors
///
/// The call can't succeed.
pub async fn precheck(
    tool: &Tool,
    arguments: &Arguments,
    reached: &Reached,
    context: &WorkContext,
) -> Result<Option<Preview>, ToolFailure> {
    let Some(check) = tool.precheck else {
        return Ok(None);
    };
    // A failed check would tell the model something about a file that the user may not want to
    // show it, so what is wrong with a file of concern is told once the user has said yes.
    let context = context.clone().judged(&reached.judged);
    let checked = async {
        let checked = off_emacs(check(arguments.clone(), context.clone())).await;
        match reached.concerns.is_empty() {
            true => checked.map(Some),
            false => Ok(checked.ok()),
        }
    };
    tokio::select! {
        () = context.cancel.cancelled() => Ok(None),
        checked = checked => checked,
    }
}

/// What TOOL has to find in the user's files for a call with ARGUMENTS.
async fn find(
    tool: &Tool,
    arguments: &Arguments,
    context: &WorkContext,
) -> Result<FoundForCall, ToolFailure> {
    match tool.finding {
        Some(finding) => off_emacs(finding(arguments.clone(), context.clone())).await,
        None => Ok(FoundForCall::default()),
    }
}

/// The files that a call of TOOL with ARGUMENTS is about, those FOUND for it among them.
async fn reach(
    tool: &Tool,
    arguments: &Arguments,
    found: Vec<String>,
    context: &WorkContext,
) -> Result<Reached, ToolFailure> {
    let mut given: Vec<String> = tool
        .paths
        .iter()
        .filter_map(|name| arguments.text(name).map(str::to_owned))
        .collect();
    given.extend(found);
    let visited = match tool.buffer {
        Some(parameter) => visited(arguments.text(parameter), context).await,
        None => None,
    };
    if given.is_empty() && visited.is_none() {
        return Ok(Reached::default());
    }
    let policy = match context.policy().await {
        Ok(policy) => Some(policy),
        // A buffer can be looked at where there is no project, but its file is in none then.
        Err(_) if given.is_empty() => None,
        Err(failure) => return Err(failure),
    };
    let judging = policy.clone();
    let (given, visited) = context
        .on_a_thread(move |_| Ok(judge(given, visited, judging.as_deref())))
        .await?;
    let outside: Vec<Resolved> = given
        .iter()
        .map(|(_, verdict)| verdict)
        .chain(visited.iter().filter_map(|(_, verdict)| verdict.as_ref()))
        .filter_map(|verdict| match verdict {
            PathVerdict::Outside(file) => Some(file.clone()),
            _ => None,
        })
        .collect();
    let libraries = match &policy {
        Some(policy) if !outside.is_empty() && only_reads(tool) => {
            library_folders(policy, context).await
        }
        _ => Vec::new(),
    };
    let own = match only_reads(tool) {
        true => written(outside, context).await?,
        false => {
            // Where there is no file yet, there is no text either.
            let (missing, there): (Vec<_>, Vec<_>) = outside
                .into_iter()
                .partition(|it| it.kind == PathKind::Missing);
            let mut own = written(there, context).await?;
            own.extend(missing.into_iter().map(|it| it.path));
            own
        }
    };
    let known = KnownOutside { libraries, own };
    let (mut reached, mut judged) = (Reached::default(), Judged::default());
    for (path, verdict) in given {
        judged.insert(path, reached.take(verdict, &known)?);
    }
    if let Some((file, verdict)) = visited {
        let taken = verdict.map(|verdict| reached.take(verdict, &known));
        if !matches!(taken, Some(Ok(_))) {
            reached.provenance = Provenance::Foreign;
            let concern = format!("Its file '{file}' is outside the project.");
            reached.concerns.push(concern);
        }
    }
    reached.judged = Arc::new(judged);
    Ok(reached)
}

/// A path as it was given, and what was decided about it.
type JudgedPath = (String, PathVerdict);
/// The same of the file that a buffer visits, unless nothing can be said.
type JudgedVisit = (String, Option<PathVerdict>);

/// The paths GIVEN, and the file VISITED, with what POLICY says of them; of a file on another machine
/// nothing can be said.
fn judge(
    given: Vec<String>,
    visited: Option<Visited>,
    policy: Option<&PathPolicy>,
) -> (Vec<JudgedPath>, Option<JudgedVisit>) {
    let given = given
        .into_iter()
        .filter_map(|path| policy.map(|policy| (policy.judge(&path), path)))
        .map(|(verdict, path)| (path, verdict))
        .collect();
    let visited = visited.map(|Visited { file, remote }| {
        let here = policy.filter(|_| !remote);
        let verdict = here.map(|policy| policy.judge(&file));
        (file, verdict)
    });
    (given, visited)
}

/// Files outside of the project whose text makes nothing suspect.
struct KnownOutside {
    /// Folders of libraries, which may be read unasked.
    libraries: Vec<PathBuf>,
    /// Files that hold only what the model wrote, or nothing yet.
    own: Vec<PathBuf>,
}

/// Those of FILES, which are outside of the project, that hold only what the model wrote in this chat.
pub(super) async fn written(
    files: Vec<Resolved>,
    context: &WorkContext,
) -> Result<Vec<PathBuf>, ToolFailure> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let workspace = Arc::clone(&context.workspace);
    let own = move |file: &Resolved| {
        read_text(file).is_ok_and(|it| workspace.has_written(&file.path, &it.text))
    };
    context
        .on_a_thread(move |_| {
            let own = files.into_iter().filter(own);
            Ok(own.map(|it| it.path).collect())
        })
        .await
}

/// Whether TOOL, one of agent-q's own, changes nothing whatever its arguments are.
fn only_reads(tool: &Tool) -> bool {
    tool.origin == Origin::BuiltIn && tool.level == SafetyLevel::Safe
}

impl Reached {
    /// Adds what VERDICT found, and gives the place. Nobody has to be asked about one in a library that is
    /// KNOWN, nor does its text make what follows suspect, as the user runs that code. Nor does the
    /// model's own text.
    fn take(&mut self, verdict: PathVerdict, known: &KnownOutside) -> Result<Resolved, FileError> {
        let in_library =
            |file: &Resolved| known.libraries.iter().any(|it| file.path.starts_with(it));
        let of_library = matches!(&verdict, PathVerdict::Outside(file) if in_library(file));
        if !of_library {
            self.concerns.extend(verdict.concern());
        }
        let resolved = verdict.resolved()?;
        if resolved.relative.is_none() && !of_library && !known.own.contains(&resolved.path) {
            self.provenance = Provenance::Foreign;
        }
        self.files.push(resolved.path.clone());
        Ok(resolved)
    }
}

/// The file that a buffer visits.
#[derive(Deserialize)]
struct Visited {
    file: String,
    /// On another machine, or for another user.
    remote: bool,
}

/// The file of the buffer NAME; none when it visits none. A buffer that isn't there the tool itself
/// reports.
async fn visited(name: Option<&str>, context: &WorkContext) -> Option<Visited> {
    let body = EmacsRequest::VisitedFile(name.map(str::to_owned));
    let reply = within(EMACS_DEADLINE, context.emacs.request(context.session, body)).await;
    let visited = reply.ok().and_then(|it| serde_json::from_str(&it).ok());
    // What can't be told might be anything.
    visited.unwrap_or_else(|| {
        Some(Visited {
            file: "unknown".to_owned(),
            remote: true,
        })
    })
}

// The sources that every Lisper reads: of systems that ASDF knows and of the Lisp itself. The chat's image
// is asked where they are, each time, as any call may load another system.

/// How long the image may take to name them. Without them the user is asked.
const DEADLINE: Duration = Duration::from_secs(3);

/// The folders of such sources; none where no image says.
pub(super) async fn library_folders(
    policy: &Arc<PathPolicy>,
    context: &WorkContext,
) -> Vec<PathBuf> {
    let reply = context.ask_image("source-places", &lexpr::Value::Null, DEADLINE);
    let Ok(ImageReply::Returned(data)) = reply.await else {
        return Vec::new();
    };
    let policy = Arc::clone(policy);
    let found = context.on_a_thread(move |_| {
        let data = Plist::new(&data);
        let (files, trees) = (data.texts("files"), data.texts("trees"));
        Ok(source_folders(&files, &trees, policy.home()))
    });
    found.await.unwrap_or_default()
}
