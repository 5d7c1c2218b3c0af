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
