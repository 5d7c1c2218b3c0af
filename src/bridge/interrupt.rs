// SPDX-License-Identifier: GPL-3.0-or-later
//! Ending what Emacs does without an end of its own: matching a regular expression hears nothing but
//! input, and a signal of the user's counts as such.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::runtime::held;

/// The interruptions to come. One whose sender goes does not come.
static COMING: LazyLock<Mutex<HashMap<i64, Sender<()>>>> = LazyLock::new(Mutex::default);

/// Interrupts Emacs after DELAY, unless the number that this returns is taken back before.
pub fn after(delay: Duration) -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let (sender, receiver) = channel();
    held(&COMING).insert(number, sender);
    let waiting = std::thread::Builder::new().name("agent-q-interrupt".to_owned());
    let started = waiting.spawn(move || {
        if receiver.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
            // Emacs has had a handler for it since it started.
            let _ = kill_process(getpid(), Signal::USR1);
        }
    });
    if started.is_err() {
        take_back(number);
    }
    number
}

/// Has the interruption NUMBER not come, if it hasn't yet.
pub fn take_back(number: i64) {
    held(&COMING).remove(&number);
}
