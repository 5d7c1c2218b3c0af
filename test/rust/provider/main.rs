// SPDX-License-Identifier: GPL-3.0-or-later
//! Model servers: one test program, a module for each of its parts. What speaks HTTP does so with the
//! scripted server.
#![allow(
    clippy::unwrap_used,
    reason = "a test that can't go on says so by a panic"
)]

mod accumulator;
mod connections;
mod cuts;
mod dialects;
mod efforts;
mod error_words;
mod framing;
mod histories;
mod hosts;
mod http;
mod matrix;
mod messages;
mod network;
mod odd_streams;
mod recordings;
mod reply;
mod request;
mod retry;
mod said;
mod scripts;
mod ways;
mod written;

#[path = "../support/fault_server.rs"]
mod fault_server;

#[path = "../support/scripted_server.rs"]
mod scripted_server;

#[path = "../support/way_servers.rs"]
mod way_servers;
