// SPDX-License-Identifier: GPL-3.0-or-later
//! Sends requests to providers and reads what comes back, with time-outs and retries. All
//! understanding is in `reply`, `refusal` and `connection_failure`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use hyper::body::Bytes;
use once_cell::sync::OnceCell;
use reqwest::dns::Resolve;
use reqwest::header::HeaderMap;
use reqwest::{Response, Url};
use serde_json::{Map, Value, json};
use tracing::Instrument as _;

use super::address::{KEY_HEADERS, chat_url, headers, public_part, settings_failure};
use super::body::{drain, in_own_pages, read_up_to};
use super::certificates::tls;
use super::connection_failure::{
    Cause, Culprit, idle_failure, looked_into, lost_connection, no_response_failure,
    proxy_wants_user, root_cause, silent_failure,
};
use super::dialect::{request_body, written_body};
use super::error_report::ErrorReport;
use super::failure::{Destination, KeyPresence, redact};
use super::recording::Recording;
use super::refusal::refusal;
use super::reply::ReplyReader;
use super::retry::{RetryPolicy, advice};
use super::route::{Route, Trust, Way};
use super::written_calls::ReadableCalls;
use super::{
    ChatRequest, Dialect, FailureKind, ModelReply, ProviderError, ProviderSettings, Script,
    StreamEvent,
};
use crate::log::Causes;
use crate::runtime::held;

/// How long the server has to accept the connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may take to begin its answer. Slow local ones read a long prompt for minutes.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a server may send nothing at all within an answer. Reasoning models are silent for minutes;
/// pings count as something.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a server may send nothing of the reply, whatever else it sends meanwhile: some send
/// signs of life while a model thinks.
const CONTENT_TIMEOUT: Duration = Duration::from_secs(1800);

/// How long to wait for what may follow the reason why a reply ended: counts, the end mark, the connection's end.
const END_TIMEOUT: Duration = Duration::from_millis(1500);

/// How long to wait for an error's body.
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);

/// The most that is read of an error's body.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HttpSettings {
    pub connect_timeout: Duration,
    pub first_byte_timeout: Duration,
    pub idle_timeout: Duration,
    pub content_timeout: Duration,
    pub retry: RetryPolicy,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connect_timeout: CONNECT_TIMEOUT,
            first_byte_timeout: FIRST_BYTE_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            content_timeout: CONTENT_TIMEOUT,
            retry: RetryPolicy::default(),
        }
    }
}

/// Requests to every provider; it keeps connections open between requests.
#[derive(Debug, Default)]
pub struct Http {
    settings: HttpSettings,
    pools: Pools,
    refused: RefusedFields,
}

/// Whether a request has what its provider signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seals {
    Sent,
    LeftOut,
}

impl Seals {
    fn of(request: &ChatRequest) -> Self {
        match request.messages.have_seals() {
            true => Self::Sent,
            false => Self::LeftOut,
        }
    }

    /// REQUEST with these seals.
    fn within(self, request: &ChatRequest) -> ChatRequest {
        let mut request = request.clone();
        if self == Self::LeftOut {
            request.messages = request.messages.without_seals();
        }
        request
    }
}

/// Whether the provider does not take back what it signed itself.
fn refuses_seals(error: &ProviderError) -> bool {
    error.kind == FailureKind::Refused(400)
        && error.report.as_ref().is_some_and(|it| it.refuses_seals())
}

/// A request ready to be sent, as often as needed.
struct PreparedRequest {
    url: Url,
    headers: HeaderMap,
    body: Bytes,
    destination: Destination,
    dialect: Dialect,
    /// The calls that the model may write as text.
    readable: ReadableCalls,
    way: Way,
    /// Where the exchange is recorded, if it is.
    recordings: Option<PathBuf>,
    /// What no recording may have.
    secrets: Vec<String>,
}

impl PreparedRequest {
    fn recording(&self) -> Option<Recording> {
        let folder = self.recordings.as_ref()?;
        let secrets = self.secrets.clone();
        Some(Recording::begin(
            folder,
            self.url.path(),
            &self.body,
            secrets,
        ))
    }
}

impl Http {
    #[must_use]
    pub fn new(settings: HttpSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Ask for a reply and read it to its end; `sink` gets what arrives as it arrives. A request
    /// that fails before anything of its answer came is sent again as the policy says. Dropping
    /// the future closes the connection; what has come until then is in `reader`.
    pub async fn stream_chat(
        &self,
        settings: &ProviderSettings,
        request: &ChatRequest,
        reader: &mut ReplyReader,
        sink: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<ModelReply, ProviderError> {
        if let Some(script) = &settings.script {
            return play(script, request, reader, sink).await;
        }
        self.stream_with_retries(settings, request, reader, sink)
            .instrument(tracing::error_span!("request", model = settings.model))
            .await
            .map_err(|error| ProviderError {
                message: without_secrets(&error.message, settings),
                ..error
            })
    }

    async fn stream_with_retries(
        &self,
        settings: &ProviderSettings,
        request: &ChatRequest,
        reader: &mut ReplyReader,
        sink: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<ModelReply, ProviderError> {
        let mut settings = self.refused.without(settings);
        let mut prepared = self.prepare(&settings, request).await?;
        let mut seals = Seals::of(request);
        let policy = &self.settings.retry;
        let mut attempt = 1;
        loop {
            // What was refused may have left a connection that has died meanwhile.
            let connection = self.pools.connection(&prepared.way, &prepared.destination);
            let error = match self.attempt(&prepared, reader, sink).await {
                Ok(reply) => {
                    self.refused.note(&settings);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            if error.kind == FailureKind::Closed && connection == Connection::MayBeKept {
                tracing::info!("a kept connection was dead; sending again on a new one");
                self.pools.forget(&prepared.way);
                continue;
            }
            if seals == Seals::Sent && refuses_seals(&error) {
                tracing::warn!("a signature was refused; sending again without any");
                seals = Seals::LeftOut;
                prepared = self.prepare(&settings, &seals.within(request)).await?;
                continue;
            }
            if let Some(field) = refused_field(&error, &settings, request) {
                tracing::warn!(field, "a field was refused; sending again without it");
                settings.leave_out(field);
                prepared = self.prepare(&settings, &seals.within(request)).await?;
                continue;
            }
            let Some(delay) = policy.delay(attempt, error.retry, jitter()) else {
                return Err(error);
            };
            tracing::info!(attempt, ?delay, "trying again");
            sink(StreamEvent::Retrying {
                attempt,
                attempts: policy.retries,
                delay,
                reason: without_secrets(&error.message, &settings),
            });
            tokio::time::sleep(delay).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        prepared: &PreparedRequest,
        reader: &mut ReplyReader,
        sink: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<ModelReply, ProviderError> {
        let patience = self.settings.first_byte_timeout;
        let destination = &prepared.destination;
        tracing::debug!(bytes = prepared.body.len(), "sending");
        let sending = self
            .connections_for(&prepared.way)?
            .post(prepared.url.clone())
            .headers(prepared.headers.clone())
            .body(prepared.body.clone())
            .send();
        let mut recording = prepared.recording();
        let response = tokio::time::timeout(patience, sending)
            .await
            .map_err(|_| no_response_failure(patience, destination))?;
        let response = match response {
            Ok(response) => response,
            Err(error) => return Err(self.send_failure(&error, prepared).await),
        };
        self.pools.note_response(&prepared.way, destination);
        if let Some(recording) = &mut recording {
            recording.head(response.status().as_u16(), response.headers());
        }
        if response.status().is_success() {
            *reader = ReplyReader::reading(prepared.dialect, prepared.readable.clone());
            let read = self.read_reply(response, destination, reader, sink, recording);
            let outcome = read.await;
            let reader = std::mem::take(reader);
            let (result, last) = match outcome {
                Ok(()) => reader.finish(),
                Err(error) => {
                    let (error, last) = reader.interrupt(error);
                    (Err(error), last)
                }
            };
            last.into_iter().for_each(sink);
            result
        } else if let (407, Some(via)) = (response.status().as_u16(), &prepared.way.via) {
            Err(proxy_wants_user(destination, via))
        } else {
            Err(self.read_refusal(response, destination, recording).await)
        }
    }

    /// Has READER read RESPONSE to its end.
    async fn read_reply(
        &self,
        mut response: Response,
        destination: &Destination,
        reader: &mut ReplyReader,
        sink: &mut (dyn FnMut(StreamEvent) + Send),
        mut recording: Option<Recording>,
    ) -> Result<(), ProviderError> {
        let HttpSettings {
            idle_timeout: idle,
            content_timeout: silence,
            ..
        } = self.settings;
        let (mut content, mut heard) = (0, Instant::now());
        let mut ended: Option<Instant> = None;
        loop {
            if reader.content_bytes() > content {
                (content, heard) = (reader.content_bytes(), Instant::now());
                ended = None;
            }
            if reader.may_be_over() {
                ended.get_or_insert_with(Instant::now);
            }
            let left = match ended {
                Some(moment) => END_TIMEOUT.saturating_sub(moment.elapsed()),
                None => silence.saturating_sub(heard.elapsed()),
            };
            if left.is_zero() {
                match ended {
                    Some(_) => break,
                    None => return Err(silent_failure(silence, destination)),
                }
            }
            match tokio::time::timeout(idle.min(left), response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    if let Some(recording) = &mut recording {
                        recording.piece(&bytes);
                    }
                    reader.push(&bytes).into_iter().for_each(&mut *sink);
                }
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    log_causes(&error);
                    if let Some(recording) = &mut recording {
                        recording.lose();
                    }
                    if ended.is_some() {
                        break;
                    }
                    return Err(lost_connection(destination));
                }
                Err(_) if ended.is_some() || left < idle => {}
                Err(_) => return Err(idle_failure(idle, destination)),
            }
            if reader.is_over() {
                drain(response).await;
                break;
            }
        }
        if let Some(recording) = &mut recording {
            recording.end();
        }
        Ok(())
    }

    async fn read_refusal(
        &self,
        response: Response,
        destination: &Destination,
        recording: Option<Recording>,
    ) -> ProviderError {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let patience = self.settings.idle_timeout.min(ERROR_TIMEOUT);
        let body = read_up_to(MAX_ERROR_BYTES, patience, response).await;
        if let Some(mut recording) = recording {
            recording.piece(&body);
        }
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let report = ErrorReport::of_body(&body, header("content-type"));
        let retry = advice(status, &report, header, SystemTime::now());
        refusal(status, report, destination, retry)
    }

    async fn send_failure(
        &self,
        error: &reqwest::Error,
        prepared: &PreparedRequest,
    ) -> ProviderError {
        let PreparedRequest { url, way, .. } = prepared;
        let (cause, culprit) = self.unsent(error, url, way).await;
        cause.failure(&prepared.destination, way.via.as_ref(), culprit)
    }

    /// Why a request to URL, by WAY, could not be sent, and who is to blame.
    pub(super) async fn unsent(
        &self,
        error: &reqwest::Error,
        url: &Url,
        way: &Way,
    ) -> (Cause, Culprit) {
        log_causes(error);
        looked_into(error, url, way, self.settings.connect_timeout).await
    }

    async fn prepare(
        &self,
        settings: &ProviderSettings,
        request: &ChatRequest,
    ) -> Result<PreparedRequest, ProviderError> {
        let url = chat_url(settings)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let headers = headers(settings, &host)?;
        let way = settings.route.way(&url)?;
        let body = written(settings, request).await?;
        Ok(PreparedRequest {
            destination: destination(settings, &url, &headers),
            url,
            way,
            headers,
            body,
            dialect: settings.dialect,
            readable: ReadableCalls::of(request),
            recordings: settings.recordings.clone(),
            secrets: secrets(settings).into_iter().map(str::to_owned).collect(),
        })
    }

    pub(super) fn connections_for(&self, way: &Way) -> Result<reqwest::Client, ProviderError> {
        self.pools.of_way(way, self.settings.connect_timeout)
    }
}

/// Whom a request to URL with HEADERS goes to.
pub(super) fn destination(
    settings: &ProviderSettings,
    url: &Url,
    headers: &HeaderMap,
) -> Destination {
    let has_key = KEY_HEADERS.iter().any(|&name| headers.contains_key(name));
    Destination {
        port: url.port_or_known_default().unwrap_or_default(),
        host: url.host_str().unwrap_or_default().to_owned(),
        base_url: public_part(&settings.base_url),
        model: settings.model.clone(),
        key: match has_key {
            true => KeyPresence::Sent,
            false => KeyPresence::Absent,
        },
    }
}

/// The body of REQUEST. A turn may go on on Emacs's thread, and writing a long conversation takes long. It
/// has a thread of its own for that: as one ends, the allocator gives back what it used, which a thread
/// that waits for more work keeps.
async fn written(
    settings: &ProviderSettings,
    request: &ChatRequest,
) -> Result<Bytes, ProviderError> {
    let (settings, request) = (settings.clone(), request.clone());
    let (done, written) = tokio::sync::oneshot::channel();
    let write = move || {
        let body = in_own_pages(&written_body(&settings, &request));
        drop((settings, request));
        // Nobody waits for it any more when the turn was cancelled.
        let _ = done.send(body);
    };
    let failed = |why: &dyn std::fmt::Display| {
        settings_failure(format!("The request can't be written: {why}."))
    };
    std::thread::Builder::new()
        .name("agent-q-request".to_owned())
        .spawn(write)
        .map_err(|error| failed(&error))?;
    match written.await {
        Ok(body) => body.map_err(|error| failed(&error)),
        Err(error) => Err(failed(&error)),
    }
}

/// Notes what caused ERROR, but not its own words, as those have the URL.
fn log_causes(error: &reqwest::Error) {
    if let Some(cause) = std::error::Error::source(error) {
        tracing::warn!("the connection failed: {}", Causes(cause));
    }
}

pub(super) fn without_secrets(message: &str, settings: &ProviderSettings) -> String {
    redact(message, &secrets(settings))
}

/// What nobody is to see of SETTINGS.
fn secrets(settings: &ProviderSettings) -> Vec<&str> {
    // Most extra headers are no secrets and short; one that carries a key is long.
    const SHORTEST_SECRET_HEADER: usize = 16;
    let key = settings.key.as_ref().map(super::Secret::reveal);
    let headers = settings.headers.iter().map(|(_, value)| value.as_str());
    key.into_iter()
        .chain(headers.filter(|value| value.len() >= SHORTEST_SECRET_HEADER))
        // As they are sent: a key may come with the end of its line.
        .map(str::trim)
        .filter(|secret| !secret.is_empty())
        .collect()
}

/// A number in 0..1; it only has to differ between Emacsen.
fn jitter() -> f64 {
    let hash = RandomState::new().hash_one("retry");
    f64::from(u16::try_from(hash % 1000).unwrap_or(0)) / 1000.0
}

// What the HTTP library sends with, one for each way to a server. Each keeps connections open between
// requests; when one of them turns out to be dead, all of its way are given up.

/// Whether a request may have gone over a connection that was kept from an earlier one. While the
/// machine slept, or the server restarted, such a connection has died without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    MayBeKept,
    New,
}

#[derive(Debug)]
struct Pool {
    client: reqwest::Client,
    /// The places from which an answer came, so that a connection to them may have been kept.
    responded: HashSet<String>,
}

/// The connections that are kept.
#[derive(Debug, Default)]
struct Pools(Mutex<HashMap<Way, Pool>>);

impl Pools {
    /// The connections for WAY; it waits CONNECT_TIMEOUT for a new connection.
    pub fn of_way(
        &self,
        way: &Way,
        connect_timeout: Duration,
    ) -> Result<reqwest::Client, ProviderError> {
        let mut pools = held(&self.0);
        if let Some(pool) = pools.get(way) {
            return Ok(pool.client.clone());
        }
        let client = made(way, connect_timeout)?;
        let responded = HashSet::new();
        pools.insert(
            way.clone(),
            Pool {
                client: client.clone(),
                responded,
            },
        );
        Ok(client)
    }

    /// An answer from PLACE came by WAY.
    pub fn note_response(&self, way: &Way, place: &Destination) {
        if let Some(pool) = held(&self.0).get_mut(way) {
            pool.responded.insert(place.place());
        }
    }

    /// Over what a request to PLACE by WAY goes.
    pub fn connection(&self, way: &Way, place: &Destination) -> Connection {
        let pools = held(&self.0);
        let pool = pools.get(way);
        match pool.is_some_and(|pool| pool.responded.contains(&place.place())) {
            true => Connection::MayBeKept,
            false => Connection::New,
        }
    }

    /// Keeps none of the connections of WAY any more: what has killed one has killed its like.
    pub fn forget(&self, way: &Way) {
        held(&self.0).remove(way);
    }
}

/// A client for URL that goes the way of ROUTE, for what is no model's server. Reads files.
///
/// # Errors
///
/// A sentence on what is wrong with the settings.
pub fn http_for(url: &str, route: &Route) -> Result<reqwest::Client, String> {
    let url = Url::parse(url).map_err(|error| format!("{error}: {}", public_part(url)))?;
    let made = route.way(&url).and_then(|way| made(&way, CONNECT_TIMEOUT));
    made.map_err(|error| error.message)
}

/// A client that goes WAY, has NAMES say where hosts are, and keeps no connection. Reads files.
///
/// # Errors
///
/// A sentence on what is wrong with the settings.
pub fn http_by(way: &Way, names: Arc<dyn Resolve>) -> Result<reqwest::Client, String> {
    let builder = builder(way, CONNECT_TIMEOUT).map_err(|error| error.message)?;
    let builder = builder.pool_max_idle_per_host(0);
    let builder = match way.via {
        // The proxy finds the hosts.
        Some(_) => builder,
        None => builder.dns_resolver(names),
    };
    builder.build().map_err(|error| cannot(error).message)
}

fn made(way: &Way, connect_timeout: Duration) -> Result<reqwest::Client, ProviderError> {
    builder(way, connect_timeout)?.build().map_err(cannot)
}

fn cannot(error: reqwest::Error) -> ProviderError {
    settings_failure(format!(
        "No HTTP client can be made: {}.",
        root_cause(&error)
    ))
}

fn builder(way: &Way, connect_timeout: Duration) -> Result<reqwest::ClientBuilder, ProviderError> {
    install_tls();
    let builder = reqwest::Client::builder()
        .connect_timeout(connect_timeout)
        // A redirect would carry the key and the conversation to a host that the user did not name.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("agent-q-module/", env!("CARGO_PKG_VERSION")))
        // As curl does: what some gateway adds to the head must not cost the answer.
        .http1_max_headers(MAX_HEADERS)
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        // The environment of this process is not asked: Emacs has one of its own.
        .no_proxy();
    let builder = match &way.trust {
        Trust::Unneeded => builder.tls_certs_only([]),
        Trust::Certificates { authorities, own } => {
            builder.tls_backend_preconfigured(tls(authorities, own.as_ref())?)
        }
    };
    Ok(match &way.via {
        Some(via) => builder.proxy(reqwest::Proxy::all(via.url.clone()).map_err(cannot)?),
        None => builder,
    })
}

/// The most headers that an answer may have.
const MAX_HEADERS: usize = 1000;

/// Choose ring as the process's TLS implementation, unless somebody has chosen one.
fn install_tls() {
    static INSTALLED: OnceCell<()> = OnceCell::new();
    INSTALLED.get_or_init(|| {
        // An error means that a provider is installed already, which is all that we need.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

// Fields of ours that a host refuses are not sent to it again. The user's own fields stay.

/// What was left out of requests that were answered then: names of fields by host and model.
#[derive(Debug, Default)]
struct RefusedFields(Mutex<HashMap<(String, String), Vec<&'static str>>>);

/// Settings whose requests leave out some fields.
#[derive(Debug)]
struct FittedSettings {
    settings: ProviderSettings,
    left_out: Vec<&'static str>,
}

impl Deref for FittedSettings {
    type Target = ProviderSettings;

    fn deref(&self) -> &ProviderSettings {
        &self.settings
    }
}

impl FittedSettings {
    pub fn leave_out(&mut self, field: &'static str) {
        if !is_users(&self.settings, field) {
            self.settings.body.insert(field.to_owned(), Value::Null);
        }
        self.left_out.push(field);
    }
}

impl RefusedFields {
    /// SETTINGS without what their host refused before.
    pub fn without(&self, settings: &ProviderSettings) -> FittedSettings {
        let mut fitted = FittedSettings {
            settings: settings.clone(),
            left_out: Vec::new(),
        };
        let fields = held(&self.0).get(&key(settings)).cloned();
        for field in fields.unwrap_or_default() {
            fitted.leave_out(field);
        }
        fitted
    }

    /// Takes in that a request with SETTINGS was answered.
    pub fn note(&self, settings: &FittedSettings) {
        if !settings.left_out.is_empty() {
            held(&self.0).insert(key(settings), settings.left_out.clone());
        }
    }
}

fn key(settings: &ProviderSettings) -> (String, String) {
    (settings.base_url.clone(), settings.model.clone())
}

fn is_users(settings: &ProviderSettings, field: &str) -> bool {
    settings.body.contains_key(field) || settings.first_body.contains_key(field)
}

/// The field of ours in REQUEST with SETTINGS that ERROR refuses, if it can be left out.
fn refused_field(
    error: &ProviderError,
    settings: &ProviderSettings,
    request: &ChatRequest,
) -> Option<&'static str> {
    let FailureKind::Refused(400 | 422) = error.kind else {
        return None;
    };
    let sent = written_body(settings, request).fields;
    let report = error.report.as_ref()?;
    report.refused_field(|field| sent.contains_key(field) && !is_users(settings, field))
}

/// Has READER read what SCRIPT says to REQUEST.
async fn play(
    script: &Script,
    request: &ChatRequest,
    reader: &mut ReplyReader,
    sink: &mut (dyn FnMut(StreamEvent) + Send),
) -> Result<ModelReply, ProviderError> {
    *reader = ReplyReader::reading(Dialect::ChatCompletions, ReadableCalls::default());
    for piece in script.reply(&request.messages).stream() {
        tokio::time::sleep(script.pace()).await;
        reader
            .push(piece.as_bytes())
            .into_iter()
            .for_each(&mut *sink);
    }
    let (reply, last) = std::mem::take(reader).finish();
    last.into_iter().for_each(sink);
    reply
}

// A request as its user may see it: the same body and address, with each header that could hold a secret
// left blank.

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
    if settings.script.is_some() {
        return Err(settings_failure(
            "This model's words are scripted; nothing is sent to it.".into(),
        ));
    }
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
    let request = ChatRequest {
        messages: request.messages.to_look_at(),
        ..request.clone()
    };
    Ok(json!({
        "url": public_part(url.as_str()),
        "headers": shown,
        "body": request_body(settings, &request),
    }))
}
