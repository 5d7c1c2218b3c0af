// SPDX-License-Identifier: GPL-3.0-or-later
//! Gram and type signatures: one test program, a module for each of its parts. How the time of
//! reading grows is a program of its own, so that no other test runs beside it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod contract;
mod grammar;
mod library;
mod oracle;
mod print;
mod reference;
mod signature_errors;
