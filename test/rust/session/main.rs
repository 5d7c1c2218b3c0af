// SPDX-License-Identifier: GPL-3.0-or-later
//! Chats with a scripted model: one test program, a module for each of its parts.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod background;
mod bounds;
mod cancelling;
mod drafting;
mod faults;
mod limits;
mod long;
mod offer;
mod plan;
mod refusals;
mod research;
mod shown;
mod steering;
mod turns;
mod window;

#[path = "../support/fault_server.rs"]
mod fault_server;

#[path = "../support/chat.rs"]
mod chat;

/// The names of all dialects, as settings have them.
const DIALECTS: [&str; 5] = [
    "chat-completions",
    "messages",
    "responses",
    "gemini",
    "ollama",
];
