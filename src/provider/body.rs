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
    let mut size = ByteCount(0);
    serde_json::to_writer(&mut size, json)?;
    let mut pages = MmapMut::map_anon(size.0)?;
    serde_json::to_writer(&mut pages[..], json)?;
    Ok(Bytes::from_owner(pages))
}

/// How many bytes were written to it.
struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
