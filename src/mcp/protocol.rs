// SPDX-License-Identifier: GPL-3.0-or-later
//! JSON-RPC 2.0 and the versions of MCP on top of it: what a message is, what is answered, and how a
//! client says which version it speaks. Pure.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::readable::IdFinder;
use crate::exact;

/// A message of a client's.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    Request(Request),
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// The answer to a request of ours.
    Response {
        id: Value,
        result: Option<Value>,
    },
}

/// A request that wants an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// A string or a number, which the answer repeats.
    pub id: Value,
    pub method: String,
    pub params: Map<String, Value>,
    /// Why its numbers can't be taken as they are read, as sentences.
    pub inexact: Option<String>,
    /// How long its text was, in bytes.
    pub length: usize,
}

/// How many values a message may have. Each takes much more memory than its text may.
const MOST_VALUES: usize = 200_000;

/// The longest id or token that is repeated.
const LONGEST_REPEATED: usize = 1000;

const METHOD_NOT_FOUND: i64 = -32601;
const UNSUPPORTED_VERSION: i64 = -32022;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl RpcError {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    #[must_use]
    pub fn parse(message: impl Into<String>) -> Self {
        Self::new(-32700, message)
    }

    #[must_use]
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))
    }

    #[must_use]
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    /// A version that is not spoken here, of those that are SUPPORTED.
    #[must_use]
    pub fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        Self {
            data: Some(json!({"requested": requested, "supported": supported})),
            ..Self::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
        }
    }

    /// A HEADER whose VALUE is not what the BODY says.
    #[must_use]
    pub fn header_mismatch(header: &str, value: &str, body: &str) -> Self {
        Self::new(
            -32020,
            format!("Header mismatch: {header} says \"{value}\", and the body \"{body}\""),
        )
    }

    /// A resource that is not there; the CODE for that is not the same in all versions.
    #[must_use]
    pub fn resource_not_found(uri: &str, code: i64) -> Self {
        Self {
            data: Some(json!({"uri": uri})),
            ..Self::new(code, format!("There is no resource {uri}"))
        }
    }
}

/// The answer to the request ID.
#[must_use]
pub fn reply(id: &Value, answer: Result<Value, RpcError>) -> Value {
    match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => {
            let mut body = json!({"code": error.code, "message": error.message});
            if let Some(data) = error.data {
                body["data"] = data;
            }
            json!({"jsonrpc": "2.0", "id": id, "error": body})
        }
    }
}

#[must_use]
pub fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// What a line of a client's has.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    One(Incoming),
    /// Messages, or what is answered to what is none, which are answered together.
    Batch(Vec<Result<Incoming, Value>>),
}

/// What LINE says.
///
/// # Errors
///
/// What is answered to a line that is no message.
pub fn parse(line: &[u8]) -> Result<Parsed, Value> {
    // What can't be read may have an id all the same, under which its sender waits for an answer.
    let unreadable = |error: RpcError| {
        let id = IdFinder::find(line).filter(is_repeatable);
        reply(&id.unwrap_or_default(), Err(error))
    };
    let text = std::str::from_utf8(line)
        .map_err(|_| unreadable(RpcError::parse("The message is not UTF-8.")))?;
    let text = with_whole_characters(text.trim_start_matches('\u{feff}'));
    if has_more_values(line, MOST_VALUES) {
        let error = format!("The message has more than {MOST_VALUES} values, and was left out.");
        return Err(unreadable(RpcError::invalid_request(error)));
    }
    let message: Value = serde_json::from_str(&text).map_err(|error| {
        let error = RpcError::parse(format!("The message is not JSON: {error}"));
        unreadable(error)
    })?;
    let inexact = exact::problems(&text).map(|it| it.to_string());
    match message {
        Value::Array(messages) if !messages.is_empty() => {
            let length = line.len() / messages.len();
            let each = messages.into_iter();
            let each = each.map(|message| incoming(message, inexact.clone(), length));
            Ok(Parsed::Batch(each.collect()))
        }
        message => incoming(message, inexact, line.len()).map(Parsed::One),
    }
}

/// What MESSAGE says, whose text had LENGTH bytes and numbers that are INEXACT, in sentences.
fn incoming(message: Value, inexact: Option<String>, length: usize) -> Result<Incoming, Value> {
    let refused = |id: &Value, error: RpcError| reply(id, Err(error));
    let Value::Object(mut message) = message else {
        let error = RpcError::invalid_request("A message is one JSON object on one line.");
        return Err(refused(&Value::Null, error));
    };
    let id = message.remove("id");
    let known = id.clone().filter(is_repeatable).unwrap_or_default();
    let invalid = |message: &str| refused(&known, RpcError::invalid_request(message));
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("A message has \"jsonrpc\": \"2.0\"."));
    }
    let Some(method) = message.remove("method") else {
        return match id.filter(is_repeatable) {
            Some(id) if message.contains_key("result") || message.contains_key("error") => {
                let result = message.remove("result");
                Ok(Incoming::Response { id, result })
            }
            _ => Err(invalid("The message has neither a method nor a result.")),
        };
    };
    let Value::String(method) = method else {
        return Err(invalid("The method is not a string."));
    };
    let params = match message.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            let error = RpcError::invalid_params("The params are not a JSON object.");
            return Err(refused(&known, error));
        }
    };
    match id {
        None => Ok(Incoming::Notification { method, params }),
        Some(id) if is_repeatable(&id) => Ok(Incoming::Request(Request {
            id,
            method,
            params,
            inexact,
            length,
        })),
        Some(_) => Err(invalid(
            "The id is neither a short string nor a number that can be repeated exactly.",
        )),
    }
}

/// The JSON text TEXT with a mark in place of each half of a character, as JavaScript writes one that was
/// cut in two.
fn with_whole_characters(text: &str) -> Cow<'_, str> {
    const HALF: &str = "\\ufffd";
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut whole = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(next) = memchr::memchr(b'\\', &text.as_bytes()[at..]) {
        at += next;
        at += match unit(at) {
            Some(0xd800..0xdc00) if matches!(unit(at + 6), Some(0xdc00..0xe000)) => 12,
            Some(0xd800..0xe000) => {
                whole.to_mut().replace_range(at..at + 6, HALF);
                6
            }
            _ => 2,
        };
        if at >= text.len() {
            break;
        }
    }
    whole
}

/// Whether the JSON text TEXT has more than MOST values.
fn has_more_values(text: &[u8], most: usize) -> bool {
    // Each needs a character at least, and one between it and the next.
    if text.len() <= 2 * most {
        return false;
    }
    let mut values = 1;
    let (mut in_string, mut escaped) = (false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values > most
}

/// Whether ID, of a request or for its progress, can be repeated as it was sent. A number that doesn't fit
/// into an integer of 64 bits was rounded, unless it is a small one that some clients write with a fraction
/// of zero.
#[must_use]
pub fn is_repeatable(id: &Value) -> bool {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match id {
        Value::String(id) => id.len() <= LONGEST_REPEATED,
        Value::Number(number) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|it| it.abs() < EXACT)
        }
        _ => false,
    }
}

// Versions. Up to 2025-11-25 a client introduces itself once, by `initialize`; since 2026-07-28 each
// request says in its `_meta` who asks, and results say how they are to be read.

/// The versions that are spoken here, the oldest first.
const VERSIONS: &[&str] = &[
    "2024-11-05",
    BATCHING,
    "2025-06-18",
    "2025-11-25",
    STATELESS,
];

/// The first version without `initialize`.
const STATELESS: &str = "2026-07-28";

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
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Where a client marks the calls of one turn of its model by one text.
const TURN_KEY: &str = "agent-q/turn";
/// Where Codex says so.
const CODEX_KEY: &str = "x-codex-turn-metadata";
/// The longest mark that counts.
const LONGEST_MARK: usize = 200;

/// How a request wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseStyle {
    /// As in a session that began with `initialize`.
    Session,
    /// As one that stands by itself.
    Stateless,
}

impl ResponseStyle {
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
pub fn style(params: &Map<String, Value>, introduced: bool) -> Result<ResponseStyle, RpcError> {
    let meta = params.get("_meta").and_then(Value::as_object);
    let version = meta.and_then(|meta| meta.get(VERSION_KEY));
    match version.map(|it| it.as_str().unwrap_or_default()) {
        None if introduced => Ok(ResponseStyle::Session),
        None => Err(RpcError::invalid_params(format!(
            "Send initialize first, or say in _meta what {STATELESS} requires: {VERSION_KEY} and {CAPABILITIES_KEY}."
        ))),
        Some(version) if !VERSIONS.contains(&version) => {
            Err(RpcError::unsupported_version(version, VERSIONS))
        }
        Some(STATELESS) => match meta.and_then(|meta| meta.get(CAPABILITIES_KEY)) {
            Some(Value::Object(_)) => Ok(ResponseStyle::Stateless),
            _ => Err(RpcError::invalid_params(format!(
                "The request's _meta lacks {CAPABILITIES_KEY}."
            ))),
        },
        Some(_) if introduced => Ok(ResponseStyle::Session),
        Some(_) => Ok(ResponseStyle::Stateless),
    }
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
pub fn dressed(mut result: Value, style: ResponseStyle, cached: Cached, server: Value) -> Value {
    if style == ResponseStyle::Stateless {
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

    fn code(line: &str) -> (Value, i64) {
        let refused = parse(line.as_bytes()).unwrap_err();
        (
            refused["id"].clone(),
            refused["error"]["code"].as_i64().unwrap(),
        )
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id_where_it_has_one() {
        assert_eq!(code("{"), (Value::Null, -32700));
        assert_eq!(
            code(r#"{"params":[1,],"id":"late"}"#),
            (json!("late"), -32700)
        );
        assert!(parse("\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"m\"}".as_bytes()).is_ok());
        assert_eq!(code("[]"), (Value::Null, -32600));
        assert_eq!(code(r#"{"jsonrpc":"1.0","id":7}"#), (json!(7), -32600));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":"a"}"#), (json!("a"), -32600));
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#;
        assert_eq!(code(call), (json!(1), -32602));
        let call = r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#;
        assert_eq!(code(call), (Value::Null, -32600));
        // An answer to another id than the one that was sent is none.
        let call = r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}"#;
        assert_eq!(code(call), (Value::Null, -32600));
        for id in ["18446744073709551615", "-7", "1.0", "\"a\""] {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert!(parse(call.as_bytes()).is_ok(), "{id}");
        }
        let long = format!(
            r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#,
            "i".repeat(3000)
        );
        assert_eq!(code(&long), (Value::Null, -32600));
        assert!(parse(b"\xff\xfe").is_err());
        assert!(parse(&b"[".repeat(100_000)).is_err(), "deep nesting");
    }

    #[test]
    fn a_message_has_no_more_values_than_memory_is_for() {
        let with =
            |list: &str| format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"x":{list}}}}}"#);
        let crowd = with(&format!("[{}0]", "0,".repeat(MOST_VALUES)));
        assert_eq!(code(&crowd), (Value::Null, -32600));
        let call = crowd
            .replace('{', "{\"id\":7,")
            .replacen("{\"id\":7,\"x", "{\"x", 1);
        assert_eq!(code(&call), (json!(7), -32600));
        let nested = with(&format!("[{}[]]", "[],".repeat(MOST_VALUES)));
        assert_eq!(code(&nested), (Value::Null, -32600));
        // Text may be as long as it likes.
        let text = with(&format!(r#""\"{}\\""#, ",[{".repeat(MOST_VALUES)));
        assert!(parse(text.as_bytes()).is_ok());
    }

    #[test]
    fn half_a_character_is_marked() {
        for (written, read) in [
            (r"a\ud83db", "a\u{fffd}b"),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
            (r"\ud83d\ude00\ud83d\n", "\u{1f600}\u{fffd}\n"),
            (r"\\ud83d", r"\ud83d"),
            (r"\\\ud83d", "\\\u{fffd}"),
            ("\u{e9}\\ud83d\u{e9}", "\u{e9}\u{fffd}\u{e9}"),
        ] {
            let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{written}"}}"#);
            let Ok(Parsed::One(Incoming::Request(request))) = parse(call.as_bytes()) else {
                panic!("{written}")
            };
            assert_eq!(request.method, read);
        }
    }

    #[test]
    fn numbers_that_would_change_are_noted() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"n":123456789012345678901234567890}}"#;
        let Ok(Parsed::One(Incoming::Request(request))) = parse(call.as_bytes()) else {
            panic!("a request")
        };
        assert!(request.inexact.is_some());
    }

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
    fn a_request_says_how_to_respond() {
        let of = |meta: Value| {
            let params = json!({"_meta": meta});
            style(params.as_object().unwrap(), false)
        };
        assert_eq!(style(&Map::new(), true), Ok(ResponseStyle::Session));
        assert_eq!(style(&Map::new(), false).unwrap_err().code, -32602);
        let whole = json!({VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}});
        assert_eq!(of(whole), Ok(ResponseStyle::Stateless));
        assert_eq!(
            of(json!({VERSION_KEY: "2026-07-28"})).unwrap_err().code,
            -32602
        );
        let unknown = of(json!({VERSION_KEY: "2027-01-01"})).unwrap_err();
        assert_eq!(unknown.code, -32022);
        assert_eq!(unknown.data.unwrap()["supported"], json!(VERSIONS));
    }
}
