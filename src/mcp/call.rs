// SPDX-License-Identifier: GPL-3.0-or-later
//! One call of a client, as MCP tells of it while it runs and when it is over.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::protocol::{is_repeatable, notification};
use super::transport::Outgoing;
use crate::tool::begun::{BegunCall, CallText, CallTextKind};

/// TEXT as the result of `tools/call`.
#[must_use]
pub fn to_json(text: &CallText) -> Value {
    json!({
        "content": [{"type": "text", "text": text.text}],
        "isError": text.kind == CallTextKind::Problem,
    })
}

/// The result of `tools/call` of CALL while there is no outcome; LOOKED is what was seen of it.
#[must_use]
pub fn pending(call: &BegunCall, looked: Option<&str>) -> Value {
    let mut result = to_json(&CallText::result(call.pending("Call", looked)));
    result["_meta"] = json!({"agent-q/status": "pending", "agent-q/callId": call.id});
    result
}

/// When a client that wants to know first hears how a call goes, and how often then.
const FIRST_NOTE: Duration = Duration::from_secs(1);
const PACE: Duration = Duration::from_secs(2);

/// Says to OUT from time to time how CALL goes, to a client that gave TOKEN for that. Never ends.
pub async fn tell_progress(call: &BegunCall, token: Option<&Value>, out: &mpsc::Sender<Outgoing>) {
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
