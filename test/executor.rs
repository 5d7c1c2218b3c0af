// SPDX-License-Identifier: GPL-3.0-or-later
//! The pipeline of tool calls: one test program, a module for each of its parts.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod audit_test;
mod executor_code_test;
mod executor_effects_test;
mod executor_rules_test;
mod executor_test;
mod fence_test;

#[path = "support/executor_bench.rs"]
mod executor_bench;
