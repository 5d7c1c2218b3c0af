// SPDX-License-Identifier: GPL-3.0-or-later
//! The versions of MCP. Up to 2025-11-25 a client introduces itself once, by `initialize`; since
//! 2026-07-28 each request says in its `_meta` who asks, and results say how they are to be read.

use serde_json::{Map, Value, json};

use super::rpc::RpcError;

/// The versions that are spoken here, the oldest first.
pub const VERSIONS: &[&str] = &[
    "2024-11-05",
    BATCHING,
    "2025-06-18",
    "2025-11-25",
    STATELESS,
];

/// The first version without `initialize`.
pub const STATELESS: &str = "2026-07-28";

/// The one version in which several messages can be sent, and are answered, as one.
pub const BATCHING: &str = "2025-03-26";

/// The newest version with `initialize`.
const NEWEST_WITH_INITIALIZE: &str = "2025-11-25";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// Where a notification says to which subscription it belongs.
pub const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// Where a result says who gave it.
pub const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Where a client marks the calls of one turn of its model by one text.
const TURN_KEY: &str = "agent-q/turn";
/// Where Codex says so.
const CODEX_KEY: &str = "x-codex-turn-metadata";
/// The longest mark that counts.
const LONGEST_MARK: usize = 200;

/// How a request wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerStyle {
    /// As in a session that began with `initialize`.
    Session,
    /// As one that stands by itself.
    Stateless,
}

impl AnswerStyle {
    /// The code of the error that a resource is not there.
    #[must_use]
    pub fn missing_resource(self) -> i64 {
        match self {
            Self::Session => -32002,
            Self::Stateless => -32602,
        }
    }
}

/// The version that an `initialize` for REQUESTED is answered with.
#[must_use]
pub fn negotiated(requested: &str) -> &'static str {
    VERSIONS
        .iter()
        .find(|version| **version == requested && requested != STATELESS)
        .unwrap_or(&NEWEST_WITH_INITIALIZE)
}

/// How the request with PARAMS wants to be answered; INTRODUCED says whether an `initialize` came.
///
/// # Errors
///
/// When it names a version that is not spoken here, or lacks what it has to say.
pub fn style(params: &Map<String, Value>, introduced: bool) -> Result<AnswerStyle, RpcError> {
    let meta = params.get("_meta").and_then(Value::as_object);
    let version = meta.and_then(|meta| meta.get(VERSION_KEY));
    match version.map(|it| it.as_str().unwrap_or_default()) {
        None if introduced => Ok(AnswerStyle::Session),
        None => Err(RpcError::invalid_params(format!(
            "Send initialize first, or say in _meta what {STATELESS} requires: {VERSION_KEY} and {CAPABILITIES_KEY}."
        ))),
        Some(version) if !VERSIONS.contains(&version) => {
            Err(RpcError::unsupported_version(version, VERSIONS))
        }
        Some(STATELESS) => match meta.and_then(|meta| meta.get(CAPABILITIES_KEY)) {
            Some(Value::Object(_)) => Ok(AnswerStyle::Stateless),
            _ => Err(RpcError::invalid_params(format!(
                "The request's _meta lacks {CAPABILITIES_KEY}."
            ))),
        },
        Some(_) if introduced => Ok(AnswerStyle::Session),
        Some(_) => Ok(AnswerStyle::Stateless),
    }
}

/// The version that the request with PARAMS names.
#[must_use]
pub fn requested_version(params: &Map<String, Value>) -> Option<&str> {
    let meta = params.get("_meta")?.as_object()?;
    meta.get(VERSION_KEY)?.as_str()
}

/// The name of the client that the request with PARAMS says it is from.
#[must_use]
pub fn client_name(params: &Map<String, Value>) -> Option<&str> {
    let meta = params.get("_meta")?.as_object()?;
    meta.get(CLIENT_KEY)?.get("name")?.as_str()
}

/// What the call with PARAMS is marked with as one of a turn of its client's model, if it is.
#[must_use]
pub fn turn_mark(params: &Map<String, Value>) -> Option<String> {
    let meta = params.get("_meta")?;
    let mark = match meta.get(TURN_KEY) {
        Some(mark) => mark.as_str().map(str::to_owned),
        None => codex_turn(meta.get(CODEX_KEY)?),
    };
    mark.filter(|mark| !mark.is_empty() && mark.len() <= LONGEST_MARK)
}

/// The turn that METADATA of Codex's names, an object or one as text.
fn codex_turn(metadata: &Value) -> Option<String> {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let parsed = metadata.as_str().and_then(read);
    let turn = parsed.as_ref().unwrap_or(metadata).get("turn_id")?;
    Some(turn.as_str()?.to_owned())
}

/// Adds to RESULT of SERVER's what STYLE wants; CACHED says whether clients may keep results of this kind.
#[must_use]
pub fn dressed(mut result: Value, style: AnswerStyle, cached: Cached, server: Value) -> Value {
    if style == AnswerStyle::Stateless {
        result["_meta"][SERVER_KEY] = server;
        result["resultType"] = "complete".into();
        if cached == Cached::Maybe {
            // What is listed changes with the user's image: no client may rely on it.
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
    }
    result
}

/// Whether clients may keep results of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    Maybe,
    Never,
}

/// The result of `server/discover`.
#[must_use]
pub fn discovered(capabilities: &Value, instructions: &str) -> Value {
    json!({
        "supportedVersions": VERSIONS,
        "capabilities": capabilities,
        "instructions": instructions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_initialize_gets_its_version_or_the_newest_that_has_one() {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            assert_eq!(negotiated(version), version);
        }
        for version in ["2026-07-28", "2031-01-01", "", "1"] {
            assert_eq!(negotiated(version), "2025-11-25");
        }
    }

    #[test]
    fn turns_are_marked_by_our_key_and_by_that_of_codex() {
        let of = |meta: Value| turn_mark(json!({"_meta": meta}).as_object().unwrap());
        assert_eq!(of(json!({TURN_KEY: "a"})).as_deref(), Some("a"));
        assert_eq!(
            of(json!({CODEX_KEY: {"turn_id": "b"}})).as_deref(),
            Some("b")
        );
        let text = json!({CODEX_KEY: "{\"turn_id\":\"c\"}"});
        assert_eq!(of(text).as_deref(), Some("c"));
        for none in [
            json!({}),
            json!(3),
            json!({TURN_KEY: ""}),
            json!({TURN_KEY: 3}),
            json!({TURN_KEY: "x".repeat(1000)}),
            json!({CODEX_KEY: "{"}),
        ] {
            assert_eq!(of(none), None);
        }
        assert_eq!(turn_mark(&Map::new()), None);
    }

    #[test]
    fn a_request_says_how_it_is_answered() {
        let of = |meta: Value| {
            let params = json!({"_meta": meta});
            style(params.as_object().unwrap(), false)
        };
        assert_eq!(style(&Map::new(), true), Ok(AnswerStyle::Session));
        assert_eq!(style(&Map::new(), false).unwrap_err().code, -32602);
        let whole = json!({VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}});
        assert_eq!(of(whole), Ok(AnswerStyle::Stateless));
        assert_eq!(
            of(json!({VERSION_KEY: "2026-07-28"})).unwrap_err().code,
            -32602
        );
        let unknown = of(json!({VERSION_KEY: "2027-01-01"})).unwrap_err();
        assert_eq!(unknown.code, -32022);
        assert_eq!(unknown.data.unwrap()["supported"], json!(VERSIONS));
    }
}
