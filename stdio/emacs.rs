// SPDX-License-Identifier: GPL-3.0-or-later
//! Finding the user's Emacs: each that serves has a socket in a folder that only the user can open, and
//! beside it a file that says which bridge it wants. Where there are several, they are asked which of
//! them has to do with this directory.

use std::env;
use std::fs;
use std::io::{BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::getuid;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::line::{Read, line_of, read};

/// As `BRIDGE_INTERFACE` of the server.
const INTERFACE: u64 = 1;

/// How long an Emacs may think about whether it is meant.
const ASKING_TIME: Duration = Duration::from_secs(1);

/// How long it may where another one can't be taken before it has said so: it may be busy.
const BUSY_TIME: Duration = Duration::from_secs(5);

/// The affinity of an Emacs with an image of our directory, as Emacs Lisp says it.
const HAS_IMAGE: i64 = 3;

/// How long it may take to say that it is there, which comes from a thread that is never busy for long.
const PING_TIME: Duration = Duration::from_secs(10);

/// How long one may take whose connection is new. Hosts wait no longer for what they begin with.
const GREETING_TIME: Duration = Duration::from_secs(5);

const SILENT: &str = "Emacs does not respond: it may have been stopped (C-z in a terminal; fg continues it). Nothing was done. The next call looks for Emacs again.";

const NOT_RUNNING: &str = "Emacs is not running, or agent-q-mcp-mode is not on in it. Start Emacs, turn it on with M-x agent-q-mcp-mode, and try again.";

/// Where to look.
pub struct Search {
    /// The one socket that is meant, if it was named.
    pub socket: Option<PathBuf>,
    folders: Vec<PathBuf>,
}

/// An Emacs that answers.
pub struct Found {
    pub stream: UnixStream,
    pub socket: PathBuf,
    /// Its process, unless the socket was named.
    pub pid: Option<u64>,
    /// How much it has to do with our directory; 0 is nothing, or that it is not known.
    pub affinity: i64,
    /// Which one it is, for people.
    pub name: String,
}

#[derive(Deserialize)]
struct Description {
    pid: u64,
    bridge: u64,
    version: String,
}

struct Candidate {
    stream: UnixStream,
    socket: PathBuf,
    pid: u64,
    since: SystemTime,
}

impl Search {
    pub fn from_environment() -> Self {
        let path = |name: &str| {
            env::var_os(name)
                .filter(|it| !it.is_empty())
                .map(PathBuf::from)
        };
        let folders = match path("AGENT_Q_MCP_DIRECTORY") {
            Some(folder) => vec![folder],
            None => {
                let home = path("HOME");
                let uid = home.as_ref().and_then(|home| fs::metadata(home).ok());
                let runtime = uid.map(|it| PathBuf::from(format!("/run/user/{}", it.uid())));
                let cache = path("XDG_CACHE_HOME").or(home.map(|home| home.join(".cache")));
                // A host may run without the variable that Emacs has.
                let mut folders: Vec<PathBuf> = [path("XDG_RUNTIME_DIR"), runtime, cache]
                    .into_iter()
                    .flatten()
                    .map(|folder| folder.join("agent-q"))
                    .collect();
                folders.dedup();
                folders
            }
        };
        Self {
            socket: path("AGENT_Q_MCP_SOCKET"),
            folders,
        }
    }

    /// Connects to the user's Emacs.
    ///
    /// # Errors
    ///
    /// A sentence on why that can't be done.
    pub fn connect(&self) -> Result<Found, String> {
        if let Some(socket) = &self.socket {
            let stream = UnixStream::connect(socket)
                .map_err(|error| format!("{NOT_RUNNING} ({}: {error})", socket.display()))?;
            greet(&stream)?;
            return Ok(Found {
                stream,
                socket: socket.clone(),
                pid: None,
                affinity: 1,
                name: socket.display().to_string(),
            });
        }
        let mut candidates = Vec::new();
        let mut other_version = None;
        let (private, shared): (Vec<&Path>, Vec<&Path>) = self
            .folders
            .iter()
            .map(PathBuf::as_path)
            .filter(|folder| folder.symlink_metadata().is_ok())
            .partition(|folder| is_private(folder));
        // One in which nobody serves is no matter: others keep what they download beside it.
        let unsafe_folder = shared.into_iter().find(|it| !descriptions(it).is_empty());
        for file in private.into_iter().flat_map(descriptions) {
            let Some((description, stream, since)) = open(&file) else {
                continue;
            };
            if description.bridge == INTERFACE {
                candidates.push(Candidate {
                    stream,
                    socket: file.with_extension("sock"),
                    pid: description.pid,
                    since,
                });
            } else {
                other_version = Some(description);
            }
        }
        match (candidates.len(), other_version) {
            (0, None) => Err(match unsafe_folder {
                None => NOT_RUNNING.to_owned(),
                Some(folder) => format!(
                    "The folder {} is not yours alone, so who serves there may be somebody else than your Emacs. Remove it, and turn M-x agent-q-mcp-mode on again.",
                    folder.display()
                ),
            }),
            (0, Some(other)) => Err(format!(
                "This agent-q-mcp ({}) doesn't fit the agent-q of the Emacs that runs (process {}, version {}). Run `make build' in agent-q's source tree, restart Emacs, and start this program again.",
                env!("CARGO_PKG_VERSION"),
                other.pid,
                other.version
            )),
            _ => choose(candidates),
        }
    }

    /// Whether an Emacs seems to serve besides the one of the process PID.
    pub fn is_there_another(&self, pid: u64) -> bool {
        let own = format!("emacs-{pid}.json");
        let folders = self.folders.iter().filter(|_| self.socket.is_none());
        folders
            .flat_map(|folder| descriptions(folder))
            .any(|file| file.file_name().is_none_or(|name| name != own.as_str()))
    }
}

/// Whether nobody else could have put a socket into FOLDER, or another folder in its place. Emacs uses no
/// other one.
fn is_private(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok_and(|found| {
        found.is_dir() && found.uid() == getuid().as_raw() && found.mode() & 0o077 == 0
    })
}

fn descriptions(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "json"));
    files
}

/// The Emacs that FILE describes, if it is there.
fn open(file: &Path) -> Option<(Description, UnixStream, SystemTime)> {
    let description = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let since = fs::metadata(file).ok()?.modified().ok()?;
    let stream = UnixStream::connect(file.with_extension("sock")).ok()?;
    Some((description, stream, since))
}

/// The one of CANDIDATES that has most to do with this directory, or is the only one.
fn choose(candidates: Vec<Candidate>) -> Result<Found, String> {
    let several = candidates.len() > 1;
    let others: Vec<String> = candidates.iter().map(|it| it.pid.to_string()).collect();
    let known = affinities(&candidates);
    let silent = known.iter().position(Option::is_none);
    let silent = silent.and_then(|it| others.get(it)).filter(|_| several);
    let (answer, chosen) = known
        .into_iter()
        .zip(candidates)
        .max_by_key(|(affinity, it)| (*affinity, it.since))
        .ok_or(NOT_RUNNING)?;
    if !several && answer.is_none() {
        greet(&chosen.stream)?;
    }
    let affinity = answer.unwrap_or(0);
    if let Some(pid) = silent.filter(|_| affinity < HAS_IMAGE) {
        return Err(format!(
            "Several Emacsen serve agent-q, and the one with process id {pid} does not say whether {} is its own: it is busy, or was stopped (C-z in a terminal; fg continues it). Nothing was done. The next call asks it again.",
            this_directory()
        ));
    }
    if several && affinity == 0 {
        return Err(format!(
            "Several Emacsen serve agent-q (process ids {}), and none of them has an image or a file of {} open, so it is not known which one is meant. Ask the user to open a file of this directory in that one, or to turn M-x agent-q-mcp-mode off in the others.",
            others.join(", "),
            this_directory()
        ));
    }
    Ok(Found {
        name: format!(
            "the Emacs with process id {}{}",
            chosen.pid,
            if several { ", one of several" } else { "" }
        ),
        stream: chosen.stream,
        socket: chosen.socket,
        pid: Some(chosen.pid),
        affinity,
    })
}

/// Whether somebody answers at SOCKET.
pub fn is_there(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok_and(|stream| answers(&stream, PING_TIME))
}

/// Makes sure that somebody answers through STREAM. A stopped Emacs would find there, once it goes on,
/// what was long given up.
fn greet(stream: &UnixStream) -> Result<(), String> {
    match answers(stream, GREETING_TIME) {
        true => Ok(()),
        false => Err(SILENT.to_owned()),
    }
}

fn answers(stream: &UnixStream, time: Duration) -> bool {
    let question = json!({"jsonrpc": "2.0", "id": "agent-q", "method": "ping"});
    said(stream, &question, time).is_some()
}

/// How much each of CANDIDATES has to do with our directory; none for one that doesn't answer. Where there
/// are several, one that is busy is waited for until another one is known to have the image.
fn affinities(candidates: &[Candidate]) -> Vec<Option<i64>> {
    let question = json!({
        "jsonrpc": "2.0",
        "id": "agent-q",
        "method": "agent-q/affinity",
        "params": {"directory": here()},
    });
    let began = Instant::now();
    let mut known = vec![None; candidates.len()];
    for it in candidates {
        // One that can't be asked doesn't answer, either.
        let _ = (&it.stream).write_all(&line_of(&question));
    }
    for patience in [ASKING_TIME, BUSY_TIME] {
        for (it, known) in candidates.iter().zip(&mut known) {
            if known.is_none() {
                let answer = heard(&it.stream, patience.saturating_sub(began.elapsed()));
                *known = answer.map(|it| it["result"]["affinity"].as_i64().unwrap_or(0));
            }
        }
        if candidates.len() == 1 || known.iter().flatten().any(|it| *it >= HAS_IMAGE) {
            break;
        }
    }
    known
}

/// What Emacs says through STREAM to QUESTION within TIME.
fn said(mut stream: &UnixStream, question: &Value, time: Duration) -> Option<Value> {
    stream.write_all(&line_of(question)).ok()?;
    heard(stream, time)
}

/// What Emacs says through STREAM within TIME.
fn heard(stream: &UnixStream, time: Duration) -> Option<Value> {
    // No time at all would mean any.
    let time = time.max(Duration::from_millis(1));
    stream.set_read_timeout(Some(time)).ok()?;
    // Nothing else is said before the first request.
    let answer = read(&mut BufReader::new(stream));
    stream.set_read_timeout(None).ok()?;
    match answer {
        Ok(Read::Line(line)) => serde_json::from_slice(&line).ok(),
        _ => None,
    }
}

/// What Emacs is told before anything else.
pub fn hello() -> Vec<u8> {
    line_of(&json!({
        "jsonrpc": "2.0",
        "method": "agent-q/hello",
        "params": {"directory": here(), "bridge": INTERFACE},
    }))
}

/// The directory that we work in, for a sentence.
pub fn this_directory() -> String {
    here().unwrap_or_else(|| "this directory, which is gone,".to_owned())
}

/// The directory that we work in, unless it is gone.
pub fn here() -> Option<String> {
    Some(env::current_dir().ok()?.to_string_lossy().into_owned())
}
