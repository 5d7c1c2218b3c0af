// SPDX-License-Identifier: GPL-3.0-or-later
//! A question of the image's watch, as it comes over the wire.

use std::path::PathBuf;

use lexpr::Value;
use serde_json::{Map, json};

use super::EffectKind;
use crate::image::{MalformedReply, Plist, parse};

/// What the watch says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchMessage {
    Asked(Box<Question>),
    /// The question of this number needs no answer any more.
    Withdrawn(i64),
}

/// An effect that waits, alive, for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Unique in its call.
    pub number: i64,
    pub kind: EffectKind,
    /// What is about to happen, such as "delete /tmp/x/a.txt".
    pub words: String,
    /// The files that it is about, absolute.
    pub files: Vec<PathBuf>,
    /// What it acts on: a file, a program, a host with its port, a name.
    pub target: Option<String>,
    /// The real name of the program that it runs, and the folder that it runs in.
    pub program: Option<String>,
    pub directory: Option<String>,
    /// The innermost function of the program that is at it; none where the form itself is.
    pub function: Option<String>,
    /// The form that runs.
    pub form: Option<String>,
    pub frames: Vec<String>,
    pub thread: Option<String>,
}

impl Question {
    /// Whether a yes to this is one to OTHER: the same is done to the same.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let same =
            self.kind == other.kind && self.files == other.files && self.target == other.target;
        match self.kind {
            EffectKind::WriteFile | EffectKind::DeleteFile => same,
            EffectKind::RunForm => same && self.words == other.words && self.form == other.form,
            _ => same && self.words == other.words,
        }
    }

    /// What the user and approval handlers are shown, a JSON object; rules look at it, too.
    #[must_use]
    pub fn arguments(&self) -> Map<String, serde_json::Value> {
        let mut arguments = Map::new();
        let files: Vec<String> = self
            .files
            .iter()
            .map(|file| file.to_string_lossy().into_owned())
            .collect();
        let mut put = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                arguments.insert(name.to_owned(), json!(value));
            }
        };
        match files.as_slice() {
            [] => put("target", self.target.clone()),
            [file] => put("file", Some(file.clone())),
            files => put("files", Some(files.join("\n"))),
        }
        put("program", self.program.clone());
        put("directory", self.directory.clone());
        put("function", self.function.clone());
        put("form", self.form.clone());
        put("thread", self.thread.clone());
        put(
            "backtrace",
            (!self.frames.is_empty()).then(|| self.frames.join("\n")),
        );
        arguments
    }
}

/// What the watch says in TEXT.
///
/// # Errors
///
/// When TEXT is nothing that a watch says.
pub fn parse_message(text: &str) -> Result<WatchMessage, MalformedReply> {
    let value = parse(text)?;
    let plist = Plist::new(&value);
    let number = plist
        .integer("question")
        .ok_or_else(|| MalformedReply::new("a question without a number"))?;
    if plist.flag("withdrawn") {
        return Ok(WatchMessage::Withdrawn(number));
    }
    let owned = |name| plist.text(name).map(str::to_owned);
    let kind = plist
        .text("effect")
        .and_then(EffectKind::named)
        .ok_or_else(|| MalformedReply::new("an effect of an unknown kind"))?;
    Ok(WatchMessage::Asked(Box::new(Question {
        number,
        kind,
        words: owned("words").unwrap_or_else(|| kind.deed().to_owned()),
        files: plist.list("files").filter_map(file).collect(),
        target: owned("target"),
        program: owned("program"),
        directory: owned("directory"),
        function: owned("function"),
        form: owned("form"),
        frames: plist
            .texts("frames")
            .into_iter()
            .map(str::to_owned)
            .collect(),
        thread: owned("thread"),
    })))
}

fn file(value: &Value) -> Option<PathBuf> {
    value.as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_what_the_image_wrote() {
        let asked = parse_message(
            r#"(:call 7 :question 2 :effect "delete-file" :words "delete /tmp/a" :files ("/tmp/a")
                :target "/tmp/a" :function "SHOP::CLEANUP" :form "(shop::cleanup)" :frames ("(A)" "(B)"))"#,
        );
        let Ok(WatchMessage::Asked(question)) = asked else {
            panic!("{asked:?}")
        };
        assert_eq!(question.kind, EffectKind::DeleteFile);
        assert_eq!(question.files, [PathBuf::from("/tmp/a")]);
        assert_eq!(
            json!(question.arguments()),
            json!({"file": "/tmp/a", "function": "SHOP::CLEANUP", "form": "(shop::cleanup)",
                   "backtrace": "(A)\n(B)"})
        );
    }

    #[test]
    fn what_is_no_question_is_an_error_or_a_withdrawal() {
        assert_eq!(
            parse_message("(:call 7 :question 2 :withdrawn t)"),
            Ok(WatchMessage::Withdrawn(2))
        );
        for text in [
            "",
            "(:question 2 :effect \"nothing-known\")",
            "(:effect \"connect\")",
            "#.(quit)",
        ] {
            assert!(parse_message(text).is_err(), "{text}");
        }
    }
}
