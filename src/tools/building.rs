// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that compile, load, test and trace what is in the Lisp image.

use std::time::Duration;

use lexpr::Value;

use crate::image::{Plist, Reply, property_list};
use crate::tool::{
    Arguments, Assessment, ImageTool, Parameter, ParameterType, Runner, SafetyLevel, Tool,
    ToolFailure,
};

use super::common::{flag, package_parameter, text};
use super::execution::{FORMS, NAMED, form_parameter, timeout, timeout_parameter};
use super::outcome;

/// Systems and their tests take longer than forms do.
const LONG: Duration = Duration::from_secs(300);

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        compile_form(),
        load_system(),
        run_tests(),
        trace_function(),
        untrace_function(),
        get_trace(),
    ]
}

fn compile_form() -> Tool {
    let mut tool = Tool::new(
        "compile_form",
        "Compile and load Common Lisp forms, one after the other, as a file with them would be, with good debug information. Returns what the compiler said, each note with severity, line and column. Best for definitions; eval_form returns values.",
        SafetyLevel::Cautious,
        &["execution"],
        vec![form_parameter(), package_parameter(), timeout_parameter()],
        Runner::Image(ImageTool {
            operation: "compile-form",
            arguments: |arguments| {
                property_list([
                    ("form", text(arguments, "form")),
                    ("package", text(arguments, "package")),
                ])
            },
            render: render_compilation,
            deadline: timeout,
        }),
    );
    tool.code = Some(FORMS);
    tool
}

fn render_compilation(_: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let count = data.integer("compiled").unwrap_or_default();
    let failed = data.texts("failed");
    let mut lines = vec![match (count, failed.as_slice()) {
        (1, []) => "Compiled and loaded.".to_owned(),
        (_, []) => format!("Compiled and loaded {count} forms."),
        (_, failed) => format!(
            "Compiled {count} form{}; the compiler failed on: {}",
            if count == 1 { "" } else { "s" },
            failed.join("; ")
        ),
    }];
    let notes = outcome::notes(data);
    if notes.is_empty() {
        lines.push("The compiler had nothing to say.".to_owned());
    }
    lines.extend(notes);
    lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
    Ok(lines.join("\n"))
}

fn load_system() -> Tool {
    let mut tool = Tool::new(
        "load_system",
        "Load an ASDF system into the image, compiling what has changed, and return what the compiler said about its files.",
        SafetyLevel::Dangerous,
        &["execution"],
        vec![
            Parameter::required(
                "system",
                ParameterType::String,
                "The system's name, such as alexandria or my-app/tests",
            ),
            Parameter::optional(
                "force",
                ParameterType::Boolean,
                "Compile and load it even where nothing has changed",
            ),
            timeout_parameter(),
        ],
        Runner::Image(ImageTool {
            operation: "load-system",
            arguments: |arguments| {
                property_list([
                    ("system", text(arguments, "system")),
                    ("force", flag(arguments, "force")),
                ])
            },
            render: render_loading,
            deadline: long,
        }),
    );
    tool.assess = |level, _| Assessment {
        level,
        reason: "loads code into your image".to_owned(),
    };
    tool.code = Some(NAMED);
    tool
}

fn long(arguments: &Arguments, default: Duration) -> Duration {
    timeout(arguments, default.max(LONG))
}

fn render_loading(_: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let mut head = format!("Loaded {}", data.text("system").unwrap_or("the system"));
    if let Some(version) = data.text("version") {
        head.push_str(&format!(" {version}"));
    }
    if let Some(file) = data.text("file") {
        head.push_str(&format!(" from {file}"));
    }
    let mut lines = vec![head];
    lines.extend(outcome::notes(data));
    lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
    Ok(lines.join("\n"))
}

fn run_tests() -> Tool {
    let mut tool = Tool::new(
        "run_tests",
        "Run tests in the image: all of a system, or one suite or test of FiveAM, Parachute or Rove. Returns how many checks passed and, for each one that did not, its test, expression and reason.",
        SafetyLevel::Dangerous,
        &["execution"],
        vec![
            Parameter::optional(
                "system",
                ParameterType::String,
                "The system whose tests to run, or to load first when a suite or test is named",
            ),
            Parameter::optional(
                "suite",
                ParameterType::String,
                "A suite's name; of Parachute and Rove also a package's",
            ),
            Parameter::optional("test", ParameterType::String, "A single test's name"),
            package_parameter(),
            timeout_parameter(),
        ],
        Runner::Image(ImageTool {
            operation: "run-tests",
            arguments: |arguments| {
                property_list([
                    ("system", text(arguments, "system")),
                    ("suite", text(arguments, "suite")),
                    ("test", text(arguments, "test")),
                    ("package", text(arguments, "package")),
                ])
            },
            render: render_tests,
            deadline: long,
        }),
    );
    tool.assess = |level, _| Assessment {
        level,
        reason: "runs tests in your image".to_owned(),
    };
    tool.code = Some(NAMED);
    tool
}

fn render_tests(_: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let number = |name: &str| data.integer(name).unwrap_or_default();
    let (total, failed, skipped) = (number("total"), number("failed"), number("skipped"));
    let mut lines = Vec::new();
    if total == 0 {
        lines.push(
            "No test ran: no check of FiveAM, Parachute or Rove was made. That is a failure, not a success."
                .to_owned(),
        );
    } else {
        let frameworks = data.texts("frameworks").join(", ");
        let skipped = if skipped > 0 {
            format!(", {skipped} skipped")
        } else {
            String::new()
        };
        lines.push(format!(
            "{}: {} of {total} checks passed, {failed} failed{skipped} ({frameworks}).",
            if failed > 0 || number("passed") == 0 || data.flag("problem") {
                "FAILED"
            } else {
                "PASSED"
            },
            number("passed"),
        ));
    }
    lines.extend(data.plists("results").flat_map(test_result));
    if number("more") > 0 {
        lines.push(format!(
            "({} more; run fewer tests at once.)",
            number("more")
        ));
    }
    if data.flag("problem") {
        lines.push("It did not come to its end:".to_owned());
        lines.extend(data.get("problem").map(|problem| {
            let problem = Plist::new(problem);
            format!(
                "  {}: {}",
                problem.text("type").unwrap_or("ERROR"),
                problem.text("message").unwrap_or_default()
            )
        }));
    }
    lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
    let text = lines.join("\n");
    if total == 0 {
        Err(ToolFailure::quoting(text))
    } else {
        Ok(text)
    }
}

fn test_result(result: Plist<'_>) -> Vec<String> {
    let mut lines = vec![format!(
        "{} in {}",
        result.text("status").unwrap_or("failed"),
        result.text("test").unwrap_or("a test")
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
    render: fn(&Arguments, &Reply) -> Result<String, ToolFailure>,
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
    tracing_tool(
        "trace_function",
        "Write down every call of a function of the program, with its arguments and values, whoever calls it. get_trace tells them.",
        vec![
            Parameter::required(
                "function",
                ParameterType::String,
                "The function's name, such as foo, pkg::foo or (setf foo)",
            ),
            package_parameter(),
        ],
        "trace-function",
        trace_arguments,
        |_, reply| Ok(traced(outcome::returned(reply)?)),
    )
}

fn untrace_function() -> Tool {
    tracing_tool(
        "untrace_function",
        "Stop to write down the calls of a function, or of all functions.",
        vec![
            Parameter::optional(
                "function",
                ParameterType::String,
                "The function's name; all that are traced when left out",
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
        "List the calls of the traced functions, oldest first, nested calls indented. The last 1000 entries are kept.",
        vec![
            Parameter::optional(
                "limit",
                ParameterType::Integer,
                "How many of the latest entries; 40 when left out, at most 500",
            ),
            Parameter::optional(
                "clear",
                ParameterType::Boolean,
                "Forget all entries afterwards",
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

fn render_trace(_: &Arguments, reply: &Reply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let entries: Vec<Plist<'_>> = data.plists("entries").collect();
    let mut lines = vec![traced(data)];
    if entries.is_empty() {
        lines.push("No call was written down.".to_owned());
        return Ok(lines.join("\n"));
    }
    let total = data.integer("total").unwrap_or_default();
    let earlier = total - i64::try_from(entries.len()).unwrap_or(total);
    if earlier > 0 {
        lines.push(format!(
            "({earlier} earlier entries; a larger limit tells some of them.)"
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
