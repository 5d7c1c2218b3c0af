// SPDX-License-Identifier: GPL-3.0-or-later
//! Code for the image: what the image finds in it decides whether anybody is asked, and it is
//! looked at again before it runs.

use crate::executor_bench::*;

/// The answer of an image that found HITS in the code, and ran it.
fn looked_at(hits: &str) -> EmacsReply {
    EmacsReply::done(format!(
        "(:outcome :returned :value (:hits ({hits}) :notes (\"It can't be undone.\") :assessed 1 :settled 1 :more nil))"
    ))
}

fn evaluated() -> EmacsReply {
    EmacsReply::done(
        "(:outcome :returned :value (:forms ((:form \"1\" :values (\"1\"))) :output \"\"))"
            .to_owned(),
    )
}

fn eval_bench(approval: Approval, policy: EvalPolicy, replies: Vec<EmacsReply>) -> Bench {
    let mut bench = bench(approval);
    bench.batch.eval_policy = policy;
    for tool in agent_q_core::builtin::image::execution::tools() {
        bench.batch.tools.register(tool);
    }
    bench.emacs.replies.lock().unwrap().extend(replies);
    bench
}

fn eval(form: &str) -> ToolCall {
    call("1", "eval_form", json!({"form": form}))
}

#[tokio::test]
async fn code_without_a_hit_runs_without_asking_and_is_logged() {
    let replies = vec![looked_at(""), evaluated()];
    let bench = eval_bench(Approval::None, EvalPolicy::AskIfRisky, replies);
    let results = bench.run(&[eval("1")]).await;
    assert_eq!(told(&results[0]), ("1", CallOutcome::Succeeded, "=> 1"));
    assert_eq!(results[0].level, Some(SafetyLevel::Cautious));
    assert_eq!(bench.audited().len(), 2);
    let notices = bench.emacs.collect(|event| match event {
        Event::Notice { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(notices, ["It can't be undone."]);
}

/// Why the user is asked about code for which the image gave ANSWER.
async fn reasons(answer: EmacsReply) -> Vec<(String, SafetyLevel)> {
    let bench = eval_bench(Approval::Ask, EvalPolicy::AskIfRisky, vec![answer]);
    let calls = [eval("(x)")];
    let (results, reason) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        bench.executor.approvals.decide(key, Decision::Denied(None));
        bench.emacs.collect(|event| match event {
            Event::ApprovalRequested { reason, level, .. } => Some((reason.clone(), *level)),
            _ => None,
        })
    });
    assert_eq!(results[0].outcome, CallOutcome::Denied);
    reason
}

#[tokio::test]
async fn a_hit_asks_with_its_reason() {
    assert_eq!(
        reasons(looked_at("\"runs programs: X\"")).await,
        [(
            "runs programs: X; It can't be undone.".to_owned(),
            SafetyLevel::Dangerous
        )]
    );
}

#[tokio::test]
async fn a_request_says_that_a_lisp_has_no_watch() {
    let answer = "(:outcome :returned :value (:hits (\"runs programs: X\") :notes nil :assessed 1 :settled 1 :more nil :unwatched t))";
    let reasons = reasons(EmacsReply::done(answer.to_owned())).await;
    assert!(
        reasons[0].0.ends_with("; in this Lisp nothing more is asked while it runs: what its functions reach for is not seen"),
        "{reasons:?}"
    );
}

#[tokio::test]
async fn code_that_the_image_can_not_look_at_is_dangerous() {
    for reply in [
        EmacsReply::Failed(EmacsError::Unresponsive(String::new())),
        EmacsReply::done("(:outcome :cancelled :output \"\" :value nil)".to_owned()),
        EmacsReply::done("nonsense".to_owned()),
    ] {
        let bench = eval_bench(Approval::None, EvalPolicy::AskIfRisky, vec![reply]);
        let results = bench.run(&[eval("1")]).await;
        assert_eq!(results[0].level, Some(SafetyLevel::Dangerous));
        assert!(results[0].content.contains("needs approval"));
    }
}

#[tokio::test]
async fn code_without_an_image_fails_before_anybody_is_asked() {
    for (approval, policy) in [
        (Approval::Ask, EvalPolicy::AskIfRisky),
        (Approval::Ask, EvalPolicy::AskAlways),
        (Approval::None, EvalPolicy::AskIfRisky),
    ] {
        let replies = vec![EmacsReply::Failed(EmacsError::NoConnection)];
        let bench = eval_bench(approval, policy, replies);
        let results = bench.run(&[eval("(+ 1 2)")]).await;
        assert_eq!(results[0].outcome, CallOutcome::Failed);
        assert_eq!(results[0].content, EmacsError::NoConnection.to_string());
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_model_reads_what_raised_the_call() {
    let replies = vec![looked_at("\"runs programs: UIOP:RUN-PROGRAM\"")];
    let bench = eval_bench(Approval::None, EvalPolicy::AskIfRisky, replies);
    let results = bench.run(&[eval("(uiop:run-program \"date\")")]).await;
    assert_eq!(results[0].consent, Consent::Unavailable);
    assert_eq!(
        results[0].content,
        "eval_form was raised to dangerous, so it needs approval: runs programs: UIOP:RUN-PROGRAM; \
         It can't be undone. No approval handler is configured to ask. It was not run."
    );
    // What the image says of the code is the image's.
    assert!(results[0].source.is_some());
    let bench = bench_with(SafetyLevel::Dangerous);
    let results = bench.run(&[call("1", "erase", json!({"text": "x"}))]).await;
    assert_eq!(
        results[0].content,
        "The tool erase is dangerous and needs approval. No approval handler is configured to ask. \
         It was not run."
    );
}

/// A bench where nobody can be asked, with the tool erase of LEVEL.
fn bench_with(level: SafetyLevel) -> Bench {
    let bench = bench(Approval::None);
    bench.echo("erase", level);
    bench
}

#[tokio::test]
async fn what_shows_only_after_the_approval_is_asked_about_again() {
    let replies = vec![looked_at("\"one\""), looked_at("\"one\" \"two\"")];
    let bench = eval_bench(Approval::Ask, EvalPolicy::AskIfRisky, replies);
    let calls = [eval("(x)")];
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        bench.executor.approvals.decide(key, Decision::Approved);
        bench
            .emacs
            .wait_for(|event| match event {
                Event::ApprovalRequested { reason, .. } if reason.starts_with("one; two") => {
                    Some(())
                }
                _ => None,
            })
            .await;
        bench.executor.approvals.decide(key, Decision::Denied(None));
    });
    assert_eq!(results[0].outcome, CallOutcome::Denied);
    let replies = vec![looked_at("\"one\""), looked_at("\"one\""), evaluated()];
    let bench = eval_bench(Approval::Ask, EvalPolicy::AskIfRisky, replies);
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        bench.executor.approvals.decide(key, Decision::Approved);
    });
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
}

#[tokio::test]
async fn the_policy_decides_about_code() {
    let bench = eval_bench(Approval::Ask, EvalPolicy::ReadOnly, vec![]);
    let results = bench.run(&[eval("1")]).await;
    assert_eq!(results[0].outcome, CallOutcome::Failed);
    assert!(results[0].content.contains("read-only"));
    // Nor does anything that runs code on the way, such as macros or a function that is wrapped.
    for tool in agent_q_core::builtin::image::introspection::tools()
        .into_iter()
        .chain(agent_q_core::builtin::image::building::tools())
        .chain(agent_q_core::builtin::image::history::undo_tools())
    {
        bench.batch.tools.register(tool);
    }
    let results = bench
        .run(&[
            call("1", "macroexpand_form", json!({"form": "(when 1 2)"})),
            call("2", "trace_function", json!({"function": "shop::total"})),
            call("3", "undo_definition", json!({"name": "shop::total"})),
        ])
        .await;
    for result in &results {
        assert_eq!(result.outcome, CallOutcome::Failed);
        assert!(
            result
                .content
                .contains("was not run: this chat runs no code")
        );
    }
    assert!(
        results[0]
            .content
            .contains("Expanding a macro runs its code.")
    );
    assert!(bench.audited().is_empty());
    let bench = eval_bench(Approval::None, EvalPolicy::NeverAsk, vec![evaluated()]);
    let results = bench.run(&[eval("1")]).await;
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
    assert_eq!(bench.audited().len(), 2);
    let bench = eval_bench(Approval::None, EvalPolicy::AskAlways, vec![looked_at("")]);
    let results = bench.run(&[eval("1")]).await;
    assert_eq!(results[0].outcome, CallOutcome::Failed);
    assert_eq!(results[0].level, Some(SafetyLevel::Dangerous));
}

#[tokio::test]
async fn code_that_can_only_fail_fails_unasked() {
    let gone =
        "(:outcome :returned :value (:assessed 0 :settled 0 :fails \"Package X not found.\"))";
    for policy in [EvalPolicy::AskIfRisky, EvalPolicy::AskAlways] {
        let replies = vec![EmacsReply::done(gone.to_owned())];
        let bench = eval_bench(Approval::Ask, policy, replies);
        let results = bench.run(&[eval("1")]).await;
        assert_eq!(results[0].outcome, CallOutcome::Failed);
        assert_eq!(results[0].content, "Package X not found.");
    }
}

#[tokio::test]
async fn code_that_opens_a_private_file_asks() {
    let answer = |more: &str| {
        EmacsReply::done(format!(
            "(:outcome :returned :value (:hits nil :notes nil :assessed 2 {more}))"
        ))
    };
    let secret = "(uiop:read-file-string \"~/.ssh/id_rsa\")";
    for (form, found, asks) in [
        (secret, ":settled 2 :opens t", true),
        // What follows can only be looked at later, and nobody would know the list of files then.
        (secret, ":settled 2 :more t", true),
        // What is looked at again may open files that it did not open before.
        (secret, ":settled 1", true),
        (secret, ":settled 2 :opens nil :more nil", false),
        ("(open \"id.lisp\")", ":settled 2 :opens t", false),
        (
            "(open \"credentials\")",
            ":settled 2 :opens t :directory \"/x/.ssh/\"",
            true,
        ),
    ] {
        let ground = EmacsReply::done(r#"{"project_root": "/"}"#.to_owned());
        let opens = found != ":settled 2 :opens nil :more nil";
        let replies = [
            Some(answer(found)),
            opens.then_some(ground),
            Some(evaluated()),
        ];
        let replies = replies.into_iter().flatten().collect();
        let bench = eval_bench(Approval::None, EvalPolicy::AskIfRisky, replies);
        let results = bench.run(&[eval(form)]).await;
        let level = match asks {
            true => SafetyLevel::Dangerous,
            false => SafetyLevel::Cautious,
        };
        assert_eq!(results[0].level, Some(level), "{form} {found}");
    }
}

#[tokio::test]
async fn what_looks_different_each_time_is_not_asked_about_for_ever() {
    let replies = (0..8)
        .map(|n| looked_at(&format!("\"runs programs: {n}\"")))
        .collect();
    let bench = eval_bench(Approval::Ask, EvalPolicy::AskIfRisky, replies);
    let calls = [eval("(x)")];
    let run = bench.run(&calls);
    let answers = async {
        loop {
            bench.asked().await;
            let waiting = bench.executor.approvals.waiting();
            for (key, _) in waiting {
                bench.executor.approvals.decide(key, Decision::Approved);
            }
            tokio::task::yield_now().await;
        }
    };
    let results = tokio::select! {
        results = run => results,
        () = answers => unreachable!(),
    };
    assert_eq!(results[0].outcome, CallOutcome::Denied);
    assert!(
        results[0].content.contains("found something different"),
        "{}",
        results[0].content
    );
    assert_eq!(bench.executor.approvals.count(), 0);
}

#[tokio::test]
async fn a_request_that_waits_is_another_one_after_a_call_has_changed_it() {
    let replies = vec![
        looked_at("\"runs programs: X\""),
        looked_at("\"uses the network: Y\""),
        looked_at("\"uses the network: Y\""),
        evaluated(),
    ];
    let bench = eval_bench(Approval::Ask, EvalPolicy::AskIfRisky, replies);
    bench.echo("change", SafetyLevel::Cautious);
    let calls = [call("0", "change", json!({"text": "x"})), eval("(x)")];
    let approvals = &bench.executor.approvals;
    let (results, reasons) = tokio::join!(bench.run(&calls), async {
        let asked = |event: &Event| match event {
            Event::ApprovalRequested { call, reason, .. } => Some((*call, reason.clone())),
            _ => None,
        };
        let both = |events: &[Event]| {
            let found: Vec<_> = events.iter().filter_map(asked).collect();
            (found.len() == 2).then_some(found)
        };
        let found = bench.emacs.wait_until(both).await;
        let key = found[1].0;
        assert_eq!(found[0].0, key);
        // What Emacs has yet to hear of can't be what an answer is about.
        assert!(approvals.has_changed(key));
        approvals.told(key);
        assert!(!approvals.has_changed(key));
        assert!(approvals.decide(key, Decision::Approved));
        found.into_iter().map(|(_, reason)| reason)
    });
    assert_eq!(results[1].outcome, CallOutcome::Succeeded);
    let reasons: Vec<String> = reasons.collect();
    assert!(reasons[0].starts_with("runs programs") && reasons[1].starts_with("uses the network"));
}
