// SPDX-License-Identifier: GPL-3.0-or-later
//! The executor's promises: one result per call, in call order, whatever happens, and nothing
//! dangerous without the user's word.

#[path = "support/recording_host.rs"]
mod recording_host;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_q_core::host::{Approvals, Host};
use agent_q_core::protocol::{
    CallKey, CallOutcome, CallResult, Consent, Decision, Event, HostError, HostReply, SessionId,
};
use agent_q_core::provider::{CallArguments, ToolCall};
use agent_q_core::rules::{Effect, Floor, OtherArguments, Place, Rule, RuleBook, Scope};
use agent_q_core::session::settings::{Approval, EvalPolicy};
use agent_q_core::store::audit::AuditLog;
use agent_q_core::tool::executor::{Circumstances, Executor};
use agent_q_core::tool::registry::Registry;
use agent_q_core::tool::{
    Arguments, Assessment, Parameter, ParameterType, Runner, SafetyLevel, Tool, ToolFailure,
};
use recording_host::{RecordingHost, recording_host};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Bench {
    host: Arc<RecordingHost>,
    executor: Executor,
    audit_file: PathBuf,
    circumstances: Circumstances,
}

fn bench(approval: Approval) -> Bench {
    let host = recording_host();
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    let audit_file = std::env::temp_dir().join(format!(
        "agent-q-executor-{}-{}.jsonl",
        std::process::id(),
        COUNTER.fetch_add(1, Ordering::SeqCst)
    ));
    let executor = Executor {
        approvals: Arc::new(Approvals::default()),
        host: Arc::clone(&host) as Arc<dyn Host>,
        audit: Arc::new(AuditLog::open(&audit_file).unwrap()),
        metrics: Arc::default(),
        rules: Arc::new(Mutex::new(RuleBook::open(
            &audit_file.with_extension("rules"),
        ))),
    };
    Bench {
        host,
        executor,
        audit_file,
        circumstances: Circumstances {
            session: SessionId(7),
            tools: Arc::new(Registry::default()),
            approval,
            eval_deadline: Duration::from_secs(30),
            workspace: Arc::default(),
            eval_policy: EvalPolicy::default(),
            cancel: CancellationToken::new(),
            place: Place::new(1, 7, None, None),
        },
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.audit_file);
    }
}

impl Bench {
    /// The audit log's lines: step, tool, decision and outcome.
    fn audited(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.audit_file).unwrap();
        text.lines()
            .map(|line| {
                let line: Value = serde_json::from_str(line).unwrap();
                let word = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
                assert!(word("time").ends_with('Z'));
                [
                    word("step"),
                    word("tool"),
                    word("decision"),
                    word("outcome"),
                ]
                .join(" ")
            })
            .collect()
    }

    fn tool(
        &self,
        name: &str,
        level: SafetyLevel,
        work: impl Fn(Arguments) -> Result<String, ToolFailure> + Send + Sync + 'static,
    ) {
        let parameters = vec![Parameter::required("text", ParameterType::String, "")];
        let runner = Runner::Worker(Arc::new(work));
        self.circumstances.tools.register(Tool::new(
            name,
            "A tool.",
            level,
            &[],
            parameters,
            runner,
        ));
    }

    fn echo(&self, name: &str, level: SafetyLevel) {
        self.tool(name, level, |arguments| {
            Ok(arguments.required_text("text").to_owned())
        });
    }

    async fn run(&self, calls: &[ToolCall]) -> Vec<CallResult> {
        self.executor.run(calls, &self.circumstances).await
    }

    async fn asked(&self) -> CallKey {
        self.host
            .wait_for(|event| match event {
                Event::ApprovalRequested { call, .. } => Some(*call),
                _ => None,
            })
            .await
    }
}

fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    let Value::Object(object) = arguments else {
        panic!("not an object")
    };
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        raw_arguments: Value::Object(object.clone()).to_string(),
        arguments: CallArguments::Object(object),
    }
}

fn told(result: &CallResult) -> (&str, CallOutcome, &str) {
    (&result.id, result.outcome, &result.content)
}

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
            .contains("burst failed by a bug of agent-q's (a bug)")
    );
    assert!(told[4].2.contains("cut off"));
    assert!(told[5].2.starts_with("Missing required field: text"));
    assert_eq!(told[6], ("7", CallOutcome::Succeeded, "seven"));
    let finished = bench.host.collect(|event| match event {
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
        assert!(bench.executor.approvals.answer(key, decision));
        assert!(!bench.executor.approvals.answer(key, Decision::Approved));
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
    let Value::Object(unfit) = json!({"text": 1}) else {
        unreachable!()
    };
    let (result, _) = answered(Decision::Modified(unfit)).await;
    assert_eq!(result.outcome, CallOutcome::Failed);
    assert!(result.content.contains("text: Field must be a string"));
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
    bench.circumstances.tools.register(tool);
    let calls = [call("1", "erase", json!({"text": "x"}))];
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        let Value::Object(other) = json!({"text": "worse"}) else {
            unreachable!()
        };
        bench
            .executor
            .approvals
            .answer(key, Decision::Modified(other));
        bench
            .host
            .wait_for(|event| match event {
                Event::ApprovalRequested { reason, .. } if reason == "worse" => Some(()),
                _ => None,
            })
            .await;
        bench.executor.approvals.answer(key, Decision::Denied(None));
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
        bench.circumstances.cancel.cancel();
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
    let shown = bench.host.collect(|event| match event {
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
        bench.executor.approvals.answer(key, Decision::Denied(None));
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

impl Bench {
    fn rule(&self, effect: Effect, tool: &str) -> Rule {
        Rule::new(effect, tool, Scope::Chat(self.circumstances.session.0))
    }

    fn add(&self, rule: Rule) -> u64 {
        self.executor.rules.lock().unwrap().add(rule).unwrap()
    }

    /// A rule for exactly the dangerous call of TOOL with TEXT.
    fn waive(&self, tool: &str, text: &str) -> Rule {
        Rule {
            arguments: vec![agent_q_core::rules::ArgumentPattern {
                name: "text".into(),
                pattern: agent_q_core::rules::Pattern::Equals(text.into()),
            }],
            other_arguments: OtherArguments::None,
            dangerous: Floor::Waived,
            ..self.rule(Effect::Allow, tool)
        }
    }

    /// The last line of the audit log: its decision, who decided, and the rule.
    fn last_decision(&self) -> (String, String, Value) {
        let text = std::fs::read_to_string(&self.audit_file).unwrap();
        let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let word = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
        (word("decision"), word("decided_by"), line["rule"].clone())
    }
}

#[tokio::test]
async fn a_rule_for_exactly_that_lets_a_dangerous_call_run_unasked() {
    let bench = bench(Approval::None);
    bench.echo("erase", SafetyLevel::Dangerous);
    let rule = bench.add(bench.waive("erase", "disk"));
    let calls = [call("a", "erase", json!({"text": "disk"}))];
    let results = bench.executor.run(&calls, &bench.circumstances).await;
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
    assert_eq!(results[0].consent, Consent::ByRule);
    assert_eq!(
        bench.last_decision(),
        ("by_rule".into(), "rule".into(), json!(rule))
    );
    let calls = [call("b", "erase", json!({"text": "tape"}))];
    let results = bench.executor.run(&calls, &bench.circumstances).await;
    assert_eq!(results[0].consent, Consent::Unavailable);
}

#[tokio::test]
async fn a_rule_without_the_users_word_for_danger_does_not_skip_the_question() {
    let bench = bench(Approval::None);
    bench.echo("erase", SafetyLevel::Dangerous);
    bench.add(bench.rule(Effect::Allow, "erase"));
    let calls = [call("a", "erase", json!({"text": "disk"}))];
    let results = bench.executor.run(&calls, &bench.circumstances).await;
    assert_eq!(results[0].consent, Consent::Unavailable);
}

#[tokio::test]
async fn a_rule_that_denies_wins_and_says_so() {
    let bench = bench(Approval::None);
    bench.echo("erase", SafetyLevel::Dangerous);
    bench.add(bench.waive("erase", "disk"));
    let rule = bench.add(bench.rule(Effect::Deny, "erase"));
    let calls = [call("a", "erase", json!({"text": "disk"}))];
    let results = bench.executor.run(&calls, &bench.circumstances).await;
    assert_eq!(results[0].outcome, CallOutcome::Denied);
    assert!(
        results[0]
            .content
            .contains(&format!("Rule {rule}: Deny erase"))
    );
    assert_eq!(bench.last_decision().1, "rule");
}

#[tokio::test]
async fn a_rule_that_asks_raises_a_safe_call() {
    let bench = bench(Approval::None);
    bench.echo("echo", SafetyLevel::Safe);
    bench.add(bench.rule(Effect::Ask, "echo"));
    let calls = [call("a", "echo", json!({"text": "x"}))];
    let results = bench.executor.run(&calls, &bench.circumstances).await;
    assert_eq!(results[0].outcome, CallOutcome::Failed);
    assert_eq!(results[0].consent, Consent::Unavailable);
}

#[tokio::test]
async fn in_a_turn_that_read_foreign_text_no_rule_lets_a_dangerous_call_run() {
    let bench = bench(Approval::None);
    bench.echo("erase", SafetyLevel::Dangerous);
    let mut fetch = Tool::new(
        "fetch",
        "A tool.",
        SafetyLevel::Safe,
        &[],
        vec![],
        Runner::Worker(Arc::new(|_| Ok("a page".to_owned()))),
    );
    fetch.provenance = agent_q_core::rules::Provenance::Foreign;
    bench.circumstances.tools.register(fetch);
    bench.add(bench.waive("erase", "disk"));
    // Both calls of one reply: the page is read before the second is decided about.
    let calls = [
        call("a", "fetch", json!({})),
        call("b", "erase", json!({"text": "disk"})),
    ];
    let results = bench.executor.run(&calls, &bench.circumstances).await;
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
    assert_eq!(results[1].consent, Consent::Unavailable);
}

#[tokio::test]
async fn no_tool_touches_the_file_of_rules() {
    let bench = bench(Approval::None);
    let file = bench.executor.rules.lock().unwrap().file().to_owned();
    let parameters = vec![Parameter::required("path", ParameterType::String, "")];
    let work = Runner::Worker(Arc::new(|_| Ok("written".to_owned())));
    let mut tool = Tool::new("write", "", SafetyLevel::Safe, &[], parameters, work);
    tool.origin = agent_q_core::tool::Origin::EmacsLisp;
    bench.circumstances.tools.register(tool);
    let calls = [call("a", "write", json!({"path": file}))];
    let results = bench.executor.run(&calls, &bench.circumstances).await;
    assert_eq!(results[0].outcome, CallOutcome::Denied);
}

/// The answer of an image that found HITS in the code, and ran it.
fn looked_at(hits: &str) -> HostReply {
    HostReply::Done(format!(
        "(:outcome :returned :value (:hits ({hits}) :notes (\"It can't be undone.\") :assessed 1 :more nil))"
    ))
}

fn evaluated() -> HostReply {
    HostReply::Done(
        "(:outcome :returned :value (:forms ((:form \"1\" :values (\"1\"))) :output \"\"))"
            .to_owned(),
    )
}

fn eval_bench(approval: Approval, policy: EvalPolicy, replies: Vec<HostReply>) -> Bench {
    let mut bench = bench(approval);
    bench.circumstances.eval_policy = policy;
    for tool in agent_q_core::tools::execution::tools() {
        bench.circumstances.tools.register(tool);
    }
    bench.host.replies.lock().unwrap().extend(replies);
    bench
}

fn eval(form: &str) -> ToolCall {
    call("1", "eval_form", json!({"form": form}))
}

#[tokio::test]
async fn code_without_a_hit_runs_without_asking_and_is_logged() {
    let replies = vec![looked_at(""), evaluated()];
    let bench = eval_bench(Approval::None, EvalPolicy::AskOnHit, replies);
    let results = bench.run(&[eval("1")]).await;
    assert_eq!(told(&results[0]), ("1", CallOutcome::Succeeded, "=> 1"));
    assert_eq!(results[0].level, Some(SafetyLevel::Cautious));
    assert_eq!(bench.audited().len(), 2);
    let notices = bench.host.collect(|event| match event {
        Event::Notice { text, .. } => Some(text.clone()),
        _ => None,
    });
    assert_eq!(notices, ["It can't be undone."]);
}

#[tokio::test]
async fn a_hit_asks_with_its_reason() {
    let replies = vec![looked_at("\"runs programs: X\"")];
    let bench = eval_bench(Approval::Ask, EvalPolicy::AskOnHit, replies);
    let calls = [eval("(x)")];
    let (results, reason) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        bench.executor.approvals.answer(key, Decision::Denied(None));
        bench.host.collect(|event| match event {
            Event::ApprovalRequested { reason, level, .. } => Some((reason.clone(), *level)),
            _ => None,
        })
    });
    assert_eq!(results[0].outcome, CallOutcome::Denied);
    assert_eq!(
        reason,
        [(
            "runs programs: X; It can't be undone.".to_owned(),
            SafetyLevel::Dangerous
        )]
    );
}

#[tokio::test]
async fn code_that_the_image_can_not_look_at_is_dangerous() {
    for reply in [
        HostReply::Failed(HostError::NoConnection),
        HostReply::Failed(HostError::Unresponsive(String::new())),
        HostReply::Done("(:outcome :cancelled :output \"\" :value nil)".to_owned()),
        HostReply::Done("nonsense".to_owned()),
    ] {
        let bench = eval_bench(Approval::None, EvalPolicy::AskOnHit, vec![reply]);
        let results = bench.run(&[eval("1")]).await;
        assert_eq!(results[0].level, Some(SafetyLevel::Dangerous));
        assert!(results[0].content.contains("needs approval"));
    }
}

#[tokio::test]
async fn what_shows_only_after_the_approval_is_asked_about_again() {
    let replies = vec![looked_at("\"one\""), looked_at("\"one\" \"two\"")];
    let bench = eval_bench(Approval::Ask, EvalPolicy::AskOnHit, replies);
    let calls = [eval("(x)")];
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        bench.executor.approvals.answer(key, Decision::Approved);
        bench
            .host
            .wait_for(|event| match event {
                Event::ApprovalRequested { reason, .. } if reason.starts_with("one; two") => {
                    Some(())
                }
                _ => None,
            })
            .await;
        bench.executor.approvals.answer(key, Decision::Denied(None));
    });
    assert_eq!(results[0].outcome, CallOutcome::Denied);
    let replies = vec![looked_at("\"one\""), looked_at("\"one\""), evaluated()];
    let bench = eval_bench(Approval::Ask, EvalPolicy::AskOnHit, replies);
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        bench.executor.approvals.answer(key, Decision::Approved);
    });
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
}

#[tokio::test]
async fn the_policy_decides_about_code() {
    let bench = eval_bench(Approval::Ask, EvalPolicy::ReadOnly, vec![]);
    let results = bench.run(&[eval("1")]).await;
    assert_eq!(results[0].outcome, CallOutcome::Failed);
    assert!(results[0].content.contains("read-only"));
    let bench = eval_bench(Approval::None, EvalPolicy::NeverAsk, vec![evaluated()]);
    let results = bench.run(&[eval("1")]).await;
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
    assert_eq!(bench.audited().len(), 2);
    let bench = eval_bench(Approval::None, EvalPolicy::AskAlways, vec![looked_at("")]);
    let results = bench.run(&[eval("1")]).await;
    assert_eq!(results[0].outcome, CallOutcome::Failed);
    assert_eq!(results[0].level, Some(SafetyLevel::Dangerous));
}
