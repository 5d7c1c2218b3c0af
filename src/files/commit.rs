// SPDX-License-Identifier: GPL-3.0-or-later
//! The files of a project as an earlier commit of its git repository has them, in a folder of their own. Neither the
//! repository nor its index is changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{FileError, Trouble};

/// The files of a commit; they go with this.
#[derive(Debug)]
pub struct ExportedCommit {
    folder: PathBuf,
    /// Where the project is in them.
    pub project: PathBuf,
    /// The commit, in short.
    pub name: String,
}

impl Drop for ExportedCommit {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "an exported commit stays");
        }
    }
}

/// The files of COMMIT, of the repository that the project in ROOT is in.
///
/// # Errors
///
/// There is no such repository or commit, or its files can't be written.
pub fn export(root: &Path, commit: &str) -> Result<ExportedCommit, FileError> {
    let within = git(root, &["rev-parse", "--show-prefix"], None).map_err(|_| {
        failure("The project is not in a git repository, so there is nothing to compare with.")
    })?;
    let wanted = format!("{commit}^{{commit}}");
    let found = git(
        root,
        &[
            "rev-parse",
            "--verify",
            "--short",
            "--end-of-options",
            &wanted,
        ],
        None,
    );
    let name = found
        .map_err(|_| failure(&format!("git knows no commit {commit}.")))?
        .trim()
        .to_owned();
    let folder = new_folder()?;
    let exported = ExportedCommit {
        project: folder.join("files").join(within.trim_end_matches('\n')),
        folder,
        name,
    };
    let index = exported.folder.join("index");
    let prefix = format!("--prefix={}/", exported.folder.join("files").display());
    git(root, &["read-tree", &exported.name], Some(&index))?;
    git(root, &["checkout-index", "--all", &prefix], Some(&index))?;
    if !exported.project.is_dir() {
        return Err(failure(&format!(
            "The commit {} has no files of this project.",
            exported.name
        )));
    }
    Ok(exported)
}

fn failure(message: &str) -> FileError {
    FileError::new(Trouble::Missing, message)
}

/// What git prints for ARGUMENTS in ROOT, with INDEX in place of the repository's.
fn git(root: &Path, arguments: &[&str], index: Option<&Path>) -> Result<String, FileError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root);
    // Files that edits may make can look like a repository, and name programs.
    command.args(["-c", "safe.bareRepository=explicit"]);
    command
        .args(arguments)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null());
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
    }
    let output = command
        .output()
        .map_err(|error| failure(&format!("git can't be run: {error}.")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("it gave no reason");
            Err(failure(&format!("git {} failed: {said}", arguments[0])))
        }
    }
}

/// A new folder that only the user can read.
fn new_folder() -> Result<PathBuf, FileError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("agent-q-commit-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder).map_err(|error| {
        FileError::new(
            Trouble::System,
            format!("{} can't be made: {error}.", folder.display()),
        )
    })?;
    Ok(folder)
}
