// SPDX-License-Identifier: GPL-3.0-or-later
//! The user's rules: one test program, a module for each of its parts.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod alarms;
mod matching;
mod properties;
mod store;

#[path = "../support/calls.rs"]
mod calls;
