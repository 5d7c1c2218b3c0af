// SPDX-License-Identifier: GPL-3.0-or-later
//! The core's half of what is asked of an image: one test program, a module for each of its parts.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod image;
mod looking;
mod nesting;
mod sources;
mod tools;

#[path = "../support/executor_bench.rs"]
mod executor_bench;
#[path = "../support/image_tools.rs"]
mod image_tools;
