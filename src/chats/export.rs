// SPDX-License-Identifier: GPL-3.0-or-later
//! A stored chat in other forms: as events for showing it again, as Markdown for people, and as the
//! beginning of another chat.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::ChatError;
use super::folder::{ChatFolder, ChatId, LONGEST_LINE, LineRead, next_line};
use super::reader::{Outline, outline, records};
use super::record::{Record, RecordKind, Stamped, VERSION, kind_of};
use crate::protocol::{
    CallKey, CallOutcome, CallResult, Consent, Event, SessionId, TurnId, TurnOutcome,
};

/// Writes chat ID of FOLDER to OUTPUT as Markdown.
///
/// # Errors
///
/// The chat can't be read, or OUTPUT not be written.
pub fn markdown(
    folder: &ChatFolder,
    id: &ChatId,
    output: &mut impl Write,
    shown: &Path,
) -> Result<(), ChatError> {
    let (file, path) = (folder.open(id)?, folder.file(id));
    let outline = outline(&file, &path)?;
    let write = |output: &mut dyn Write, text: &str| {
        output
            .write_all(text.as_bytes())
            .map_err(|source| ChatError::io(shown, source))
    };
    write(output, &heading(id, &outline))?;
    for turn in outline.turns.iter().filter(|turn| turn.shown()) {
        for part in parts(&records(&file, &path, &turn.bytes)?) {
            write(output, &part)?;
        }
    }
    Ok(())
}

fn heading(id: &ChatId, outline: &Outline) -> String {
    let first = outline.turns.first().map_or("", |turn| turn.words.as_str());
    let title = outline.name.as_deref().unwrap_or(first);
    let title = title.lines().next().filter(|line| !line.is_empty());
    let mut text = format!("# {}\n\n", title.unwrap_or(id.as_str()));
    let place = &outline.place;
    let facts = [
        ("Project", &place.project),
        ("Image", &place.image),
        ("Model", &place.model),
    ];
    for (what, fact) in facts {
        if let Some(fact) = fact {
            text.push_str(&format!("- {what}: {fact}\n"));
        }
    }
    text.push_str(&format!(
        "- Tokens: {} sent, {} received\n",
        outline.usage.input, outline.usage.output
    ));
    text
}

/// RECORDS, those of a turn, as texts: with each call what it came to, and the calls that it made.
fn parts(records: &[Stamped]) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    // Where what belongs to a call is, by its number.
    let mut places: HashMap<u64, usize> = HashMap::new();
    for Stamped { record, .. } in records {
        let place = match record {
            Record::Call { call, after, .. } => {
                let place = after.and_then(|it| places.get(&it).copied());
                places.insert(*call, place.unwrap_or(parts.len()));
                place
            }
            Record::Result { call, .. } => places.get(call).copied(),
            _ => None,
        };
        match place {
            Some(place) => parts[place].push_str(&part(record)),
            None => parts.push(part(record)),
        }
    }
    parts
}

/// The user's message TEXT, and what was sent ALONG.
fn quoted(text: &str, along: &[String]) -> String {
    let about: Vec<String> = along.iter().map(|it| format!("(with {it})")).collect();
    let lines = text.lines().chain(about.iter().map(String::as_str));
    let quoted: Vec<String> = lines.map(|line| format!("> {line}")).collect();
    quoted.join("\n")
}

fn part(record: &Record) -> String {
    match record {
        Record::Turn { text, along, .. } => format!("\n---\n\n{}\n", quoted(text, along)),
        Record::Steered { text, along } => format!("\n{}\n", quoted(text, along)),
        Record::Text { text } => format!("\n{}\n", text.trim_end()),
        Record::Call {
            tool, arguments, ..
        } => format!("\n**{tool}**{}\n", described(arguments)),
        Record::Result {
            outcome, content, ..
        } => {
            let said = match outcome {
                CallOutcome::Succeeded => "",
                CallOutcome::Failed => "Failed:\n\n",
                CallOutcome::Denied => "Denied:\n\n",
                CallOutcome::Cancelled => "Cancelled:\n\n",
            };
            format!("\n{said}{}\n", fenced("", content))
        }
        Record::Notice { text } => format!("\n*{}*\n", text.trim_end()),
        Record::Ended {
            message: Some(message),
            ..
        } => format!("\n*{}*\n", message.trim_end()),
        _ => String::new(),
    }
}

/// Arguments that are Lisp code.
const CODE: &[&str] = &["form", "source", "new_source"];

/// The longest argument that stands in the line of its call.
const SHORT: usize = 60;

/// ARGUMENTS, JSON text, as what follows the name of their tool: short ones in its line, code and long texts
/// below as they are.
fn described(arguments: &str) -> String {
    let Ok(Value::Object(named)) = serde_json::from_str(arguments) else {
        return format!("\n\n{}", fenced("", arguments));
    };
    let (mut line, mut below) = (String::new(), String::new());
    for (name, value) in &named {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        if CODE.contains(&name.as_str()) {
            below.push_str(&format!("\n\n{}", fenced("lisp", &text)));
        } else if text.len() > SHORT || text.contains(['\n', '`']) {
            below.push_str(&format!("\n\n{name}:\n\n{}", fenced("", &text)));
        } else {
            line.push_str(&format!(" {name}: `{text}`"));
        }
    }
    line + &below
}

/// TEXT in a fence that nothing in it ends.
fn fenced(language: &str, text: &str) -> String {
    let mut longest = 2;
    let mut run = 0;
    for byte in text.bytes() {
        run = if byte == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

/// Makes the chat NEW of FOLDER, which begins as chat ID did up to the turn BEFORE, or whole. What the
/// turns did to files stays with the first one.
///
/// # Errors
///
/// The chat can't be read, or the new one not be written.
pub fn fork(
    folder: &ChatFolder,
    id: &ChatId,
    before: Option<u64>,
    new: &ChatId,
) -> Result<(), ChatError> {
    let (file, path) = (folder.open(id)?, folder.file(id));
    let outline = outline(&file, &path)?;
    let end = match before {
        None => outline.bytes,
        Some(turn) => outline
            .turns
            .iter()
            .find(|it| it.turn == turn)
            .map_or(outline.bytes, |it| it.bytes.start),
    };
    let output = folder.create(new)?;
    let copied = copy(&folder.open(id)?, end, output, id, new);
    copied.map_err(|source| ChatError::io(folder.file(new), source))
}

fn copy(file: &File, end: u64, mut output: File, id: &ChatId, new: &ChatId) -> io::Result<()> {
    let first = Record::Chat {
        version: VERSION,
        id: new.to_string(),
        from: Some(id.to_string()),
    };
    let mut output_lines = Stamped::now(first).line();
    let mut input = BufReader::with_capacity(256 * 1024, file);
    let (mut line, mut at) = (Vec::new(), 0);
    while at < end {
        match next_line(&mut input, &mut line, LONGEST_LINE)? {
            LineRead::End => break,
            LineRead::TooLong { bytes } => at += bytes,
            LineRead::Line { bytes } => {
                at += bytes;
                if copied(&line) {
                    output_lines.extend_from_slice(&line);
                    output_lines.push(b'\n');
                }
                if output_lines.len() > 1024 * 1024 {
                    output.write_all(&output_lines)?;
                    output_lines.clear();
                }
            }
        }
    }
    output.write_all(&output_lines)?;
    output.sync_data()
}

/// Whether LINE is also of a chat that goes on from the same point.
fn copied(line: &[u8]) -> bool {
    let own = [&b"{\"kind\":\"journal\""[..], b"{\"kind\":\"content\""];
    kind_of(line) != RecordKind::Chat && !own.iter().any(|kind| line.starts_with(kind))
}

// The records of a turn as the events that it was made of. Requests are not among them: they can no longer
// be answered.

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
            message: None,
            session,
            turn: TurnId(turn),
            text,
            along,
        },
        Record::Steered { text, along } => Event::Steered {
            session,
            message: None,
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
                changed: None,
                elapsed: Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default(),
                level: None,
                consent: Consent::NotNeeded,
            },
        },
        Record::Notice { text } => Event::Notice { session, text },
        Record::Ended { outcome, message } => Event::TurnEnded {
            session,
            outcome: TurnOutcome::stored(&outcome, message.unwrap_or_default()),
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
