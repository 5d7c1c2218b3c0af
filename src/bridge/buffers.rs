// SPDX-License-Identifier: GPL-3.0-or-later
//! Buffer tools, straight through the Env: no Lisp of ours in between, no property, no hook.
//! Text leaves Emacs as bytes, so that raw bytes and characters beyond Unicode survive.

use std::fmt::Write;

use emacs::{Env, IntoLisp, Result, Value};

use super::text::Text;
use crate::protocol::{EmacsError, EmacsReply, ReadBuffer};

/// The most characters of one read; the model asks for the next part by position.
const READ_LIMIT: i64 = 12_000;
/// How many buffer names a miss lists.
const NAMES_SHOWN: usize = 20;

/// Serves WHAT. Lisp errors become a failed reply.
#[must_use]
pub fn read(env: &Env, what: &ReadBuffer) -> EmacsReply {
    let signalled = |message: String| EmacsReply::Failed(EmacsError::Signalled(message));
    match find(env, what.buffer.as_deref()) {
        Ok(Some(buffer)) => match in_buffer(env, buffer, |env| text_of(env, what)) {
            Ok(text) => EmacsReply::done(text),
            Err(error) => signalled(format!("The buffer could not be read: {error}")),
        },
        Ok(None) => signalled(miss(env, what.buffer.as_deref())),
        Err(error) => signalled(format!("The buffer could not be found: {error}")),
    }
}

/// Tells the file that the buffer NAME visits and whether that is on another machine; null for none.
#[must_use]
pub fn visited_file(env: &Env, name: Option<&str>) -> EmacsReply {
    let visited = || -> Result<serde_json::Value> {
        let Some(buffer) = find(env, name)? else {
            return Ok(serde_json::Value::Null);
        };
        let visited = env.call("agent-q-session-user-visited-file", (buffer,))?;
        if !visited.is_not_nil() {
            return Ok(serde_json::Value::Null);
        }
        let (file, remote): (Text, Value<'_>) = (visited.car()?, visited.cdr()?);
        Ok(serde_json::json!({"file": &*file, "remote": remote.is_not_nil()}))
    };
    match visited() {
        Ok(visited) => EmacsReply::done(visited.to_string()),
        Err(error) => EmacsReply::Failed(EmacsError::Signalled(error.to_string())),
    }
}

fn find<'e>(env: &'e Env, name: Option<&str>) -> Result<Option<Value<'e>>> {
    let buffer = match name {
        Some(name) => env.call("get-buffer", (name,))?,
        None => env.call("agent-q-session-user-last-buffer", [])?,
    };
    // In the minibuffer a password may be typed.
    let found = buffer.is_not_nil() && !env.call("minibufferp", (buffer,))?.is_not_nil();
    Ok(found.then_some(buffer))
}

fn miss(env: &Env, name: Option<&str>) -> String {
    let Some(name) = name else {
        return "The user is not working in any buffer.".to_owned();
    };
    let names = user_buffer_names(env).unwrap_or_default();
    format!(
        "No buffer is named {name}. Some that exist: {}",
        names.join(", ")
    )
}

fn user_buffer_names(env: &Env) -> Result<Vec<String>> {
    let mut rest = env.call("buffer-list", [])?;
    let mut names = Vec::new();
    while rest.is_not_nil() && names.len() < NAMES_SHOWN {
        let name: Text = env
            .call("buffer-name", (rest.car::<Value<'_>>()?,))?
            .into_rust()?;
        if !name.starts_with(' ') {
            names.push(name.into());
        }
        rest = rest.cdr()?;
    }
    Ok(names)
}

/// Runs BODY with BUFFER current, and makes the one before current again whatever happens.
fn in_buffer<T>(env: &Env, buffer: Value<'_>, body: impl FnOnce(&Env) -> Result<T>) -> Result<T> {
    let before = env.call("current-buffer", [])?;
    env.call("set-buffer", (buffer,))?;
    let result = body(env);
    env.call("set-buffer", (before,))?;
    result
}

fn text_of(env: &Env, what: &ReadBuffer) -> Result<String> {
    let position = |function: &str| -> Result<i64> { env.call(function, [])?.into_rust() };
    let (first, last) = (position("point-min")?, position("point-max")?);
    let start = what.start.unwrap_or(first).clamp(first, last);
    let asked = what.end.unwrap_or(last).clamp(start, last);
    let end = asked.min(start + READ_LIMIT);
    let string = env.call("buffer-substring-no-properties", (start, end))?;
    let utf_8 = env.intern("utf-8-unix")?;
    let bytes: Vec<u8> = env
        .call(
            "encode-coding-string",
            (string, utf_8, true.into_lisp(env)?),
        )?
        .into_rust()?;
    let (text, raw_bytes) = decode(&bytes);

    let size = position("buffer-size")? + 1;
    let name: Text = env.call("buffer-name", [])?.into_rust()?;
    let mode: Text = env
        .call(
            "symbol-name",
            (env.call("symbol-value", (env.intern("major-mode")?,))?,),
        )?
        .into_rust()?;
    let mut out = format!("Buffer {name} ({mode}), characters {start} to {end} of {size}");
    // Writing to a String cannot fail.
    let _ = match env.call("buffer-narrowed-p", [])?.is_not_nil() {
        true => write!(out, ", narrowed by the user to {first}–{last}"),
        false => Ok(()),
    };
    if raw_bytes > 0 {
        let _ = write!(out, r", {raw_bytes} raw bytes shown as \ooo");
    }
    let _ = write!(out, ":\n{text}");
    if end < asked {
        let _ = write!(
            out,
            "\n[{} more characters; ask with start={end}]",
            asked - end
        );
    }
    Ok(out)
}

/// BYTES as text. What is not UTF-8 (a raw byte, half of a surrogate pair) is written as Emacs
/// shows it, `\377`; the second value counts those bytes.
fn decode(bytes: &[u8]) -> (String, usize) {
    let mut text = String::with_capacity(bytes.len());
    let mut raw_bytes = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            raw_bytes += 1;
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    (text, raw_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_bytes_are_shown_as_emacs_shows_them() {
        assert_eq!(decode(b"a\xff\xc3\xbc"), ("a\\377ü".to_owned(), 1));
    }
}
