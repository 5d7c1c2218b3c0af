// SPDX-License-Identifier: GPL-3.0-or-later
//! ASDF systems, those of the user's project first: where they are defined, what is in them, and
//! what was compiled of them. The tools that load and test them are in `building`.

use std::path::{Path, PathBuf};

use lexpr::Value;
use serde_json::json;

use crate::builtin::files::change::load;
use crate::builtin::files::reading::texts;
use crate::files::path::PathPolicy;
use crate::files::systems::{ProjectSystem, is_definition, project_systems};
use crate::files::{FileError, Trouble};
use crate::image::{ImageReply, Plist, joined_lists, property_list};
use crate::tool::work::{FoundForCall, Running, WorkContext, read_reply};
use crate::tool::{Arguments, ImageTool, Parameter, ParameterType, Tool, ToolFailure};

use super::common::{counted, labelled, looking, text};
use super::outcome;
use super::timeouts::{SYSTEM_PLACE, SYSTEMS_LINE, look_up};

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![system_info()]
}

/// The parameter that names a system or its file.
pub(super) const SYSTEM_SYNTAX: &str = "System name, e.g. alexandria or my-app/tests, or .asd file";

/// What of the user's files the image needs to find the system of a call: the project's systems,
/// and the file where one was named.
pub(super) fn finding(arguments: Arguments, context: WorkContext) -> Running<FoundForCall> {
    Box::pin(async move {
        let named = arguments.text("system").map(str::to_owned);
        let path = named.as_deref().and_then(path).map(str::to_owned);
        let policy = match context.policy().await {
            Ok(policy) => policy,
            // There are no project's systems then; ASDF may know others.
            Err(_) if path.is_none() => return Ok(FoundForCall::default()),
            Err(failure) => return Err(failure),
        };
        context
            .on_a_thread(move |stop| {
                let systems = project_systems(&policy, stop)?;
                match path {
                    Some(path) => in_file(&path, systems, &policy),
                    None => Ok(by_name(named.as_deref(), &systems)),
                }
            })
            .await
    })
}

/// The same for a call that loads the system, if it names one, and systems that have changed. What the image already has of another
/// copy of a system of the project's is told before anyone is asked.
///
/// # Errors
///
/// There is no such system, or the image has loaded another copy, and the call doesn't say that it is to be
/// replaced.
pub(super) fn finding_to_load(arguments: Arguments, context: WorkContext) -> Running<FoundForCall> {
    Box::pin(async move {
        let files = texts(&arguments, "files");
        if !files.is_empty() {
            return finding_files(files, &context).await;
        }
        let changed = match arguments.flag("affected") {
            true => changed(&context).await?,
            false => Value::Null,
        };
        let Some(system) = arguments.text("system").map(str::to_owned) else {
            let mut found = finding_of_tests(&arguments, &context).await?;
            found.arguments = joined_lists(found.arguments, &changed);
            return Ok(found);
        };
        let mut found = finding(arguments.clone(), context.clone()).await?;
        found.arguments = joined_lists(found.arguments, &changed);
        let asked = property_list([("system", Value::string(system))]);
        let asked = joined_lists(asked, &found.arguments);
        // An image that is busy or gone says so when the call runs.
        let reply = context
            .ask_image("system-place", &asked, SYSTEM_PLACE)
            .await;
        if let Ok(ImageReply::Missed(why)) = reply {
            return Err(ToolFailure::quoting(why));
        }
        if let Ok(ImageReply::Returned(data)) = reply {
            let data = Plist::new(&data);
            if let [name, copy] = data.texts("copy")[..]
                && !arguments.flag("force")
            {
                let file = data.text("file").unwrap_or_default();
                return Err(ToolFailure::quoting(second_copy(name, copy, file)));
            }
            found.remark = remark(data, &found);
        }
        Ok(found)
    })
}

/// What a call has to know that loads FILES alone.
async fn finding_files(
    files: Vec<String>,
    context: &WorkContext,
) -> Result<FoundForCall, ToolFailure> {
    let policy = context.policy().await?;
    context
        .on_a_thread(move |stop| {
            let systems = project_systems(&policy, stop)?;
            let mut found = FoundForCall::default();
            let mut entries = Vec::new();
            for file in files {
                let path = policy.judge(&file).resolved()?.path;
                let path = path.to_string_lossy().into_owned();
                entries.push(property_list([("emacs-file", Value::string(&*path))]));
                found.files.push(path);
            }
            found.remark = format!(": {}", found.files.join(", "));
            found.arguments = property_list([
                ("systems", self::entries(&systems)),
                ("files", Value::list(entries)),
            ]);
            Ok(found)
        })
        .await
}

/// The definitions that the model has changed in files since they passed their tests, for the image.
async fn changed(context: &WorkContext) -> Result<Value, ToolFailure> {
    let mut files = Vec::new();
    for (path, before) in context.workspace.not_tested() {
        let Ok(target) = context.resolve(&path.to_string_lossy()).await else {
            continue;
        };
        let Ok(current) = load(context, &target).await else {
            continue;
        };
        let question = json!({"before": before, "after": current.text, "file": target.shown()});
        let reply = context.ask_emacs("changed-definitions", question).await?;
        let names: Vec<String> = read_reply(&reply)?;
        if !names.is_empty() {
            let names: Vec<Value> = names.iter().map(|it| Value::string(&**it)).collect();
            files.push(property_list([
                ("emacs-file", Value::string(path.to_string_lossy())),
                ("names", Value::list(names)),
            ]));
        }
    }
    Ok(match files.is_empty() {
        true => Value::Null,
        false => property_list([("changed", Value::list(files))]),
    })
}

/// The project's systems, of which those that have changed are loaded first, and the one in whose folder the
/// tests are that a call names without a system: it decides about them. None where they are not the project's.
async fn finding_of_tests(
    arguments: &Arguments,
    context: &WorkContext,
) -> Result<FoundForCall, ToolFailure> {
    let Ok(policy) = context.policy().await else {
        return Ok(FoundForCall::default());
    };
    let given = |name| text(arguments, name);
    let asked = property_list(["test", "suite", "package"].map(|name| (name, given(name))));
    let reply = context.ask_image("test-place", &asked, SYSTEM_PLACE);
    let file = match reply.await {
        Ok(ImageReply::Returned(data)) => Plist::new(&data).text("file").map(str::to_owned),
        _ => None,
    };
    context
        .on_a_thread(move |stop| {
            let systems = project_systems(&policy, stop)?;
            let mut found = FoundForCall {
                arguments: property_list([("systems", entries(&systems))]),
                ..FoundForCall::default()
            };
            let Some(file) = file else {
                return Ok(found);
            };
            let source = policy.judge(&file).resolved()?;
            let around = systems
                .iter()
                .filter(|_| source.relative.is_some())
                .filter_map(|it| it.file.parent().map(|folder| (folder, &it.file)))
                .filter(|(folder, _)| source.path.starts_with(folder))
                .max_by_key(|(folder, _)| folder.components().count());
            if let Some((_, system)) = around {
                found.files = vec![system.to_string_lossy().into_owned()];
                found.remark = format!(": {}", source.path.display());
            }
            Ok(found)
        })
        .await
}

/// Where the system comes from, for the user who is asked.
fn remark(data: Plist<'_>, found: &FoundForCall) -> String {
    let mut remark = match data.text("file") {
        Some(file) if found.remark.is_empty() => format!(": {file}"),
        _ => found.remark.clone(),
    };
    if let [_, copy] = data.texts("copy")[..] {
        remark.push_str(&format!(", over what the image has of {copy}"));
    } else if let Some(other) = data.text("other") {
        remark.push_str(&format!(" (ASDF by itself would take {other})"));
    }
    remark
}

/// Why the project's FILE is not loaded while the image has the system NAME from COPY.
fn second_copy(name: &str, copy: &str, file: &str) -> String {
    format!(
        "The image has loaded {name} from another place, {copy}; the project's is {file}. Nothing was loaded, as one over the other can leave definitions of both, and fail where structures or exports differ. A restarted image is safest (ask the user); load_system with force loads the project's over it."
    )
}

/// The project's systems alone, for a call about one of its files.
pub(super) fn finding_all(_: Arguments, context: WorkContext) -> Running<FoundForCall> {
    Box::pin(async move {
        let Ok(policy) = context.policy().await else {
            return Ok(FoundForCall::default());
        };
        let systems = context
            .on_a_thread(move |stop| project_systems(&policy, stop))
            .await?;
        Ok(FoundForCall {
            arguments: property_list([("systems", entries(&systems))]),
            ..FoundForCall::default()
        })
    })
}

/// The project's root, below which the user's own programs are.
pub(super) fn finding_root(_: Arguments, context: WorkContext) -> Running<FoundForCall> {
    Box::pin(async move {
        let Ok(policy) = context.policy().await else {
            return Ok(FoundForCall::default());
        };
        let root = policy.root().to_string_lossy().into_owned();
        Ok(FoundForCall {
            arguments: property_list([("emacs-file", Value::string(root))]),
            ..FoundForCall::default()
        })
    })
}

/// The path that SYSTEM is, if it is one.
fn path(system: &str) -> Option<&str> {
    let path = system.trim().trim_matches('"');
    is_definition(Path::new(path)).then_some(path)
}

/// What there is to know about the system of the file at PATH, which may be the mere name of one of the
/// project's files.
fn in_file(
    path: &str,
    mut systems: Vec<ProjectSystem>,
    policy: &PathPolicy,
) -> Result<FoundForCall, FileError> {
    let mut file: PathBuf = policy.judge(path).resolved()?.path;
    if !file.is_file() && !path.contains('/') {
        let named = systems
            .iter()
            .find(|it| it.file.file_name() == Some(path.as_ref()));
        match named {
            Some(system) => file.clone_from(&system.file),
            // Of a library, say, which ASDF may know.
            None => return Ok(by_name(Some(path), &systems)),
        }
    }
    if !file.is_file() {
        return Err(FileError::new(
            Trouble::Missing,
            format!("'{path}' does not exist."),
        ));
    }
    if !systems.iter().any(|it| it.file == file) {
        let name = file.file_stem().unwrap_or_default();
        systems.push(ProjectSystem {
            name: name.to_string_lossy().into_owned(),
            relative: file.clone(),
            file: file.clone(),
        });
    }
    // The first of a name is the one that is taken.
    systems.sort_by_key(|it| it.file != file);
    let shown = file.to_string_lossy().into_owned();
    Ok(FoundForCall {
        arguments: joined(&systems, Some(&shown)),
        remark: format!(": {shown}"),
        files: vec![shown],
        ..FoundForCall::default()
    })
}

/// What there is to know about the system called NAME; of all, when there is no name.
fn by_name(name: Option<&str>, systems: &[ProjectSystem]) -> FoundForCall {
    let entry = name.and_then(|name| {
        let name = name
            .trim()
            .trim_start_matches('#')
            .trim_matches([':', '\'', '"']);
        let name = name.strip_suffix(".asd").unwrap_or(name).to_lowercase();
        let primary = name.split('/').next().unwrap_or_default().to_owned();
        let named = |name: &str| systems.iter().find(|it| it.name.to_lowercase() == name);
        named(&name).or_else(|| named(&primary))
    });
    FoundForCall {
        arguments: joined(systems, None),
        files: entry
            .map(|it| it.file.to_string_lossy().into_owned())
            .into_iter()
            .collect(),
        remark: entry.map_or(String::new(), |it| format!(": {}", it.file.display())),
        ..FoundForCall::default()
    }
}

/// SYSTEMS, and the FILE that was asked for, for the image. Emacs replaces `:emacs-file` by
/// `:file`, what the file is called on the image's machine.
fn joined(systems: &[ProjectSystem], file: Option<&str>) -> Value {
    property_list([
        ("systems", entries(systems)),
        ("emacs-file", file.map_or(Value::Null, Value::string)),
    ])
}

pub(super) fn entries(systems: &[ProjectSystem]) -> Value {
    let entries: Vec<Value> = systems
        .iter()
        .map(|system| {
            property_list([
                ("name", Value::string(system.name.as_str())),
                ("emacs-file", Value::string(system.file.to_string_lossy())),
                ("place", Value::string(system.relative.to_string_lossy())),
            ])
        })
        .collect();
    match entries.is_empty() {
        true => Value::Null,
        false => Value::list(entries),
    }
}

/// What was compiled and loaded, in a sentence.
pub(super) fn built(data: Plist<'_>) -> Option<String> {
    let count = |name: &str| data.integer(name).unwrap_or_default();
    let (own, elsewhere, loaded) = (
        count("compiled-count"),
        count("compiled-elsewhere"),
        count("loaded"),
    );
    data.get("loaded")?;
    let names = data.texts("compiled");
    let mut text = match (own, loaded) {
        (0, 0) => "Nothing has changed since it was last loaded".to_owned(),
        (0, _) => format!("Loaded {}, compiled before", counted(loaded, "file")),
        (own, _) => {
            let more = own - names.len() as i64;
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!(
                "Compiled {}: {}{more}",
                counted(own, "file"),
                names.join(", ")
            )
        }
    };
    if elsewhere > 0 {
        text.push_str(&format!(
            "; compiled {} of other systems",
            counted(elsewhere, "file")
        ));
    }
    text.push('.');
    Some(text)
}

fn system_info() -> Tool {
    let mut tool = looking(
        "system_info",
        "Describe an ASDF system without loading anything: version, file, dependencies, dependents, source files in load order, which of them are not loaded or have changed since, and the packages they define. Without a system, list those of the user's project. To load a system use load_system.",
        &["introspection"],
        [Parameter::optional(
            "system",
            ParameterType::String,
            &format!("{SYSTEM_SYNTAX}; default: the project's systems"),
        )],
        ImageTool {
            operation: "system-info",
            arguments: |arguments| property_list([("system", text(arguments, "system"))]),
            render: render_info,
            deadline: look_up,
        },
    );
    tool.finding = Some(finding);
    tool
}

fn render_info(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    if data.get("listed").is_some() {
        return Ok(listing(data));
    }
    let name = data.text("system").unwrap_or("the system");
    if !data.flag("defined") {
        return Ok(format!(
            "{name} is defined by {}, which the image has not loaded; load_system loads it.",
            data.text("file").unwrap_or("a file")
        ));
    }
    let mut head = name.to_owned();
    if let Some(version) = data.text("version") {
        head.push_str(&format!(" {version}"));
    }
    if let Some(file) = data.text("file") {
        head.push_str(&format!(", {file}"));
    }
    let mut lines = vec![head];
    lines.extend(data.text("description").map(str::to_owned));
    lines.extend(other_file(data));
    let listed = [
        ("Depends on", "depends-on"),
        ("Defining it depends on", "defined-with"),
        ("Needed by", "needed-by"),
    ];
    for (label, key) in listed {
        lines.extend(labelled(label, &data.texts(key)));
    }
    lines.extend(components(data));
    let packages: Vec<String> = data
        .plists("packages")
        .map(|it| {
            let name = it.text("name").unwrap_or_default();
            match it.text("source") {
                Some(source) => format!("{name} ({source})"),
                None => name.to_owned(),
            }
        })
        .collect();
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    lines.extend(labelled("Packages defined", &packages));
    Ok(lines.join("\n"))
}

/// The files of the system, in order, each with what there is to say about it.
fn components(data: Plist<'_>) -> Vec<String> {
    let components: Vec<Plist<'_>> = data.plists("components").collect();
    let total = data.integer("component-count").unwrap_or_default();
    if components.is_empty() {
        return vec!["It has no files of its own.".to_owned()];
    }
    let mut lines = vec![format!("{} in order:", counted(total, "file"))];
    lines.extend(components.iter().map(|component| {
        let mut line = format!("  {}", component.text("path").unwrap_or("?"));
        if let Some(state) = component.text("state") {
            line.push_str(&format!(" ({state})"));
        }
        line
    }));
    let more = total - components.len() as i64;
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
    lines
}

/// The file of the same system in the project or where ASDF by itself would find one.
pub(super) fn other_file(data: Plist<'_>) -> Option<String> {
    if let Some(ours) = data.text("ours") {
        return Some(format!(
            "That is what the image has; the project's is {ours}, which load_system takes."
        ));
    }
    let other = data.text("other")?;
    Some(format!(
        "(The project's. ASDF by itself would take {other}, for example in the user's REPL.)"
    ))
}

/// What is said where a file of the project was compiled into an image that has another copy of its
/// system.
pub(super) fn copy_loaded(data: Plist<'_>) -> Option<String> {
    match data.texts("copy")[..] {
        [name, copy] => Some(format!(
            "(The rest of {name} is not the project's: the image has loaded it from {copy}.)"
        )),
        _ => None,
    }
}

/// How many systems a message's block names.
const NAMED_SYSTEMS: usize = 8;

/// The project's systems in a line, and, if there is an IMAGE, whether that has loaded them; none when there are
/// no systems.
pub async fn in_a_line(context: &WorkContext, image: Option<&str>) -> Option<String> {
    let policy = context.policy().await.ok()?;
    let mut systems = context
        .on_a_thread(move |stop| project_systems(&policy, stop))
        .await
        .ok()?;
    let more = systems.len().saturating_sub(NAMED_SYSTEMS);
    systems.truncate(NAMED_SYSTEMS);
    let states = match image {
        Some(_) if !systems.is_empty() => states(context, &systems).await,
        _ => None,
    };
    let names: Vec<&str> = systems.iter().map(|it| it.name.as_str()).collect();
    let mut line = match &states {
        Some(states) => by_state(&names, states),
        None => names.join(", "),
    };
    if more > 0 {
        line.push_str(&format!(
            " and {more} more, which call_tool system_info lists"
        ));
    }
    (!line.is_empty()).then_some(line)
}

/// NAMES under their STATES: "loaded: a, b; not loaded: c".
fn by_state(names: &[&str], states: &[String]) -> String {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, state) in names.iter().zip(states) {
        let (state, member) = match state.split_once("; ") {
            Some((state, detail)) => (state, format!("{name} ({detail})")),
            None => (state.as_str(), (*name).to_owned()),
        };
        match groups.iter_mut().find(|(known, _)| *known == state) {
            Some((_, members)) => members.push(member),
            None => groups.push((state, vec![member])),
        }
    }
    let groups = groups
        .into_iter()
        .map(|(state, members)| format!("{state}: {}", members.join(", ")));
    groups.collect::<Vec<_>>().join("; ")
}

/// What the image has of SYSTEMS, as far as it answers at once.
async fn states(context: &WorkContext, systems: &[ProjectSystem]) -> Option<Vec<String>> {
    let asked = property_list([("systems", entries(systems))]);
    let reply = context.ask_image("system-info", &asked, SYSTEMS_LINE);
    match reply.await.ok()? {
        ImageReply::Returned(data) => Some(
            Plist::new(&data)
                .plists("listed")
                .map(|it| it.text("state").unwrap_or_default().to_owned())
                .collect(),
        ),
        _ => None,
    }
}

fn listing(data: Plist<'_>) -> String {
    let lines: Vec<String> = data
        .plists("listed")
        .map(|system| {
            let mut line = format!(
                "  {}  {}",
                system.text("name").unwrap_or("?"),
                system.text("file").unwrap_or_default()
            );
            if let Some(state) = system.text("state") {
                line.push_str(&format!(" ({state})"));
            }
            line
        })
        .collect();
    if lines.is_empty() {
        return "The project has no .asd file in its root or two folders below it. With a system's name, call_tool system_info describes any that the image has loaded.".to_owned();
    }
    format!("Systems of this project:\n{}", lines.join("\n"))
}
