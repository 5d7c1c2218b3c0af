// SPDX-License-Identifier: GPL-3.0-or-later
//! What a host is told at its start when no Emacs runs: the same as by one that has nothing of the user's
//! own. Many hosts ask once, and would otherwise have no tools until they are started again.

use serde_json::{Map, Value, json};

use crate::line::line_of;

/// The results by their methods, as the server gives them.
const OFFER: &str = include_str!("offer.json");

/// The answer to the request ID for METHOD, which is LINE, if it needs no Emacs.
pub fn answer(method: &str, id: &Value, line: &[u8]) -> Option<Vec<u8>> {
    let mut offer: Map<String, Value> = serde_json::from_str(OFFER).ok()?;
    let mut result = offer.remove(method)?;
    if method == "initialize" {
        let request: Value = serde_json::from_slice(line).ok()?;
        let requested = &request["params"]["protocolVersion"];
        let versions = offer["server/discover"]["supportedVersions"].as_array()?;
        // The last one has no introduction.
        let (_, versions) = versions.split_last()?;
        let version = versions.iter().find(|it| *it == requested);
        result["protocolVersion"] = version.or(versions.last())?.clone();
    }
    Some(line_of(
        &json!({"jsonrpc": "2.0", "id": id, "result": result}),
    ))
}
