// SPDX-License-Identifier: GPL-3.0-or-later
//! Markdown that comes in pieces: whatever they are, it looks as if it had come at once.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod looks;
mod pieces;
