// SPDX-License-Identifier: GPL-3.0-or-later
//! A model server on loopback that plays a script (see `script`): for tests, in-process here or as
//! the example program `scripted-server`. Plain threads and sockets, so that it shares no bug with
//! the client that it tests.
#![allow(dead_code, reason = "each test program uses its own part of it")]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

#[path = "script.rs"]
mod script;

pub use script::{Action, Script, Turn, Wire};

/// How often a waiting connection looks whether its client is still there.
const POLL: Duration = Duration::from_millis(5);

/// A server that runs until it is dropped.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    script: Script,
    state: Mutex<State>,
    changed: Condvar,
}

/// What has happened so far.
#[derive(Default)]
pub struct State {
    /// Every POST, in order.
    requests: Vec<Arc<Request>>,
    /// Answers that their client did not wait for.
    pub aborted: usize,
    /// Connections that are open.
    pub open: usize,
    /// Connections that there were.
    pub accepted: usize,
    answered: usize,
    prepared: Option<Prepared>,
    log: Option<File>,
    connections: Vec<TcpStream>,
    stopped: bool,
}

/// What answers the next request, if it comes in the dialect of the last. Made while nobody waits for it,
/// as whoever measures does.
struct Prepared {
    number: usize,
    wire: Wire,
    actions: Vec<Action>,
}

struct Request {
    method: String,
    path: String,
    headers: Map<String, Value>,
    body: Vec<u8>,
}

/// Whether a connection can carry another request.
#[derive(PartialEq, Eq)]
enum Connection {
    Reusable,
    Over,
}

impl ScriptedServer {
    /// Play a script given as JSON text on any free port.
    pub fn start(script: &str) -> Self {
        let script = Script::parse(script).expect("a valid script");
        Self::listen(script, 0, None).expect("a free port on loopback")
    }

    /// Play a script on this port, or on any for 0; `log` gets each request as one JSON line.
    pub fn listen(script: Script, port: u16, log: Option<File>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let address = listener.local_addr()?;
        let state = State {
            log,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            script,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        thread::spawn(move || served.accept(&listener));
        Ok(Self { address, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL of its API.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The bodies of the POSTs so far.
    pub fn bodies(&self) -> Vec<Value> {
        let requests = self.shared.lock().requests.clone();
        requests.iter().map(|it| it.json()).collect()
    }

    /// The POSTs so far: path, headers, body.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.records()
    }

    /// Wait until the state is as wanted; false when it never became so.
    pub fn wait_until(&self, wanted: impl Fn(&State) -> bool) -> bool {
        let generous = Duration::from_secs(30);
        let (state, result) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), generous, |state| !wanted(state))
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        !result.timed_out()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopped = true;
        for connection in &state.connections {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        // The listener's thread notices when it accepts this.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            {
                let mut state = self.lock();
                if state.stopped {
                    return;
                }
                state.connections.extend(stream.try_clone());
                state.open += 1;
                state.accepted += 1;
            }
            let shared = Arc::clone(&self);
            thread::spawn(move || {
                // An error is a client that went away, which `aborted` counts.
                let _ = shared.serve(&stream);
                let _ = stream.shutdown(Shutdown::Both);
                shared.change(|state| state.open -= 1);
            });
        }
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        while let Some(request) = Request::read(&mut reader, stream)? {
            if self.answer(&Arc::new(request), stream)? == Connection::Over {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Arc<Request>, stream: &TcpStream) -> io::Result<Connection> {
        let path = request.path.split('?').next().unwrap_or_default();
        if let Some(key) = &self.script.key
            && request.headers.get("authorization") != Some(&json!(format!("Bearer {key}")))
        {
            return send_error(stream, 401, "Incorrect API key provided");
        }
        match request.method.as_str() {
            "POST" => {
                self.record(request);
                match Wire::at(path) {
                    Some(wire) => self.play(request, wire, stream),
                    None => send_error(stream, 404, "no dialect is spoken there"),
                }
            }
            "GET" if path.ends_with("/models") => {
                let scripted = ["scripted".to_owned()];
                let names = self.script.models.as_deref().unwrap_or(&scripted);
                let models: Vec<Value> = names
                    .iter()
                    .map(|name| json!({"id": name, "object": "model"}))
                    .collect();
                send_json(stream, &json!({"object": "list", "data": models}))
            }
            "GET" if path == "/requests" => send_json(stream, &self.records().into()),
            "GET" if path == "/status" => {
                let state = self.lock();
                let status = json!({"requests": state.requests.len(), "aborted": state.aborted, "open": state.open, "accepted": state.accepted});
                drop(state);
                send_json(stream, &status)
            }
            _ => send_error(stream, 404, "no such page"),
        }
    }

    /// Keeps REQUEST as it came: whoever measures should not wait until a long one is parsed.
    fn record(&self, request: &Arc<Request>) {
        self.change(|state| {
            if let Some(log) = &mut state.log {
                let _ = writeln!(log, "{}", request.record()).and_then(|()| log.flush());
            }
            state.requests.push(Arc::clone(request));
        });
    }

    /// The POSTs so far: path, headers, body.
    fn records(&self) -> Vec<Value> {
        let requests = self.lock().requests.clone();
        requests.iter().map(|it| it.record()).collect()
    }

    fn play(&self, request: &Request, wire: Wire, stream: &TcpStream) -> io::Result<Connection> {
        let mut state = self.lock();
        let number = state.answered;
        state.answered += 1;
        drop(state);
        let Some(turn) = self.script.turn(number) else {
            let count = self.script.turns.len();
            let message = format!(
                "the script has {count} turns, this is request {}",
                number + 1
            );
            return send_error(stream, 500, &message);
        };
        if let Some(objection) = turn.objection(&String::from_utf8_lossy(&request.body)) {
            return send_error(stream, 422, &format!("turn {}: {objection}", number + 1));
        }
        let played = self.play_turn(turn, number, wire, stream);
        if played.is_err() {
            self.change(|state| state.aborted += 1);
        }
        self.prepare(number + 1, wire);
        played
    }

    fn prepare(&self, number: usize, wire: Wire) {
        let turn = self.script.turn(number);
        let actions = turn.and_then(|turn| turn.actions(number, wire).ok());
        self.lock().prepared = actions.map(|actions| Prepared {
            number,
            wire,
            actions,
        });
    }

    fn actions(&self, turn: &Turn, number: usize, wire: Wire) -> Result<Vec<Action>, String> {
        let is_next = |it: &mut Prepared| it.number == number && it.wire == wire;
        match self.lock().prepared.take_if(is_next) {
            Some(prepared) => Ok(prepared.actions),
            None => turn.actions(number, wire),
        }
    }

    fn play_turn(
        &self,
        turn: &Turn,
        number: usize,
        wire: Wire,
        stream: &TcpStream,
    ) -> io::Result<Connection> {
        wait(stream, Duration::from_millis(turn.delay_ms))?;
        if turn.hang_up {
            return Ok(Connection::Over);
        }
        let status = turn.status.unwrap_or(200);
        if status != 200 || turn.body.is_some() {
            return send_whole(stream, status, &turn.headers, turn.body.as_ref());
        }
        let mut answer = Answer::new(turn, stream);
        let actions = self.actions(turn, number, wire).map_err(io::Error::other)?;
        for action in actions {
            match action {
                Action::Send(bytes) => answer.send(&bytes)?,
                Action::Stamp => answer.send(&script::stamp())?,
                Action::Pause(duration) => {
                    answer.flush()?;
                    wait(stream, duration)?;
                }
                Action::Hold(file) => {
                    answer.flush()?;
                    while !file.exists() {
                        wait(stream, POLL)?;
                    }
                }
                Action::Split(size) => {
                    answer.flush()?;
                    answer.piece = Some(size);
                }
                Action::Stall => {
                    answer.flush()?;
                    wait(stream, Duration::MAX)?;
                }
                Action::Cut => {
                    answer.flush()?;
                    return Ok(Connection::Over);
                }
            }
        }
        answer.end()
    }
}

/// A streamed answer in the making. Its head goes out with the first byte of its body, so that an
/// answer that stalls at once has sent nothing.
struct Answer<'s> {
    stream: &'s TcpStream,
    /// The head, until it is in the buffer.
    head: Vec<u8>,
    buffer: Vec<u8>,
    /// The size of the pieces in which it goes out.
    piece: Option<usize>,
}

impl<'s> Answer<'s> {
    fn new(turn: &Turn, stream: &'s TcpStream) -> Self {
        let mut head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n".to_vec();
        if !turn.headers.contains_key("content-type") {
            head.extend(b"content-type: text/event-stream\r\n");
        }
        head.extend(header_lines(&turn.headers));
        head.extend(b"\r\n");
        Self {
            stream,
            head,
            buffer: Vec::new(),
            piece: None,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        const FULL: usize = 64 * 1024;
        self.buffer.append(&mut self.head);
        for piece in bytes.chunks(self.piece.unwrap_or(FULL)) {
            write!(self.buffer, "{:x}\r\n", piece.len())?;
            self.buffer.extend_from_slice(piece);
            self.buffer.extend_from_slice(b"\r\n");
            if self.piece.is_some() || self.buffer.len() > FULL {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn end(mut self) -> io::Result<Connection> {
        self.buffer.append(&mut self.head);
        self.buffer.extend_from_slice(b"0\r\n\r\n");
        self.stream.write_all(&self.buffer)?;
        Ok(Connection::Reusable)
    }
}

/// Wait this long, unless the client goes away first, which is an error.
fn wait(stream: &TcpStream, duration: Duration) -> io::Result<()> {
    let start = Instant::now();
    while start.elapsed() < duration {
        let left = duration - start.elapsed().min(duration);
        stream.set_read_timeout(Some(left.clamp(Duration::from_millis(1), POLL)))?;
        match stream.peek(&mut [0]) {
            Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Ok(_) => thread::sleep(left.min(POLL)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) => {}
            Err(error) => return Err(error),
        }
    }
    stream.set_read_timeout(None)
}

fn send_json(stream: &TcpStream, body: &Value) -> io::Result<Connection> {
    send_whole(stream, 200, &Map::new(), Some(body))
}

fn send_error(stream: &TcpStream, status: u16, message: &str) -> io::Result<Connection> {
    let mut headers = Map::new();
    headers.insert("x-should-retry".into(), "false".into());
    let body =
        json!({"error": {"message": format!("scripted server: {message}"), "type": "script"}});
    send_whole(stream, status, &headers, Some(&body))
}

fn send_whole(
    mut stream: &TcpStream,
    status: u16,
    headers: &Map<String, Value>,
    body: Option<&Value>,
) -> io::Result<Connection> {
    let body = match body {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(json) => json.to_string(),
    };
    let mut head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n",
        body.len()
    );
    if !headers.contains_key("content-type") {
        head.push_str("content-type: application/json\r\n");
    }
    let mut bytes = head.into_bytes();
    bytes.extend(header_lines(headers));
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body.as_bytes());
    stream.write_all(&bytes)?;
    Ok(Connection::Reusable)
}

fn header_lines(headers: &Map<String, Value>) -> Vec<u8> {
    let line = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}: {text}\r\n"),
        other => format!("{name}: {other}\r\n"),
    };
    headers.iter().map(line).collect::<String>().into_bytes()
}

impl Request {
    /// Its path, headers and body.
    fn record(&self) -> Value {
        json!({"path": self.path, "headers": self.headers, "body": self.json()})
    }

    /// Its body, which is text where it is no JSON.
    fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.into_owned()))
    }

    /// The next request of a connection; none when the client has closed it.
    fn read(
        reader: &mut BufReader<&TcpStream>,
        mut stream: &TcpStream,
    ) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace().map(str::to_owned);
        let (method, path) = (words.next(), words.next());
        let mut headers = Map::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().into());
        }
        let header = |name: &str| headers.get(name).and_then(Value::as_str).unwrap_or("");
        if header("expect") == "100-continue" {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body)?;
        Ok(Some(Self {
            method: method.unwrap_or_default(),
            path: path.unwrap_or_default(),
            headers,
            body,
        }))
    }
}
