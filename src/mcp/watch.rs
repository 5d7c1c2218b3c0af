// SPDX-License-Identifier: GPL-3.0-or-later
//! Noticing that somebody removed the socket's file, as programs do that tidy folders up: nobody could
//! connect any more, and nothing would say so. The system wakes us for that; nothing is polled.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};

use tokio::net::unix::pipe::Receiver;

/// A look-out for the loss of a socket and of the file beside it.
pub struct SocketWatch {
    files: [PathBuf; 2],
    losses: Option<Receiver>,
}

impl SocketWatch {
    /// Watches SOCKET, which is there, and its description. Where the system has no such service,
    /// nothing is ever noticed, and the doctor says what to do.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        let folder = socket.parent().unwrap_or(socket);
        let losses = losses(folder)
            .inspect_err(|error| tracing::info!("the socket's folder is not watched: {error}"))
            .ok();
        Self {
            files: [socket.to_owned(), socket.with_extension("json")],
            losses,
        }
    }

    /// Watches nothing any more: another loss would not be mended either.
    pub fn give_up(&mut self) {
        self.losses = None;
    }

    /// Waits until one of the files is gone.
    pub async fn gone(&self) {
        let Some(losses) = &self.losses else {
            return pending().await;
        };
        while self.files.iter().all(|file| file.exists()) {
            if let Err(error) = told(losses).await {
                tracing::info!("the socket's folder is not watched any more: {error}");
                return pending().await;
            }
        }
    }
}

/// What is told of the losses of FOLDER.
#[cfg(target_os = "linux")]
fn losses(folder: &Path) -> io::Result<Receiver> {
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let losses = WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    inotify::add_watch(&events, folder, losses | WatchFlags::ONLYDIR)?;
    // It is no pipe, but is read like one.
    Receiver::from_owned_fd_unchecked(events)
}

#[cfg(not(target_os = "linux"))]
fn losses(_folder: &Path) -> io::Result<Receiver> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Waits until LOSSES tell of one since the last time.
async fn told(losses: &Receiver) -> io::Result<()> {
    // What was lost is looked for, not read here.
    let mut events = [0_u8; 4096];
    loop {
        losses.readable().await?;
        match losses.try_read(&mut events) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
