// SPDX-License-Identifier: GPL-3.0-or-later
//! Where the core meets Emacs: the only place, with `lib.rs`, that uses the `emacs` crate, and the only
//! room with unsafe code, in `wake`. Everything here runs on Emacs's thread, in slices, and never waits.

pub mod buffers;
mod chats;
pub mod diff;
mod entries;
pub mod gram;
mod markdown;
pub mod running;
pub mod text;
pub mod wake;
pub mod wire;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emacs::{Env, IntoLisp, Result, Value};
use once_cell::sync::OnceCell;

use crate::audit::AuditLog;
use crate::engine::Engine;
use crate::event_queue::is_text;
use crate::gram::GramError;
use crate::mcp::McpServer;
use crate::protocol::Emacs;
use crate::protocol::{EmacsRequest, Event, MessageId, Op, Sending, SessionId, UserMessage};
use crate::rules::RuleBook;
use crate::runtime::on_emacs;
use crate::session::Agenda;
use crate::session::context::Context;
use crate::tool::definition::InvalidTool;
use crate::trust::Provenance;
use crate::{log, runtime};
use running::RunningEmacs;
use text::Text;

emacs::define_errors! {
    agent_q_error "agent-q" (error)
    agent_q_invalid_tool "Invalid tool" (agent_q_error)
    agent_q_invalid_arguments "The arguments do not fit" (agent_q_error)
    agent_q_gram_error "This gram text is not understood" (agent_q_error)
}

/// The engine and the host that it talks to.
pub struct Core {
    pub engine: Arc<Engine>,
    pub mcp: Arc<McpServer>,
    pub emacs: Arc<RunningEmacs>,
}

static CORE: OnceCell<Core> = OnceCell::new();

/// Starts the core once, and attaches the wake pipe each time.
pub fn start(env: &Env, pipe: Value<'_>, log_file: &str) -> Result<()> {
    let core = CORE
        .get_or_try_init(|| -> std::result::Result<Core, String> {
            runtime::start(Path::new(log_file), wake::block_signals)
                .map_err(|it| it.to_string())?;
            let emacs = Arc::new(RunningEmacs::default());
            let told = Arc::clone(&emacs);
            log::on_trouble(move |message| told.emit(Event::Trouble { message }));
            // Beside the program's own log, even where that has to be elsewhere.
            let audit = AuditLog::open(&Path::new(log_file).with_file_name("audit.jsonl"));
            // Beside the logs too; a file that can't be used makes every call ask.
            let rules = RuleBook::open(&Path::new(log_file).with_file_name("rules.json"));
            let engine = Arc::new(Engine::new(Arc::clone(&emacs) as _, audit, rules));
            let mcp = McpServer::new(Arc::clone(&engine));
            Ok(Core { engine, mcp, emacs })
        })
        .or_else(|message| signal(env, message))?;
    let pipe_name: String = env.call("process-name", (pipe,))?.into_rust()?;
    wake::attach(env, &pipe_name, &core.emacs.queue)
}

/// The running core.
///
/// # Errors
///
/// Signals `agent-q-error` before [`start`].
pub fn core(env: &Env) -> Result<&'static Core> {
    match CORE.get() {
        Some(core) => Ok(core),
        None => signal(
            env,
            "agent-q's core is not started: a chat starts it. If it was, another copy of it was \
             loaded since; restart Emacs.",
        ),
    }
}

pub fn tell(env: &Env, session: i64, op: Op) -> Result<()> {
    core(env)?
        .engine
        .tell(SessionId(session as u64), op)
        .or_else(|error| signal(env, error))
}

pub fn agenda(env: &Env, session: i64) -> Result<Arc<Agenda>> {
    core(env)?
        .engine
        .agenda(SessionId(session as u64))
        .or_else(|error| signal(env, error))
}

/// Signals `agent-q-error` in Lisp.
pub fn signal<T>(env: &Env, message: impl ToString) -> Result<T> {
    env.signal(agent_q_error, (message.to_string(),))
}

/// The system prompt of the session ID and what the model reads of CONTEXT, as a list.
pub fn prompts(env: &Env, id: SessionId, context: Text) -> Result<Value<'_>> {
    let prompt = core(env)?.engine.system_prompt(id);
    let prompt = prompt.or_else(|error| signal(env, error))?;
    let block = parsed(env, &context)?.block();
    env.list([prompt.into_lisp(env)?, block.into_lisp(env)?])
}

/// The user's message TEXT with CONTEXT, JSON.
pub fn message(
    env: &Env,
    text: Text,
    context: Option<Text>,
    sending: Sending,
) -> Result<UserMessage> {
    let context = context.map(|json| parsed(env, &json)).transpose()?;
    let pictures = context
        .as_ref()
        .map_or(Ok(Vec::new()), Context::pictures)
        .or_else(|error| signal(env, error))?;
    Ok(UserMessage {
        id: MessageId::next(),
        text: text.into(),
        along: context.as_ref().map(Context::along).unwrap_or_default(),
        provenance: context
            .as_ref()
            .map_or(Provenance::Own, Context::provenance),
        context: context.as_ref().map(Context::block),
        pictures,
        sending,
    })
}

/// The context of a message, which Emacs writes as JSON.
fn parsed(env: &Env, json: &str) -> Result<Context> {
    Context::parse(json)
        .or_else(|error| signal(env, format!("The context is not understood: {error}")))
}

/// Signals `agent-q-invalid-tool` in Lisp.
pub fn signal_invalid_tool<T>(env: &Env, problem: &InvalidTool) -> Result<T> {
    env.signal(agent_q_invalid_tool, (problem.to_string(),))
}

/// Signals `agent-q-invalid-arguments` in Lisp, with a sentence for each problem.
pub fn signal_invalid_arguments<T>(env: &Env, problems: &str) -> Result<T> {
    env.signal(agent_q_invalid_arguments, (problems,))
}

/// Signals `agent-q-gram-error` in Lisp: the sentence, line, column and what was expected.
pub fn signal_gram_error<T>(env: &Env, error: &GramError) -> Result<T> {
    let (line, column) = (error.line as i64, error.column as i64);
    env.signal(
        agent_q_gram_error,
        (error.to_string(), line, column, error.expected.clone()),
    )
}

/// Has Emacs drain the events without being woken; false when it was woken already.
#[must_use]
pub fn attend(core: &Core) -> bool {
    let claimed = core.emacs.queue.claim_wake();
    if claimed {
        on_emacs::attend();
    }
    claimed
}

/// Lets Emacs be woken again; true when it will be at once.
#[must_use]
pub fn ready(core: &Core) -> bool {
    on_emacs::leave();
    core.emacs.queue.ready()
}

/// Takes events for Lisp, oldest first, within the two budgets; what takes long to draw is the last of
/// them. What Emacs's thread can serve itself is served on the way, and the calls that
/// this lets go on do so.
pub fn drain(env: &Env, most_events: i64, budget: Duration) -> Result<Value<'_>> {
    let core = core(env)?;
    on_emacs::attend();
    let started = Instant::now();
    let mut events = Vec::new();
    while (events.len() as i64) < most_events && started.elapsed() < budget {
        let Some(event) = core.emacs.queue.pop() else {
            if on_emacs::run_ready() {
                continue;
            }
            break;
        };
        match serve(env, core, &event) {
            Served::Here => {}
            Served::ByLisp => {
                events.push(wire::lisp(env, &event)?);
                if is_text(&event) || matches!(event, Event::PastTurn { .. }) {
                    break;
                }
            }
        }
    }
    env.list(&events)
}

enum Served {
    Here,
    ByLisp,
}

fn serve(env: &Env, core: &Core, event: &Event) -> Served {
    if let Event::ApprovalRequested { call, .. } | Event::ApprovalSettled { call, .. } = event {
        core.engine.request_told(*call);
    }
    let Event::EmacsRequested { request, body, .. } = event else {
        return Served::ByLisp;
    };
    match body {
        EmacsRequest::ReadBuffer(what) => {
            if core.emacs.is_waiting(*request) {
                core.emacs.resolve(*request, buffers::read(env, what));
            }
            Served::Here
        }
        EmacsRequest::VisitedFile(buffer) => {
            if core.emacs.is_waiting(*request) {
                let reply = buffers::visited_file(env, buffer.as_deref());
                core.emacs.resolve(*request, reply);
            }
            Served::Here
        }
        EmacsRequest::Image(_) | EmacsRequest::Operation { .. } | EmacsRequest::Handler { .. } => {
            if core.emacs.is_waiting(*request) {
                Served::ByLisp
            } else {
                // It was taken back before Emacs saw it.
                Served::Here
            }
        }
    }
}

/// What is open in the core, as a property list.
pub fn status(env: &Env) -> Result<Value<'_>> {
    let core = core(env)?;
    let count = |number: usize| (number as i64).into_lisp(env);
    let log = log::file().map(|path| path.display().to_string());
    let audit = core.engine.audit();
    let trouble: Vec<Value<'_>> = log::trouble()
        .map(ToString::to_string)
        .into_iter()
        .chain(audit.trouble())
        .map(|sentence| sentence.into_lisp(env))
        .collect::<Result<_>>()?;
    let audit = audit.path().map(|path| path.display().to_string());
    env.list(&[
        env.intern(":sessions")?,
        count(core.engine.session_count())?,
        env.intern(":queued")?,
        count(core.emacs.queue.len())?,
        env.intern(":requests")?,
        count(core.emacs.waiting_count())?,
        env.intern(":approvals")?,
        count(core.engine.approval_count())?,
        env.intern(":log-file")?,
        log.into_lisp(env)?,
        env.intern(":audit-file")?,
        audit.into_lisp(env)?,
        env.intern(":trouble")?,
        env.list(&trouble)?,
    ])
}
