// SPDX-License-Identifier: GPL-3.0-or-later
//! The pipeline of tool calls: one test program, a module for each of its parts.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod audit;
mod background;
mod code;
mod effects;
mod fence;
mod pages;
mod pipeline;
mod programs;
mod renew;
mod rules;

#[path = "../support/executor_bench.rs"]
mod executor_bench;

#[allow(dead_code, reason = "each test program uses its own part of it")]
#[path = "../support/way_servers.rs"]
mod way_servers;
