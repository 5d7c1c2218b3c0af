// SPDX-License-Identifier: GPL-3.0-or-later
//! Files that are swapped by another program while tools use them: the place that was judged is the
//! place that is used, so nothing outside the project is told or written without asking.
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, unused_imports, reason = "the race is for Linux")
)]

#[path = "../support/executor_bench.rs"]
mod executor_bench;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use agent_q_core::protocol::{EmacsRequest, ImageRequest};
use agent_q_core::workspace::{ProjectSettings, Workspace};
use executor_bench::*;
use futures_util::future::BoxFuture;

/// A user who agrees to all that stays inside the project, and to nothing else.
#[derive(Default)]
struct Careful {
    approvals: OnceLock<Arc<Approvals>>,
}

impl Emacs for Careful {
    fn emit(&self, event: Event) {
        if let Event::ApprovalRequested { call, reason, .. } = event {
            let decision = match reason.contains("outside the project") {
                true => Decision::Denied(None),
                false => Decision::Approved,
            };
            let approvals = Arc::clone(self.approvals.get().unwrap());
            tokio::spawn(async move { approvals.decide(call, decision) });
        }
    }

    fn request(&self, _: SessionId, request: EmacsRequest) -> BoxFuture<'static, EmacsReply> {
        let reply = match request {
            // No buffer visits the file.
            EmacsRequest::Operation { .. } => EmacsReply::done("null".to_owned()),
            // It knows no systems, whose sources could be read.
            EmacsRequest::Image(ImageRequest { operation, .. }) if operation == "source-places" => {
                EmacsReply::done("(:outcome :missed :message \"none\")".to_owned())
            }
            EmacsRequest::Image(ImageRequest { operation, .. }) => panic!("{operation}"),
            _ => EmacsReply::done("null".to_owned()),
        };
        Box::pin(async move { reply })
    }
}

/// Exchanges ONE and OTHER, again and again, until ENDED.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path, ended: &AtomicBool) -> usize {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let mut count = 0;
    while !ended.load(Ordering::Relaxed) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
        count += 1;
        for _ in 0..count % 7 * 100 {
            std::hint::spin_loop();
        }
    }
    count
}

/// A project whose folder `src` has an inside, and a folder outside of it with other names and texts.
fn project(base: &Path) {
    for (folder, mark) in [("project/src", "inside"), ("outside", "SECRET")] {
        let folder = base.join(folder);
        fs::create_dir_all(folder.join(format!("deep-{mark}"))).unwrap();
        fs::create_dir_all(folder.join("deep")).unwrap();
        for name in ["file.lisp", "deep/file.lisp"] {
            fs::write(folder.join(name), format!("(needle {mark:?})\n")).unwrap();
        }
        fs::write(folder.join(format!("name-{mark}.lisp")), "(needle)\n").unwrap();
    }
    std::os::unix::fs::symlink(base.join("outside"), base.join("project/link")).unwrap();
}

fn race_call(number: usize) -> ToolCall {
    let path = ["src", ".", "src/deep"][number / 6 % 3];
    let (name, arguments) = match number % 6 {
        0 => ("read_file", json!({"path": "src/file.lisp"})),
        1 => ("grep_project", json!({"pattern": "needle", "path": path})),
        2 => ("list_directory", json!({"path": path})),
        3 => ("directory_tree", json!({"path": path})),
        4 => ("search_files", json!({"pattern": "*", "path": path})),
        _ => (
            "create_file",
            json!({"path": format!("src/new-{number}.txt"), "content": "new"}),
        ),
    };
    call(&number.to_string(), name, arguments)
}

#[cfg(not(target_os = "linux"))]
#[test]
fn what_was_judged_is_what_is_used() {
    eprintln!("Not tested here: only Linux exchanges two names at once.");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_judged_is_what_is_used() {
    const CALLS: usize = 2000;
    let base = tempfile::TempDir::new().unwrap();
    let base = base.path().canonicalize().unwrap();
    project(&base);
    let emacs = Arc::new(Careful::default());
    let mut bench = bench(Approval::Ask);
    assert!(
        emacs
            .approvals
            .set(Arc::clone(&bench.executor.approvals))
            .is_ok()
    );
    bench.executor.emacs = emacs;
    let workspace = Workspace::default();
    workspace.set_ground(&ProjectSettings {
        root: Some(base.join("project").to_string_lossy().into_owned()),
        private: None,
    });
    bench.batch.workspace = Arc::new(workspace);
    agent_q_core::builtin::register(&bench.batch.tools);

    let ended = Arc::new(AtomicBool::new(false));
    let swapping = std::thread::spawn({
        let (ended, project) = (Arc::clone(&ended), base.join("project"));
        move || exchange(&project.join("src"), &project.join("link"), &ended)
    });
    let mut succeeded = [0; 6];
    for number in 0..CALLS {
        let results = bench.run(&[race_call(number)]).await;
        let result = &results[0];
        // A link's own text may be told: it is in the project.
        let told = result
            .content
            .replace(&format!("-> {}", base.join("outside").display()), "");
        assert!(!told.contains("SECRET"), "{number}: {told}");
        assert!(!result.content.contains("a bug"), "{}", result.content);
        if result.outcome == CallOutcome::Succeeded {
            succeeded[number % 6] += 1;
        }
    }
    ended.store(true, Ordering::Relaxed);
    let swaps = swapping.join().unwrap();
    let outside: Vec<_> = fs::read_dir(base.join("outside"))
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    assert_eq!(outside.len(), 4, "{outside:?}");
    // The race was one, and calls that had luck did their work.
    assert!(swaps > CALLS, "{swaps}");
    assert!(succeeded.iter().all(|&it| it > 0), "{succeeded:?}");
    eprintln!("{swaps} swaps, succeeded by tool: {succeeded:?}");
}
