// SPDX-License-Identifier: GPL-3.0-or-later
//! An executor on a recording host, with an audit log and rules of its own, for the tests of the
//! executor. It hands on the names that those tests share.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses its own part of it"
)]

#[path = "recording_emacs.rs"]
mod recording_emacs;

pub use agent_q_core::audit::AuditLog;
pub use agent_q_core::call::Executor;
pub use agent_q_core::call::approvals::Approvals;
pub use agent_q_core::call::batch::{Approval, BatchContext, EvalPolicy, Watcher};
pub use agent_q_core::protocol::Emacs;
pub use agent_q_core::protocol::{
    CallArguments, CallKey, CallOutcome, CallResult, Consent, Decision, EmacsError, EmacsReply,
    Event, SessionId, ToolCall,
};
pub use agent_q_core::rules::Width;
pub use agent_q_core::rules::{Effect, Floor, OtherArguments, Rule, RuleBook, Scope, TurnPlace};
pub use agent_q_core::tool::registry::Registry;
pub use agent_q_core::tool::{
    Arguments, Assessment, Parameter, ParameterType, Runner, Tool, ToolFailure,
};
pub use agent_q_core::trust::SafetyLevel;
pub use recording_emacs::{RecordingEmacs, recording_emacs};
pub use serde_json::{Value, json};
pub use std::path::PathBuf;
pub use std::sync::atomic::{AtomicUsize, Ordering};
pub use std::sync::{Arc, Mutex};
pub use std::time::Duration;
pub use tokio_util::sync::CancellationToken;

pub struct Bench {
    pub emacs: Arc<RecordingEmacs>,
    pub executor: Executor,
    pub audit_file: PathBuf,
    pub batch: BatchContext,
}

pub fn bench(approval: Approval) -> Bench {
    let emacs = recording_emacs();
    static COUNTER: AtomicUsize = AtomicUsize::new(0);
    let audit_file = std::env::temp_dir().join(format!(
        "agent-q-executor-{}-{}.jsonl",
        std::process::id(),
        COUNTER.fetch_add(1, Ordering::SeqCst)
    ));
    let executor = Executor {
        approvals: Arc::new(Approvals::default()),
        emacs: Arc::clone(&emacs) as Arc<dyn Emacs>,
        audit: Arc::new(AuditLog::open(&audit_file)),
        metrics: Arc::default(),
        rules: Arc::new(Mutex::new(RuleBook::open(
            &audit_file.with_extension("rules"),
        ))),
    };
    Bench {
        emacs,
        executor,
        audit_file,
        batch: BatchContext {
            offer: Arc::default(),
            past: Arc::default(),
            begun: None,
            plan: agent_q_core::call::batch::PlanMode::Off,
            session: SessionId(7),
            watcher: Watcher::Chat,
            tools: Arc::new(Registry::default()),
            approval,
            eval_deadline: Duration::from_secs(30),
            workspace: Arc::default(),
            eval_policy: EvalPolicy::default(),
            after_edit: agent_q_core::tool::work::AfterEdit::default(),
            cancel: CancellationToken::new(),
            why_cancelled: Arc::default(),
            researcher: None,
            place: TurnPlace::new(1, 7, None, None),
        },
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.audit_file);
    }
}

impl Bench {
    /// The reason for which the user is asked about a call of the tool NAME with ARGUMENTS, who says no, and
    /// the rules that are offered to AUDIENCE.
    pub async fn asked_about(
        &self,
        name: &str,
        arguments: Value,
        audience: &str,
    ) -> (String, Vec<(Width, Rule)>) {
        let calls = [call("c", name, arguments)];
        let run = self.run(&calls);
        let look = async {
            let (key, reason) = self
                .emacs
                .wait_for(|event| match event {
                    Event::ApprovalRequested { call, reason, .. } => Some((*call, reason.clone())),
                    _ => None,
                })
                .await;
            let approvals = &self.executor.approvals;
            let facts = approvals.facts(key).unwrap();
            let mut rules = facts.offer_wider(audience);
            rules.push((Width::Call, facts.offer(audience).unwrap()));
            approvals.decide(key, Decision::Denied(None));
            (reason, rules)
        };
        let (_, asked) = tokio::join!(run, look);
        self.emacs.events.lock().unwrap().clear();
        asked
    }

    /// The audit log's lines: step, tool, decision and outcome.
    pub fn audited(&self) -> Vec<String> {
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

    pub fn tool(
        &self,
        name: &str,
        level: SafetyLevel,
        work: impl Fn(Arguments) -> Result<String, ToolFailure> + Send + Sync + 'static,
    ) {
        let parameters = vec![Parameter::required("text", ParameterType::String, "")];
        let runner = Runner::Worker(Arc::new(work));
        self.batch
            .tools
            .register(Tool::new(name, "A tool.", level, &[], parameters, runner));
    }

    pub fn echo(&self, name: &str, level: SafetyLevel) {
        self.tool(name, level, |arguments| {
            Ok(arguments.required_text("text").to_owned())
        });
    }

    pub async fn run(&self, calls: &[ToolCall]) -> Vec<CallResult> {
        self.executor.run(calls, &self.batch).await
    }

    pub async fn asked(&self) -> CallKey {
        self.emacs
            .wait_for(|event| match event {
                Event::ApprovalRequested { call, .. } => Some(*call),
                _ => None,
            })
            .await
    }
}

pub fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
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

pub fn told(result: &CallResult) -> (&str, CallOutcome, &str) {
    (&result.id, result.outcome, &result.content)
}
