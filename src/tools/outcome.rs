// SPDX-License-Identifier: GPL-3.0-or-later
//! What the image's replies have in common, as text for a model: errors with their restarts and
//! frames, forms with their values, printed output.

use lexpr::Value;

use crate::image::{ErrorReport, Plist, Reply};
use crate::tool::ToolFailure;

/// The data that the operation returned.
///
/// # Errors
///
/// When it returned none, the text that says why.
pub fn returned(reply: &Reply) -> Result<Plist<'_>, ToolFailure> {
    match reply {
        Reply::Returned(value) => Ok(Plist::new(value)),
        Reply::Missed(message) => Err(ToolFailure::quoting(message)),
        Reply::Error(report) => Err(ToolFailure::quoting(error(report))),
        Reply::Cancelled { output, value } => Err(ToolFailure::quoting(stopped(output, value))),
    }
}

fn error(report: &ErrorReport) -> String {
    let mut lines = vec![format!(
        "Error {}: {}",
        report.condition_type,
        report.message.trim_end()
    )];
    lines.extend(progress(&report.value));
    if !report.restarts.is_empty() {
        let restarts: Vec<String> = report
            .restarts
            .iter()
            .map(|(name, description)| format!("{name} ({description})"))
            .collect();
        lines.push(format!("Restarts: {}", restarts.join(", ")));
    }
    if !report.frames.is_empty() {
        lines.push("Backtrace, innermost first:".to_owned());
        lines.extend(folded(&report.frames));
    }
    lines.extend(printed(&report.output));
    lines.extend(report.debugger.as_deref().map(parked));
    lines.join("\n")
}

fn parked(debugger: &str) -> String {
    format!(
        "The error is parked as debugger {debugger}: its stack is alive until invoke_restart leaves it (restart ABORT gives up). debugger_frames and eval_in_frame look into it."
    )
}

/// What was left by the restart that the caller asked for.
pub fn recoveries(data: Plist<'_>) -> Option<String> {
    let lines: Vec<String> = data
        .plists("recoveries")
        .map(|recovery| {
            format!(
                "  {}: {} -> {}",
                recovery.text("type").unwrap_or("ERROR"),
                recovery.text("message").unwrap_or_default(),
                recovery.text("restart").unwrap_or_default()
            )
        })
        .collect();
    (!lines.is_empty()).then(|| format!("Restarts invoked:\n{}", lines.join("\n")))
}

fn stopped(output: &str, value: &Value) -> String {
    let mut lines =
        vec!["Stopped before it came to its end: out of time, or cancelled.".to_owned()];
    lines.extend(progress(value));
    lines.extend(printed(output));
    lines.join("\n")
}

/// How many calls of one function in a row are each worth a line.
const CALLS_IN_A_ROW: usize = 3;

/// Frames, with runs of the same function folded: a runaway recursion is one line.
fn folded(frames: &[String]) -> Vec<String> {
    frames
        .chunk_by(|one, other| {
            one == other || operator(one).is_some_and(|it| operator(other) == Some(it))
        })
        .flat_map(|run| match run {
            [first, rest @ ..] if rest.iter().all(|it| it == first) && !rest.is_empty() => {
                vec![format!("  {first} (×{})", run.len())]
            }
            [first, rest @ ..] if rest.len() >= CALLS_IN_A_ROW => vec![
                format!("  {first}"),
                format!("  and {} more calls of it from itself", rest.len()),
            ],
            _ => run.iter().map(|frame| format!("  {frame}")).collect(),
        })
        .collect()
}

/// The function that FRAME is a call of, such as "FOO" of "(FOO 1 2)".
fn operator(frame: &str) -> Option<&str> {
    let call = frame.strip_prefix('(')?;
    let end = call.find([' ', ')'])?;
    (!call.starts_with('(')).then(|| &call[..end])
}

/// How far a call came that did not come to its end.
fn progress(value: &Value) -> Vec<String> {
    let plist = Plist::new(value);
    let done: Vec<Plist<'_>> = plist.plists("forms").collect();
    let mut lines = Vec::new();
    if let Some(current) = plist.text("current") {
        lines.push(match done.len() {
            0 => format!("in {current}"),
            count => format!("in form {}: {current}", count + 1),
        });
    }
    lines.extend(unprinted(plist));
    lines.extend(recoveries(plist));
    lines.extend(notes(plist));
    if !done.is_empty() {
        lines.push("The forms before it were evaluated:".to_owned());
        lines.extend(forms(&done));
    }
    lines
}

/// The values of a form that was evaluated, when its printers did not come to their end.
fn unprinted(plist: Plist<'_>) -> Option<String> {
    let values: Vec<String> = plist
        .list("unprinted")
        .filter_map(|value| {
            let pair = value.to_ref_vec()?;
            let mut texts = pair.into_iter().filter_map(Value::as_str);
            Some(format!("{}{}", texts.next()?, handle_of(texts.next())))
        })
        .collect();
    (!values.is_empty()).then(|| {
        format!(
            "That form was evaluated; printing its values did not end: {}",
            values.join(", ")
        )
    })
}

/// What the compiler said, a line each, and how much of it is left out.
pub fn notes(data: Plist<'_>) -> Vec<String> {
    let mut lines: Vec<String> = data.plists("notes").map(note).collect();
    if let Some(more) = data.integer("more").filter(|more| *more > 0) {
        lines.push(format!("({more} more notes)"));
    }
    lines
}

fn note(note: Plist<'_>) -> String {
    let severity = note.text("severity").unwrap_or("note");
    let message = note.text("message").unwrap_or_default();
    match (
        note.integer("line"),
        note.integer("column"),
        note.text("where"),
    ) {
        (Some(line), Some(column), _) => format!("{severity} at {line}:{column}: {message}"),
        (_, _, Some(place)) => format!("{severity} at {place}: {message}"),
        _ => format!("{severity}: {message}"),
    }
}

/// Forms and what each of them returned.
pub fn forms(forms: &[Plist<'_>]) -> Vec<String> {
    forms
        .iter()
        .flat_map(|form| {
            [
                form.text("form").unwrap_or_default().to_owned(),
                values(*form),
            ]
        })
        .collect()
}

/// What a form returned, as one line per value, with a handle where there is more to see.
pub fn values(form: Plist<'_>) -> String {
    let values = form.texts("values");
    if values.is_empty() {
        return "=> no values".to_owned();
    }
    let mut handles = form.list("handles");
    let lines: Vec<String> = values
        .iter()
        .map(|value| format!("=> {value}{}", handle(handles.next())))
        .collect();
    lines.join("\n")
}

/// The name under which the image keeps an object, as it is shown after the object.
pub fn handle(handle: Option<&Value>) -> String {
    handle_of(handle.and_then(Value::as_str))
}

fn handle_of(handle: Option<&str>) -> String {
    handle.map_or(String::new(), |handle| format!(" [{handle}]"))
}

/// What was printed, when anything was.
pub fn printed(output: &str) -> Option<String> {
    let output = output.trim_matches('\n').trim_end();
    (!output.trim().is_empty()).then(|| format!("Output:\n{output}"))
}
