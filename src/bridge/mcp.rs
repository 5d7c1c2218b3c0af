// SPDX-License-Identifier: GPL-3.0-or-later
//! More of the table of Lisp entry points in `lib.rs`: those of the server for other agents.

use std::path::Path;

use emacs::{Env, Result, Value, defun};

use super::text::Text;
use super::{core, signal};
use crate::mcp::client::Pausing;
use crate::protocol::SessionId;

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
