// SPDX-License-Identifier: GPL-3.0-or-later
//! Samples of searching and reading, a line each: a name and seconds; beside ripgrep where it
//! is installed, or else grep and find. `cargo run --release --example bench_files`, or `make bench`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for a terminal"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agent_q_core::files::grep::{Grep, grep};
use agent_q_core::files::path::PathPolicy;
use agent_q_core::files::read::{Window, read_page};
use agent_q_core::files::search::{FileSearch, search_files};

const FILES: u32 = 50_000;
const ROUNDS: usize = 7;

/// Makes the tree in the folder that is named, and leaves it there; without a name in one that goes.
fn main() {
    let named = std::env::args().nth(1);
    let passing = tempfile::TempDir::new().expect("a folder for the files");
    let folder = match &named {
        Some(name) => Path::new(name),
        None => passing.path(),
    };
    fs::create_dir_all(folder).expect("the folder");
    make_tree(folder);
    searching(folder);
    reading(passing.path());
}

/// 50,000 files of about 2 KB in 1,000 folders, like sources; one in fifty has a match.
fn make_tree(root: &Path) {
    for number in 0..FILES {
        let folder = root.join(format!(
            "system-{:02}/module-{:02}",
            number % 40,
            number / 40 % 25
        ));
        if number < 1000 {
            fs::create_dir_all(&folder).expect("a folder");
        }
        let mut text = String::new();
        for line in 0..40 {
            let _ = writeln!(
                text,
                "(defun function-{number}-{line} (first second) (list first second))"
            );
        }
        if number % 50 == 0 {
            let _ = writeln!(text, "(needle-{number} :found)");
        }
        let ending = if number % 3 == 0 { "lisp" } else { "txt" };
        fs::write(folder.join(format!("file-{number}.{ending}")), text).expect("a file");
    }
}

fn searching(root: &Path) {
    let policy = PathPolicy::new(root, None).expect("a policy");
    let top = policy.judge("").resolved().expect("the root");
    let never = || false;
    for (name, pattern) in [
        ("some", "needle-[0-9]+"),
        ("few", "function-4999[0-9]-3 "),
        ("all", "second\\)\\)"),
        ("none", "no such text"),
    ] {
        let arguments = ["--smart-case", "--line-number", "--no-heading", pattern];
        let beside = ["-rnE", pattern, "."];
        let theirs = if installed("rg") {
            command("rg", &arguments, root)
        } else {
            command("grep", &beside, root)
        };
        let ours = || grep(&policy, &top, &Grep::new(pattern), &never).map(|it| it.matches);
        beside_each_other(&format!("files.grep.{name}"), "rg", ours, theirs);
    }
    for (name, pattern) in [("names", "*.lisp"), ("paths", "system-0*/**/file-1*.txt")] {
        let search = FileSearch::new(pattern);
        let theirs = if installed("rg") {
            command("rg", &["--files", "--glob", pattern], root)
        } else {
            command("find", &[".", "-type", "f", "-path", pattern], root)
        };
        let ours = || search_files(&policy, &top, &search, &never).map(|it| it.more);
        beside_each_other(&format!("files.search.{name}"), "rg", ours, theirs);
    }
}

fn reading(root: &Path) {
    let mut file = fs::File::create(root.join("large.log")).expect("a file");
    let chunk: String = (0..10_000)
        .map(|line| format!("{line:05} some words of a log that nobody reads\n"))
        .collect();
    let mut lines = 0;
    while file.metadata().expect("its size").len() < 100 << 20 {
        file.write_all(chunk.as_bytes()).expect("space");
        lines += 10_000;
    }
    let policy = PathPolicy::new(root, None).expect("a policy");
    let target = policy.judge("large.log").resolved().expect("the file");
    for (name, first) in [("start", 1), ("middle", lines / 2), ("end", lines - 100)] {
        let window = Window::new(Some(first), Some(100)).expect("a window");
        let last = first + 99;
        let script = format!("{first},{last}p;{last}q");
        let theirs = command("sed", &["-n", &script, "large.log"], root);
        let ours = || read_page(&target, window).map(|page| page.lines.len());
        beside_each_other(&format!("files.read.{name}"), "sed", ours, theirs);
    }
}

/// Prints samples of NAME for WORK, and of NAME with BASELINE for THEIRS, taken in turns. The first
/// of each fills the caches.
fn beside_each_other<T, E: std::fmt::Debug>(
    name: &str,
    baseline: &str,
    mut work: impl FnMut() -> Result<T, E>,
    mut theirs: Command,
) {
    for round in 0..=ROUNDS {
        let ours = timed(|| {
            std::hint::black_box(work()).expect("the work to be possible");
        });
        let beside = timed(|| {
            theirs.status().expect("the baseline's program");
        });
        if round > 0 {
            sample(name, ours);
            sample(&format!("{name}.{baseline}"), beside);
        }
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn sample(name: &str, time: Duration) {
    println!("{name} {:.9}", time.as_secs_f64());
}

fn installed(program: &str) -> bool {
    let version = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

fn command(program: &str, arguments: &[&str], root: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(root)
        .stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}
