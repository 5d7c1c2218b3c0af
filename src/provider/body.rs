// SPDX-License-Identifier: GPL-3.0-or-later
//! Bodies of requests, which may be long; bodies of answers of which only the beginning matters, or only
//! that they end.

use std::io;
use std::time::Duration;

use hyper::body::Bytes;
use memmap2::MmapMut;
use reqwest::Response;
use serde::Serialize;

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
