// SPDX-License-Identifier: GPL-3.0-or-later
//! The folder with the sockets of all Emacsen of a user, which nobody else can open. Beside each socket
//! lies a file that tells our bridge whose it is. A socket whose file was removed is noticed.

use std::fs::{self, DirBuilder, OpenOptions};
use std::future::pending;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, getuid, test_kill_process};
use serde_json::json;
use tokio::net::unix::pipe::Receiver;

/// The number of what passes between the bridge and the server before MCP begins. The bridge has it, too.
pub const BRIDGE_INTERFACE: u64 = 1;

/// Longer names of sockets are refused by the system.
const LONGEST_PATH: usize = 100;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("The folder {folder} for agent-q's socket can't be used: {source}.")]
    Folder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "The folder {folder} for agent-q's socket is not yours alone (owner {owner}, mode {mode:o}). Remove it, or set agent-q-mcp-directory to another one."
    )]
    Shared {
        folder: PathBuf,
        owner: u32,
        mode: u32,
    },
    #[error(
        "The name {0} is too long for a socket. Set agent-q-mcp-directory to a folder with a shorter name."
    )]
    TooLong(PathBuf),
    #[error("The socket {path} can't be opened: {source}.")]
    Bind {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Makes FOLDER, or checks that it is the user's alone.
///
/// # Errors
///
/// When it can't be made, or others could reach into it.
fn secure(folder: &Path) -> Result<(), SocketError> {
    let trouble = |source| SocketError::Folder {
        folder: folder.to_owned(),
        source,
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).map_err(trouble)?;
    // What is at its place must be no link that somebody else put there.
    let found = fs::symlink_metadata(folder).map_err(trouble)?;
    let (owner, mode) = (found.uid(), found.mode() & 0o777);
    if !found.is_dir() || owner != getuid().as_raw() || mode & 0o077 != 0 {
        return Err(SocketError::Shared {
            folder: folder.to_owned(),
            owner,
            mode,
        });
    }
    Ok(())
}

/// Opens the socket of this process in FOLDER, with the file that describes it, and gives its path, too.
///
/// # Errors
///
/// When the folder or the socket can't be used.
pub fn open_socket(folder: &Path) -> Result<(PathBuf, UnixListener), SocketError> {
    secure(folder)?;
    remove_stale(folder);
    let path = socket_in(folder)?;
    let trouble = |source| SocketError::Bind {
        path: path.clone(),
        source,
    };
    // One of a process of the same number that is gone.
    remove(&path);
    let listener = UnixListener::bind(&path).map_err(trouble)?;
    close_to_others(&path).map_err(trouble)?;
    listener.set_nonblocking(true).map_err(trouble)?;
    describe(&path).map_err(trouble)?;
    Ok((path, listener))
}

/// The socket of this process in FOLDER.
///
/// # Errors
///
/// When its name is too long.
fn socket_in(folder: &Path) -> Result<PathBuf, SocketError> {
    let path = folder.join(format!("emacs-{}.sock", std::process::id()));
    match path.as_os_str().len() <= LONGEST_PATH {
        true => Ok(path),
        false => Err(SocketError::TooLong(path)),
    }
}

/// Writes beside SOCKET what the bridge wants to know.
///
/// # Errors
///
/// When the file can't be written.
pub fn describe(socket: &Path) -> io::Result<()> {
    let text = json!({
        "pid": std::process::id(),
        "bridge": BRIDGE_INTERFACE,
        "version": env!("CARGO_PKG_VERSION"),
    });
    let file = socket.with_extension("json");
    let new = socket.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&new)?.write_all(text.to_string().as_bytes())?;
    fs::rename(new, file)
}

/// Lets only the user open SOCKET.
///
/// # Errors
///
/// Those of the system.
fn close_to_others(socket: &Path) -> io::Result<()> {
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))
}

/// Removes SOCKET and what describes it.
pub fn remove(socket: &Path) {
    let _ = fs::remove_file(socket);
    let _ = fs::remove_file(socket.with_extension("json"));
}

/// Removes from FOLDER what Emacsen left there that are not there any more.
fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = path.file_stem().map(|it| it.to_string_lossy().into_owned());
        let number = name.and_then(|name| name.strip_prefix("emacs-")?.parse::<i32>().ok());
        if let Some(pid) = number.and_then(Pid::from_raw)
            && test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
        {
            let _ = fs::remove_file(path);
        }
    }
}

// Programs that tidy up folders remove sockets: nobody could connect any more, and nothing would say so.
// The system wakes us for that; nothing is polled.

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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_folder_is_the_users_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        secure(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(matches!(secure(&folder), Err(SocketError::Shared { .. })));
        let link = place.path().join("link");
        symlink(place.path(), &link).unwrap();
        assert!(matches!(secure(&link), Err(SocketError::Shared { .. })));
        fs::write(place.path().join("file"), "").unwrap();
        assert!(secure(&place.path().join("file")).is_err());
    }

    #[test]
    fn what_dead_emacsen_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let mine = socket_in(place.path()).unwrap();
        let dead = place.path().join("emacs-2147483646.sock");
        for file in [&mine, &dead, &dead.with_extension("json")] {
            fs::write(file, "").unwrap();
        }
        fs::write(place.path().join("other"), "").unwrap();
        remove_stale(place.path());
        let mut left: Vec<PathBuf> = fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        left.sort();
        assert_eq!(left, [mine, place.path().join("other")]);
        let long = place.path().join("x".repeat(120));
        assert!(matches!(socket_in(&long), Err(SocketError::TooLong(_))));
    }
}
