// SPDX-License-Identifier: GPL-3.0-or-later
//! What the work of a tool may reach beside its arguments: the chat's files, Emacs, and whether
//! the user has cancelled. And the look at a call's paths before anyone is asked.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::offer::Offer;
use super::preview::{Preview, Reviewed};
use super::registry::Registry;
use super::{Arguments, Assessment, Content, ImageTool, Tool, ToolFailure};
use crate::files::path::{PathPolicy, Resolved, Verdict};
use crate::files::{FileError, Stop, Trouble};
use crate::host::Host;
use crate::image::Reply;
use crate::protocol::{HostReply, HostRequest, SessionId};
use crate::trust::{Provenance, SafetyLevel};
use crate::workspace::{Ground, Workspace};

/// Emacs answers within its own slice, unless it is busy for long.
pub(super) const EMACS_DEADLINE: Duration = Duration::from_secs(120);

/// The work of a tool that may ask Emacs on its way.
pub type Task = fn(Arguments, WorkContext) -> BoxFuture<'static, Result<String, ToolFailure>>;

/// Finds out whether a call can succeed at all, before anyone is asked about it, and what it would
/// make of a file. Changes nothing.
pub type Precheck = fn(Arguments, WorkContext) -> BoxFuture<'static, Result<Preview, ToolFailure>>;

/// Finds in the user's files what the image has to know for a call, such as where a system is defined.
/// Changes nothing.
pub type Finding = fn(Arguments, WorkContext) -> BoxFuture<'static, Result<Found, ToolFailure>>;

/// What a [`Finding`] found.
#[derive(Debug, Clone)]
pub struct Found {
    /// A property list of arguments for the image, after those of the call.
    pub arguments: lexpr::Value,
    /// The files that the call will use, which count like paths among its arguments.
    pub files: Vec<String>,
    /// For the user who is asked about the call.
    pub remark: String,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            arguments: lexpr::Value::Null,
            files: Vec::new(),
            remark: String::new(),
        }
    }
}

/// What a tool of the image does where the image can only say that it does not know: work outside of
/// it, or nothing when the reply is an answer.
pub type Instead =
    fn(&Reply, &WorkContext) -> Option<BoxFuture<'static, Result<Content, ToolFailure>>>;

/// The surroundings of a call.
#[derive(Clone)]
pub struct WorkContext {
    pub session: SessionId,
    pub host: Arc<dyn Host>,
    pub workspace: Arc<Workspace>,
    pub cancel: CancellationToken,
    /// Where the call's paths lead. Its work follows none of them again.
    pub judged: Arc<Judged>,
    /// What the user's review left of the change that the call planned.
    pub reviewed: Option<Arc<Reviewed>>,
    /// The tools that can be called in this turn.
    pub tools: Arc<Registry>,
    pub offer: Arc<Offer>,
}

/// What Emacs answered, or why it could not.
pub(super) fn answered(reply: HostReply) -> Result<String, ToolFailure> {
    match reply {
        HostReply::Done(text) => Ok(text),
        HostReply::Failed(error) => Err(error.into()),
    }
}

/// The answer to come in REPLY, unless it takes longer than DEADLINE.
pub(super) async fn within(
    deadline: Duration,
    reply: impl Future<Output = HostReply>,
) -> Result<String, ToolFailure> {
    match tokio::time::timeout(deadline, reply).await {
        Ok(reply) => answered(reply),
        Err(_) => Err(silent(deadline)),
    }
}

/// What is told of an Emacs that did not answer within DEADLINE.
pub(super) fn silent(deadline: Duration) -> ToolFailure {
    ToolFailure::new(format!(
        "Emacs did not answer within {} seconds.",
        deadline.as_secs()
    ))
}

impl WorkContext {
    /// The same for the work of a call that was found to be about what REACHED has.
    #[must_use]
    pub fn judged(mut self, reached: &Reached) -> Self {
        self.judged = Arc::clone(&reached.judged);
        self
    }

    /// What agent-q's Emacs Lisp answers to OPERATION.
    ///
    /// # Errors
    ///
    /// Emacs's reason why it can't, or its silence.
    pub async fn ask_emacs(
        &self,
        operation: &'static str,
        arguments: Value,
    ) -> Result<String, ToolFailure> {
        let body = HostRequest::Operation {
            operation,
            arguments,
        };
        within(EMACS_DEADLINE, self.host.request(self.session, body)).await
    }

    /// Makes sure that the call was not cancelled, just before the first change.
    ///
    /// # Errors
    ///
    /// It was.
    pub fn go_on(&self) -> Result<(), ToolFailure> {
        if self.cancel.is_cancelled() {
            return Err(ToolFailure::new(
                "The call was cancelled; nothing was changed.",
            ));
        }
        Ok(())
    }

    /// By what paths are judged here. A chat says which project it is about; for calls outside
    /// chats Emacs is asked.
    ///
    /// # Errors
    ///
    /// There is no project root that can be used.
    pub async fn policy(&self) -> Result<Arc<PathPolicy>, ToolFailure> {
        if let Some(policy) = self.workspace.made_policy() {
            return Ok(policy?);
        }
        // Making it takes milliseconds, and a call may go on on Emacs's thread.
        let workspace = Arc::clone(&self.workspace);
        let made = self.on_a_thread(move |_| workspace.policy().transpose());
        if let Some(policy) = made.await? {
            return Ok(policy);
        }
        let reply = self
            .ask_emacs("project-root", Value::Object(serde_json::Map::new()))
            .await?;
        let ground: Ground = serde_json::from_str(&reply).map_err(|error| {
            ToolFailure::new(format!("Emacs's answer is not understood: {error}"))
        })?;
        let workspace = Arc::clone(&self.workspace);
        self.on_a_thread(move |_| workspace.settle(&ground)).await
    }

    /// Where PATH leads: as it was judged before the call, if it is one of the call's.
    ///
    /// # Errors
    ///
    /// Why it may not be used; of a path that was not judged, too, that the user has to be asked.
    pub async fn resolve(&self, path: &str) -> Result<Resolved, ToolFailure> {
        if let Some(resolved) = self.judged.get(path) {
            return Ok(resolved.clone());
        }
        let (policy, path) = (self.policy().await?, path.to_owned());
        self.on_a_thread(move |_| {
            let verdict = policy.judge(&path);
            match verdict.concern() {
                Some(concern) => Err(FileError::new(Trouble::Changed, concern)),
                None => verdict.resolved(),
            }
        })
        .await
    }

    /// Where PATH, which the user has agreed to before, leads now.
    ///
    /// # Errors
    ///
    /// Why it may not be used at all.
    pub async fn follow(&self, path: &str) -> Result<Resolved, ToolFailure> {
        let (policy, path) = (self.policy().await?, path.to_owned());
        self.on_a_thread(move |_| policy.judge(&path).resolved())
            .await
    }

    /// What WORK makes on a thread that may block; it is told when the user cancels.
    ///
    /// # Errors
    ///
    /// WORK's own.
    pub async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(Stop<'_>) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, ToolFailure> {
        let cancel = self.cancel.clone();
        let running = tokio::task::spawn_blocking(move || work(&|| cancel.is_cancelled()));
        joined(running.await.map(|result| Ok(result?)))
    }
}

/// The answer of TOOL, which runs in the image as IMAGE says, to a call that got REPLY.
///
/// # Errors
///
/// What went wrong in the image, or what it does not have.
pub async fn image_answer(
    (tool, image): (&Tool, &ImageTool),
    arguments: &Arguments,
    reply: &Reply,
    context: &WorkContext,
) -> Result<Content, ToolFailure> {
    match tool.instead.and_then(|instead| instead(reply, context)) {
        Some(work) => work.await,
        None => (image.render)(arguments, reply).map(Content::from),
    }
}

/// Runs WORK to its end even if nobody waits for it any more: a change that was begun must not stay
/// half done, or done without being noted, because the user cancelled the turn.
///
/// # Errors
///
/// WORK's own.
pub async fn to_the_end(
    work: impl Future<Output = Result<String, ToolFailure>> + Send + 'static,
) -> Result<String, ToolFailure> {
    joined(tokio::spawn(work).await)
}

/// Runs WORK on the core's own threads, as long as somebody waits for it. A call may go on on
/// Emacs's thread, and what plans edits and compares texts would keep Emacs busy.
///
/// # Errors
///
/// WORK's own.
pub(super) async fn off_emacs<T: Send + 'static>(
    work: impl Future<Output = Result<T, ToolFailure>> + Send + 'static,
) -> Result<T, ToolFailure> {
    joined(AbortOnDropHandle::new(tokio::spawn(work)).await)
}

/// What came of a task of our own.
pub(super) fn joined<T>(task: Result<Result<T, ToolFailure>, JoinError>) -> Result<T, ToolFailure> {
    match task {
        Ok(result) => result,
        Err(failure) if failure.is_panic() => std::panic::resume_unwind(failure.into_panic()),
        Err(_) => Err(ToolFailure::new("agent-q is shutting down.")),
    }
}

/// The places that a call's paths were judged to lead to, by the paths as they were given. What is
/// judged is what is used: followed once more, a path may lead elsewhere.
pub type Judged = HashMap<String, Resolved>;

/// The files that a call is about, found by following its paths and its buffer to them.
#[derive(Debug, Clone)]
pub struct Reached {
    pub files: Vec<PathBuf>,
    pub judged: Arc<Judged>,
    /// Why some of them have to be asked about.
    pub concerns: Vec<String>,
    /// Foreign when any of them is outside the project.
    pub provenance: Provenance,
    /// What the image is told of them.
    pub arguments: lexpr::Value,
}

impl Default for Reached {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            judged: Arc::default(),
            concerns: Vec::new(),
            provenance: Provenance::Own,
            arguments: lexpr::Value::Null,
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
    let found = async {
        let found = find(tool, arguments, context).await?;
        let reached = reach(tool, arguments, found.files, context).await?;
        Ok::<_, ToolFailure>((reached, found.arguments, found.remark))
    };
    let (mut reached, told, remark) = tokio::select! {
        () = context.cancel.cancelled() => return Ok((assessment, Reached::default())),
        found = found => found?,
    };
    reached.arguments = told;
    assessment.reason.push_str(&remark);
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
    let context = context.clone().judged(reached);
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
) -> Result<Found, ToolFailure> {
    match tool.finding {
        Some(finding) => off_emacs(finding(arguments.clone(), context.clone())).await,
        None => Ok(Found::default()),
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
    context
        .on_a_thread(move |_| {
            let (mut reached, mut judged) = (Reached::default(), Judged::default());
            for path in &given {
                if let Some(policy) = &policy {
                    let resolved = reached.take(policy.judge(path))?;
                    judged.insert(path.clone(), resolved);
                }
            }
            if let Some(Visited { file, remote }) = visited {
                let here = policy.filter(|_| !remote);
                let taken = here.map(|policy| reached.take(policy.judge(&file)));
                if !matches!(taken, Some(Ok(_))) {
                    reached.provenance = Provenance::Foreign;
                    let concern = format!("Its file '{file}' is outside the project.");
                    reached.concerns.push(concern);
                }
            }
            reached.judged = Arc::new(judged);
            Ok(reached)
        })
        .await
}

impl Reached {
    /// Adds what VERDICT found, and gives the place.
    fn take(&mut self, verdict: Verdict) -> Result<Resolved, FileError> {
        self.concerns.extend(verdict.concern());
        let resolved = verdict.resolved()?;
        if resolved.relative.is_none() {
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
    let body = HostRequest::VisitedFile(name.map(str::to_owned));
    let reply = within(EMACS_DEADLINE, context.host.request(context.session, body)).await;
    let visited = reply.ok().and_then(|it| serde_json::from_str(&it).ok());
    // What can't be told might be anything.
    visited.unwrap_or_else(|| {
        Some(Visited {
            file: "unknown".to_owned(),
            remote: true,
        })
    })
}
