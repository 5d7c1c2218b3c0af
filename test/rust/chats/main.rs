// SPDX-License-Identifier: GPL-3.0-or-later
//! Stored chats: one test program, a module for each of its parts.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod full_disk;
mod ids;
mod reading;
mod searching;
mod writing;
