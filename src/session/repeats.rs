// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that a model makes again and again with the same result. Weak models do so for ever; each
//! round costs the user a request. A turn tells the model, and then ends.

use std::collections::HashMap;

use crate::protocol::{CallOutcome, CallResult, ToolCall};
use crate::tool::sendable::LONGEST_NAME;
use crate::trust::SafetyLevel;
use crate::visible::spelled;

/// How often a call has to give the same result before the model is told.
const TOLD: u32 = 3;
/// How often before the turn ends, when the calls fail.
const LAST_FAILED: u32 = 4;
/// How often before the turn ends, when they succeed: somebody may be waiting for something.
const LAST: u32 = 5;

/// What a model asked for: the name of a tool and the arguments, as it wrote them.
type Asked = (String, String);

/// The calls of a turn since anything was last changed.
#[derive(Debug, Default)]
pub struct Repeats {
    seen: HashMap<Asked, SeenResult>,
}

#[derive(Debug)]
struct SeenResult {
    outcome: CallOutcome,
    content: String,
    times: u32,
}

impl Repeats {
    /// Takes in CALL and RESULT, to which a word is added when it has come too often. Gives the reason
    /// to end the turn when nothing else will.
    pub fn note(&mut self, call: &ToolCall, result: &mut CallResult) -> Option<String> {
        let asked = (call.name.clone(), call.raw_arguments.clone());
        if changed_something(result) {
            // What came before may come out differently now.
            self.seen.retain(|key, _| *key == asked);
        }
        let times = self.count(asked, result);
        if times >= TOLD {
            let how = match result.outcome {
                CallOutcome::Succeeded => "was made {times} times with the same result",
                _ => "did not succeed {times} times",
            };
            result.add_remark(format!(
                "(This call {}. Try something else, or stop and tell the user what you found.)",
                how.replace("{times}", &times.to_string())
            ));
        }
        let (last, end) = match result.outcome {
            CallOutcome::Succeeded => (LAST, "got the same result"),
            CallOutcome::Failed | CallOutcome::Denied | CallOutcome::Cancelled => {
                (LAST_FAILED, "it did not succeed")
            }
        };
        (times >= last).then(|| {
            format!(
                "Stopped: the model called {} {times} times with the same arguments and {end}. Send a message to go on.",
                spelled(&call.name, LONGEST_NAME)
            )
        })
    }

    fn count(&mut self, asked: Asked, result: &CallResult) -> u32 {
        let seen = self.seen.entry(asked).or_insert_with(|| SeenResult {
            outcome: result.outcome,
            content: String::new(),
            times: 0,
        });
        // What fails may say so in other words each time, with a new address or the time.
        let alike = match (seen.outcome, result.outcome) {
            (CallOutcome::Succeeded, CallOutcome::Succeeded) => seen.content == result.content,
            (CallOutcome::Succeeded, _) | (_, CallOutcome::Succeeded) => false,
            _ => true,
        };
        if seen.times > 0 && alike {
            seen.times += 1;
            seen.outcome = result.outcome;
        } else {
            *seen = SeenResult {
                outcome: result.outcome,
                content: result.content.clone(),
                times: 1,
            };
        }
        seen.times
    }
}

fn changed_something(result: &CallResult) -> bool {
    result.outcome == CallOutcome::Succeeded
        && result.level.is_some_and(|level| level > SafetyLevel::Safe)
}
