// SPDX-License-Identifier: GPL-3.0-or-later
//! Effects of code that runs: the image's watch asks, and rules, the user or nobody answer.

use agent_q_core::effect::EffectDecision;
use agent_q_core::protocol::EmacsRequest;

use std::path::Path;

use crate::executor_bench::*;

const DELETION: &str = "(:call 7 :question 5 :effect \"delete-file\" :words \"delete /tmp/shop/a\" :files (\"/tmp/shop/a\") :target \"/tmp/shop/a\" :function \"SHOP::CLEANUP\" :form \"(shop::cleanup)\" :frames (\"(SHOP::CLEANUP)\"))";

fn evaluated(denials: &str) -> EmacsReply {
    EmacsReply::done(format!(
        "(:outcome :returned :value (:forms ((:form \"1\" :values (\"1\"))) :output \"\") :denials ({denials}))"
    ))
}

/// A bench for code in which the image found HITS and EFFECTS.
fn effects_bench(approval: Approval, hits: &str, effects: &str) -> Bench {
    let bench = bench(approval);
    for tool in agent_q_core::builtin::image::execution::tools() {
        bench.batch.tools.register(tool);
    }
    let looked_at = format!(
        "(:outcome :returned :value (:hits ({hits}) :effects ({effects}) :notes nil :assessed 1 :settled 1 :more nil))"
    );
    let mut replies = bench.emacs.replies.lock().unwrap();
    replies.push_back(EmacsReply::done(looked_at));
    drop(replies);
    bench
}

fn eval() -> [ToolCall; 1] {
    [call("1", "eval_form", json!({"form": "(shop::cleanup)"}))]
}

/// What the core answered, once it has.
async fn answered(bench: &Bench) -> (i64, EffectDecision) {
    bench
        .emacs
        .wait_for(|event| match event {
            Event::EffectDecided {
                question, decision, ..
            } => Some((*question, decision.clone())),
            _ => None,
        })
        .await
}

/// The arguments that the image got.
fn sent(bench: &Bench) -> String {
    let requests = bench.emacs.requests.lock().unwrap();
    match requests.last() {
        Some(EmacsRequest::Image(request)) => request.arguments.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_user_answers_and_the_call_goes_on() {
    for (decision, given_back, outcome, step) in [
        (
            Decision::Approved,
            EffectDecision::Allow,
            CallOutcome::Succeeded,
            "started",
        ),
        (
            Decision::Denied(Some("keep it".to_owned())),
            EffectDecision::Deny(Some("The user denied it: keep it".to_owned())),
            CallOutcome::Denied,
            "finished",
        ),
        (
            Decision::Stopped,
            EffectDecision::Stop,
            CallOutcome::Cancelled,
            "finished",
        ),
    ] {
        let bench = effects_bench(Approval::Ask, "", "");
        let calls = eval();
        let (results, given) = tokio::join!(bench.run(&calls), async {
            bench.emacs.say(DELETION).await;
            let key = bench.asked().await;
            assert!(bench.executor.approvals.decide(key, decision));
            let given = answered(&bench).await;
            bench.emacs.reply(evaluated(""));
            given
        });
        assert_eq!(given, (5, given_back));
        assert_eq!(results[0].outcome, CallOutcome::Succeeded);
        let shown = bench.emacs.collect(|event| match event {
            Event::ApprovalRequested {
                tool,
                reason,
                arguments,
                ..
            } => Some((tool.clone(), reason.clone(), arguments["function"].clone())),
            _ => None,
        });
        let function = json!("SHOP::CLEANUP");
        assert_eq!(
            shown,
            [(
                "effect/delete_file".to_owned(),
                "delete /tmp/shop/a".to_owned(),
                function
            )]
        );
        let ends = bench.emacs.collect(|event| match event {
            Event::CallFinished { result, .. } => Some(result.outcome),
            _ => None,
        });
        assert_eq!(ends, [outcome, CallOutcome::Succeeded]);
        let audited = bench.audited();
        assert!(
            audited
                .iter()
                .any(|line| line.starts_with(&format!("{step} effect/delete_file"))),
            "{audited:?}"
        );
    }
}

#[tokio::test]
async fn a_yes_holds_for_the_same_until_the_call_ends() {
    let bench = effects_bench(Approval::Ask, "", "");
    let calls = eval();
    let again = |question: &str| DELETION.replace(":question 5", &format!(":question {question}"));
    let (_, answers) = tokio::join!(bench.run(&calls), async {
        bench.emacs.say(DELETION).await;
        let key = bench.asked().await;
        bench.executor.approvals.decide(key, Decision::Approved);
        let mut answers = vec![answered(&bench).await];
        // The same file once more, by other code; then another kind, and another file.
        for (text, decision) in [
            (again("6").replace("CLEANUP", "TIDY"), None),
            (
                again("7").replace("delete-file", "write-file"),
                Some(Decision::Denied(None)),
            ),
            (
                again("8").replace("/tmp/shop/a", "/tmp/shop/b"),
                Some(Decision::Denied(None)),
            ),
            // What was denied is asked about again.
            (
                again("9").replace("/tmp/shop/a", "/tmp/shop/b"),
                Some(Decision::Approved),
            ),
        ] {
            bench.emacs.events.lock().unwrap().clear();
            bench.emacs.say(&text).await;
            if let Some(decision) = decision {
                let key = bench.asked().await;
                bench.executor.approvals.decide(key, decision);
            }
            answers.push(answered(&bench).await);
        }
        bench.emacs.reply(evaluated(""));
        answers
    });
    let denied = EffectDecision::Deny(Some("The user denied it.".to_owned()));
    let allowed = |question| (question, EffectDecision::Allow);
    assert_eq!(
        answers,
        [
            allowed(5),
            allowed(6),
            (7, denied.clone()),
            (8, denied),
            allowed(9)
        ]
    );
}

#[tokio::test]
async fn where_nobody_can_be_asked_it_is_denied() {
    let bench = effects_bench(Approval::None, "", "");
    let calls = eval();
    let (results, given) = tokio::join!(bench.run(&calls), async {
        bench.emacs.say(DELETION).await;
        let given = answered(&bench).await;
        bench
            .emacs
            .reply(evaluated("\"delete /tmp/shop/a\" \"delete /tmp/shop/a\""));
        given
    });
    assert!(
        matches!(&given.1, EffectDecision::Deny(Some(reason)) if reason.contains("No approval handler")),
        "{given:?}"
    );
    assert_eq!(
        results[0].content,
        "=> 1\n(Not allowed while it ran: delete /tmp/shop/a.)"
    );
}

#[tokio::test]
async fn of_several_denials_none_is_left_out() {
    for (value, told) in [
        ("1", "\n(Not allowed while it ran: write /a; write /b.)"),
        (
            "not allowed: write /b",
            "\n(Not allowed while it ran: write /a; write /b.)",
        ),
        ("write /a; write /b", ""),
    ] {
        let bench = effects_bench(Approval::None, "", "");
        let calls = eval();
        let (results, ()) = tokio::join!(bench.run(&calls), async {
            bench.emacs.say(DELETION).await;
            answered(&bench).await;
            bench.emacs.reply(EmacsReply::done(format!(
                "(:outcome :returned :value (:forms ((:form \"1\" :values (\"{value}\"))) :output \"\") \
                 :denials (\"write /a\" \"write /b\"))"
            )));
        });
        assert_eq!(results[0].content, format!("=> {value}{told}"));
    }
}

#[tokio::test]
async fn a_rule_for_the_function_and_the_folder_answers() {
    let bench = effects_bench(Approval::Ask, "", "");
    let calls = eval();
    let (_, (first, second)) = tokio::join!(bench.run(&calls), async {
        bench.emacs.say(DELETION).await;
        let key = bench.asked().await;
        let facts = bench.executor.approvals.facts(key).unwrap();
        let rule = facts.offer("chat").unwrap();
        assert_eq!(
            rule.describe(),
            "SHOP::CLEANUP may delete files under /tmp/shop/, for this chat."
        );
        bench.executor.rules.lock().unwrap().add(rule).unwrap();
        bench.executor.settle_by_rules(None);
        let first = answered(&bench).await;
        bench.emacs.events.lock().unwrap().clear();
        // Another file of the folder, then one elsewhere.
        let other = DELETION
            .replace("/tmp/shop/a", "/tmp/shop/b")
            .replace(":question 5", ":question 6");
        bench.emacs.say(&other).await;
        let second = answered(&bench).await;
        bench.emacs.events.lock().unwrap().clear();
        let elsewhere = DELETION
            .replace("/tmp/shop/a", "/home/me/a")
            .replace(":question 5", ":question 7");
        bench.emacs.say(&elsewhere).await;
        let key = bench.asked().await;
        bench.executor.approvals.decide(key, Decision::Denied(None));
        bench.emacs.reply(evaluated(""));
        (first, second)
    });
    assert_eq!(
        (first, second),
        ((5, EffectDecision::Allow), (6, EffectDecision::Allow))
    );
}

#[tokio::test]
async fn a_denial_by_a_rule_that_came_meanwhile_names_the_rule() {
    let bench = effects_bench(Approval::Ask, "", "");
    let calls = eval();
    let (_, answer) = tokio::join!(bench.run(&calls), async {
        bench.emacs.say(DELETION).await;
        let key = bench.asked().await;
        let mut rule = bench
            .executor
            .approvals
            .facts(key)
            .unwrap()
            .offer("chat")
            .unwrap();
        rule.effect = Effect::Deny;
        bench.executor.rules.lock().unwrap().add(rule).unwrap();
        bench.executor.settle_by_rules(None);
        let answer = answered(&bench).await;
        bench.emacs.reply(evaluated(""));
        answer
    });
    match answer {
        (5, EffectDecision::Deny(Some(reason))) => assert!(reason.starts_with("Rule "), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_question_that_is_withdrawn_is_nobodys() {
    let bench = effects_bench(Approval::Ask, "", "");
    let calls = eval();
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        bench.emacs.say(DELETION).await;
        let key = bench.asked().await;
        bench.emacs.say("(:call 7 :question 5 :withdrawn t)").await;
        bench
            .emacs
            .wait_for(|event| match event {
                Event::CallFinished { call, result, .. } if *call == key => Some(result.outcome),
                _ => None,
            })
            .await;
        assert_eq!(bench.executor.approvals.count(), 0);
        bench.emacs.reply(evaluated(""));
    });
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
}

#[tokio::test]
async fn a_call_that_ends_leaves_no_question() {
    let bench = effects_bench(Approval::Ask, "", "");
    let calls = eval();
    tokio::join!(bench.run(&calls), async {
        bench.emacs.say(DELETION).await;
        bench.asked().await;
        bench.emacs.reply(evaluated(""));
    });
    assert_eq!(bench.executor.approvals.count(), 0);
    let decided = bench.emacs.collect(|event| match event {
        Event::EffectDecided { question, .. } => Some(*question),
        _ => None,
    });
    assert!(decided.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_answer_does_not_count() {
    let bench = effects_bench(Approval::Ask, "", "");
    let calls = eval();
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        bench.emacs.say(DELETION).await;
        let key = bench.asked().await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        bench.executor.approvals.decide(key, Decision::Approved);
        answered(&bench).await;
        // The call goes on for a while, and has all of its time for that.
        tokio::time::sleep(Duration::from_secs(20)).await;
        bench.emacs.reply(evaluated(""));
    });
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
    assert_eq!(results[0].elapsed.as_secs(), 20);
}

#[tokio::test]
async fn yes_to_the_code_grants_what_was_seen_in_it() {
    let effects = "(\"delete-file\" \"/tmp/a\")";
    let bench = effects_bench(Approval::Ask, "\"deletes or writes files: X\"", effects);
    let calls = eval();
    tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        // It is looked at once more before it runs.
        bench.emacs.replies.lock().unwrap().push_back(EmacsReply::done(format!(
            "(:outcome :returned :value (:hits (\"deletes or writes files: X\") :effects ({effects}) :notes nil :assessed 1 :settled 1 :more nil))"
        )));
        bench.executor.approvals.decide(key, Decision::Approved);
        bench.emacs.say("(:call 7 :question 5 :withdrawn t)").await;
        bench.emacs.reply(evaluated(""));
    });
    let sent = sent(&bench);
    assert!(
        sent.contains(":watch (:granted ((\"delete-file\" \"/tmp/a\")) :private ("),
        "{sent}"
    );
    assert!(
        sent.contains("\".ssh\"") && sent.contains(":patience 600"),
        "{sent}"
    );
}

#[tokio::test]
async fn reading_what_is_not_private_asks_nobody() {
    let bench = effects_bench(Approval::Ask, "", "");
    let calls = eval();
    let read = |file: &str, number: u32| {
        format!(
            "(:call 7 :question {number} :effect \"read-private\" :words \"read {file}\" :files (\"{file}\"))"
        )
    };
    tokio::join!(bench.run(&calls), async {
        bench.emacs.say(&read("/srv/my.ssh-notes.txt", 1)).await;
        assert_eq!(answered(&bench).await, (1, EffectDecision::Allow));
        bench.emacs.events.lock().unwrap().clear();
        bench.emacs.say(&read("/srv/.ssh/id_rsa", 2)).await;
        let key = bench.asked().await;
        bench.executor.approvals.decide(key, Decision::Denied(None));
        assert_eq!(answered(&bench).await.0, 2);
        bench.emacs.events.lock().unwrap().clear();
        assert!(bench.batch.workspace.known_secrets().is_empty());
        bench.emacs.say(&read("/srv/.ssh/id_dsa", 3)).await;
        let key = bench.asked().await;
        bench.executor.approvals.decide(key, Decision::Approved);
        assert_eq!(answered(&bench).await, (3, EffectDecision::Allow));
        bench.emacs.reply(evaluated(""));
    });
    // Requests for pages say so.
    let known = bench.batch.workspace.known_secrets();
    assert!(
        known.iter().eq([Path::new("/srv/.ssh/id_dsa")]),
        "{known:?}"
    );
}
