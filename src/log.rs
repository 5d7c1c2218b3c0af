// SPDX-License-Identifier: GPL-3.0-or-later
//! The core's log: a file of the user's alone, and how much goes into it. Turns, requests and calls
//! are spans, of the level that is noted longest, so each line says whose it is; errors stand there
//! with all that caused them.

use std::error::Error;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use once_cell::sync::OnceCell;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, reload};

/// Why the log is not where it was wanted.
#[derive(Debug, thiserror::Error)]
#[error("agent-q can't write its log {path}: {source}")]
pub struct LogError {
    path: PathBuf,
    source: io::Error,
}

/// An unknown log level.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a level of the log; the levels are off, error, warn, info, debug and trace.")]
pub struct UnknownLevel(String);

static LOG: OnceCell<PathBuf> = OnceCell::new();
static LOG_TROUBLE: OnceCell<LogError> = OnceCell::new();

/// Tells the user something.
type Tell = Box<dyn FnOnce(String) + Send>;

/// Who tells the user that the log can't be written, until that was done.
static TELL_OF_LOG: Mutex<Option<Tell>> = Mutex::new(None);

static LEVEL: Mutex<LevelFilter> = Mutex::new(LevelFilter::INFO);
static RELOAD: OnceCell<reload::Handle<LevelFilter, Registry>> = OnceCell::new();

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The log file, once there is one.
pub fn file() -> Option<&'static Path> {
    LOG.get().map(PathBuf::as_path)
}

/// Why the log is not where it was wanted, or nothing.
pub fn trouble() -> Option<&'static LogError> {
    LOG_TROUBLE.get()
}

/// Notes what is of NAME's level or more serious from now on; with "off", nothing.
///
/// # Errors
///
/// When there is no such level.
pub fn set_level(name: &str) -> Result<(), UnknownLevel> {
    let level: LevelFilter = name.parse().map_err(|_| UnknownLevel(name.to_owned()))?;
    *held(&LEVEL) = level;
    if let Some(handle) = RELOAD.get() {
        // It fails only where the subscriber is gone.
        let _ = handle.reload(level);
    }
    Ok(())
}

/// An error with what caused it, and what caused that, to the last.
pub struct Causes<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// Opens PATH for appending, readable by its owner alone; its folder is made. It can be read, too:
/// to see how the last line ends.
///
/// # Errors
///
/// When the folder can't be made, or the file can't be opened.
pub fn append_to(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        create_private_folder(folder)?;
    }
    private(OpenOptions::new().create(true).read(true).append(true)).open(path)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Where PATH can't be written, the log is among the temporary files, or nowhere: a core that can't
/// keep one is of use all the same.
pub fn open(path: &Path) {
    match append_to(path) {
        Ok(file) => log_into(file, path.to_owned()),
        Err(source) => {
            let path = path.to_owned();
            let _ = LOG_TROUBLE.set(LogError { path, source });
            if let Ok((file, path)) = temporary_log() {
                log_into(file, path);
            }
        }
    }
}

/// A new file, never one that somebody put there.
fn temporary_log() -> io::Result<(File, PathBuf)> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let name = format!(
        "agent-q-{}-{}.log",
        std::process::id(),
        now.unwrap_or_default().as_millis()
    );
    let path = std::env::temp_dir().join(name);
    let file = private(OpenOptions::new().create_new(true).append(true)).open(&path)?;
    Ok((file, path))
}

fn log_into(file: File, path: PathBuf) {
    let (level, handle) = reload::Layer::new(*held(&LEVEL));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Mutex::new(LogFile(file)))
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false);
    // A host program that has set one already keeps it.
    let _ = tracing::subscriber::set_global_default(
        tracing_subscriber::registry().with(level).with(lines),
    );
    let _ = RELOAD.set(handle);
    let _ = LOG.set(path);
}

/// The log file. What can't be written to it is dropped: an error would be printed to stderr, which
/// is the user's screen in a terminal Emacs.
struct LogFile(File);

impl io::Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = io::Write::write_all(&mut self.0, bytes) {
            tell_of_trouble(&error);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Has TELL called once, with a sentence for the user, when the log can't be written.
pub fn on_trouble(tell: impl FnOnce(String) + Send + 'static) {
    *held(&TELL_OF_LOG) = Some(Box::new(tell));
}

fn tell_of_trouble(error: &io::Error) {
    let tell = held(&TELL_OF_LOG).take();
    if let Some(tell) = tell {
        let path = file().map_or_else(String::new, |path| path.display().to_string());
        tell(format!(
            "agent-q can't write its log {path}: {error}. What happens is not noted there until there is room."
        ));
    }
}

fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
