// SPDX-License-Identifier: GPL-3.0-or-later
//! The pure half of `provider`: one test program, a module for each of its parts.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod provider_accumulator;
mod provider_recordings;
mod provider_reply;
mod provider_request;
mod provider_retry;
mod provider_sse;
