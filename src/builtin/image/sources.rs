// SPDX-License-Identifier: GPL-3.0-or-later
//! Text searches of the project's Lisp files, for what an image does not record: some
//! implementations keep no cross-references, others forget where variables are defined.

use futures_util::future::BoxFuture;

use crate::builtin::files::change::look;
use crate::builtin::files::definitions::definition;
use crate::files::grep::{Case, FoundLines, Grep, grep};
use crate::image::{ImageReply, Plist};
use crate::tool::work::WorkContext;
use crate::tool::{Content, ToolFailure};

const LISP_FILES: &str = "*.{lisp,lsp,cl,asd}";
/// How many lines an answer shows.
const LINES: usize = 60;

/// How many characters of source text one answer quotes; definitions after that only have places.
pub(super) const QUOTED: usize = 9000;
/// How many definitions are shown whole.
const MOST_FORMS: u64 = 3;

/// An answer that is found by a search.
pub type Answer = BoxFuture<'static, Result<Content, ToolFailure>>;

/// Where the sources mention what the image, by its REPLY, has no cross-references of.
#[must_use]
pub fn mentions(reply: &ImageReply, context: &WorkContext) -> Option<Answer> {
    let data = data(reply)?;
    let why = data.text("unavailable")?.to_owned();
    let context = context.clone();
    let Some(name) = data.text("search").map(str::to_owned) else {
        return Some(Box::pin(async move {
            Err(ToolFailure::new(format!(
                "{why} find_definition shows the source."
            )))
        }));
    };
    Some(Box::pin(async move {
        search(&mentions_of(&why, &name), mention(&name), &context).await
    }))
}

/// Where the sources mention NAME, of which the image has recorded no use, as NONE says.
#[must_use]
pub fn unrecorded(none: String, name: &str, context: &WorkContext) -> Answer {
    let (context, name) = (context.clone(), name.to_owned());
    Box::pin(async move {
        let found = search(&mentions_of(&none, &name), mention(&name), &context).await;
        // What the image says holds, whether the files can be searched or not.
        found.or_else(|failure| Ok(Content::from(failure.message)))
    })
}

/// The head of a search for mentions of NAME, which is made because of WHY.
fn mentions_of(why: &str, name: &str) -> String {
    format!(
        "{why} This is a text search for {name} in the project's Lisp files, which finds definitions, comments and the same name in other packages, too."
    )
}

/// A regular expression that matches NAME where it is a whole name.
fn mention(name: &str) -> String {
    format!(r#"(?:^|[\s()'`,#@:"]){}(?:[\s()'"]|$)"#, words(name))
}

/// Where the sources define what the image, by its REPLY, does not know the place of, or does not
/// have at all: a framework's tests, and what is not loaded.
#[must_use]
pub fn definitions(reply: &ImageReply, context: &WorkContext) -> Option<Answer> {
    let data = data(reply)?;
    let name = data.text("search")?.to_owned();
    let shown = data.text("name").unwrap_or(&name);
    let kinds = data.texts("kinds").join(" and a ");
    let known = match data.text("unknown") {
        Some(message) => message.to_owned(),
        None if data.flag("nameless") => {
            format!("{shown} is only a symbol: the image has no definition of it.")
        }
        None if kinds.is_empty() => {
            format!("{shown} is defined, but the image does not know where it was defined.")
        }
        None => format!("{shown} is a {kinds}, but the image does not know where it was defined."),
    };
    let missing = data.text("unknown").is_some();
    let context = context.clone();
    Some(Box::pin(async move {
        let pattern = format!(
            r#"^\s*\((?:[^\s():]+::?)?(?:def[^\s()]*|test)\s+(?:['"\#:][^\s()]+\s+)?\(?['"\#:]*(?:[^\s():]+::?)?{}(?:[\s()"]|$)"#,
            words(&name)
        );
        let head = format!(
            "{known} This is a text search for definitions of {name} in the project's Lisp files."
        );
        let found = found(pattern, &context).await;
        match &found {
            Ok(None) if missing => return Err(ToolFailure::quoting(known)),
            Ok(Some(lines)) if lines.matches <= MOST_FORMS => {
                if let Some(forms) = forms(&name, lines, &context).await {
                    let from = if missing { ", not loaded" } else { "" };
                    return Ok(of_project(format!(
                        "{known} From the project's files{from}:\n{forms}"
                    )));
                }
            }
            _ => {}
        }
        told(&head, found)
    }))
}

fn data(reply: &ImageReply) -> Option<Plist<'_>> {
    match reply {
        ImageReply::Returned(value) => Some(Plist::new(value)),
        _ => None,
    }
}

/// NAME for a regular expression, its words with any blanks between them.
fn words(name: &str) -> String {
    let words: Vec<String> = name
        .trim_end_matches(')')
        .split(' ')
        .map(regex::escape)
        .collect();
    words.join(r"\s+")
}

/// The whole definitions of NAME that FOUND has lines of, with their places; none where Emacs
/// doesn't find them all.
async fn forms(name: &str, found: &FoundLines, context: &WorkContext) -> Option<String> {
    let mut forms = Vec::new();
    for file in &found.files {
        let path = file.path.to_string_lossy();
        let target = context.resolve(&path).await.ok()?;
        let current = look(context, &target).await.ok()?;
        for line in &file.lines {
            let number = line.number;
            let named = format!("{name} (line {number})");
            let form = definition(&target, &current, &named, context).await?;
            forms.push(format!("{path}:{number}\n{form}"));
        }
    }
    let size: usize = forms.iter().map(String::len).sum();
    (size <= QUOTED).then(|| forms.join("\n"))
}

async fn search(
    head: &str,
    pattern: String,
    context: &WorkContext,
) -> Result<Content, ToolFailure> {
    told(head, found(pattern, context).await)
}

/// The lines of the project's Lisp files that have PATTERN in them, unless there are none.
async fn found(pattern: String, context: &WorkContext) -> Result<Option<FoundLines>, ToolFailure> {
    let (policy, root) = (context.policy().await?, context.resolve(".").await?);
    let what = Grep {
        glob: Some(LISP_FILES.to_owned()),
        case: Case::Insensitive,
        limit: LINES,
        ..Grep::new(&pattern)
    };
    let found = context
        .on_a_thread(move |stop| grep(&policy, &root, &what, stop))
        .await?;
    Ok((found.matches > 0).then_some(found))
}

/// HEAD with what was FOUND.
fn told(
    head: &str,
    found: Result<Option<FoundLines>, ToolFailure>,
) -> Result<Content, ToolFailure> {
    let text = match found {
        Ok(None) => format!("{head}\nIt found nothing."),
        Ok(Some(found)) => format!("{head}\n{}", found.lines().trim_end()),
        Err(failure) => return Err(ToolFailure::new(format!("{head} It failed: {failure}"))),
    };
    Ok(of_project(text))
}

fn of_project(text: String) -> Content {
    Content {
        from: Some("the project"),
        ..Content::from(text)
    }
}
