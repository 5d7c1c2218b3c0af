// SPDX-License-Identifier: GPL-3.0-or-later
//! Samples of what reading replies costs, a line each: a name and seconds. For each dialect a stream of
//! MEGABYTES, from bytes to events to show, beside serde_json skipping the same payloads; then how many
//! bytes of memory are held after 256 MB of signs of life, or as many as the first argument says.
//! `cargo run --release --example bench_streams`, or `make bench`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program for a terminal"
)]

use std::hint::black_box;
use std::time::Instant;

use agent_q_core::provider::Dialect;
use agent_q_core::provider::reply::ReplyReader;
use serde::de::IgnoredAny;

/// As reqwest hands them on.
const PIECE: usize = 16 * 1024;

const MEGABYTES: usize = 32;

const DIALECTS: [(&str, Dialect); 5] = [
    ("chat", Dialect::ChatCompletions),
    ("messages", Dialect::Messages),
    ("responses", Dialect::Responses),
    ("gemini", Dialect::Gemini),
    ("ollama", Dialect::Ollama),
];

/// An event in the middle of an answer, as its server sends it.
fn event(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::ChatCompletions => concat!(
            r#"data: {"id":"chatcmpl-CVF7HBNmnpVt5VtBTsZ3","object":"chat.completion.chunk","created":1763000000,"#,
            r#""model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_51e1070cf2","#,
            r#""choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
            "\n\n"
        ),
        Dialect::Messages => concat!(
            "event: content_block_delta\n",
            r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" and some words"}}"#,
            "\n\n"
        ),
        Dialect::Responses => concat!(
            "event: response.output_text.delta\n",
            r#"data: {"type":"response.output_text.delta","sequence_number":17,"item_id":"msg_68a1b2c3d4e5f60718293a4b5c6d7e8f","#,
            r#""output_index":0,"content_index":0,"delta":" word","logprobs":[],"obfuscation":"7Xk2mQ9vLr"}"#,
            "\n\n"
        ),
        Dialect::Gemini => concat!(
            r#"data: {"candidates": [{"content": {"parts": [{"text": " and a sentence of some words"}],"role": "model"},"index": 0}],"#,
            r#""usageMetadata": {"promptTokenCount": 812,"candidatesTokenCount": 51,"totalTokenCount": 1863,"#,
            r#""promptTokensDetails": [{"modality": "TEXT","tokenCount": 812}],"thoughtsTokenCount": 1000},"#,
            r#""modelVersion": "gemini-2.5-flash","responseId": "0b1NaOT0MOOjz7IPuKWY4Ak"}"#,
            "\r\n\r\n"
        ),
        Dialect::Ollama => concat!(
            r#"{"model":"qwen3:4b","created_at":"2026-03-01T12:00:00.123456789Z","message":{"role":"assistant","content":" word"},"done":false}"#,
            "\n"
        ),
    }
}

fn opening(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Messages => concat!(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n",
            "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
            "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
        ),
        _ => "",
    }
}

/// A stream of so many bytes that is one answer.
fn stream(dialect: Dialect, bytes: usize) -> Vec<u8> {
    let event = event(dialect);
    let mut stream = opening(dialect).to_owned();
    stream.push_str(&event.repeat(bytes / event.len()));
    stream.into_bytes()
}

/// The payloads of STREAM, one after the other.
fn payloads(stream: &[u8]) -> Vec<&str> {
    let text = std::str::from_utf8(stream).unwrap_or_default();
    text.lines()
        .filter(|line| !line.starts_with("event:") && !line.is_empty())
        .map(|line| line.strip_prefix("data: ").unwrap_or(line))
        .collect()
}

fn read(dialect: Dialect, stream: &[u8]) -> f64 {
    let start = Instant::now();
    let mut reader = ReplyReader::new(dialect);
    for piece in stream.chunks(PIECE) {
        black_box(reader.push(piece));
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!(
        reader.content_bytes() > stream.len() / 100,
        "nothing was read"
    );
    seconds
}

fn skip(payloads: &[&str]) -> f64 {
    let start = Instant::now();
    for payload in payloads {
        let _ = black_box(serde_json::from_str::<IgnoredAny>(payload));
    }
    start.elapsed().as_secs_f64()
}

/// Bytes of memory that this process holds, where that can be known.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = held.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// How much more memory is held when MEGABYTES of signs of life have come.
fn growth(dialect: Dialect, megabytes: usize) -> Option<f64> {
    let sign = match dialect {
        Dialect::Ollama => "\n",
        Dialect::Messages => "event: ping\ndata: {\"type\":\"ping\"}\n\n",
        _ => ": OPENROUTER PROCESSING\n\n",
    };
    let piece = sign.repeat(PIECE / sign.len()).into_bytes();
    let mut reader = ReplyReader::new(dialect);
    reader.push(event(dialect).as_bytes());
    let before = resident()?;
    for _ in 0..(megabytes << 20) / piece.len() {
        black_box(reader.push(&piece));
    }
    Some(resident()? - before)
}

fn main() {
    let signs = std::env::args().nth(1).and_then(|it| it.parse().ok());
    for (name, dialect) in DIALECTS {
        let stream = stream(dialect, MEGABYTES << 20);
        let payloads = payloads(&stream);
        for _ in 0..5 {
            let megabytes = MEGABYTES as f64;
            println!(
                "decode.read.{name} {:.6}",
                read(dialect, &stream) / megabytes
            );
            println!("decode.skip.{name} {:.6}", skip(&payloads) / megabytes);
        }
        if let Some(bytes) = growth(dialect, signs.unwrap_or(256)) {
            println!("decode.growth.{name} {bytes:.6}");
        }
    }
}
