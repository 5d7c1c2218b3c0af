// SPDX-License-Identifier: GPL-3.0-or-later
//! One client's connection: its messages, each answered in its own time, and what it is told unasked.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join_all, ready};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::call::{pending, tell_progress, to_json};
use super::client::{CallOrder, McpClient, ask_emacs};
use super::prompts;
use super::protocol::{
    BATCHING, Cached, Incoming, Parsed, Request, ResponseStyle, RpcError, SUBSCRIPTION_KEY,
    client_name, discovered, dressed, negotiated, notification, parse, reply, style, turn_mark,
};
use super::tools::{self, LIST_IMAGES};
use super::transport::{Outgoing, Share};
use crate::builtin::calls::patience;
use crate::builtin::more;
use crate::engine::Engine;
use crate::protocol::{CallArguments, ToolCall};
use crate::runtime::{self, held};
use crate::tool::BACKGROUND;
use crate::tool::begun::{AWAIT, BegunCall, CANCEL, CallText, STOPPING_TIME, missing};
use crate::visible::spelled;

/// The longest name of a directory that a client works in.
const LONGEST_DIRECTORY: usize = 4096;

/// The longest name of a client that is shown.
const LONGEST_NAME: usize = 60;

/// How many messages are taken at once.
const MOST_AT_ONCE: usize = 100;

/// The id of our question for the directories that a client works in.
const ROOTS: &str = "agent-q-roots";

/// One client's connection.
pub struct ClientConnection {
    engine: Arc<Engine>,
    pub client: Arc<McpClient>,
    /// Where messages go that are no answers to what is asked just now.
    out: mpsc::Sender<Outgoing>,
    peer: Mutex<Peer>,
    /// What is being answered, by the ids as text.
    requests: Mutex<HashMap<String, CancellationToken>>,
    share: Share,
    pub gone: CancellationToken,
}

#[derive(Debug, Default)]
struct Peer {
    /// The version that its `initialize` was answered with.
    version: Option<&'static str>,
    has_roots: bool,
    /// The requests that subscribed to changes of the tools.
    subscriptions: Vec<Value>,
}

impl ClientConnection {
    #[must_use]
    pub fn new(
        engine: Arc<Engine>,
        client: Arc<McpClient>,
        out: mpsc::Sender<Outgoing>,
        gone: CancellationToken,
    ) -> Self {
        Self {
            engine,
            client,
            out,
            peer: Mutex::default(),
            requests: Mutex::default(),
            share: Share::default(),
            gone,
        }
    }

    /// Takes in LINE, a message; its answer comes in time.
    pub async fn take(self: &Arc<Self>, line: &[u8]) {
        match parse(line) {
            Err(refusal) => self.send(refusal).await,
            Ok(Parsed::One(message)) => self.take_incoming(message).await,
            Ok(Parsed::Batch(messages)) => self.take_batch(messages).await,
        }
    }

    /// Takes in MESSAGES, which are answered together once all answers are there; where the version has no
    /// such thing, each request is refused by its id.
    async fn take_batch(self: &Arc<Self>, messages: Vec<Result<Incoming, Value>>) {
        let problem = match held(&self.peer).version {
            Some(BATCHING) if messages.len() <= MOST_AT_ONCE => None,
            Some(BATCHING) => Some("Send at most 100 messages at once."),
            _ => Some("This version has no batches. Send each message on a line of its own."),
        };
        let mut answers = Vec::new();
        for message in messages {
            let request = match message {
                Ok(Incoming::Request(request)) => request,
                Ok(other) if problem.is_none() => {
                    self.take_incoming(other).await;
                    continue;
                }
                Ok(_) => continue,
                Err(refusal) => {
                    answers.push(ready(Some(refusal)).boxed());
                    continue;
                }
            };
            let alone = "initialize is sent alone.";
            let problem = problem.or((request.method == "initialize").then_some(alone));
            answers.push(match problem {
                Some(problem) => {
                    let error = Err(RpcError::invalid_request(problem));
                    ready(Some(reply(&request.id, error))).boxed()
                }
                None => Arc::clone(self).respond_unless_cancelled(request).boxed(),
            });
        }
        if problem.is_some() {
            let refusals: Vec<Value> = answers
                .into_iter()
                .filter_map(FutureExt::now_or_never)
                .flatten()
                .collect();
            for refusal in refusals {
                self.send(refusal).await;
            }
            return;
        }
        let connection = Arc::clone(self);
        self.engine.spawn(async move {
            let answers: Vec<Value> = join_all(answers).await.into_iter().flatten().collect();
            if !answers.is_empty() {
                connection.send(answers.into()).await;
            }
        });
    }

    /// The answer to REQUEST; none when that was cancelled.
    async fn respond_unless_cancelled(self: Arc<Self>, request: Request) -> Option<Value> {
        let cancel = self.gone.child_token();
        let answer = self.respond(request, cancel.clone()).await;
        (!cancel.is_cancelled()).then_some(answer)
    }

    /// Takes in MESSAGE; its answer comes in time.
    pub async fn take_incoming(self: &Arc<Self>, message: Incoming) {
        match message {
            Incoming::Request(request) => self.begin(request).await,
            Incoming::Notification { method, params } => self.noted(&method, &params).await,
            Incoming::Response { id, result } if id == ROOTS => self.take_roots(result),
            Incoming::Response { .. } => {}
        }
    }

    /// The answer to REQUEST, which goes on until CANCEL even if nobody waits for it any more.
    pub async fn respond(self: &Arc<Self>, request: Request, cancel: CancellationToken) -> Value {
        let id = request.id.clone();
        if request.method == "initialize" {
            return reply(&id, Ok(self.initialize(&request.params)));
        }
        let dropped = RpcError::invalid_request("The request was dropped.");
        let Some(room) = self.share.take(request.length, &self.gone).await else {
            return reply(&id, Err(dropped));
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let connection = Arc::clone(self);
        let key = match self.register(&id, &cancel) {
            Ok(key) => key,
            Err(error) => return reply(&id, Err(error)),
        };
        self.engine.spawn(async move {
            let out = connection.out.clone();
            let answer = connection.handle(&request, &cancel, &out).await;
            held(&connection.requests).remove(&key);
            // Whoever asked may be gone.
            let _ = sender.send(answer);
            drop(room);
        });
        reply(&id, receiver.await.unwrap_or(Err(dropped)))
    }

    /// Sends MESSAGE, unless the client is gone.
    pub async fn send(&self, message: Value) {
        self.pass(Outgoing::new(&message)).await;
    }

    async fn pass(&self, message: Outgoing) {
        tokio::select! {
            _ = self.out.send(message) => {}
            () = self.gone.cancelled() => {}
        }
    }

    async fn begin(self: &Arc<Self>, request: Request) {
        if request.method == "initialize" {
            // At once, as what comes next relies on it.
            let result = self.initialize(&request.params);
            return self.send(reply(&request.id, Ok(result))).await;
        }
        let Some(room) = self.share.take(request.length, &self.gone).await else {
            return;
        };
        let cancel = self.gone.child_token();
        let key = match self.register(&request.id, &cancel) {
            Ok(key) => key,
            Err(error) => return self.send(reply(&request.id, Err(error))).await,
        };
        let (connection, out) = (Arc::downgrade(self), self.out.clone());
        let mut answering = Box::pin(self.engine.guarded(async move {
            let Some(connection) = Weak::upgrade(&connection) else {
                return;
            };
            let answer = connection.handle(&request, &cancel, &out).await;
            held(&connection.requests).remove(&key);
            // Nobody waits for the answer to what was cancelled.
            if !cancel.is_cancelled() {
                let answer = Outgoing::keeping(room, &reply(&request.id, answer));
                connection.pass(answer).await;
            }
        }));
        // It begins here: calls that come at once are to be made in the order in which they came.
        if (&mut answering).now_or_never().is_none() {
            runtime::spawn(answering);
        }
    }

    /// Notes that the request ID is being answered until CANCEL, and gives its key.
    fn register(&self, id: &Value, cancel: &CancellationToken) -> Result<String, RpcError> {
        let key = id.to_string();
        let mut requests = held(&self.requests);
        if requests.contains_key(&key) {
            let problem = "A request with this id is under way already.";
            return Err(RpcError::invalid_request(problem));
        }
        requests.insert(key.clone(), cancel.clone());
        Ok(key)
    }

    async fn noted(&self, method: &str, params: &Map<String, Value>) {
        match method {
            "notifications/cancelled" => {
                let id = params.get("requestId").map(Value::to_string);
                if let Some(cancel) = id.and_then(|id| held(&self.requests).get(&id).cloned()) {
                    cancel.cancel();
                }
            }
            "notifications/initialized" | "notifications/roots/list_changed"
                if held(&self.peer).has_roots =>
            {
                let question = json!({"jsonrpc": "2.0", "id": ROOTS, "method": "roots/list"});
                self.send(question).await;
            }
            // From our own bridge, before anything else.
            "agent-q/hello" => {
                let directory = params.get("directory").and_then(Value::as_str);
                let directory = directory.filter(|it| it.len() <= LONGEST_DIRECTORY);
                self.client
                    .introduce(|who| who.directory = directory.map(str::to_owned));
            }
            _ => {}
        }
    }

    fn take_roots(&self, result: Option<Value>) {
        let uri = result.and_then(|it| Some(it["roots"][0]["uri"].as_str()?.to_owned()));
        let uri = uri.filter(|it| it.len() <= LONGEST_DIRECTORY);
        let path = uri.and_then(|uri| Url::parse(&uri).ok()?.to_file_path().ok());
        if let Some(path) = path.filter(|path: &PathBuf| path.is_absolute()) {
            let directory = path.to_string_lossy().into_owned();
            self.client.introduce(|who| who.directory = Some(directory));
        }
    }

    /// The result of REQUEST, or why there is none. OUT takes what is told meanwhile.
    ///
    /// # Errors
    ///
    /// When the request can't be answered.
    pub async fn handle(
        &self,
        request: &Request,
        cancel: &CancellationToken,
        out: &mpsc::Sender<Outgoing>,
    ) -> Result<Value, RpcError> {
        let params = &request.params;
        match request.method.as_str() {
            // Also from those that have not introduced themselves yet.
            "ping" => return Ok(json!({})),
            "agent-q/affinity" => return self.affinity(params).await,
            _ => {}
        }
        let style = style(params, held(&self.peer).version.is_some())?;
        if let Some(name) = client_name(params) {
            self.client.introduce(|who| who.name = shown_name(name));
        }
        if request.method.ends_with("/list")
            && params
                .get("cursor")
                .is_some_and(|it| !it.is_null() && it != "")
        {
            return Err(RpcError::invalid_params(
                "Unknown cursor: every list is given whole.",
            ));
        }
        let (result, cached) = match request.method.as_str() {
            "server/discover" => (
                discovered(
                    &tools::capabilities(),
                    &tools::instructions(&self.client.who().name),
                ),
                Cached::Maybe,
            ),
            "tools/list" => (
                tools::tools(
                    &self.client.options().profile,
                    self.engine.registry(),
                    &self.client.who().name,
                ),
                Cached::Maybe,
            ),
            "tools/call" => (self.call(request, cancel, out).await?, Cached::Never),
            "prompts/list" => (prompts::prompts(), Cached::Maybe),
            "prompts/get" => (prompts::prompt(params)?, Cached::Never),
            "resources/list" => (prompts::resources(), Cached::Maybe),
            "resources/templates/list" => (json!({"resourceTemplates": []}), Cached::Maybe),
            "resources/read" => (
                self.read_resource(params, style, cancel).await?,
                Cached::Maybe,
            ),
            "subscriptions/listen" if style == ResponseStyle::Stateless => {
                (self.listen(request, cancel).await, Cached::Never)
            }
            other => return Err(RpcError::method_not_found(other)),
        };
        Ok(dressed(result, style, cached, tools::server()))
    }

    fn initialize(&self, params: &Map<String, Value>) -> Value {
        let requested = params.get("protocolVersion").and_then(Value::as_str);
        let name = params.get("clientInfo").and_then(|it| it["name"].as_str());
        let roots = params
            .get("capabilities")
            .is_some_and(|it| it["roots"].is_object());
        self.client
            .introduce(|who| who.name = shown_name(name.unwrap_or_default()));
        let mut peer = held(&self.peer);
        let version = negotiated(requested.unwrap_or_default());
        peer.version = Some(version);
        peer.has_roots = roots;
        tools::introduction(version, &self.client.who().name)
    }

    /// How much this Emacs has to do with the directory in PARAMS, for the bridge, which has to choose
    /// where there are several.
    async fn affinity(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let emacs = &**self.engine.emacs();
        let answer = ask_emacs(emacs, "client-affinity", Value::Object(params.clone())).await;
        let affinity = answer.ok().and_then(|text| text.parse::<i64>().ok());
        Ok(json!({"affinity": affinity.unwrap_or(0)}))
    }

    async fn call(
        &self,
        request: &Request,
        cancel: &CancellationToken,
        out: &mpsc::Sender<Outgoing>,
    ) -> Result<Value, RpcError> {
        let params = &request.params;
        let name = params.get("name").and_then(Value::as_str);
        let name =
            name.ok_or_else(|| RpcError::invalid_params("The name of the tool is missing."))?;
        let arguments = match params.get("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(_) => {
                let problem = "Error: The arguments are not a JSON object.";
                return Ok(to_json(&CallText::problem(problem)));
            }
        };
        let (name, arguments) = awaited_through(name, &arguments).unwrap_or((name, arguments));
        let longest = self.client.options().patience();
        let order = match arguments.get(BACKGROUND) {
            Some(Value::Bool(true)) => CallOrder::Beside,
            _ => CallOrder::InTurn,
        };
        let asked = match name {
            AWAIT => patience(arguments.get("seconds").and_then(Value::as_f64)),
            _ if order == CallOrder::Beside => Some(Duration::ZERO),
            _ => None,
        };
        let patience = asked.map_or(longest, |it| it.min(longest));
        let began = match self.begun(request, name, arguments, order).await? {
            Ok(call) => call,
            Err(answer) => return Ok(answer),
        };
        let token = params.get("_meta").and_then(|it| it.get("progressToken"));
        Ok(self.wait(&began, patience, token, cancel, out).await)
    }

    /// The call that REQUEST, a call of the tool NAME with ARGUMENTS, is about, which it may begin in ORDER; or
    /// the answer, where there is none to wait for.
    async fn begun(
        &self,
        request: &Request,
        name: &str,
        arguments: Map<String, Value>,
        order: CallOrder,
    ) -> Result<Result<Arc<BegunCall>, Value>, RpcError> {
        let found = match name {
            LIST_IMAGES => return Ok(Err(to_json(&self.images().await))),
            AWAIT | CANCEL => {
                let call = tools::call_id(&arguments).and_then(|id| {
                    let call = self.client.call(id);
                    call.ok_or_else(|| format!("Error: {}", missing(id)))
                });
                match call {
                    Ok(call) if name == CANCEL => return Ok(Err(self.stop(&call).await)),
                    found => found.map_err(CallText::problem),
                }
            }
            _ => {
                if let Err(failure) = self.engine.registry().resolve(name) {
                    return Err(RpcError::invalid_params(failure.message));
                }
                let arguments = match &request.inexact {
                    Some(problems) => CallArguments::Inexact(problems.clone()),
                    None => CallArguments::Object(arguments),
                };
                let mark = turn_mark(&request.params);
                self.client.begin(name, arguments, mark, order)
            }
        };
        Ok(found.map_err(|problem| to_json(&problem)))
    }

    /// The result of CALL; what it waits for, when that takes longer than PATIENCE. TOKEN is the client's for
    /// notes of progress to OUT.
    async fn wait(
        &self,
        call: &Arc<BegunCall>,
        patience: Duration,
        token: Option<&Value>,
        cancel: &CancellationToken,
        out: &mpsc::Sender<Outgoing>,
    ) -> Value {
        let outcome = tokio::select! {
            outcome = call.outcome_within(patience) => outcome,
            () = tell_progress(call, token, out) => None,
            () = cancel.cancelled() => {
                call.stop(match self.gone.is_cancelled() {
                    true => "the client disconnected",
                    false => "the client cancelled it",
                });
                call.outcome_within(STOPPING_TIME).await
            }
        };
        match outcome {
            Some(outcome) => {
                self.client.forget(call.id);
                to_json(&outcome)
            }
            None => pending(call, self.client.look(call).await.as_deref()),
        }
    }

    async fn stop(&self, call: &BegunCall) -> Value {
        if let Some(outcome) = call.outcome() {
            self.client.forget(call.id);
            return to_json(&outcome);
        }
        call.stop("the client cancelled it");
        match call.outcome_within(STOPPING_TIME).await {
            Some(outcome) => {
                self.client.forget(call.id);
                // To have stopped it is what was wanted.
                to_json(&CallText::result(outcome.bare()))
            }
            None => pending(call, None),
        }
    }

    async fn images(&self) -> CallText {
        let question = json!({"directory": self.client.who().directory});
        match ask_emacs(&**self.engine.emacs(), "client-images", question).await {
            Ok(text) => CallText::result(text),
            Err(problem) => CallText::problem(format!("Error: {problem}")),
        }
    }

    /// What a resource holds: what a look-up tool says of it, by the same way as every call.
    async fn read_resource(
        &self,
        params: &Map<String, Value>,
        style: ResponseStyle,
        cancel: &CancellationToken,
    ) -> Result<Value, RpcError> {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or("");
        let tool = prompts::tool_of_resource(uri, style)?;
        let text = match self.client.begin(
            tool,
            CallArguments::Object(Map::new()),
            turn_mark(params),
            CallOrder::InTurn,
        ) {
            Ok(call) => {
                let (nowhere, _) = mpsc::channel(1);
                let patience = self.client.options().patience();
                let result = self.wait(&call, patience, None, cancel, &nowhere).await;
                result["content"][0]["text"].clone()
            }
            Err(refusal) => refusal.text.into(),
        };
        Ok(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}))
    }

    /// Tells the client of changes of the tools until CANCEL.
    async fn listen(&self, request: &Request, cancel: &CancellationToken) -> Value {
        let wanted = request.params.get("notifications");
        let tools = wanted.is_some_and(|it| it["toolsListChanged"] == true);
        let accepted = match tools {
            true => json!({"toolsListChanged": true}),
            false => json!({}),
        };
        let meta = json!({SUBSCRIPTION_KEY: request.id});
        self.send(notification(
            "notifications/subscriptions/acknowledged",
            json!({"notifications": accepted, "_meta": meta}),
        ))
        .await;
        if tools {
            held(&self.peer).subscriptions.push(request.id.clone());
        }
        cancel.cancelled().await;
        held(&self.peer)
            .subscriptions
            .retain(|id| *id != request.id);
        json!({"_meta": meta})
    }

    /// Tells the client that its tools are others now.
    pub fn tools_changed(&self) {
        const METHOD: &str = "notifications/tools/list_changed";
        let peer = held(&self.peer);
        let mut notes: Vec<Value> = peer
            .subscriptions
            .iter()
            .map(|id| notification(METHOD, json!({"_meta": {SUBSCRIPTION_KEY: id}})))
            .collect();
        if peer.version.is_some() {
            notes.push(notification(METHOD, json!({})));
        }
        for note in notes {
            // Who doesn't read has worse to catch up with.
            let _ = self.out.try_send(Outgoing::new(&note));
        }
    }
}

/// The tool about calls under way that a call of `call_tool` with ARGUMENTS means, if NAME is that, and its own
/// arguments.
fn awaited_through(
    name: &str,
    arguments: &Map<String, Value>,
) -> Option<(&'static str, Map<String, Value>)> {
    let outer = ToolCall {
        id: String::new(),
        name: name.to_owned(),
        raw_arguments: String::new(),
        arguments: CallArguments::Object(arguments.clone()),
    };
    let inner = more::called_through(&outer);
    let known = [AWAIT, CANCEL].into_iter().find(|it| *it == inner.name)?;
    match inner.arguments {
        CallArguments::Object(arguments) => Some((known, arguments)),
        _ => None,
    }
}

fn shown_name(name: &str) -> String {
    let name = spelled(name.trim(), LONGEST_NAME);
    match name.is_empty() {
        true => "client".to_owned(),
        false => name,
    }
}
