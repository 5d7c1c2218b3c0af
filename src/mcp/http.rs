// SPDX-License-Identifier: GPL-3.0-or-later
//! MCP over HTTP on this machine, for programs that want a URL: Streamable HTTP, each answer as one JSON
//! text. A request has to know the token, and to come from no web page: its Host and Origin are checked.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming as Body};
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::connection::ClientConnection;
use super::headers::{HttpStyle, http_style, status_of, text};
use super::lines::{LONGEST, Outgoing, WAITING};
use super::rpc::{Incoming, Parsed, RpcError, parse, reply};
use super::seats::{Seat, Seats};
use super::token::Token;
use super::version::client_name;
use crate::runtime::held;

/// The path of the one endpoint.
const PATH: &str = "/mcp";

const SESSION: &str = "mcp-session-id";

/// How many sessions are kept; those that rested longest go first.
const MOST_SESSIONS: usize = 32;

/// How many connections are served at once.
const MOST_CONNECTIONS: usize = 64;

/// How long a client may take to send a request's head.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long a client may take to send a request's body, which comes from this very machine.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Makes the connection of a client that came over HTTP.
pub type Admit =
    Box<dyn Fn(mpsc::Sender<Outgoing>, CancellationToken) -> Arc<ClientConnection> + Send + Sync>;

/// What is served over HTTP.
pub struct HttpService {
    port: u16,
    token: Token,
    admit: Admit,
    sessions: Mutex<HashMap<String, HttpSession>>,
}

struct HttpSession {
    connection: Arc<ClientConnection>,
    used: Instant,
}

type Answer = Response<Full<Bytes>>;

/// A listener on PORT of this machine alone; 0 is any that is free.
///
/// # Errors
///
/// When the port can't be had.
pub fn listen(port: u16) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl HttpService {
    #[must_use]
    pub fn new(port: u16, token: Token, admit: Admit) -> Self {
        Self {
            port,
            token,
            admit,
            sessions: Mutex::default(),
        }
    }

    /// Serves what comes to LISTENER until STOP. SPAWN runs what takes longer.
    pub async fn serve<F>(self: Arc<Self>, listener: TcpListener, stop: CancellationToken, spawn: F)
    where
        F: Fn(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>),
    {
        let seats = Seats::new(MOST_CONNECTIONS);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    // While all are in the middle of an answer, a new one is turned away at once.
                    if let Some(seat) = seats.take(stop.child_token()) {
                        spawn(Box::pin(Arc::clone(&self).serve_one(stream, seat)));
                    }
                }
                Err(error) => {
                    tracing::warn!("a client could not connect: {error}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
        for (_, session) in held(&self.sessions).drain() {
            session.connection.gone.cancel();
        }
    }

    async fn serve_one(self: Arc<Self>, stream: TcpStream, seat: Seat) {
        let service = service_fn(|request| {
            let (service, seat) = (&self, &seat);
            async move {
                // A request that comes just as its seat is given away isn't begun.
                let Some(_answering) = seat.answering() else {
                    return std::future::pending().await;
                };
                Ok::<_, Infallible>(service.answer(request).await)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            // A connection that broke has nobody to tell.
            _ = connection => {}
            () = seat.over.cancelled() => {}
        }
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        if let Err(status) = admissible(request.uri(), request.headers(), self.port, &self.token) {
            return refusal(status);
        }
        if request.uri().path() != PATH {
            return plain(StatusCode::NOT_FOUND, "There is only /mcp.");
        }
        match *request.method() {
            Method::POST => self.post(request).await,
            Method::DELETE => self.end(request.headers()),
            _ => plain(StatusCode::METHOD_NOT_ALLOWED, "POST a message."),
        }
    }

    async fn post(&self, request: Request<Body>) -> Answer {
        let headers = request.headers().clone();
        if !is_json(&headers) {
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send application/json.");
        }
        let body = match whole(request.into_body()).await {
            Ok(body) => body,
            Err((status, why)) => return plain(status, why),
        };
        let message = match parse(&body) {
            Ok(Parsed::One(message)) => message,
            Ok(Parsed::Batch(_)) => {
                return plain(StatusCode::BAD_REQUEST, "Send one message at a time.");
            }
            Err(refusal) => return json_answer(StatusCode::BAD_REQUEST, &refusal),
        };
        let initialize =
            matches!(&message, Incoming::Request(request) if request.method == "initialize");
        // What the same program asks belongs together, as its calls may go on meanwhile.
        let stateless = match &message {
            Incoming::Request(request) => match http_style(&headers, request) {
                Ok(HttpStyle::Session) => None,
                Ok(HttpStyle::Stateless) => {
                    let name = client_name(&request.params).unwrap_or_default();
                    Some(format!("without a session: {name}"))
                }
                Err(error) => {
                    return json_answer(StatusCode::BAD_REQUEST, &reply(&request.id, Err(error)));
                }
            },
            _ => None,
        };
        let (key, connection) = match (&stateless, text(&headers, SESSION)) {
            (Some(key), _) => match self.session(key) {
                Some(connection) => (key.clone(), connection),
                None => self.begin(key.clone()),
            },
            (None, "") if initialize => self.begin(Token::random_key()),
            (None, "") => {
                let error =
                    RpcError::invalid_request("Send initialize first, and its session's id.");
                return json_answer(StatusCode::BAD_REQUEST, &reply(&Value::Null, Err(error)));
            }
            (None, key) => match self.session(key) {
                Some(connection) => (key.to_owned(), connection),
                None => return plain(StatusCode::NOT_FOUND, "There is no such session."),
            },
        };
        let mut answer = match message {
            Incoming::Request(request) => {
                let cancel = connection.gone.child_token();
                // What stands by itself is over when its client is gone; else a client says so.
                let _guard = stateless.as_ref().map(|_| cancel.clone().drop_guard());
                let answer = match request.method.as_str() {
                    // That wants a stream, which there is none.
                    "subscriptions/listen" => {
                        let error = RpcError::method_not_found(&request.method);
                        reply(&request.id, Err(error))
                    }
                    _ => connection.respond(request, cancel).await,
                };
                let error = answer["error"]["code"]
                    .as_i64()
                    .filter(|_| stateless.is_some());
                json_answer(error.map_or(StatusCode::OK, status_of), &answer)
            }
            other => {
                connection.take_incoming(other).await;
                Response::builder()
                    .status(StatusCode::ACCEPTED)
                    .body(Full::default())
                    .unwrap_or_default()
            }
        };
        if initialize && let Ok(key) = HeaderValue::from_str(&key) {
            answer.headers_mut().insert(SESSION, key);
        }
        answer
    }

    /// Begins a session that is known as KEY.
    fn begin(&self, key: String) -> (String, Arc<ClientConnection>) {
        let (out, mut messages) = mpsc::channel(WAITING);
        let gone = CancellationToken::new();
        let connection = (self.admit)(out, gone.clone());
        // What is said unasked has no way to a client that only posts.
        crate::runtime::spawn(async move {
            tokio::select! {
                () = async { while messages.recv().await.is_some() {} } => {}
                () = gone.cancelled() => {}
            }
        });
        let mut sessions = held(&self.sessions);
        if sessions.len() >= MOST_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(old) = oldest.map(|(key, _)| key.clone())
                && let Some(session) = sessions.remove(&old)
            {
                session.connection.gone.cancel();
            }
        }
        let session = HttpSession {
            connection: Arc::clone(&connection),
            used: Instant::now(),
        };
        sessions.insert(key.clone(), session);
        (key, connection)
    }

    fn session(&self, key: &str) -> Option<Arc<ClientConnection>> {
        let mut sessions = held(&self.sessions);
        let session = sessions.get_mut(key)?;
        session.used = Instant::now();
        Some(Arc::clone(&session.connection))
    }

    fn forget(&self, key: &str) {
        if let Some(session) = held(&self.sessions).remove(key) {
            session.connection.gone.cancel();
        }
    }

    fn end(&self, headers: &HeaderMap) -> Answer {
        self.forget(text(headers, SESSION));
        plain(StatusCode::OK, "")
    }
}

/// All of BODY, which has a longest size and time; else how it is refused.
async fn whole<B>(body: B) -> Result<Bytes, (StatusCode, &'static str)>
where
    B: hyper::body::Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static>,
{
    let body = Limited::new(body, LONGEST).collect();
    match tokio::time::timeout(BODY_TIME, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, "The message is too long."))
        }
        Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "The message was cut off.")),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "The message took too long.")),
    }
}

/// The value of the header NAME, if there is just one.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = only(headers, CONTENT_TYPE).and_then(|it| it.split(';').next());
    kind.is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether a request for TARGET with HEADERS comes from a program of this machine that knows TOKEN, and not from a
/// web page, or led here under another name than this machine's; else how it is refused.
fn admissible(
    target: &Uri,
    headers: &HeaderMap,
    port: u16,
    token: &Token,
) -> Result<(), StatusCode> {
    let names = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
    let ours = |host: &str| names.iter().any(|it| it.eq_ignore_ascii_case(host));
    // A target may name a host, too, which counts for those in between.
    let target = target.authority().is_none_or(|it| ours(it.as_str()));
    let meant = target && only(headers, HOST).is_some_and(ours);
    // Programs send no origin; a page of this very server's does not exist.
    if !meant || headers.contains_key(ORIGIN) {
        return Err(StatusCode::FORBIDDEN);
    }
    match token.is_in(only(headers, AUTHORIZATION)) {
        true => Ok(()),
        false => Err(StatusCode::UNAUTHORIZED),
    }
}

fn refusal(status: StatusCode) -> Answer {
    if status == StatusCode::UNAUTHORIZED {
        let mut refusal = plain(status, "The token is missing or wrong.");
        let scheme = HeaderValue::from_static("Bearer");
        refusal.headers_mut().insert("www-authenticate", scheme);
        return refusal;
    }
    plain(
        status,
        "Only programs of this machine are served, under its own name.",
    )
}

fn plain(status: StatusCode, why: &str) -> Answer {
    json_answer(status, &json!({"error": why}))
}

fn json_answer(status: StatusCode, body: &Value) -> Answer {
    Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_this_machine_that_know_the_token_are_served() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("token");
        let token = Token::in_file(&file).unwrap();
        let known = format!("Bearer {}", std::fs::read_to_string(&file).unwrap());
        let status_at = |target: &str, headers: &[(&'static str, &str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| -> (HeaderName, HeaderValue) {
                    (name.parse().unwrap(), value.parse().unwrap())
                })
                .fold(HeaderMap::new(), |mut headers, (name, value)| {
                    headers.append(name, value);
                    headers
                });
            admissible(&target.parse().unwrap(), &headers, 7000, &token)
                .err()
                .map(|it| it.as_u16())
        };
        let status = |headers: &[(&'static str, &str)]| status_at("/mcp", headers);
        let (host, token) = (("host", "localhost:7000"), ("authorization", &*known));
        assert_eq!(status(&[host, token]), None);
        for host in ["127.0.0.1:7000", "LocalHost:7000", "[::1]:7000"] {
            assert_eq!(status(&[("host", host), token]), None, "{host}");
        }
        assert_eq!(status(&[host]), Some(401));
        assert_eq!(
            status(&[host, ("authorization", "Bearer guess")]),
            Some(401)
        );
        for host in [
            "evil.example",
            "localhost",
            "localhost:7001",
            "127.0.0.1.evil.example:7000",
            "localhost.:7000",
            "[::ffff:127.0.0.1]:7000",
            "localhost:7000@evil.example",
            "evil@localhost:7000",
            "localhost:7000, evil.example",
            "localhost:07000",
            "",
        ] {
            assert_eq!(status(&[("host", host), token]), Some(403), "{host}");
        }
        assert_eq!(status(&[token]), Some(403));
        // Of two, those in between may believe the other one.
        let (other, guess) = (("host", "evil.example"), ("authorization", "Bearer guess"));
        assert_eq!(status(&[host, other, token]), Some(403));
        assert_eq!(status(&[host, token, guess]), Some(401));
        assert_eq!(status_at("http://localhost:7000/mcp", &[host, token]), None);
        assert_eq!(
            status_at("http://evil.example:7000/mcp", &[host, token]),
            Some(403)
        );
        for origin in ["https://evil.example", "http://localhost:7000", "null"] {
            assert_eq!(
                status(&[host, token, ("origin", origin)]),
                Some(403),
                "{origin}"
            );
        }
    }

    /// A body that never goes on.
    struct Stuck;

    impl hyper::body::Body for Stuck {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
            std::task::Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_longest_size_and_time() {
        let status = |refused: Result<Bytes, (StatusCode, _)>| refused.unwrap_err().0.as_u16();
        assert_eq!(whole(Full::from("{}")).await.unwrap(), "{}");
        assert_eq!(status(whole(Stuck).await), 408);
        assert_eq!(status(whole(Full::from(vec![0; LONGEST + 1])).await), 413);
    }

    #[test]
    fn a_message_says_that_it_is_json() {
        let json = |kinds: &[&str]| {
            let mut headers = HeaderMap::new();
            for kind in kinds {
                headers.append(CONTENT_TYPE, kind.parse().unwrap());
            }
            is_json(&headers)
        };
        for kind in ["application/json", "Application/JSON ; charset=utf-8"] {
            assert!(json(&[kind]), "{kind}");
        }
        for kind in [
            "",
            "text/plain",
            "application/jsonp",
            "text/plain; application/json",
        ] {
            assert!(!json(&[kind]), "{kind}");
        }
        assert!(!json(&[]));
        assert!(!json(&["application/json", "text/plain"]));
    }
}
