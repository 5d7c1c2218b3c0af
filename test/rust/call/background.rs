// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls in the background: what their model reads when they begin, when it looks, waits or stops them, and
//! that each result is given once.

use std::sync::mpsc::{Sender, channel};

use agent_q_core::builtin;

use crate::executor_bench::*;

/// A bench whose model can begin calls of `build`, which ends when the sender says so, with that text.
fn building(level: SafetyLevel) -> (Bench, Sender<String>) {
    let mut bench = bench(Approval::Ask);
    builtin::register(&bench.batch.tools);
    let (sender, receiver) = channel::<String>();
    let receiver = Mutex::new(receiver);
    let parameters = vec![Parameter::optional(
        "background",
        ParameterType::Boolean,
        "",
    )];
    let work = move |_| {
        let said = receiver.lock().unwrap().recv();
        match said {
            Ok(text) if text.starts_with("broken") => Err(ToolFailure::new(text)),
            Ok(text) => Ok(text),
            Err(_) => Err(ToolFailure::new("nobody said so")),
        }
    };
    let runner = Runner::Worker(Arc::new(work));
    let tool = Tool::new("build", "A tool.", level, &[], parameters, runner);
    bench.batch.tools.register(tool);
    bench.batch.begun = Some(Arc::default());
    (bench, sender)
}

fn begin(id: &str) -> ToolCall {
    call(id, "build", json!({"background": true}))
}

/// The number in TEXT.
fn number(text: &str) -> u64 {
    let rest = text.split("call_id ").nth(1).unwrap();
    let end = rest.find(')').unwrap();
    rest[..end].parse().unwrap()
}

impl Bench {
    /// What a call of NAME with ARGUMENTS gives the model.
    async fn reads(&self, name: &str, arguments: Value) -> String {
        let results = self.run(&[call("c", name, arguments)]).await;
        results[0].for_model(0)
    }

    async fn begins(&self) -> (u64, String) {
        let text = self.run(&[begin("b")]).await[0].for_model(0);
        (number(&text), text)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_on_while_its_model_does() {
    let (bench, sender) = building(SafetyLevel::Cautious);
    bench.echo("echo", SafetyLevel::Cautious);
    let results = bench
        .run(&[begin("1"), call("2", "echo", json!({"text": "meanwhile"}))])
        .await;
    let id = number(&results[0].content);
    assert!(results[0].content.starts_with("pending: build (call_id "));
    assert!(results[0].content.contains("Use call_tool await_call with"));
    assert_eq!(results[1].content, "meanwhile");
    let looked = bench
        .reads("await_call", json!({"call_id": id, "seconds": 0}))
        .await;
    assert!(looked.starts_with("pending: build"), "{looked}");
    assert!(looked.contains(" s so far"), "{looked}");
    sender.send("built".to_owned()).unwrap();
    // Some models write numbers as text.
    let text = id.to_string();
    let awaited = bench.reads("await_call", json!({"call_id": text})).await;
    assert!(awaited.contains("built"), "{awaited}");
    for name in ["await_call", "cancel_call"] {
        let again = bench.reads(name, json!({"call_id": id})).await;
        assert!(again.contains("its result was given already"), "{again}");
    }
    let begun = bench.batch.begun.clone().unwrap();
    assert_eq!(begun.take_ended(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_nobody_awaits_is_told_once() {
    let (bench, sender) = building(SafetyLevel::Cautious);
    let (id, _) = bench.begins().await;
    sender.send("broken pipe".to_owned()).unwrap();
    let begun = bench.batch.begun.clone().unwrap();
    let told = loop {
        match begun.take_ended() {
            Some(told) => break told,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(
        told,
        format!("build (call_id {id}) has ended:\nError: broken pipe")
    );
    assert_eq!(begun.take_ended(), None);
    let late = bench.reads("await_call", json!({"call_id": id})).await;
    assert!(late.contains("given already"), "{late}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_stopped_says_why() {
    let (bench, _sender) = building(SafetyLevel::Cautious);
    let (id, _) = bench.begins().await;
    let stopped = bench.reads("cancel_call", json!({"call_id": id})).await;
    assert_eq!(
        stopped,
        "The call was stopped or did not run: you cancelled it."
    );
    let again = bench.reads("cancel_call", json!({"call_id": id})).await;
    assert!(again.contains("given already"), "{again}");
    let (id, _) = bench.begins().await;
    bench.executor.end_background(&bench.batch).await;
    let ended = bench.reads("await_call", json!({"call_id": id})).await;
    assert!(ended.contains("its turn ended first"), "{ended}");
    let told = bench.emacs.collect(|event| match event {
        Event::Notice { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(told, ["Stopped with the turn: build (after 0 s)."]);
    let (id, _) = bench.begins().await;
    bench.batch.cancel.cancel();
    let begun = bench.batch.begun.clone().unwrap();
    let call = begun.get(id).unwrap();
    let outcome = call.outcome_within(Duration::from_secs(20)).await.unwrap();
    assert!(outcome.text.contains("The user cancelled the turn"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_call_is_said() {
    let (bench, _sender) = building(SafetyLevel::Cautious);
    let lost = bench.reads("await_call", json!({"call_id": 1})).await;
    assert!(lost.contains("Emacs was started again since"), "{lost}");
    let wrong = bench.reads("await_call", json!({"call_id": -1})).await;
    assert!(
        wrong.contains("the number in the pending result"),
        "{wrong}"
    );
    let none = bench.reads("cancel_call", json!({})).await;
    assert!(none.contains("Missing required field: call_id"), "{none}");
    let (id, _) = bench.begins().await;
    for seconds in [json!(-5), json!(0)] {
        let asked = json!({"call_id": id, "seconds": seconds});
        let looked = bench.reads("await_call", asked).await;
        assert!(looked.starts_with("pending: "), "{looked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_user_is_asked_about_it_meanwhile() {
    let (bench, sender) = building(SafetyLevel::Dangerous);
    let (id, text) = bench.begins().await;
    assert!(
        text.contains("waits for the user's consent in Emacs; nothing has run"),
        "{text}"
    );
    let states = bench.emacs.collect(|event| match event {
        Event::State { .. } => Some(()),
        _ => None,
    });
    assert!(states.is_empty(), "the turn does not wait");
    let asked = bench.asked().await;
    assert!(bench.executor.approvals.decide(asked, Decision::Approved));
    sender.send("built".to_owned()).unwrap();
    let awaited = bench.reads("await_call", json!({"call_id": id})).await;
    assert!(awaited.contains("built"), "{awaited}");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_not_too_many() {
    let (bench, sender) = building(SafetyLevel::Cautious);
    let calls: Vec<ToolCall> = (0..22).map(|it| begin(&it.to_string())).collect();
    let results = bench.run(&calls).await;
    let (begun, refused) = results.split_at(20);
    assert!(begun.iter().all(|it| it.content.starts_with("pending: ")));
    for result in refused {
        assert_eq!(result.outcome, CallOutcome::Failed);
        assert!(
            result
                .content
                .starts_with("20 calls are under way already.")
        );
    }
    for _ in begun {
        sender.send("x".repeat(5000)).unwrap();
    }
    let begun = bench.batch.begun.clone().unwrap();
    while !begun.running().is_empty() {
        tokio::task::yield_now().await;
    }
    let told = std::iter::from_fn(|| begun.take_ended());
    let counts: Vec<usize> = told.map(|it| it.matches("has ended").count()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 20);
    assert!(counts.iter().all(|it| *it <= 3), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_in_the_image_is_looked_into() {
    let (bench, _sender) = building(SafetyLevel::Cautious);
    let mut bench = bench;
    bench.batch.eval_policy = EvalPolicy::NeverAsk;
    let form = json!({"form": "(loop)", "background": true});
    let text = bench.reads("eval_form", form).await;
    let id = number(&text);
    // It is in the image once that was asked.
    while bench.emacs.requests.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let output = "Output so far:\nfirst\nIt is in, innermost first: SLEEP";
    let reply = EmacsReply::done(output);
    bench.emacs.replies.lock().unwrap().push_back(reply);
    let looked = bench
        .reads("await_call", json!({"call_id": id, "seconds": 0}))
        .await;
    assert!(
        looked.contains("first\nIt is in, innermost first: SLEEP"),
        "{looked}"
    );
    assert!(
        looked.contains("UNTRUSTED") || looked.contains("the image"),
        "{looked}"
    );
    bench
        .emacs
        .reply(EmacsReply::Failed(EmacsError::Disconnected(String::new())));
    let awaited = bench.reads("await_call", json!({"call_id": id})).await;
    assert!(
        awaited.contains("connection to the Lisp image was lost"),
        "{awaited}"
    );
}
