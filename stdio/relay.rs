// SPDX-License-Identifier: GPL-3.0-or-later
//! Passing messages on. A request that Emacs can't take gets an answer at once, and those that it was
//! working on when it went away, or was stopped, do, too; the next request looks for it again.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::mem;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::emacs::{Found, Search, hello, is_there, this_directory};
use crate::line::{Head, Read, failed_call, line_of, read, refusal, too_long};
use crate::offer;

const CALL: &str = "tools/call";

/// How long answers are waited for when the host has closed our input.
const PARTING_TIME: Duration = Duration::from_secs(1);

/// How long Emacs may say nothing while it works on a request until it is asked whether it is there.
const QUIET_TIME: Duration = Duration::from_secs(4);
/// How long an Emacs that was started again may take to have its Lisp.
const STARTING_TIME: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(100);

/// The code of errors that are about the way to Emacs.
const UNREACHABLE: i64 = -32000;

const WENT_AWAY: &str = "Emacs went away, or agent-q-mcp-mode was turned off, while this ran; whether it was done is not known. The next call looks for Emacs again.";

const STOPPED: &str = "Emacs does not respond: it may have been stopped (C-z in a terminal; fg continues it). Whether this was done is not known. The next call looks for Emacs again.";

fn unreachable(error: &io::Error) -> String {
    format!(
        "Emacs went away while it was sent this ({error}). Nothing was done. The next call looks for Emacs again."
    )
}

/// Makes the answer to a request that doesn't reach Emacs, of a sentence on why.
type Unreached = Box<dyn Fn(&str) -> Vec<u8> + Send>;

/// What answers REQUEST with ID when it doesn't reach Emacs.
fn unreached(request: &Head, id: &Value) -> Unreached {
    let id = id.clone();
    match request.method.as_deref() {
        Some(CALL) => Box::new(move |why| failed_call(&id, why)),
        _ => Box::new(move |why| refusal(&id, UNREACHABLE, why)),
    }
}

#[derive(Default)]
struct State {
    /// The Emacs in use, while there is one.
    emacs: Option<Way>,
    /// The process that the last call went to, or that was named to the model instead.
    used: Option<u64>,
    /// Counts connections, so that the end of an old one doesn't count for a new one.
    connection: u64,
    /// The requests that Emacs has not answered, by their ids as text: what answers each without it.
    open: HashMap<String, Unreached>,
    /// How many answers are just being written to the host.
    writing: usize,
    /// When Emacs was last seen to be there.
    heard: Option<Instant>,
    /// How the host introduced itself.
    initialize: Option<Vec<u8>>,
    /// The id of an introduction that was repeated: the host has its answer.
    repeated: Option<Value>,
}

/// The way to an Emacs.
struct Way {
    stream: UnixStream,
    socket: PathBuf,
    pid: Option<u64>,
    /// How much it has to do with our directory.
    affinity: i64,
}

#[derive(Default)]
struct Relay {
    state: Mutex<State>,
    /// Told when `open` changes.
    changed: Condvar,
}

/// Passes messages on until the host closes our input.
pub fn run(search: Search) {
    let relay = Arc::new(Relay::default());
    let clock = Arc::clone(&relay);
    thread::spawn(move || clock.watch());
    let mut input = BufReader::new(io::stdin().lock());
    loop {
        match read(&mut input) {
            Ok(Read::Line(line)) => relay.pass(&search, without_mark(line)),
            Ok(Read::TooLong(id)) => to_host(&too_long(id, "message")),
            Ok(Read::End) | Err(_) => break,
        }
    }
    relay.part();
}

/// LINE without the mark of its encoding that some hosts begin with.
fn without_mark(mut line: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if line.starts_with(MARK) {
        line.drain(..MARK.len());
    }
    line
}

impl State {
    /// Takes the requests IDS out of what is open, to be answered; false if none of them was.
    fn take_open(&mut self, ids: &[&Value]) -> bool {
        let open = ids
            .iter()
            .filter(|id| self.open.remove(&id.to_string()).is_some());
        let any = open.count() > 0;
        self.writing += usize::from(any);
        any
    }
}

impl Relay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes LINE of the host's to Emacs, or answers it here.
    fn pass(self: &Arc<Self>, search: &Search, line: Vec<u8>) {
        let heads = Head::all(&line);
        let methods: Vec<&str> = heads.iter().filter_map(|it| it.method.as_deref()).collect();
        let method = match methods.as_slice() {
            [method] => method,
            methods if methods.contains(&CALL) => CALL,
            _ => "",
        };
        let requests: Vec<(&Head, &Value)> = heads
            .iter()
            .filter_map(|it| Some((it, it.request()?)))
            .collect();
        let pointless = {
            let mut state = self.state();
            if method == "initialize" {
                state.initialize = None;
            }
            match requests.is_empty() {
                // What wants no answer is nothing to look for Emacs for.
                true => state.emacs.is_none(),
                // Some hosts send again what was not answered soon.
                false => requests
                    .iter()
                    .all(|(_, id)| state.open.contains_key(&id.to_string())),
            }
        };
        if pointless {
            return;
        }
        let delivered = self.deliver(search, method, &requests, &line);
        let own = match (&delivered, requests.as_slice()) {
            (Err(_), [(_, id)]) => offer::answer(method, id, &line),
            _ => None,
        };
        if let Err(problem) = &delivered {
            for (request, id) in &requests {
                to_host(own.as_deref().unwrap_or(&unreached(request, id)(problem)));
            }
        }
        if method == "initialize" && (delivered.is_ok() || own.is_some()) {
            self.state().initialize = Some(line);
        }
    }

    /// Sends LINE, the REQUESTS of METHOD with their ids or messages without an id, to Emacs, which is looked for again
    /// if it is gone.
    fn deliver(
        self: &Arc<Self>,
        search: &Search,
        method: &str,
        requests: &[(&Head, &Value)],
        line: &[u8],
    ) -> Result<(), String> {
        let mut attempts = 0;
        loop {
            let connection = self.reach(search, method)?;
            for (request, id) in requests {
                self.open(request, id);
            }
            let Err(error) = self.send(line) else {
                return Ok(());
            };
            // Emacs may have been stopped, and this answered meanwhile.
            let open = requests.iter().filter(|(_, id)| self.close(id)).count();
            if open < requests.len() {
                return Ok(());
            }
            self.lose(connection, WENT_AWAY);
            attempts += 1;
            if attempts == 2 {
                return Err(unreachable(&error));
            }
        }
    }

    fn open(&self, request: &Head, id: &Value) {
        let mut state = self.state();
        if state.open.is_empty() {
            state.heard = Some(Instant::now());
        }
        state.open.insert(id.to_string(), unreached(request, id));
        self.changed.notify_all();
    }

    /// Notes that the request ID has its answer; false if it had one.
    fn close(&self, id: &Value) -> bool {
        let was_open = self.state().open.remove(&id.to_string()).is_some();
        self.changed.notify_all();
        was_open
    }

    /// Sends LINE to Emacs.
    fn send(&self, line: &[u8]) -> io::Result<()> {
        // Not under the lock: Emacs may be slow to read, and its answers come meanwhile.
        let stream = self.state().emacs.as_ref().map(|it| it.stream.try_clone());
        match stream {
            Some(stream) => stream?.write_all(line),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Finds Emacs for a request of METHOD, unless it is in use already, and gives the connection's number.
    fn reach(self: &Arc<Self>, search: &Search, method: &str) -> Result<u64, String> {
        if method == CALL {
            self.leave_for_a_better_one(search);
        }
        if self.state().emacs.is_none() {
            self.connect(search, method)?;
        }
        if method == CALL {
            self.check()?;
        }
        Ok(self.state().connection)
    }

    /// Hangs up when the Emacs in use had nothing to do with our directory, and another one has, or it may have
    /// by now.
    fn leave_for_a_better_one(&self, search: &Search) {
        let foreign = {
            let state = self.state();
            let emacs = state.emacs.as_ref().filter(|_| state.open.is_empty());
            emacs.filter(|it| it.affinity == 0).and_then(|it| it.pid)
        };
        let Some(pid) = foreign else { return };
        let better = || {
            search.is_there_another(pid) && search.connect().is_ok_and(|found| found.affinity > 0)
        };
        if self.is_new(foreign) || better() {
            let connection = self.state().connection;
            self.lose(connection, WENT_AWAY);
        }
    }

    /// Refuses a call once that would go on in an Emacs that has nothing to do with our directory, after
    /// others went to another one: its image may be another program's, and nothing else would say so.
    fn check(&self) -> Result<(), String> {
        let mut state = self.state();
        let Some((pid, affinity)) = state.emacs.as_ref().map(|it| (it.pid, it.affinity)) else {
            return Ok(());
        };
        let before = mem::replace(&mut state.used, pid);
        if before.is_none() || before == pid || affinity > 0 {
            return Ok(());
        }
        Err(format!(
            "Nothing was done: the Emacs that your calls went to is gone, or has stopped serving. The one that serves now, with process id {}, has neither an image nor a file of {} open, so it may be about another program. Ask the user whether it is meant. If it is, make the call again; as soon as an Emacs with this directory is there, that one is used.",
            pid.unwrap_or_default(),
            this_directory()
        ))
    }

    /// Finds Emacs for a request of METHOD. One that takes the place of another may just be starting its Lisp,
    /// and has nothing to do with our directory until then, so a call waits a little.
    fn find(&self, search: &Search, method: &str) -> Result<Found, String> {
        let began = Instant::now();
        loop {
            let found = search.connect()?;
            let patient = method == CALL && began.elapsed() < STARTING_TIME;
            if !patient || found.affinity > 0 || !self.is_new(found.pid) {
                return Ok(found);
            }
            thread::sleep(TICK * 3);
        }
    }

    /// Whether the Emacs of the process PID is another one than that which calls went to.
    fn is_new(&self, pid: Option<u64>) -> bool {
        let used = self.state().used;
        pid.is_some() && used.is_some() && used != pid
    }

    /// Connects to Emacs for a request of METHOD, and introduces the host to it if that was done before.
    fn connect(self: &Arc<Self>, search: &Search, method: &str) -> Result<(), String> {
        let Found {
            mut stream,
            socket,
            pid,
            affinity,
            name,
        } = self.find(search, method)?;
        let reader = stream.try_clone().map_err(|error| unreachable(&error))?;
        let initialize = self.state().initialize.clone();
        let mut first = hello();
        if let Some(initialize) = &initialize {
            first.extend_from_slice(initialize);
            first.extend(notification("notifications/initialized"));
        }
        stream
            .write_all(&first)
            .map_err(|error| unreachable(&error))?;
        let connection = {
            let mut state = self.state();
            state.connection += 1;
            state.emacs = Some(Way {
                stream,
                socket,
                pid,
                affinity,
            });
            state.heard = Some(Instant::now());
            state.repeated = initialize.as_ref().and_then(|line| Head::of(line).id);
            state.connection
        };
        let relay = Arc::clone(self);
        thread::spawn(move || relay.answer(reader, connection));
        say(&format!("using {name}"));
        if initialize.is_some() {
            // The tools may be others than those that the host was told of.
            to_host(&notification("notifications/tools/list_changed"));
        }
        Ok(())
    }

    /// Passes what Emacs says through STREAM to the host, until it goes away.
    fn answer(&self, stream: UnixStream, connection: u64) {
        let mut stream = BufReader::new(stream);
        while let Ok(read) = read(&mut stream) {
            match read {
                Read::Line(line) => self.pass_back(&line),
                Read::TooLong(id) => {
                    if let Some(id) = id
                        && self.state().take_open(&[&id])
                    {
                        self.write(&too_long(Some(id), "answer"));
                    }
                }
                Read::End => break,
            }
            self.state().heard = Some(Instant::now());
        }
        self.lose(connection, WENT_AWAY);
    }

    /// Ends CONNECTION, unless another one has taken its place; what is open is answered with WHY.
    fn lose(&self, connection: u64, why: &str) {
        let mut state = self.state();
        if state.connection != connection {
            return;
        }
        if let Some(emacs) = state.emacs.take() {
            let _ = emacs.stream.shutdown(Shutdown::Both);
        }
        for (_, unreached) in state.open.drain() {
            to_host(&unreached(why));
        }
        self.changed.notify_all();
    }

    fn pass_back(&self, line: &[u8]) {
        let heads = Head::all(line);
        let ids: Vec<&Value> = heads.iter().filter_map(Head::answer).collect();
        if !ids.is_empty() {
            let mut state = self.state();
            if state.repeated.as_ref() == Some(ids[0]) {
                state.repeated = None;
                return;
            }
            // The host has an answer already, which said that there would be none.
            if !state.take_open(&ids) {
                return;
            }
            drop(state);
            return self.write(line);
        }
        to_host(line);
    }

    /// Writes LINE to the host, an answer to what `State::take_open` took.
    fn write(&self, line: &[u8]) {
        to_host(line);
        self.state().writing -= 1;
        self.changed.notify_all();
    }

    /// Notices an Emacs that was stopped: its socket takes what it is sent, and nobody reads that.
    fn watch(&self) {
        loop {
            let idle = |state: &mut State| state.open.is_empty() || state.emacs.is_none();
            let state = self.changed.wait_while(self.state(), idle);
            let state = state.unwrap_or_else(PoisonError::into_inner);
            let quiet = state.heard.map_or(Duration::ZERO, |it| it.elapsed());
            if let Some(rest) = QUIET_TIME.checked_sub(quiet) {
                // Until then, or until there is something new.
                drop(self.changed.wait_timeout(state, rest + TICK));
                continue;
            }
            let connection = state.connection;
            let socket = state.emacs.as_ref().map(|it| it.socket.clone());
            let before = state.heard;
            drop(state);
            let there = socket.is_some_and(|socket| is_there(&socket));
            let mut state = self.state();
            let silent = state.heard == before;
            if there {
                state.heard = Some(Instant::now());
            } else if silent {
                drop(state);
                self.lose(connection, STOPPED);
            }
        }
    }

    /// Waits a little for answers, as the host has said its last word.
    fn part(&self) {
        let waiting = |state: &mut State| !state.open.is_empty() || state.writing > 0;
        let _ = self
            .changed
            .wait_timeout_while(self.state(), PARTING_TIME, waiting);
    }
}

fn notification(method: &str) -> Vec<u8> {
    line_of(&json!({"jsonrpc": "2.0", "method": method}))
}

/// Writes LINE to the host. Without one, there is nothing left to do.
fn to_host(line: &[u8]) {
    let mut output = io::stdout().lock();
    if output
        .write_all(line)
        .and_then(|()| output.flush())
        .is_err()
    {
        std::process::exit(0);
    }
}

/// Writes TEXT where hosts keep what servers have to say.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "agent-q-mcp: {text}");
}
