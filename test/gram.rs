// SPDX-License-Identifier: GPL-3.0-or-later
//! Gram and type signatures: one test program, a module for each of its parts. How the time of
//! reading grows is a program of its own, so that no other test runs beside it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod gram_contract;
mod gram_grammar;
mod gram_library;
mod gram_oracle;
mod gram_print;
mod gram_signature_errors;
mod gram_support;
