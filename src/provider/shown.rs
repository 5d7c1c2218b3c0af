// SPDX-License-Identifier: GPL-3.0-or-later
//! A request as its user may see it: the very body and address, with each header that could hold a secret
//! left blank. `http` sends the same.

use serde_json::{Map, Value, json};

use super::address::{chat_url, headers, public_part};
use super::dialect::request_body;
use super::{ChatRequest, ProviderError, ProviderSettings};

/// What stands for a value that is not shown.
const HIDDEN: &str = "[not shown]";

/// What would be sent: `{"url", "headers", "body"}`. The user's own headers are left blank like the key,
/// as any of them may be one.
///
/// # Errors
///
/// When the settings make no request.
pub fn shown_request(
    settings: &ProviderSettings,
    request: &ChatRequest,
) -> Result<Value, ProviderError> {
    let url = chat_url(settings)?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let shown: Map<String, Value> = headers(settings, &host)?
        .iter()
        .map(|(name, value)| {
            let text = match value.to_str() {
                Ok(text) if !value.is_sensitive() => text,
                _ => HIDDEN,
            };
            (name.to_string(), Value::from(text))
        })
        .collect();
    Ok(json!({
        "url": public_part(url.as_str()),
        "headers": shown,
        "body": request_body(settings, request),
    }))
}
