// SPDX-License-Identifier: GPL-3.0-or-later
//! A project of a few files, with nothing around it, for listing and searching.

use std::fs;

use agent_q_core::files::FileError;
use agent_q_core::files::grep::{FoundLines, Grep, grep};
use agent_q_core::files::path::PathPolicy;
use agent_q_core::files::search::{FileSearch, FoundFiles, search_files};
use tempfile::TempDir;

pub struct Project {
    pub folder: TempDir,
    pub policy: PathPolicy,
}

impl Project {
    pub fn with(files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let policy = PathPolicy::new(folder.path(), None).unwrap();
        Self { folder, policy }
    }

    /// Some sources, with what is hidden, ignored or private beside them.
    pub fn of_sources() -> Self {
        Self::with(&[
            ("test.lisp", "(defun top () 1)\n"),
            ("test.el", "top\n"),
            ("test.lisp.bak", "top\n"),
            ("src/a.lisp", "(defun a ()\n  (top))\n"),
            ("src/b.lisp", "nothing\n"),
            ("src/ab.lisp", "TOP\n"),
            ("src/deep/c.lisp", "(top)\n"),
            ("lib/src/d.lisp", "d\n"),
            ("src/x.go", "go\n"),
            (".hidden.lisp", "top\n"),
            (".git/x.lisp", "top\n"),
            ("built/e.lisp", "top\n"),
            (".gitignore", "built/\n*.bak\n"),
            (".env", "top=secret\n"),
            ("server.pem", "top\n"),
        ])
    }

    pub fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    pub fn find(&self, search: &FileSearch) -> Result<FoundFiles, FileError> {
        let root = self.policy.judge("").resolved().unwrap();
        search_files(&self.policy, &root, search, &|| false)
    }

    pub fn names(&self, pattern: &str) -> Vec<String> {
        let found = self.find(&FileSearch::new(pattern)).unwrap();
        found
            .paths
            .iter()
            .map(|it| it.display().to_string())
            .collect()
    }

    pub fn grep(&self, search: &Grep) -> Result<FoundLines, FileError> {
        self.grep_in("", search)
    }

    pub fn grep_in(&self, path: &str, search: &Grep) -> Result<FoundLines, FileError> {
        let target = self.policy.judge(path).resolved().unwrap();
        grep(&self.policy, &target, search, &|| false)
    }
}
