// SPDX-License-Identifier: GPL-3.0-or-later
//! Calls that are told of while the model writes them, in every dialect.

use crate::DIALECTS;
use crate::chat::{chat, turns};
use agent_q_core::protocol::{Event, SessionState, TurnOutcome};
use serde_json::json;

/// What EVENTS tell of calls before they are complete: number, tool, parameter, and all of its text.
fn drafted(events: &[Event]) -> Vec<(u64, String, String, String)> {
    let mut drafted: Vec<(u64, String, String, String)> = Vec::new();
    for event in events {
        if let Event::CallDrafted {
            number,
            tool,
            parameter,
            text,
            ..
        } = event
        {
            let key = (number, tool, parameter);
            match drafted.last_mut() {
                Some((number, tool, parameter, before))
                    if (&*number, &*tool, &*parameter) == key =>
                {
                    before.push_str(text);
                }
                _ => drafted.push((*number, tool.clone(), parameter.clone(), text.clone())),
            }
        }
    }
    drafted
}

#[tokio::test]
async fn a_long_call_is_told_of_while_it_is_written() {
    let text = "(defun f ()\n  \"A \\ and a \u{1f600}.\")\n".repeat(9);
    for dialect in DIALECTS {
        let script = turns(json!([
            [{"tool_calls": [
                {"name": "echo", "arguments": {"text": "short"}},
                {"name": "echo", "arguments": {"number": 1, "text": text}},
            ], "fragments": 31}],
            [{"text": "Done."}],
        ]));
        let provider = json!({"name": "test", "model": "m", "dialect": dialect});
        let chat = chat(&script, json!({"provider": provider}));
        assert_eq!(chat.say("go").await, TurnOutcome::Finished, "{dialect}");
        let events = chat.emacs.events.lock().unwrap();
        let expected = (1, "echo".to_owned(), "text".to_owned(), text.clone());
        assert_eq!(drafted(&events), [expected], "{dialect}");

        let place = |wanted: fn(&Event) -> bool| events.iter().position(wanted).unwrap();
        let draft = place(|event| matches!(event, Event::CallDrafted { .. }));
        let proposed = place(|event| matches!(event, Event::CallProposed { .. }));
        let streaming = place(
            |event| matches!(event, Event::State { state, .. } if *state == SessionState::Streaming),
        );
        assert!(streaming < draft && draft < proposed, "{dialect}");
    }
}

#[tokio::test]
async fn what_is_told_of_a_call_that_is_cut_runs_nothing() {
    let text = "x".repeat(500);
    let script = turns(json!([
        [{"tool_calls": [{"name": "echo", "arguments": {"text": text}}], "fragments": 9},
         {"cut": true}],
    ]));
    let chat = chat(&script, json!({}));
    let outcome = chat.say("go").await;
    assert!(matches!(
        outcome,
        TurnOutcome::Interrupted(_) | TurnOutcome::Failed(_)
    ));
    let events = chat.emacs.events.lock().unwrap();
    assert_eq!(drafted(&events).len(), 1);
    let ran = |event: &Event| matches!(event, Event::CallStarted { .. });
    assert!(!events.iter().any(ran));
}
