// SPDX-License-Identifier: GPL-3.0-or-later
//! The results of calls: how calls end, where the text of a result comes from, and how much of it the
//! model gets to read.

use std::time::Duration;

use serde_json::Value;

use super::batch::MOST_CALLS;
use crate::protocol::{CallOutcome, CallResult, Consent, Lisp};
use crate::rules::TurnPlace;
use crate::tool::{Arguments, Content, Origin, Quotes, Runner, SCRATCH, Tool, ToolFailure};
use crate::trust::{Provenance, SafetyLevel, Source};

/// How a call ended.
pub(super) struct CallEnding {
    pub(super) outcome: CallOutcome,
    pub(super) content: String,
    /// Where the content comes from, if it is more than our own words.
    pub(super) source: Option<Source>,
    /// What the user says about it.
    pub(super) remark: Option<String>,
    /// What the user changed in the arguments.
    pub(super) changed: Option<String>,
}

impl CallEnding {
    /// An ending told in our own words, or the user's.
    pub(super) fn new(outcome: CallOutcome, content: impl Into<String>) -> Self {
        Self {
            outcome,
            content: content.into(),
            source: None,
            remark: None,
            changed: None,
        }
    }

    /// The FAILURE of a call about SOURCE.
    pub(super) fn failed(failure: ToolFailure, source: impl FnOnce() -> Source) -> Self {
        Self {
            source: match failure.quotes {
                Quotes::Nothing => None,
                Quotes::Something => Some(source()),
            },
            ..Self::new(CallOutcome::Failed, failure.message)
        }
    }

    /// The result of the call ID.
    pub(super) fn result(
        self,
        id: &str,
        elapsed: Duration,
        level: Option<SafetyLevel>,
        consent: Consent,
    ) -> CallResult {
        CallResult {
            id: id.to_owned(),
            outcome: self.outcome,
            content: self.content,
            source: self.source,
            remark: self.remark,
            changed: self.changed,
            elapsed,
            level,
            consent,
        }
    }
}

pub(super) fn remark(review: &str) -> String {
    format!("The user's review: {review}.")
}

/// The most bytes that are told of one argument that the user changed.
const CHANGED_LIMIT: usize = 1000;

/// What is told of a call whose arguments were GIVEN, and that ran with those that the user USED.
pub(super) fn changed(given: &Value, used: &Value) -> Option<String> {
    let (given, used) = (given.as_object()?, used.as_object()?);
    let others = used
        .iter()
        .filter(|(name, value)| given.get(*name) != Some(value))
        .map(|(name, value)| format!("{name}: {}", cap(&value.to_string(), CHANGED_LIMIT, "")));
    let left_out = given
        .keys()
        .filter(|name| !used.contains_key(*name))
        .map(|name| format!("no {name}"));
    let changes: Vec<String> = others.chain(left_out).collect();
    (!changes.is_empty()).then(|| {
        format!(
            "The user changed the call. It ran with:\n{}",
            changes.join("\n")
        )
    })
}

/// The end of a call that is beyond what is run of COUNT calls.
pub(super) fn too_many(count: usize) -> CallEnding {
    CallEnding::new(
        CallOutcome::Failed,
        format!(
            "Not run: this message has {count} tool calls, and only the first {MOST_CALLS} of a message are run. Send this call again in a later message if it is still needed."
        ),
    )
}

// Where the text of a result comes from. It is kept with the text, by what the call was about and
// never by what the text says, so that the model's copy can be marked as data.

/// The source of what a call of TOOL with ARGUMENTS in PLACE returns; PROVENANCE is what the
/// rules make of it.
pub(crate) fn source_of_call(
    tool: &Tool,
    arguments: &Arguments,
    place: &TurnPlace,
    provenance: Provenance,
) -> Source {
    let about = |category: &str| tool.categories.iter().any(|it| it == category);
    let mut paths = tool.paths.iter().filter_map(|name| arguments.text(name));
    let what = match (&tool.origin, &tool.runner) {
        (Origin::Image(program), _) => format!("the program in {program}"),
        (Origin::Server(name), _) => format!("the server {name}"),
        (Origin::EmacsLisp | Origin::Library(_), _) => format!("the tool {}", tool.name),
        (Origin::BuiltIn, runner) => match (paths.next(), runner) {
            _ if about("programs") => {
                format!("program {}", arguments.text("program").unwrap_or_default())
            }
            _ if about("web") => {
                format!("page {}", arguments.text("url").unwrap_or_default())
            }
            (Some(path), _) => format!("file {path}"),
            _ if about("buffer") => {
                let name = arguments.text("buffer");
                name.map_or("the user's buffer".into(), |name| format!("buffer {name}"))
            }
            (None, Runner::Image(_)) if tool.lisp(arguments) != Lisp::Users => {
                format!("image {SCRATCH}")
            }
            // It may be the chat's scratch image: only Emacs knows.
            (None, Runner::Operation(_)) if about("debugger") => "the image".into(),
            (None, Runner::Image(_) | Runner::Operation(_)) => {
                let name = place.connection.as_deref();
                name.map_or("the image".into(), |name| format!("image {name}"))
            }
            _ if about("filesystem") => "the project".into(),
            _ => format!("the tool {}", tool.name),
        },
    };
    Source { what, provenance }
}

/// The source of CONTENT, a text of what OTHERWISE is the source of.
pub(crate) fn source_of_content(otherwise: Source, content: &Content) -> Source {
    Source {
        what: content.from.map_or(otherwise.what, str::to_owned),
        provenance: match content.provenance {
            Provenance::Foreign => Provenance::Foreign,
            Provenance::Own => otherwise.provenance,
        },
    }
}

// Texts capped in size, head and tail kept, the gap named.

/// The most bytes of one tool result that go to a model.
pub const RESULT_LIMIT: usize = 16 * 1024;

/// The share of the limit that goes to the head; ends of outputs tell more than their middles.
const HEAD_SHARE: f64 = 0.6;

/// TEXT as it is, or its head and tail within LIMIT bytes around a marker that says what was left
/// out. HINT tells how to get the rest.
#[must_use]
pub fn cap(text: &str, limit: usize, hint: &str) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head_end = text.floor_char_boundary_at((limit as f64 * HEAD_SHARE) as usize);
    let tail_start = text.ceil_char_boundary_at(text.len() - (limit - head_end));
    let omitted = &text[head_end..tail_start];
    format!(
        "{}\n[… {} characters in {} lines left out{}{} …]\n{}",
        &text[..head_end],
        omitted.chars().count(),
        omitted.lines().count(),
        if hint.is_empty() { "" } else { "; " },
        hint,
        &text[tail_start..]
    )
}

trait CharBoundary {
    fn floor_char_boundary_at(&self, index: usize) -> usize;
    fn ceil_char_boundary_at(&self, index: usize) -> usize;
}

impl CharBoundary for str {
    fn floor_char_boundary_at(&self, index: usize) -> usize {
        (0..=index)
            .rev()
            .find(|&it| self.is_char_boundary(it))
            .unwrap_or(0)
    }

    fn ceil_char_boundary_at(&self, index: usize) -> usize {
        (index..=self.len())
            .find(|&it| self.is_char_boundary(it))
            .unwrap_or(self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_untouched() {
        assert_eq!(cap("abc", 3, "ask again"), "abc");
    }

    #[test]
    fn head_and_tail_survive_on_character_boundaries() {
        let text = format!("start{}end", "ü".repeat(1000));
        let capped = cap(&text, 100, "ask with offset");
        assert!(capped.starts_with("startü"));
        assert!(capped.ends_with("üend"));
        assert!(capped.contains("characters in 1 lines left out; ask with offset"));
        assert!(capped.len() < 220);
    }
}
