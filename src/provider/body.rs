// SPDX-License-Identifier: GPL-3.0-or-later
//! Bodies of which only the beginning matters, or only that they end.

use std::time::Duration;

use reqwest::Response;

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
