// SPDX-License-Identifier: GPL-3.0-or-later
//! Records exchanges with model servers, for bug reports: a file for each, with the request and an answer
//! that the scripted server plays. Off unless the user names a folder. Keys are never in it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderMap;
use serde_json::{Map, Value, json};

use super::REDACTED;

/// Headers of a response that matter for reading it, and identify nobody.
const HEADERS: [&str; 5] = [
    "content-type",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "location",
];

/// The most that is kept of a response.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// A wait shorter than this is not worth a word.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Longer ones become this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How a response came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It has not, or the reader went away.
    Open,
    Ended,
    /// The connection broke.
    Lost,
}

/// An exchange that goes on. It is written when it is dropped, however it ended.
#[derive(Debug)]
pub struct Recording {
    /// The file to be made, whose name says when the exchange began: that is their order.
    file: PathBuf,
    /// What must not be in it.
    secrets: Vec<String>,
    path: String,
    request: Vec<u8>,
    status: Option<u16>,
    headers: Map<String, Value>,
    pieces: Vec<(Duration, Vec<u8>)>,
    bytes: usize,
    heard: Instant,
    ending: Ending,
}

impl Recording {
    /// Of a request to PATH with a body, for FOLDER.
    #[must_use]
    pub fn begin(folder: &Path, path: &str, request: &[u8], secrets: Vec<String>) -> Self {
        Self {
            file: folder.join(file_name()),
            secrets,
            path: path.to_owned(),
            request: request.to_vec(),
            status: None,
            headers: Map::new(),
            pieces: Vec::new(),
            bytes: 0,
            heard: Instant::now(),
            ending: Ending::Open,
        }
    }

    /// The head of the answer came.
    pub fn head(&mut self, status: u16, headers: &HeaderMap) {
        self.status = Some(status);
        for name in HEADERS {
            if let Some(value) = headers.get(name).and_then(|value| value.to_str().ok()) {
                self.headers
                    .insert(name.to_owned(), self.clean(value).into());
            }
        }
    }

    /// More of its body came.
    pub fn piece(&mut self, bytes: &[u8]) {
        if self.bytes < MAX_BYTES {
            self.bytes += bytes.len();
            self.pieces.push((self.heard.elapsed(), bytes.to_vec()));
        }
        self.heard = Instant::now();
    }

    pub fn end(&mut self) {
        self.ending = Ending::Ended;
    }

    pub fn lose(&mut self) {
        self.ending = Ending::Lost;
    }

    fn clean(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| {
            text.replace(secret, REDACTED)
        })
    }

    /// The file's contents.
    fn document(&self) -> Value {
        let request = self.clean(&String::from_utf8_lossy(&self.request));
        let request: Value = serde_json::from_str(&request).unwrap_or(Value::String(request));
        json!({
            "request": {"path": self.path, "body": request},
            "answer": self.response(),
        })
    }

    /// The answer, as a turn of the scripted server.
    fn response(&self) -> Value {
        let whole: Vec<u8> = self
            .pieces
            .iter()
            .flat_map(|(_, bytes)| bytes.clone())
            .collect();
        match self.status {
            None => json!({"hang_up": true}),
            Some(200) => json!({
                "headers": self.headers,
                "exact": true,
                "steps": self.steps(&whole),
            }),
            Some(status) => {
                let body = self.clean(&String::from_utf8_lossy(&whole));
                let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
                json!({"status": status, "headers": self.headers, "body": body})
            }
        }
    }

    fn steps(&self, whole: &[u8]) -> Vec<Value> {
        let mut steps = Vec::new();
        let text = String::from_utf8_lossy(whole);
        let clean = self.clean(&text);
        if clean == text {
            for (wait, bytes) in &self.pieces {
                if *wait >= SHORTEST_PAUSE && !steps.is_empty() {
                    let wait = (*wait).min(LONGEST_PAUSE).as_millis();
                    steps.push(json!({"pause_ms": u64::try_from(wait).unwrap_or(0)}));
                }
                steps.push(match std::str::from_utf8(bytes) {
                    Ok(text) => json!({"raw": text}),
                    Err(_) => json!({"base64": STANDARD.encode(bytes)}),
                });
            }
        } else {
            // A secret may go over several pieces.
            steps.push(json!({"raw": clean}));
        }
        if self.ending != Ending::Ended {
            steps.push(json!({"cut": true}));
        }
        steps
    }

    fn write(document: &Value, file: &Path) -> std::io::Result<()> {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let text = serde_json::to_string_pretty(document)?;
        options.open(file)?.write_all(text.as_bytes())
    }
}

/// A name that comes after those of exchanges that began before.
fn file_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:013}-{count:04}.json", now.as_millis())
}

impl Drop for Recording {
    fn drop(&mut self) {
        let (document, file) = (self.document(), std::mem::take(&mut self.file));
        let write = move || {
            if let Err(error) = Self::write(&document, &file) {
                tracing::warn!(
                    "an exchange could not be recorded in {}: {error}",
                    file.display()
                );
            }
        };
        // Files are not written on the thread that serves all chats.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }
}
