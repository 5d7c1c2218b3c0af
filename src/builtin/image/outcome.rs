// SPDX-License-Identifier: GPL-3.0-or-later
//! What the image's replies have in common, as text for a model: errors with their restarts and
//! frames, forms with their values, printed output.

use lexpr::Value;

use crate::image::{ConditionReport, Frame, ImageReply, Plist, Stopped};
use crate::tool::ToolFailure;

/// The data that the operation returned.
///
/// # Errors
///
/// When it returned none, the text that says why.
pub fn returned(reply: &ImageReply) -> Result<Plist<'_>, ToolFailure> {
    match reply {
        ImageReply::Returned(value) => Ok(Plist::new(value)),
        ImageReply::Missed(message) => Err(ToolFailure::quoting(message)),
        ImageReply::Error(report) => Err(ToolFailure::quoting(error(report))),
        ImageReply::Cancelled(report) => Err(ToolFailure::quoting(stopped(report))),
    }
}

/// Whether the user has not allowed what REPORT tells of: conditions of the watch, which says the rest
/// in its own words.
#[must_use]
pub fn is_denial(report: &ConditionReport) -> bool {
    report
        .condition_type
        .strip_prefix("AGENT-Q-IMAGE::")
        .is_some_and(|name| name.ends_with("EFFECT-DENIED"))
}

fn error(report: &ConditionReport) -> String {
    let message = report.message.trim_end();
    let place = Plist::new(&report.value)
        .plists("notes")
        .filter(|note| says_again(*note, message))
        .find_map(|note| note.text("where"))
        .map_or(String::new(), |place| format!(" at {place}"));
    let denial = is_denial(report);
    let mut lines = vec![match denial {
        true => message.to_owned(),
        false => format!("Error {}{place}: {message}", report.condition_type),
    }];
    let mut progress = progress(&report.value, message);
    progress.retain(|line| !is_same_conflict(line, report));
    lines.extend(progress);
    if !denial {
        let choices = report.restarts.iter();
        lines.extend(restarts(choices.map(|(name, what)| (&**name, &**what))));
    }
    if !denial && !report.frames.is_empty() {
        lines.push("Backtrace, innermost first:".to_owned());
        lines.extend(folded(&report.frames));
    }
    lines.extend(printed(&said_once(&report.output, Some(&report.message))));
    lines.extend(report.debugger.as_deref().map(parked));
    lines.extend(
        Plist::new(&report.value)
            .text("unkept")
            .map(|why| format!("(The stack is not kept for the user's debugger: {why}.)")),
    );
    lines.join("\n")
}

/// Whether LINE is what was found, before a system was loaded, of the name conflict that REPORT tells of.
fn is_same_conflict(line: &str, report: &ConditionReport) -> bool {
    let names_package = |found: &str| {
        let after = found.split("the package ").nth(1);
        let name = after.and_then(|it| it.split(' ').next());
        name.is_some_and(|it| report.message.contains(it))
    };
    report.condition_type.ends_with("NAME-CONFLICT")
        && line.strip_prefix(BEFORE).is_some_and(|found| {
            [
                " ends with a name conflict.",
                " which are different symbols.",
            ]
            .iter()
            .any(|end| found.contains(end))
                && names_package(found)
        })
}

/// RESTARTS, names and what each does, of which one can be chosen.
pub fn restarts<'a>(restarts: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let restarts: Vec<String> = restarts
        .map(|(name, description)| format!("{name} ({description})"))
        .collect();
    (!restarts.is_empty()).then(|| format!("Restarts: {}", restarts.join(", ")))
}

fn parked(debugger: &str) -> String {
    format!(
        "The error is parked as debugger {debugger}: its stack is alive. Inspect it with debugger_frames, look into it with call_tool eval_in_frame, leave it with call_tool invoke_restart (ABORT abandons it), restart_frame or return_from_frame."
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

fn stopped(report: &Stopped) -> String {
    let because = report
        .because
        .as_deref()
        .unwrap_or("timed out or cancelled");
    let allocated = match &report.allocated {
        Some(size) => format!(" (the image allocated {size} in that time)"),
        None => String::new(),
    };
    let mut lines = vec![format!("Stopped before finishing: {because}{allocated}.")];
    lines.extend(progress(&report.value, ""));
    if !report.frames.is_empty() {
        lines.push("It was in, innermost first:".to_owned());
        lines.extend(folded(&report.frames));
    }
    lines.extend(printed(&report.output));
    lines.join("\n")
}

/// How many calls of one function in a row are each worth a line.
const CALLS_IN_A_ROW: usize = 3;

/// Frames, with runs of the same function folded: a runaway recursion is one line.
fn folded(frames: &[Frame]) -> Vec<String> {
    frames
        .chunk_by(|one, other| {
            one.text == other.text
                || operator(&one.text).is_some_and(|it| operator(&other.text) == Some(it))
        })
        .flat_map(|run| match run {
            [first, rest @ ..]
                if rest.iter().all(|it| it.text == first.text) && !rest.is_empty() =>
            {
                vec![format!("  {first} (×{})", run.len())]
            }
            [first, rest @ ..] if rest.len() >= CALLS_IN_A_ROW => vec![
                format!("  {first}"),
                format!("  and {} more recursive calls", rest.len()),
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

/// How many characters of an error's message tell it from others.
const TELLING: usize = 160;

/// Whether NOTE, of the compiler, is of the error whose MESSAGE is told.
fn says_again(note: Plist<'_>, message: &str) -> bool {
    let words = |text: &str| -> String {
        let text: Vec<&str> = text.split_whitespace().collect();
        text.join(" ").chars().take(TELLING).collect()
    };
    let said = words(note.text("message").unwrap_or_default());
    note.text("severity") == Some("error") && !said.is_empty() && words(message).starts_with(&said)
}

/// How far a call came that did not come to its end; without what the MESSAGE of the error says.
fn progress(value: &Value, message: &str) -> Vec<String> {
    let plist = Plist::new(value);
    let done: Vec<Plist<'_>> = plist.plists("forms").collect();
    let mut lines = Vec::new();
    if let Some(current) = plist.text("current") {
        lines.push(match done.len() {
            0 => format!("in {current}"),
            count => format!("in form {}: {current}", count + 1),
        });
    }
    lines.extend(before(plist));
    lines.extend(unprinted(plist));
    lines.extend(recoveries(plist));
    lines.extend(notes_but(plist, message));
    lines.extend(compiled_before(
        plist.integer("compiled").unwrap_or_default(),
    ));
    if !done.is_empty() {
        lines.push("The forms before it were evaluated:".to_owned());
        lines.extend(forms(&done));
    }
    lines
}

/// That COUNT forms were compiled before the one that failed.
pub fn compiled_before(count: i64) -> Option<String> {
    match count {
        0 => None,
        1 => Some("The form before it is compiled and in the image.".to_owned()),
        _ => Some(format!(
            "The {count} forms before it are compiled and in the image."
        )),
    }
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
            "The form was evaluated, but printing its values did not finish: {}",
            values.join(", ")
        )
    })
}

/// How a line on what was found in a system before it was loaded begins.
const BEFORE: &str = "Before loading: ";

/// What was found in a system before it was loaded, a line each.
pub fn before(data: Plist<'_>) -> Vec<String> {
    let found = data.texts("before").into_iter();
    found.map(|it| format!("{BEFORE}{it}")).collect()
}

/// What the compiler said, a line each, and how much of it is left out.
pub fn notes(data: Plist<'_>) -> Vec<String> {
    notes_but(data, "")
}

/// The same without the note of the error whose MESSAGE is told.
fn notes_but(data: Plist<'_>, message: &str) -> Vec<String> {
    let mut lines = warnings_but(data, message);
    lines.extend(uncounted(data));
    lines
}

/// What the compiler warned of, a line each; its notes are not even counted.
pub fn warnings(data: Plist<'_>) -> Vec<String> {
    warnings_but(data, "")
}

fn warnings_but(data: Plist<'_>, message: &str) -> Vec<String> {
    let told = data
        .plists("notes")
        .filter(|note| !says_again(*note, message));
    let mut lines = times(told.map(note));
    if let Some(more) = data.integer("more").filter(|more| *more > 0) {
        lines.push(format!(
            "({more} more {})",
            if more == 1 { "note" } else { "notes" }
        ));
    }
    lines
}

/// The end of a sentence on what was compiled: how many warnings came with it; empty without any.
pub fn with_warnings(data: Plist<'_>) -> String {
    let severities = data
        .plists("notes")
        .filter_map(|note| note.text("severity"))
        .filter(|severity| *severity != "note");
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for severity in severities {
        match counted.iter_mut().find(|(it, _)| *it == severity) {
            Some((_, count)) => *count += 1,
            None => counted.push((severity, 1)),
        }
    }
    // The image lists all errors and warnings, but of the others only so many.
    let cut = data.integer("more").is_some_and(|more| more > 0);
    let parts: Vec<String> = counted
        .into_iter()
        .map(|(severity, count)| {
            let least = if cut && severity == "style-warning" {
                "at least "
            } else {
                ""
            };
            let plural = if count == 1 { "" } else { "s" };
            format!("{least}{count} {severity}{plural}")
        })
        .collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(", with {}", parts.join(" and ")),
    }
}

/// LINES, each once, with how often it came.
fn times(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for line in lines {
        match counted.iter_mut().find(|(it, _)| *it == line) {
            Some((_, count)) => *count += 1,
            None => counted.push((line, 1)),
        }
    }
    counted
        .into_iter()
        .map(|(line, count)| match count {
            1 => line,
            _ => format!("{line} (×{count})"),
        })
        .collect()
}

/// How many notes there are that are not listed.
fn uncounted(data: Plist<'_>) -> Option<String> {
    let notes: i64 = data
        .list("counts")
        .filter_map(|entry| entry.to_ref_vec()?.get(1)?.as_i64())
        .sum();
    let elsewhere = data.integer("elsewhere").unwrap_or_default();
    let parts: Vec<String> = [
        (notes, "optimization notes"),
        (elsewhere, "notes and style-warnings of other systems"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "(Not listed: {}; call_tool get_compilation_notes lists all.)",
            parts.join(", ")
        )
    })
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

/// Forms, what each of them returned, and what it printed if others follow.
pub fn forms(forms: &[Plist<'_>]) -> Vec<String> {
    forms
        .iter()
        .flat_map(|form| {
            let mut lines = vec![
                form.text("form").unwrap_or_default().to_owned(),
                values(*form),
            ];
            let output = said_once(form.text("output").unwrap_or_default(), None);
            lines.extend(printed(&output));
            lines
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

// What SBCL's compiler prints among a program's own output, in lines that start with a semicolon:
// without what it says twice, and without what an error that follows says again.

/// OUTPUT without the compiler's summaries, and without its warnings of undefined names that ERROR,
/// the message of the error in which the call ended, is about.
#[must_use]
pub fn said_once(output: &str, error: Option<&str>) -> String {
    let lines: Vec<&str> = output.split('\n').collect();
    let kept: Vec<&str> = lines
        .chunk_by(|one, other| one.starts_with(';') == other.starts_with(';'))
        .flat_map(|run| match run.iter().any(|line| is_warning(line)) {
            true => worth_reading(run, error),
            false => run,
        })
        .copied()
        .collect();
    kept.join("\n")
}

fn is_warning(line: &str) -> bool {
    line.starts_with("; caught ") && line.ends_with(':')
}

/// The part of RUN, lines of the compiler's, that says something new.
fn worth_reading<'a, 'b>(run: &'b [&'a str], error: Option<&str>) -> &'b [&'a str] {
    let warnings: Vec<&str> = run
        .windows(2)
        .filter(|pair| is_warning(pair[0]))
        .map(|pair| pair[1])
        .collect();
    let repeats = |warning: &&str| error.is_some_and(|error| repeats(warning, error));
    if warnings.iter().all(repeats) {
        return &[];
    }
    let end = run
        .iter()
        .position(|line| line.starts_with("; compilation unit "))
        .unwrap_or(run.len());
    let blank = |line: &&str| line.trim_end() == ";";
    let end = end
        - run[..end]
            .iter()
            .rev()
            .take_while(|line| blank(line))
            .count();
    &run[..end]
}

/// Whether WARNING, as in ";   undefined function: PKG::NAME", is about the name that ERROR misses.
fn repeats(warning: &str, error: &str) -> bool {
    let said = warning.trim_start_matches([';', ' ']);
    ["undefined function: ", "undefined variable: "]
        .into_iter()
        .find_map(|start| said.strip_prefix(start))
        .is_some_and(|name| {
            let bare = name.rsplit(':').next().unwrap_or(name);
            error
                .split([' ', ':', '\n'])
                .any(|word| !bare.is_empty() && word.trim_end_matches('.') == bare)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNDEFINED: &str = "before
; in: F 1
;     (F 1)
; 
; caught STYLE-WARNING:
;   undefined function: COMMON-LISP-USER::F
; 
; compilation unit finished
;   Undefined function:
;     F
;   caught 1 STYLE-WARNING condition
after";

    #[test]
    fn what_the_error_says_is_not_said_again() {
        let error = "The function COMMON-LISP-USER::F is undefined.";
        assert_eq!(said_once(UNDEFINED, Some(error)), "before\nafter");
    }

    #[test]
    fn another_error_leaves_the_warning_and_loses_the_summary() {
        let warning = "before
; in: F 1
;     (F 1)
; 
; caught STYLE-WARNING:
;   undefined function: COMMON-LISP-USER::F
after";
        for error in [
            None,
            Some("The function COMMON-LISP-USER::FF is undefined."),
            Some("arithmetic error DIVISION-BY-ZERO signalled"),
        ] {
            assert_eq!(said_once(UNDEFINED, error), warning);
        }
    }

    #[test]
    fn another_warning_beside_it_keeps_both() {
        let two = "; caught WARNING:
;   Constant 1 conflicts with its asserted type LIST.
; 
; caught STYLE-WARNING:
;   undefined function: F";
        assert_eq!(said_once(two, Some("The function F is undefined.")), two);
    }

    #[test]
    fn lines_of_the_program_stay() {
        for own in [
            "; a comment\n;; another\n\nx",
            ";; compilation unit finished",
            "",
        ] {
            assert_eq!(said_once(own, Some("The function X is undefined.")), own);
        }
    }
}
