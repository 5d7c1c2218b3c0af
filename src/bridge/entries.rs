// SPDX-License-Identifier: GPL-3.0-or-later
//! More of the table of Lisp entry points in `lib.rs`: what Emacs Lisp needs for its own part of a call, and
//! those of the server for other agents.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use emacs::{Env, Result, Value, defun};
use rustix::process::{Signal, getpid, kill_process};

use super::text::Text;
use super::{core, message, signal, tell};
use crate::files::{FileError, Trouble};
use crate::log;
use crate::mcp::client::Pausing;
use crate::protocol::{LimitAnswer, Op, QuestionId, Sending, SessionId};
use crate::runtime::held;
use crate::workspace::ProjectSettings;
use crate::workspace::quoting::Quoting;

/// Note in the core's log what is of LEVEL, a name, or more serious; with "off", nothing.
#[defun]
fn log_level(env: &Env, level: Text) -> Result<()> {
    log::set_level(&level).or_else(|error| signal(env, error))
}

/// Have requests looked at again, as the user may have changed the files that they are about.
#[defun]
fn files_changed(env: &Env) -> Result<()> {
    core(env)?.engine.files_changed();
    Ok(())
}

/// Let SESSION's turn go on, which met a limit and waits.
#[defun]
fn go_on(env: &Env, session: i64) -> Result<()> {
    tell(env, session, Op::AnswerLimit(LimitAnswer::GoOn))
}

/// End SESSION's turn, which met a limit and waits.
#[defun]
fn stop_at_limit(env: &Env, session: i64) -> Result<()> {
    tell(env, session, Op::AnswerLimit(LimitAnswer::Stop))
}

/// Give SESSION's running turn the user's message TEXT, which its model reads after the calls that run now.
/// CONTEXT and value are as in `agent-q-core-submit'. Where no turn runs, the message begins one.
#[defun]
fn steer(env: &Env, session: i64, text: Text, context: Option<Text>) -> Result<i64> {
    let message = message(env, text, context, Sending::New)?;
    let id = message.id;
    tell(env, session, Op::Steer(message))?;
    Ok(id.0 as i64)
}

/// Find out what fills the window of SESSION's model, and return the number of the question.
/// A `:window-shown' event brings the answer: `:report', JSON text, or `:problem', a sentence.
#[defun]
fn show_window(env: &Env, session: i64) -> Result<i64> {
    let question = QuestionId::next();
    tell(env, session, Op::ShowWindow(question))?;
    Ok(question.0 as i64)
}

/// Have SESSION's model summarize the conversation, when no turn runs, and read the summary instead.
/// A `:summarized' event brings it.
#[defun]
fn compact(env: &Env, session: i64) -> Result<()> {
    tell(env, session, Op::Compact)
}

/// Have SESSION's model read again what the latest summary stands for.
#[defun]
fn undo_compaction(env: &Env, session: i64) -> Result<()> {
    tell(env, session, Op::UndoCompaction)
}

/// Have SESSION's next request take over the user's instructions as they are then.
#[defun]
fn sync_instructions(env: &Env, session: i64) -> Result<()> {
    let engine = &core(env)?.engine;
    engine
        .sync_instructions(SessionId(session as u64))
        .or_else(|error| signal(env, error))
}

/// Find out what SESSION would send now with the message TEXT, or without one if that is nil.
/// CONTEXT is as in `agent-q-core-submit'. Return the number of the question, to which a
/// `:request-shown' event brings the answer: `:request', JSON text, or `:problem', a sentence.
#[defun]
fn show_request(env: &Env, session: i64, text: Option<Text>, context: Option<Text>) -> Result<i64> {
    let message = text
        .map(|text| message(env, text, context, Sending::New))
        .transpose()?;
    let question = QuestionId::next();
    tell(env, session, Op::ShowRequest(question, message))?;
    Ok(question.0 as i64)
}

/// Return why the text of FILE, which an image named, may not be shown unasked, or nil.
/// GROUND is what a chat's settings say of its project, a JSON object. With ELSEWHERE, FILE is the
/// name on another machine.
#[defun]
fn quoting_objection(
    ground: Text,
    file: Text,
    elsewhere: Option<Value<'_>>,
) -> Result<Option<String>> {
    let judged = quoting(&ground).and_then(|quoting| match elsewhere {
        Some(_) => quoting.judge_elsewhere(&file),
        None => quoting.judge(&file).map(drop),
    });
    Ok(judged.err().map(|error| error.message))
}

/// Return what FILE, which an image named, holds, a character for each byte, or nil.
/// It is nil of a file that `agent-q-core-quoting-objection' says something of.
#[defun]
fn quoting_text(ground: Text, file: Text) -> Result<Option<String>> {
    let bytes = quoting(&ground).and_then(|it| it.read(&file));
    Ok(bytes
        .ok()
        .map(|bytes| bytes.into_iter().map(char::from).collect()))
}

/// Send Emacs the signal USR1 in SECONDS, and return a number to take that back by.
/// It is input, so that it ends a `while-no-input' in which a regular expression is matched.
#[defun]
fn interrupt_in(seconds: f64) -> Result<i64> {
    let delay = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(interrupt_after(delay))
}

/// Take back the signal of NUMBER, if it was not sent yet.
#[defun]
fn interrupt_not(number: i64) -> Result<()> {
    take_back_interrupt(number);
    Ok(())
}

/// Panic in WHERE, "defun" or "worker", to show that bugs are contained.
#[defun]
fn provoke_panic(env: &Env, r#where: Text) -> Result<()> {
    match &*r#where {
        "worker" => core(env)?
            .engine
            .spawn(async { panic!("provoked in a worker") }),
        _ => panic!("provoked in a defun"),
    }
    Ok(())
}

// The server for other agents.

/// Serve other agents on a socket in DIRECTORY, and return the socket's name.
/// OPTIONS is a JSON object of `profile', `patience' and `turn_pause'.
#[defun]
fn mcp_start(env: &Env, directory: Text, options: Text) -> Result<String> {
    let server = &core(env)?.mcp;
    server
        .configure(&options)
        .or_else(|error| signal(env, error))?;
    match server.listen(Path::new(&*directory)) {
        Ok(socket) => Ok(socket.display().to_string()),
        Err(error) => signal(env, error),
    }
}

/// Take over OPTIONS, as in `agent-q-core-mcp-start', for all clients.
#[defun]
fn mcp_configure(env: &Env, options: Text) -> Result<()> {
    let server = &core(env)?.mcp;
    server
        .configure(&options)
        .or_else(|error| signal(env, error))
}

/// Serve no other agents any more: close the socket and all connections.
#[defun]
fn mcp_stop(env: &Env) -> Result<()> {
    core(env)?.mcp.stop();
    Ok(())
}

/// Return what the server for other agents does, as JSON: its socket and clients.
#[defun]
fn mcp_status(env: &Env) -> Result<String> {
    Ok(core(env)?.mcp.status().to_string())
}

/// Stop the calls of the client whose session is SESSION.
/// Return nil when it is not connected.
#[defun]
fn mcp_stop_client(env: &Env, session: i64) -> Result<bool> {
    Ok(core(env)?.mcp.stop_client(SessionId(session as u64)))
}

/// Refuse the calls of SESSION's client if PAUSE is non-nil, else take them again.
/// Return nil when it is not connected.
#[defun]
fn mcp_pause_client(env: &Env, session: i64, pause: Option<Value<'_>>) -> Result<bool> {
    let pausing = match pause {
        Some(_) => Pausing::On,
        None => Pausing::Off,
    };
    let server = &core(env)?.mcp;
    Ok(server.pause_client(SessionId(session as u64), pausing))
}

// Servers that have tools of others.

/// Have the tool servers that SERVERS, a JSON array, names, and no others.
/// Each is an object of `name', `timeout', and `command', `environment' and `directory' or `url' and `headers'.
#[defun]
fn tool_servers_configure(env: &Env, servers: Text) -> Result<()> {
    let configured = core(env)?.engine.servers().configure(&servers);
    configured.or_else(|error| signal(env, error))
}

/// Return what there is to know of the tool servers, a property list for each.
#[defun]
fn tool_servers(env: &Env) -> Result<Value<'_>> {
    super::wire::lisp(env, core(env)?.engine.servers().status())
}

/// Return what the tool server NAME wrote to its error output, and what became of it.
#[defun]
fn tool_server_log(env: &Env, name: Text) -> Result<String> {
    let log = core(env)?.engine.servers().log(&name);
    log.or_else(|error| signal(env, error))
}

/// Start the tool server NAME, unless it runs.
#[defun]
fn tool_server_start(env: &Env, name: Text) -> Result<()> {
    let started = core(env)?.engine.servers().start(&name);
    started.or_else(|error| signal(env, error))
}

/// Stop the tool server NAME. It starts when it is needed.
#[defun]
fn tool_server_stop(env: &Env, name: Text) -> Result<()> {
    let stopped = core(env)?.engine.servers().stop(&name);
    stopped.or_else(|error| signal(env, error))
}

/// Ask the tool server NAME about its prompts and resources. QUESTION is JSON: "prompts", "resources", or an object
/// of "prompt" (with `name' and `arguments'), "resource" (`uri') or "complete" (`of', an object of `prompt' or
/// `template', `argument', `value', `others'). The server is started if it has to be. Return the number of the
/// question, to which a `:tool-server-answered' event brings `:answer', JSON text, or `:problem', a sentence.
#[defun]
fn tool_server_ask(env: &Env, name: Text, question: Text) -> Result<i64> {
    match core(env)?.engine.servers().ask(&name, &question) {
        Ok(question) => Ok(question.0 as i64),
        Err(error) => signal(env, error),
    }
}

// Judging the files that an image names, for Emacs, which finds definitions in them.

/// The last one that was made, with the JSON text that it was made from: a chat has many questions.
static LAST_QUOTING: Mutex<Option<(String, Arc<Quoting>)>> = Mutex::new(None);

/// By what files are judged where GROUND, JSON text, says that the project is.
fn quoting(ground: &str) -> std::result::Result<Arc<Quoting>, FileError> {
    let mut last = held(&LAST_QUOTING);
    if let Some((same, quoting)) = &*last
        && same == ground
    {
        return Ok(Arc::clone(quoting));
    }
    let parsed: ProjectSettings = serde_json::from_str(ground).map_err(|error| {
        FileError::new(
            Trouble::BadRequest,
            format!("The project is not understood: {error}."),
        )
    })?;
    let quoting = Arc::new(Quoting::new(&parsed)?);
    *last = Some((ground.to_owned(), Arc::clone(&quoting)));
    Ok(quoting)
}

// Ending what Emacs does that has no end of its own: matching a regular expression hears nothing but
// input, and a signal of the user's counts as such.

/// The interruptions to come. One whose sender goes does not come.
static COMING: LazyLock<Mutex<HashMap<i64, Sender<()>>>> = LazyLock::new(Mutex::default);

/// Interrupts Emacs after DELAY, unless the number that this returns is taken back before.
fn interrupt_after(delay: Duration) -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let (sender, receiver) = channel();
    held(&COMING).insert(number, sender);
    let waiting = std::thread::Builder::new().name("agent-q-interrupt".to_owned());
    let started = waiting.spawn(move || {
        if receiver.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
            // Emacs has had a handler for it since it started.
            let _ = kill_process(getpid(), Signal::USR1);
        }
    });
    if started.is_err() {
        take_back_interrupt(number);
    }
    number
}

/// Has the interruption NUMBER not come, if it hasn't yet.
fn take_back_interrupt(number: i64) {
    held(&COMING).remove(&number);
}
