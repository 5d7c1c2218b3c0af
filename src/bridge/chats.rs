// SPDX-License-Identifier: GPL-3.0-or-later
//! The entry points for stored chats, more of the table in `lib.rs`.

use emacs::{Env, Result, defun};

use super::text::Text;
use super::{core, signal, tell};
use crate::protocol::{Op, QuestionId, RewindPart, SessionId};

fn session_id(session: i64) -> SessionId {
    SessionId(session as u64)
}

/// Return the id under which SESSION is saved, or nil.
#[defun]
fn chat_id(env: &Env, session: i64) -> Result<Option<String>> {
    Ok(core(env)?.engine.chat_id(session_id(session)))
}

/// Have the file of SESSION's chat say where it is: PLACE, a JSON object of any of `project',
/// `root', `image' and `model'. Return nil when the chat has no file, or not yet.
#[defun]
fn note_place(env: &Env, session: i64, place: Text) -> Result<bool> {
    let engine = &core(env)?.engine;
    engine
        .note_place(session_id(session), &place)
        .or_else(|error| signal(env, error))
}

/// Note in the file of SESSION's chat NOTE, a JSON object of one of `context' (an array of objects,
/// all that is kept in the context) and `image_rewound' (`rewind', a number, and `image').
#[defun]
fn note_in_chat(env: &Env, session: i64, note: Text) -> Result<()> {
    let engine = &core(env)?.engine;
    engine
        .note_in_chat(session_id(session), &note)
        .or_else(|error| signal(env, error))
}

/// Show COUNT older turns of SESSION, a stored chat; they come as `:past-turn' events.
#[defun]
fn show_older(env: &Env, session: i64, count: i64) -> Result<()> {
    let count = usize::try_from(count).unwrap_or_default();
    core(env)?.engine.show_older(session_id(session), count);
    Ok(())
}

/// Show the turns of SESSION, a stored chat, that the rewind of the number REWIND had taken back before
/// it was resumed; they come as `:past-turn' events with `:below'.
#[defun]
fn show_unwound(env: &Env, session: i64, rewind: i64) -> Result<()> {
    let engine = &core(env)?.engine;
    engine.show_unwound(session_id(session), rewind as u64);
    Ok(())
}

/// Ask QUESTION, a JSON object, about the chats of its `directory'; what it is about is named by `do':
/// "search" (with `query' and `limit'), "rename" (`id', `name'), "fork" (`id', `before'), "export"
/// (`id', `file') or "deletable" (`id'). Return the number of the question, to which a
/// `:chats-answered' event brings `:answer', JSON text, or `:problem', a sentence.
#[defun]
fn ask_chats(env: &Env, question: Text) -> Result<i64> {
    match core(env)?.engine.ask_chats(&question) {
        Ok(question) => Ok(question.0 as i64),
        Err(error) => signal(env, error),
    }
}

/// Find out what going back to before TURN of SESSION would take back. Return the number of the
/// question, whose answer (`:chats-answered') has `messages', `files' and `lost'.
#[defun]
fn plan_rewind(env: &Env, session: i64, turn: i64) -> Result<i64> {
    let question = QuestionId::next();
    tell(env, session, Op::PlanRewind(question, turn as u64))?;
    Ok(question.0 as i64)
}

/// Take SESSION back to before TURN in PARTS, a JSON array of "conversation" and "files". Return the
/// number of the question, whose answer has `rewind', `done' and `left'.
#[defun]
fn rewind(env: &Env, session: i64, turn: i64, parts: Text) -> Result<i64> {
    let parts: Vec<RewindPart> = match serde_json::from_str(&parts) {
        Ok(parts) => parts,
        Err(error) => return signal(env, error),
    };
    let question = QuestionId::next();
    let turn = turn as u64;
    tell(
        env,
        session,
        Op::Rewind {
            question,
            turn,
            parts,
        },
    )?;
    Ok(question.0 as i64)
}

/// Undo the rewind of the number REWIND in SESSION. Return the number of the question, whose answer has
/// `done' and `left'.
#[defun]
fn undo_rewind(env: &Env, session: i64, rewind: i64) -> Result<i64> {
    let question = QuestionId::next();
    tell(env, session, Op::UndoRewind(question, rewind as u64))?;
    Ok(question.0 as i64)
}
