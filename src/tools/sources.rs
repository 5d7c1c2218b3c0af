// SPDX-License-Identifier: GPL-3.0-or-later
//! Text searches of the project's Lisp files, for what an image does not record: some
//! implementations keep no cross-references, others forget where variables are defined.

use futures_util::future::BoxFuture;

use crate::files::grep::{Case, Grep, grep};
use crate::image::{Plist, Reply};
use crate::tool::work::WorkContext;
use crate::tool::{Content, ToolFailure};

const LISP_FILES: &str = "*.{lisp,lsp,cl,asd}";
/// How many lines an answer shows.
const LINES: usize = 60;

type Answer = BoxFuture<'static, Result<Content, ToolFailure>>;

/// Where the sources mention what the image, by its REPLY, has no cross-references of.
#[must_use]
pub fn mentions(reply: &Reply, context: &WorkContext) -> Option<Answer> {
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
        let pattern = format!(r#"(?:^|[\s()'`,#@:"]){}(?:[\s()'"]|$)"#, words(&name));
        search(
            &format!(
                "{why} This is a text search for {name} in the project's Lisp files, which finds definitions, comments and the same name in other packages, too."
            ),
            pattern,
            &context,
        )
        .await
    }))
}

/// Where the sources define what the image, by its REPLY, does not know the place of.
#[must_use]
pub fn definitions(reply: &Reply, context: &WorkContext) -> Option<Answer> {
    let data = data(reply)?;
    let name = data.text("search")?.to_owned();
    let shown = data.text("name").unwrap_or(&name).to_owned();
    let kinds = data.texts("kinds").join(" and a ");
    let what = if kinds.is_empty() {
        "is defined".to_owned()
    } else {
        format!("is a {kinds}")
    };
    let context = context.clone();
    Some(Box::pin(async move {
        let pattern = format!(
            r"^\s*\((?:[^\s():]+::?)?def[^\s()]*\s+\(?{}(?:[\s()]|$)",
            words(&name)
        );
        search(
            &format!(
                "{shown} {what}, but the image does not know where it was defined. This is a text search for definitions of {name} in the project's Lisp files."
            ),
            pattern,
            &context,
        )
        .await
    }))
}

fn data(reply: &Reply) -> Option<Plist<'_>> {
    match reply {
        Reply::Returned(value) => Some(Plist::new(value)),
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

async fn search(
    head: &str,
    pattern: String,
    context: &WorkContext,
) -> Result<Content, ToolFailure> {
    let found = async {
        let (policy, root) = (context.policy().await?, context.resolve(".").await?);
        let what = Grep {
            glob: Some(LISP_FILES.to_owned()),
            case: Case::Insensitive,
            limit: LINES,
            ..Grep::new(&pattern)
        };
        context
            .on_a_thread(move |stop| grep(&policy, &root, &what, stop))
            .await
    };
    let text = match found.await {
        Ok(found) if found.matches == 0 => format!("{head}\nIt found nothing."),
        Ok(found) => format!("{head}\n{}", found.lines().trim_end()),
        Err(failure) => return Err(ToolFailure::new(format!("{head} It failed: {failure}"))),
    };
    Ok(Content {
        from: Some("the project"),
        ..Content::from(text)
    })
}
