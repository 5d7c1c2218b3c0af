// SPDX-License-Identifier: GPL-3.0-or-later
//! The pipe that wakes Emacs. It carries one unread byte at most, so that writing never blocks;
//! the events themselves stay in the queue until Emacs drains it.
//! The one file with unsafe code: the descriptor of Emacs's pipe, and the signals of our threads.

#![allow(unsafe_code, reason = "Emacs and the system are asked through C here")]

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::sync::{Arc, Mutex};

use emacs::{Env, Result};
use once_cell::sync::OnceCell;

use crate::event_queue::{Due, EventQueue};
use crate::runtime::{self, held};

static PIPE: Mutex<Option<File>> = Mutex::new(None);
static WAKER: OnceCell<()> = OnceCell::new();

/// Lets the queue wake Emacs through the pipe process PIPE-NAME from now on.
pub fn attach(env: &Env, pipe_name: &str, queue: &Arc<EventQueue>) -> Result<()> {
    let pipe = open_pipe(env, pipe_name)?;
    *held(&PIPE) = Some(pipe);
    // A wake on its way through an older pipe is lost with it.
    queue.ready();
    WAKER.get_or_init(|| runtime::spawn(wake_when_due(Arc::clone(queue))));
    Ok(())
}

async fn wake_when_due(queue: Arc<EventQueue>) {
    loop {
        match queue.due() {
            Due::Never => queue.changed.notified().await,
            Due::Now => wake(&queue),
            Due::At(instant) => {
                tokio::select! {
                    () = tokio::time::sleep_until(instant.into()) => wake(&queue),
                    () = queue.changed.notified() => {}
                }
            }
        }
    }
}

fn wake(queue: &EventQueue) {
    if !queue.claim_wake() {
        return;
    }
    if let Some(pipe) = held(&PIPE).as_mut()
        && let Err(error) = pipe.write_all(b"!")
    {
        // Emacs deleted the process; the next command attaches a new one.
        tracing::warn!("the wake pipe is closed: {error}");
    }
}

/// The write end of the pipe process of that name, not inherited by the user's programs.
///
/// The crate's own `open_channel` hides the descriptor, which has to be marked close-on-exec; so
/// this goes through the raw function table.
fn open_pipe(env: &Env, name: &str) -> Result<File> {
    let raw = env.raw();
    let get_process = CString::new("get-process")?;
    let name = CString::new(name)?;
    // SAFETY: RAW is the environment of the call that Emacs is making right now, on its thread.
    // Every function of the table is there, because the crate has checked the table's size for
    // Emacs 28. A failed call leaves a pending non-local exit, which is checked before the next.
    let descriptor = unsafe {
        let functions = &*raw;
        let (Some(intern), Some(make_string), Some(funcall), Some(open), Some(check)) = (
            functions.intern,
            functions.make_string,
            functions.funcall,
            functions.open_channel,
            functions.non_local_exit_check,
        ) else {
            return Err(emacs::Error::msg("this Emacs has no module channels"));
        };
        let symbol = intern(raw, get_process.as_ptr());
        let mut arguments = [make_string(raw, name.as_ptr(), name.as_bytes().len() as _)];
        let process = funcall(raw, symbol, 1, arguments.as_mut_ptr());
        if check(raw) != 0 {
            return Err(emacs::Error::msg("get-process failed"));
        }
        open(raw, process)
    };
    if descriptor < 0 {
        // The pending exit, "not a pipe process", reaches the caller in Lisp.
        return Err(io::Error::other("the wake process is not a pipe process").into());
    }
    // SAFETY: the descriptor was duplicated for us by open_channel, and nobody else owns it.
    unsafe {
        libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        Ok(File::from_raw_fd(descriptor))
    }
}

/// Keeps signals on Emacs's own thread: its handlers expect to run there, and SIGPIPE would kill a
/// batch Emacs whose server hangs up.
pub fn block_signals() {
    // SAFETY: the set is initialised by sigfillset before it is used, and changing the calling
    // thread's own mask has no other precondition.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(set.as_mut_ptr());
        for synchronous in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL] {
            libc::sigdelset(set.as_mut_ptr(), synchronous);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}
