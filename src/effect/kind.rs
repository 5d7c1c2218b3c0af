// SPDX-License-Identifier: GPL-3.0-or-later
//! The kinds of effects, with their names on the wire, for rules, and in sentences.

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
}
