// SPDX-License-Identifier: GPL-3.0-or-later
//! More of the table of Lisp entry points in `lib.rs`: what Emacs Lisp needs for its own part of a call.

use std::time::Duration;

use emacs::{Env, Result, Value, defun};

use super::text::Text;
use super::{core, interrupt, message, quoting, signal, tell};
use crate::log;
use crate::protocol::{LimitAnswer, Op, QuestionId, Sending, SessionId};

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
/// A `:steered' event says that it has it; CONTEXT is as in `agent-q-core-submit'. Where no turn runs, the
/// message begins one.
#[defun]
fn steer(env: &Env, session: i64, text: Text, context: Option<Text>) -> Result<()> {
    tell(
        env,
        session,
        Op::Steer(message(env, text, context, Sending::New)?),
    )
}

/// Take back the message TEXT that SESSION's running turn was to get; return nil when it has it already.
#[defun]
fn take_back_steering(env: &Env, session: i64, text: Text) -> Result<bool> {
    let engine = &core(env)?.engine;
    engine
        .take_back_steering(SessionId(session as u64), &text)
        .or_else(|error| signal(env, error))
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
    let judged = quoting::quoting(&ground).and_then(|quoting| match elsewhere {
        Some(_) => quoting.judge_elsewhere(&file),
        None => quoting.judge(&file).map(drop),
    });
    Ok(judged.err().map(|error| error.message))
}

/// Return what FILE, which an image named, holds, a character for each byte, or nil.
/// It is nil of a file that `agent-q-core-quoting-objection' says something of.
#[defun]
fn quoting_text(ground: Text, file: Text) -> Result<Option<String>> {
    Ok(quoting::text(&ground, &file))
}

/// Send Emacs the signal USR1 in SECONDS, and return a number to take that back by.
/// It is input, so that it ends a `while-no-input' in which a regular expression is matched.
#[defun]
fn interrupt_in(seconds: f64) -> Result<i64> {
    let delay = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(interrupt::after(delay))
}

/// Take back the signal of NUMBER, if it was not sent yet.
#[defun]
fn interrupt_not(number: i64) -> Result<()> {
    interrupt::take_back(number);
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
