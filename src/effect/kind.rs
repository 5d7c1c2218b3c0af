// SPDX-License-Identifier: GPL-3.0-or-later
//! The kinds of effects, with their names on the wire, for rules, and in sentences.

/// What kind of effect it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
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
}

/// Each kind with its name, and with what somebody may do who may cause such effects.
const KINDS: [(Kind, &str, &str); 20] = [
    (Kind::WriteFile, "write-file", "write files"),
    (Kind::DeleteFile, "delete-file", "delete files"),
    (Kind::RenameFile, "rename-file", "rename files"),
    (Kind::MakeDirectory, "make-directory", "make directories"),
    (
        Kind::ChangeAttributes,
        "change-attributes",
        "change the attributes of files",
    ),
    (Kind::RunProgram, "run-program", "run the program"),
    (Kind::Connect, "connect", "connect to"),
    (Kind::Listen, "listen", "listen at"),
    (Kind::LoadFile, "load-file", "load files"),
    (Kind::ExitLisp, "exit-lisp", "end the Lisp"),
    (Kind::SaveImage, "save-image", "save the image"),
    (
        Kind::StopThread,
        "stop-thread",
        "stop or interrupt the thread",
    ),
    (Kind::ForeignCode, "foreign-code", "call the foreign code"),
    (Kind::Redefine, "redefine", "redefine"),
    (
        Kind::SetEnvironment,
        "set-environment",
        "set the environment's",
    ),
    (Kind::TakeOver, "take-over", "set"),
    (Kind::ReadPrivate, "read-private", "read private files"),
    (Kind::ReadSecret, "read-secret", "read the environment's"),
    (
        Kind::WriteToClient,
        "write-to-client",
        "write to the editor's connection",
    ),
    (Kind::Outlive, "outlive", "leave threads running"),
];

/// What the names begin with that rules know effects by, as they know tools.
const PREFIX: &str = "effect/";

impl Kind {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_both_its_names() {
        for (kind, name, _) in KINDS {
            assert_eq!(Kind::named(name), Some(kind));
            assert_eq!(Kind::of_tool(&kind.tool()), Some(kind));
        }
        assert_eq!(Kind::of_tool("delete_file"), None);
        assert_eq!(Kind::of_tool("effect/other"), None);
    }
}
