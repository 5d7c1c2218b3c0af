// SPDX-License-Identifier: GPL-3.0-or-later
//! A project's files and the changes to them: one test program, a module for each of its parts.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod diff_hunks;
mod diff_replace;
mod files_path;
mod files_race;
mod files_read;
mod files_search;
mod files_systems;
mod files_verified;
mod files_walk;

#[path = "support/ground.rs"]
mod ground;
#[path = "support/project.rs"]
mod project;
