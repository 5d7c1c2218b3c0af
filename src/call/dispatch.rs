// SPDX-License-Identifier: GPL-3.0-or-later
//! Where the work of a call is done: on a worker thread, by Emacs, or in the Lisp image. A step
//! of `pipeline`.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::batch::{BatchContext, Watcher};
use super::decide::reason;
use super::prepared::{Prepared, PreparedCall};
use super::{Executor, reach};
use crate::builtin::image::building::DRY_RUN;
use crate::builtin::image::{compiling, outcome};
use crate::files::path::{PathVerdict, Resolved};
use crate::image::{self, ConditionReport, ImageReply};
use crate::protocol::{
    CallArguments, CallKey, CallOutcome, CallResult, Done, EmacsRequest, HandlerId, ImageRequest,
    Lisp, ToolCall,
};
use crate::rules::Outcome;
use crate::tool::code::Unit;
use crate::tool::work::{
    EMACS_DEADLINE, ImageCalls, NextCall, Wish, WorkContext, image_result, joined, within,
};
use crate::tool::{
    Arguments, Content, EmacsTool, ImageTool, OperationTool, Parameter, Runner, ToolFailure,
};
use crate::trust::{Provenance, Source};

/// Emacs watches over a call in the image; this is for an Emacs that forgot it.
const IMAGE_GRACE: Duration = Duration::from_secs(30);

impl Executor {
    /// Runs CALL's work where it belongs.
    pub(super) async fn dispatch(
        &self,
        call: &PreparedCall,
        batch: &BatchContext,
    ) -> Result<Content, ToolFailure> {
        let text = match &call.tool.runner {
            Runner::Image(tool) => return self.run_in_image(tool, call, batch).await,
            Runner::Worker(work) => {
                let (work, arguments) = (Arc::clone(work), call.arguments.clone());
                joined(tokio::task::spawn_blocking(move || work(arguments)).await)
            }
            Runner::Task(task) => {
                let context = WorkContext {
                    program: call.verdict.reached.program.clone(),
                    reviewed: call.reviewed.clone(),
                    next: call.next.clone(),
                    echo: call.echo.clone(),
                    trail: call.trail.clone(),
                    ..self
                        .context_of(call, batch)
                        .judged(&call.verdict.reached.judged)
                };
                task(call.arguments.clone(), context).await
            }
            Runner::Steps(run) => {
                let images = CallImages {
                    executor: self,
                    call,
                    batch,
                };
                run(&call.arguments, &self.context_of(call, batch), &images).await
            }
            Runner::Emacs(tool) => self.run_on_emacs(tool, call, batch).await,
            Runner::Operation(tool) => self.run_operation(tool, call, batch).await,
            Runner::Server(work) => {
                work(call.arguments.clone(), self.context_of(call, batch)).await
            }
            Runner::Handler(handler) => self.run_handler(*handler, call, batch).await,
            Runner::Research => return self.research(call, batch).await,
        };
        text.map(Content::from)
    }

    async fn research(
        &self,
        call: &PreparedCall,
        batch: &BatchContext,
    ) -> Result<Content, ToolFailure> {
        let Some(researcher) = &batch.researcher else {
            return Err(ToolFailure::new(format!(
                "{} needs a chat with a model.",
                call.tool.name
            )));
        };
        let context = self.context_of(call, batch);
        Arc::clone(researcher)
            .research(&call.arguments, context)
            .await
    }

    /// What the work of CALL may reach, which can tell how far it is.
    fn context_of(&self, call: &PreparedCall, batch: &BatchContext) -> WorkContext {
        let is_shown = matches!(batch.watcher, Watcher::Chat | Watcher::Beside);
        WorkContext {
            call: is_shown.then_some(call.key),
            ..self.context(batch)
        }
    }

    async fn run_on_emacs(
        &self,
        tool: &EmacsTool,
        call: &PreparedCall,
        batch: &BatchContext,
    ) -> Result<String, ToolFailure> {
        let body = (tool.request)(&call.arguments)?;
        let reply = self.emacs.request(batch.session, body);
        let text = within(EMACS_DEADLINE, reply).await?;
        (tool.render)(&call.arguments, text)
    }

    async fn run_operation(
        &self,
        tool: &OperationTool,
        call: &PreparedCall,
        batch: &BatchContext,
    ) -> Result<String, ToolFailure> {
        let mut arguments = call.json_with_assessed();
        let watch = self.watch(call, batch);
        if let (Some(watch), Some(object)) = (watch, arguments.as_object_mut()) {
            let text = image::print_arguments(&watch.to_argument());
            object.insert("watch".to_owned(), text.into());
        }
        let body = EmacsRequest::Operation {
            operation: tool.operation,
            arguments,
        };
        let deadline = EMACS_DEADLINE.max(batch.eval_deadline + IMAGE_GRACE);
        let done = self.request_asking(call, batch, body, deadline).await?;
        let (mut answer, denials) = match tool.render {
            Some(render) if done.text.starts_with("(:") => {
                let (reply, denials) = parsed(&done)?;
                (render(&call.arguments, &reply), denials)
            }
            _ => (Ok(done.text), Vec::new()),
        };
        tell(told(&mut answer, |content| content), &denials, done.note);
        answer
    }

    async fn run_handler(
        &self,
        handler: HandlerId,
        call: &PreparedCall,
        batch: &BatchContext,
    ) -> Result<String, ToolFailure> {
        let watch = self.watch(call, batch);
        let body = EmacsRequest::Handler {
            handler,
            arguments: call.arguments.to_json(),
            watch: watch.map(|it| image::print_arguments(&it.to_argument())),
        };
        // Emacs watches over it: how long it may take is an option there.
        let reply = self.request_asking(call, batch, body, Duration::MAX).await;
        reply.map(|done| done.text)
    }

    async fn run_in_image(
        &self,
        tool: &ImageTool,
        call: &PreparedCall,
        batch: &BatchContext,
    ) -> Result<Content, ToolFailure> {
        let deadline = (tool.deadline)(&call.arguments, batch.eval_deadline);
        let context = self
            .context_of(call, batch)
            .about(call.tool.lisp(&call.arguments));
        context.start_lisp().await?;
        let unit = call.verdict.unit.clone().transpose()?;
        let (operation, arguments) = match &unit {
            Some(unit) => (unit.operation, unit.arguments.clone()),
            None => (tool.operation, (tool.arguments)(&call.arguments)),
        };
        let arguments = call.with_assessed(image::joined_lists(
            arguments,
            &call.verdict.reached.arguments,
        ));
        let images = CallImages {
            executor: self,
            call,
            batch,
        };
        let lisp = context.lisp.clone();
        let done = images.ask(lisp, operation, arguments, deadline).await?;
        let (mut reply, denials) = parsed(&done)?;
        let chooses = |it: &Parameter| it.name == "restart";
        if !call.tool.parameters.iter().any(chooses) {
            reply = reply.without_restarts();
        }
        let called = unit.as_ref().and_then(|unit| unit.called.as_deref());
        let arguments = match called {
            Some(called) => &call.arguments.with_text("name", called),
            None => &call.arguments,
        };
        let mut content = image_result((&call.tool, tool), arguments, &reply, &context).await;
        if let (Err(failure), ImageReply::Error(report)) = (&mut content, &reply)
            && let Some(told) = going_on(call, report)
        {
            failure.message.push_str(&format!("\n{told}"));
        }
        let is_users = context.lisp == Lisp::Users;
        if content.is_ok() && is_users {
            note_compiled(operation, unit.as_ref(), arguments, &context);
        }
        if let Ok(content) = &mut content {
            let project = batch.place.project.clone();
            let quoted = not_written(image::quoted_files(&reply), &context).await?;
            let quoted = provenance_of(quoted, project, &context).await?;
            if quoted == Provenance::Foreign {
                content.provenance = quoted;
            }
        }
        if let (Ok(content), Some(note)) = (&mut content, unit.and_then(|unit| unit.note)) {
            content.text.push('\n');
            content.text.push_str(&note);
        }
        if is_users && tells_lacking(operation, call, content.is_ok()) {
            let lacking = compiling::lacking(&context).await;
            let told = told(&mut content, |content| &mut content.text);
            told.extend(lacking.map(|it| format!("\n{it}")));
        }
        let told = told(&mut content, |content| &mut content.text);
        tell(told, &denials, done.note);
        content
    }
}

/// Calls into images that are a part of CALL.
struct CallImages<'a> {
    executor: &'a Executor,
    call: &'a PreparedCall,
    batch: &'a BatchContext,
}

impl CallImages<'_> {
    /// What Emacs replies for LISP to OPERATION within DEADLINE. What its code does is asked about.
    async fn ask(
        &self,
        lisp: Lisp,
        operation: &str,
        mut arguments: lexpr::Value,
        deadline: Duration,
    ) -> Result<Done, ToolFailure> {
        if let Some(watch) = self.executor.watch(self.call, self.batch) {
            let watch = image::property_list([("watch", watch.to_argument())]);
            arguments = image::joined_lists(arguments, &watch);
        }
        let body = EmacsRequest::Image(ImageRequest {
            lisp,
            operation: operation.to_owned(),
            arguments: image::print_arguments(&arguments),
            deadline,
            call: Some(self.call.key),
        });
        self.executor
            .request_asking(self.call, self.batch, body, deadline + IMAGE_GRACE)
            .await
    }
}

impl ImageCalls for CallImages<'_> {
    fn call(
        &self,
        lisp: Lisp,
        operation: &'static str,
        arguments: lexpr::Value,
        deadline: Duration,
    ) -> BoxFuture<'_, Result<ImageReply, ToolFailure>> {
        Box::pin(async move {
            let done = self.ask(lisp, operation, arguments, deadline).await?;
            parsed(&done).map(|(reply, _)| reply)
        })
    }

    fn waited(&self) -> Duration {
        self.call.waited.all()
    }
}

/// How CALL, which compiles a definition, as after an edit, goes on after the error in REPORT: a Lisp doesn't
/// replace a constant or a structure just so.
fn going_on(call: &PreparedCall, report: &ConditionReport) -> Option<String> {
    let given = |name: &str| call.arguments.text(name).is_some();
    if call.tool.unit.is_none() || !given("name") || given("restart") || outcome::is_denial(report)
    {
        return None;
    }
    let (_, what) = report
        .restarts
        .iter()
        .find(|(name, _)| name == "CONTINUE")?;
    let again = call.arguments.with_text("restart", "continue").to_json();
    let what = what.trim_end_matches('.');
    Some(format!("{} {again} goes on ({what}).", call.tool.name))
}

/// Whether the reply to CALL, of OPERATION, says what the image lacks of the files. What could not be compiled
/// is told by the failure.
fn tells_lacking(operation: &str, call: &PreparedCall, succeeded: bool) -> bool {
    operation == "eval-form" || (call.tool.unit.is_some() && succeeded)
}

/// Notes what of the user's files the image has now that OPERATION has run with ARGUMENTS, perhaps for UNIT.
fn note_compiled(
    operation: &str,
    unit: Option<&Unit>,
    arguments: &Arguments,
    context: &WorkContext,
) {
    let workspace = &context.workspace;
    match unit {
        Some(unit) => workspace.was_compiled(&unit.file, unit.form.as_deref()),
        None if arguments.flag(DRY_RUN) => {}
        None if ["load-system", "run-tests"].contains(&operation) => {
            workspace.systems_were_loaded(arguments.text("system"));
        }
        None => {}
    }
}

/// FILES, as an image names them, without those outside of the project that hold only what the model wrote.
async fn not_written(
    files: Vec<PathBuf>,
    context: &WorkContext,
) -> Result<Vec<PathBuf>, ToolFailure> {
    if files.is_empty() {
        return Ok(files);
    }
    let Ok(policy) = context.policy().await else {
        return Ok(files);
    };
    let judge = move |file: &PathBuf| match policy.judge(&file.to_string_lossy()) {
        PathVerdict::Outside(resolved) => Some(resolved),
        _ => None,
    };
    let (files, judged): (Vec<_>, Vec<_>) = context
        .on_a_thread(move |_| {
            let judged = files.iter().map(judge).collect::<Vec<_>>();
            Ok((files, judged))
        })
        .await?;
    let own = reach::written(judged.iter().flatten().cloned().collect(), context).await?;
    let is_own = |it: &Option<Resolved>| it.as_ref().is_some_and(|it| own.contains(&it.path));
    let pairs = files.into_iter().zip(&judged);
    Ok(pairs
        .filter(|(_, judged)| !is_own(judged))
        .map(|(file, _)| file)
        .collect())
}

/// The provenance of texts that are quoted from FILES, as an image names them.
pub(super) async fn provenance_of(
    files: Vec<PathBuf>,
    project: Option<PathBuf>,
    context: &WorkContext,
) -> Result<Provenance, ToolFailure> {
    if files.is_empty() {
        return Ok(Provenance::Own);
    }
    let elsewhere = context
        .on_a_thread(move |_| {
            // One that is not there is taken by its name, unless that leads upwards.
            let follow = |file: &PathBuf| file.canonicalize().unwrap_or_else(|_| file.clone());
            let mut files: Vec<PathBuf> = files.iter().map(follow).collect();
            let inside = |file: &PathBuf| match &project {
                Some(root) => file.starts_with(root) && !leads_upwards(file),
                None => false,
            };
            files.retain(|file| !inside(file));
            Ok(files)
        })
        .await?;
    if elsewhere.is_empty() {
        return Ok(Provenance::Own);
    }
    let libraries = match context.policy().await {
        Ok(policy) if !elsewhere.iter().any(|it| leads_upwards(it)) => {
            reach::library_folders(&policy, context).await
        }
        _ => Vec::new(),
    };
    let known = |file: &PathBuf| libraries.iter().any(|it| file.starts_with(it));
    Ok(match elsewhere.iter().all(known) {
        true => Provenance::Own,
        false => Provenance::Foreign,
    })
}

fn leads_upwards(file: &Path) -> bool {
    file.components().any(|it| it == Component::ParentDir)
}

/// What is told by RESULT, whose content has TEXT.
fn told<T>(
    result: &mut Result<T, ToolFailure>,
    text: impl FnOnce(&mut T) -> &mut String,
) -> &mut String {
    match result {
        Ok(content) => text(content),
        Err(failure) => &mut failure.message,
    }
}

/// The image's reply in DONE, and what was not allowed while it ran.
fn parsed(done: &Done) -> Result<(ImageReply, Vec<String>), ToolFailure> {
    image::parse_added(&done.text, done.added.as_deref())
        .map_err(|error| ToolFailure::new(error.to_string()))
}

/// Adds to what is TOLD the DENIALS of effects, unless it says so itself, and Emacs's NOTE: the code may have
/// handled the error, or made another one of it.
fn tell(told: &mut String, denials: &[String], note: Option<String>) {
    // Some alone would read as if those were all.
    if !denials.iter().all(|denial| told.contains(denial.as_str())) {
        told.push_str(&format!(
            "\n(Not allowed while it ran: {}.)",
            denials.join("; ")
        ));
    }
    told.extend(note.map(|it| format!("\n{it}")));
}

// Calls that follow another one at its wish, such as compiling what was edited. Each goes the whole way of
// a call, with its own question where it needs one; the model reads all as one result.

impl Executor {
    /// Takes a PREPARED call to its result, and those that follow it.
    pub(super) async fn settle_all(
        &self,
        id: &str,
        key: CallKey,
        prepared: Prepared,
        batch: &BatchContext,
    ) -> CallResult {
        let next = prepared.next();
        let mut result = self.settle(id, key, prepared, batch).await;
        for call in next.take() {
            let followed = match self.follow(id, call, key, batch).await {
                Ok(followed) => followed,
                Err(why) => {
                    result.content.push_str(&why);
                    continue;
                }
            };
            let told = followed.content.trim_end();
            result.content = format!("{}\n\n{told}", result.content.trim_end());
            let is_foreign = |it: &&Source| it.provenance == Provenance::Foreign;
            if followed.source.as_ref().filter(is_foreign).is_some() || result.source.is_none() {
                result.source = followed.source;
            }
            if let Some(remark) = followed.remark {
                result.add_remark(remark);
            }
            if followed.outcome != CallOutcome::Succeeded {
                result.content.push_str("\nThe edit itself is done.");
                break;
            }
        }
        result
    }

    /// Takes CALL, which the call AFTER made, to its result; or says why it is not made.
    async fn follow(
        &self,
        id: &str,
        call: NextCall,
        after: CallKey,
        batch: &BatchContext,
    ) -> Result<CallResult, String> {
        let (key, wish) = (CallKey::next(), call.wish);
        let call = ToolCall {
            id: id.to_owned(),
            name: call.tool.to_owned(),
            raw_arguments: serde_json::Value::Object(call.arguments.clone()).to_string(),
            arguments: CallArguments::Object(call.arguments),
        };
        let mut prepared = self.prepare(&call, key, batch).await;
        if let (Wish::Option, Prepared::Runnable(call)) = (wish, &prepared)
            && call.explanation.outcome != Outcome::Run
        {
            let why = reason(call);
            let why = why.trim_end_matches('.');
            return Err(format!(
                "\n(Not compiled, as the user is to be asked about that: {why}. compile_file asks.)"
            ));
        }
        self.tell_proposed(&call, key, Some(after), batch);
        if let Prepared::Runnable(call) = &mut prepared {
            self.ask_if_needed(call, batch);
        }
        Ok(self.settle(id, key, prepared, batch).await)
    }
}
