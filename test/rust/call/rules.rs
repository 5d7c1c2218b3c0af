// SPDX-License-Identifier: GPL-3.0-or-later
//! The user's rules in the pipeline: deny wins, danger needs a rule for exactly that, and text from
//! outside stops what would run unasked.

use std::sync::Arc;

use agent_q_core::workspace::ProjectSettings;

use crate::executor_bench::*;

impl Bench {
    fn rule(&self, effect: Effect, tool: &str) -> Rule {
        Rule::new(effect, tool, Scope::Chat(self.batch.session.0))
    }

    fn add(&self, rule: Rule) -> u64 {
        self.executor.rules.lock().unwrap().add(rule).unwrap()
    }

    /// A rule for exactly the dangerous call of TOOL with TEXT.
    fn waive(&self, tool: &str, text: &str) -> Rule {
        Rule {
            arguments: vec![agent_q_core::rules::ArgumentPattern {
                name: "text".into(),
                pattern: agent_q_core::rules::TextPattern::Equals(text.into()),
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
    let results = bench.executor.run(&calls, &bench.batch).await;
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
    assert_eq!(results[0].consent, Consent::ByRule);
    assert_eq!(
        bench.last_decision(),
        ("by_rule".into(), "rule".into(), json!(rule))
    );
    let calls = [call("b", "erase", json!({"text": "tape"}))];
    let results = bench.executor.run(&calls, &bench.batch).await;
    assert_eq!(results[0].consent, Consent::Unavailable);
}

#[tokio::test]
async fn a_rule_without_the_users_word_for_danger_does_not_skip_the_question() {
    let bench = bench(Approval::None);
    bench.echo("erase", SafetyLevel::Dangerous);
    bench.add(bench.rule(Effect::Allow, "erase"));
    let calls = [call("a", "erase", json!({"text": "disk"}))];
    let results = bench.executor.run(&calls, &bench.batch).await;
    assert_eq!(results[0].consent, Consent::Unavailable);
}

#[tokio::test]
async fn a_file_of_rules_that_can_not_be_used_is_named_whatever_the_call() {
    let bench = bench(Approval::None);
    bench.echo("look", SafetyLevel::Safe);
    bench.echo("erase", SafetyLevel::Dangerous);
    let file = bench.audit_file.with_extension("rules");
    std::fs::write(&file, "{").unwrap();
    let calls = ["look", "erase"].map(|name| call(name, name, json!({"text": "x"})));
    let results = bench.run(&calls).await;
    std::fs::remove_file(&file).unwrap();
    for (result, begins) in results.iter().zip([
        "look needs approval here: The rules in '",
        "The tool erase is dangerous and needs approval: The rules in '",
    ]) {
        assert_eq!(result.consent, Consent::Unavailable);
        assert!(result.content.starts_with(begins), "{}", result.content);
        assert!(result.content.contains(file.to_str().unwrap()));
        assert!(result.content.contains("EOF while parsing"));
        assert!(result.content.contains("Fix the file or move it away"));
    }
    assert!(!results[0].content.contains("dangerous"));
}

#[tokio::test]
async fn a_rule_that_denies_wins_and_says_so() {
    let bench = bench(Approval::None);
    bench.echo("erase", SafetyLevel::Dangerous);
    bench.add(bench.waive("erase", "disk"));
    bench.add(bench.rule(Effect::Deny, "erase"));
    let calls = [call("a", "erase", json!({"text": "disk"}))];
    let results = bench.executor.run(&calls, &bench.batch).await;
    assert_eq!(results[0].outcome, CallOutcome::Denied);
    assert!(results[0].content.contains("Rule c2: Deny erase"));
    assert_eq!(bench.last_decision().1, "rule");
}

#[tokio::test]
async fn a_rule_that_asks_raises_a_safe_call() {
    let bench = bench(Approval::None);
    bench.echo("echo", SafetyLevel::Safe);
    bench.add(bench.rule(Effect::Ask, "echo"));
    let calls = [call("a", "echo", json!({"text": "x"}))];
    let results = bench.executor.run(&calls, &bench.batch).await;
    assert_eq!(results[0].outcome, CallOutcome::Failed);
    assert_eq!(results[0].consent, Consent::Unavailable);
}

#[tokio::test]
async fn in_a_turn_that_read_foreign_text_no_rule_lets_a_dangerous_call_run() {
    let bench = bench(Approval::Ask);
    bench.echo("erase", SafetyLevel::Dangerous);
    let mut fetch = Tool::new(
        "fetch",
        "A tool.",
        SafetyLevel::Safe,
        &[],
        vec![],
        Runner::Worker(Arc::new(|_| Ok("a page".to_owned()))),
    );
    fetch.provenance = agent_q_core::trust::Provenance::Foreign;
    bench.batch.tools.register(fetch);
    bench.add(bench.waive("erase", "disk"));
    // Both calls of one reply: the page is read before the second is decided about.
    let calls = [
        call("a", "fetch", json!({})),
        call("b", "erase", json!({"text": "disk"})),
    ];
    let (results, ()) = tokio::join!(bench.run(&calls), async {
        let key = bench.asked().await;
        let reason = bench.emacs.collect(|event| match event {
            Event::ApprovalRequested { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        // Each reason is shown on a line of its own.
        let last = reason[0].split("; ").last().unwrap();
        assert!(last.starts_with("This turn has read text from outside the project, so rule"));
        assert!(bench.executor.approvals.decide(key, Decision::Denied(None)));
    });
    assert_eq!(results[0].outcome, CallOutcome::Succeeded);
    assert_eq!(results[1].consent, Consent::Denied);
}

#[tokio::test]
async fn no_tool_touches_the_file_of_rules() {
    let bench = bench(Approval::None);
    let file = bench.executor.rules.lock().unwrap().file().to_owned();
    let parameters = vec![Parameter::required("path", ParameterType::String, "")];
    let work = Runner::Worker(Arc::new(|_| Ok("written".to_owned())));
    let mut tool = Tool::new("write", "", SafetyLevel::Safe, &[], parameters, work);
    tool.origin = agent_q_core::tool::Origin::EmacsLisp;
    bench.batch.tools.register(tool);
    let calls = [call("a", "write", json!({"path": file}))];
    let results = bench.executor.run(&calls, &bench.batch).await;
    assert_eq!(results[0].outcome, CallOutcome::Denied);
}

#[tokio::test]
async fn a_definition_from_outside_the_project_stops_rules_for_dangerous_calls() {
    let project = tempfile::tempdir().unwrap();
    let root = project.path().canonicalize().unwrap();
    for (file, foreign) in [
        (root.join("src/x.lisp").display().to_string(), false),
        ("/elsewhere/x.lisp".to_owned(), true),
        (format!("{}/../x.lisp", root.display()), true),
        ("/ssh:host:/x.lisp".to_owned(), true),
        ("buffer x.lisp".to_owned(), false),
    ] {
        let mut bench = bench(Approval::None);
        agent_q_core::builtin::register(&bench.batch.tools);
        bench.batch.place = TurnPlace::new(1, 7, Some(&root), None);
        bench.echo("erase", SafetyLevel::Dangerous);
        bench.add(bench.waive("erase", "disk"));
        bench.emacs.replies.lock().unwrap().push_back(EmacsReply::done(format!(
            "(:outcome :returned :value (:name \"X\" :definitions ((:what \"(DEFUN X)\" :where \"{file}:3\" :text \"(defun x ())\"))))"
        )));
        // Emacs has no project, and the image no libraries.
        let nothing = || EmacsReply::done("null".to_owned());
        bench
            .emacs
            .replies
            .lock()
            .unwrap()
            .extend([nothing(), nothing()]);
        let results = bench
            .run(&[call("a", "find_definition", json!({"symbol": "x"}))])
            .await;
        assert_eq!(results[0].outcome, CallOutcome::Succeeded, "{results:?}");
        assert!(results[0].content.contains("(defun x ())"));
        let told = results[0].source.as_ref().unwrap().to_string();
        assert_eq!(
            told.ends_with("from outside the project"),
            foreign,
            "{file}: {told}"
        );
        let results = bench
            .run(&[call("b", "erase", json!({"text": "disk"}))])
            .await;
        let ran = results[0].outcome == CallOutcome::Succeeded;
        assert_eq!(ran, !foreign, "{file}");
    }
}

#[tokio::test]
async fn what_the_chat_wrote_outside_the_project_is_not_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (root, file) = (folder.join("project"), folder.join("elsewhere/x.txt"));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut bench = bench(Approval::Ask);
    agent_q_core::builtin::register(&bench.batch.tools);
    bench.batch.workspace.set_ground(&ProjectSettings {
        root: Some(root.display().to_string()),
        private: None,
    });
    bench.echo("erase", SafetyLevel::Dangerous);
    bench.add(bench.waive("erase", "disk"));
    for tool in ["write_file", "edit_file", "read_file"] {
        bench.add(Rule {
            path: Some(file.display().to_string()),
            dangerous: Floor::Waived,
            ..bench.rule(Effect::Allow, tool)
        });
    }
    let path = file.display().to_string();
    let write = call(
        "a",
        "write_file",
        json!({"path": path, "content": "one\ntwo\n"}),
    );
    let edit = call(
        "b",
        "edit_file",
        json!({"path": path, "old_str": "two", "new_str": "three"}),
    );
    let read = call("c", "read_file", json!({"path": path}));
    let erase = call("d", "erase", json!({"text": "disk"}));
    // Emacs visits nothing, and the image knows no libraries.
    let nothing = || EmacsReply::done("null".to_owned());
    let mut turn = 0;
    let mut turn_of = async |bench: &mut Bench, calls: &[&ToolCall]| {
        turn += 1;
        bench.batch.place = TurnPlace::new(turn, 7, Some(&root), None);
        let mut ran = Vec::new();
        for call in calls {
            let prepared = (0..20).map(|_| nothing()).collect();
            *bench.emacs.replies.lock().unwrap() = prepared;
            let one = [(*call).clone()];
            let results = tokio::select! {
                results = bench.run(&one) => results,
                _ = bench.asked() => {
                    bench.emacs.events.lock().unwrap().clear();
                    ran.push("asked".to_owned());
                    continue;
                }
            };
            assert_eq!(results[0].outcome, CallOutcome::Succeeded, "{results:?}");
            ran.push(
                results[0]
                    .source
                    .as_ref()
                    .map_or(String::new(), ToString::to_string),
            );
        }
        ran
    };
    let foreign = |ran: &[String]| {
        ran.iter()
            .any(|it| it.ends_with("from outside the project"))
    };
    for calls in [[&write, &erase], [&edit, &erase], [&read, &erase]] {
        let ran = turn_of(&mut bench, &calls).await;
        assert!(!foreign(&ran) && ran[1] != "asked", "{ran:?}");
    }
    // Somebody else wrote of it.
    std::fs::write(&file, "one\nthree\nfour\n").unwrap();
    let ran = turn_of(&mut bench, &[&read, &erase]).await;
    assert!(foreign(&ran) && ran[1] == "asked", "{ran:?}");
    // That stays, whatever the model changes in it.
    let edit = call(
        "e",
        "edit_file",
        json!({"path": path, "old_str": "three", "new_str": "two"}),
    );
    let ran = turn_of(&mut bench, &[&edit]).await;
    assert!(!ran.is_empty());
    let ran = turn_of(&mut bench, &[&read, &erase]).await;
    assert!(foreign(&ran) && ran[1] == "asked", "{ran:?}");
}

#[tokio::test]
async fn a_rule_that_comes_while_a_call_waits_is_asked_though_the_call_was_judged_before() {
    let bench = bench(Approval::Ask);
    bench.echo("erase", SafetyLevel::Dangerous);
    let calls = [call("a", "erase", json!({"text": "disk"}))];
    let answering = async {
        let key = bench.asked().await;
        bench.add(bench.rule(Effect::Deny, "erase"));
        assert!(bench.executor.approvals.decide(key, Decision::Approved));
    };
    let (results, ()) = tokio::join!(bench.run(&calls), answering);
    assert_eq!(results[0].outcome, CallOutcome::Denied);
}

#[tokio::test]
async fn where_a_call_leads_is_found_out_once() {
    let bench = bench(Approval::None);
    let mut look = Tool::new(
        "look",
        "A tool.",
        SafetyLevel::Safe,
        &[],
        vec![Parameter::optional("buffer", ParameterType::String, "")],
        Runner::Worker(Arc::new(|_| Ok("seen".to_owned()))),
    );
    look.buffer = Some("buffer");
    bench.batch.tools.register(look);
    let nothing = || EmacsReply::done("null".to_owned());
    bench
        .emacs
        .replies
        .lock()
        .unwrap()
        .extend([nothing(), nothing()]);
    let results = bench
        .run(&[call("a", "look", json!({"buffer": "x"}))])
        .await;
    assert_eq!(results[0].content, "seen");
    assert_eq!(bench.emacs.requests.lock().unwrap().len(), 1);
}
