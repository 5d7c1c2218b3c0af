// SPDX-License-Identifier: GPL-3.0-or-later
//! The process of a server that is a program: started in a group of its own, whose standard input and output
//! are the connection, and ended with all that it started.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::settings::ServerCommand;
use crate::builtin::programs::in_own_group;
use crate::runtime::held;

/// How long a server may take to end once its input is closed, and again once it was asked to.
const ENDING: Duration = Duration::from_secs(2);

/// How often is looked whether it has.
const LOOKING: Duration = Duration::from_millis(20);

/// A server's process. Dropped, it is killed with its group.
#[derive(Debug)]
pub(super) struct ServerProcess {
    group: Pid,
    /// None once it was reaped: its number may be another's then.
    child: Mutex<Option<Child>>,
}

/// The ends of a server's pipes that are ours.
pub(super) struct ServerPipes {
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    pub(super) errors: OwnedFd,
}

/// Starts COMMAND. Blocks.
pub(super) fn spawn(command: &ServerCommand) -> io::Result<(ServerProcess, ServerPipes)> {
    let (program, arguments) = command
        .command
        .split_first()
        .ok_or_else(|| io::Error::other("there is no command"))?;
    let mut child = in_own_group(program, &command.directory, &command.environment())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    match (input, output, errors, group) {
        (Some(input), Some(output), Some(errors), Some(group)) => Ok((
            ServerProcess {
                group,
                child: Mutex::new(Some(child)),
            },
            ServerPipes {
                input: input.into(),
                output: output.into(),
                errors: errors.into(),
            },
        )),
        _ => Err(io::Error::other("it has no pipes")),
    }
}

impl ServerProcess {
    /// How it ended, if it did; what it left behind is killed.
    fn ended(&self) -> Option<Option<ExitStatus>> {
        let child = &mut *held(&self.child);
        let Some(running) = child else {
            return Some(None);
        };
        let status = running.try_wait().ok()??;
        // Its number stays taken as long as any of its group lives.
        let _ = kill_process_group(self.group, Signal::KILL);
        *child = None;
        Some(Some(status))
    }

    /// Has it and all that it started end, its input being closed. Says how it ended, if that shows.
    pub(super) async fn end(&self) -> Option<ExitStatus> {
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let Some(signal) = signal {
                self.signal(signal);
            }
            let since = Instant::now();
            while since.elapsed() < ENDING {
                if let Some(status) = self.ended() {
                    return status;
                }
                tokio::time::sleep(LOOKING).await;
            }
        }
        None
    }

    fn signal(&self, signal: Signal) {
        if held(&self.child).is_some() {
            let _ = kill_process_group(self.group, signal);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        if let Some(child) = &mut *held(&self.child) {
            // It was killed, so this does not take long.
            let _ = child.wait();
        }
    }
}

/// Ends PROCESSES, whose input is closed by now, within about PATIENCE. Blocks.
pub(super) fn end_all(processes: &[Arc<ServerProcess>], patience: Duration) {
    for signal in [None, Some(Signal::TERM)] {
        if let Some(signal) = signal {
            processes.iter().for_each(|it| it.signal(signal));
        }
        let since = Instant::now();
        while processes.iter().any(|it| it.ended().is_none()) {
            if since.elapsed() > patience {
                break;
            }
            thread::sleep(LOOKING);
        }
    }
    processes.iter().for_each(|it| it.signal(Signal::KILL));
}
