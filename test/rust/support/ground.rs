// SPDX-License-Identifier: GPL-3.0-or-later
//! A project on disk with a sibling, an outside and a home, for judging and using paths.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use agent_q_core::files::path::{PathPolicy, PathVerdict, Resolved};
use tempfile::TempDir;

/// `base/project` with a few files, `base/project-secrets`, `base/outside`, `base/home`.
pub struct Ground {
    pub base: TempDir,
    pub policy: PathPolicy,
}

impl Ground {
    pub fn new() -> Self {
        let base = TempDir::new().unwrap();
        for folder in [
            "project/src/deep",
            "project-secrets",
            "outside/folder",
            "home/.ssh",
        ] {
            fs::create_dir_all(base.path().join(folder)).unwrap();
        }
        for (file, text) in [
            ("project/src/config.lisp", "(config)\n"),
            ("project/src/deep/a.lisp", "a"),
            ("project/.env", "SECRET=1"),
            ("project/.env.example", "SECRET="),
            ("project/server.PEM", "key"),
            ("project-secrets/keys", "sibling"),
            ("outside/passwd", "outside"),
            ("outside/folder/x", "x"),
            ("home/.ssh/config", "host"),
            ("home/.authinfo.gpg", "pw"),
            ("home/notes", "notes"),
        ] {
            fs::write(base.path().join(file), text).unwrap();
        }
        let policy = PathPolicy::new(
            &base.path().join("project"),
            Some(&base.path().join("home")),
        )
        .unwrap();
        Self { base, policy }
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.base.path().canonicalize().unwrap().join(path)
    }

    pub fn judge(&self, path: &str) -> PathVerdict {
        self.policy.judge(path)
    }

    pub fn inside(&self, path: &str) -> Resolved {
        match self.judge(path) {
            PathVerdict::Inside(resolved) => resolved,
            other => panic!("{path}: {other:?}"),
        }
    }

    pub fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.at("project").join(name)).unwrap();
    }
}
