// SPDX-License-Identifier: GPL-3.0-or-later
//! A model whose words are written beforehand: that of the tour, which Emacs hands over with its
//! provider. What it says depends on what was asked and on what became of its calls. Nothing is sent
//! anywhere. `http` hands its words to the reader of replies, as a server's.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ChatMessage, Messages};
use crate::protocol::CallOutcome;

/// All that the model can say.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Milliseconds between two pieces of a reply.
    pace: u64,
    /// What is said to a message that is none of the turns'. The messages that are follow it.
    unknown: String,
    /// What is said where no reply fits what happened.
    lost: String,
    turns: Vec<ScriptTurn>,
}

/// What is said in a turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptTurn {
    /// The message that begins it.
    asks: String,
    /// For each of its requests the replies of which the first that fits is given.
    replies: Vec<Vec<ScriptReply>>,
}

/// One reply; without calls it ends the turn.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptReply {
    /// It fits when a call that it follows ended so.
    outcome: Option<CallOutcome>,
    /// It fits when the result of a call that it follows has this text.
    result: Option<String>,
    text: String,
    calls: Vec<ScriptCall>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptCall {
    tool: String,
    arguments: Map<String, Value>,
}

impl Script {
    #[must_use]
    pub fn pace(&self) -> Duration {
        Duration::from_millis(self.pace)
    }

    /// What comes after MESSAGES.
    #[must_use]
    pub fn reply(&self, messages: &Messages) -> ScriptReply {
        let messages: Vec<&ChatMessage> = messages.iter().collect();
        let begin = messages
            .iter()
            .rposition(|message| matches!(message, ChatMessage::User(_)));
        let asked = match begin.map(|place| messages[place]) {
            Some(ChatMessage::User(said)) => bare(&said.text),
            _ => String::new(),
        };
        let since = &messages[begin.map_or(0, |place| place + 1)..];
        let is_reply = |message: &&ChatMessage| matches!(message, ChatMessage::Assistant { .. });
        let replies = since.iter().filter(|it| is_reply(it)).count();
        let results = &since[since.iter().rposition(&is_reply).unwrap_or(0)..];
        let Some(turn) = self
            .turns
            .iter()
            .find(|turn| asked.ends_with(&bare(&turn.asks)))
        else {
            return ScriptReply::saying(self.to_the_unknown());
        };
        turn.replies
            .get(replies)
            .and_then(|fitting| fitting.iter().find(|reply| reply.fits(results)))
            .cloned()
            .unwrap_or_else(|| ScriptReply::saying(self.lost.clone()))
    }

    fn to_the_unknown(&self) -> String {
        let known = self.turns.iter().map(|turn| format!("\n- {}", turn.asks));
        std::iter::once(format!("{}\n", self.unknown))
            .chain(known)
            .collect()
    }
}

/// TEXT without what people leave out, or type in addition, where they mean the same.
fn bare(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words
        .join(" ")
        .trim_end_matches(|end: char| end.is_ascii_punctuation() || end == ' ')
        .to_lowercase()
}

impl ScriptReply {
    fn saying(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// Whether it can follow RESULTS.
    fn fits(&self, results: &[&ChatMessage]) -> bool {
        if self.outcome.is_none() && self.result.is_none() {
            return true;
        }
        results.iter().any(|message| match message {
            ChatMessage::Tool {
                content, outcome, ..
            } => {
                self.outcome.is_none_or(|wanted| wanted == *outcome)
                    && self.result.as_ref().is_none_or(|it| content.contains(it))
            }
            _ => false,
        })
    }

    /// It, as a server streams it, in pieces.
    #[must_use]
    pub fn stream(&self) -> Vec<String> {
        let texts = pieces(&self.text, 16).map(|text| delta(&json!({"content": text})));
        let calls = self.calls.iter().enumerate().flat_map(|(index, call)| {
            let name = json!({"index": index, "function": {"name": call.tool, "arguments": ""}});
            let arguments = Value::from(call.arguments.clone()).to_string();
            let more: Vec<_> = pieces(&arguments, 40)
                .map(|text| json!({"index": index, "function": {"arguments": text}}))
                .collect();
            std::iter::once(name)
                .chain(more)
                .map(|piece| delta(&json!({"tool_calls": [piece]})))
        });
        let reason = match self.calls.is_empty() {
            true => "stop",
            false => "tool_calls",
        };
        let end = json!({
            "choices": [{"delta": {}, "finish_reason": reason}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0},
        });
        texts
            .chain(calls)
            .chain([event(&end), "data: [DONE]\n\n".to_owned()])
            .collect()
    }
}

fn delta(delta: &Value) -> String {
    event(&json!({"choices": [{"delta": delta}]}))
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// TEXT in pieces that have at least LENGTH bytes and end with a blank, but for the last.
fn pieces(text: &str, length: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest
            .char_indices()
            .find(|(place, letter)| *place >= length && letter.is_whitespace())
            .map_or(rest.len(), |(place, letter)| place + letter.len_utf8());
        let (piece, others) = rest.split_at(end);
        rest = others;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::reply::ReplyReader;
    use crate::provider::written_calls::ReadableCalls;
    use crate::provider::{Dialect, ModelOrigin};

    fn script() -> Script {
        serde_json::from_value(json!({
            "pace": 0,
            "unknown": "I only know these:",
            "lost": "That was not foreseen.",
            "turns": [{
                "asks": "What does transfer do?",
                "replies": [
                    [{"text": "Let me look at transfer in your image, as it is now.",
                      "calls": [{"tool": "eval_form", "arguments": {"form": "(+ 1 2)"}}]}],
                    [{"outcome": "denied", "text": "You denied it."},
                     {"result": "=> 3", "text": "It is 3."},
                     {"outcome": "failed", "text": "It failed."}],
                ],
            }],
        }))
        .expect("a script")
    }

    fn assistant() -> ChatMessage {
        ChatMessage::Assistant {
            origin: ModelOrigin::default(),
            parts: Vec::new(),
        }
    }

    fn after(asked: &str, results: &[(&str, CallOutcome)]) -> String {
        let mut messages = vec![ChatMessage::User(asked.into())];
        if !results.is_empty() {
            messages.push(assistant());
        }
        messages.extend(results.iter().map(|(content, outcome)| ChatMessage::Tool {
            call_id: "c".into(),
            content: (*content).into(),
            outcome: *outcome,
        }));
        script().reply(&messages.into()).text
    }

    #[test]
    fn it_says_what_fits_the_question_and_what_became_of_its_calls() {
        let asked = "(The user is in bank.lisp.)\n\nwhat does  transfer do";
        assert!(after(asked, &[]).starts_with("Let me look"));
        assert_eq!(
            after(asked, &[("=> 3", CallOutcome::Succeeded)]),
            "It is 3."
        );
        assert_eq!(
            after(asked, &[("no", CallOutcome::Denied)]),
            "You denied it."
        );
        assert_eq!(after(asked, &[("no", CallOutcome::Failed)]), "It failed.");
        let both = [
            ("=> 3", CallOutcome::Succeeded),
            ("no", CallOutcome::Denied),
        ];
        assert_eq!(after(asked, &both), "You denied it.");
    }

    #[test]
    fn what_it_does_not_know_it_says() {
        let known = "I only know these:\n\n- What does transfer do?";
        assert_eq!(after("What does deposit do?", &[]), known);
        assert_eq!(script().reply(&Messages::default()).text, known);
        let asked = "What does transfer do?";
        let other = [("=> 4", CallOutcome::Succeeded)];
        assert_eq!(after(asked, &other), "That was not foreseen.");
    }

    #[test]
    fn what_it_streams_is_read_as_a_servers() {
        let reply =
            script().reply(&vec![ChatMessage::User("What does transfer do?".into())].into());
        let mut reader = ReplyReader::reading(Dialect::ChatCompletions, ReadableCalls::default());
        let stream = reply.stream();
        assert!(stream.len() > 5);
        for piece in &stream {
            let _ = reader.push(piece.as_bytes());
        }
        let read = reader.finish().0.expect("a reply");
        assert_eq!(read.text(), reply.text);
        let calls = read.calls();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].name, "eval_form");
        assert_eq!(calls[0].raw_arguments, r#"{"form":"(+ 1 2)"}"#);
        assert_eq!(read.tokens(), 0);
    }
}
