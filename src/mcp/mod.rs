// SPDX-License-Identifier: GPL-3.0-or-later
//! The server for other agents: it speaks MCP on a socket that only the user can open. A client is a
//! session like a chat, whose calls go the way of every call; its buffer and consent are in Emacs.

pub mod call;
pub mod client;
mod connection;
mod prompts;
pub mod protocol;
mod readable;
pub mod socket;
pub mod tools;
pub mod transport;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::getuid;
use serde_json::{Value, json};
use tokio::io::BufReader;
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::protocol::SessionId;
use crate::runtime::held;
use client::{ClientOptions, McpClient, Pausing};
use connection::ClientConnection;
use protocol::{RpcError, reply};
use socket::{SocketError, SocketWatch};
use transport::{LONGEST, Line, Outgoing, WAITING};

/// How many clients may be connected at once.
const MOST_CLIENTS: usize = 64;

/// How long changes of tools are gathered before clients hear of them.
const CHANGES_PACE: Duration = Duration::from_millis(200);

/// The server of one Emacs.
pub struct McpServer {
    engine: Arc<Engine>,
    options: Mutex<ClientOptions>,
    connections: Mutex<HashMap<u64, Arc<ClientConnection>>>,
    listening: Mutex<Option<Listening>>,
}

/// A socket that clients can connect to; dropping it closes it.
struct Listening {
    path: PathBuf,
    stop: CancellationToken,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // First, so that the loss of its file is not mended.
        self.stop.cancel();
        socket::remove(&self.path);
    }
}

impl McpServer {
    #[must_use]
    pub fn new(engine: Arc<Engine>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            options: Mutex::default(),
            connections: Mutex::default(),
            listening: Mutex::default(),
        })
    }

    /// Takes over OPTIONS, JSON text; clients that are connected hear of tools that changed.
    ///
    /// # Errors
    ///
    /// When they are not understood.
    pub fn configure(&self, options: &str) -> Result<(), serde_json::Error> {
        let options: ClientOptions = serde_json::from_str(options)?;
        *held(&self.options) = options.clone();
        for connection in held(&self.connections).values() {
            connection.client.set_options(options.clone());
            connection.tools_changed();
        }
        Ok(())
    }

    /// Listens on a socket in FOLDER, and gives its path. One that it listened on before is closed.
    ///
    /// # Errors
    ///
    /// When the folder or the socket can't be used.
    pub fn listen(self: &Arc<Self>, folder: &Path) -> Result<PathBuf, SocketError> {
        let mut listening = held(&self.listening);
        *listening = None;
        let (path, listener) = socket::open_socket(folder)?;
        let stop = CancellationToken::new();
        self.engine
            .spawn(Arc::clone(self).accept(listener, path.clone(), stop.clone()));
        *listening = Some(Listening {
            path: path.clone(),
            stop,
        });
        Ok(path)
    }

    /// Makes the socket at PATH again, whose file was removed, unless nobody should connect any more,
    /// as STOP says.
    fn listen_again(&self, path: &Path, stop: &CancellationToken) -> Option<UnixListener> {
        // Held, so that it is not made while the mode is turned off.
        let _listening = held(&self.listening);
        if stop.is_cancelled() {
            return None;
        }
        let opened = path.parent().map(socket::open_socket)?;
        let listener = opened.map(|(_, listener)| UnixListener::from_std(listener));
        match listener {
            Ok(Ok(listener)) => {
                tracing::info!("the socket's file was removed; there is a new one");
                Some(listener)
            }
            Ok(Err(error)) => {
                tracing::error!("the socket can't be listened on again: {error}");
                None
            }
            Err(error) => {
                tracing::error!("the socket's file was removed, and there is no new one: {error}");
                None
            }
        }
    }

    /// The connection of a client that sends what it is told to OUT, until it is GONE.
    fn admit_client(
        self: &Arc<Self>,
        out: mpsc::Sender<Outgoing>,
        gone: CancellationToken,
    ) -> Arc<ClientConnection> {
        let options = held(&self.options).clone();
        let client = Arc::new(McpClient::new(Arc::clone(&self.engine), options));
        let engine = Arc::clone(&self.engine);
        let connection = Arc::new(ClientConnection::new(engine, client, out, gone.clone()));
        let key = next_key();
        held(&self.connections).insert(key, Arc::clone(&connection));
        let (server, leaving) = (Arc::clone(self), Arc::clone(&connection));
        self.engine.spawn(async move {
            gone.cancelled().await;
            held(&server.connections).remove(&key);
            leaving.client.leave().await;
        });
        connection
    }

    /// Closes the socket and all connections.
    pub fn stop(&self) {
        *held(&self.listening) = None;
        for connection in held(&self.connections).values() {
            connection.gone.cancel();
        }
    }

    /// Lets clients connect through LISTENER, which is at PATH, until STOP.
    async fn accept(
        self: Arc<Self>,
        listener: std::os::unix::net::UnixListener,
        path: PathBuf,
        stop: CancellationToken,
    ) {
        let mut listener = match UnixListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!("the socket can't be listened on: {error}"),
        };
        let mut changes = self.engine.registry().changes();
        let mut watch = SocketWatch::new(&path);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = watch.gone() => {
                    match self.listen_again(&path, &stop) {
                        Some(again) => {
                            listener = again;
                            watch = SocketWatch::new(&path);
                        }
                        // Those who are connected still hear of changes.
                        None => watch.give_up(),
                    }
                }
                _ = changes.changed() => {
                    // A program that defines many is told of once.
                    tokio::time::sleep(CHANGES_PACE).await;
                    changes.mark_unchanged();
                    for connection in held(&self.connections).values() {
                        connection.tools_changed();
                    }
                }
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.admit(stream),
                    Err(error) => {
                        tracing::warn!("a client could not connect: {error}");
                        tokio::time::sleep(CHANGES_PACE).await;
                    }
                }
            }
        }
    }

    fn admit(self: &Arc<Self>, stream: UnixStream) {
        // The folder is the user's alone; this is for one whose rights were changed since.
        let mine = stream
            .peer_cred()
            .is_ok_and(|peer| peer.uid() == getuid().as_raw());
        if mine {
            self.engine.spawn(Arc::clone(self).serve(stream));
        }
    }

    /// Serves the client behind STREAM until one of both is gone.
    async fn serve(self: Arc<Self>, stream: UnixStream) {
        let (reader, writer) = stream.into_split();
        let (out, messages) = mpsc::channel(WAITING);
        let gone = CancellationToken::new();
        let writing = transport::write(writer, messages, gone.clone());
        if held(&self.connections).len() >= MOST_CLIENTS {
            let error = RpcError::invalid_request(format!(
                "{MOST_CLIENTS} clients are connected to this Emacs already. Close some of them."
            ));
            let _ = out.try_send(Outgoing::new(&reply(&Value::Null, Err(error))));
            drop(out);
            return writing.await;
        }
        let connection = self.admit_client(out, gone.clone());
        self.engine.spawn(writing);
        tokio::select! {
            () = read(reader, &connection) => {}
            () = gone.cancelled() => {}
        }
        gone.cancel();
    }

    /// The client in whose buffer SESSION is.
    fn client_of(&self, session: SessionId) -> Option<Arc<McpClient>> {
        let connections = held(&self.connections);
        let mut clients = connections.values().map(|it| &it.client);
        clients
            .find(|client| client.session() == Some(session))
            .cloned()
    }

    /// Stops what the client of SESSION is running; false when it is not connected.
    #[must_use]
    pub fn stop_client(&self, session: SessionId) -> bool {
        let client = self.client_of(session);
        if let Some(client) = &client {
            client.stop_calls("the user stopped it");
        }
        client.is_some()
    }

    /// Refuses the calls of SESSION's client from now on, and of others of its name, or takes them again; false when it is not
    /// connected.
    #[must_use]
    pub fn pause_client(&self, session: SessionId, pausing: Pausing) -> bool {
        let Some(client) = self.client_of(session) else {
            return false;
        };
        // A program that is started twice is still the same one.
        let name = client.who().name;
        for connection in held(&self.connections).values() {
            if connection.client.who().name == name {
                connection.client.pause(pausing);
            }
        }
        true
    }

    /// What the server does, as JSON.
    #[must_use]
    pub fn status(&self) -> Value {
        let socket = held(&self.listening)
            .as_ref()
            .map(|it| it.path.display().to_string());
        // Whether the file is still where it was made.
        let reachable = socket.as_ref().is_some_and(|it| Path::new(it).exists());
        let clients: Vec<Value> = held(&self.connections)
            .values()
            .map(|connection| {
                let client = &connection.client;
                let who = client.who();
                json!({
                    "name": who.name,
                    "directory": who.directory,
                    "session": client.session().map(|it| it.0),
                    "paused": client.is_paused(),
                    "running": client.running(),
                })
            })
            .collect();
        json!({"socket": socket, "reachable": reachable, "clients": clients})
    }
}

fn next_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Hands the lines of READER to CONNECTION, until there are none any more.
async fn read(reader: OwnedReadHalf, connection: &Arc<ClientConnection>) {
    let mut reader = BufReader::new(reader);
    loop {
        match transport::read(&mut reader, LONGEST).await {
            Ok(Line::Whole(line)) => connection.take(&line).await,
            Ok(Line::TooLong) => {
                let error = RpcError::invalid_request(format!(
                    "The message is longer than {} MB, and was left out.",
                    LONGEST >> 20
                ));
                connection.send(reply(&Value::Null, Err(error))).await;
            }
            Ok(Line::End) | Err(_) => return,
        }
    }
}
