// SPDX-License-Identifier: GPL-3.0-or-later
//! The threads behind the core: one small tokio runtime. Nothing here knows of Emacs; `bridge`
//! passes what must be blocked.

pub mod on_emacs;

use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::log;

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

static RUNTIME: OnceCell<Handle> = OnceCell::new();
/// Kept apart from the handle, so that shutdown can take it.
static OWNED: Mutex<Option<Runtime>> = Mutex::new(None);

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
            log::open(log);
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
