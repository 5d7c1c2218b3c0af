// SPDX-License-Identifier: GPL-3.0-or-later
//! The tool that tells where the image and the files of the project differ.

use std::path::PathBuf;

use lexpr::Value;
use serde::Deserialize;
use serde_json::json;

use crate::effect::Watch;
use crate::files::path::PathPolicy;
use crate::files::search::{FileSearch, search_files};
use crate::files::systems::project_systems;
use crate::files::{FileError, Stop};
use crate::image::{ImageReply, Plist, joined_lists, property_list};
use crate::tool::work::{FoundForCall, Running, WorkContext, read_reply};
use crate::tool::{Arguments, ImageTool, Tool, ToolFailure};

use super::common::{counted, looking};
use super::outcome;
use super::systems::entries;
use super::timeouts::{LOOK_UP, look_up};

/// The files that are compared.
const SOURCES: &str = "**/*.{lisp,lsp,cl}";
/// How many of them.
const MOST_FILES: usize = 2000;

/// The states of rows in the order of the image's counts, and what a model is told of each.
const STATES: [(&str, &str); 5] = [
    ("image", "Only in the image; no file has it"),
    ("differs", "The image has another version than the file"),
    ("file", "Only in the file; not loaded"),
    ("unknown", "Unknown"),
    ("not-loaded", "Not loaded at all"),
];

/// What is said of them in a line: of the first three.
const DIFFERENCES: [(&str, &str); 3] = [
    ("image", "only there"),
    ("differs", "another version"),
    ("file", "not loaded"),
];
/// How many are named.
const NAMED: usize = 4;

#[must_use]
pub fn tools() -> Vec<Tool> {
    let mut tool = looking(
        "image_drift",
        "Tell which definitions are only in the image, only in the project's files, or differ between them. Use it before you say that a change is in the files, and when the image behaves otherwise than they say.",
        &["introspection"],
        [],
        ImageTool {
            operation: "image-drift",
            arguments: |_| Value::Null,
            render,
            deadline: look_up,
        },
    );
    tool.finding = Some(finding);
    vec![tool]
}

/// A buffer of the user's that isn't saved.
#[derive(Deserialize)]
struct Unsaved {
    file: String,
    text: String,
}

fn finding(_: Arguments, context: WorkContext) -> Running<FoundForCall> {
    Box::pin(async move {
        let policy = context.policy().await?;
        let root = policy.root().to_string_lossy().into_owned();
        let question = json!({"root": root});
        let unsaved: Vec<Unsaved> =
            read_reply(&context.ask_emacs("unsaved-sources", question).await?)?;
        let (files, systems) = context
            .on_a_thread(move |stop| Ok((sources(&policy, stop)?, project_systems(&policy, stop)?)))
            .await?;
        let named = |file: &str| ("emacs-file", Value::string(file));
        let files = files.iter().map(|it| property_list([named(it)]));
        let unsaved = unsaved
            .iter()
            .map(|it| property_list([named(&it.file), ("text", Value::string(&*it.text))]));
        Ok(FoundForCall {
            arguments: property_list([
                named(&root),
                ("files", list(files)),
                ("unsaved", list(unsaved)),
                ("systems", entries(&systems)),
            ]),
            ..FoundForCall::default()
        })
    })
}

/// Where the user's image and the project's files differ, in a line; nothing where they don't, or where no image
/// tells.
pub(super) async fn in_a_line(context: &WorkContext) -> Option<String> {
    let found = finding(Arguments::default(), context.clone()).await.ok()?;
    let watch = property_list([("watch", Watch::Looking.to_argument())]);
    let arguments = joined_lists(found.arguments, &watch);
    let asked = context.ask_image("image-drift", &arguments, LOOK_UP);
    let ImageReply::Returned(data) = asked.await.ok()? else {
        return None;
    };
    let data = Plist::new(&data);
    let parts: Vec<String> = by_state(data, &DIFFERENCES)
        .map(|(words, count, rows)| {
            let names = rows.iter().filter_map(|it| it.text("name"));
            let names: Vec<&str> = names.take(NAMED).collect();
            let more = match count - names.len() as i64 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{words}: {}{more}", names.join(", "))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("The user's image differs: {}.", parts.join("; ")))
}

/// Of each of STATES that DATA has: its words, how many rows it has, and those of them that were sent.
fn by_state<'a>(
    data: Plist<'a>,
    states: &'a [(&'static str, &'static str)],
) -> impl Iterator<Item = (&'static str, i64, Vec<Plist<'a>>)> {
    let counts = data.list("counts").filter_map(Value::as_i64);
    let counted = states.iter().zip(counts).filter(|(_, count)| *count > 0);
    counted.map(move |((state, words), count)| {
        let rows = data.plists("rows");
        let rows = rows.filter(|it| it.keyword("state") == Some(state));
        (*words, count, rows.collect())
    })
}

fn list(elements: impl Iterator<Item = Value>) -> Value {
    let elements: Vec<Value> = elements.collect();
    match elements.is_empty() {
        true => Value::Null,
        false => Value::list(elements),
    }
}

/// The Lisp files of the project.
fn sources(policy: &PathPolicy, stop: Stop<'_>) -> Result<Vec<String>, FileError> {
    let folder = policy.judge(".").resolved()?;
    let wanted = FileSearch {
        limit: MOST_FILES,
        ..FileSearch::new(SOURCES)
    };
    let found = search_files(policy, &folder, &wanted, stop)?;
    let absolute = |path: PathBuf| folder.path.join(path).into_os_string().into_string().ok();
    Ok(found.paths.into_iter().filter_map(absolute).collect())
}

fn render(_: &Arguments, reply: &ImageReply) -> Result<String, ToolFailure> {
    let data = outcome::returned(reply)?;
    let files = data.integer("files").unwrap_or_default();
    let mut lines = Vec::new();
    for (words, count, rows) in by_state(data, &STATES) {
        let more = count - rows.len() as i64;
        lines.push(format!("{words} ({count}):"));
        lines.extend(rows.into_iter().map(line));
        lines.extend((more > 0).then(|| format!("  and {more} more")));
    }
    let looked = counted(files, "file");
    Ok(match lines.is_empty() {
        true => format!("The image has what the files have ({looked} compared)."),
        false => format!("{}\n({looked} compared.)", lines.join("\n")),
    })
}

fn line(row: Plist<'_>) -> String {
    let name = row.text("name").unwrap_or_default();
    let kind = row.text("kind").unwrap_or_default();
    let place = match (row.text("path"), row.integer("line")) {
        (Some(path), Some(line)) => format!(", {path}:{line}"),
        _ => String::new(),
    };
    let unsaved = match row.flag("unsaved") {
        true => ", not saved",
        false => "",
    };
    let detail = row
        .text("detail")
        .map_or(String::new(), |it| format!(" ({it})"));
    format!("  {name}, {kind}{place}{unsaved}{detail}")
}
