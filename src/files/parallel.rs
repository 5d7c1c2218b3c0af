// SPDX-License-Identifier: GPL-3.0-or-later
//! Walking a ground with all processors: threads that share folders, and long lists of files, out
//! among each other.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Stop;
use super::patterns::Ignored;
use super::walk::{Ground, Walk, WalkedEntry, WalkedKind, give_way, list};

/// The most threads that walk.
const MOST_THREADS: usize = 12;
/// How many files of one folder a thread keeps for itself.
const BATCH: usize = 64;

/// Something that a thread can do.
enum Job {
    Folder(PathBuf, Ignored),
    Files(Arc<OwnedFd>, Arc<PathBuf>, Vec<CString>, Ignored),
}

#[derive(Default)]
struct Board {
    jobs: Vec<Job>,
    /// How many threads have a job, and may come to more.
    busy: usize,
    ended: bool,
}

/// What the threads share.
#[derive(Default)]
struct Crew {
    board: Mutex<Board>,
    changed: Condvar,
}

impl Ground {
    /// Has each file of the ground visited by one of several visitors, which VISITOR makes, in no order,
    /// until one of them or STOP says that it ends.
    pub fn files_side_by_side<V>(&self, visitor: impl Fn() -> V + Sync, stop: Stop<'_>)
    where
        V: FnMut(&WalkedEntry<'_>) -> Walk,
    {
        let crew = Crew::default();
        crew.board()
            .jobs
            .push(Job::Folder(self.root().to_owned(), self.ignored.clone()));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(MOST_THREADS) {
                scope.spawn(|| {
                    give_way();
                    let mut visit = visitor();
                    let mut visit = |entry: &WalkedEntry<'_>| match stop() {
                        true => Walk::Ends,
                        false => visit(entry),
                    };
                    while let Some(job) = crew.next() {
                        let turn = JobGuard(&crew);
                        if stop() || self.perform(job, &crew, &mut visit) == Walk::Ends {
                            crew.board().ended = true;
                        }
                        drop(turn);
                    }
                });
            }
        });
    }

    fn perform(
        &self,
        job: Job,
        crew: &Crew,
        visit: &mut dyn FnMut(&WalkedEntry<'_>) -> Walk,
    ) -> Walk {
        match job {
            Job::Files(folder, path, names, ignored) => {
                self.visit_files((&folder, &path), &names, &ignored, visit)
            }
            Job::Folder(mut path, ignored) => {
                let Ok(folder) = self.open_folder(self.relative(&path)) else {
                    return Walk::On;
                };
                let listing = list(&folder);
                let ignored = ignored.within(&path, &folder, "".as_ref(), listing.own);
                let mut files = Vec::new();
                let mut jobs = Vec::new();
                for (name, kind) in listing.names {
                    match kind {
                        WalkedKind::File => files.push(name),
                        WalkedKind::Folder => {
                            use std::os::unix::ffi::OsStrExt;
                            path.push(std::ffi::OsStr::from_bytes(name.to_bytes()));
                            if self.wants(&path, kind, &ignored) {
                                jobs.push(Job::Folder(path.clone(), ignored.clone()));
                            }
                            path.pop();
                        }
                        WalkedKind::Link | WalkedKind::Special => {}
                    }
                }
                let rest = files.split_off(files.len().min(BATCH));
                let (folder, path) = (Arc::new(folder), Arc::new(path));
                // Taken before other folders are, so that few are open at a time.
                jobs.extend(rest.chunks(BATCH).map(|names| {
                    let (folder, path) = (Arc::clone(&folder), Arc::clone(&path));
                    Job::Files(folder, path, names.to_vec(), ignored.clone())
                }));
                crew.add(jobs);
                self.visit_files((&folder, &path), &files, &ignored, visit)
            }
        }
    }
}

impl Crew {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, jobs: Vec<Job>) {
        if !jobs.is_empty() {
            self.board().jobs.extend(jobs);
            self.changed.notify_all();
        }
    }

    /// A job, once there is one; none when all is done.
    fn next(&self) -> Option<Job> {
        let mut board = self.board();
        loop {
            if board.ended {
                return None;
            }
            if let Some(job) = board.jobs.pop() {
                board.busy += 1;
                return Some(job);
            }
            if board.busy == 0 {
                return None;
            }
            board = self
                .changed
                .wait(board)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A job that a thread has; over however it ends.
struct JobGuard<'c>(&'c Crew);

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        let mut board = self.0.board();
        board.busy -= 1;
        board.ended |= std::thread::panicking();
        if board.ended || board.busy == 0 {
            drop(board);
            self.0.changed.notify_all();
        }
    }
}
