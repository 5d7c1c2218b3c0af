// SPDX-License-Identifier: GPL-3.0-or-later
//! The threads behind the core: one small tokio runtime, a log file, and a panic hook that keeps
//! bugs off the user's terminal. Nothing here knows of Emacs; `bridge` passes what must be blocked.

use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use futures_util::FutureExt;
use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle, Runtime};

/// The core's tasks mostly wait; what computes or reads files runs on threads of its own. A second
/// worker would be woken for each call only to find nothing to do, which made a call a third slower.
const WORKER_THREADS: usize = 1;

/// An editor must go on after a bug, so a lock that a panic left poisoned is simply taken.
pub fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why the core's threads could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("agent-q could not start its threads: {0}. Close other programs, then try again.")]
    Threads(#[source] io::Error),
}

/// Why the log is not where it was wanted.
#[derive(Debug, thiserror::Error)]
#[error("agent-q can't write its log {path}: {source}")]
pub struct LogError {
    path: PathBuf,
    source: io::Error,
}

static RUNTIME: OnceCell<Handle> = OnceCell::new();
/// Kept apart from the handle, so that shutdown can take it.
static OWNED: Mutex<Option<Runtime>> = Mutex::new(None);
static LOG: OnceCell<PathBuf> = OnceCell::new();
static LOG_TROUBLE: OnceCell<LogError> = OnceCell::new();

/// Tells the user something.
type Tell = Box<dyn FnOnce(String) + Send>;

/// Who tells the user that the log can't be written, until that was done.
static TELL_OF_LOG: Mutex<Option<Tell>> = Mutex::new(None);

/// Starts the threads once; later calls return the same handle.
///
/// `prepare_thread` runs first on every thread of the runtime.
///
/// # Errors
///
/// When the system refuses threads.
pub fn start(log: &Path, prepare_thread: fn()) -> Result<Handle, StartError> {
    RUNTIME
        .get_or_try_init(|| {
            open_log(log);
            log_panics();
            let runtime = Builder::new_multi_thread()
                .worker_threads(WORKER_THREADS)
                .max_blocking_threads(8)
                .thread_name("agent-q")
                .on_thread_start(prepare_thread)
                .enable_io()
                .enable_time()
                .build()
                .map_err(StartError::Threads)?;
            let handle = runtime.handle().clone();
            *held(&OWNED) = Some(runtime);
            Ok(handle)
        })
        .cloned()
}

/// The running threads, if [`start`] was called.
pub fn handle() -> Option<&'static Handle> {
    RUNTIME.get()
}

/// Runs FUTURE on the core's threads; does nothing before [`start`].
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    if let Some(handle) = handle() {
        handle.spawn(future);
    }
}

/// FUTURE, a panic of which is told to REPORT in a sentence for the user.
pub async fn guarded(future: impl Future<Output = ()>, report: impl FnOnce(String)) {
    if let Err(payload) = AssertUnwindSafe(future).catch_unwind().await {
        report(format!(
            "A bug of agent-q's was contained ({}); its log has the details.",
            panic_message(&*payload)
        ));
    }
}

/// Stops the threads without waiting for them: Emacs is exiting and must not be held up.
pub fn shutdown() {
    if let Some(runtime) = held(&OWNED).take() {
        runtime.shutdown_background();
    }
}

/// The log file, once there is one.
pub fn log_file() -> Option<&'static Path> {
    LOG.get().map(PathBuf::as_path)
}

/// Why the log is not where it was wanted, or nothing.
pub fn log_trouble() -> Option<&'static LogError> {
    LOG_TROUBLE.get()
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
fn open_log(path: &Path) {
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
    let subscriber = tracing_subscriber::fmt()
        .with_writer(Mutex::new(LogFile(file)))
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false)
        .finish();
    // A host program that has set one already keeps it.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let _ = LOG.set(path);
}

/// The log file. What can't be written to it is dropped: an error would be printed to stderr, which
/// is the user's screen in a terminal Emacs.
struct LogFile(File);

impl io::Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = io::Write::write_all(&mut self.0, bytes) {
            tell_of_log(&error);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Has TELL called once, with a sentence for the user, when the log can't be written.
pub fn on_log_trouble(tell: impl FnOnce(String) + Send + 'static) {
    *held(&TELL_OF_LOG) = Some(Box::new(tell));
}

fn tell_of_log(error: &io::Error) {
    let tell = held(&TELL_OF_LOG).take();
    if let Some(tell) = tell {
        let path = log_file().map_or_else(String::new, |path| path.display().to_string());
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

/// The default hook prints to stderr, which is the user's screen in a terminal Emacs.
fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        tracing::error!(
            thread = thread.name().unwrap_or("unnamed"),
            "panic: {} at {}\n{}",
            panic_message(info.payload()),
            info.location()
                .map_or_else(|| "unknown".to_owned(), ToString::to_string),
            std::backtrace::Backtrace::force_capture()
        );
    }));
}

/// What a panic said.
#[must_use]
pub fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&'static str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
