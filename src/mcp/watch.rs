// SPDX-License-Identifier: GPL-3.0-or-later
//! Noticing that somebody removed the socket's file, as programs do that tidy folders up: nobody could
//! connect any more, and nothing would say so. The system wakes us for that; nothing is polled.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};

/// A look-out for the loss of a socket and of the file beside it.
pub struct SocketWatch {
    files: [PathBuf; 2],
    system: Option<system::Folder>,
}

impl SocketWatch {
    /// Watches SOCKET, which is there, and its description. Where the system has no such service,
    /// nothing is ever noticed, and the doctor says what to do.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        let folder = socket.parent().unwrap_or(socket);
        let system = system::Folder::watch(folder)
            .inspect_err(|error| tracing::info!("the socket's folder is not watched: {error}"))
            .ok();
        Self {
            files: [socket.to_owned(), socket.with_extension("json")],
            system,
        }
    }

    /// Watches nothing any more: another loss would not be mended either.
    pub fn give_up(&mut self) {
        self.system = None;
    }

    /// Waits until one of the files is gone.
    pub async fn gone(&self) {
        let Some(system) = &self.system else {
            return pending().await;
        };
        while self.files.iter().all(|file| file.exists()) {
            if let Err(error) = system.changed().await {
                tracing::info!("the socket's folder is not watched any more: {error}");
                return pending().await;
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Path, io};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use tokio::net::unix::pipe::Receiver;

    /// A folder whose losses the system tells of.
    pub struct Folder(Receiver);

    impl Folder {
        pub fn watch(folder: &Path) -> io::Result<Self> {
            let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let losses = WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF;
            inotify::add_watch(&events, folder, losses | WatchFlags::ONLYDIR)?;
            // It is no pipe, but is read like one.
            Receiver::from_owned_fd_unchecked(events).map(Self)
        }

        /// Waits until something was lost since the last time.
        pub async fn changed(&self) -> io::Result<()> {
            // What was lost is looked for, not read here.
            let mut events = [0_u8; 4096];
            loop {
                self.0.readable().await?;
                match self.0.try_read(&mut events) {
                    Ok(_) => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Path, io};

    pub struct Folder;

    impl Folder {
        pub fn watch(_folder: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub async fn changed(&self) -> io::Result<()> {
            std::future::pending().await
        }
    }
}
