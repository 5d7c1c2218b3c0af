// SPDX-License-Identifier: GPL-3.0-or-later
//! The executor's promises: one result per call, in call order, whatever happens, and nothing
//! dangerous without the user's word.

use crate::executor_bench::*;

#[tokio::test]
async fn every_call_has_one_result_in_call_order() {
    let bench = bench(Approval::Ask);
    bench.echo("echo", SafetyLevel::Safe);
    bench.tool("fail", SafetyLevel::Cautious, |_| {
        Err(ToolFailure::new("It is broken."))
    });
    bench.tool("burst", SafetyLevel::Safe, |_| panic!("a bug"));
    let cut = ToolCall {
        arguments: CallArguments::Truncated,
        ..call("5", "echo", json!({}))
    };
    let results = bench
        .run(&[
            call("1", "echo", json!({"text": "one"})),
            call("2", "fail", json!({"text": ""})),
            call("3", "ecko", json!({})),
            call("4", "burst", json!({"text": ""})),
            cut,
            call("6", "echo", json!({})),
            call("7", "echo", json!({"text": "seven"})),
        ])
        .await;
    let told: Vec<_> = results.iter().map(told).collect();
    assert_eq!(told[0], ("1", CallOutcome::Succeeded, "one"));
    assert_eq!(told[1], ("2", CallOutcome::Failed, "It is broken."));
    assert_eq!(
        told[2],
        (
            "3",
            CallOutcome::Failed,
            "Unknown tool: ecko. Did you mean echo?"
        )
    );
    assert!(
        told[3]
            .2
            .contains("burst failed because of a bug in agent-q (a bug)")
    );
    assert!(told[4].2.contains("cut off"));
    assert!(told[5].2.starts_with("Missing required field: text"));
    assert_eq!(told[6], ("7", CallOutcome::Succeeded, "seven"));
    let finished = bench.emacs.collect(|event| match event {
        Event::CallFinished { .. } => Some(()),
        _ => None,
    });
    assert_eq!(finished.len(), 7);
}

#[tokio::test]
async fn dangerous_calls_fail_when_nobody_can_be_asked() {
    let bench = bench(Approval::None);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    bench.tool("erase", SafetyLevel::Dangerous, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(String::new())
    });
    let results = bench.run(&[call("1", "erase", json!({"text": "x"}))]).await;
    assert_eq!(results[0].outcome, CallOutcome::Failed);
    assert!(results[0].content.contains("approval"));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

async fn answered(decision: Decision) -> (CallResult, usize) {
    let bench = bench(Approval::Ask);
    bench.echo("erase", SafetyLevel::Dangerous);
    let calls = [call("1", "erase", json!({"text": "x"}))];
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        assert!(bench.executor.approvals.decide(key, decision));
        assert!(!bench.executor.approvals.decide(key, Decision::Approved));
    });
    (
        results.into_iter().next().unwrap(),
        bench.executor.approvals.count(),
    )
}

#[tokio::test]
async fn the_user_decides() {
    let (result, open) = answered(Decision::Approved).await;
    assert_eq!(told(&result), ("1", CallOutcome::Succeeded, "x"));
    assert_eq!(open, 0);
    let (result, _) = answered(Decision::Denied(None)).await;
    assert_eq!(
        told(&result),
        ("1", CallOutcome::Denied, "User denied tool execution")
    );
    let (result, _) = answered(Decision::Denied(Some("use a copy".to_owned()))).await;
    assert_eq!(result.content, "User denied tool execution: use a copy");
    let Value::Object(other) = json!({"text": "y"}) else {
        unreachable!()
    };
    let (result, _) = answered(Decision::Modified(other)).await;
    assert_eq!(told(&result), ("1", CallOutcome::Succeeded, "y"));
    assert_eq!(result.consent, Consent::Modified);
    let Value::Object(same) = json!({"text": "x"}) else {
        unreachable!()
    };
    let (result, _) = answered(Decision::Modified(same)).await;
    assert_eq!(told(&result), ("1", CallOutcome::Succeeded, "x"));
    assert_eq!(result.consent, Consent::Approved, "they are as they were");
    let Value::Object(unfit) = json!({"text": 1}) else {
        unreachable!()
    };
    let (result, _) = answered(Decision::Modified(unfit)).await;
    assert_eq!(result.outcome, CallOutcome::Failed);
    assert!(result.content.contains("text: Field must be a string"));
}

#[tokio::test]
async fn arguments_of_another_type_are_converted_before_the_user_sees_them() {
    let bench = bench(Approval::Ask);
    let integers = [("items".to_owned(), json!({"type": "integer"}))];
    let parameters = vec![
        Parameter::required("timeout", ParameterType::Integer, ""),
        Parameter::optional("force", ParameterType::Boolean, ""),
        Parameter {
            constraints: integers.into_iter().collect(),
            ..Parameter::optional("lines", ParameterType::Array, "")
        },
    ];
    bench.batch.tools.register(Tool::new(
        "erase",
        "Erase.",
        SafetyLevel::Dangerous,
        &[],
        parameters,
        Runner::Worker(Arc::new(|arguments| Ok(arguments.to_json().to_string()))),
    ));
    let given = json!({"timeout": "5", "force": "true", "lines": "[1, \"2\"]"});
    let calls = [
        call("1", "erase", given),
        call("2", "erase", json!({"timeout": "soon"})),
    ];
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        assert!(bench.executor.approvals.decide(key, Decision::Approved));
    });
    let converted = json!({"timeout": 5, "force": true, "lines": [1, 2]});
    assert_eq!(results[0].content, converted.to_string());
    let shown = bench.emacs.collect(|event| match event {
        Event::ApprovalRequested { arguments, .. } => Some(arguments.clone()),
        _ => None,
    });
    assert_eq!(shown, [converted]);
    assert_eq!(
        results[1].content,
        "timeout: Field must be an integer, but it is a string"
    );
}

#[tokio::test]
async fn modified_arguments_that_show_more_are_asked_about_again() {
    let bench = bench(Approval::Ask);
    let mut tool = Tool::new(
        "erase",
        "Erase.",
        SafetyLevel::Dangerous,
        &[],
        vec![Parameter::required("text", ParameterType::String, "")],
        Runner::Worker(Arc::new(|arguments| {
            Ok(arguments.required_text("text").to_owned())
        })),
    );
    tool.assess = |level, arguments| Assessment {
        level,
        reason: arguments.required_text("text").to_owned(),
    };
    bench.batch.tools.register(tool);
    let calls = [call("1", "erase", json!({"text": "x"}))];
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        let Value::Object(other) = json!({"text": "worse"}) else {
            unreachable!()
        };
        bench
            .executor
            .approvals
            .decide(key, Decision::Modified(other));
        bench
            .emacs
            .wait_for(|event| match event {
                Event::ApprovalRequested { reason, .. } if reason == "worse" => Some(()),
                _ => None,
            })
            .await;
        bench.executor.approvals.decide(key, Decision::Denied(None));
    });
    assert_eq!(results[0].outcome, CallOutcome::Denied);
}

#[tokio::test]
async fn cancelling_answers_every_call() {
    let bench = bench(Approval::Ask);
    bench.echo("erase", SafetyLevel::Dangerous);
    bench.echo("echo", SafetyLevel::Cautious);
    let calls = [
        call("1", "erase", json!({"text": "x"})),
        call("2", "echo", json!({"text": "y"})),
    ];
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        bench.asked().await;
        bench.batch.cancel.cancel();
    });
    let outcomes: Vec<_> = results.iter().map(|result| result.outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Cancelled, CallOutcome::Cancelled]);
    assert_eq!(bench.executor.approvals.count(), 0);
}

#[tokio::test]
async fn safe_calls_run_side_by_side_and_others_in_order() {
    let bench = bench(Approval::Ask);
    let barrier = Arc::new(std::sync::Barrier::new(2));
    bench.tool("meet", SafetyLevel::Safe, move |_| {
        // Returns only when two calls are in it at the same time.
        barrier.wait();
        Ok(String::new())
    });
    let inside = Arc::new(AtomicUsize::new(0));
    bench.tool("alone", SafetyLevel::Cautious, move |_| {
        let others = inside.fetch_add(1, Ordering::SeqCst);
        std::thread::yield_now();
        inside.fetch_sub(1, Ordering::SeqCst);
        Ok(others.to_string())
    });
    let text = json!({"text": ""});
    let names = ["meet", "meet", "alone", "alone", "alone"];
    let calls: Vec<_> = names
        .iter()
        .map(|name| call(name, name, text.clone()))
        .collect();
    let results = bench.run(&calls).await;
    let contents: Vec<_> = results.iter().map(|it| it.content.as_str()).collect();
    assert_eq!(contents, ["", "", "0", "0", "0"]);
}

#[tokio::test]
async fn results_are_capped_for_the_model_and_whole_for_the_user() {
    let bench = bench(Approval::Ask);
    bench.tool("shout", SafetyLevel::Safe, |_| Ok("x".repeat(100_000)));
    let results = bench.run(&[call("1", "shout", json!({"text": ""}))]).await;
    assert!(results[0].content.len() < 17_000);
    assert!(results[0].content.contains("left out"));
    let shown = bench.emacs.collect(|event| match event {
        Event::CallFinished { result, .. } => Some(result.content.len()),
        _ => None,
    });
    assert_eq!(shown, [100_000]);
}

#[tokio::test]
async fn what_changes_anything_leaves_a_trace_before_it_runs() {
    let bench = bench(Approval::Ask);
    let file = bench.audit_file.clone();
    bench.echo("look", SafetyLevel::Safe);
    bench.tool("change", SafetyLevel::Cautious, move |_| {
        Ok(std::fs::read_to_string(&file).unwrap())
    });
    bench.echo("erase", SafetyLevel::Dangerous);
    let text = json!({"text": "x"});
    let calls = ["look", "change", "erase"].map(|name| call(name, name, text.clone()));
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        bench.executor.approvals.decide(key, Decision::Denied(None));
    });
    assert!(results[1].content.contains("\"step\":\"started\""));
    assert_eq!(
        bench.audited(),
        [
            "started change not_needed -",
            "finished change not_needed succeeded",
            "finished erase denied denied",
        ]
    );
    let consents: Vec<Consent> = results.iter().map(|result| result.consent).collect();
    assert_eq!(
        consents,
        [Consent::NotNeeded, Consent::NotNeeded, Consent::Denied]
    );
    assert_eq!(results[2].level, Some(SafetyLevel::Dangerous));
    let counted: Vec<_> = bench
        .executor
        .metrics
        .snapshot()
        .into_iter()
        .map(|(key, numbers)| (key.tool, numbers.calls, numbers.denials))
        .collect();
    assert_eq!(
        counted,
        [
            ("look".to_owned(), 1, 0),
            ("change".to_owned(), 1, 0),
            ("erase".to_owned(), 1, 1)
        ]
    );
}

#[tokio::test]
async fn what_can_leave_no_trace_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("agent-q");
    std::fs::write(&in_the_way, "a file").unwrap();
    let mut bench = bench(Approval::Ask);
    bench.executor.audit = Arc::new(AuditLog::open(&in_the_way.join("audit.jsonl")));
    bench.echo("look", SafetyLevel::Safe);
    bench.echo("change", SafetyLevel::Cautious);
    let text = json!({"text": "x"});
    let calls = ["look", "change"].map(|name| call(name, name, text.clone()));
    let results = bench.run(&calls).await;
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
    assert_eq!(results[1].outcome, CallOutcome::Failed);
    assert!(
        results[1].content.contains("audit.jsonl can't be written"),
        "{}",
        results[1].content
    );
    // It is tried again with each call.
    assert!(bench.executor.audit.trouble().is_some());
    std::fs::remove_file(&in_the_way).unwrap();
    let results = bench.run(&calls).await;
    assert_eq!(results[1].outcome, CallOutcome::Succeeded);
    assert!(bench.executor.audit.trouble().is_none());
}

#[tokio::test]
async fn the_trace_of_what_nobody_decided_says_so() {
    let bench = bench(Approval::Ask);
    bench.echo("erase", SafetyLevel::Dangerous);
    let erase = [call("1", "erase", json!({"text": "x"}))];
    let (results, ()) = tokio::join!(bench.run(&erase), async {
        let key = bench.asked().await;
        let unfit = json!({"text": 7}).as_object().cloned().unwrap();
        bench
            .executor
            .approvals
            .decide(key, Decision::Modified(unfit));
    });
    assert_eq!(results[0].consent, Consent::Unfit);
    bench
        .batch
        .why_cancelled
        .set("the machine sleeps".to_owned())
        .unwrap();
    let (results, ()) = tokio::join!(bench.run(&erase), async {
        while bench.executor.approvals.count() == 0 {
            tokio::task::yield_now().await;
        }
        bench.batch.cancel.cancel();
    });
    assert_eq!(
        told(&results[0]),
        (
            "1",
            CallOutcome::Cancelled,
            "The call was stopped or did not run: the machine sleeps."
        )
    );
    // One that is cancelled before anybody is asked needed an answer as well.
    assert_eq!(bench.run(&erase).await[0].consent, Consent::Unanswered);
    assert_eq!(
        bench.audited(),
        [
            "finished erase unfit failed",
            "finished erase unanswered cancelled",
            "finished erase unanswered cancelled",
        ]
    );
    let log = std::fs::read_to_string(&bench.audit_file).unwrap();
    let first = log.lines().next().unwrap();
    assert!(first.contains(r#""arguments":{"text":7}"#), "{first}");
    // Nothing ran, so there are no times.
    assert!(!log.contains("milliseconds"), "{log}");
    let snapshot = bench.executor.metrics.snapshot();
    assert_eq!(snapshot[0].1.calls, 3);
    assert_eq!(snapshot[0].1.median(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn edits_are_planned_elsewhere_than_the_call_goes_on() {
    let bench = bench(Approval::None);
    let place = || format!("{:?}", std::thread::current().id());
    let mut tool = Tool::new(
        "place",
        "Edits.",
        SafetyLevel::Safe,
        &[],
        vec![],
        Runner::Worker(Arc::new(|_| Ok(String::new()))),
    );
    tool.precheck = Some(|_, _| {
        Box::pin(async {
            Err(ToolFailure::new(format!(
                "{:?}",
                std::thread::current().id()
            )))
        })
    });
    bench.batch.tools.register(tool);
    let results = bench.run(&[call("1", "place", json!({}))]).await;
    assert_eq!(results[0].outcome, CallOutcome::Failed);
    assert!(results[0].content.starts_with("ThreadId("));
    assert_ne!(results[0].content, place(), "that can be Emacs's thread");
}

#[tokio::test]
async fn only_who_watches_is_told_of_a_call() {
    for (watcher, wanted) in [
        (Watcher::Nobody, vec![]),
        (Watcher::Hooks, vec!["started", "finished"]),
        (
            Watcher::Chat,
            vec!["proposed", "state", "started", "finished"],
        ),
    ] {
        let mut bench = bench(Approval::None);
        bench.batch.watcher = watcher;
        bench.echo("echo", SafetyLevel::Safe);
        bench.run(&[call("1", "echo", json!({"text": "x"}))]).await;
        let told = bench.emacs.collect(|event| match event {
            Event::CallProposed { .. } => Some("proposed"),
            Event::State { .. } => Some("state"),
            Event::CallStarted { .. } => Some("started"),
            Event::CallFinished { .. } => Some("finished"),
            _ => None,
        });
        assert_eq!(told, wanted, "{watcher:?}");
    }
}
