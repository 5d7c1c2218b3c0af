// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that load, test and trace what is in the Lisp image. Their failures are told by `outcome`, as
//! all errors in the image are.

use lexpr::Value;

use super::common::{
    background_parameter, counted, flag, image_parameter, image_words, package_parameter, text,
};
use super::execution::{NAMED, restart_parameter};
use super::outcome;
use super::systems::{SYSTEM_SYNTAX, built, finding_to_load, other_file};
use super::timeouts::{long, long_timeout_parameter};
use super::xref::place_of_check;
use crate::builtin::files::reading::texts_parameter;
use crate::builtin::more;
use crate::image::{ImageReply, Plist, property_list};
use crate::protocol::Lisp;
use crate::tool::work::{Running, WorkContext};
use crate::tool::{
    Arguments, Assessment, Content, ImageTool, Parameter, ParameterType, Runner, Tool, ToolFailure,
};
use crate::trust::{Provenance, SafetyLevel, Source, draw, fence};
use crate::workspace::TestsRun;

/// The parameter of load_system that says to load nothing.
pub(crate) const DRY_RUN: &str = "dry_run";

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        load_system(),
        run_tests(),
        trace_function(),
        untrace_function(),
        get_trace(),
    ]
}

fn load_system() -> Tool {
    let mut tool = Tool::new(
        "load_system",
        "Load an ASDF system, recompiling changed files, and return errors and warnings.",
        SafetyLevel::Dangerous,
        &["execution"],
        vec![
            Parameter::optional("system", ParameterType::String, SYSTEM_SYNTAX),
            texts_parameter("files", "Only these"),
            Parameter::optional(
                "force",
                ParameterType::Boolean,
                "Recompile all its files; replaces another copy",
            ),
            Parameter::optional(
                DRY_RUN,
                ParameterType::Boolean,
                "Load nothing; tell what will conflict",
            ),
            restart_parameter(),
            long_timeout_parameter(),
            background_parameter(),
            image_parameter(),
        ],
        Runner::Image(ImageTool {
            operation: "load-system",
            arguments: |arguments| {
                property_list([
                    ("system", text(arguments, "system")),
                    ("force", flag(arguments, "force")),
                    ("restart", text(arguments, "restart")),
                    ("dry-run", flag(arguments, DRY_RUN)),
                ])
            },
            render: render_loading,
            deadline: long,
        }),
    );
    tool.assess = |level, arguments| match arguments.flag(DRY_RUN) {
        // The definition of the system may have to be loaded, which the watch asks about.
        true => Assessment {
            level: level.min(SafetyLevel::Cautious),
            reason: String::new(),
        },
        false => Assessment {
            level,
            reason: format!("loads code into {}", image_words(arguments)),
        },
    };
    tool.finding = Some(finding_to_load);
    tool.code = Some(NAMED);
    tool
}

fn render_loading(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    if data.flag("dry") {
        return Ok(render_dry_run(data));
    }
    let again = data.texts("again");
    let mut head = match again.is_empty() {
        true => format!("Loaded {}", data.text("system").unwrap_or("the system")),
        false => format!("Compiled and loaded {}", again.join(", ")),
    };
    let end = if again.is_empty() { "" } else { "." };
    if let Some(version) = data.text("version") {
        head.push_str(&format!(" {version}"));
    }
    if let Some(file) = data.text("file") {
        head.push_str(&format!(" from {file}"));
    }
    head.push_str(&outcome::with_warnings(data));
    head.push_str(end);
    let mut lines = vec![head];
    lines.extend(outcome::before(data));
    lines.extend(other_file(data));
    lines.extend(built(data));
    lines.extend(redefined(data));
    lines.extend(outcome::notes(data));
    lines.extend(outcome::recoveries(data));
    lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
    Ok(lines.join("\n"))
}

/// What loading a system would stumble over, the order of its files, and which of them it would load.
fn render_dry_run(data: Plist<'_>) -> String {
    let few = |name: &str, count: i64| {
        let files = data.texts(name);
        match count - files.len() as i64 {
            0 => files.join(", "),
            more => format!("{} and {more} more", files.join(", ")),
        }
    };
    let number = |name: &str| data.integer(name).unwrap_or_default();
    let (count, load) = (number("file-count"), number("load-count"));
    let would = match load {
        0 => "They are all loaded as they are, so it would load none.".to_owned(),
        _ if load == count => "It would load them all.".to_owned(),
        _ => format!("It would load {load} of them: {}.", few("to-load", load)),
    };
    let mut lines = vec![format!(
        "Dry run, nothing was loaded. {} takes {} of the project in this order: {}. {would}",
        data.text("system").unwrap_or("The system"),
        counted(count, "file"),
        few("files", count),
    )];
    lines.extend(other_file(data));
    let snags = outcome::before(data);
    if snags.is_empty() {
        lines.push(
            "Nothing was found in it that will conflict: packages and macros come before their uses, as far as the texts tell."
                .to_owned(),
        );
    }
    lines.extend(snags);
    lines.join("\n")
}

fn run_tests() -> Tool {
    let mut tool = Tool::new(
        "run_tests",
        "Run a system's tests, or one suite or test, and list the failures. Changed files are loaded first. With none named: those that failed last.",
        SafetyLevel::Dangerous,
        &["execution"],
        vec![
            Parameter::optional(
                "system",
                ParameterType::String,
                "System to test, or to load before a suite or test",
            ),
            Parameter::optional(
                "suite",
                ParameterType::String,
                "Parachute, Rove: also a package",
            ),
            Parameter::optional("test", ParameterType::String, ""),
            Parameter::optional(
                "affected",
                ParameterType::Boolean,
                "Only those that reach changes",
            ),
            package_parameter(),
            restart_parameter(),
            Parameter::optional("on_error", ParameterType::String, "").one_of(&["report", "park"]),
            long_timeout_parameter(),
            background_parameter(),
            image_parameter(),
        ],
        Runner::Image(ImageTool {
            operation: "run-tests",
            arguments: |arguments| {
                property_list([
                    ("system", text(arguments, "system")),
                    ("suite", text(arguments, "suite")),
                    ("test", text(arguments, "test")),
                    ("affected", flag(arguments, "affected")),
                    ("package", text(arguments, "package")),
                    ("restart", text(arguments, "restart")),
                    ("on-error", text(arguments, "on_error")),
                ])
            },
            render: render_tests,
            deadline: long,
        }),
    );
    tool.assess = |level, arguments| Assessment {
        level,
        reason: format!("runs tests in {}", image_words(arguments)),
    };
    tool.finding = Some(finding_to_load);
    tool.code = Some(NAMED);
    tool.instead = Some(after_tests);
    tool
}

/// How a model sees output that was left out, where nothing keeps it.
const RUN_AGAIN: &str = "run one suite or test to see its output";

/// The results; where all that was changed has passed, that is noted.
fn after_tests(
    arguments: &Arguments,
    reply: &ImageReply,
    context: &WorkContext,
) -> Option<Running<Content>> {
    let part = arguments.text("suite").or(arguments.text("test"));
    if let (None, ImageReply::Returned(data)) = (part, reply) {
        let data = Plist::new(data);
        let number = |name: &str| data.integer(name).unwrap_or_default();
        let is_all = !data.flag("again") && !data.flag("problem");
        if number("passed") > 0 && number("failed") == 0 && is_all {
            context.workspace.all_passed();
        }
        if let Some(system) = arguments.text("system")
            && context.lisp == Lisp::Users
            && !arguments.flag("affected")
        {
            context.workspace.tests_ran(system, tests_run(data));
        }
    }
    with_places(arguments, reply, context)
}

/// Which tests ran, as DATA of a reply says.
pub(super) fn tests_run(data: Plist<'_>) -> TestsRun {
    TestsRun {
        checks: data.integer("total").unwrap_or_default(),
        names: data.texts("ran").into_iter().map(str::to_owned).collect(),
    }
}

/// How many failed checks are looked for in the project's files.
const CHECKS_SOUGHT: usize = 10;

/// The results with the places of failed checks that the image doesn't know, and with a way to output that is
/// left out of them.
fn with_places(
    arguments: &Arguments,
    reply: &ImageReply,
    context: &WorkContext,
) -> Option<Running<Content>> {
    let (arguments, reply, context) = (arguments.clone(), reply.clone(), context.clone());
    outcome::returned(&reply).ok()?;
    Some(Box::pin(async move {
        let checks: Vec<Check> = outcome::returned(&reply)?
            .plists("results")
            .take(CHECKS_SOUGHT)
            .map(|it| Check {
                test: it.text("test").map(str::to_owned),
                expression: it.text("expression").map(str::to_owned),
                place: it.text("where").map(str::to_owned),
            })
            .collect();
        let mut places = Vec::new();
        for check in checks {
            places.push(match (check.place, check.test) {
                (None, Some(test)) => {
                    place_of_check(&test, check.expression.as_deref(), &context).await
                }
                (place, _) => place,
            });
        }
        let told = tests_told(&arguments, &reply, &places)?;
        Ok(Content::from(
            with_all_output(&told, &reply, &context).unwrap_or(told),
        ))
    }))
}

/// A check that failed, as far as the image knows it.
struct Check {
    test: Option<String>,
    expression: Option<String>,
    place: Option<String>,
}

/// TOLD, of REPLY, where output is left out of it that can be read then.
fn with_all_output(told: &str, reply: &ImageReply, context: &WorkContext) -> Option<String> {
    if !context.offer.lists(more::READ_RESULT) {
        return None;
    }
    let (before, after) = told.split_once(RUN_AGAIN)?;
    let source = Source {
        what: "the image".to_owned(),
        provenance: Provenance::Own,
    };
    let output = outcome::returned(reply).ok()?.text("output")?;
    let number = context.past.keep_part(&fence(output, &source, draw()));
    Some(format!(
        "{before}{} with number {number} shows it{after}",
        more::READ_RESULT
    ))
}

pub(super) fn render_tests(
    arguments: &Arguments,
    reply: &ImageReply,
) -> Result<String, ToolFailure> {
    tests_told(arguments, reply, &[])
}

/// What REPLY says of the tests, with the PLACES of its results, as far as they were found.
fn tests_told(
    arguments: &Arguments,
    reply: &ImageReply,
    places: &[Option<String>],
) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let number = |name: &str| data.integer(name).unwrap_or_default();
    let (total, failed, skipped) = (number("total"), number("failed"), number("skipped"));
    let printed = outcome::printed(&without_remarks(data.text("output").unwrap_or_default()));
    let mut lines = Vec::new();
    let reach = data.integer("affected");
    if reach == Some(0) {
        lines.push(nothing_reaches(data));
        lines.extend(outcome::notes(data));
        return Ok(lines.join("\n"));
    }
    if total == 0 {
        lines.push(uncounted(data, printed.as_deref()));
    } else {
        let frameworks = data.texts("frameworks").join(", ");
        let skipped = if skipped > 0 {
            format!(", {skipped} skipped")
        } else {
            String::new()
        };
        lines.push(format!(
            "{}: {} of {total} checks passed, {failed} failed{skipped}{} ({frameworks}).",
            if failed > 0 || number("passed") == 0 || data.flag("problem") {
                "FAILED"
            } else {
                "PASSED"
            },
            number("passed"),
            match (data.text("test"), number("tests")) {
                (Some(test), _) => format!(", in {test}"),
                (None, 0) => String::new(),
                (None, tests) => format!(", in {tests} tests"),
            },
        ));
    }
    let stale = data.texts("failed-files");
    if !stale.is_empty() {
        lines.push(format!(
            "The image has an older state of {}, whose last load failed; load_system tells why.",
            stale.join(", ")
        ));
    }
    if let Some(whose) = whose(data) {
        lines[0].insert_str(0, &whose);
    }
    if reach.is_some() {
        lines.extend(ways(data));
    }
    let instead = data.texts("instead");
    if !instead.is_empty() {
        lines.push(format!(
            "(The system's test operation runs no test; these are the tests of its packages: {}.)",
            instead.join(", ")
        ));
    }
    let again = data.texts("again");
    if !again.is_empty() {
        lines.push(format!(
            "(Run again, as they failed before: {}.)",
            again.join(", ")
        ));
    }
    lines.extend(other_file(data));
    let mut places = places.iter().map(Option::as_deref);
    lines.extend(
        data.plists("results")
            .flat_map(|it| test_result(it, places.next().flatten().or(it.text("where")))),
    );
    if number("more") > 0 {
        lines.push(format!(
            "({} more; run fewer tests at once.)",
            number("more")
        ));
    }
    if data.flag("problem") {
        lines.extend(data.get("problem").map(problem));
    }
    let empty =
        total == 0 && (printed.is_none() || data.flag("problem") || data.flag("no-test-operation"));
    if data
        .integer("compiled-count")
        .is_some_and(|count| count > 0)
    {
        lines.extend(outcome::before(data));
        lines.extend(built(data));
        lines.extend(outcome::notes(data));
    }
    lines.extend(redefined(data));
    lines.extend(outcome::recoveries(data));
    let target = arguments.text("suite").or(arguments.text("test"));
    let passed = total > 0 && failed == 0 && number("passed") > 0 && !data.flag("problem");
    lines.extend(match (passed, target) {
        (true, None) => printed.map(briefly),
        // The results can't be counted, so the lines may be all that tells of them.
        _ if total == 0 => printed.map(|it| abridged(&it)),
        _ => printed
            .and_then(|it| outcome::printed(&without_passed(it.trim_start_matches("Output:\n")))),
    });
    let text = lines.join("\n");
    if empty {
        Err(ToolFailure::quoting(text))
    } else {
        Ok(text)
    }
}

/// What was changed, as far as tests were chosen by that.
fn what_changed(data: Plist<'_>) -> String {
    let more = match data.integer("changed-more").unwrap_or_default() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let elsewhere = data.texts("elsewhere");
    let elsewhere = match elsewhere.is_empty() {
        true => String::new(),
        false => format!("; all of {}, edited by somebody else", elsewhere.join(", ")),
    };
    format!("{}{more}{elsewhere}", data.texts("changed").join(", "))
}

/// That no test was run, as none reaches what was changed.
fn nothing_reaches(data: Plist<'_>) -> String {
    let of = data.integer("of").unwrap_or_default();
    match (data.texts("changed").is_empty(), of) {
        (true, _) => "No test was run: no definition is known to have changed since its tests passed. Without affected, run_tests runs all.".to_owned(),
        (false, 0) => format!(
            "No test was run: no loaded test is of a known framework, so it can't be told which reach the change. Give the system that has others, or run its tests without affected. Changed: {}.",
            what_changed(data)
        ),
        (false, _) => format!(
            "No test was run: none of {} is known to reach what was changed ({}). That doesn't say that it works: write a test, or run all.",
            counted(of, "test"),
            what_changed(data)
        ),
    }
}

/// Which tests were chosen, and how each reaches what was changed.
fn ways(data: Plist<'_>) -> Vec<String> {
    let count = |name: &str| data.integer(name).unwrap_or_default();
    let mut lines = vec![format!(
        "({} of {} run: those known to reach what was changed: {}.)",
        count("affected"),
        counted(count("of"), "test"),
        what_changed(data)
    )];
    let ways: Vec<String> = data
        .list("ways")
        .filter_map(|way| {
            let steps = way.to_ref_vec()?;
            let steps: Vec<&str> = steps.into_iter().filter_map(Value::as_str).collect();
            Some(format!("  {}", steps.join(" -> ")))
        })
        .collect();
    let more = count("affected") - ways.len() as i64;
    lines.extend(ways);
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
    lines
}

/// What ended the run early: an error of the tests, or of a system that they load. The restart that counts
/// failed tests as passed is not offered.
fn problem(report: &Value) -> String {
    let problem = Plist::new(report);
    let choices = problem.list("restarts").filter_map(|restart| {
        let parts = restart.to_ref_vec()?;
        let (name, what) = (parts.first()?.as_str()?, parts.get(1)?.as_str()?);
        (!what.contains(" testing ") && !what.contains("TEST-OP")).then_some((name, what))
    });
    let told = format!(
        "The run did not finish:\n  {}: {}",
        problem.text("type").unwrap_or("ERROR"),
        problem.text("message").unwrap_or_default()
    );
    match outcome::restarts(choices) {
        Some(restarts) => format!("{told}\n{restarts}"),
        None => told,
    }
}

/// How many lines of output are shown of tests that passed.
const LINES_OF_PASSED: usize = 10;

/// What tests PRINTED of which nothing failed.
fn briefly(printed: String) -> String {
    match printed.lines().count() - 1 {
        0..=LINES_OF_PASSED => printed,
        count => format!("(Output: {count} lines, not shown as all tests passed; {RUN_AGAIN}.)"),
    }
}

/// How many lines of output are shown beside results that say what failed.
const LINES_OF_FAILED: usize = 25;

/// The end of OUTPUT without the lines on tests that passed.
fn without_passed(output: &str) -> String {
    let passed = |line: &str| {
        let line = line.trim();
        line.contains("[ OK ]") || line.starts_with('✓') || line.ends_with("PASSED")
    };
    let kept: Vec<&str> = output.lines().filter(|line| !passed(line)).collect();
    match kept.len().saturating_sub(LINES_OF_FAILED) {
        0 => kept.join("\n"),
        left_out => format!(
            "({} left out; {RUN_AGAIN}.)\n{}",
            counted(left_out as i64, "line"),
            kept[left_out..].join("\n")
        ),
    }
}

/// OUTPUT without ASDF's remarks on how definitions of systems are written, which come again and again, and
/// without the compiler's summaries of notes that are told anyway.
fn without_remarks(output: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = output.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("; compilation unit ") {
            while kept.pop_if(|it: &mut &str| it.trim_end() == ";").is_some() {}
            while lines.next_if(|it| it.starts_with(";   ")).is_some() {}
            continue;
        }
        let remark = line.starts_with("WARNING:")
            && [line, lines.peek().copied().unwrap_or_default()]
                .iter()
                .any(|it| REMARKS.iter().any(|remark| it.contains(remark)));
        if !remark {
            kept.push(line);
            continue;
        }
        while lines.next_if(|it| it.starts_with("  ")).is_some() {}
    }
    kept.join("\n")
}

/// What such remarks have in them.
const REMARKS: [&str; 2] = ["System definition file", "Computing just-done stamp"];

/// How many lines are shown of the beginning, the middle and the end of output that nobody can count.
const LINES_OF_UNCOUNTED: (usize, usize, usize) = (15, 20, 25);

/// What tests PRINTED whose results can't be counted: of long output its beginning and its end, and from
/// between what sounds like a failure.
fn abridged(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    let (head, middle, tail) = LINES_OF_UNCOUNTED;
    if lines.len() <= head + middle + tail {
        return printed.to_owned();
    }
    let between = &lines[head..lines.len() - tail];
    let bad: Vec<&str> = between
        .iter()
        .filter(|line| {
            let line = line.to_lowercase();
            ["fail", "error", "unexpected", "not ok", "wrong"]
                .iter()
                .any(|word| line.contains(word))
        })
        .take(middle)
        .copied()
        .collect();
    let mut kept = lines[..head].to_vec();
    let remark = format!(
        "({} left out, but for those on failures; {RUN_AGAIN}.)",
        counted((between.len() - bad.len()) as i64, "line")
    );
    kept.push(&remark);
    kept.extend(bad);
    kept.extend(&lines[lines.len() - tail..]);
    kept.join("\n")
}

/// How many definitions came from files other than those they were loaded from now: the sign of a
/// second copy of a system.
fn redefined(data: Plist<'_>) -> Option<String> {
    let places: Vec<(&str, i64)> = data
        .list("redefined")
        .filter_map(|entry| {
            let entry = entry.to_ref_vec()?;
            Some((entry.first()?.as_str()?, entry.get(1)?.as_i64()?))
        })
        .collect();
    let (most, _) = places.first()?;
    let count: i64 = places.iter().map(|(_, count)| count).sum();
    let elsewhere = match places.len() {
        1 => String::new(),
        more => format!(" and {}", counted(more as i64 - 1, "other folder")),
    };
    let (were, subject) = match count {
        1 => ("was", "definition"),
        _ => ("were", "definitions"),
    };
    Some(format!(
        "({count} {subject} {were} redefined that came from {most}{elsewhere}.)"
    ))
}

/// Whose tests ran, where a system was named.
fn whose(data: Plist<'_>) -> Option<String> {
    let systems: Vec<Plist<'_>> = data.plists("tested").collect();
    let last = systems.last()?.text("file");
    let mut whose = "Tests of ".to_owned();
    for (index, system) in systems.iter().enumerate() {
        let next = systems.get(index + 1);
        whose.push_str(system.text("system").unwrap_or("?"));
        let file = system.text("file");
        if let Some(file) = file.filter(|_| next.is_none_or(|it| it.text("file") != file)) {
            whose.push_str(&format!(", {file}"));
        }
        whose.push_str(if next.is_some() { ", " } else { ": " });
    }
    last.map(|_| whose)
}

/// Whether tests ran, in the run that DATA tells of, without a check that can be counted, and printed something.
pub(super) fn is_uncounted(data: Plist<'_>) -> bool {
    // What was printed without a test operation is what loading the system prints.
    !data.flag("no-test-operation") && data.text("output").is_some_and(|it| !it.trim().is_empty())
}

/// What is said of tests without a check that can be counted, which PRINTED something, or nothing.
fn uncounted(data: Plist<'_>, printed: Option<&str>) -> String {
    match (data.flag("problem"), printed) {
        (true, _) => "The tests ended with an error before any check.".to_owned(),
        // What was printed then is what loading it prints.
        (false, Some(_)) if data.flag("no-test-operation") => absent(data),
        (false, None) => absent(data),
        (false, Some(_)) => format!(
            "Not counted: the tests returned, but made no check of a framework that can be counted ({}). Read the output to see whether they passed.",
            data.texts("known").join(", ")
        ),
    }
}

/// Why no test ran, and where there may be some.
fn absent(data: Plist<'_>) -> String {
    let mut lines = vec![match data.text("definition") {
        Some(file) if data.flag("no-test-operation") => format!(
            "No test ran, which is a failure: {file} defines no test-op, and the packages of the system's files have no tests."
        ),
        _ => "No test ran, which is a failure: no check was made, and nothing was printed."
            .to_owned(),
    }];
    let systems = data.texts("test-systems");
    if !systems.is_empty() {
        lines.push(format!(
            "Other systems of the project that may have tests: {}.",
            systems.join(", ")
        ));
    }
    lines.extend(data.plists("strays").map(stray));
    let more =
        data.integer("stray-count").unwrap_or_default() - data.plists("strays").count() as i64;
    if more > 0 {
        lines.push(format!("({} like these.)", counted(more, "more file")));
    }
    lines.join("\n")
}

/// A file that looks like tests and is in no system.
fn stray(file: Plist<'_>) -> String {
    let name = file.text("file").unwrap_or_default();
    let missing = file.texts("missing");
    let (doesnt, them) = match missing.len() {
        1 => ("doesn't", "it"),
        _ => ("don't", "them"),
    };
    match (missing.join(", "), file.flag("used")) {
        (missing, true) => format!(
            "{name} is in no system; its package uses {missing}, which {doesnt} exist here: load what defines {them}, then compile_file it."
        ),
        (missing, false) if !missing.is_empty() => {
            format!("{name} is in no system; its package, {missing}, {doesnt} exist here.")
        }
        _ => format!("{name} is in no system; compile_file loads it."),
    }
}

pub(super) fn test_result(result: Plist<'_>, place: Option<&str>) -> Vec<String> {
    let mut lines = vec![format!(
        "{} in {}{}",
        result.text("status").unwrap_or("failed"),
        result.text("test").unwrap_or("a test"),
        place.map_or(String::new(), |place| format!(" at {place}"))
    )];
    if let Some(expression) = result.text("expression") {
        lines[0].push_str(&format!(": {expression}"));
    }
    if let Some(reason) = result.text("reason") {
        lines.extend(
            reason
                .lines()
                .filter(|line| !line.trim().is_empty())
                .map(|line| format!("  {}", line.trim_end())),
        );
    }
    lines
}

fn tracing_tool(
    name: &str,
    description: &str,
    parameters: Vec<Parameter>,
    operation: &'static str,
    arguments: fn(&Arguments) -> Value,
    render: fn(&Arguments, &ImageReply) -> Result<String, ToolFailure>,
) -> Tool {
    Tool::new(
        name,
        description,
        SafetyLevel::Cautious,
        &["execution"],
        parameters,
        Runner::Image(ImageTool {
            operation,
            arguments,
            render,
            deadline: |_, default| default,
        }),
    )
}

fn trace_arguments(arguments: &Arguments) -> Value {
    property_list([
        ("function", text(arguments, "function")),
        ("package", text(arguments, "package")),
    ])
}

fn trace_function() -> Tool {
    let mut tool = tracing_tool(
        "trace_function",
        "Trace a function or one of its methods: record every call with its arguments and return values, in all threads. get_trace lists them; untrace_function stops it.",
        vec![
            Parameter::required(
                "function",
                ParameterType::String,
                "E.g. foo, pkg::foo, (setf foo), or a method: \"area :around (circle)\"",
            ),
            package_parameter(),
        ],
        "trace-function",
        trace_arguments,
        |_, reply| Ok(now_traced(outcome::returned(reply)?)),
    );
    // From then on, recording runs within every call of the function.
    tool.code = Some(NAMED);
    tool
}

/// What is traced, what was forgotten for it, and which calls won't show.
fn now_traced(data: Plist<'_>) -> String {
    let mut lines = vec![traced(data)];
    if let Some(forgotten @ 1..) = data.integer("forgotten") {
        lines.push(format!(
            "(Cleared {} of an earlier trace.)",
            counted(forgotten, "record")
        ));
    }
    let name = data.text("name").unwrap_or("it");
    for missing in data.list("missing").filter_map(Value::as_keyword) {
        lines.push(match missing {
            "inline" => format!(
                "{name} is declared inline: calls that were compiled inline are not recorded."
            ),
            _ => format!("{name} has a compiler macro: calls that it replaced are not recorded."),
        });
    }
    lines.join("\n")
}

fn untrace_function() -> Tool {
    tracing_tool(
        "untrace_function",
        "Stop tracing a function, or all traced functions.",
        vec![
            Parameter::optional(
                "function",
                ParameterType::String,
                "The function; default: all traced functions",
            ),
            package_parameter(),
        ],
        "untrace-function",
        trace_arguments,
        |_, reply| Ok(traced(outcome::returned(reply)?)),
    )
}

fn traced(data: Plist<'_>) -> String {
    match data.texts("traced").as_slice() {
        [] => "Nothing is traced.".to_owned(),
        names => format!("Traced: {}", names.join(", ")),
    }
}

fn get_trace() -> Tool {
    tracing_tool(
        "get_trace",
        "List the recorded calls of traced functions, oldest first, with nested calls indented. Use it after trace_function; the last 1000 entries are kept.",
        vec![
            Parameter::optional(
                "limit",
                ParameterType::Integer,
                "How many of the latest entries; default 40, max 500",
            ),
            Parameter::optional(
                "clear",
                ParameterType::Boolean,
                "Clear all entries after listing",
            ),
        ],
        "get-trace",
        |arguments| {
            property_list([
                (
                    "limit",
                    arguments.integer("limit").map_or(Value::Null, Value::from),
                ),
                ("clear", flag(arguments, "clear")),
            ])
        },
        render_trace,
    )
}

fn render_trace(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let entries: Vec<Plist<'_>> = data.plists("entries").collect();
    let mut lines = vec![traced(data)];
    if entries.is_empty() {
        lines.push("No calls recorded.".to_owned());
        return Ok(lines.join("\n"));
    }
    let total = data.integer("total").unwrap_or_default();
    let earlier = total - i64::try_from(entries.len()).unwrap_or(total);
    if earlier > 0 {
        lines.push(format!(
            "({earlier} earlier entries; a larger limit shows more of them.)"
        ));
    }
    let mut thread = None;
    for entry in &entries {
        if entry.text("thread") != thread {
            thread = entry.text("thread");
            lines.push(format!("In thread {}:", thread.unwrap_or("?")));
        }
        let depth = usize::try_from(entry.integer("depth").unwrap_or_default()).unwrap_or_default();
        lines.push(format!(
            "{}{}",
            "  ".repeat(depth.min(20) + 1),
            entry.text("text").unwrap_or_default()
        ));
    }
    Ok(lines.join("\n"))
}
