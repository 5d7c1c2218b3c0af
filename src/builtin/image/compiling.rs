// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that compile: forms that the model sends, a definition of a file as it is now, and a
//! whole file.

use std::collections::BTreeMap;
use std::path::Path;

use lexpr::Value;
use serde::Deserialize;
use serde_json::json;

use super::common::{counted, image_parameter, package_parameter, text};
use super::execution::{EVALUATED, assess_restart_values, form_parameter, restart_parameter};
use super::outcome;
use super::systems::{copy_loaded, finding_all};
use super::timeouts::{long, timeout, timeout_parameter};
use crate::builtin::files::change::{Home, load};
use crate::builtin::files::reading::path_parameter;
use crate::files::path::{Resolved, missing};
use crate::image::{ImageReply, Plist, joined_lists, property_list};
use crate::tool::code::Unit;
use crate::tool::work::{WorkContext, read_reply};
use crate::tool::{
    Arguments, Assessment, Code, ImageTool, Parameter, ParameterType, Runner, Tool, ToolFailure,
    Treatment,
};
use crate::trust::SafetyLevel;

/// How many definitions that were changed and not compiled are named.
const OTHERS: usize = 8;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![compile_form(), compile_file()]
}

fn compile_form() -> Tool {
    let mut tool = Tool::new(
        "compile_form",
        "Compile and load definitions into the image (not into a file) and return compiler warnings with line numbers. Use it to experiment; compile_file compiles what stands in a file.",
        SafetyLevel::Cautious,
        &["execution"],
        vec![
            form_parameter(),
            package_parameter(),
            restart_parameter(),
            timeout_parameter(),
            image_parameter(),
        ],
        Runner::Image(ImageTool {
            operation: "compile-form",
            arguments: |arguments| {
                property_list([
                    ("form", text(arguments, "form")),
                    ("package", text(arguments, "package")),
                    ("restart", text(arguments, "restart")),
                ])
            },
            render: render_compilation,
            deadline: timeout,
        }),
    );
    tool.code = Some(EVALUATED);
    tool.assess = assess_restart_values;
    tool
}

fn compile_file() -> Tool {
    let mut tool = Tool::new(
        "compile_file",
        "Compile and load one definition of a Lisp file, or without a name the whole file, and return errors and warnings. It reads the current text in the package and readtable of its place.",
        SafetyLevel::Cautious,
        &["execution"],
        vec![
            path_parameter(""),
            Parameter::optional(
                "name",
                ParameterType::String,
                "As in edit_definition; default: the whole file",
            ),
            restart_parameter(),
            timeout_parameter(),
            image_parameter(),
        ],
        Runner::Image(ImageTool {
            operation: "compile-file",
            arguments: |_| Value::Null,
            render: render_compilation,
            deadline: long,
        }),
    );
    tool.paths = &["path"];
    tool.finding = Some(finding_all);
    tool.assess = assess_file;
    tool.code = Some(Code {
        parameters: &[],
        treatment: Treatment::RunInSteps,
    });
    tool.unit = Some(|arguments, context| Box::pin(find_unit(arguments, context)));
    tool
}

/// A whole file is read by the image itself, so that nobody can look at the text before it runs.
fn assess_file(level: SafetyLevel, arguments: &Arguments) -> Assessment {
    match arguments.text("name") {
        Some(_) => assess_restart_values(level, arguments),
        None => Assessment {
            level: level.max(SafetyLevel::Dangerous),
            reason: "compiles and loads a whole file into your image".to_owned(),
        },
    }
}

/// What Emacs finds in a file to compile.
#[derive(Deserialize)]
struct ChangedDefinitions {
    /// The definitions, each behind what says how it is read.
    form: String,
    pieces: Vec<Piece>,
    /// The buffer that visits the file.
    buffer: Option<String>,
    /// What the image calls the file.
    file: String,
    /// What to call them, if not as they were named.
    called: Option<String>,
}

/// Where a definition starts and ends in what is compiled, in characters, and where it is in its file.
#[derive(Deserialize)]
struct Piece {
    start: usize,
    end: usize,
    line: i64,
    position: i64,
}

impl Piece {
    fn value(&self) -> Value {
        let count = |it| Value::from(i64::try_from(it).unwrap_or_default());
        Value::list(vec![
            count(self.start),
            count(self.end),
            Value::from(self.line),
            Value::from(self.position),
        ])
    }

    fn text(&self, whole: &str) -> String {
        let length = self.end.saturating_sub(self.start);
        whole.chars().skip(self.start).take(length).collect()
    }
}

async fn find_unit(arguments: Arguments, context: WorkContext) -> Result<Unit, ToolFailure> {
    let target = context.resolve(arguments.required_text("path")).await?;
    let current = load(&context, &target).await?;
    let unsaved = match &current.home {
        Home::Nowhere => return Err(missing(&target).into()),
        Home::Buffer(live) if live.modified => Some(live.buffer.as_str()),
        Home::Disk(..) | Home::Buffer(_) => None,
    };
    let mut unit = match (arguments.text("name"), unsaved) {
        (Some(name), unsaved) => {
            let note = unsaved.map(|buffer| {
                format!("(Compiled from the user's buffer {buffer}, which has unsaved changes.)")
            });
            definition(&target, &current.text, name, note, &context).await
        }
        (None, Some(buffer)) => Err(ToolFailure::new(format!(
            "The user's buffer {buffer} has unsaved changes, but a whole file is compiled from disk; nothing was compiled. Give a name to compile one definition of the buffer, or ask the user to save it."
        ))),
        (None, None) => {
            let arguments = json!({"path": target.path.to_string_lossy()});
            let file: String = read_reply(&context.ask_emacs("file-of-image", arguments).await?)?;
            Ok(Unit {
                operation: "compile-file",
                code: None,
                arguments: property_list([("file", Value::string(file))]),
                note: None,
                called: None,
                file: target.path.clone(),
                form: None,
            })
        }
    }?;
    let restart = property_list([("restart", text(&arguments, "restart"))]);
    unit.arguments = joined_lists(unit.arguments, &restart);
    Ok(unit)
}

async fn definition(
    target: &Resolved,
    text: &str,
    name: &str,
    note: Option<String>,
    context: &WorkContext,
) -> Result<Unit, ToolFailure> {
    let shown = target.shown();
    let arguments = json!({
        "text": text,
        "name": name,
        "file": shown,
        "path": target.path.to_string_lossy(),
    });
    let found: ChangedDefinitions = read_reply(
        &context
            .ask_emacs("definitions-to-compile", arguments)
            .await?,
    )?;
    let texts: Vec<String> = found.pieces.iter().map(|it| it.text(&found.form)).collect();
    Ok(Unit {
        operation: "compile-form",
        arguments: property_list([
            ("form", Value::string(found.form.as_str())),
            ("file", Value::string(found.file)),
            ("buffer", found.buffer.map_or(Value::Null, Value::string)),
            (
                "pieces",
                Value::list(found.pieces.iter().map(Piece::value).collect::<Vec<_>>()),
            ),
            ("shown", Value::string(shown)),
        ]),
        form: Some(texts.join("\n")),
        code: Some(found.form),
        note,
        called: found.called,
        file: target.path.clone(),
    })
}

/// Which definitions were changed in the user's files that the image does not have: those of files that
/// have others than the model was told of last.
pub async fn lacking(context: &WorkContext) -> Option<String> {
    let mut lacking = BTreeMap::new();
    for (path, compiled) in context.workspace.not_all_compiled() {
        // What can't be read now is nothing to tell of.
        if let Ok((shown, names)) = lacking_of(&path, &compiled, context).await {
            lacking.insert(shown, names);
        }
    }
    let news = context.workspace.tell_lacking(lacking);
    let told: Vec<String> = news
        .iter()
        .map(|(shown, names)| {
            let more = match names.len().saturating_sub(OTHERS) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named: Vec<&str> = names.iter().take(OTHERS).map(String::as_str).collect();
            format!("{}{more} of {shown}", named.join(", "))
        })
        .collect();
    (!told.is_empty()).then(|| {
        let told = told.join("; ");
        format!("(Changed, and not compiled by a tool since: {told}.)")
    })
}

async fn lacking_of(
    path: &Path,
    compiled: &str,
    context: &WorkContext,
) -> Result<(String, Vec<String>), ToolFailure> {
    let target = context.resolve(&path.to_string_lossy()).await?;
    let current = load(context, &target).await?;
    let shown = target.shown();
    let question = json!({"before": compiled, "after": current.text, "file": shown});
    let names = read_reply(&context.ask_emacs("changed-definitions", question).await?)?;
    Ok((shown, names))
}

fn render_compilation(arguments: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let count = data.integer("compiled").unwrap_or_default();
    let failed = data.texts("failed");
    let notes = match arguments.text("name") {
        Some(_) => outcome::warnings(data),
        None => outcome::notes(data),
    };
    let clean = if notes.is_empty() {
        "; no warnings"
    } else {
        ""
    };
    let mut lines = match failed.first() {
        None => vec![format!(
            "{}{}{clean}.",
            compiled(arguments, count),
            outcome::with_warnings(data)
        )],
        Some(form) => failure(arguments, form, count, data),
    };
    lines.extend(notes);
    lines.extend(outcome::recoveries(data));
    lines.extend(data.plists("replaced").map(replaced));
    if let Some(more) = data.integer("replaced-more").filter(|more| *more > 0) {
        lines.push(format!(
            "(It replaced {} like these.)",
            counted(more, "more definition")
        ));
    }
    lines.extend(stale(data));
    lines.extend(copy_loaded(data));
    lines.extend(outcome::printed(data.text("output").unwrap_or_default()));
    let told = lines.join("\n");
    match failed.is_empty() {
        true => Ok(told),
        false => Err(ToolFailure::quoting(told)),
    }
}

fn compiled(arguments: &Arguments, count: i64) -> String {
    match (arguments.text("path"), arguments.text("name")) {
        (Some(path), Some(name)) => format!("Compiled and loaded {name} of {path}"),
        (Some(path), None) => format!("Compiled and loaded {path}"),
        _ if count == 1 => "Compiled and loaded".to_owned(),
        _ => format!("Compiled and loaded {count} forms"),
    }
}

/// What the image has, and what not, when the compiler failed on FORM after COUNT others.
fn failure(arguments: &Arguments, form: &str, count: i64, data: Plist<'_>) -> Vec<String> {
    match (arguments.text("path"), arguments.text("name")) {
        (Some(path), None) => {
            return vec![format!(
                "The compiler failed on {path}; nothing of it was loaded."
            )];
        }
        (Some(path), Some(name)) if count == 0 && !data.flag("rest") => {
            return vec![format!("The compiler failed on {name} of {path}.")];
        }
        _ => {}
    }
    let mut lines = vec![match count {
        0 => format!("The compiler failed on: {form}"),
        _ => format!("The compiler failed on form {}: {form}", count + 1),
    }];
    lines.extend(outcome::compiled_before(count));
    if data.flag("rest") {
        lines.push("The forms after it were not compiled.".to_owned());
    }
    lines
}

/// Which loaded code still has what definitions were before they were replaced, and what loads it again.
fn stale(data: Plist<'_>) -> Vec<String> {
    let mut lines: Vec<String> = data.plists("stale").map(stale_definition).collect();
    let (again, others) = (data.texts("reload"), data.texts("compile"));
    if !again.is_empty() {
        let more = data.integer("reload-more").unwrap_or_default();
        let more = match more {
            0 => String::new(),
            _ => format!("; then {} more", counted(more, "file")),
        };
        lines.push(format!(
            "load_system {} loads just that again{more}.",
            json!({"files": again})
        ));
    }
    if !others.is_empty() {
        lines.push(format!(
            "In no loaded system: {}; compile_file loads it again.",
            others.join(", ")
        ));
    }
    lines
}

fn stale_definition(definition: Plist<'_>) -> String {
    let kind = definition.text("kind").unwrap_or("definition");
    let name = definition.text("name").unwrap_or_default();
    let uses: Vec<String> = definition
        .plists("uses")
        .map(|file| {
            let more = match file.integer("more").unwrap_or_default() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let forms = file.texts("forms").join(", ");
            match file.text("in") {
                Some(name) => format!("{name} ({forms}{more})"),
                None => format!("{forms}{more}"),
            }
        })
        .collect();
    let uses = uses.join("; ");
    match (uses.is_empty(), definition.flag("perhaps")) {
        (true, _) => format!("No other loaded code is known to have the old {kind} {name}."),
        (false, true) => {
            format!("Loaded code has the {kind} {name} as it was, if that was changed: {uses}.")
        }
        (false, false) => format!("Loaded code still has the old {kind} {name}: {uses}."),
    }
}

/// What was replaced: the definition of a file, in the image only, or one that another chat had made.
fn replaced(definition: Plist<'_>) -> String {
    let what = definition.text("what").unwrap_or_default();
    let file = definition.text("replaces");
    let file = file.or_else(|| definition.text("where"));
    let Some(author) = definition.text("by") else {
        let file = file.unwrap_or("a file");
        return format!("It replaces {what} of {file}; the file still has the old one.");
    };
    let seconds = definition.integer("seconds-ago").unwrap_or_default();
    let ago = match seconds {
        0..120 => format!("{seconds} s"),
        _ => format!("{} min", seconds / 60),
    };
    let file = file.map(|file| format!(" The file, at {file}, has another one."));
    format!(
        "It replaces {what} as {author} had defined it {ago} ago.{}",
        file.unwrap_or_default()
    )
}
