// SPDX-License-Identifier: GPL-3.0-or-later
//! What a call would do, told before it runs: by its arguments alone, and for code by the image that
//! knows its macros. No answer from the image counts as danger. A guard rail, not a sandbox.

use std::time::Duration;

use lexpr::Value;

use super::executor::{Call, Circumstances, Executor, within};
use super::{Arguments, Assessment, Code, SafetyLevel, Tool, ToolFailure, Treatment};
use crate::image::{self, Plist, Reply, property_list};
use crate::protocol::{Consent, HostRequest, ImageRequest};
use crate::session::settings::EvalPolicy;

/// How long the image may look at code; what takes longer counts as a hit.
const DEADLINE: Duration = Duration::from_secs(5);
/// Emacs watches over the call; this is for an Emacs that forgot it.
const GRACE: Duration = Duration::from_secs(10);

/// What assessing a call gave.
#[derive(Debug, Clone)]
pub(super) struct Verdict {
    pub(super) assessment: Assessment,
    /// What running it does and nothing can undo.
    pub(super) notes: Vec<String>,
    /// How many forms were assessed, where the image has to see to the rest while it runs them.
    assessed: Option<i64>,
}

impl Verdict {
    fn plain(assessment: Assessment) -> Self {
        Self {
            assessment,
            notes: Vec::new(),
            assessed: None,
        }
    }

    fn dangerous(mut self, reason: &str) -> Self {
        let assessment = &mut self.assessment;
        assessment.level = assessment.level.max(SafetyLevel::Dangerous);
        if !assessment.reason.is_empty() {
            assessment.reason.push_str("; ");
        }
        assessment.reason.push_str(reason);
        self
    }
}

impl Executor {
    /// What the call of TOOL with ARGUMENTS would do. Never runs any of it.
    ///
    /// # Errors
    ///
    /// When the chat runs no code at all.
    pub(super) async fn assess(
        &self,
        tool: &Tool,
        arguments: &Arguments,
        circumstances: &Circumstances,
    ) -> Result<Verdict, ToolFailure> {
        let verdict = Verdict::plain((tool.assess)(tool.level, arguments));
        let Some(code) = tool.code else {
            return Ok(verdict);
        };
        let text = code_text(code, arguments);
        let policy = circumstances.eval_policy;
        let runs = code.treatment != Treatment::Expand;
        if text.is_empty() {
            return Ok(verdict);
        }
        match policy {
            EvalPolicy::ReadOnly if runs => return Err(read_only(tool)),
            EvalPolicy::NeverAsk => return Ok(verdict),
            EvalPolicy::ReadOnly | EvalPolicy::AskAlways | EvalPolicy::AskOnHit => {}
        }
        let verdict = if policy == EvalPolicy::AskAlways && runs {
            verdict.dangerous("evaluates code in your image")
        } else {
            verdict
        };
        let verdict = match self.look_at(code, text, arguments, circumstances).await {
            Ok(reply) => judged(verdict, code, &reply),
            Err(failure) => verdict.dangerous(&format!("could not be assessed: {failure}")),
        };
        if policy == EvalPolicy::ReadOnly && verdict.assessment.level > SafetyLevel::Cautious {
            return Err(read_only(tool));
        }
        Ok(verdict)
    }

    async fn look_at(
        &self,
        code: Code,
        text: String,
        arguments: &Arguments,
        circumstances: &Circumstances,
    ) -> Result<Reply, ToolFailure> {
        let package = arguments.text("package").map_or(Value::Null, Value::string);
        let purpose = match code.treatment {
            Treatment::Expand => Value::string("expand"),
            Treatment::RunInSteps | Treatment::RunAtOnce => Value::Null,
        };
        let request = HostRequest::Image(ImageRequest {
            operation: "assess-form".to_owned(),
            arguments: image::print_arguments(&property_list([
                ("form", Value::string(text)),
                ("package", package),
                ("purpose", purpose),
            ])),
            deadline: DEADLINE,
        });
        let reply = self.host.request(circumstances.session, request);
        let text = tokio::select! {
            () = circumstances.cancel.cancelled() => {
                return Err(ToolFailure::new("the turn was cancelled."));
            }
            text = within(DEADLINE + GRACE, reply) => text?,
        };
        image::parse_reply(&text).map_err(|error| ToolFailure(error.to_string()))
    }
}

fn code_text(code: Code, arguments: &Arguments) -> String {
    let texts: Vec<&str> = code
        .parameters
        .iter()
        .filter_map(|name| arguments.text(name))
        .collect();
    texts.join("\n")
}

fn judged(mut verdict: Verdict, code: Code, reply: &Reply) -> Verdict {
    let steps = code.treatment == Treatment::RunInSteps;
    let data = match reply {
        Reply::Returned(value) => Plist::new(value),
        // Such as a package that isn't there: the tool itself says so, and runs nothing.
        Reply::Missed(_) if steps => {
            verdict.assessed = Some(0);
            return verdict;
        }
        Reply::Missed(message) => {
            return verdict.dangerous(&format!("could not be assessed: {message}"));
        }
        Reply::Error(report) => {
            return verdict.dangerous(&format!("could not be assessed: {}", report.message));
        }
        Reply::Cancelled { .. } => {
            return verdict.dangerous("could not be assessed in time");
        }
    };
    let Some(assessed) = data.integer("assessed") else {
        return verdict.dangerous("could not be assessed: the image's answer is not understood");
    };
    let mut reasons: Vec<String> = data.texts("hits").into_iter().map(str::to_owned).collect();
    let more = data.flag("more");
    if more && (!steps || !reasons.is_empty()) {
        reasons.push(format!(
            "what follows its first {assessed} forms can only be read, and assessed, once they have run"
        ));
    }
    verdict.notes = data.texts("notes").into_iter().map(str::to_owned).collect();
    verdict.assessed = steps.then_some(assessed);
    if reasons.is_empty() {
        return verdict;
    }
    reasons.extend(verdict.notes.iter().cloned());
    verdict.dangerous(&reasons.join("; "))
}

fn read_only(tool: &Tool) -> ToolFailure {
    ToolFailure(format!(
        "{} was not run: this chat runs no code in the image (agent-q-eval-policy is read-only). The tools that only look still work.",
        tool.name
    ))
}

impl Call {
    /// ARGUMENTS of the operation, with how far the code was assessed unless the user has seen and
    /// approved all of it.
    pub(super) fn with_assessed(&self, arguments: Value) -> Value {
        match (self.consent, self.verdict.assessed) {
            (Consent::NotNeeded, Some(count)) => {
                Value::append([Value::keyword("assessed"), Value::from(count)], arguments)
            }
            _ => arguments,
        }
    }
}
