// SPDX-License-Identifier: GPL-3.0-or-later
//! The records of a turn as the events that it was made of, for showing it again. Requests are not
//! among them: nobody can answer those any more.

use std::collections::HashMap;
use std::time::Duration;

use super::record::{Record, Stamped};
use crate::protocol::{CallKey, CallResult, Consent, Event, SessionId, TurnId, TurnOutcome};

/// RECORDS, those of a turn, as events of SESSION.
#[must_use]
pub fn events(session: SessionId, records: Vec<Stamped>) -> Vec<Event> {
    let mut keys = HashMap::new();
    let mut events = Vec::new();
    for Stamped { record, .. } in records {
        // What was a call's number in another Emacs may be another's here.
        let mut key = |call: u64| *keys.entry(call).or_insert_with(CallKey::next);
        events.extend(event(session, record, &mut key));
    }
    events
}

fn event(
    session: SessionId,
    record: Record,
    key: &mut impl FnMut(u64) -> CallKey,
) -> Option<Event> {
    Some(match record {
        Record::Turn { turn, text, along } => Event::TurnStarted {
            session,
            turn: TurnId(turn),
            text,
            along,
        },
        Record::Text { text } => Event::Text { session, text },
        Record::Reasoning { text } => Event::Reasoning { session, text },
        Record::Call {
            call,
            tool,
            arguments,
            after,
        } => Event::CallProposed {
            session,
            call: key(call),
            tool,
            arguments,
            after: after.map(key),
        },
        Record::Started {
            call,
            tool,
            arguments,
        } => Event::CallStarted {
            session,
            call: key(call),
            tool,
            handler: None,
            arguments,
        },
        Record::Result {
            call,
            outcome,
            content,
            milliseconds,
        } => Event::CallFinished {
            session,
            call: key(call),
            result: CallResult {
                id: String::new(),
                outcome,
                content,
                source: None,
                remark: None,
                elapsed: Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default(),
                level: None,
                consent: Consent::NotNeeded,
            },
        },
        Record::Notice { text } => Event::Notice { session, text },
        Record::Ended { outcome, message } => Event::TurnEnded {
            session,
            outcome: outcome_of(&outcome, message.unwrap_or_default()),
        },
        Record::Chat { .. }
        | Record::Opened { .. }
        | Record::Place(_)
        | Record::Name { .. }
        | Record::Asked { .. }
        | Record::Usage { .. }
        | Record::Kept { .. }
        | Record::Dropped { .. }
        | Record::Rewound { .. }
        | Record::ImageRewound { .. }
        | Record::Unwound { .. }
        | Record::Entry { .. }
        | Record::Content { .. }
        | Record::Journal { .. } => return None,
    })
}

fn outcome_of(name: &str, message: String) -> TurnOutcome {
    match name {
        "finished" => TurnOutcome::Finished,
        "cancelled" => TurnOutcome::Cancelled,
        "limit" => TurnOutcome::Limit(message),
        "interrupted" => TurnOutcome::Interrupted(message),
        _ => TurnOutcome::Failed(message),
    }
}
