// SPDX-License-Identifier: GPL-3.0-or-later
//! Passing messages on. A request that Emacs can't take gets an answer at once, and those that it was
//! working on when it went away do, too; the next request looks for it again.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::emacs::{Found, Search, hello};
use crate::line::{Head, Read, line_of, read, refusal, too_long};

/// How long answers are waited for when the host has closed our input.
const PARTING_TIME: Duration = Duration::from_secs(1);

/// The code of errors that are about the way to Emacs.
const UNREACHABLE: i64 = -32000;

const WENT_AWAY: &str = "Emacs went away, or agent-q-mcp-mode was turned off, while this ran; whether it was done is not known. The next call looks for Emacs again.";

#[derive(Default)]
struct State {
    /// The way to Emacs, while there is one.
    emacs: Option<UnixStream>,
    /// Counts connections, so that the end of an old one doesn't count for a new one.
    connection: u64,
    /// The requests that Emacs has not answered, by their ids as text.
    open: HashMap<String, Value>,
    /// How the host introduced itself.
    initialize: Option<Vec<u8>>,
    /// The id of an introduction that was repeated: the host has its answer.
    repeated: Option<Value>,
}

#[derive(Default)]
struct Relay {
    state: Mutex<State>,
    answered: Condvar,
}

/// Passes messages on until the host closes our input.
pub fn run(search: Search) {
    let relay = Arc::new(Relay::default());
    let mut input = BufReader::new(io::stdin().lock());
    loop {
        match read(&mut input) {
            Ok(Read::Line(line)) => relay.pass(&search, line),
            Ok(Read::TooLong) => to_host(&too_long()),
            Ok(Read::End) | Err(_) => break,
        }
    }
    relay.part();
}

impl Relay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes LINE of the host's to Emacs.
    fn pass(self: &Arc<Self>, search: &Search, line: Vec<u8>) {
        let head = Head::of(&line);
        let method = head.method.as_deref().unwrap_or_default();
        if method == "initialize" {
            self.state().initialize = None;
        }
        if let Some(id) = head.request() {
            self.state().open.insert(id.to_string(), id.clone());
        } else if self.state().emacs.is_none() {
            // What wants no answer is nothing to look for Emacs for.
            return;
        }
        let sent = match self.send(&line) {
            Ok(()) => Ok(()),
            Err(_) => self.connect(search).and_then(|()| {
                self.send(&line)
                    .map_err(|error| format!("Emacs can't be reached: {error}."))
            }),
        };
        match (sent, head.request()) {
            (Ok(()), _) if method == "initialize" => self.state().initialize = Some(line),
            (Err(problem), Some(id)) if self.state().open.remove(&id.to_string()).is_some() => {
                to_host(&refusal(id, UNREACHABLE, &problem));
            }
            _ => {}
        }
    }

    /// Sends LINE to Emacs, if there is a way to it.
    fn send(&self, line: &[u8]) -> io::Result<()> {
        // Not under the lock: Emacs may be slow to read, and its answers come meanwhile.
        let emacs = self.state().emacs.as_ref().map(UnixStream::try_clone);
        match emacs {
            Some(emacs) => emacs?.write_all(line),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Connects to Emacs, and introduces the host to it if that was done before.
    fn connect(self: &Arc<Self>, search: &Search) -> Result<(), String> {
        let Found { mut stream, name } = search.connect()?;
        let reader = stream.try_clone().map_err(|error| error.to_string())?;
        let initialize = self.state().initialize.clone();
        let mut first = hello();
        if let Some(initialize) = &initialize {
            first.extend_from_slice(initialize);
            first.extend(notification("notifications/initialized"));
        }
        stream
            .write_all(&first)
            .map_err(|error| format!("Emacs can't be reached: {error}."))?;
        let connection = {
            let mut state = self.state();
            state.connection += 1;
            state.emacs = Some(stream);
            state.repeated = initialize.as_ref().and_then(|line| Head::of(line).id);
            state.connection
        };
        let relay = Arc::clone(self);
        thread::spawn(move || relay.answer(reader, connection));
        say(&format!("using {name}"));
        if initialize.is_some() {
            // The tools may be others in an Emacs that was started anew.
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
                Read::TooLong => {}
                Read::End => break,
            }
        }
        let mut state = self.state();
        if state.connection != connection {
            return;
        }
        if let Some(emacs) = state.emacs.take() {
            let _ = emacs.shutdown(Shutdown::Both);
        }
        for (_, id) in state.open.drain() {
            to_host(&refusal(&id, UNREACHABLE, WENT_AWAY));
        }
        self.answered.notify_all();
    }

    fn pass_back(&self, line: &[u8]) {
        let head = Head::of(line);
        if let Some(id) = head.answer() {
            let mut state = self.state();
            if state.repeated.as_ref() == Some(id) {
                state.repeated = None;
                return;
            }
            state.open.remove(&id.to_string());
            self.answered.notify_all();
        }
        to_host(line);
    }

    /// Waits a little for answers, as the host has said its last word.
    fn part(&self) {
        let waiting = |state: &mut State| !state.open.is_empty();
        let _ = self
            .answered
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
