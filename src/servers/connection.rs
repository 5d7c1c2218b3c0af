// SPDX-License-Identifier: GPL-3.0-or-later
//! The connection with a server that runs, by the official crate: the first words, its lists, calls with
//! their progress and cancellation.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::ClientHandler;
use rmcp::model::{
    ArgumentInfo, CallToolRequest, CallToolRequestParams, CancelledNotification,
    CancelledNotificationParam, ClientConfig, ClientRequest, CompleteRequestParams,
    CompletionContext, ElicitRequestParams, ElicitResult, ElicitationAction, ErrorCode, ErrorData,
    GetPromptRequestParams, GetPromptResult, Implementation, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, Prompt, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResult, Reference, RequestId, Resource, ResourceTemplate, ServerCapabilities,
    ServerResult, Tool as OfferedTool,
};
#[expect(deprecated, reason = "servers of older versions log and ask so")]
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ListRootsResult,
    LoggingMessageNotificationParam,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, PeerRequestOptions, RequestContext,
    RoleClient, ServiceError, serve_client_with_ct,
};
use rmcp::transport::IntoTransport;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::content;
use super::output::{LONGEST_MESSAGE, Limited, ServerLog};
use super::process::{self, ServerPipes, ServerProcess};
use super::settings::{ServerCommand, ServerPlace, ServerSettings};
use crate::log::Causes;
use crate::provider::http::http_for;
use crate::runtime::{self, held};
use crate::tool::ToolFailure;
use crate::tool::work::WorkContext;
use crate::trust::one_line;

/// How long a server may take for a page of a list.
const LISTING: Duration = Duration::from_secs(30);

/// The most pages of a list that are read, and the most tools.
const MOST_PAGES: usize = 50;
pub(super) const MOST_TOOLS: usize = 500;

/// How long what a server that failed has still to say is waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long a call may take, however often the server says that it goes on.
const LONGEST_CALL: Duration = Duration::from_secs(60 * 60);

/// How much of what a server says of its progress is shown.
const LONGEST_PROGRESS: usize = 120;

/// The messages through the pipes of a process.
type Messages = AsyncRwTransport<RoleClient, Limited<pipe::Receiver>, pipe::Sender>;

/// A page of a list, and where the next one begins.
type Paged<T> = BoxFuture<'static, Result<(Vec<T>, Option<String>), ServiceError>>;

/// A server that runs.
pub(super) struct ServerConnection {
    peer: Peer<RoleClient>,
    heard: Arc<Heard>,
    /// Ends it.
    pub(super) ending: CancellationToken,
    pub(super) process: Option<Arc<ServerProcess>>,
    /// What the server is, as it says.
    pub(super) says: String,
}

/// What a server says by itself.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// How far the calls are that run, by their tokens.
    progress: Mutex<HashMap<ProgressToken, String>>,
    /// Its tools, prompts or resources are others now.
    pub(super) changed: Notify,
    /// Why it was cut off, if it was.
    trouble: Mutex<Option<String>>,
}

impl Heard {
    /// Why the connection was cut off, if it was.
    pub(super) fn trouble(&self) -> Option<String> {
        held(&self.trouble).clone()
    }
}

struct Listener {
    heard: Arc<Heard>,
    log: Arc<ServerLog>,
}

impl Listener {
    /// The refusal of WHAT the server asked for, noted for the user.
    fn refused(&self, what: &str) -> ErrorData {
        self.log.note(&format!("refused {what}"));
        ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("agent-q has no {what}"),
            None,
        )
    }
}

impl ClientHandler for Listener {
    async fn on_progress(
        &self,
        said: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // Only of calls that run: others would pile up.
        if let Some(told) = held(&self.heard.progress).get_mut(&said.progress_token) {
            *told = progress(&said);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.heard.changed.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.heard.changed.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.heard.changed.notify_one();
    }

    // What a server may not ask of a client that did not say that it can.

    #[expect(deprecated, reason = "servers of older versions ask so")]
    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(self.refused("sampling: the user's model is for the user alone"))
    }

    #[expect(deprecated, reason = "servers of older versions ask so")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(self.refused("roots: the server is told of folders by its settings"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        // It may go on without an answer, where an error would end the call.
        let _ = self.refused("elicitation: the user is not asked");
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    #[expect(deprecated, reason = "servers of older versions log so")]
    async fn on_logging_message(
        &self,
        said: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // What a flood leaves behind would hide what is said of it.
        if self.heard.trouble().is_some() {
            return;
        }
        let text = match &said.data {
            Value::String(text) => text.clone(),
            data => data.to_string(),
        };
        self.log.add(&format!("{}\n", one_line(&text, 2000)));
    }

    fn get_info(&self) -> ClientConfig {
        let mut client = ClientConfig::default();
        client.client_info = Implementation::new("agent-q", env!("CARGO_PKG_VERSION"));
        // The latest that begins with these words; later ones have no `initialize`.
        client.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        client
    }
}

/// What SAID means, in a few words.
fn progress(said: &ProgressNotificationParam) -> String {
    let far = match said.total {
        Some(total) => format!("{} of {total}", said.progress),
        None => said.progress.to_string(),
    };
    match said.message.as_deref().filter(|it| !it.trim().is_empty()) {
        Some(message) => one_line(message, LONGEST_PROGRESS),
        None => far,
    }
}

/// Starts or reaches the server of SETTINGS. The future that is given ends with the connection.
///
/// # Errors
///
/// A sentence for the user.
pub(super) async fn connect(
    settings: &ServerSettings,
    log: &Arc<ServerLog>,
) -> Result<(ServerConnection, Arc<Heard>, BoxFuture<'static, ()>), String> {
    match &settings.reached {
        ServerPlace::Command(command) => {
            let (process, pipes) = started(command).await?;
            let heard = Arc::<Heard>::default();
            let (transport, errors) = transport(pipes, &heard, log)
                .map_err(|error| format!("its pipes can't be used: {error}"))?;
            let met = meet(transport, settings.timeout(), heard, log, Some(process)).await;
            if met.is_err() {
                // What it wrote last says why, and may still be on its way.
                let _ = tokio::time::timeout(LAST_WORDS, errors).await;
            }
            met
        }
        ServerPlace::Address {
            url,
            headers,
            route,
        } => {
            let (reached, by) = (url.clone(), route.clone());
            let client = tokio::task::spawn_blocking(move || http_for(&reached, &by)).await;
            let client = client.unwrap_or_else(|_| Err("agent-q is shutting down".to_owned()))?;
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                .custom_headers(header_map(headers)?);
            config.max_sse_event_size = LONGEST_MESSAGE;
            config.max_json_response_size = LONGEST_MESSAGE;
            let transport = StreamableHttpClientTransport::with_client(client, config);
            let heard = Arc::<Heard>::default();
            meet(transport, settings.timeout(), heard, log, None).await
        }
    }
}

/// HEADERS as they are sent.
fn header_map(
    headers: &BTreeMap<String, String>,
) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): (&String, &String)| {
        let wrong = || format!("its header {} can't be sent", one_line(name, 100));
        let name: HeaderName = name.parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    headers.iter().map(header).collect()
}

async fn started(command: &ServerCommand) -> Result<(Arc<ServerProcess>, ServerPipes), String> {
    let what = command.command.first().cloned().unwrap_or_default();
    let command = command.clone();
    let spawned = tokio::task::spawn_blocking(move || process::spawn(&command)).await;
    match spawned {
        Ok(Ok((process, pipes))) => Ok((Arc::new(process), pipes)),
        Ok(Err(error)) => Err(format!("{what} can't be started: {error}")),
        Err(_) => Err("agent-q is shutting down".to_owned()),
    }
}

/// The messages through PIPES; what comes through the one for errors goes into LOG, until the task ends.
fn transport(
    pipes: ServerPipes,
    heard: &Arc<Heard>,
    log: &Arc<ServerLog>,
) -> io::Result<(Messages, JoinHandle<()>)> {
    let output = pipe::Receiver::from_owned_fd(pipes.output)?;
    let input = pipe::Sender::from_owned_fd(pipes.input)?;
    let errors = follow(pipes.errors, Arc::clone(log))?;
    let heard = Arc::clone(heard);
    let output = Limited::new(output, move |trouble| {
        held(&heard.trouble).get_or_insert_with(|| trouble.to_owned());
    });
    let messages = AsyncRwTransport::new(output, input).with_max_line_length(2 * LONGEST_MESSAGE);
    Ok((messages, errors))
}

/// Adds what comes through ERRORS to LOG, until its end.
fn follow(errors: OwnedFd, log: Arc<ServerLog>) -> io::Result<JoinHandle<()>> {
    let mut errors = pipe::Receiver::from_owned_fd(errors)?;
    Ok(tokio::spawn(async move {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = errors.read(&mut buffer).await {
            log.add(&String::from_utf8_lossy(&buffer[..read]));
        }
    }))
}

/// The first words with a server.
async fn meet<T, E, A>(
    transport: T,
    patience: Duration,
    heard: Arc<Heard>,
    log: &Arc<ServerLog>,
    process: Option<Arc<ServerProcess>>,
) -> Result<(ServerConnection, Arc<Heard>, BoxFuture<'static, ()>), String>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let listener = Listener {
        heard: Arc::clone(&heard),
        log: Arc::clone(log),
    };
    let ending = CancellationToken::new();
    let met = serve_client_with_ct(listener, transport, ending.clone());
    let running = match tokio::time::timeout(patience, met).await {
        Ok(Ok(running)) => running,
        Ok(Err(error)) => return Err(heard.trouble().unwrap_or_else(|| unmet(&error))),
        Err(_) => {
            return Err(format!(
                "it said nothing for {} seconds",
                patience.as_secs()
            ));
        }
    };
    let peer = running.peer().clone();
    let says = peer.peer_info().map_or_else(String::new, |info| {
        serde_json::to_value(&*info).map_or_else(|_| String::new(), |info| said_name(&info))
    });
    let connection = ServerConnection {
        peer,
        heard: Arc::clone(&heard),
        ending,
        process,
        says,
    };
    let end = async move {
        let _ = running.waiting().await;
    };
    Ok((connection, heard, Box::pin(end)))
}

/// The name and version in INFO.
fn said_name(info: &Value) -> String {
    let server = &info["serverInfo"];
    let part = |name: &str| server[name].as_str().unwrap_or_default();
    one_line(format!("{} {}", part("name"), part("version")).trim(), 100)
}

/// Why no words were exchanged.
fn unmet(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "it ended at once".to_owned(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refuses: {}", one_line(&error.message, 300))
        }
        error if error.is_authorization_required() => {
            "it wants to know who you are; :headers can say so".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } if error.error.is::<io::Error>() => {
            "it ended at once".to_owned()
        }
        ClientInitializeError::TransportError { error, .. } => {
            let cause = error
                .error
                .downcast_ref::<StreamableHttpError<reqwest::Error>>();
            let told = match cause {
                Some(StreamableHttpError::Client(error)) => Causes(error).to_string(),
                _ => Causes(&*error.error).to_string(),
            };
            format!("it can't be reached: {}", one_line(&told, 300))
        }
        error => format!(
            "it does not speak MCP: {}",
            one_line(&Causes(error).to_string(), 300)
        ),
    }
}

impl ServerConnection {
    /// Whether it can still be used.
    pub(super) fn is_open(&self) -> bool {
        !self.ending.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// Why it can't.
    pub(super) fn why_ended(&self) -> String {
        self.heard
            .trouble()
            .unwrap_or_else(|| "it ended".to_owned())
    }

    /// The tools that the server offers; at most [`MOST_TOOLS`] and one.
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub(super) async fn tools(&self) -> Result<Vec<OfferedTool>, String> {
        if !self.can(|it| it.tools.is_some()) {
            return Ok(Vec::new());
        }
        self.listed("list its tools", MOST_TOOLS + 1, |peer, page| {
            Box::pin(async move {
                let page = peer.list_tools(Some(page)).await?;
                Ok((page.tools, page.next_cursor))
            })
        })
        .await
    }

    /// Whether the server says that it CAN do something.
    fn can(&self, can: impl Fn(&ServerCapabilities) -> bool) -> bool {
        let info = self.peer.peer_info();
        info.is_none_or(|info| can(&info.capabilities))
    }

    /// At most MOST elements of a list whose pages ASK gets, which is to DO something.
    async fn listed<T>(
        &self,
        what: &str,
        most: usize,
        ask: impl Fn(Peer<RoleClient>, PaginatedRequestParams) -> Paged<T> + Send + Sync,
    ) -> Result<Vec<T>, String> {
        let mut all = Vec::new();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor);
            let (page, next) = self
                .within(LISTING, what, ask(self.peer.clone(), page))
                .await?;
            all.extend(page);
            cursor = next.filter(|it| !it.is_empty());
            if cursor.is_none() || all.len() >= most {
                break;
            }
        }
        all.truncate(most);
        Ok(all)
    }

    /// What comes of ASKED, which is to DO something, within PATIENCE.
    async fn within<T>(
        &self,
        patience: Duration,
        what: &str,
        asked: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, String> {
        let timeout = ServiceError::Timeout { timeout: patience };
        let answered = tokio::time::timeout(patience, asked).await;
        answered
            .unwrap_or(Err(timeout))
            .map_err(|error| self.failure(what, &error))
    }

    /// What the server returns for a call of its TOOL with ARGUMENTS. PATIENCE is how long it may go without
    /// a sign of life.
    ///
    /// # Errors
    ///
    /// The server's words on its failure, or ours on what went wrong.
    pub(super) async fn call(
        &self,
        tool: String,
        arguments: Map<String, Value>,
        patience: Duration,
        context: &WorkContext,
    ) -> Result<String, ToolFailure> {
        let parameters = CallToolRequestParams::new(tool).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(parameters));
        let options = PeerRequestOptions::with_timeout(patience)
            .reset_timeout_on_progress()
            .with_max_total_timeout(LONGEST_CALL);
        let failed = |error: &ServiceError| ToolFailure::quoting(self.failure("do that", error));
        let sent = self.peer.send_cancellable_request(request, options);
        let handle = sent.await.map_err(|error| failed(&error))?;
        let pending = PendingCall {
            peer: self.peer.clone(),
            heard: Arc::clone(&self.heard),
            token: handle.progress_token.clone(),
            id: Some(handle.id.clone()),
        };
        held(&self.heard.progress).insert(pending.token.clone(), String::new());
        let progress = || {
            let table = held(&self.heard.progress);
            table.get(&pending.token).cloned().unwrap_or_default()
        };
        let result = context.telling(handle.await_response(), progress).await;
        pending.settle();
        match result {
            Ok(ServerResult::CallToolResult(result)) => content::text(result),
            Ok(ServerResult::EmptyResult(_)) => Ok("(The server returned nothing.)".to_owned()),
            Ok(ServerResult::InputRequiredResult(_)) => Err(ToolFailure::new(
                "The server wants to ask the user something first, which agent-q doesn't pass on.",
            )),
            Ok(_) => Err(ToolFailure::new(
                "The server sent something that is not a result.",
            )),
            Err(error) => Err(failed(&error)),
        }
    }

    /// A sentence on ERROR, met as the server was to DO something. One that isn't there any more is reached again
    /// when it is next needed.
    fn failure(&self, what: &str, error: &ServiceError) -> String {
        if matches!(error, ServiceError::TransportSend(_)) {
            self.ending.cancel();
        }
        match error {
            ServiceError::McpError(error) => one_line(&error.message, 2000),
            ServiceError::Timeout { timeout } => {
                format!(
                    "The server did not {what} within {} seconds.",
                    timeout.as_secs()
                )
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                match self.heard.trouble() {
                    Some(trouble) => format!("The server was stopped: {trouble}."),
                    None => "The server ended during the call.".to_owned(),
                }
            }
            error => format!(
                "The server did not {what}: {}.",
                one_line(&error.to_string(), 300)
            ),
        }
    }
}

// What it has for the user.

impl ServerConnection {
    /// At most MOST of the prompts that it offers.
    ///
    /// # Errors
    ///
    /// A sentence for the user, as below.
    pub(super) async fn prompts(&self, most: usize) -> Result<Vec<Prompt>, String> {
        if !self.can(|it| it.prompts.is_some()) {
            return Ok(Vec::new());
        }
        self.listed("list its prompts", most, |peer, page| {
            Box::pin(async move {
                let page = peer.list_prompts(Some(page)).await?;
                Ok((page.prompts, page.next_cursor))
            })
        })
        .await
    }

    /// At most MOST of its resources.
    ///
    /// # Errors
    ///
    /// As above.
    pub(super) async fn resources(&self, most: usize) -> Result<Vec<Resource>, String> {
        if !self.can(|it| it.resources.is_some()) {
            return Ok(Vec::new());
        }
        self.listed("list its resources", most, |peer, page| {
            Box::pin(async move {
                let page = peer.list_resources(Some(page)).await?;
                Ok((page.resources, page.next_cursor))
            })
        })
        .await
    }

    /// At most MOST templates of the addresses of resources; none where the server knows no templates.
    ///
    /// # Errors
    ///
    /// As above.
    pub(super) async fn templates(&self, most: usize) -> Result<Vec<ResourceTemplate>, String> {
        if !self.can(|it| it.resources.is_some()) {
            return Ok(Vec::new());
        }
        self.listed("list its templates", most, |peer, page| {
            Box::pin(async move {
                match peer.list_resource_templates(Some(page)).await {
                    Ok(page) => Ok((page.resource_templates, page.next_cursor)),
                    Err(ServiceError::McpError(_)) => Ok((Vec::new(), None)),
                    Err(error) => Err(error),
                }
            })
        })
        .await
    }

    /// What the prompt that is ASKED for says.
    ///
    /// # Errors
    ///
    /// As above.
    pub(super) async fn prompt(
        &self,
        asked: GetPromptRequestParams,
        patience: Duration,
    ) -> Result<GetPromptResult, String> {
        self.within(patience, "send the prompt", self.peer.get_prompt(asked))
            .await
    }

    /// What is in the resource that is ASKED for.
    ///
    /// # Errors
    ///
    /// As above.
    pub(super) async fn resource(
        &self,
        asked: ReadResourceRequestParams,
        patience: Duration,
    ) -> Result<ReadResourceResult, String> {
        self.within(
            patience,
            "send the resource",
            self.peer.read_resource(asked),
        )
        .await
    }

    /// Whether it completes arguments.
    pub(super) fn completes(&self) -> bool {
        self.can(|it| it.completions.is_some())
    }

    /// What the value of ARGUMENT of a prompt or a template can be, of which VALUE was typed, where the OTHERS
    /// are known.
    ///
    /// # Errors
    ///
    /// As above.
    pub(super) async fn completions(
        &self,
        of: Reference,
        argument: ArgumentInfo,
        others: HashMap<String, String>,
    ) -> Result<Vec<String>, String> {
        if !self.completes() {
            return Ok(Vec::new());
        }
        let asked = CompleteRequestParams::new(of, argument)
            .with_context(CompletionContext::with_arguments(others));
        let completed = self.within(LISTING, "complete that", self.peer.complete(asked));
        Ok(completed.await?.completion.values)
    }
}

/// A call that the server works on. When nobody waits for it any more, the server is told.
struct PendingCall {
    peer: Peer<RoleClient>,
    heard: Arc<Heard>,
    token: ProgressToken,
    id: Option<RequestId>,
}

impl PendingCall {
    fn settle(mut self) {
        self.id = None;
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        held(&self.heard.progress).remove(&self.token);
        let Some(id) = self.id.take() else {
            return;
        };
        let peer = self.peer.clone();
        let told = async move {
            let reason = Some("cancelled by the user".to_owned());
            let cancelled = CancelledNotificationParam::new(Some(id), reason);
            let _ = peer
                .send_notification(CancelledNotification::new(cancelled).into())
                .await;
        };
        // It may be dropped on Emacs's thread.
        let current = tokio::runtime::Handle::try_current().ok();
        if let Some(handle) = current.or_else(|| runtime::handle().cloned()) {
            handle.spawn(told);
        }
    }
}
