// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools by which a model waits for a call that it has begun, looks into it and stops it.

use std::sync::Arc;
use std::time::Duration;

use super::more;
use crate::tool::begun::{
    AWAIT, BegunCall, CANCEL, CallText, CallTextKind, STOPPING_TIME, missing,
};
use crate::tool::offer::Offer;
use crate::tool::work::WorkContext;
use crate::tool::{Arguments, Parameter, ParameterType, Returns, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

/// How long is waited when the call doesn't say.
const PATIENCE: f64 = 60.0;
/// The longest that is waited.
const LONGEST: f64 = 600.0;

#[must_use]
pub fn tools() -> Vec<Tool> {
    let id = || {
        Parameter::required(
            "call_id",
            ParameterType::Integer,
            "As in the pending result",
        )
    };
    let mut tools = vec![
        Tool::new(
            AWAIT,
            "Go on waiting for a call whose result was pending.",
            SafetyLevel::Safe,
            &["execution"],
            vec![
                id(),
                Parameter::optional(
                    "seconds",
                    ParameterType::Number,
                    "How long; 0 shows its output and where it is",
                ),
            ],
            Runner::Task(|arguments, context| Box::pin(await_call(arguments, context))),
        ),
        Tool::new(
            CANCEL,
            "Stop a call whose result was pending.",
            SafetyLevel::Safe,
            &["execution"],
            vec![id()],
            Runner::Task(|arguments, context| Box::pin(cancel_call(arguments, context))),
        ),
    ];
    for tool in &mut tools {
        // What is quoted in them is marked already.
        tool.returns = Returns::Words;
    }
    tools
}

/// How long ARGUMENTS want to wait at most; none when they don't say.
#[must_use]
pub fn patience(seconds: Option<f64>) -> Option<Duration> {
    let seconds = seconds.filter(|it| it.is_finite())?;
    Some(Duration::from_secs_f64(seconds.clamp(0.0, LONGEST)))
}

/// The words by which a model calls these tools, which is offered what OFFER says.
#[must_use]
pub fn calling(offer: &Offer) -> &'static str {
    match offer.goes_without(more::CALL) {
        true => "Call",
        false => "Use call_tool",
    }
}

async fn await_call(arguments: Arguments, context: WorkContext) -> Result<String, ToolFailure> {
    let call = found(&arguments, &context)?;
    let patience = patience(arguments.number("seconds"));
    let patience = patience.unwrap_or(Duration::from_secs_f64(PATIENCE));
    match call.outcome_within(patience).await {
        Some(outcome) => given(&call, outcome, &context),
        None => Ok(still_pending(&call, &context).await),
    }
}

async fn cancel_call(arguments: Arguments, context: WorkContext) -> Result<String, ToolFailure> {
    let call = found(&arguments, &context)?;
    if let Some(outcome) = call.outcome() {
        return given(&call, outcome, &context);
    }
    // What it has printed is lost with it.
    let looked = call.look(&*context.emacs, context.session).await;
    call.stop("you cancelled it");
    match call.outcome_within(STOPPING_TIME).await {
        // To have stopped it is what was wanted.
        Some(outcome) => {
            let texts = [Some(outcome.bare()), looked.as_deref()];
            let texts: Vec<&str> = texts.into_iter().flatten().collect();
            given(&call, CallText::result(texts.join("\n")), &context)
        }
        None => Ok(still_pending(&call, &context).await),
    }
}

fn found(arguments: &Arguments, context: &WorkContext) -> Result<Arc<BegunCall>, ToolFailure> {
    let id = arguments
        .integer("call_id")
        .and_then(|it| u64::try_from(it).ok());
    let id = id.ok_or_else(|| ToolFailure::new("call_id is the number in the pending result."))?;
    let call = context.begun.as_ref().and_then(|begun| begun.get(id));
    call.ok_or_else(|| ToolFailure::new(missing(id)))
}

/// OUTCOME of CALL, which the model gets but once.
fn given(
    call: &BegunCall,
    outcome: CallText,
    context: &WorkContext,
) -> Result<String, ToolFailure> {
    let is_first = context.begun.as_ref().is_some_and(|it| it.forget(call.id));
    if !is_first {
        return Err(ToolFailure::new(missing(call.id)));
    }
    match outcome.kind {
        CallTextKind::Result => Ok(outcome.text),
        // A failure says so itself where it is read.
        CallTextKind::Problem => Err(ToolFailure::new(outcome.bare())),
    }
}

async fn still_pending(call: &BegunCall, context: &WorkContext) -> String {
    let looked = call.look(&*context.emacs, context.session).await;
    call.pending(calling(&context.offer), looked.as_deref())
}
