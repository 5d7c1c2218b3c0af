// SPDX-License-Identifier: GPL-3.0-or-later
//! Bodies of requests, which may be long: each message becomes JSON as its turn comes, so that there is
//! never a tree of the whole conversation in memory. And bodies of answers of which only the beginning
//! matters, or only that they end.

use std::io;
use std::time::Duration;

use hyper::body::Bytes;
use memmap2::MmapMut;
use reqwest::Response;
use serde::Serialize;
use serde::ser::{SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Map, Value};

use crate::provider::{Messages, ProviderSettings};

/// Stands for the history among the fields of a body. A field of the user's is never null, as that takes
/// one out.
pub const HISTORY: Value = Value::Null;

/// What hands over messages one by one, as a dialect has them.
pub type WriteHistory = fn(&ProviderSettings, &Messages, &mut dyn FnMut(Value));

/// A body that is yet to be written.
#[derive(Debug)]
pub struct WrittenBody<'r> {
    pub settings: &'r ProviderSettings,
    /// The messages of the request, behind the gate.
    pub messages: Messages,
    /// Its fields, with [`HISTORY`] in the field PLACE unless the user has another history.
    pub fields: Map<String, Value>,
    pub place: &'static str,
    pub history: WriteHistory,
}

impl WrittenBody<'_> {
    /// All of it.
    #[must_use]
    pub fn whole(mut self) -> Value {
        if self.fields.get(self.place) == Some(&HISTORY) {
            let mut messages = Vec::new();
            self.each_message(&mut |message| messages.push(message));
            self.fields.insert(self.place.to_owned(), messages.into());
        }
        Value::Object(self.fields)
    }

    fn each_message(&self, to: &mut dyn FnMut(Value)) {
        (self.history)(self.settings, &self.messages, to);
    }
}

impl Serialize for WrittenBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            if name == self.place && *value == HISTORY {
                body.serialize_entry(name, &WrittenHistory(self))?;
            } else {
                body.serialize_entry(name, value)?;
            }
        }
        body.end()
    }
}

struct WrittenHistory<'b>(&'b WrittenBody<'b>);

impl Serialize for WrittenHistory<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut messages = serializer.serialize_seq(None)?;
        let mut outcome = Ok(());
        self.0.each_message(&mut |message| {
            if outcome.is_ok() {
                outcome = messages.serialize_element(&message);
            }
        });
        outcome?;
        messages.end()
    }
}

/// How long to wait for the end of a body behind the reply's end mark, so that the connection can
/// be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Read on to the end of a body that has nothing more to say.
pub(super) async fn drain(mut response: Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
}

/// The beginning of a body: all of it, or what arrived in PATIENCE before it grew too long.
pub(super) async fn read_up_to(
    limit: usize,
    patience: Duration,
    mut response: Response,
) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() >= limit {
                break;
            }
        }
    };
    // What came until then is enough for a sentence.
    let _ = tokio::time::timeout(patience, reading).await;
    body
}

/// JSON in pages of its own, which go back to the system. An allocator would keep those of the longest
/// conversation that was ever written.
pub(super) fn in_own_pages(json: &impl Serialize) -> io::Result<Bytes> {
    let mut pages = OwnPages::new()?;
    serde_json::to_writer(&mut pages, json)?;
    Ok(Bytes::from_owner(pages))
}

/// How many bytes there is room for at first. Pages to which nothing is written take no memory.
const FIRST_ROOM: usize = 256 * 1024;

/// How many times as much room there is once it was too little: what was written by then is copied.
const GROWTH: usize = 4;

/// What was written so far.
struct OwnPages {
    room: MmapMut,
    used: usize,
}

impl OwnPages {
    fn new() -> io::Result<Self> {
        let room = MmapMut::map_anon(FIRST_ROOM)?;
        Ok(Self { room, used: 0 })
    }

    fn make_room(&mut self, needed: usize) -> io::Result<()> {
        let mut room = MmapMut::map_anon(needed.max(self.room.len() * GROWTH))?;
        room[..self.used].copy_from_slice(self.as_ref());
        self.room = room;
        Ok(())
    }
}

impl AsRef<[u8]> for OwnPages {
    fn as_ref(&self) -> &[u8] {
        &self.room[..self.used]
    }
}

impl io::Write for OwnPages {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.used + bytes.len();
        if end > self.room.len() {
            self.make_room(end)?;
        }
        self.room[self.used..end].copy_from_slice(bytes);
        self.used = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_outgrows_its_room_is_whole() {
        let text = "a line\n".repeat(FIRST_ROOM / 2);
        for json in [
            json!(""),
            json!({"a": [text, 1]}),
            json!([text, text, text]),
        ] {
            let written = in_own_pages(&json).expect("there is memory");
            assert!(*written == *json.to_string().as_bytes());
        }
    }
}
