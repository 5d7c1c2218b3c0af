// SPDX-License-Identifier: GPL-3.0-or-later
//! What the work of a tool may reach beside its arguments: the chat's files, Emacs, older results, whether
//! the user has cancelled. What a call would make of a file is shown as a preview before it runs. And what
//! becomes of work that is done elsewhere, on a thread or in the image.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::begun::BegunCalls;
use super::offer::Offer;
use super::registry::Registry;
use super::{Arguments, Content, ImageTool, Tool, ToolFailure};
use crate::files::path::{PathPolicy, Resolved};
use crate::files::{FileError, Stop, Trouble};
use crate::image::{self, ImageReply};
use crate::protocol::Emacs;
use crate::protocol::{
    CallKey, Done, EmacsReply, EmacsRequest, Event, ImageRequest, Lisp, SessionId,
};
use crate::provider::ChatMessage;
use crate::rules::Alarms;
use crate::runtime::held;
use crate::trust::Provenance;
use crate::workspace::{ProjectSettings, Workspace};

/// Emacs replies within its own slice, unless it is busy for long.
pub(crate) const EMACS_DEADLINE: Duration = Duration::from_secs(120);

/// How often the user is told how far a call is.
const PROGRESS_PACE: Duration = Duration::from_millis(500);

/// Work under way for a call, which has a result or fails.
pub type Running<T = String> = BoxFuture<'static, Result<T, ToolFailure>>;

/// The work of a tool that may ask Emacs on its way.
pub type Task = fn(Arguments, WorkContext) -> Running;

/// Calls into images in the middle of a tool's work. What their code does is asked about as in a call of the
/// image alone.
pub trait ImageCalls: Send + Sync {
    /// What LISP replies to OPERATION with ARGUMENTS within DEADLINE.
    fn call(
        &self,
        lisp: Lisp,
        operation: &'static str,
        arguments: lexpr::Value,
        deadline: Duration,
    ) -> BoxFuture<'_, Result<ImageReply, ToolFailure>>;

    /// For how long the user was asked so far while the work was done.
    fn waited(&self) -> Duration;
}

/// The work of a tool that takes several calls into images.
pub type Steps = for<'a> fn(
    &'a Arguments,
    &'a WorkContext,
    &'a dyn ImageCalls,
) -> BoxFuture<'a, Result<String, ToolFailure>>;

/// A chat whose model can have questions looked into by conversations of their own.
pub trait Researcher: fmt::Debug + Send + Sync {
    /// Looks into what ARGUMENTS ask. CONTEXT is that of the call whose work it is.
    fn research(self: Arc<Self>, arguments: &Arguments, context: WorkContext) -> Running<Content>;
}

/// Finds out whether a call can succeed at all, before anyone is asked about it, and what it would
/// make of a file. Changes nothing.
pub type Precheck = fn(Arguments, WorkContext) -> Running<Preview>;

/// Finds in the user's files what the image has to know for a call, such as where a system is defined.
/// Changes nothing.
pub type Finding = fn(Arguments, WorkContext) -> Running<FoundForCall>;

/// What a [`Finding`] found.
#[derive(Debug, Clone)]
pub struct FoundForCall {
    /// A property list of arguments for the image, after those of the call.
    pub arguments: lexpr::Value,
    /// The files that the call will use, which count like paths among its arguments.
    pub files: Vec<String>,
    /// For the user who is asked about the call.
    pub remark: String,
    /// Why they have to be asked, in sentences, whatever rules there are for such calls.
    pub concerns: Vec<String>,
    /// What rules know the call by, where it isn't its files.
    pub alarms: Option<Alarms>,
    /// The program that the call will run, if it runs one.
    pub program: Option<Arc<FoundProgram>>,
}

/// A program that a call will run: what was found before anybody was asked is what is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundProgram {
    /// The file under the name by which it is called; programs look at that.
    pub called: PathBuf,
    /// The real file, without symbolic links.
    pub file: PathBuf,
    pub directory: PathBuf,
    /// Whether it is known to change nothing.
    pub only_looks: bool,
    /// Where what it prints comes from.
    pub provenance: Provenance,
    /// The private files that its arguments name.
    pub private: Vec<PathBuf>,
    /// Emacs's environment.
    pub environment: Vec<String>,
}

impl Default for FoundForCall {
    fn default() -> Self {
        Self {
            arguments: lexpr::Value::Null,
            files: Vec::new(),
            remark: String::new(),
            concerns: Vec::new(),
            alarms: None,
            program: None,
        }
    }
}

/// What a tool of the image does where its result takes more than the reply, such as work outside of the
/// image where that does not know; nothing when the reply is enough.
pub type Instead = fn(&Arguments, &ImageReply, &WorkContext) -> Option<Running<Content>>;

/// A call to make after another one.
#[derive(Debug, Clone)]
pub struct NextCall {
    pub tool: &'static str,
    pub arguments: serde_json::Map<String, Value>,
    pub wish: Wish,
}

/// Who wants a call made after another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The model.
    Model,
    /// An option of the user's: they are asked nothing about it.
    Option,
}

/// What becomes of definitions that an edit has changed, where the call doesn't say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterEdit {
    /// They are compiled if the image has their file.
    Compile,
    #[default]
    Leave,
}

/// The calls that a call wants made once it has succeeded. Each is assessed and asked about by itself.
#[derive(Debug, Clone, Default)]
pub struct NextCalls(Arc<Mutex<Vec<NextCall>>>);

impl NextCalls {
    pub fn add(&self, call: NextCall) {
        held(&self.0).push(call);
    }

    /// The calls, which are not made twice.
    #[must_use]
    pub fn take(&self) -> Vec<NextCall> {
        std::mem::take(&mut held(&self.0))
    }
}

/// The part of a call's result that repeats what the model has just sent. Only people are shown it.
#[derive(Debug, Clone, Default)]
pub struct Echo(Arc<Mutex<Option<String>>>);

impl Echo {
    pub fn set(&self, text: String) {
        *held(&self.0) = Some(text);
    }

    /// RESULT, which has it in it, without it.
    #[must_use]
    pub fn removed_from(&self, result: &str) -> String {
        match &*held(&self.0) {
            Some(text) => result.replacen(text, "", 1),
            None => result.to_owned(),
        }
    }
}

/// The places that a call went through on its way, for the audit log.
#[derive(Debug, Clone, Default)]
pub struct Trail(Arc<Mutex<Vec<String>>>);

impl Trail {
    pub fn add(&self, place: String) {
        held(&self.0).push(place);
    }

    #[must_use]
    pub fn places(&self) -> Vec<String> {
        held(&self.0).clone()
    }
}

/// Whether the user is being asked already about what a call plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proposal {
    New,
    /// They are, so a file must not have been changed since.
    Pending,
}

/// The surroundings of a call.
#[derive(Clone)]
pub struct WorkContext {
    pub session: SessionId,
    /// The call, where anybody wants to know how far it is.
    pub call: Option<CallKey>,
    /// The Lisp that the call is about.
    pub lisp: Lisp,
    pub emacs: Arc<dyn Emacs>,
    pub workspace: Arc<Workspace>,
    pub cancel: CancellationToken,
    /// Where the call's paths lead. Its work follows none of them again.
    pub judged: Arc<Judged>,
    /// The program that the call runs, if it runs one.
    pub program: Option<Arc<FoundProgram>>,
    /// What the user's review left of the change that the call planned.
    pub reviewed: Option<Arc<Reviewed>>,
    pub proposal: Proposal,
    /// The calls to make once this one has succeeded.
    pub next: NextCalls,
    pub after_edit: AfterEdit,
    pub echo: Echo,
    pub trail: Trail,
    /// The tools that can be called in this turn.
    pub tools: Arc<Registry>,
    pub offer: Arc<Offer>,
    /// Results that the model can read again.
    pub past: Arc<PastResults>,
    /// The calls that the model has begun, where it can.
    pub begun: Option<Arc<BegunCalls>>,
}

/// What Emacs replied, or why it could not.
pub(crate) fn text_of(reply: EmacsReply) -> Result<String, ToolFailure> {
    done(reply).map(|done| done.text)
}

/// The same with what belongs to it.
pub(crate) fn done(reply: EmacsReply) -> Result<Done, ToolFailure> {
    match reply {
        EmacsReply::Done(done) => Ok(done),
        EmacsReply::Failed(error) => Err(error.into()),
    }
}

/// What Emacs's JSON says.
///
/// # Errors
///
/// It is not understood.
pub(crate) fn read_reply<T: serde::de::DeserializeOwned>(reply: &str) -> Result<T, ToolFailure> {
    serde_json::from_str(reply)
        .map_err(|error| ToolFailure::new(format!("Cannot parse Emacs's answer: {error}")))
}

/// The text of REPLY, which is to come, unless it takes longer than DEADLINE.
pub(crate) async fn within(
    deadline: Duration,
    reply: impl Future<Output = EmacsReply>,
) -> Result<String, ToolFailure> {
    match tokio::time::timeout(deadline, reply).await {
        Ok(reply) => text_of(reply),
        Err(_) => Err(silent(deadline)),
    }
}

/// What is told of an Emacs that did not reply within DEADLINE.
pub(crate) fn silent(deadline: Duration) -> ToolFailure {
    ToolFailure::new(format!(
        "Emacs did not answer within {} seconds.",
        deadline.as_secs()
    ))
}

impl WorkContext {
    /// The same for the work of a call whose paths lead where JUDGED says.
    #[must_use]
    pub fn judged(mut self, judged: &Arc<Judged>) -> Self {
        self.judged = Arc::clone(judged);
        self
    }

    /// The same for the work of a call that is about LISP.
    #[must_use]
    pub fn about(mut self, lisp: Lisp) -> Self {
        self.lisp = lisp;
        self
    }

    /// Sees to it that the Lisp that the call is about runs. The user starts their own.
    ///
    /// # Errors
    ///
    /// Why it can't be started.
    pub async fn start_lisp(&self) -> Result<(), ToolFailure> {
        let Lisp::Second(name) = &self.lisp else {
            return Ok(());
        };
        let policy = self.policy().await.ok();
        self.start_second(name, policy.as_ref().map(|it| it.root()))
            .await
    }

    /// Sees to it that a Lisp called NAME runs beside the user's, for the project in ROOT.
    ///
    /// # Errors
    ///
    /// Why it can't be started.
    pub async fn start_second(&self, name: &str, root: Option<&Path>) -> Result<(), ToolFailure> {
        let asked = serde_json::json!({ "name": name, "root": root });
        let started = self.ask_emacs("start-lisp", asked);
        self.telling(started, || "starting a Lisp".to_owned())
            .await
            .map(drop)
    }

    /// What WORK, a part of the call, comes to. If it takes long, the user is told from time to time what
    /// PROGRESS says then.
    pub async fn telling<T>(
        &self,
        work: impl Future<Output = T>,
        progress: impl Fn() -> String,
    ) -> T {
        let Some(call) = self.call else {
            return work.await;
        };
        let session = self.session;
        let tell = |text: String| {
            self.emacs.emit(Event::CallProgress {
                session,
                call,
                text,
                output: None,
            });
        };
        let mut work = std::pin::pin!(work);
        let mut told = String::new();
        loop {
            match tokio::time::timeout(PROGRESS_PACE, &mut work).await {
                Ok(done) => {
                    if !told.is_empty() {
                        tell(String::new());
                    }
                    return done;
                }
                Err(_) => {
                    let now = progress();
                    if now != told {
                        told.clone_from(&now);
                        tell(now);
                    }
                }
            }
        }
    }

    /// What the Lisp that the call is about replies to OPERATION, unless it takes longer than DEADLINE twice.
    ///
    /// # Errors
    ///
    /// There is none, it is busy, or what it replied is not understood.
    pub async fn ask_image(
        &self,
        operation: &str,
        arguments: &lexpr::Value,
        deadline: Duration,
    ) -> Result<ImageReply, ToolFailure> {
        let arguments = image::print_arguments(arguments);
        self.ask_image_printed(operation, arguments, deadline).await
    }

    /// The same with ARGUMENTS as Emacs has printed them.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn ask_image_printed(
        &self,
        operation: &str,
        arguments: String,
        deadline: Duration,
    ) -> Result<ImageReply, ToolFailure> {
        let body = EmacsRequest::Image(ImageRequest {
            lisp: self.lisp.clone(),
            operation: operation.to_owned(),
            arguments,
            deadline,
            call: None,
        });
        let reply = within(deadline * 2, self.emacs.request(self.session, body)).await?;
        image::parse_reply(&reply).map_err(|error| ToolFailure::new(error.to_string()))
    }

    /// What agent-q's Emacs Lisp replies to OPERATION.
    ///
    /// # Errors
    ///
    /// Emacs's reason why it can't, or its silence.
    pub async fn ask_emacs(
        &self,
        operation: &'static str,
        arguments: Value,
    ) -> Result<String, ToolFailure> {
        let body = EmacsRequest::Operation {
            operation,
            arguments,
        };
        within(EMACS_DEADLINE, self.emacs.request(self.session, body)).await
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
        let ground: ProjectSettings = read_reply(&reply)?;
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

/// The result of TOOL, which runs in the image as IMAGE says, to a call that got REPLY.
///
/// # Errors
///
/// What went wrong in the image, or what it does not have.
pub async fn image_result(
    (tool, image): (&Tool, &ImageTool),
    arguments: &Arguments,
    reply: &ImageReply,
    context: &WorkContext,
) -> Result<Content, ToolFailure> {
    match tool
        .instead
        .and_then(|instead| instead(arguments, reply, context))
    {
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
pub(crate) async fn off_emacs<T: Send + 'static>(
    work: impl Future<Output = Result<T, ToolFailure>> + Send + 'static,
) -> Result<T, ToolFailure> {
    joined(AbortOnDropHandle::new(tokio::spawn(work)).await)
}

/// What came of a task of our own.
pub(crate) fn joined<T>(task: Result<Result<T, ToolFailure>, JoinError>) -> Result<T, ToolFailure> {
    match task {
        Ok(result) => result,
        Err(failure) if failure.is_panic() => std::panic::resume_unwind(failure.into_panic()),
        Err(_) => Err(ToolFailure::new("agent-q is shutting down.")),
    }
}

/// The places that a call's paths were judged to lead to, by the paths as they were given. What is
/// judged is what is used: followed once more, a path may lead elsewhere.
pub type Judged = HashMap<String, Resolved>;

// What a call would make of a file, shown to the user before it runs, and what the user made of that in a
// review.

/// A change of a file that waits for the user's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The file as users know it, and in full.
    pub shown: String,
    pub file: PathBuf,
    /// The text that is there; none for a new file.
    pub original: Option<Arc<str>>,
    pub modified: Arc<str>,
    pub divisible: Divisible,
    /// What else happens to it, such as "It is deleted."
    pub note: String,
    /// Which file gets which name, such as "a.lisp to b.lisp", for one that is moved.
    pub moves: Option<String>,
}

/// Whether a part of a change makes sense without the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divisible {
    Yes,
    No,
}

/// What is left of a change after the user's review; it takes the place of what the call planned.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reviewed {
    /// The whole text that was reviewed.
    pub original: String,
    /// The whole text that it is to become.
    pub modified: String,
}

// Results of a chat's calls of which its model has only the beginning any more, and parts that were left
// out of one, for a tool by which it reads them.

/// The number of the first part; those of results are those of their messages, and never get there.
const FIRST_PART: u64 = 1_000_001;

/// How many parts are kept.
const PARTS: u64 = 100;

/// The results by their numbers, and the parts.
#[derive(Debug, Default)]
pub struct PastResults(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    results: BTreeMap<u64, Arc<ChatMessage>>,
    parts: BTreeMap<u64, String>,
}

impl PastResults {
    /// Keeps RESULT as the one with NUMBER.
    pub fn keep(&self, number: u64, result: &Arc<ChatMessage>) {
        held(&self.0).results.insert(number, Arc::clone(result));
    }

    /// Keeps PART, a text that was left out of a result; its number.
    pub fn keep_part(&self, part: &str) -> u64 {
        let parts = &mut held(&self.0).parts;
        let number = parts
            .last_key_value()
            .map_or(FIRST_PART, |(last, _)| last + 1);
        parts.insert(number, part.to_owned());
        parts.retain(|it, _| it + PARTS > number);
        number
    }

    /// The text of the result with NUMBER, as the model had it.
    #[must_use]
    pub fn text(&self, number: u64) -> Option<String> {
        let kept = held(&self.0);
        match kept.results.get(&number).map(AsRef::as_ref) {
            Some(ChatMessage::Tool { content, .. }) => Some(content.clone()),
            _ => kept.parts.get(&number).cloned(),
        }
    }

    /// The numbers that there are.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        let kept = held(&self.0);
        kept.results
            .keys()
            .chain(kept.parts.keys())
            .copied()
            .collect()
    }
}
