// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that look at the project's files: reading, listing and searching. They run on
//! threads of ours; only a file that Emacs visits with unsaved changes is asked for there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::change::{LiveBuffer, Wanted, visiting};
use crate::files::grep::{DEFAULT_MATCHES, Grep, MOST_CONTEXT, count_files, grep};
use crate::files::listing::{
    DEFAULT_DEPTH, SortBy, TreeOptions, directory_tree, file_info, list_directory,
    project_root_text,
};
use crate::files::path::{PathKind, PathPolicy, PathVerdict, Resolved};
use crate::files::read::{LARGEST_PAGE, Window, read_page};
use crate::files::search::{DEFAULT_FILES, FileSearch, search_files};
use crate::files::systems::source_folders;
use crate::files::walk::Hidden;
use crate::files::{FileError, Trouble};
use crate::image::{ImageReply, Plist, property_list};
use crate::tool::work::{Running, Task, WorkContext};
use crate::tool::{Arguments, Parameter, ParameterType, Returns, Runner, Tool, ToolFailure};
use crate::trust::SafetyLevel;

#[must_use]
pub fn tools() -> Vec<Tool> {
    vec![
        read_file(),
        list(),
        tree(),
        info(),
        get_project_root(),
        search(),
        grep_project(),
    ]
}

fn tool(name: &str, description: &str, parameters: Vec<Parameter>, task: Task) -> Tool {
    Tool {
        paths: &["path"],
        ..Tool::new(
            name,
            description,
            SafetyLevel::Safe,
            &["filesystem", "navigation"],
            parameters,
            Runner::Task(task),
        )
    }
}

pub(crate) fn path_parameter(description: &str) -> Parameter {
    Parameter::required("path", ParameterType::String, description)
}

fn folder_parameter() -> Parameter {
    Parameter::optional("path", ParameterType::String, "Default: the project's root")
}

fn hidden_parameter() -> Parameter {
    Parameter::optional("show_hidden", ParameterType::Boolean, "")
}

pub(crate) fn texts_parameter(name: &str, description: &str) -> Parameter {
    let mut parameter = Parameter::optional(name, ParameterType::Array, description);
    let items = json!({"type": "string"});
    parameter.constraints.insert("items".into(), items);
    parameter
}

fn hidden(arguments: &Arguments) -> Hidden {
    if arguments.flag("show_hidden") {
        Hidden::Show
    } else {
        Hidden::LeaveOut
    }
}

pub(crate) fn texts(arguments: &Arguments, name: &str) -> Vec<String> {
    match arguments.to_json().get(name) {
        Some(Value::Array(items)) => items
            .iter()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

fn limit(arguments: &Arguments, name: &str, default: usize, most: usize) -> usize {
    arguments
        .integer(name)
        .and_then(|number| usize::try_from(number).ok())
        .map_or(default, |number| number.min(most))
}

async fn folder(arguments: &Arguments, context: &WorkContext) -> Result<Resolved, ToolFailure> {
    context.resolve(arguments.text("path").unwrap_or(".")).await
}

fn read_file() -> Tool {
    tool(
        "read_file",
        "Read lines of a text file, with the user's unsaved changes if it is open in Emacs. Long files come in pages: call again with the offset that the result gives.",
        vec![
            path_parameter(""),
            Parameter::optional(
                "offset",
                ParameterType::Integer,
                "First line, from 1",
            ),
            Parameter::optional(
                "limit",
                ParameterType::Integer,
                "Lines, default 500",
            ),
        ],
        |arguments, context| -> Running { Box::pin(read(arguments, context)) },
    )
    .filed_under(&["buffer"])
}

async fn read(arguments: Arguments, context: WorkContext) -> Result<String, ToolFailure> {
    let target = context.resolve(arguments.required_text("path")).await?;
    let (offset, lines) = (arguments.integer("offset"), arguments.integer("limit"));
    let window = Window::new(offset, lines)?;
    if target.kind != PathKind::Directory
        && let Some(live) = visiting(&context, &target, Wanted::TextIfModified).await?
        && let Some(text) = live.text.clone()
    {
        let page = live_page(&live, &text, offset.unwrap_or(1), lines.unwrap_or(500))?;
        context.workspace.saw_text(&target.path, &text);
        return Ok(page);
    }
    let path = target.path.clone();
    let page = context
        .on_a_thread(move |_| read_page(&target, window))
        .await?;
    context.workspace.saw_file(&path, page.fingerprint);
    Ok(format!("{}\n{}", page.note(), page.text()))
}

/// Lines of TEXT, the buffer's.
fn live_page(live: &LiveBuffer, text: &str, first: i64, limit: i64) -> Result<String, ToolFailure> {
    let total = text.lines().count();
    let (first, limit) = (
        usize::try_from(first).unwrap_or(1),
        usize::try_from(limit).unwrap_or(1),
    );
    if first > total.max(1) {
        return Err(ToolFailure::new(format!(
            "The buffer {} has {total} lines; line {first} does not exist.",
            live.buffer
        )));
    }
    let (mut page, mut shown) = (String::new(), 0);
    for line in text.lines().skip(first - 1).take(limit) {
        if page.len() >= LARGEST_PAGE {
            break;
        }
        page.push_str(line);
        page.push('\n');
        shown += 1;
    }
    let last = first - 1 + shown;
    let more = if last < total {
        format!("; more with offset={}", last + 1)
    } else {
        String::new()
    };
    Ok(format!(
        "Lines {first}–{last} of {total} of the user's buffer {}, which has unsaved changes (the file on disk is older){more}.\n{page}",
        live.buffer
    ))
}

fn list() -> Tool {
    tool(
        "list_directory",
        "List the files in a directory, with sizes, and its subdirectories. For everything below it use directory_tree.",
        vec![
            folder_parameter(),
            hidden_parameter(),
            Parameter::optional("sort_by", ParameterType::String, "")
                .one_of(&["name", "size", "modified"]),
        ],
        |arguments, context| -> Running {
            Box::pin(async move {
                let folder = folder(&arguments, &context).await?;
                let hidden = hidden(&arguments);
                let sort = match arguments.text("sort_by") {
                    Some("size") => SortBy::Size,
                    Some("modified") => SortBy::Modified,
                    _ => SortBy::Name,
                };
                context
                    .on_a_thread(move |_| Ok(list_directory(&folder, hidden, sort)?.text()))
                    .await
            })
        },
    )
}

fn tree() -> Tool {
    tool(
        "directory_tree",
        "Show a directory and everything below it as a tree. Skips files in .gitignore. For one level with sizes use list_directory.",
        vec![
            folder_parameter(),
            texts_parameter("exclude_patterns", "Globs, e.g. \"*.fasl\""),
            Parameter::optional("depth", ParameterType::Integer, "Default 8"),
            hidden_parameter(),
        ],
        |arguments, context| -> Running {
            Box::pin(async move {
                let (folder, policy) =
                    (folder(&arguments, &context).await?, context.policy().await?);
                let options = TreeOptions {
                    excludes: texts(&arguments, "exclude_patterns"),
                    depth: limit(&arguments, "depth", DEFAULT_DEPTH, 64).max(1),
                    hidden: hidden(&arguments),
                    ..TreeOptions::default()
                };
                context
                    .on_a_thread(move |stop| directory_tree(&policy, &folder, &options, stop))
                    .await
            })
        },
    )
}

fn info() -> Tool {
    tool(
        "get_file_info",
        "Show the size, modification time and permissions of a file or directory. To read a file use read_file.",
        vec![path_parameter("")],
        |arguments, context| -> Running {
            Box::pin(async move {
                let target = folder(&arguments, &context).await?;
                context
                    .on_a_thread(move |_| Ok(file_info(&target)?.text()))
                    .await
            })
        },
    )
}

fn get_project_root() -> Tool {
    let mut tool = tool(
        "get_project_root",
        "Show the root directory of the project. Relative paths start there.",
        vec![],
        |_, context| -> Running {
            Box::pin(async move { Ok(project_root_text(&*context.policy().await?)) })
        },
    );
    tool.returns = Returns::Words;
    tool
}

fn search() -> Tool {
    tool(
        "search_files",
        "Find files by a glob: \"*\" for all below path, \"*.asd\" in any directory, \"src/**/*.lisp\" below src. Skips files in .gitignore. To search text use grep_project.",
        vec![
            Parameter::required("pattern", ParameterType::String, ""),
            folder_parameter(),
            texts_parameter("exclude_patterns", "Globs"),
            hidden_parameter(),
        ],
        |arguments, context| -> Running {
            Box::pin(async move {
                let (folder, policy) =
                    (folder(&arguments, &context).await?, context.policy().await?);
                let search = FileSearch {
                    excludes: texts(&arguments, "exclude_patterns"),
                    hidden: hidden(&arguments),
                    limit: DEFAULT_FILES,
                    ..FileSearch::new(arguments.required_text("pattern"))
                };
                context
                    .on_a_thread(move |stop| {
                        Ok(search_files(&policy, &folder, &search, stop)?.text())
                    })
                    .await
            })
        },
    )
}

fn grep_project() -> Tool {
    tool(
        "grep_project",
        "Search the project's files on disk with a regular expression (Rust syntax; a capital letter makes it case-sensitive). ^\\(def outlines a file. Finds uses that who_calls misses. Skips files in .gitignore.",
        vec![
            Parameter::required("pattern", ParameterType::String, ""),
            Parameter::optional("glob", ParameterType::String, "E.g. \"*.lisp\""),
            folder_parameter(),
            Parameter::optional("context", ParameterType::Integer, "Lines around each match"),
            Parameter::optional("limit", ParameterType::Integer, "Default 100"),
            hidden_parameter(),
            Parameter::optional(
                "system",
                ParameterType::String,
                "Search this system's files instead",
            ),
        ],
        |arguments, context| -> Running {
            Box::pin(async move {
                let policy = context.policy().await?;
                let target = match arguments.text("system") {
                    Some(system) => system_folder(system, &arguments, &context).await?,
                    None => folder(&arguments, &context).await?,
                };
                let of_system = arguments.text("system").map(str::to_owned);
                let what = Grep {
                    glob: arguments.text("glob").map(str::to_owned),
                    context: limit(&arguments, "context", 0, MOST_CONTEXT),
                    limit: limit(&arguments, "limit", DEFAULT_MATCHES, 1000),
                    hidden: hidden(&arguments),
                    ..Grep::new(arguments.required_text("pattern"))
                };
                let progress = Arc::clone(&what.progress);
                let counted = counting(&policy, &target, &what);
                let searched = context.on_a_thread(move |stop| {
                    let found = grep(&policy, &target, &what, stop)?;
                    let any = FileSearch {
                        limit: 1,
                        ..FileSearch::new("**/*.{lisp,lsp,cl}")
                    };
                    match of_system {
                        Some(system)
                            if found.matches == 0
                                && search_files(&policy, &target, &any, stop)?.paths.is_empty() =>
                        {
                            Err(FileError::new(
                                Trouble::Missing,
                                format!(
                                    "{system} has no sources here: {} has no Lisp files.",
                                    target.path.display()
                                ),
                            ))
                        }
                        _ => Ok(found.text()),
                    }
                });
                let searched = context.telling(searched, || progress.text()).await;
                drop(counted);
                searched
            })
        },
    )
}

/// How long a search takes before its files are counted, so that its progress can be told.
const QUICK_SEARCH: Duration = Duration::from_millis(500);

/// Counts the files that WHAT searches in TARGET, if that takes long; ends when the value is dropped.
fn counting(policy: &Arc<PathPolicy>, target: &Resolved, what: &Grep) -> DropGuard {
    let ended = CancellationToken::new();
    let guard = ended.clone().drop_guard();
    let (policy, target, what) = (Arc::clone(policy), target.clone(), what.clone());
    tokio::spawn(async move {
        if tokio::time::timeout(QUICK_SEARCH, ended.cancelled())
            .await
            .is_err()
        {
            tokio::task::spawn_blocking(move || {
                // A search of one file has nothing to count.
                let _ = count_files(&policy, &target, &what, &|| ended.is_cancelled());
            });
        }
    });
    guard
}

/// How long the image may take to say where a system is.
const SYSTEM_DEADLINE: Duration = Duration::from_secs(5);

/// The folder with the sources of SYSTEM, which the image knows. Only one of sources: what the image says
/// opens no other.
async fn system_folder(
    system: &str,
    arguments: &Arguments,
    context: &WorkContext,
) -> Result<Resolved, ToolFailure> {
    if arguments.text("path").is_some() {
        return Err(ToolFailure::new("Give a path or a system, not both."));
    }
    let asked = property_list([("system", lexpr::Value::string(system))]);
    let data = match context
        .ask_image("source-places", &asked, SYSTEM_DEADLINE)
        .await?
    {
        ImageReply::Returned(data) => data,
        _ => lexpr::Value::Null,
    };
    let (policy, system) = (context.policy().await?, system.to_owned());
    context
        .on_a_thread(move |_| {
            let data = Plist::new(&data);
            let Some(file) = data.text("definition") else {
                return Err(FileError::new(
                    Trouble::Missing,
                    format!(
                        "The image knows no system {system}, loaded or not; search a folder by path instead."
                    ),
                ));
            };
            let mut files = data.texts("files");
            files.push(file);
            let folders = source_folders(&files, &data.texts("trees"), policy.home());
            let verdict = Path::new(file)
                .canonicalize()
                .ok()
                .and_then(|it| Some(policy.judge(&it.parent()?.to_string_lossy())));
            match verdict {
                Some(PathVerdict::Inside(resolved)) => Ok(resolved),
                Some(PathVerdict::Outside(resolved))
                    if folders.iter().any(|it| resolved.path.starts_with(it)) =>
                {
                    Ok(resolved)
                }
                _ => Err(FileError::new(
                    Trouble::Changed,
                    format!("The folder of {file} has more in it than sources, or can't be read here; search it by path, which asks the user."),
                )),
            }
        })
        .await
}
