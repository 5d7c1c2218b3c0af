// SPDX-License-Identifier: GPL-3.0-or-later
//! The audit log where it can't be written, where a line of it is torn, and where calls are long.

use std::path::Path;

use crate::executor_bench::*;

/// A device to which nothing can be written, as if its disk were full. Systems without it skip.
fn full_disk() -> Option<AuditLog> {
    let full = Path::new("/dev/full");
    full.exists().then(|| AuditLog::open(full))
}

fn troubles(bench: &Bench) -> Vec<String> {
    bench.emacs.collect(|event| match event {
        Event::Trouble { message } => Some(message.clone()),
        _ => None,
    })
}

#[tokio::test]
async fn what_the_log_cant_note_does_not_run() {
    let Some(full) = full_disk() else { return };
    let mut bench = bench(Approval::Ask);
    bench.executor.audit = Arc::new(full);
    let ran = Arc::new(AtomicUsize::new(0));
    for (name, level) in [
        ("look", SafetyLevel::Safe),
        ("change", SafetyLevel::Cautious),
        ("erase", SafetyLevel::Dangerous),
    ] {
        let ran = Arc::clone(&ran);
        bench.tool(name, level, move |_| {
            ran.fetch_add(1, Ordering::SeqCst);
            Ok("done".to_owned())
        });
    }
    let calls =
        ["look", "change", "change", "erase"].map(|name| call(name, name, json!({"text": "x"})));
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        bench.executor.approvals.decide(key, Decision::Approved);
    });
    assert_eq!(ran.load(Ordering::SeqCst), 1, "only what changes nothing");
    assert_eq!(told(&results[0]).2, "done");
    for result in &results[1..] {
        assert_eq!(result.outcome, CallOutcome::Failed);
        assert_eq!(
            result.content,
            "The call was not run, because the audit log /dev/full can't be written: No space left on device (os error 28). Make room for it, then try again."
        );
    }
    let troubles = troubles(&bench);
    assert_eq!(troubles.len(), 1, "{troubles:?}");
    assert!(
        troubles[0].starts_with("A line is missing in the audit log /dev/full, "),
        "{troubles:?}"
    );
}

#[tokio::test]
async fn a_torn_line_takes_no_other_along() {
    let bench = bench(Approval::None);
    bench.echo("change", SafetyLevel::Cautious);
    for _ in 0..2 {
        // As a full disk, or an Emacs that died, leaves it.
        let torn = std::fs::read(&bench.audit_file).unwrap();
        std::fs::write(
            &bench.audit_file,
            [
                torn.as_slice(),
                br#"{"time":"2026-01-01T00:00:00.000Z","step":"sta"#,
            ]
            .concat(),
        )
        .unwrap();
        bench
            .run(&[call("a", "change", json!({"text": "x"}))])
            .await;
    }
    let text = std::fs::read_to_string(&bench.audit_file).unwrap();
    let whole: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let steps: Vec<&str> = whole
        .iter()
        .map(|it| it["step"].as_str().unwrap())
        .collect();
    assert_eq!(steps, ["started", "finished", "started", "finished"]);
    assert_eq!(text.lines().count(), 6);
}

#[tokio::test]
async fn long_arguments_are_cut_in_the_log_alone() {
    let bench = bench(Approval::None);
    bench.tool("change", SafetyLevel::Cautious, |arguments| {
        Ok(arguments.required_text("text").len().to_string())
    });
    let long = "x".repeat(2_000_000);
    let results = bench
        .run(&[call("a", "change", json!({"text": long}))])
        .await;
    assert_eq!(told(&results[0]).2, "2000000", "the tool has all of them");
    let text = std::fs::read_to_string(&bench.audit_file).unwrap();
    assert_eq!(bench.audited().len(), 2);
    for line in text.lines() {
        assert!(line.len() < 10_000, "{} bytes", line.len());
        assert!(line.contains("more bytes left out"));
    }
}
