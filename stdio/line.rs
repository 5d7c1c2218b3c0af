// SPDX-License-Identifier: GPL-3.0-or-later
//! Messages as the bridge sees them: lines, of which only id and method are looked at.

use std::io::{self, BufRead};

use serde::Deserialize;
use serde_json::{Value, json};

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
    /// That of LINE; of what is no message, an empty one.
    pub fn of(line: &[u8]) -> Self {
        serde_json::from_slice(line).unwrap_or_default()
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
    TooLong,
    End,
}

pub fn read(stream: &mut impl BufRead) -> io::Result<Read> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let available = match stream.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(Read::End);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |end| end + 1);
        too_long |= line.len() + taken > LONGEST;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(&available[..taken]);
        }
        stream.consume(taken);
        match (end, too_long) {
            (None, _) => {}
            (Some(_), true) => return Ok(Read::TooLong),
            (Some(_), false) => return Ok(Read::Line(line)),
        }
    }
}

/// The line that answers the request ID with an error.
pub fn refusal(id: &Value, code: i64, message: &str) -> Vec<u8> {
    let error = json!({"code": code, "message": message});
    line_of(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

/// The refusal of what can't be passed on.
pub fn too_long() -> Vec<u8> {
    let message = format!("The message is longer than {} MB.", LONGEST >> 20);
    refusal(&Value::Null, -32600, &message)
}

pub fn line_of(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}
