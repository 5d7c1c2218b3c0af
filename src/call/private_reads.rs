// SPDX-License-Identifier: GPL-3.0-or-later
//! Code that opens files, compared with the user's private files: the strings that its text has are
//! judged as the paths that they may be. Where the image finds that code opens none, nobody asks here.

use std::path::Path;

use crate::files::path::{PathPolicy, PathVerdict};
use crate::tool::work::WorkContext;

/// A private file that code names.
pub(super) struct Named {
    /// As it stands in the code; none where that could not be found out.
    pub(super) literal: Option<String>,
    /// Why the user has to be asked about it.
    pub(super) concern: String,
}

/// The first of the strings in the Lisp TEXT, which opens files, that names a private one. DIRECTORY is
/// where the image looks for files.
pub(super) async fn named(
    text: &str,
    directory: Option<&str>,
    context: &WorkContext,
) -> Option<Named> {
    let literals = strings(text);
    if literals.is_empty() {
        return None;
    }
    let policy = context.policy().await.ok();
    let directory = directory.map(str::to_owned);
    let judged = context
        .on_a_thread(move |_| {
            let somewhere;
            let policy = match &policy {
                Some(policy) => policy.as_ref(),
                // Without a project the default list still holds.
                None => {
                    let home = std::env::home_dir();
                    somewhere = PathPolicy::new(Path::new("/"), home.as_deref())?;
                    &somewhere
                }
            };
            Ok(literals.into_iter().find_map(|literal| {
                let pattern = private(&literal, directory.as_deref(), policy)?;
                Some(Named {
                    concern: format!(
                        "opens files and names '{literal}', which may hold secrets (private files: {pattern})"
                    ),
                    literal: Some(literal),
                })
            }))
        })
        .await;
    judged.unwrap_or_else(|failure| {
        Some(Named {
            literal: None,
            concern: format!("not checked: {failure}"),
        })
    })
}

/// The pattern of private files that LITERAL matches, as a path from the project or from DIRECTORY.
fn private(literal: &str, directory: Option<&str>, policy: &PathPolicy) -> Option<String> {
    let pattern = |path: &str| match policy.judge(path) {
        PathVerdict::Private { pattern, .. } => Some(pattern),
        // What is no path here, such as \"~a/.ssh/id_rsa\" for FORMAT, may still become one.
        PathVerdict::Refused(_) => policy
            .private_files()
            .matching(Path::new(path))
            .map(str::to_owned),
        PathVerdict::Inside(_) | PathVerdict::Outside(_) => None,
    };
    let there = directory
        .filter(|_| !literal.starts_with(['/', '~']))
        .map(|directory| Path::new(directory).join(literal));
    pattern(literal).or_else(|| pattern(&there?.to_string_lossy()))
}

/// The strings in the Lisp TEXT that may be paths, without their escapes.
fn strings(text: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '"' => strings.push(delimited(&mut rest, '"')),
            '|' => drop(delimited(&mut rest, '|')),
            '\\' => drop(rest.next()),
            ';' => drop(rest.by_ref().find(|&it| it == '\n')),
            '#' if rest.next_if_eq(&'|').is_some() => skip_comment(&mut rest),
            _ => {}
        }
    }
    strings.retain(|it| !it.trim().is_empty() && !it.contains('\n'));
    strings
}

/// What comes before the next END in REST, which is left behind it.
fn delimited(rest: &mut impl Iterator<Item = char>, end: char) -> String {
    let mut text = String::new();
    while let Some(character) = rest.next() {
        match character {
            '\\' => text.extend(rest.next()),
            it if it == end => break,
            it => text.push(it),
        }
    }
    text
}

/// Leaves REST, which is in a comment between `#|` and `|#`, behind its end. They can be nested.
fn skip_comment(rest: &mut std::iter::Peekable<impl Iterator<Item = char>>) {
    let mut depth = 1;
    while let Some(character) = rest.next() {
        match character {
            '|' if rest.next_if_eq(&'#').is_some() => depth -= 1,
            '#' if rest.next_if_eq(&'|').is_some() => depth += 1,
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_among_what_looks_like_them() {
        assert_eq!(
            strings(
                r#"(f "a \"b\" \\" #\" ; "no"
 #p"c/d" |no "| #|"no" #|"no"|# "no"|# \" "e")"#
            ),
            [r#"a "b" \"#, "c/d", "e"]
        );
        assert_eq!(strings("\"open"), ["open"]);
        assert!(strings("(f \"\" \"two\nlines\" \" \")").is_empty());
    }

    #[test]
    fn a_string_is_judged_as_each_path_that_it_may_be() {
        let root = std::env::temp_dir();
        let policy = PathPolicy::new(&root, Some(Path::new("/home/me"))).unwrap();
        for (literal, directory, private_one) in [
            ("~/.ssh/id_rsa", None, true),
            ("/home/me/.aws/credentials", None, true),
            ("~a/.ssh/known_hosts", None, true),
            ("credentials", Some("/home/me/.aws/"), true),
            ("credentials", None, true),
            ("config", Some("/home/me/.aws/"), true),
            ("config", None, false),
            ("README.md", Some("/home/me/"), false),
            ("The key is ~a.", None, false),
        ] {
            assert_eq!(
                private(literal, directory, &policy).is_some(),
                private_one,
                "{literal}"
            );
        }
    }
}
