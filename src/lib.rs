// SPDX-License-Identifier: GPL-3.0-or-later
//! agent-q's core: a dynamic module that Emacs loads. This file is the table of its Lisp entry
//! points and nothing else; see `bridge` for how they meet Emacs and `session` for what they drive.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod bridge;
pub mod diff;
pub mod engine;
pub mod files;
pub mod host;
pub mod image;
pub mod protocol;
pub mod provider;
pub mod queue;
pub mod rules;
pub mod runtime;
pub mod session;
pub mod tool;
pub mod tools;

use std::time::Duration;

use emacs::{Env, Result, Value, defun};

use bridge::{core, signal};
use protocol::{CallKey, Op, RequestId, SessionId};

emacs::plugin_is_GPL_compatible!();

/// The number of this table; agent-q-module.el wants the same. Change both with any entry point.
pub const CORE_INTERFACE: i64 = 1;

#[emacs::module(
    name = "agent-q-core",
    defun_prefix = "agent-q-core",
    mod_in_name = false,
    separator = "-"
)]
fn init(_: &Env) -> Result<()> {
    Ok(())
}

/// Return the number of the core's interface.
#[defun]
fn interface() -> Result<i64> {
    Ok(CORE_INTERFACE)
}

/// Start the core, and let it wake Emacs through PIPE, a pipe process.
/// Its log goes to LOG-FILE. Later calls only attach the pipe.
/// Signal `agent-q-error' when the threads or the log can't be had.
#[defun]
fn start<'e>(env: &'e Env, pipe: Value<'e>, log_file: String) -> Result<bool> {
    bridge::start(env, pipe, &log_file)?;
    Ok(true)
}

/// Return the events that wait, oldest first, as property lists.
/// Take at most MOST-EVENTS, and stop after BUDGET microseconds.
#[defun]
fn drain(env: &Env, most_events: i64, budget: i64) -> Result<Value<'_>> {
    let budget = Duration::from_micros(budget.try_into().unwrap_or(0));
    bridge::drain(env, most_events, budget)
}

/// Say that the drained events are applied; return t when more are waiting.
#[defun]
fn ready(env: &Env) -> Result<bool> {
    Ok(core(env)?.host.queue.ready())
}

/// Open a session with SETTINGS, a JSON object, and return its number.
#[defun]
fn open_session(env: &Env, settings: String) -> Result<i64> {
    match core(env)?.engine.open_session(&settings) {
        Ok(session) => Ok(session.0 as i64),
        Err(error) => signal(env, error),
    }
}

/// Change what SETTINGS, a JSON object, names of SESSION's settings.
#[defun]
fn configure(env: &Env, session: i64, settings: String) -> Result<()> {
    let engine = &core(env)?.engine;
    engine
        .configure(session_id(session), &settings)
        .or_else(|error| signal(env, error))
}

/// Give SESSION the user's message TEXT; it waits while a turn runs.
#[defun]
fn submit(env: &Env, session: i64, text: String) -> Result<()> {
    tell(env, session, Op::Submit(text))
}

/// Run the tool call that LINE spells, such as "/describe_symbol mapcar", in SESSION.
#[defun]
fn console(env: &Env, session: i64, line: String) -> Result<()> {
    tell(env, session, Op::Console(line))
}

/// Cancel SESSION's turn and what waits behind it.
#[defun]
fn cancel(env: &Env, session: i64) -> Result<()> {
    tell(env, session, Op::Cancel)
}

/// Close SESSION; its turn ends. Closing it twice is no error.
#[defun]
fn close_session(env: &Env, session: i64) -> Result<()> {
    core(env)?.engine.close_session(session_id(session));
    Ok(())
}

/// Answer the approval request of CALL with DECISION.
/// DECISION is "approved", "denied" (PAYLOAD is the reason or nil) or "modified" (PAYLOAD is
/// the new arguments, a JSON object). Signal `agent-q-error' when the call waits no more.
#[defun]
fn decide(env: &Env, call: i64, decision: String, payload: Option<String>) -> Result<()> {
    let engine = &core(env)?.engine;
    engine
        .decide(CallKey(call as u64), &decision, payload)
        .or_else(|error| signal(env, error))
}

/// Give the core Emacs's reply to REQUEST: STATUS, a string, and PAYLOAD, a string or nil.
#[defun]
fn resolve(env: &Env, request: i64, status: String, payload: Option<String>) -> Result<()> {
    let reply = bridge::wire::reply(&status, payload);
    core(env)?.host.resolve(RequestId(request as u64), reply);
    Ok(())
}

/// Return the registered tools as property lists.
#[defun]
fn tools(env: &Env) -> Result<Value<'_>> {
    let tools: Vec<Value<'_>> = core(env)?
        .engine
        .registry()
        .all()
        .iter()
        .map(|tool| bridge::wire::tool(env, tool))
        .collect::<Result<_>>()?;
    env.list(&tools)
}

/// Return the system prompt that SESSION would send now.
#[defun]
fn system_prompt(env: &Env, session: i64) -> Result<String> {
    let engine = &core(env)?.engine;
    engine
        .system_prompt(session_id(session))
        .or_else(|error| signal(env, error))
}

/// Look for model servers on this machine; a `:discovered' event brings the answer.
#[defun]
fn discover(env: &Env) -> Result<()> {
    core(env)?.engine.discover();
    Ok(())
}

/// Return what is open in the core, as a property list of counts and the log file.
#[defun]
fn status(env: &Env) -> Result<Value<'_>> {
    bridge::status(env)
}

/// Panic in WHERE, "defun" or "worker", to show that bugs are contained.
#[defun]
fn provoke_panic(env: &Env, r#where: String) -> Result<()> {
    match r#where.as_str() {
        "worker" => core(env)?
            .engine
            .spawn(async { panic!("provoked in a worker") }),
        _ => panic!("provoked in a defun"),
    }
    Ok(())
}

/// Stop the core's threads without waiting for them. For `kill-emacs-hook'.
#[defun]
fn shutdown() -> Result<()> {
    runtime::shutdown();
    Ok(())
}

fn tell(env: &Env, session: i64, op: Op) -> Result<()> {
    let engine = &core(env)?.engine;
    engine
        .tell(session_id(session), op)
        .or_else(|error| signal(env, error))
}

fn session_id(session: i64) -> SessionId {
    SessionId(session as u64)
}
