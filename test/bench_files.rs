// SPDX-License-Identifier: GPL-3.0-or-later
//! How long searching, reading and diffing take, beside ripgrep when it is installed.
//! Run it with `cargo run --release --example bench_files`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agent_q_core::diff::{CONTEXT, Diff, apply, near_matches};
use agent_q_core::files::grep::{Grep, grep};
use agent_q_core::files::path::PathPolicy;
use agent_q_core::files::read::{Window, read_page};
use agent_q_core::files::search::{FileSearch, search_files};

const FILES: u32 = 50_000;
const ROUNDS: usize = 7;

fn main() {
    let folder = tempfile::TempDir::new().expect("a folder for the files");
    make_tree(folder.path());
    searching(folder.path());
    reading(folder.path());
    diffing();
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
    for pattern in [
        "needle-[0-9]+",
        "function-4999[0-9]-3 ",
        "second\\)\\)",
        "no such text",
    ] {
        let ours = best(|| grep(&policy, &top, &Grep::new(pattern), &never).map(|it| it.matches));
        let theirs = rg(
            root,
            &["--smart-case", "--line-number", "--no-heading", pattern],
        );
        report(&format!("grep_project {pattern:?}"), ours, theirs);
    }
    for pattern in ["*.lisp", "system-0*/**/file-1*.txt"] {
        let search = FileSearch::new(pattern);
        let ours = best(|| search_files(&policy, &top, &search, &never).map(|it| it.more));
        let theirs = rg(root, &["--files", "--glob", pattern]);
        report(&format!("search_files {pattern:?}"), ours, theirs);
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
        let took = best(|| read_page(&target, window).map(|page| page.lines.len()));
        report(
            &format!("read_file, 100 lines of 100 MB, {name}"),
            took,
            None,
        );
    }
}

fn diffing() {
    let lines = |seed: u32| -> Vec<String> {
        (0..20_000u32)
            .map(|line| format!("line {} of text\n", line.wrapping_mul(seed) % 5003))
            .collect()
    };
    let original = lines(7);
    let mut changed = original.clone();
    for index in (0..20_000).step_by(40) {
        changed[index] = format!("changed {index}\n");
    }
    let mut shuffled = original.clone();
    shuffled.sort();
    let other: Vec<String> = (0..20_000).map(|line| format!("other {line}\n")).collect();
    let (original, changed) = (original.concat(), changed.concat());
    for (name, modified) in [
        ("500 changes", &changed),
        ("all different", &other.concat()),
        ("lines sorted", &shuffled.concat()),
        ("other order", &lines(11).concat()),
    ] {
        let took = best(|| {
            Ok::<_, ()>(
                Diff::between(&original, modified, CONTEXT)
                    .unified("a", "b")
                    .len(),
            )
        });
        report(&format!("diff of 20,000 lines, {name}"), took, None);
    }
    let diff = Diff::between(&original, &changed, CONTEXT);
    let took = best(|| apply(&original, diff.hunks.iter().step_by(2)).map(|text| text.len()));
    report(
        &format!("apply half of {} hunks", diff.hunks.len()),
        took,
        None,
    );
    let took =
        best(|| Ok::<_, ()>(near_matches(&original, "line 12 of txet\nline 19 of text\n").len()));
    report("near matches in 20,000 lines", took, None);
}

/// The best of several rounds; the first fills the caches.
fn best<T, E: std::fmt::Debug>(mut work: impl FnMut() -> Result<T, E>) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let result = std::hint::black_box(work());
        best = best.min(start.elapsed());
        result.expect("the work to be possible");
    }
    best
}

fn rg(root: &Path, arguments: &[&str]) -> Option<Duration> {
    let run = || {
        Command::new("rg")
            .args(arguments)
            .arg(root)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    };
    run().ok()?;
    Some(best(run))
}

fn report(name: &str, ours: Duration, theirs: Option<Duration>) {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    match theirs {
        Some(theirs) => println!(
            "{name:<48} {:>8.1} ms  rg {:>8.1} ms  ratio {:.2}",
            milliseconds(ours),
            milliseconds(theirs),
            ours.as_secs_f64() / theirs.as_secs_f64()
        ),
        None => println!("{name:<48} {:>8.1} ms", milliseconds(ours)),
    }
}
