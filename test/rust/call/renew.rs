// SPDX-License-Identifier: GPL-3.0-or-later
//! Requests about a file that is changed while they wait.

use std::sync::Mutex;

use agent_q_core::tool::work::{Divisible, Preview};

use crate::executor_bench::*;

/// A file of which the model knows only what it had at first.
const UNKNOWN: &str = "unknown";

/// What the file has whose path is in a call's argument `text`; none once it is gone.
static FILES: Mutex<Vec<(String, Option<String>)>> = Mutex::new(Vec::new());

fn write(name: &str, text: Option<&str>) {
    let mut files = FILES.lock().unwrap();
    files.retain(|(known, _)| known != name);
    files.push((name.to_owned(), text.map(str::to_owned)));
}

fn text_of(name: &str) -> Option<String> {
    let files = FILES.lock().unwrap();
    let file = files.iter().find(|(known, _)| known == name);
    file.and_then(|(_, text)| text.clone())
}

/// A bench with a tool that adds a line to the file NAME, and the call of it.
fn adding(name: &str) -> (Bench, [ToolCall; 1]) {
    let bench = bench(Approval::Ask);
    bench.tool("add", SafetyLevel::Dangerous, |_| Ok("Added.".to_owned()));
    let mut tool = Tool::clone(&bench.batch.tools.get("add").unwrap());
    tool.precheck = Some(|arguments, context| {
        Box::pin(async move {
            let name = arguments.required_text("text");
            let original = text_of(name).ok_or_else(|| ToolFailure::new("It is gone."))?;
            if name == UNKNOWN && original != "one\n" && context.reviewed.is_none() {
                return Err(ToolFailure::new("The model doesn't know this."));
            }
            Ok(Preview {
                shown: name.to_owned(),
                file: name.into(),
                modified: format!("{original}added\n").into(),
                original: Some(original.into()),
                divisible: Divisible::Yes,
                note: String::new(),
                moves: None,
            })
        })
    });
    bench.batch.tools.register(tool);
    write(name, Some("one\n"));
    (bench, [call("1", "add", json!({"text": name}))])
}

fn requests(events: &[Event]) -> usize {
    let asked = |event: &&Event| matches!(event, Event::ApprovalRequested { .. });
    events.iter().filter(asked).count()
}

/// Says yes to CALL once it is asked about again, with the line that others have written.
async fn agree_again(bench: &Bench, call: CallKey) {
    bench
        .emacs
        .wait_until(|events| (requests(events) == 2).then_some(()))
        .await;
    let approvals = &bench.executor.approvals;
    let preview = approvals.preview(call).unwrap();
    assert_eq!(&*preview.modified, "one\ntwo\nadded\n");
    approvals.decide(call, Decision::Approved);
}

#[tokio::test]
async fn a_key_counts_for_what_the_user_has_seen() {
    let (bench, calls) = adding("seen");
    let approvals = &bench.executor.approvals;
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        write("seen", Some("one\ntwo\n"));
        approvals.files_changed();
        bench
            .emacs
            .wait_for(|event| matches!(event, Event::ApprovalChanged { .. }).then_some(()))
            .await;
        // Emacs has not fetched the new preview, so this is for the one before.
        approvals.decide(key, Decision::Approved);
        agree_again(&bench, key).await;
    });
    assert_eq!(told(&results[0]), ("1", CallOutcome::Succeeded, "Added."));
}

#[tokio::test]
async fn a_yes_asks_again_where_nothing_told_of_a_change() {
    let (bench, calls) = adding(UNKNOWN);
    let approvals = &bench.executor.approvals;
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        write(UNKNOWN, Some("one\ntwo\n"));
        approvals.decide(key, Decision::Approved);
        agree_again(&bench, key).await;
    });
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
}

#[tokio::test]
async fn what_shows_the_same_is_not_asked_again() {
    let (bench, calls) = adding("same");
    let approvals = &bench.executor.approvals;
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        approvals.files_changed();
        tokio::task::yield_now().await;
        approvals.decide(key, Decision::Approved);
    });
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
    let asked = bench
        .emacs
        .wait_until(|events| Some(requests(events)))
        .await;
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn what_can_not_succeed_any_more_is_withdrawn() {
    let (bench, calls) = adding("gone");
    let approvals = &bench.executor.approvals;
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        write("gone", None);
        approvals.files_changed();
        bench
            .emacs
            .wait_for(|event| matches!(event, Event::CallFinished { .. }).then_some(()))
            .await;
        assert!(!approvals.decide(key, Decision::Approved));
    });
    assert_eq!(results[0].outcome, CallOutcome::Failed);
    assert_eq!(
        results[0].content,
        "It is gone. The user is not asked about this any more."
    );
    assert_eq!(results[0].consent, Consent::Unanswered);
}
