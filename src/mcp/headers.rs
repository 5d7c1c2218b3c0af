// SPDX-License-Identifier: GPL-3.0-or-later
//! What the headers of a message over HTTP have to say. Up to 2025-11-25 that is a version which is
//! spoken here; since 2026-07-28 they repeat what the body says, so that nothing between client and server
//! can be led to believe something else. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::StatusCode;
use hyper::header::HeaderMap;

use super::rpc::{METHOD_NOT_FOUND, Request, RpcError, UNSUPPORTED_VERSION};
use super::version::{STATELESS, VERSIONS, requested_version, style};

pub const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// The value of the header NAME; none is like an empty one.
pub fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    let value = headers.get(name).and_then(|it| it.to_str().ok());
    value.unwrap_or_default()
}

/// How a request with HEADERS is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpStyle {
    /// It belongs to a session that an `initialize` began.
    Session,
    Stateless,
}

/// How REQUEST with HEADERS is to be understood.
///
/// # Errors
///
/// When a header is wrong; the status is 400 then.
pub fn http_style(headers: &HeaderMap, request: &Request) -> Result<HttpStyle, RpcError> {
    let version = text(headers, VERSION);
    if !version.is_empty() && !VERSIONS.contains(&version) {
        return Err(RpcError::unsupported_version(version, VERSIONS));
    }
    let requested = requested_version(&request.params).unwrap_or_default();
    if version != STATELESS && requested != STATELESS {
        return Ok(HttpStyle::Session);
    }
    same("MCP-Protocol-Version", version, requested)?;
    same("Mcp-Method", text(headers, METHOD), &request.method)?;
    let named = match request.method.as_str() {
        "tools/call" | "prompts/get" => request.params.get("name"),
        "resources/read" => request.params.get("uri"),
        _ => None,
    };
    if let Some(named) = named.and_then(|it| it.as_str()) {
        let value = text(headers, NAME);
        let decoded = decoded(value);
        same("Mcp-Name", decoded.as_deref().unwrap_or(value), named)?;
    }
    style(&request.params, false).map(|_| HttpStyle::Stateless)
}

/// The status of the answer ERROR to a request that stands by itself.
pub fn status_of(error: i64) -> StatusCode {
    match error {
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn same(header: &str, value: &str, body: &str) -> Result<(), RpcError> {
    match value == body {
        true => Ok(()),
        false => Err(RpcError::header_mismatch(header, value, body)),
    }
}

/// What VALUE says, if it is encoded as headers are that plain text can't say.
fn decoded(value: &str) -> Option<String> {
    let encoded = value.strip_prefix("=?base64?")?.strip_suffix("?=")?;
    String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(
        headers: &[(&'static str, &str)],
        method: &str,
        params: &Value,
    ) -> Result<HttpStyle, i64> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        let request = Request {
            id: json!(1),
            method: method.to_owned(),
            params: params.as_object().unwrap().clone(),
            inexact: None,
            length: 0,
        };
        http_style(&headers, &request).map_err(|error| error.code)
    }

    #[test]
    fn headers_have_to_say_what_the_body_says() {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let list = json!({"_meta": meta});
        let version = (VERSION, "2026-07-28");
        let method = (METHOD, "tools/list");
        let of = |headers: &[_]| said(headers, "tools/list", &list);
        assert_eq!(of(&[version, method]), Ok(HttpStyle::Stateless));
        for wrong in [
            &[version] as &[_],
            &[method],
            &[version, (METHOD, "tools/call")],
            &[version, (METHOD, "Tools/list")],
            &[(VERSION, "2025-11-25"), method],
        ] {
            assert_eq!(of(wrong), Err(-32020), "{wrong:?}");
        }
        let call = |name| {
            let headers = [version, (METHOD, "tools/call"), (NAME, name)];
            let params = json!({"_meta": meta, "name": "h\u{e9}"});
            said(&headers, "tools/call", &params)
        };
        assert_eq!(call("=?base64?aMOp?="), Ok(HttpStyle::Stateless));
        assert_eq!(call("other"), Err(-32020));
        assert_eq!(call("=?base64?!?="), Err(-32020));
        let bare = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
        assert_eq!(said(&[version, method], "tools/list", &bare), Err(-32602));
    }

    #[test]
    fn earlier_versions_name_one_that_is_spoken_or_none() {
        let of = |headers: &[_]| said(headers, "tools/list", &json!({}));
        assert_eq!(of(&[]), Ok(HttpStyle::Session));
        assert_eq!(of(&[(VERSION, "2025-06-18")]), Ok(HttpStyle::Session));
        assert_eq!(of(&[(VERSION, "2031-01-01")]), Err(-32022));
        assert_eq!(of(&[(VERSION, "2026-07-28")]), Err(-32020));
    }
}
