// SPDX-License-Identifier: GPL-3.0-or-later
//! Tasks that go on where they are woken: on Emacs's own thread while it is at the core's events,
//! else on the runtime. A tool call is woken by what Emacs hands in, and what it does next is mostly
//! to ask Emacs for more; over the runtime's thread that takes two wake-ups, each of them longer
//! than the work between them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;

use async_task::Runnable;

use crate::runtime::{self, held};

/// What the runtime is to run, in the order in which it was woken: the runtime itself begins with what came
/// last.
static WAITING: Mutex<VecDeque<Runnable>> = Mutex::new(VecDeque::new());

thread_local! {
    /// Whether this thread is going to call [`run_ready`] soon.
    static ATTENDING: Cell<bool> = const { Cell::new(false) };
    static READY: RefCell<VecDeque<Runnable>> = const { RefCell::new(VecDeque::new()) };
}

/// Runs FUTURE, which must neither block nor compute for long; does nothing before the runtime was
/// started.
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    let (runnable, task) = async_task::spawn(future, schedule);
    task.detach();
    runnable.schedule();
}

/// Notes that this thread is at the events: what is woken here goes on here.
pub fn attend() {
    ATTENDING.set(true);
}

/// Runs what can go on, then lets the runtime have what is woken from now on.
pub fn leave() {
    while run_ready() {}
    ATTENDING.set(false);
}

/// Runs the task that was woken first, each as far as it gets; false when there was none.
pub fn run_ready() -> bool {
    let Some(handle) = runtime::handle() else {
        return false;
    };
    let Some(runnable) = READY.with_borrow_mut(VecDeque::pop_front) else {
        return false;
    };
    let _context = handle.enter();
    runnable.run();
    true
}

/// FUTURE, a part of such a task that may compute for long: where Emacs's thread wakes it, it goes on
/// on the runtime.
pub async fn elsewhere<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        if ATTENDING.get() {
            let waker = context.waker().clone();
            runtime::spawn(async move { waker.wake() });
            return Poll::Pending;
        }
        future.as_mut().poll(context)
    })
    .await
}

fn schedule(runnable: Runnable) {
    if ATTENDING.get() {
        READY.with_borrow_mut(|ready| ready.push_back(runnable));
    } else if runtime::handle().is_some() {
        held(&WAITING).push_back(runnable);
        runtime::spawn(async {
            let next = held(&WAITING).pop_front();
            if let Some(runnable) = next {
                runnable.run();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;

    /// Spawns a task that waits to be woken; the receiver gets the thread on which it goes on.
    fn waiting() -> (oneshot::Sender<()>, mpsc::Receiver<thread::ThreadId>) {
        let (wake, woken) = oneshot::channel();
        let (sender, receiver) = mpsc::channel();
        spawn(async move {
            woken.await.expect("it is woken");
            sender.send(thread::current().id()).expect("the test waits");
        });
        (wake, receiver)
    }

    #[test]
    fn a_task_goes_on_where_it_is_woken_while_that_thread_attends() {
        let folder = tempfile::tempdir().expect("a folder");
        runtime::start(&folder.path().join("log"), || ()).expect("the runtime");
        let here = thread::current().id();

        attend();
        let (wake, place) = waiting();
        assert!(run_ready(), "it gets as far as it can");
        assert!(!run_ready());
        wake.send(()).expect("the task waits");
        assert!(place.try_recv().is_err(), "not within the waking");
        leave();
        assert_eq!(place.try_recv(), Ok(here));

        attend();
        let (wake, place) = waiting();
        leave();
        wake.send(()).expect("the task waits");
        assert_ne!(place.recv(), Ok(here), "nobody attends any more");

        let (wake, place) = waiting();
        attend();
        thread::spawn(move || wake.send(()))
            .join()
            .expect("no panic")
            .expect("the task waits");
        assert_ne!(place.recv(), Ok(here), "woken by another thread");
        leave();
    }

    #[test]
    fn what_computes_for_long_goes_on_elsewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        runtime::start(&folder.path().join("log"), || ()).expect("the runtime");
        let here = thread::current().id();
        attend();
        let (sender, receiver) = mpsc::channel();
        let (wake, woken) = oneshot::channel::<()>();
        spawn(async move {
            let told = sender.clone();
            elsewhere(async move {
                told.send(thread::current().id()).expect("the test waits");
                woken.await.expect("it is woken");
                told.send(thread::current().id()).expect("the test waits");
            })
            .await;
            sender.send(thread::current().id()).expect("the test waits");
        });
        while run_ready() {}
        let began = receiver.recv().expect("it begins");
        wake.send(()).expect("the task waits");
        while run_ready() {}
        let went_on = receiver.recv().expect("it goes on");
        assert_ne!(here, began);
        assert_ne!(here, went_on);
        leave();
    }
}
