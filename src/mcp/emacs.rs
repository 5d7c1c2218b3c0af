// SPDX-License-Identifier: GPL-3.0-or-later
//! What the server asks of Emacs for a client, outside of any tool.

use std::time::Duration;

use serde_json::Value;

use crate::engine::batch::NO_SESSION;
use crate::host::Host;
use crate::protocol::{HostReply, HostRequest, SessionId};

/// How long Emacs may take.
const EMACS_TIME: Duration = Duration::from_secs(20);

/// Emacs's answer to OPERATION with ARGUMENTS, which belongs to no session.
///
/// # Errors
///
/// A sentence when there is none.
pub async fn ask_emacs(
    host: &dyn Host,
    operation: &'static str,
    arguments: Value,
) -> Result<String, String> {
    ask_session(host, NO_SESSION, operation, arguments).await
}

/// The same for SESSION.
///
/// # Errors
///
/// A sentence when there is none.
pub async fn ask_session(
    host: &dyn Host,
    session: SessionId,
    operation: &'static str,
    arguments: Value,
) -> Result<String, String> {
    let request = HostRequest::Operation {
        operation,
        arguments,
    };
    match tokio::time::timeout(EMACS_TIME, host.request(session, request)).await {
        Ok(HostReply::Done(answer)) => Ok(answer),
        Ok(HostReply::Failed(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "Emacs is busy and did not answer within {} s. Try again later.",
            EMACS_TIME.as_secs()
        )),
    }
}
