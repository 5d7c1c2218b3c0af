// SPDX-License-Identifier: GPL-3.0-or-later
//! Notes of progress, for clients that ask for them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::call::ClientCall;
use super::lines::Outgoing;
use super::rpc::{is_repeatable, notification};

/// When a client that wants to know first hears how a call goes, and how often then.
const FIRST_NOTE: Duration = Duration::from_secs(1);
const PACE: Duration = Duration::from_secs(2);

/// Says to OUT from time to time how CALL goes, to a client that gave TOKEN for that. Never ends.
pub async fn tell_progress(call: &ClientCall, token: Option<&Value>, out: &mpsc::Sender<Outgoing>) {
    let Some(token) = token.filter(|it| is_repeatable(it)) else {
        return std::future::pending().await;
    };
    let mut pause = FIRST_NOTE;
    loop {
        tokio::time::sleep(pause).await;
        pause = PACE;
        let note = notification(
            "notifications/progress",
            json!({
                "progressToken": token,
                "progress": call.seconds(),
                "message": format!("{} {}", call.tool, call.waits_for()),
            }),
        );
        let _ = out.try_send(Outgoing::new(&note));
    }
}
