// SPDX-License-Identifier: GPL-3.0-or-later
//! Effects: what code that runs in the Lisp image is about to do outside of the program. The image's
//! watch stops there and asks; here are its questions as data, and what the user has granted before.

use std::path::PathBuf;

use lexpr::Value;
use serde::{Serialize, Serializer};
use serde_json::{Map, json};

use crate::image::{MalformedReply, Plist, parse, property_list};

/// What becomes of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectDecision {
    Allow,
    /// The code gets an error; the reason, if any, is told to the model.
    Deny(Option<String>),
    /// The whole call is unwound.
    Stop,
}

impl Serialize for EffectDecision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (decision, reason) = match self {
            Self::Allow => ("allow", None),
            Self::Deny(reason) => ("deny", reason.as_ref()),
            Self::Stop => ("stop", None),
        };
        json!({"decision": decision, "reason": reason}).serialize(serializer)
    }
}

/// The effects that the assessment of code found, which saying yes to the code grants: lists of a
/// kind and, where the code has it literally, what it acts on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Granted(Vec<Value>);

impl Granted {
    /// Adds effects of KIND on what the code literally calls TEXT.
    pub fn add(&mut self, kind: EffectKind, text: &str) {
        let entry = [Value::string(kind.name()), Value::string(text)];
        self.0.push(Value::list(entry));
    }

    /// Adds those that the reply DATA of an assessment has.
    pub fn take(&mut self, data: Plist<'_>) {
        self.0.extend(data.list("effects").cloned());
    }
}

/// How the watch is set for a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Watch {
    /// The user wants no questions about code.
    Off,
    /// The call only looks: what the program's printers try meanwhile does not happen.
    Looking,
    On {
        granted: Granted,
        /// Of which a real file name has one if the file is private, in lower case.
        needles: Vec<String>,
    },
}

/// For how many seconds a question waits for an answer.
const PATIENCE: u64 = 600;

impl Watch {
    /// As the argument `watch` of an operation of the image.
    #[must_use]
    pub fn to_argument(&self) -> Value {
        match self {
            Self::Off => property_list([("off", Value::symbol("t"))]),
            Self::Looking => property_list([("look", Value::symbol("t"))]),
            Self::On { granted, needles } => property_list([
                ("granted", Value::list(granted.0.clone())),
                (
                    "private",
                    Value::list(needles.iter().map(|it| Value::string(it.as_str()))),
                ),
                ("patience", Value::from(PATIENCE)),
            ]),
        }
    }
}

// The kinds of effects, with their names on the wire, for rules, and in sentences.

/// What kind of effect it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EffectKind {
    WriteFile,
    DeleteFile,
    RenameFile,
    MakeDirectory,
    ChangeAttributes,
    RunProgram,
    Connect,
    Listen,
    LoadFile,
    ExitLisp,
    SaveImage,
    StopThread,
    ForeignCode,
    Redefine,
    SetEnvironment,
    TakeOver,
    ReadPrivate,
    ReadSecret,
    WriteToClient,
    Outlive,
    RunForm,
}

/// Each kind with its name, and with what somebody may do who may cause such effects.
const KINDS: [(EffectKind, &str, &str); 21] = [
    (EffectKind::WriteFile, "write-file", "write files"),
    (EffectKind::DeleteFile, "delete-file", "delete files"),
    (EffectKind::RenameFile, "rename-file", "rename files"),
    (
        EffectKind::MakeDirectory,
        "make-directory",
        "make directories",
    ),
    (
        EffectKind::ChangeAttributes,
        "change-attributes",
        "change the attributes of files",
    ),
    (EffectKind::RunProgram, "run-program", "run"),
    (EffectKind::Connect, "connect", "connect to"),
    (EffectKind::Listen, "listen", "listen at"),
    (EffectKind::LoadFile, "load-file", "load files"),
    (EffectKind::ExitLisp, "exit-lisp", "end the Lisp"),
    (EffectKind::SaveImage, "save-image", "save the image"),
    (
        EffectKind::StopThread,
        "stop-thread",
        "stop or interrupt the thread",
    ),
    (
        EffectKind::ForeignCode,
        "foreign-code",
        "call the foreign code",
    ),
    (EffectKind::Redefine, "redefine", "redefine"),
    (
        EffectKind::SetEnvironment,
        "set-environment",
        "set the environment's",
    ),
    (EffectKind::TakeOver, "take-over", "set"),
    (
        EffectKind::ReadPrivate,
        "read-private",
        "read private files",
    ),
    (
        EffectKind::ReadSecret,
        "read-secret",
        "read the environment's",
    ),
    (
        EffectKind::WriteToClient,
        "write-to-client",
        "write to the editor's connection",
    ),
    (EffectKind::Outlive, "outlive", "leave threads running"),
    (EffectKind::RunForm, "run-form", "run a form that"),
];

/// What the names begin with that rules know effects by, as they know tools.
const PREFIX: &str = "effect/";

impl EffectKind {
    fn entry(self) -> &'static (Self, &'static str, &'static str) {
        KINDS
            .iter()
            .find(|(kind, ..)| *kind == self)
            .unwrap_or(&KINDS[0])
    }

    /// What the image calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// The kind that the image calls NAME.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        KINDS
            .iter()
            .find(|(_, it, _)| *it == name)
            .map(|(kind, ..)| *kind)
    }

    /// The kind that rules know by TOOL, such as `effect/delete_file`.
    #[must_use]
    pub fn of_tool(tool: &str) -> Option<Self> {
        Self::named(&tool.strip_prefix(PREFIX)?.replace('_', "-"))
    }

    /// What rules, the audit log and approval handlers know it by.
    #[must_use]
    pub fn tool(self) -> String {
        format!("{PREFIX}{}", self.name().replace('-', "_"))
    }

    /// What somebody may do who may cause it: "delete files".
    #[must_use]
    pub fn deed(self) -> &'static str {
        self.entry().2
    }
}

// A question of the image's watch, as it comes over the wire.

/// What the watch says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchMessage {
    Asked(Box<Question>),
    /// The question of this number no longer needs an answer.
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
    fn each_kind_is_found_by_both_its_names() {
        for (kind, name, _) in KINDS {
            assert_eq!(EffectKind::named(name), Some(kind));
            assert_eq!(EffectKind::of_tool(&kind.tool()), Some(kind));
        }
        assert_eq!(EffectKind::of_tool("delete_file"), None);
        assert_eq!(EffectKind::of_tool("effect/other"), None);
    }

    #[test]
    fn emacs_names_each_kind_and_the_image_no_other() {
        let registry = include_str!("../lisp/agent-q-registry.el");
        let mut named: Vec<&str> = registry
            .split('"')
            .filter(|text| text.starts_with(PREFIX) && *text != PREFIX)
            .collect();
        let mut tools = KINDS.map(|(kind, ..)| kind.tool());
        named.sort_unstable();
        tools.sort();
        assert_eq!(named, tools);
        let mut found = 0;
        for entry in walkdir("lisp/image") {
            let text = std::fs::read_to_string(entry).unwrap();
            for after in text.split("make-effect :kind \"").skip(1) {
                let (name, _) = after.split_once('"').unwrap();
                assert!(EffectKind::named(name).is_some(), "{name}");
                found += 1;
            }
        }
        assert!(found > 20, "{found}");
    }

    /// The files in the folders in FOLDER.
    fn walkdir(folder: &str) -> Vec<PathBuf> {
        let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries(PathBuf::from(folder))
            .flat_map(|module| entries(module.path()))
            .map(|file| file.path())
            .collect()
    }

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
