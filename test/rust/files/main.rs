// SPDX-License-Identifier: GPL-3.0-or-later
//! A project's files and the changes to them: one test program, a module for each of its parts.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod hunks;
mod path;
mod race;
mod read;
mod replace;
mod search;
mod sources;
mod systems;
mod verified;
mod walk;

#[path = "../support/ground.rs"]
mod ground;
#[path = "../support/project.rs"]
mod project;
