// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages as the bridge sees them: lines, of which only id and method are looked at.

use std::io::{self, BufRead};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::readable::IdFinder;

/// The longest message that is passed on. The server takes no longer ones either.
const LONGEST: usize = 8 * 1024 * 1024;

/// What a message is about.
#[derive(Debug, Default, Deserialize)]
pub struct Head {
    #[serde(default)]
    pub id: Option<Value>,
    #[serde(default)]
    pub method: Option<String>,
}

impl Head {
    /// That of LINE; of what is no message, one with its id at most.
    pub fn of(line: &[u8]) -> Self {
        serde_json::from_slice(line).unwrap_or_else(|_| Self {
            id: IdFinder::find(line),
            // Somebody waits for an answer to it.
            method: Some(String::new()),
        })
    }

    /// Those of LINE, which may have several messages.
    pub fn all(line: &[u8]) -> Vec<Self> {
        match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'[') => serde_json::from_slice(line).unwrap_or_else(|_| vec![Self::of(line)]),
            _ => vec![Self::of(line)],
        }
    }

    /// The id, if this is a request, which wants an answer.
    pub fn request(&self) -> Option<&Value> {
        let id = self.id.as_ref().filter(|id| !id.is_null());
        id.filter(|_| self.method.is_some())
    }

    /// The id, if this is the answer to a request.
    pub fn answer(&self) -> Option<&Value> {
        self.id.as_ref().filter(|_| self.method.is_none())
    }
}

/// What came from a stream.
pub enum Read {
    /// A line with its end.
    Line(Vec<u8>),
    /// One that was left out, with its id.
    TooLong(Option<Value>),
    End,
}

/// The next line of STREAM. The last one may lack its end.
pub fn read(stream: &mut impl BufRead) -> io::Result<Read> {
    let mut line = Vec::new();
    let mut too_long: Option<IdFinder> = None;
    loop {
        let available = match stream.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            if line.is_empty() {
                return Ok(Read::End);
            }
            line.push(b'\n');
            return Ok(Read::Line(line));
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |end| end + 1);
        let piece = &available[..taken];
        if let Some(finder) = &mut too_long {
            finder.feed(piece);
        } else if line.len() + taken > LONGEST {
            let mut finder = IdFinder::default();
            finder.feed(&line);
            finder.feed(piece);
            too_long = Some(finder);
            line = Vec::new();
        } else {
            line.extend_from_slice(piece);
        }
        stream.consume(taken);
        if end.is_some() {
            return Ok(match too_long {
                Some(finder) => Read::TooLong(finder.id()),
                None => Read::Line(line),
            });
        }
    }
}

/// The line that answers the request ID with an error.
pub fn refusal(id: &Value, code: i64, message: &str) -> Vec<u8> {
    let error = json!({"code": code, "message": message});
    line_of(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

/// The line that answers the tool call ID with a failure, which hosts show to their models as it is.
pub fn failed_call(id: &Value, message: &str) -> Vec<u8> {
    let text = format!("Error: {message}");
    let result = json!({"content": [{"type": "text", "text": text}], "isError": true});
    line_of(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// The refusal of WHAT, which is too long to be passed on, to the request ID.
pub fn too_long(id: Option<Value>, what: &str) -> Vec<u8> {
    let message = format!("The {what} is longer than {} MB.", LONGEST >> 20);
    refusal(&id.unwrap_or_default(), -32600, &message)
}

pub fn line_of(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
